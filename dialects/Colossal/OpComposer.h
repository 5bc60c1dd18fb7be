//===- OpComposer.h - computations written as ops ---------------------------===//
//
// What is composed of the dialect's own ops is said here with few words: the stages of an op whose reduced
// dimension is split (Factor::staged), the gradients of ops, losses and updates. What comes out fuses and is
// laid out like any other ops.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_OPCOMPOSER_H
#define COLOSSAL_DIALECTS_COLOSSAL_OPCOMPOSER_H

#include "dialects/Colossal/Colossal.h"

namespace colossal {

/// Builds ops at one location; result types follow from operands.
class OpComposer {
public:
  OpComposer(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  /// Of the operands' broadcast shape and the first operand's element type.
  mlir::Value apply(ElementwiseKind kind, mlir::ValueRange operands, llvm::ArrayRef<double> params = {});
  mlir::Value add(mlir::Value a, mlir::Value b) { return apply(ElementwiseKind::Add, {a, b}); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return apply(ElementwiseKind::Sub, {a, b}); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return apply(ElementwiseKind::Mul, {a, b}); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return apply(ElementwiseKind::Div, {a, b}); }
  mlir::Value neg(mlir::Value a) { return apply(ElementwiseKind::Neg, {a}); }
  /// `value` times, or plus, a number.
  mlir::Value scale(mlir::Value value, double factor);
  mlir::Value shift(mlir::Value value, double summand);
  /// i1 of the operands' broadcast shape.
  mlir::Value compare(ElementwiseKind kind, mlir::Value a, mlir::Value b);
  mlir::Value compare(ElementwiseKind kind, mlir::Value a, double b) {
    return compare(kind, a, constant(b, a));
  }
  mlir::Value select(mlir::Value condition, mlir::Value yes, mlir::Value no);
  /// `value` where `condition` holds, else 0; and the other way round.
  mlir::Value keepWhere(mlir::Value condition, mlir::Value value) {
    return select(condition, value, constant(0, value));
  }
  mlir::Value dropWhere(mlir::Value condition, mlir::Value value) {
    return select(condition, constant(0, value), value);
  }
  mlir::Value cast(mlir::Value value, mlir::Type element);
  /// A tensor of the rank of `like` and its element type, all sizes 1.
  mlir::Value constant(double value, mlir::Value like);
  /// A tensor with one value everywhere, which takes no memory.
  mlir::Value fill(mlir::RankedTensorType type, double value);
  /// Reduces `axes`, which stay as dimensions of one element. `count`: what a mean divides by.
  mlir::Value reduce(ReduceKind kind, mlir::Value value, llvm::ArrayRef<int64_t> axes,
                     std::optional<int64_t> count = {});
  /// `indices` plus `offset` (index), or as they are where it is null; `sign`: -1 subtracts.
  mlir::Value shiftIndices(mlir::Value indices, mlir::Value offset, int64_t sign = 1);
  /// start + index along `axis`, of `shape`.
  mlir::Value iota(llvm::ArrayRef<int64_t> shape, mlir::Type element, int64_t axis, double start = 0);
  /// The identity matrix.
  mlir::Value identity(int64_t size, mlir::Type element);

  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);
  /// Right-aligned, sizes of 1 stretch.
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// `size` elements of dimension `axis` from `start`, `step` apart.
  mlir::Value slice(mlir::Value value, int64_t axis, int64_t start, int64_t size, int64_t step = 1);
  mlir::Value concat(mlir::ValueRange values, int64_t axis);
  /// Zeros before (`low`) and after; negative pads crop.
  mlir::Value pad(mlir::Value value, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> shape);
  /// Of the labels `resultDims`, as ContractOp has them.
  mlir::Value contract(mlir::Value lhs, llvm::ArrayRef<int64_t> lhsDims, mlir::Value rhs,
                       llvm::ArrayRef<int64_t> rhsDims, llvm::ArrayRef<int64_t> resultDims,
                       mlir::Type element);
  /// The transpose of broadcasting a tensor of `shape` to that of `value`: sums what was repeated.
  mlir::Value sumTo(mlir::Value value, llvm::ArrayRef<int64_t> shape);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

/// The shape to which operands broadcast: right-aligned; sizes of 1 stretch.
llvm::SmallVector<int64_t> getBroadcastShape(mlir::ValueRange operands);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_OPCOMPOSER_H
