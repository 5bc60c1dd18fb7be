//===- LibraryCalls.h - what a device's library is called for -----------------===//
#ifndef COLOSSAL_LIB_PLAN_LIBRARYCALLS_H
#define COLOSSAL_LIB_PLAN_LIBRARYCALLS_H

#include "colossal/Plan/Plan.pb.h"
#include "mlir/IR/Operation.h"

#include <optional>

namespace colossal::plan {

struct LibraryRoutine {
  mlir::ArrayAttr buffers;   ///< of the plan dialect, in the order of the call's
  unsigned leastVersion = 1; ///< of the plan format, the first that has the routine
};

/// Writes the call that `op` is, but for its buffers; nothing where it is no call of a library.
std::optional<LibraryRoutine> describeLibraryCall(mlir::Operation *op, LibraryCall &out);

} // namespace colossal::plan

#endif // COLOSSAL_LIB_PLAN_LIBRARYCALLS_H
