// Symbols by name, and errors in words.
#include "runtime/cuda/cudnn/Library.h"

#include <dlfcn.h>
#include <mutex>

namespace colossal::runtime {

Status CudnnLibrary::load(const char *path) {
  void *handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return {
        Code::Unsupported,
        std::string("cuDNN cannot be opened: ") + ::dlerror() +
            "; install NVIDIA's cuDNN 9.8 or newer (by pip install nvidia-cudnn-cu13, or -cu12 with a "
            "driver of CUDA 12) and name its folder in LD_LIBRARY_PATH, or compile the plan without --cudnn"};
  // As a flag, too: the static analyzer does not see that a string that was added to is not empty.
  bool complete = true;
  std::string missing;
#define COLOSSAL_CUDNN_RESOLVE(type, symbol, arguments)                                                      \
  if (void *found = ::dlsym(handle, #symbol))                                                                \
    functions.symbol = reinterpret_cast<decltype(functions.symbol)>(found);                                  \
  else {                                                                                                     \
    complete = false;                                                                                        \
    missing += (missing.empty() ? "" : ", ") + std::string(#symbol);                                         \
  }
  COLOSSAL_CUDNN(COLOSSAL_CUDNN_RESOLVE)
#undef COLOSSAL_CUDNN_RESOLVE
  if (!complete)
    return {Code::Unsupported, "cuDNN has no " + missing + "; version 9.8 or newer is needed"};
  number = functions.cudnnGetVersion();
  if (number < cudnn::leastVersion)
    return {Code::Unsupported, "cuDNN " + version() +
                                   " is too old: 9.8 or newer is needed; install it, or compile the plan "
                                   "without --cudnn"};
  return {};
}

Status CudnnLibrary::open(const CudnnLibrary *&library) {
  static CudnnLibrary opened;
  static Status status;
  static std::once_flag once;
  std::call_once(once, [] { status = opened.load("libcudnn.so.9"); });
  library = status.ok() ? &opened : nullptr;
  return status;
}

std::string CudnnLibrary::version() const {
  // 90800 of version 9.8.0.
  return std::to_string(number / 10000) + "." + std::to_string(number % 10000 / 100) + "." +
         std::to_string(number % 100);
}

Status CudnnLibrary::check(cudnn::Result result, const char *symbol) const {
  if (result == cudnn::Success)
    return {};
  const char *words = functions.cudnnGetErrorString(result);
  std::string text =
      std::string(symbol) + " failed: " + (words ? words : "error") + " (" + std::to_string(result) + ")";
  char reason[512] = "";
  functions.cudnnGetLastErrorString(reason, sizeof reason);
  if (*reason)
    text += ": " + std::string(reason);
  const bool memory = result == cudnn::HostAllocationFailed || result == cudnn::DeviceAllocationFailed;
  return {memory ? Code::OutOfMemory : Code::RankFailed, text};
}

} // namespace colossal::runtime
