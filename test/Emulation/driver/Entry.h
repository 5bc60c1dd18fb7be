// The entry points, as the driver declares them.
#ifndef COLOSSAL_EMULATION_DRIVER_ENTRY_H
#define COLOSSAL_EMULATION_DRIVER_ENTRY_H

#include "Hooks.h"
#include "Machine.h"

#include <algorithm>

#define COLOSSAL_CUDA_EXPORT(symbol, arguments)                                                              \
  extern "C" __attribute__((visibility("default"))) Result symbol arguments;

namespace colossal::cuda {
COLOSSAL_CUDA_DRIVER(COLOSSAL_CUDA_EXPORT)
extern "C" __attribute__((visibility("default"))) unsigned long long colossalEmulatedInstructions();
extern "C" __attribute__((visibility("default"))) Result colossalEmulatedEnqueue(
    Stream stream, const char *what, EmulatedUse *uses, size_t count, EmulatedWork work, void *argument);
} // namespace colossal::cuda

#endif
