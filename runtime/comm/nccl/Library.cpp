// Symbols by name, and errors in words.
#include "runtime/comm/nccl/Library.h"

#include <dlfcn.h>
#include <mutex>

namespace colossal::runtime {

Status NcclLibrary::load() {
  void *handle = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return {Code::Unsupported, std::string("NCCL cannot be opened: ") + ::dlerror()};
  std::string missing;
#define COLOSSAL_NCCL_RESOLVE(type, symbol, arguments)                                                       \
  if (void *found = ::dlsym(handle, #symbol))                                                                \
    functions.symbol = reinterpret_cast<decltype(functions.symbol)>(found);                                  \
  else                                                                                                       \
    missing += (missing.empty() ? "" : ", ") + std::string(#symbol);
  COLOSSAL_NCCL(COLOSSAL_NCCL_RESOLVE)
#undef COLOSSAL_NCCL_RESOLVE
  if (missing.empty())
    COLOSSAL_NCCL_CALL(*this, nullptr, ncclGetVersion, &number);
  if (!missing.empty() || number < nccl::leastVersion)
    return {Code::Unsupported, "NCCL is too old: " + (missing.empty() ? version() : "it has no " + missing) +
                                   "; 2.18 or newer is needed"};
  return {};
}

Status NcclLibrary::open(const NcclLibrary *&library) {
  static NcclLibrary opened;
  static Status status;
  static std::once_flag once;
  std::call_once(once, [] { status = opened.load(); });
  library = status.ok() ? &opened : nullptr;
  return status;
}

std::string NcclLibrary::version() const {
  return std::to_string(number / 10000) + "." + std::to_string(number % 10000 / 100) + "." +
         std::to_string(number % 100);
}

Status NcclLibrary::check(nccl::Result result, const char *symbol, nccl::Comm communicator) const {
  if (result == nccl::Success || result == nccl::InProgress)
    return {};
  std::string text = std::string(symbol) + " failed: " + functions.ncclGetErrorString(result);
  if (const char *last = communicator ? functions.ncclGetLastError(communicator) : nullptr; last && *last)
    text += " (" + std::string(last) + ")";
  return {Code::RankFailed, text};
}

} // namespace colossal::runtime
