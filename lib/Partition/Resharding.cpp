//===- Resharding.cpp - from one layout of a tensor to another --------------===//
//
// Both layouts are brought to common factors; PathSearch walks between them. Paths are remembered. Where only
// costs are asked for, ChangeCosts has them.
//
//===----------------------------------------------------------------------===//
#include "colossal/Partition/Resharding.h"

#include "ChangeCosts.h"
#include "PathSearch.h"

#include "colossal/Plan/Volume.h"
#include "dialects/Dist/Loop.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>
#include <memory>
#include <tuple>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

StringRef colossal::dist::stringify(MoveKind kind) {
  switch (kind) {
  case MoveKind::AllGather: return "all-gather";
  case MoveKind::AllReduce: return "all-reduce";
  case MoveKind::ReduceScatter: return "reduce-scatter";
  case MoveKind::AllToAll: return "all-to-all";
  case MoveKind::Slice: return "slice";
  case MoveKind::KeepFirst: return "keep-first";
  case MoveKind::LoopSlice: return "loop-slice";
  }
  return "";
}

double colossal::dist::getSentBytes(MoveKind kind, double bytes, int64_t ranks) {
  using colossal::plan::meanSentBytes, colossal::plan::Pattern;
  switch (kind) {
  case MoveKind::AllGather: return meanSentBytes(Pattern::AllGather, bytes, ranks);
  case MoveKind::ReduceScatter: return meanSentBytes(Pattern::ReduceScatter, bytes, ranks);
  case MoveKind::AllToAll: return meanSentBytes(Pattern::AllToAll, bytes, ranks);
  case MoveKind::AllReduce: return meanSentBytes(Pattern::AllReduce, bytes, ranks);
  case MoveKind::Slice:
  case MoveKind::KeepFirst:
  case MoveKind::LoopSlice: return 0;
  }
  return 0;
}

unsigned colossal::dist::getElementBytes(Type type) {
  return (type.getIntOrFloatBitWidth() + 7) / 8;
}

//===----------------------------------------------------------------------===//
// Resharder
//===----------------------------------------------------------------------===//

/// More renamings than this (of four equal axes) cost more than the searches that they save.
static constexpr size_t kMostRenamings = 24;

/// `cost` asked once for each group and number of bytes: paths share their steps.
static cost::PlacementCost remember(CollectiveCost cost) {
  constexpr unsigned kBits = 5,
                     kMostPacked = 11; // of an axis, of which there are at most 32; beside the kind
  auto known = std::make_shared<llvm::DenseMap<std::pair<uint64_t, uint64_t>, double>>();
  return [known, cost = std::move(cost)](MoveKind kind, double bytes, const cost::AxisList &axes) {
    auto ask = [&] { return cost(kind, bytes, SmallVector<unsigned, 8>(axes.begin(), axes.end())); };
    if (axes.size() > kMostPacked)
      return ask();
    uint64_t move = axes.size() << 3 | static_cast<uint64_t>(kind);
    for (unsigned axis : axes)
      move = move << kBits | axis;
    auto [at, isNew] = known->try_emplace({llvm::bit_cast<uint64_t>(bytes), move}, 0);
    if (isNew)
      at->second = ask();
    return at->second;
  };
}

Resharder::Resharder(MeshAttr mesh, CollectiveCost given, bool axesAreAlike)
    : mesh(mesh), cost(std::move(given)) {
  SmallVector<unsigned, 4> order;
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
    order.push_back(axis);
  auto isSameSize = [&](const SmallVector<unsigned, 4> &names) {
    return llvm::all_of(llvm::enumerate(names), [&](auto renamed) {
      auto isLoop = [&](unsigned axis) { return static_cast<int64_t>(axis) == mesh.getLoopAxis(); };
      return mesh.getAxisSize(renamed.index()) == mesh.getAxisSize(renamed.value()) &&
             isLoop(renamed.index()) == isLoop(renamed.value());
    });
  };
  while (axesAreAlike && order.size() <= 6 && std::next_permutation(order.begin(), order.end()))
    if (isSameSize(order))
      renamings.push_back(order);
  if (renamings.size() >= kMostRenamings)
    renamings.clear();
  if (!cost)
    cost = [mesh](MoveKind kind, double bytes, ArrayRef<unsigned> axes) {
      int64_t ranks = 1;
      for (unsigned axis : axes)
        ranks *= mesh.getAxisSize(axis);
      return getSentBytes(kind, bytes, ranks) + (isCollective(kind) ? 1.0 : 1e-3) + 1e-9 * bytes;
    };
  price = remember(cost);
  changes = std::make_unique<ChangeCosts>(mesh, price, axesAreAlike);
}

