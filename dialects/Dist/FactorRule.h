//===- FactorRule.h - how an op's dimensions hang together ------------------===//
//
// The language in which ops say what may be split. A rule names *factors*; each dimension of each operand and
// result is an ordered product of factors, outermost first. Splitting a factor over mesh axes splits every
// dimension that holds it, at that factor's place. Search, partitioner and padding know nothing else about an
// op.
//
// Example, C[m,n] = sum_k A[m,k] B[k,n] with n = 3 * 12 * 64 because a split follows:
//   factors: 0 m (parallel), 1..3 n (parallel, sizes 3, 12, 64), 4 k (reduction, sum)
//   operands {{0},{4}}, {{4},{1,2,3}}; results {{0},{1,2,3}}
// An axis on factor 2 is tensor parallelism by heads; on 4, a partial result.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_DIST_FACTORRULE_H
#define COLOSSAL_DIALECTS_DIST_FACTORRULE_H

#include "dialects/Dist/Dist.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

namespace colossal::dist {

enum class FactorKind {
  Parallel, ///< each rank computes its part of every result that holds the factor
  /// Results are partial over the axes on it, but for those that hold it: of these each rank computes its
  /// part. Some result holds it not.
  Reduction,
  Whole, ///< must not be split
  /// No result holds it, and results are whole: the op itself joins what its parts found (Factor::staged).
  Joined,
  /// No tensor holds it. Over the axes on it some operands (Factor::carriers) are partial sums already, and
  /// the results are: the op is linear in these operands together, and what summing costs is left to whoever
  /// needs the sum.
  Carried
};

/// What the padding of an unevenly split factor must hold in the operands that carry it.
enum class PaddingFill {
  Any,    ///< nothing reads padding into valid results
  Zero,   ///< sums
  One,    ///< products
  Lowest, ///< maxima: -inf, or the type's least value
  Highest ///< minima
};

struct Factor {
  int64_t size = 1;
  FactorKind kind = FactorKind::Parallel;
  /// How partial results combine when a reduction factor is split.
  ReductionKind reduction = ReductionKind::Sum;
  PaddingFill padding = PaddingFill::Any;
  /// The local op needs the global index of its shard's first element (LocalContext::getOffset):
  /// vocabulary-parallel lookup, causal masks, ranges. Where it is seen as a product of parts, only the
  /// outermost part may be split.
  bool indexed = false;
  /// May be seen as a product of smaller factors, split at any of them. Factors that the op treats as one
  /// index range (windows, offsets) are not.
  bool refinable = true;
  /// The op works in stages where this is split: each rank computes its part, all exchange what is small
  /// (FactorRule::statistics), and each finishes its own. Results are then as if the factor were whole.
  bool staged = false;
  /// May be split only by axes that divide it.
  bool even = false;
  /// A windowed factor (convolution, pooling): the result's factor is split, and each rank needs the
  /// operand's range [start * stride - padLow, (start + extent - 1) * stride - padLow + window) of a
  /// dimension of `operandSize` elements, which is brought by an exchange. operandSize < 0: not windowed.
  int64_t operandSize = -1, stride = 1, padLow = 0, window = 1;
  double windowFill = 0.0;
  /// Of a carried factor: the operands that are partial over the axes on it.
  llvm::SmallVector<unsigned, 2> carriers;
  /// "batch", "m", "n", "k", "heads", "sequence", "vocabulary", "channels", "height", ...: for reports and
  /// pins.
  llvm::StringRef role = "";
};

/// What the ranks of an op exchange once over all axes on its staged factors: so many bytes for each *row*,
/// an element of the first operand with the staged factors taken out. Joined by an all-reduce, or gathered.
struct Statistic {
  double bytes = 0;
  bool isGathered = false;
};

using DimFactors = llvm::SmallVector<unsigned, 2>;      ///< one dimension: factors, outermost first
using TensorFactors = llvm::SmallVector<DimFactors, 4>; ///< one tensor
bool holds(const TensorFactors &tensor, unsigned factor);

struct FactorRule {
  llvm::SmallVector<Factor, 6> factors;
  llvm::SmallVector<TensorFactors, 3> operands; ///< one entry per operand; empty for non-tensors
  llvm::SmallVector<TensorFactors, 1> results;
  llvm::SmallVector<Statistic, 2> statistics; ///< in the order in which they are exchanged

