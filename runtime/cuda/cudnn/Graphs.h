// Calls that are graphs of cuDNN: the routines "convolution.unpacked" and "attention" of a plan on one GPU.
#ifndef COLOSSAL_RUNTIME_CUDA_CUDNN_GRAPHS_H
#define COLOSSAL_RUNTIME_CUDA_CUDNN_GRAPHS_H

#include "runtime/cuda/Routine.h"
#include "runtime/cuda/cudnn/Engines.h"

namespace colossal::runtime {

/// What the routines of one GPU share. Calls come from its rank's thread, which has the GPU's context.
class CudnnGraphs {
public:
  /// Opens the library, which has to be there.
  static Status create(const CudaLibrary &driver, const Gpu &gpu, std::unique_ptr<CudnnGraphs> &made);
  ~CudnnGraphs();

  /// Of a validated call. Fails where the library has no engine for it. The routine ends before this.
  Status createRoutine(const plan::LibraryCall &call, std::unique_ptr<Routine> &routine);

  const CudaLibrary &driver;
  const CudnnLibrary &library;
  Algorithms &algorithms;
  const bool tunes; ///< timesAlgorithms of the GPU
  cudnn::Handle handle = nullptr;
  CudnnDescriptor device;

private:
  CudnnGraphs(const CudaLibrary &driver, const CudnnLibrary &library, Algorithms &algorithms, bool tunes)
      : driver(driver), library(library), algorithms(algorithms), tunes(tunes) {}
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_CUDNN_GRAPHS_H