Resharder::~Resharder() = default;

bool dist::boundsMoves(MeshAttr mesh) {
  constexpr unsigned kMostUnbounded = 6;
  unsigned axes = 0;
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
    axes += mesh.getAxisSize(axis) > 1 && static_cast<int64_t>(axis) != mesh.getLoopAxis();
  return axes > kMostUnbounded;
}

unsigned dist::countFreeAxes(MeshAttr mesh) {
  constexpr unsigned kFree = 3;
  return boundsMoves(mesh) ? kFree : cost::Placement::kMaxAxes;
}

/// What is partial in `to` must be so in `from`, or become it: a value is made an addend of a sum, not of a
/// maximum.
static bool canBecomePartial(ShardingAttr from, ShardingAttr to) {
  if (!to.isPartial() || (from.isPartial() && from.getPartialKind() == to.getPartialKind() &&
                          llvm::all_of(to.getPartialAxes(), [&](unsigned axis) {
                            return llvm::is_contained(from.getPartialAxes(), axis);
                          })))
    return true;
  return to.getPartialKind() == ReductionKind::Sum &&
         (!from.isPartial() || from.getPartialKind() == ReductionKind::Sum);
}

static bool isPartialOver(ShardingAttr layout, int64_t axis) {
  return axis >= 0 && llvm::is_contained(layout.getPartialAxes(), static_cast<unsigned>(axis));
}

bool Resharder::entersSum(ShardingAttr from, ShardingAttr to) const {
  return isPartialOver(to, mesh.getLoopAxis()) && !isPartialOver(from, mesh.getLoopAxis());
}

const ReshardPath *Resharder::find(ShardingAttr from, ShardingAttr to, unsigned elementBytes) {
  static const ReshardPath nothing;
  if (from == to)
    return &nothing;
  auto [it, isNew] = known.try_emplace({from.getAsOpaquePointer(), to.getAsOpaquePointer(), elementBytes});
  auto answer = [](const std::optional<ReshardPath> &path) { return path ? &*path : nullptr; };
  if (!isNew)
    return answer(it->second);
  if (from.getGlobalShape() != to.getGlobalShape() || entersSum(from, to))
    return nullptr;
  if (isPartialOver(from, mesh.getLoopAxis()) && isPartialOver(to, mesh.getLoopAxis())) {
    // What a turn adds, before it does.
    const ReshardPath *ofTurn = find(getAccumulated(from), getAccumulated(to), elementBytes);
    if (!ofTurn)
      return nullptr;
    ReshardPath path = *ofTurn;
    for (Move &move : path.moves)
      move.times *= mesh.getNumTurns();
    path.cost *= static_cast<double>(mesh.getNumTurns());
    it->second = std::move(path); // map nodes stay where they are
    return answer(it->second);
  }
  if (findLoop(from, mesh) || findLoop(to, mesh) || isAccumulated(from, to)) {
    it->second = findInLoop(from, to, elementBytes); // map nodes stay where they are
    return answer(it->second);
  }
  State start = makeState(from, mesh), goal = makeState(to, mesh);
  if (!canBecomePartial(from, to))
    return nullptr;
  SmallVector<unsigned> foreign; // dimensions without common factors
  for (unsigned d = 0; d < start.dims.size(); ++d)
    if (!unify(start.dims[d], goal.dims[d]))
      foreign.push_back(d);
  if (foreign.empty()) {
    it->second = PathSearch(mesh, goal, from.getPartialKind()).run(start, elementBytes, price);
    return answer(it->second);
  }
  // Gather the foreign dimensions, then go on from there.
  SmallVector<DimShardingAttr> dims(from.getDims());
  for (unsigned d : foreign) {
    int64_t size = from.getGlobalShape()[d];
    dims[d] = DimShardingAttr::get(mesh.getContext(), FactorShardAttr::get(mesh.getContext(), size, {}));
  }
  auto middle = ShardingAttr::get(mesh.getContext(), dims, from.getPartialAxes(), from.getPartialKind());
  if (middle == from || middle == to)
    return nullptr;
  const ReshardPath *first = find(from, middle, elementBytes), *second = find(middle, to, elementBytes);
  if (!first || !second)
    return nullptr;
  ReshardPath path = *first;
  path.moves.append(second->moves.begin(), second->moves.end());
  path.cost += second->cost;
  it->second = path; // map nodes stay where they are
  return answer(it->second);
}

