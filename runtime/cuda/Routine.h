// What CudaQueue::call runs.
#ifndef COLOSSAL_RUNTIME_CUDA_ROUTINE_H
#define COLOSSAL_RUNTIME_CUDA_ROUTINE_H

#include "runtime/cuda/Abi.h"
#include "runtime/device/Device.h"

namespace colossal::runtime {

class CudaRoutine : public Routine {
public:
  /// As work of `stream`, on the buffers of the LibraryCall. The calling thread has the GPU's context.
  /// `recorded`: nothing may wait, or allocate.
  virtual Status enqueue(cuda::Stream stream, void *const *buffers, uint32_t count, bool recorded) = 0;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_ROUTINE_H
