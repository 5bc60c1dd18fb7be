//===- Resharding.h - from one layout of a tensor to another ----------------===//
//
// The cheapest sequence of collectives that takes a tensor from one sharding to another: found as data, so
// that the search can ask for costs without IR, and emitted as ops by the partitioner.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_PARTITION_RESHARDING_H
#define COLOSSAL_PARTITION_RESHARDING_H

#include "colossal/Cost/PlacementSearch.h"
#include "dialects/Dist/Dist.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace colossal::dist {

class ChangeCosts;

using cost::isCollective;
using cost::MoveKind;
llvm::StringRef stringify(MoveKind kind);

/// One step, over a group of ranks that differ in `axes` only (ranked row-major over them, in their order).
///
/// The local tensor is seen as `exposed`, in which the factors that change are the leading parts of
/// dimensions of their own. `splitDim` is padded to `splitSize` elements and cut into one part per member;
/// parts that arrive along `gatherDim` are concatenated and cropped to `gatherSize` elements, which drops
/// what was padding. Then it is seen as `result`.
struct Move {
  MoveKind kind = MoveKind::Slice;
  llvm::SmallVector<unsigned, 2> axes;
  ReductionKind reduction = ReductionKind::Sum;
  int64_t ranks = 1; ///< members of a group
  llvm::SmallVector<int64_t, 4> exposed, result;
  int64_t splitDim = -1, splitSize = 0;
  int64_t gatherDim = -1, gatherSize = 0;
  /// Bytes of one rank's tensor: of the result for all-gather, slice and keep-first, of the input for the
  /// others.
  double bytes = 0;
  /// How often it is done in a run: in each turn of the loop, or once.
  int64_t times = 1;
};

struct ReshardPath {
  llvm::SmallVector<Move, 2> moves;
  double cost = 0; ///< of all moves, each as often as it is done
};

/// Seconds (or any other unit) that a collective takes over the group of `axes`; `bytes` as in Move. What
/// moves nothing between ranks costs a copy.
using CollectiveCost = std::function<double(MoveKind kind, double bytes, llvm::ArrayRef<unsigned> axes)>;

/// Bytes that one of `ranks` members sends in the mean, `bytes` as in Move: the formula of
/// colossal/Plan/Volume.h. A slice and keep-first send nothing.
double getSentBytes(MoveKind kind, double bytes, int64_t ranks);

/// Of how many axes that change between two layouts all ways are looked at; of more, one until so many are
/// left (cost::PlacementGraph). No bound on meshes of up to six axes.
unsigned countFreeAxes(MeshAttr mesh);
/// Is there such a bound on this mesh?
bool boundsMoves(MeshAttr mesh);