//===----------------------------------------------------------------------===//
// Layouts over a loop axis
//===----------------------------------------------------------------------===//

bool Resharder::isAccumulated(ShardingAttr from, ShardingAttr to) const {
  return isPartialOver(from, mesh.getLoopAxis()) && !isPartialOver(to, mesh.getLoopAxis());
}

bool Resharder::isScatteredInTurns(ShardingAttr from, ShardingAttr to) const {
  auto isScattered = [&](unsigned axis) {
    return isPartialOver(from, axis) && llvm::any_of(to.getDims(), [&](DimShardingAttr dim) {
             return llvm::any_of(dim.getFactors(), [&](FactorShardAttr factor) {
               return llvm::is_contained(factor.getAxes(), axis);
             });
           });
  };
  return scattersInTurns && llvm::any_of(llvm::seq<unsigned>(mesh.getNumAxes()), isScattered);
}

ShardingAttr Resharder::getAccumulated(ShardingAttr from) const {
  SmallVector<unsigned> partial(from.getPartialAxes());
  llvm::erase(partial, static_cast<unsigned>(mesh.getLoopAxis()));
  return ShardingAttr::get(mesh.getContext(), from.getDims(), partial,
                           partial.empty() ? ReductionKind::Sum : from.getPartialKind());
}

/// Whether ranks have all of a dimension down to where the turns of a loop take their parts, whatever they
/// have of what lies inside these.
static bool hasWholeTurns(ShardingAttr sharding, LoopPlace place, MeshAttr mesh) {
  int64_t outer = 1;
  for (FactorShardAttr factor : sharding.getDims()[place.dim].getFactors()) {
    if (outer >= place.outer * place.size)
      break;
    if (!factor.getAxes().empty())
      return false;
    outer *= factor.getSize();
  }
  return static_cast<bool>(addLoop(sharding, place, mesh));
}

ShardingAttr Resharder::getSliced(ShardingAttr from, ShardingAttr to) const {
  std::optional<LoopPlace> place = findLoop(to, mesh);
  if (!place || findLoop(from, mesh))
    return {};
  if (hasWholeTurns(from, *place, mesh))
    return from;
  SmallVector<DimShardingAttr> dims(from.getDims());
  int64_t size = from.getGlobalShape()[place->dim];
  dims[place->dim] =
      DimShardingAttr::get(mesh.getContext(), FactorShardAttr::get(mesh.getContext(), size, {}));
  return ShardingAttr::get(mesh.getContext(), dims, from.getPartialAxes(), from.getPartialKind());
}

/// Whether a turn works on the same elements in both, which have the loop axis.
static bool areTurnsAlike(ShardingAttr from, ShardingAttr to, MeshAttr mesh) {
  LoopPlace a = *findLoop(from, mesh), b = *findLoop(to, mesh);
  return a.dim == b.dim && a.outer == b.outer &&
         getTurnSharding(from, mesh).getGlobalShape() == getTurnSharding(to, mesh).getGlobalShape();
}

