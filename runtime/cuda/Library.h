// The driver's library, opened at run time: a program starts where there is none, and says what is missing
// when it is asked for.
#ifndef COLOSSAL_RUNTIME_CUDA_LIBRARY_H
#define COLOSSAL_RUNTIME_CUDA_LIBRARY_H

#include "colossal/Plan/Status.h"
#include "runtime/cuda/Abi.h"

#include <cstring>
#include <string>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

class CudaLibrary {
public:
  /// The process's driver, opened and initialized at the first call; later ones say the same. It is never
  /// closed.
  static Status open(const CudaLibrary *&library);

  const cuda::Functions *operator->() const { return &functions; }
  /// Newest CUDA that the driver knows: "13.0".
  std::string version() const;
  /// The same as a number: 13000.
  int versionNumber() const { return number; }
  int deviceCount() const { return count; }
  /// Whether what was opened stands in for a driver (test/Emulation/driver).
  bool emulated() const { return emulatedInstructions != nullptr; }
  /// Instructions of PTX that the stand-in has executed; 0 elsewhere.
  uint64_t instructions() const { return emulatedInstructions ? emulatedInstructions() : 0; }

  /// What a call of `symbol` returned, in words.
  Status check(cuda::Result result, const char *symbol) const;

private:
  CudaLibrary() = default;
  Status load();

  cuda::Functions functions;
  cuda::EmulatedInstructions emulatedInstructions = nullptr;
  int number = 0, count = 0;
};

/// What the driver's numbers are to interfaces that speak of pointers: of device memory the host never
/// follows one.
template <class T>
T *pointerOf(uint64_t number) {
  T *pointer = nullptr;
  std::memcpy(static_cast<void *>(&pointer), &number, sizeof pointer);
  return pointer;
}

/// Calls `symbol` of a CudaLibrary and returns from the caller where it fails.
#define COLOSSAL_CUDA_CALL(library, symbol, ...)                                                             \
  COLOSSAL_RETURN_IF_ERROR((library).check((library)->symbol(__VA_ARGS__), #symbol))

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_LIBRARY_H
