// Memory of the CPU as a device: mapped, aligned, in huge pages where it is large.
#ifndef COLOSSAL_RUNTIME_CPU_MEMORY_H
#define COLOSSAL_RUNTIME_CPU_MEMORY_H

#include "runtime/device/Device.h"

namespace colossal::runtime {

Status allocateCpuMemory(uint64_t bytes, uint64_t alignment, std::unique_ptr<Allocation> &memory);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CPU_MEMORY_H