std::optional<ReshardPath> Resharder::findInLoop(ShardingAttr from, ShardingAttr to, unsigned elementBytes) {
  const int64_t turns = mesh.getNumTurns();
  ReshardPath path;
  auto append = [&](const ReshardPath *part, int64_t times) {
    if (!part)
      return false;
    for (Move move : part->moves) {
      move.times *= times;
      path.moves.push_back(move);
    }
    path.cost += part->cost * static_cast<double>(times);
    return true;
  };
  if (isAccumulated(from, to)) {
    if (from.getPartialKind() != ReductionKind::Sum || findLoop(to, mesh))
      return std::nullopt;
    Move move;
    move.kind = MoveKind::AllReduce;
    move.axes.push_back(static_cast<unsigned>(mesh.getLoopAxis()));
    move.times = turns;
    const ReshardPath *between = find(getAccumulated(from), to, elementBytes);
    if (isScatteredInTurns(from, to)) {
      if (!append(between, turns))
        return std::nullopt;
      move.exposed = move.result = to.getLocalShape(mesh);
      path.moves.push_back(move);
      return path;
    }
    // The sums that a rank's turns have made, before ranks add theirs: so that is done once.
    move.exposed = move.result = from.getLocalShape(mesh);
    path.moves.push_back(move);
    if (!append(between, 1))
      return std::nullopt;
    return path;
  }
  if (findLoop(from, mesh)) {
    if (!findLoop(to, mesh) || !areTurnsAlike(from, to, mesh) ||
        !append(find(getTurnSharding(from, mesh), getTurnSharding(to, mesh), elementBytes), turns))
      return std::nullopt;
    return path;
  }
  ShardingAttr whole = getSliced(from, to);
  LoopPlace place = *findLoop(to, mesh);
  ShardingAttr over = addLoop(whole, place, mesh), part = getTurnSharding(over, mesh);
  if (!append(find(from, whole, elementBytes), 1))
    return std::nullopt;
  Move move;
  move.kind = MoveKind::LoopSlice;
  move.axes.push_back(static_cast<unsigned>(mesh.getLoopAxis()));
  move.ranks = move.times = turns;
  // The rows of the batch as a dimension of their own.
  for (auto [d, size] : llvm::enumerate(whole.getLocalShape(mesh))) {
    if (d != place.dim) {
      move.exposed.push_back(size);
      continue;
    }
    if (place.outer > 1)
      move.exposed.push_back(place.outer);
    move.splitDim = static_cast<int64_t>(move.exposed.size());
    move.exposed.push_back(place.size);
    if (int64_t inner = size / place.outer / place.size; inner > 1)
      move.exposed.push_back(inner);
  }
  move.splitSize = static_cast<int64_t>(llvm::divideCeil(place.size, turns)) * turns;
  move.result = part.getLocalShape(mesh);
  move.bytes = elementBytes;
  for (int64_t size : move.result)
    move.bytes *= static_cast<double>(size);
  path.moves.push_back(move);
  path.cost += cost(move.kind, move.bytes, move.axes) * static_cast<double>(turns);
  if (!append(find(part, getTurnSharding(to, mesh), elementBytes), turns))
    return std::nullopt;
  return path;
}

double Resharder::getCostInLoop(ShardingAttr from, ShardingAttr to, unsigned elementBytes) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto turns = static_cast<double>(mesh.getNumTurns());
  if (isAccumulated(from, to))
    return from.getPartialKind() != ReductionKind::Sum || findLoop(to, mesh)
               ? kNever
               : getCost(getAccumulated(from), to, elementBytes) * (isScatteredInTurns(from, to) ? turns : 1);
  if (findLoop(from, mesh)) {
    if (!findLoop(to, mesh) || !areTurnsAlike(from, to, mesh))
      return kNever;
    return turns * getCost(getTurnSharding(from, mesh), getTurnSharding(to, mesh), elementBytes);
  }
  ShardingAttr whole = getSliced(from, to),
               part = getTurnSharding(addLoop(whole, *findLoop(to, mesh), mesh), mesh);
  double bytes = elementBytes;
  for (int64_t size : part.getLocalShape(mesh))
    bytes *= static_cast<double>(size);
  const auto loop = static_cast<unsigned>(mesh.getLoopAxis());
  return getCost(from, whole, elementBytes) + turns * cost(MoveKind::LoopSlice, bytes, loop) +
         turns * getCost(part, getTurnSharding(to, mesh), elementBytes);
}

