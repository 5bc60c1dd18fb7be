// cuDNN, opened at run time: only plans that were compiled for it need it.
#ifndef COLOSSAL_RUNTIME_CUDA_CUDNN_LIBRARY_H
#define COLOSSAL_RUNTIME_CUDA_CUDNN_LIBRARY_H

#include "runtime/cuda/Library.h"
#include "runtime/cuda/cudnn/Abi.h"

namespace colossal::runtime {

class CudnnLibrary {
public:
  /// The process's library, opened at the first call; later ones say the same. It is never closed.
  static Status open(const CudnnLibrary *&library);
  /// The one at `path`, for tests.
  Status load(const char *path);

  const cudnn::Functions *operator->() const { return &functions; }
  /// "9.8.0"
  std::string version() const;
  /// The same as a number: 90800.
  size_t versionNumber() const { return number; }
  /// What a call of `symbol` returned, in words, with what the library says of it.
  Status check(cudnn::Result result, const char *symbol) const;

private:
  cudnn::Functions functions;
  size_t number = 0;
};

/// Calls `symbol` of a CudnnLibrary and returns from the caller where it fails.
#define COLOSSAL_CUDNN_CALL(library, symbol, ...)                                                            \
  COLOSSAL_RETURN_IF_ERROR((library).check((library)->symbol(__VA_ARGS__), #symbol))

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_CUDNN_LIBRARY_H
