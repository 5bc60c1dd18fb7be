// One GPU as its driver describes it.
#ifndef COLOSSAL_RUNTIME_CUDA_GPU_H
#define COLOSSAL_RUNTIME_CUDA_GPU_H

#include "runtime/cuda/Library.h"

namespace colossal::runtime {

struct Gpu {
  cuda::Ordinal ordinal = 0;
  int number = 0; ///< among those that the process sees
  std::string name;
  int major = 0, minor = 0; ///< compute capability
  int multiprocessors = 0;
  uint64_t memory = 0; ///< bytes
  bool emulated = false;

  /// "sm_90".
  std::string architecture() const { return "sm_" + std::to_string(10 * major + minor); }
  /// "cuda:0 NVIDIA H100 80GB HBM3 (sm_90)", and that it is emulated.
  std::string describe() const;
};

/// Fails where the GPU lacks what the runtime cannot do without.
Status describeGpu(const CudaLibrary &library, int number, Gpu &gpu);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_GPU_H
