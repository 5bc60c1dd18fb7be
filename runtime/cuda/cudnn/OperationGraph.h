// What a call of a plan computes as a graph of the library's: operations over tensors that have numbers.
#ifndef COLOSSAL_RUNTIME_CUDA_CUDNN_OPERATIONGRAPH_H
#define COLOSSAL_RUNTIME_CUDA_CUDNN_OPERATIONGRAPH_H

#include "colossal/Plan/Plan.pb.h"
#include "runtime/cuda/cudnn/Descriptor.h"

namespace colossal::runtime {

/// Numbers of tensors that are told by value, from the host's memory.
struct CudnnScalars {
  std::vector<int64_t> numbers;
  std::vector<uint32_t> words; ///< the bits of a float or an integer each
};

struct CudnnGraph {
  std::vector<CudnnDescriptor> parts; ///< what `graph` refers to
  CudnnDescriptor graph;              ///< finalized
  std::vector<int64_t> numbers;       ///< of the tensors in memory, as the call has their buffers
  CudnnScalars scalars;
};

/// Of a validated "convolution.unpacked". All tensors in memory begin at multiples of `alignment` bytes,
/// itself one of their elements'. No GPU is needed.
Status buildConvolution(const CudnnLibrary &library, const plan::Convolution &convolution, uint64_t alignment,
                        CudnnGraph &made);
/// The same of a validated "attention", but for its mask, which may lie anywhere. Needs a newer library than
/// convolutions do.
Status buildAttention(const CudnnLibrary &library, const plan::Attention &attention, uint64_t alignment,
                      CudnnGraph &made);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_CUDNN_OPERATIONGRAPH_H
