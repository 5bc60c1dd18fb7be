// Symbols by name, and errors in words.
#include "runtime/cuda/cublaslt/Library.h"

#include <dlfcn.h>
#include <mutex>

namespace colossal::runtime {

Status CublasLtLibrary::load(const CudaLibrary &driver) {
  // A library of CUDA 13 needs a driver that knows it; those of 12 run with later drivers, too.
  std::string tried;
  void *handle = nullptr;
  for (const auto &[name, least] : {std::pair("libcublasLt.so.13", 13000), {"libcublasLt.so.12", 12000}})
    if (!handle && driver.versionNumber() >= least && !(handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)))
      tried += (tried.empty() ? "" : "; ") + std::string(::dlerror());
  if (!handle)
    return {Code::Unsupported, "cuBLASLt cannot be opened: " + tried +
                                   "; install NVIDIA's cuBLAS (of the CUDA toolkit, or by pip install "
                                   "nvidia-cublas) and name its folder "
                                   "in LD_LIBRARY_PATH"};
  std::string missing;
#define COLOSSAL_CUBLASLT_RESOLVE(type, symbol, arguments)                                                   \
  if (void *found = ::dlsym(handle, #symbol))                                                                \
    functions.symbol = reinterpret_cast<decltype(functions.symbol)>(found);                                  \
  else                                                                                                       \
    missing += (missing.empty() ? "" : ", ") + std::string(#symbol);
  COLOSSAL_CUBLASLT(COLOSSAL_CUBLASLT_RESOLVE)
#undef COLOSSAL_CUBLASLT_RESOLVE
  if (!missing.empty())
    return {Code::Unsupported, "cuBLASLt has no " + missing + "; that of CUDA 12 or newer is needed"};
  number = functions.cublasLtGetVersion();
  return {};
}

Status CublasLtLibrary::open(const CudaLibrary &driver, const CublasLtLibrary *&library) {
  static CublasLtLibrary opened;
  static Status status;
  static std::once_flag once;
  std::call_once(once, [&] { status = opened.load(driver); });
  library = status.ok() ? &opened : nullptr;
  return status;
}

std::string CublasLtLibrary::version() const {
  // 130002 of version 13.0.2.
  return std::to_string(number / 10000) + "." + std::to_string(number % 10000 / 100) + "." +
         std::to_string(number % 100);
}

Status CublasLtLibrary::check(cublaslt::Result result, const char *symbol) const {
  if (result == cublaslt::Success)
    return {};
  const char *words = functions.cublasLtGetStatusString(result),
             *name = functions.cublasLtGetStatusName(result);
  return {result == cublaslt::AllocFailed ? Code::OutOfMemory : Code::RankFailed,
          std::string(symbol) + " failed: " + (words ? words : "error") + " (" +
              (name ? std::string(name) : std::to_string(result)) + ")"};
}

} // namespace colossal::runtime
