// A plan's modules on one rank's device, and the kernels in them by their number in the plan.
#ifndef COLOSSAL_RUNTIME_EXECUTE_MODULES_H
#define COLOSSAL_RUNTIME_EXECUTE_MODULES_H

#include "runtime/device/Device.h"

#include <vector>

namespace colossal::runtime {

class Modules {
public:
  /// Loads of every module of a validated plan the image that suits the device best, and finds the kernels.
  Status load(Device &device, const plan::Plan &plan, plan::ByteView code);
  Kernel kernel(uint32_t index) const { return kernels[index]; }

private:
  std::vector<std::shared_ptr<Image>> images;
  std::vector<Kernel> kernels;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_MODULES_H
