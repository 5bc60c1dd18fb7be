// NCCL, opened at run time.
#ifndef COLOSSAL_RUNTIME_COMM_NCCL_LIBRARY_H
#define COLOSSAL_RUNTIME_COMM_NCCL_LIBRARY_H

#include "colossal/Plan/Status.h"
#include "runtime/comm/nccl/Abi.h"

#include <string>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

class NcclLibrary {
public:
  /// The process's NCCL, opened at the first call; later ones say the same. It is never closed.
  static Status open(const NcclLibrary *&library);

  const nccl::Functions *operator->() const { return &functions; }
  /// "2.27.3"
  std::string version() const;
  /// What a call of `symbol` returned, in words; `communicator` may be null. InProgress is no error.
  Status check(nccl::Result result, const char *symbol, nccl::Comm communicator) const;

private:
  NcclLibrary() = default;
  Status load();

  nccl::Functions functions;
  int number = 0;
};

/// Calls `symbol` of an NcclLibrary and returns from the caller where it fails.
#define COLOSSAL_NCCL_CALL(library, communicator, symbol, ...)                                               \
  COLOSSAL_RETURN_IF_ERROR((library).check((library)->symbol(__VA_ARGS__), #symbol, communicator))

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_COMM_NCCL_LIBRARY_H
