// Symbols by name.
#include "runtime/cuda/Library.h"

#include <dlfcn.h>
#include <mutex>

namespace colossal::runtime {

namespace {

template <class Address>
bool resolve(void *handle, const char *symbol, Address &address) {
  address = reinterpret_cast<Address>(::dlsym(handle, symbol));
  return address != nullptr;
}

} // namespace

Status CudaLibrary::load() {
  // The driver's own name: the unversioned one comes with the toolkit only, and may be a stub.
  void *handle = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return {Code::Unsupported, std::string("the NVIDIA driver cannot be opened: ") + ::dlerror()};
  std::string missing;
#define COLOSSAL_CUDA_RESOLVE(symbol, arguments)                                                             \
  if (!resolve(handle, #symbol, functions.symbol))                                                           \
    missing += (missing.empty() ? "" : ", ") + std::string(#symbol);
  COLOSSAL_CUDA_DRIVER(COLOSSAL_CUDA_RESOLVE)
#undef COLOSSAL_CUDA_RESOLVE
  if (!missing.empty())
    return {Code::Unsupported, "the NVIDIA driver is too old: libcuda.so.1 has no " + missing +
                                   "; CUDA 12.0 (driver 525) or newer is needed"};
  (void)resolve(handle, cuda::emulatedInstructionsName, emulatedInstructions);
  if (cuda::Result result = functions.cuInit(0); result != cuda::Success)
    return {Code::Unsupported, check(result, "cuInit").message()};
  COLOSSAL_CUDA_CALL(*this, cuDriverGetVersion, &number);
  COLOSSAL_CUDA_CALL(*this, cuDeviceGetCount, &count);
  return {};
}

Status CudaLibrary::open(const CudaLibrary *&library) {
  static CudaLibrary opened;
  static Status status;
  static std::once_flag once;
  std::call_once(once, [] { status = opened.load(); });
  library = status.ok() ? &opened : nullptr;
  return status;
}

std::string CudaLibrary::version() const {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

Status CudaLibrary::check(cuda::Result result, const char *symbol) const {
  if (result == cuda::Success)
    return {};
  const char *name = nullptr, *words = nullptr;
  std::string text = std::string(symbol) + " failed: ";
  if (functions.cuGetErrorString(result, &words) == cuda::Success && words)
    text += words;
  if (functions.cuGetErrorName(result, &name) == cuda::Success && name)
    text += " (" + std::string(name) + ")";
  else
    text += "error " + std::to_string(result);
  return {result == cuda::OutOfMemory ? Code::OutOfMemory : Code::RankFailed, text};
}

} // namespace colossal::runtime