std::vector<double> Resharder::getCostsInLoop(ArrayRef<ShardingAttr> froms, ArrayRef<ShardingAttr> tos,
                                              unsigned elementBytes) {
  auto isLike = [&](ShardingAttr layout) {
    return findLoop(layout, mesh) && findLoop(froms.front(), mesh) &&
           areTurnsAlike(froms.front(), layout, mesh);
  };
  std::vector<double> all;
  if (llvm::all_of(froms, isLike) && llvm::all_of(tos, isLike)) {
    auto ofTurn = [&](ArrayRef<ShardingAttr> layouts) {
      return llvm::map_to_vector(layouts, [&](ShardingAttr layout) { return getTurnSharding(layout, mesh); });
    };
    all = getCosts(ofTurn(froms), ofTurn(tos), elementBytes);
    for (double &cost : all)
      cost *= static_cast<double>(mesh.getNumTurns());
    return all;
  }
  for (ShardingAttr from : froms)
    for (ShardingAttr to : tos)
      all.push_back(getCost(from, to, elementBytes));
  return all;
}

//===----------------------------------------------------------------------===//
// Costs of many pairs
//===----------------------------------------------------------------------===//

ArrayRef<ShardingAttr> Resharder::getRenamed(ShardingAttr layout) {
  auto [it, isNew] = renamedLayouts.try_emplace(layout);
  if (!isNew)
    return it->second;
  std::vector<ShardingAttr> all;
  for (ArrayRef<unsigned> names : renamings) {
    auto rename = [names](ArrayRef<unsigned> axes) {
      return SmallVector<unsigned, 4>(llvm::map_range(axes, [&](unsigned axis) { return names[axis]; }));
    };
    SmallVector<DimShardingAttr> dims;
    for (DimShardingAttr dim : layout.getDims()) {
      SmallVector<SmallVector<unsigned, 4>> axes;
      SmallVector<std::pair<int64_t, ArrayRef<unsigned>>> parts;
      for (FactorShardAttr factor : dim.getFactors())
        axes.push_back(rename(factor.getAxes()));
      for (auto [factor, renamed] : llvm::zip_equal(dim.getFactors(), axes))
        parts.push_back({factor.getSize(), renamed});
      dims.push_back(makeDimSharding(mesh.getContext(), parts));
    }
    SmallVector<unsigned, 4> partial = rename(layout.getPartialAxes());
    llvm::sort(partial);
    all.push_back(ShardingAttr::get(mesh.getContext(), dims, partial, layout.getPartialKind()));
  }
  return renamedLayouts[layout] = std::move(all);
}

double Resharder::getCost(ArrayRef<DimShardingAttr> from, uint32_t fromPartial, ArrayRef<DimShardingAttr> to,
                          uint32_t toPartial, unsigned elementBytes) {
  unsigned set = ChangeCosts::kNothing;
  int64_t bytes = elementBytes;
  SmallVector<unsigned> foreign;
  for (auto [d, pair] : llvm::enumerate(llvm::zip_equal(from, to))) {
    const ChangeCosts::Change &change = changes->getChange(std::get<0>(pair), std::get<1>(pair));
    if (change.isForeign)
      foreign.push_back(d);
    bytes *= change.unchanged;
    if (change.id != 0)
      set = changes->add(set, change.id);
  }
  if (foreign.empty())
    return changes->getCost(changes->addSums(set, fromPartial, toPartial), bytes);
  // As in find(): the foreign dimensions are gathered first.
  SmallVector<DimShardingAttr> middle(from);
  for (unsigned d : foreign) {
    int64_t size = 1;
    for (FactorShardAttr factor : from[d].getFactors())
      size *= factor.getSize();
    middle[d] = DimShardingAttr::get(mesh.getContext(), FactorShardAttr::get(mesh.getContext(), size, {}));
  }
  if (ArrayRef(middle) == from || (ArrayRef(middle) == to && fromPartial == toPartial))
    return std::numeric_limits<double>::infinity();
  return getCost(from, fromPartial, middle, fromPartial, elementBytes) +
         getCost(middle, fromPartial, to, toPartial, elementBytes);
}

