//===- StagedOps.h - the stages of an op, written as ops ----------------------===//
//
// An op whose reduced dimension is split computes a part, exchanges statistics and finishes (Factor::staged).
// What it computes between is said by the dialect's own ops at local shapes, which fuse like any others.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_STAGEDOPS_H
#define COLOSSAL_DIALECTS_COLOSSAL_STAGEDOPS_H

#include "dialects/Colossal/Colossal.h"

namespace colossal {

/// Builds ops at one location; result types follow from operands.
class StagedOps {
public:
  StagedOps(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  /// Of the operands' broadcast shape and the first operand's element type.
  mlir::Value apply(ElementwiseKind kind, mlir::ValueRange operands);
  /// i1 of the operands' broadcast shape.
  mlir::Value compare(ElementwiseKind kind, mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value yes, mlir::Value no);
  mlir::Value cast(mlir::Value value, mlir::Type element);
  /// A tensor of the rank of `like` and its element type, all sizes 1.
  mlir::Value constant(double value, mlir::Value like);
  /// Reduces `axes`, which stay as dimensions of one element. `count`: what a mean divides by.
  mlir::Value reduce(ReduceKind kind, mlir::Value value, llvm::ArrayRef<int64_t> axes,
                     std::optional<int64_t> count = {});
  /// `indices` plus `offset` (index), or as they are where it is null.
  mlir::Value shiftIndices(mlir::Value indices, mlir::Value offset);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_STAGEDOPS_H
