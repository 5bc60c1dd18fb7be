// NVIDIA's GPUs as a kind of device; what the registry knows of them.
#ifndef COLOSSAL_RUNTIME_CUDA_DRIVER_H
#define COLOSSAL_RUNTIME_CUDA_DRIVER_H

#include "runtime/device/Registry.h"

namespace colossal::runtime {

/// Ranks of one process take the GPUs in turn; of several processes on a host each begins at the place that
/// its launcher gives it.
std::unique_ptr<Driver> createCudaDriver();

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_DRIVER_H
