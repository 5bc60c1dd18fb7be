//===- Foresight.h - what kernels a function will be, before ranks split it -===//
#ifndef COLOSSAL_SCHEDULE_FORESIGHT_H
#define COLOSSAL_SCHEDULE_FORESIGHT_H

#include "colossal/Codegen/Target.h"
#include "colossal/Layout/StorageLives.h"

namespace colossal::schedule {

/// Groups `function` into the kernels of `target` as the scheduler would, if one rank computed it as it
/// stands, and tells when its values lie in memory by the order of these. Collectives, which layouts bring
/// in, are not foreseen: they end kernels and need copies of their own.
layout::StorageLives foreseeStorage(mlir::func::FuncOp function, const codegen::Target &target,
                                    llvm::function_ref<bool(mlir::Operation *)> isRepeated);

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_FORESIGHT_H