static uint32_t getPartialMask(ShardingAttr layout) {
  uint32_t mask = 0;
  for (unsigned axis : layout.getPartialAxes())
    mask |= 1u << axis;
  return mask;
}

double Resharder::getCost(ShardingAttr from, ShardingAttr to, unsigned elementBytes) {
  if (from == to)
    return 0;
  if (!canBecomePartial(from, to) || from.getDims().size() != to.getDims().size() || entersSum(from, to))
    return std::numeric_limits<double>::infinity();
  if (isPartialOver(from, mesh.getLoopAxis()) && isPartialOver(to, mesh.getLoopAxis()))
    return getCost(getAccumulated(from), getAccumulated(to), elementBytes) *
           static_cast<double>(mesh.getNumTurns());
  if (mesh.getLoopAxis() >= 0 && (findLoop(from, mesh) || findLoop(to, mesh) || isAccumulated(from, to)))
    return getCostInLoop(from, to, elementBytes);
  return getCost(from.getDims(), getPartialMask(from), to.getDims(), getPartialMask(to), elementBytes);
}

namespace {
/// Layouts of one tensor by the layouts of its dimensions, of which there are few.
struct LayoutsByDim {
  explicit LayoutsByDim(ArrayRef<ShardingAttr> layouts) : distinct(layouts.front().getDims().size()) {
    for (ShardingAttr layout : layouts) {
      for (auto [d, dim] : llvm::enumerate(layout.getDims())) {
        auto *at = llvm::find(distinct[d], dim);
        numbers.push_back(at - distinct[d].begin());
        if (at == distinct[d].end())
          distinct[d].push_back(dim);
      }
      partial.push_back(getPartialMask(layout));
    }
  }
  /// The number of the layout of a dimension.
  unsigned get(size_t layout, size_t d) const { return numbers[layout * distinct.size() + d]; }

  std::vector<SmallVector<DimShardingAttr>> distinct; ///< by dimension
  std::vector<uint32_t> partial;                      ///< by layout the axes of its sums

private:
  std::vector<unsigned> numbers; ///< by layout and dimension
};
} // namespace

