//===- Accumulate.h - the arithmetic of reductions --------------------------===//
//
// What a reduction kind does per element, at the start and at the end; shared by the pulled form of
// reductions and by kernels that reduce whole rows.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_REDUCTION_ACCUMULATE_H
#define COLOSSAL_DIALECTS_COLOSSAL_REDUCTION_ACCUMULATE_H

#include "dialects/Colossal/Colossal.h"

namespace colossal {

/// -inf, or the least value of an integer type.
double lowestOf(mlir::Type type);
/// inf, or the greatest value of an integer type.
Element highestOf(ElementEmitter &emitter, mlir::Type type);
/// The type in which elements of `type` accumulate.
mlir::Type accumulateType(ReduceKind kind, mlir::Type type);
/// What `reduceCombine` leaves unchanged.
Element reduceIdentity(ElementEmitter &emitter, ReduceKind kind, mlir::Type type);
/// What one element adds (its square, its absolute value, ...). log_sum_exp has two passes and none of these.
Element reduceTerm(ReduceKind kind, Element x);
Element reduceCombine(ReduceKind kind, Element a, Element b);
/// From the total of `count` elements to the result of `type`.
Element reduceFinish(ReduceKind kind, Element total, int64_t count, mlir::Type type);

/// top-k's order: x at place i comes before y at place j if it is greater (or less), or equal and its place
/// is lower. NaN counts as the greatest.
Element comesBefore(bool largest, Element x, Element i, Element y, Element j);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_REDUCTION_ACCUMULATE_H
