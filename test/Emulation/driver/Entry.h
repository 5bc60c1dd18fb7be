// The entry points, as the driver declares them.
#ifndef COLOSSAL_EMULATION_DRIVER_ENTRY_H
#define COLOSSAL_EMULATION_DRIVER_ENTRY_H

#include "Machine.h"

#include <algorithm>

#define COLOSSAL_CUDA_EXPORT(symbol, arguments)                                                              \
  extern "C" __attribute__((visibility("default"))) Result symbol arguments;

namespace colossal::cuda {
COLOSSAL_CUDA_DRIVER(COLOSSAL_CUDA_EXPORT)
extern "C" __attribute__((visibility("default"))) unsigned long long colossalEmulatedInstructions();
} // namespace colossal::cuda

#endif
