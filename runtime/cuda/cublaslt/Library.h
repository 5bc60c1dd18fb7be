// cuBLASLt, opened at run time: only plans that call it need it.
#ifndef COLOSSAL_RUNTIME_CUDA_CUBLASLT_LIBRARY_H
#define COLOSSAL_RUNTIME_CUDA_CUBLASLT_LIBRARY_H

#include "runtime/cuda/Library.h"
#include "runtime/cuda/cublaslt/Abi.h"

namespace colossal::runtime {

class CublasLtLibrary {
public:
  /// The process's library, opened at the first call; later ones say the same. It is never closed. Of the
  /// versions that are found it is the newest that `driver` can run.
  static Status open(const CudaLibrary &driver, const CublasLtLibrary *&library);

  const cublaslt::Functions *operator->() const { return &functions; }
  /// "13.0.2"
  std::string version() const;
  /// What a call of `symbol` returned, in words.
  Status check(cublaslt::Result result, const char *symbol) const;

private:
  CublasLtLibrary() = default;
  Status load(const CudaLibrary &driver);

  cublaslt::Functions functions;
  size_t number = 0;
};

/// Calls `symbol` of a CublasLtLibrary and returns from the caller where it fails.
#define COLOSSAL_CUBLASLT_CALL(library, symbol, ...)                                                         \
  COLOSSAL_RETURN_IF_ERROR((library).check((library)->symbol(__VA_ARGS__), #symbol))

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_CUBLASLT_LIBRARY_H
