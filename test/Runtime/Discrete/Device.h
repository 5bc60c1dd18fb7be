// A device for tests: a CPU whose memory the host cannot touch, as a GPU's.
//
// Every allocation is one memory file mapped twice: at the device's addresses, which the host may not access
// at all, and at others where kernels, library routines and transfers run. So whatever follows a device
// address on the host ends at once. Fresh memory is poisoned with bytes 0xFF (NaN, -1), work runs late and at
// random times, and pinned memory is read and written only then: what is read too early, reused too soon or
// not ordered by an event gives wrong results. Uploads and downloads take pinned memory only, and a host task
// that calls its device is refused, as CUDA would.
#ifndef COLOSSAL_TEST_RUNTIME_DISCRETE_DEVICE_H
#define COLOSSAL_TEST_RUNTIME_DISCRETE_DEVICE_H

#include "runtime/device/Registry.h"

namespace colossal::runtime {

/// Takes plans whose target is the CPU.
std::unique_ptr<Driver> createDiscreteDriver();

} // namespace colossal::runtime

#endif // COLOSSAL_TEST_RUNTIME_DISCRETE_DEVICE_H