/// Finds and remembers paths on one mesh. The states of a search (colossal/Cost/PlacementSearch.h) are the
/// placements of axes on the factors that both layouts can be seen as (evenly split factors are digits: n
/// ranks on f elements are n:(axis) x f / n). Where the two layouts of a dimension have no common factors (an
/// axis would have to be cut in two, or an uneven factor), the dimension is gathered first.
///
/// Layouts over a loop axis (Loop.h) are those of a turn's part: it is brought from one to the other in each
/// turn, as a tensor of its own. What is the same in all turns is sliced first. What a turn made stays in the
/// loop: there is no path from a layout over the loop axis to one without it, or with it elsewhere. Only of
/// sums over the turns, which are partial over the loop axis, something leaves it: they are added up, turn
/// after turn, which an all-reduce over the loop axis stands for, and go on from there when the loop has
/// ended; a turn may bring its own to another layout of such a sum before. With setScattersInTurns, each turn
/// first brings its own to the layout that is wanted, where a rank has less of it there: more is moved, and
/// the sum takes less memory.
class Resharder {
public:
  /// Without a cost, bytes sent are minimised, then steps. `axesAreAlike`: the cost of a group depends on the
  /// sizes of its axes only, so that paths which differ in the names of equal axes are searched once.
  explicit Resharder(MeshAttr mesh, CollectiveCost cost = {}, bool axesAreAlike = false);
  ~Resharder();
  /// The cheapest path, owned by this object; null if `to` is partial otherwise than by sums where `from` is
  /// not so, or shapes differ.
  const ReshardPath *find(ShardingAttr from, ShardingAttr to, unsigned elementBytes);
  /// The cost of what find() gives, infinity where that is null. Made for whole tables of layouts: factors
  /// that do not change are left out, and what is left is searched once for all pairs of layouts that agree
  /// in it.
  double getCost(ShardingAttr from, ShardingAttr to, unsigned elementBytes);
  /// getCost() of each of `froms` (rows) to each of `tos`, all of one tensor. Where renaming axes that are
  /// alike turns one row into another, only one of the two is looked at.
  std::vector<double> getCosts(llvm::ArrayRef<ShardingAttr> froms, llvm::ArrayRef<ShardingAttr> tos,
                               unsigned elementBytes);
  MeshAttr getMesh() const { return mesh; }
  void setScattersInTurns(bool does) { scattersInTurns = does; }

private:
  /// Of layouts of which at least one is over the loop axis.
  std::optional<ReshardPath> findInLoop(ShardingAttr from, ShardingAttr to, unsigned elementBytes);
  double getCostInLoop(ShardingAttr from, ShardingAttr to, unsigned elementBytes);
  std::vector<double> getCostsInLoop(llvm::ArrayRef<ShardingAttr> froms, llvm::ArrayRef<ShardingAttr> tos,
                                     unsigned elementBytes);
  /// Whether what each turn makes in layout `from` is to be added up for `to`.
  bool isAccumulated(ShardingAttr from, ShardingAttr to) const;
  /// Whether what lies as `from` would have to become one of the turns' addends.
  bool entersSum(ShardingAttr from, ShardingAttr to) const;
  /// Whether each turn brings `from`, of sums over turns, to `to` before it adds up.
  bool isScatteredInTurns(ShardingAttr from, ShardingAttr to) const;
  /// `from` when that is done.
  ShardingAttr getAccumulated(ShardingAttr from) const;
  /// `from` as it lies before a turn takes its part of it for `to`: whole where the loop axis goes. Null
  /// where that cannot be.
  ShardingAttr getSliced(ShardingAttr from, ShardingAttr to) const;
  double getCost(llvm::ArrayRef<DimShardingAttr> from, uint32_t fromPartial,
                 llvm::ArrayRef<DimShardingAttr> to, uint32_t toPartial, unsigned elementBytes);
  /// `layout` by each of `renamings`.
  llvm::ArrayRef<ShardingAttr> getRenamed(ShardingAttr layout);

  MeshAttr mesh;
  bool scattersInTurns = false;
  CollectiveCost cost;
  cost::PlacementCost price; ///< `cost`, remembered
  std::map<std::tuple<const void *, const void *, unsigned>, std::optional<ReshardPath>> known;
  std::unique_ptr<ChangeCosts> changes;
  /// Other orders of axes that cost the same, where they are few.
  std::vector<llvm::SmallVector<unsigned, 4>> renamings;
  llvm::DenseMap<ShardingAttr, std::vector<ShardingAttr>> renamedLayouts;
};

/// Whether some factor of a layout is split into parts of which not all are full.
bool hasPadding(ShardingAttr sharding, MeshAttr mesh);

/// What a rank has of `global` in the layout `wanted`, where that is a constant whose elements are all equal,
/// so that nobody need send it; null elsewhere.
mlir::Value emitConstant(mlir::OpBuilder &builder, mlir::Value global, ShardingAttr wanted, MeshAttr mesh);

/// Emits a path on `local`: shard dialect collectives on the grid @mesh, colossal.reshape, pad and slice.
mlir::Value emitReshard(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value local,
                        const ReshardPath &path);

/// One collective on `local` over the groups of `axes`: joined on all of them, or all parts one behind the
/// other along `dim`, of which there are `ranks`.
mlir::Value emitAllReduce(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value local,
                          llvm::ArrayRef<unsigned> axes, ReductionKind reduction);
mlir::Value emitAllGather(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value local,
                          llvm::ArrayRef<unsigned> axes, int64_t dim, int64_t ranks);

/// Bytes an element takes in memory (i1 takes one).
unsigned getElementBytes(mlir::Type type);

/// Symbol of the shard.grid that collectives name.
inline constexpr llvm::StringLiteral kGridName = "mesh";

} // namespace colossal::dist

#endif // COLOSSAL_PARTITION_RESHARDING_H