std::vector<double> Resharder::getCosts(ArrayRef<ShardingAttr> froms, ArrayRef<ShardingAttr> tos,
                                        unsigned elementBytes) {
  std::vector<double> all(froms.size() * tos.size(), -1);
  if (all.empty())
    return all;
  auto isOverLoop = [&](ShardingAttr layout) { return isPartialOver(layout, mesh.getLoopAxis()); };
  if (llvm::any_of(froms, isOverLoop)) {
    for (auto [row, from] : llvm::enumerate(froms))
      for (auto [column, to] : llvm::enumerate(tos))
        all[row * tos.size() + column] = getCost(from, to, elementBytes);
    return all;
  }
  if (mesh.getLoopAxis() >= 0 &&
      (llvm::any_of(froms, [&](ShardingAttr from) { return findLoop(from, mesh); }) ||
       llvm::any_of(tos, [&](ShardingAttr to) { return findLoop(to, mesh); })))
    return getCostsInLoop(froms, tos, elementBytes);
  const size_t rank = tos.front().getDims().size();
  const LayoutsByDim rows(froms), columns(tos);
  // What happens to each dimension, looked up once for each two of its layouts.
  std::vector<std::vector<const ChangeCosts::Change *>> changesOf(rank);
  for (size_t d = 0; d < rank; ++d)
    changesOf[d].resize(rows.distinct[d].size() * columns.distinct[d].size());
  // Neighbours begin alike, as layouts are in order: of a column and the one before, how many dimensions.
  std::vector<size_t> shared(tos.size(), 0);
  for (size_t column = 1; column < tos.size(); ++column)
    while (shared[column] < rank &&
           columns.get(column, shared[column]) == columns.get(column - 1, shared[column]))
      ++shared[column];
  /// The first dimensions of a row's way to a column.
  struct Way {
    unsigned set = ChangeCosts::kNothing;
    int64_t bytes = 0;
    bool isForeign = false;
  };
  std::vector<Way> ways(rank + 1);
  ways[0].bytes = elementBytes;
  auto extend = [&](const Way &way, size_t row, size_t column, size_t d) {
    const ChangeCosts::Change *&change =
        changesOf[d][rows.get(row, d) * columns.distinct[d].size() + columns.get(column, d)];
    if (!change)
      change = &changes->getChange(froms[row].getDims()[d], tos[column].getDims()[d]);
    Way next = way;
    next.bytes *= change->unchanged;
    next.isForeign |= change->isForeign;
    if (change->id != 0 && !next.isForeign)
      next.set = changes->add(way.set, change->id);
    return next;
  };
  auto fill = [&](size_t row) {
    ShardingAttr from = froms[row];
    size_t done = 0; // dimensions of `ways` that are those of the column
    for (size_t column = 0; column < tos.size(); ++column) {
      done = std::min(done, shared[column]);
      double &own = all[row * tos.size() + column];
      if (own >= 0)
        continue;
      const uint32_t fromPartial = rows.partial[row], toPartial = columns.partial[column];
      if ((fromPartial || toPartial) && !canBecomePartial(from, tos[column])) {
        own = std::numeric_limits<double>::infinity();
        continue;
      }
      for (; done < rank; ++done)
        ways[done + 1] = extend(ways[done], row, column, done);
      const Way &way = ways[rank];
      own = way.isForeign ? getCost(from, tos[column], elementBytes)
                          : changes->getCost(changes->addSums(way.set, fromPartial, toPartial), way.bytes);
    }
  };
  if (renamings.empty()) {
    for (size_t row = 0; row < froms.size(); ++row)
      fill(row);
    return all;
  }
  llvm::DenseMap<ShardingAttr, unsigned> rowOf;
  for (auto [row, from] : llvm::enumerate(froms))
    rowOf[from] = row;
  // Where each renaming takes each column: found for the first row, for all.
  llvm::DenseMap<ShardingAttr, unsigned> columnOf;
  for (auto [column, to] : llvm::enumerate(tos))
    columnOf[to] = column;
  std::vector<std::vector<int>> columnTo(renamings.size());
  for (ShardingAttr to : tos)
    for (auto [r, renamed] : llvm::enumerate(getRenamed(to))) {
      auto found = columnOf.find(renamed);
      columnTo[r].push_back(found == columnOf.end() ? -1 : static_cast<int>(found->second));
    }
  std::vector<char> isKnown(froms.size(), false);
  for (size_t row = 0; row < froms.size(); ++row) {
    if (isKnown[row])
      continue;
    fill(row);
    isKnown[row] = true;
    for (auto [r, renamed] : llvm::enumerate(getRenamed(froms[row]))) {
      auto found = rowOf.find(renamed);
      if (found == rowOf.end() || isKnown[found->second])
        continue;
      double *other = all.data() + found->second * tos.size();
      bool isWhole = true;
      for (size_t column = 0; column < tos.size(); ++column)
        if (int to = columnTo[r][column]; to >= 0)
          other[to] = all[row * tos.size() + column];
        else
          isWhole = false;
      // Layouts whose other names are not among them are left.
      if (!isWhole)
        fill(found->second);
      isKnown[found->second] = true;
    }
  }
  return all;
}
