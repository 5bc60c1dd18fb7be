// What the stand-in for the driver gives to stand-ins for libraries over it, which a real driver does not
// have. They find these by dlsym in the library that is loaded.
#ifndef COLOSSAL_EMULATION_DRIVER_HOOKS_H
#define COLOSSAL_EMULATION_DRIVER_HOOKS_H

#include "runtime/cuda/Abi.h"

namespace colossal::cuda {

/// Bytes of device memory that a library's work uses.
struct EmulatedUse {
  DevicePointer begin = 0;
  size_t bytes = 0;
  bool write = false;
  std::byte *data = nullptr; ///< filled in: where the emulator finds them
};

/// Runs on a stream's thread when the stream gets there, with the `uses` that were given and filled in.
using EmulatedWork = void (*)(void *argument, const EmulatedUse *uses);

/// Adds work to a stream, like a kernel of the library's. It may be in a capture, and then runs at each
/// replay. InvalidValue where a use lies in no allocation. `argument` belongs to the caller for ever.
using EmulatedEnqueue = Result (*)(Stream stream, const char *what, EmulatedUse *uses, size_t count,
                                   EmulatedWork work, void *argument);
constexpr const char *emulatedEnqueueName = "colossalEmulatedEnqueue";

} // namespace colossal::cuda

#endif
