//===- Refinement.h - dimensions as products of factors ---------------------===//
//
// Which products each dimension of a function must be seen as, so that what one op can split, its neighbours
// can split in the same way. Search and partitioner number an op's factors as this analysis does.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_PARTITION_REFINEMENT_H
#define COLOSSAL_PARTITION_REFINEMENT_H

#include "dialects/Dist/FactorRule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <deque>

namespace colossal::dist {

/// An op's rule over refined factors. Every factor of the op's own rule is an ordered product of *parts*;
/// `rule` speaks of parts only. A dimension that fits a whole factor keeps it in one part.
struct RefinedRule {
  FactorRule own;
  FactorRule rule;
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 6> parts; ///< per own factor, its parts, outermost first
};

/// Refines all dimensions of `function` to a fixpoint.
///
/// A *cut* of a dimension of size n is a divisor d of n: the dimension is seen as (n / d) x d. Cuts of one
/// dimension form a chain under divisibility. They arise where an op's rule has several factors in a
/// dimension, and spread:
///  1. between a tensor's dimension and the factors of each op that uses or defines it, at the factors'
///  places;
///  2. through a factor to all dimensions that hold it.
/// A cut that is not in the chain of a dimension is dropped there, and so is one inside a factor that is
/// whole, windowed or not refinable, since nothing can be split there: the first cut found stays. A dimension
/// takes at most `kMaxCuts` cuts.
///
/// Example: %y (128 x 2304) = contract(%x, %w), sliced at 0, 768 and 1536 into three, each reshaped to 128 x
/// 12 x 64. The reshape cuts at 64, the slice passes that on and cuts at 768: contract's n has the parts 3,
/// 12, 64, and so has %w.
///
/// Each op is visited again only when a dimension of one of its tensors has a new cut: O(ops * kMaxCuts)
/// visits. Rules are made once for ops that are equal but for the values of their operands, as those of
/// repeated blocks are.
class RefinementAnalysis {
public:
  static constexpr unsigned kMaxCuts = 6;

  explicit RefinementAnalysis(mlir::func::FuncOp function);
  /// The refined rule of an op that implements ShardingRuleOpInterface. Ops share one object only if they are
  /// equal in name, attributes (parameters: those that are not their own) and types, and their tensors are
  /// cut alike, so that whatever follows from those holds for all of them.
  const RefinedRule &get(mlir::Operation *op) const { return *rules.find(op)->second; }
  /// Part sizes of each dimension of a tensor, outermost first; their product is the dimension.
  llvm::SmallVector<llvm::SmallVector<int64_t>> getParts(mlir::Value value) const;
  /// The bounds of these parts, as kCutsAttrName has them of an argument or a result; null where no dimension
  /// has several.
  mlir::ArrayAttr getCutsAttribute(mlir::Value value) const;

private:
  using Cuts = llvm::SmallVector<int64_t, 2>; ///< ascending, each divides the next, without 1 and the size
  std::deque<RefinedRule> distinct;
  llvm::DenseMap<mlir::Operation *, const RefinedRule *> rules;
  llvm::DenseMap<mlir::Value, unsigned> places; ///< of the first dimension of each value in `cuts`
  std::vector<Cuts> cuts;                       ///< by dimension

  /// The cuts that an attribute of an argument or result has.
  void takeCuts(mlir::Value value, mlir::Attribute attribute);
  /// Adds `cut` to the chain of a dimension (or factor) of `size`, if it fits; returns whether it is new.
  static bool addCut(Cuts &chain, int64_t size, int64_t cut);
  /// By dimension of a tensor; of what is no tensor, none.
  llvm::MutableArrayRef<Cuts> findCuts(mlir::Value value);
  /// None of a value that no op with a rule has.
  llvm::ArrayRef<Cuts> getCuts(mlir::Value value) const;
  /// Sets `factorCuts` to the cuts inside each factor of `rule` that the tensors of `op` have.
  void gatherFactorCuts(mlir::Operation *op, const FactorRule &rule,
                        llvm::SmallVectorImpl<Cuts> &factorCuts) const;
  /// Passes cuts between the tensors of `op`. Appends the values that got new ones to `changed`; `factorCuts`
  /// is room to work in.
  void visit(mlir::Operation *op, const FactorRule &rule, llvm::SmallVectorImpl<Cuts> &factorCuts,
             llvm::SmallVectorImpl<mlir::Value> &changed);
  static RefinedRule refine(const FactorRule &own, llvm::ArrayRef<Cuts> factorCuts);
};

/// Gives the analysis of a function: passes keep it (mlir::AnalysisManager) for those that come next and need
/// it, too. Layouts, which a search writes into attributes, change nothing of it.
using RefinementOf = llvm::function_ref<const RefinementAnalysis &(mlir::func::FuncOp)>;

} // namespace colossal::dist

#endif // COLOSSAL_PARTITION_REFINEMENT_H
