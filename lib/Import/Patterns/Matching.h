//===- Matching.h - looking at values ---------------------------------------===//
//
// What patterns ask of a value: is it this op, this constant, this index expression.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_PATTERNS_MATCHING_H
#define COLOSSAL_LIB_IMPORT_PATTERNS_MATCHING_H

#include "../GraphBuilder.h"

namespace colossal {

/// The op that gives `value`, if it is elementwise of `kind`.
ElementwiseOp matchKind(mlir::Value value, ElementwiseKind kind);
/// The number that all elements of a constant are.
std::optional<double> matchSplat(mlir::Value value);
bool isSplat(mlir::Value value, double expected, double tolerance = 1e-6);
/// For a commutative op with one splat operand: the other operand, and the number.
std::optional<std::pair<mlir::Value, double>> matchWithSplat(ElementwiseOp op);

/// A product: number * factors. Divisions by numbers count as factors of the number.
struct Product {
  double number = 1;
  llvm::SmallVector<mlir::Value> factors;
};
/// Takes multiplications (and divisions by constants) apart; `value` itself if it is none.
Product takeProduct(mlir::Value value);

/// An integer tensor as a function of its index: constant + sum_d coefficients[d] * index[d].
struct Affine {
  llvm::SmallVector<int64_t> coefficients;
  int64_t constant = 0;
};
std::optional<Affine> matchAffine(mlir::Value value);
/// The parts of tuples [..., n], each as a function of the index without its last dimension, appended to
/// `parts`; false if some part is none.
bool matchTuples(mlir::Value tuples, llvm::SmallVectorImpl<Affine> &parts);
bool matchTuples(const HostTensor &tuples, llvm::SmallVectorImpl<Affine> &parts);

/// A boolean tensor [..., queries, keys] that is (key <= query + offset) in every matrix: the offset. Offsets
/// of keys - 1 and more hide nothing.
std::optional<int64_t> matchCausal(mlir::Value condition);

/// Without broadcasts, and reshapes that add dimensions of size 1 in front.
mlir::Value stripBroadcast(mlir::Value value);
/// Whether both elements of each pair in the last dimension are provably the same: of (i, i + half), or (2i,
/// 2i + 1) if `interleaved`.
bool hasEqualPairs(mlir::Value value, bool interleaved);
/// The reduction of `kind` that gives `value`, its reduced dimensions kept with size 1 by itself or by a
/// reshape.
ReduceOp matchKeptReduction(mlir::Value value, ReduceKind kind);
/// A location for what stands for `values` and `loc`.
mlir::Location fuseLocations(mlir::Location loc, mlir::ValueRange values);

} // namespace colossal

#endif // COLOSSAL_LIB_IMPORT_PATTERNS_MATCHING_H
