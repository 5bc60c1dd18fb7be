// The CPU as a kind of device; what the registry knows of it.
#ifndef COLOSSAL_RUNTIME_CPU_DRIVER_H
#define COLOSSAL_RUNTIME_CPU_DRIVER_H

#include "runtime/device/Registry.h"

namespace colossal::runtime {

/// Its devices share loaded images.
std::unique_ptr<Driver> createCpuDriver();

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CPU_DRIVER_H