  /// Adds a factor and returns its index.
  unsigned add(int64_t size, FactorKind kind = FactorKind::Parallel, llvm::StringRef role = "");
  /// Adds a carried factor: the op is linear in `operands` together, the others being held fixed. Results
  /// must be of a type in which sums are sums (not i1).
  unsigned addCarried(llvm::ArrayRef<unsigned> operands);
  /// The rule in which nothing may be split: one whole factor per dimension of each tensor of `op`.
  static FactorRule makeWhole(mlir::Operation *op);
  /// Elementwise with right-aligned broadcasting: one parallel factor per dimension of the (single) result
  /// shape; operand dimensions of size 1 against a larger one hold no factor (an empty DimFactors means size
  /// 1, replicated).
  static FactorRule makePointwise(mlir::Operation *op);
  /// Marks `factor` as a reduction of that kind, with the padding that leaves it unchanged.
  void setReduction(unsigned factor, ReductionKind reduction);
  /// Problems of the rule against the op's types (products of sizes, kinds, duplicate factors in a tensor),
  /// or "".
  std::string check(mlir::Operation *op) const;
};

/// Which mesh axes (outer first) split each factor of a rule. Entry order is that of FactorRule::factors.
using Assignment = llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 6>;

/// The sharding that `rule` and `assignment` ask of operand (or give result) `factors`, without partial axes.
/// A windowed factor has its own extent in an operand, which is split into equal chunks until the exchange.
ShardingAttr getSharding(mlir::MLIRContext *context, const FactorRule &rule, const TensorFactors &factors,
                         const Assignment &assignment, bool isOperand = false);

/// What an op's buildLocal may ask while it is rebuilt at local shapes. Factors are numbered as in the rule
/// that the op itself gives; that an analysis may have cut a factor into a product of parts is hidden behind
/// this class.
class LocalContext {
public:
  virtual ~LocalContext() = default;
  /// The op's own rule.
  virtual const FactorRule &rule() const = 0;
  virtual MeshAttr mesh() const = 0;
  /// The local value of operand `i`, in the layout that rule and assignment ask for. An operand dimension
  /// with a windowed factor that is split holds exactly the window range of this rank.
  virtual mlir::Value operand(unsigned i) = 0;
  /// Padded local extent of a factor.
  virtual int64_t localSize(unsigned factor) const = 0;
  /// Padded local shape of result `i`.
  virtual llvm::SmallVector<int64_t> localResultShape(unsigned i) const = 0;
  /// The layout of result `i`, partial axes included.
  virtual ShardingAttr resultSharding(unsigned i) const = 0;
  /// Global index of the first element of this rank's part of an indexed `factor`, an index value; a null
  /// Value where the factor is not split (the offset is 0).
  virtual mlir::Value getOffset(mlir::OpBuilder &builder, unsigned factor) = 0;
  /// How many elements of this rank's part of an indexed `factor` are no padding, an index value; a null
  /// Value where all are, on every rank.
  virtual mlir::Value getValidCount(mlir::OpBuilder &builder, unsigned factor) = 0;
  /// The mesh axes that split any part of `factor`, outer first.
  virtual llvm::SmallVector<unsigned> axes(unsigned factor) const = 0;
  bool isSplit(unsigned factor) const { return !axes(factor).empty(); }
  /// The mesh axes that split staged factors, in the order of the factors; empty where the op has one stage.
  llvm::SmallVector<unsigned> stagedAxes() const;
  /// A statistic of all ranks along stagedAxes(): `part` joined by `reduction`, or all parts one behind the
  /// other along `dim`.
  virtual mlir::Value reduceStatistic(mlir::OpBuilder &builder, mlir::Value part,
                                      ReductionKind reduction) = 0;
  virtual mlir::Value gatherStatistic(mlir::OpBuilder &builder, mlir::Value part, int64_t dim) = 0;
  /// `value`, of the local shape of operand `i`, with what is padding along staged factors replaced by
  /// `fill`.
  virtual mlir::Value fillStagedPadding(mlir::OpBuilder &builder, mlir::Value value, unsigned i,
                                        PaddingFill fill) = 0;
};

/// `operand`, an addend of the result that must enter a sum over split reduction factors once only: kept on
/// the ranks whose coordinates on `axes` are all 0, zero elsewhere.
mlir::Value keepOnFirst(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value operand,
                        llvm::ArrayRef<unsigned> axes);

/// Default of ShardingRuleOpInterface::buildLocal.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
cloneWithLocalTypes(mlir::Operation *op, mlir::OpBuilder &builder, LocalContext &context);
/// Default of ShardingRuleOpInterface::getFlops.
double countResultElements(mlir::Operation *op);
/// Default of GradientOpInterface::getGradientFlops: the elements of a floating-point operand, else 0.
double countGradientElements(mlir::Operation *op, unsigned operand);

/// The layout in which an op produces the gradient of an operand: that of the operand (`factors` of `rule`),
/// partial over the axes that `assignment` puts on factors which the operand lacks. The gradient of a result
/// is asked for in the result's layout, replicated where the result is partial. Example: y = x w with w split
/// over n on `model` gives a gradient of x that is partial over `model`, which is Megatron's all-reduce of
/// the backward pass.
ShardingAttr getGradientSharding(mlir::MLIRContext *context, const FactorRule &rule,
                                 const TensorFactors &factors, const Assignment &assignment);

} // namespace colossal::dist

#include "dialects/Dist/Interfaces.h.inc"

#endif // COLOSSAL_DIALECTS_DIST_FACTORRULE_H
