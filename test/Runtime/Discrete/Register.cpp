// Makes the discrete device known to a test program. With COLOSSAL_TEST_DEVICE=discrete in the environment it
// takes the CPU's place there: plans for the CPU run on it. Only test programs look at the variable.
#include "Device.h"

#include <cstdlib>
#include <string>

namespace colossal::runtime {

static const bool registered = [] {
  const char *device = std::getenv("COLOSSAL_TEST_DEVICE");
  return registerDriver("discrete", createDiscreteDriver) &&
         (!device || std::string(device) != "discrete" || registerDriver("cpu", createDiscreteDriver));
}();

} // namespace colossal::runtime
