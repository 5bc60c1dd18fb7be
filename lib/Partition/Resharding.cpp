//===- Resharding.cpp - from one layout of a tensor to another --------------===//
//
// Both layouts are brought to common factors; PathSearch walks between them. Paths are remembered.
//
//===----------------------------------------------------------------------===//
#include "colossal/Partition/Resharding.h"

#include "PathSearch.h"

#include "colossal/Plan/Volume.h"
#include "dialects/Dist/Loop.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>
#include <memory>
#include <tuple>

using namespace mlir;
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
// Common factors
//===----------------------------------------------------------------------===//

/// Evenly split factors as digits, one factor per axis, the rest behind them.
static Dim toDigits(DimShardingAttr attr, MeshAttr mesh) {
  Dim dim;
  for (FactorShardAttr factor : attr.getFactors()) {
    int64_t ranks = 1;
    for (unsigned axis : factor.getAxes())
      ranks *= mesh.getAxisSize(axis);
    if (factor.getAxes().empty() || factor.getSize() % ranks != 0 || factor.getSize() == 0) {
      dim.push_back({factor.getSize(), SmallVector<unsigned, 2>(factor.getAxes())});
      continue;
    }
    for (unsigned axis : factor.getAxes())
      dim.push_back({mesh.getAxisSize(axis), {axis}});
    if (factor.getSize() != ranks)
      dim.push_back({factor.getSize() / ranks, {}});
  }
  return dim;
}

/// Cuts factors of `dim` without axes so that its cuts are `cuts` (descending inner products, ending with 1).
/// False where a cut falls into a factor with axes or does not divide.
static bool refineTo(Dim &dim, ArrayRef<int64_t> cuts) {
  Dim refined;
  int64_t inner = 1;
  for (const ShardedFactor &place : dim)
    inner *= place.size;
  size_t next = 0;
  for (const ShardedFactor &place : dim) {
    int64_t outer = inner;
    inner /= place.size;
    SmallVector<int64_t, 4> inside;
    for (; next < cuts.size() && cuts[next] >= inner; ++next)
      inside.push_back(cuts[next]);
    if (place.axes.empty()) {
      for (int64_t cut : inside) {
        if (outer % cut != 0)
          return false;
        refined.push_back({outer / cut, {}});
        outer = cut;
      }
    } else {
      if (inside.size() != 1 || inside.front() != inner)
        return false;
      refined.push_back(place);
    }
  }
  dim = refined;
  return true;
}

namespace {
/// A factor of size 1 that carries axes (all but one rank hold padding only), at the cut where it stands.
struct Unit {
  int64_t cut;
  SmallVector<unsigned, 2> axes;
};
} // namespace

static SmallVector<Unit, 2> takeUnits(Dim &dim) {
  SmallVector<Unit, 2> units;
  if (llvm::none_of(dim, [](const ShardedFactor &place) { return place.size == 1; }))
    return units; // as nearly always
  Dim rest;
  int64_t inner = 1;
  for (const ShardedFactor &place : llvm::reverse(dim)) {
    if (place.size == 1)
      units.push_back({inner, place.axes});
    else
      rest.insert(rest.begin(), place);
    inner *= place.size;
  }
  dim = rest;
  return units;
}

/// Puts units back into both dimensions at their cuts; units of one dimension face empty ones of the other.
static bool putUnits(Dim &a, Dim &b, ArrayRef<Unit> ofA, ArrayRef<Unit> ofB) {
  if (ofA.empty() && ofB.empty())
    return true;
  Dim newA, newB;
  size_t placed = 0;
  int64_t inner = 1;
  auto putAt = [&](int64_t cut) {
    SmallVector<ShardedFactor, 2> onA, onB;
    for (const Unit &unit : ofA)
      if (unit.cut == cut)
        onA.push_back({1, unit.axes});
    for (const Unit &unit : ofB)
      if (unit.cut == cut)
        onB.push_back({1, unit.axes});
    placed += onA.size() + onB.size();
    size_t count = std::max(onA.size(), onB.size());
    onA.resize(count, {1, {}});
    onB.resize(count, {1, {}});
    newA.insert(newA.begin(), onA.rbegin(), onA.rend());
    newB.insert(newB.begin(), onB.rbegin(), onB.rend());
  };
  putAt(1);
  for (size_t i = a.size(); i-- > 0;) {
    newA.insert(newA.begin(), a[i]);
    newB.insert(newB.begin(), b[i]);
    inner *= a[i].size;
    putAt(inner);
  }
  a = newA;
  b = newB;
  return placed == ofA.size() + ofB.size();
}

/// Brings the two layouts of a dimension to the same factors. False where they have none in common.
static bool unify(Dim &a, Dim &b) {
  SmallVector<int64_t, 8> cuts;
  Dim refinedA = a, refinedB = b;
  SmallVector<Unit, 2> ofA = takeUnits(refinedA), ofB = takeUnits(refinedB);
  for (const Dim *dim : {&refinedA, &refinedB}) {
    int64_t inner = 1;
    for (const ShardedFactor &place : llvm::reverse(*dim)) {
      if (place.size == 0)
        return false;
      cuts.push_back(inner);
      inner *= place.size;
    }
  }
  llvm::sort(cuts, std::greater<>());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  if (!refineTo(refinedA, cuts) || !refineTo(refinedB, cuts) || !putUnits(refinedA, refinedB, ofA, ofB))
    return false;
  a = refinedA;
  b = refinedB;
  return true;
}

//===----------------------------------------------------------------------===//
// Resharder
//===----------------------------------------------------------------------===//

/// More renamings than this (of four equal axes) cost more than the searches that they save.
static constexpr size_t kMostRenamings = 24;

/// `cost` asked once for each group and number of bytes: paths share their steps.
static CollectiveCost remember(CollectiveCost cost) {
  struct Move {
    double bytes;
    uint64_t axes;
    MoveKind kind;
    bool operator==(const Move &other) const {
      return bytes == other.bytes && axes == other.axes && kind == other.kind;
    }
  };
  struct Hash {
    size_t operator()(const Move &move) const {
      uint64_t mixed = llvm::bit_cast<uint64_t>(move.bytes) * 0xff51afd7ed558ccd ^
                       (move.axes << 3 ^ static_cast<uint64_t>(move.kind)) * 0x9e3779b97f4a7c15;
      return mixed ^ mixed >> 32;
    }
  };
  constexpr unsigned kBits = 4; // of an axis, of which there are at most 16
  auto known = std::make_shared<std::unordered_map<Move, double, Hash>>();
  return [known, cost = std::move(cost)](MoveKind kind, double bytes, ArrayRef<unsigned> axes) {
    Move move{bytes, axes.size(), kind};
    if (axes.size() >= 64 / kBits)
      return cost(kind, bytes, axes);
    for (unsigned axis : axes)
      move.axes = move.axes << kBits | axis;
    move.axes ^= static_cast<uint64_t>(axes.size()) << 60;
    auto [it, isNew] = known->try_emplace(move);
    if (isNew)
      it->second = cost(kind, bytes, axes);
    return it->second;
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
  for (unsigned axis : order) {
    auto isLike = [&](unsigned other) {
      const int64_t loop = mesh.getLoopAxis();
      return axesAreAlike && mesh.getAxisSize(other) == mesh.getAxisSize(axis) &&
             static_cast<int64_t>(axis) != loop && static_cast<int64_t>(other) != loop;
    };
    firstAlike.push_back(
        *llvm::find_if(order, [&](unsigned other) { return other == axis || isLike(other); }));
    hasAlikeAxes |= firstAlike.back() != axis;
  }
  while (axesAreAlike && order.size() <= 6 && std::next_permutation(order.begin(), order.end()))
    if (isSameSize(order))
      renamings.push_back(order);
  if (renamings.size() >= kMostRenamings)
    renamings.clear();
  if (cost)
    cost = remember(std::move(cost));
  else
    cost = [mesh](MoveKind kind, double bytes, ArrayRef<unsigned> axes) {
      int64_t ranks = 1;
      for (unsigned axis : axes)
        ranks *= mesh.getAxisSize(axis);
      return getSentBytes(kind, bytes, ranks) + (isCollective(kind) ? 1.0 : 1e-3) + 1e-9 * bytes;
    };
}

static State makeState(ShardingAttr sharding, MeshAttr mesh) {
  State state;
  for (DimShardingAttr dim : sharding.getDims())
    state.dims.push_back(toDigits(dim, mesh));
  state.partial.assign(sharding.getPartialAxes().begin(), sharding.getPartialAxes().end());
  llvm::sort(state.partial);
  return state;
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

const ReshardPath *Resharder::find(ShardingAttr from, ShardingAttr to, unsigned elementBytes) {
  static const ReshardPath nothing;
  if (from == to)
    return &nothing;
  auto [it, isNew] = known.try_emplace({from.getAsOpaquePointer(), to.getAsOpaquePointer(), elementBytes});
  auto answer = [](const std::optional<ReshardPath> &path) { return path ? &*path : nullptr; };
  if (!isNew)
    return answer(it->second);
  if (from.getGlobalShape() != to.getGlobalShape())
    return nullptr;
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
    it->second = PathSearch(mesh, cost, goal, from.getPartialKind(), elementBytes).run(start);
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

static bool isPartialOver(ShardingAttr layout, int64_t axis) {
  return axis >= 0 && llvm::is_contained(layout.getPartialAxes(), static_cast<unsigned>(axis));
}

bool Resharder::isAccumulated(ShardingAttr from, ShardingAttr to) const {
  return isPartialOver(from, mesh.getLoopAxis()) && !isPartialOver(to, mesh.getLoopAxis());
}

ShardingAttr Resharder::getAccumulated(ShardingAttr from) const {
  SmallVector<unsigned> partial(from.getPartialAxes());
  llvm::erase(partial, static_cast<unsigned>(mesh.getLoopAxis()));
  return ShardingAttr::get(mesh.getContext(), from.getDims(), partial,
                           partial.empty() ? ReductionKind::Sum : from.getPartialKind());
}

ShardingAttr Resharder::getSliced(ShardingAttr from, ShardingAttr to) const {
  std::optional<LoopPlace> place = findLoop(to, mesh);
  if (!place || findLoop(from, mesh))
    return {};
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
    // The sums that a rank's turns have made, before ranks add theirs: so that is done once.
    if (from.getPartialKind() != ReductionKind::Sum || findLoop(to, mesh))
      return std::nullopt;
    Move move;
    move.kind = MoveKind::AllReduce;
    move.axes.push_back(static_cast<unsigned>(mesh.getLoopAxis()));
    move.times = turns;
    move.exposed = move.result = from.getLocalShape(mesh);
    path.moves.push_back(move);
    if (!append(find(getAccumulated(from), to, elementBytes), 1))
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
               : getCost(getAccumulated(from), to, elementBytes);
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

static constexpr int64_t kEndOfRun = -1;

/// What happens to a factor, as words: size, number of axes before, these, number after, these.
static void appendWords(std::vector<int64_t> &words, int64_t size, ArrayRef<unsigned> before,
                        ArrayRef<unsigned> after) {
  words.push_back(size);
  for (ArrayRef<unsigned> axes : {before, after}) {
    words.push_back(axes.size());
    words.insert(words.end(), axes.begin(), axes.end());
  }
}

/// Reads such words from place `i` on and leaves `i` behind them.
static int64_t readWords(ArrayRef<int64_t> words, size_t &i, SmallVector<unsigned, 2> &before,
                         SmallVector<unsigned, 2> &after) {
  int64_t size = words[i++];
  for (SmallVector<unsigned, 2> *axes : {&before, &after}) {
    auto count = static_cast<size_t>(words[i++]);
    axes->assign(words.begin() + i, words.begin() + i + count);
    i += count;
  }
  return size;
}

unsigned Resharder::getId(const std::vector<int64_t> &words) {
  auto [it, isNew] = idOfWords.try_emplace(words, wordsOf.size());
  unsigned id = it->second;
  if (!isNew)
    return id;
  wordsOf.push_back(&it->first); // map nodes stay where they are
  ChangeShape &shape = shapes.emplace_back();
  std::vector<int64_t> erased;
  for (size_t i = 0; i < words.size();) {
    if (words[i] == kEndOfRun) {
      erased.push_back(words[i++]);
      continue;
    }
    SmallVector<unsigned, 2> before, after;
    int64_t size = readWords(words, i, before, after);
    for (SmallVector<unsigned, 2> *axes : {&before, &after})
      for (unsigned &axis : *axes) {
        shape.axes.push_back(axis);
        axis = firstAlike[axis];
      }
    appendWords(erased, size, before, after);
  }
  shape.number = numberOfShape.try_emplace(std::move(erased), numberOfShape.size()).first->second;
  return id;
}

bool Resharder::Key::add(uint32_t id) {
  if (count == kMost)
    return false;
  unsigned at = count++;
  for (; at > 0 && ids[at - 1] > id; --at)
    ids[at] = ids[at - 1];
  ids[at] = id;
  return true;
}

bool Resharder::Key::operator==(const Key &other) const {
  return bytes == other.bytes && fromPartial == other.fromPartial && toPartial == other.toPartial &&
         ids == other.ids;
}

size_t Resharder::KeyHash::operator()(const Key &key) const {
  uint64_t hash =
      key.bytes ^ (static_cast<uint64_t>(key.fromPartial) << 32 | key.toPartial) * 0xff51afd7ed558ccd;
  for (unsigned i = 0; i < key.count; ++i)
    hash = (hash ^ hash >> 29 ^ key.ids[i]) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 32;
}

/// The names that a walk over a change gives to the axes that it meets, among those that are alike.
class Resharder::Renaming {
public:
  explicit Renaming(ArrayRef<unsigned> firstAlike) : firstAlike(firstAlike), names(firstAlike.size(), -1) {}
  unsigned operator[](unsigned axis) {
    if (names[axis] >= 0)
      return static_cast<unsigned>(names[axis]);
    unsigned name = firstAlike[axis];
    while (taken >> name & 1 || firstAlike[name] != firstAlike[axis])
      ++name;
    taken |= 1u << name;
    names[axis] = static_cast<int>(name);
    return name;
  }

private:
  ArrayRef<unsigned> firstAlike;
  SmallVector<int, 16> names;
  uint32_t taken = 0;
};

unsigned Resharder::rename(unsigned id, Renaming &names) {
  constexpr unsigned kBits = 5, kMostPacked = 7; // of an axis; beside the change
  const ChangeShape &shape = shapes[id];
  uint64_t packed = 0;
  for (unsigned axis : shape.axes)
    packed = packed << kBits | names[axis];
  packed |= static_cast<uint64_t>(id) << (kBits * kMostPacked);
  const bool isPacked = shape.axes.size() <= kMostPacked;
  if (isPacked)
    if (auto known = renamedIds.find(packed); known != renamedIds.end())
      return known->second;
  std::vector<int64_t> words;
  ArrayRef<int64_t> old = *wordsOf[id];
  for (size_t i = 0; i < old.size();) {
    if (old[i] == kEndOfRun) {
      words.push_back(old[i++]);
      continue;
    }
    SmallVector<unsigned, 2> before, after;
    int64_t size = readWords(old, i, before, after);
    for (SmallVector<unsigned, 2> *axes : {&before, &after})
      for (unsigned &axis : *axes)
        axis = names[axis];
    appendWords(words, size, before, after);
  }
  const unsigned renamed = getId(words); // may move `shape`
  if (isPacked)
    renamedIds[packed] = renamed;
  return renamed;
}

Resharder::Key Resharder::rename(const Key &key) {
  SmallVector<unsigned, Key::kMost> order(ArrayRef(key.ids).take_front(key.count));
  llvm::stable_sort(order, [&](unsigned a, unsigned b) { return shapes[a].number < shapes[b].number; });
  Renaming names(firstAlike);
  for (unsigned id : order)
    for (unsigned axis : shapes[id].axes)
      names[axis];
  Key renamed;
  renamed.bytes = key.bytes;
  for (unsigned id : order)
    renamed.add(rename(id, names));
  // Sums that stay, those that end, those that begin.
  for (uint32_t axes :
       {key.fromPartial & key.toPartial, key.fromPartial & ~key.toPartial, key.toPartial & ~key.fromPartial})
    for (unsigned axis = 0; axis < firstAlike.size(); ++axis)
      if (axes >> axis & 1) {
        const uint32_t name = 1u << names[axis];
        renamed.fromPartial |= key.fromPartial >> axis & 1 ? name : 0;
        renamed.toPartial |= key.toPartial >> axis & 1 ? name : 0;
      }
  return renamed;
}

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

const Resharder::DimChange &Resharder::getChange(DimShardingAttr from, DimShardingAttr to) {
  std::unique_ptr<DimChange> &change = changes[{from, to}];
  if (change)
    return *change;
  change = std::make_unique<DimChange>();
  Dim before = toDigits(from, mesh), after = toDigits(to, mesh);
  if (from != to && !unify(before, after)) {
    change->isForeign = true;
    return *change;
  }
  // A factor that has in both what it shall have is never touched: its axes stay, and none is brought there.
  std::vector<int64_t> words;
  auto endRun = [&] {
    if (!words.empty() && words.back() != kEndOfRun)
      words.push_back(kEndOfRun);
  };
  for (auto [have, want] : llvm::zip_equal(before, after)) {
    if (have.axes == want.axes) {
      change->unchanged *= getLocalSize(have.size, have.axes, mesh);
      endRun();
      continue;
    }
    appendWords(words, have.size, have.axes, want.axes);
  }
  endRun();
  if (!words.empty())
    change->id = getId(words);
  return *change;
}

double Resharder::search(const Key &key) {
  State start, goal;
  for (uint32_t id : ArrayRef(key.ids).take_front(key.count)) {
    ArrayRef<int64_t> words = *wordsOf[id];
    for (size_t i = 0; i < words.size(); ++i) {
      Dim before, after;
      while (words[i] != kEndOfRun) {
        SmallVector<unsigned, 2> have, want;
        int64_t size = readWords(words, i, have, want);
        before.push_back({size, have});
        after.push_back({size, want});
      }
      start.dims.push_back(before);
      goal.dims.push_back(after);
    }
  }
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis) {
    if (key.fromPartial >> axis & 1)
      start.partial.push_back(axis);
    if (key.toPartial >> axis & 1)
      goal.partial.push_back(axis);
  }
  return PathSearch(mesh, cost, goal, ReductionKind::Sum, static_cast<double>(key.bytes)).runForCost(start);
}

double Resharder::getCost(const Key &key) {
  if (key.count == 0 && key.fromPartial == key.toPartial)
    return 0;
  auto [known, isNew] = costs.try_emplace(key);
  double &own = known->second; // stays where it is
  if (!isNew)
    return own;
  if (!hasAlikeAxes)
    return own = search(key);
  const Key plain = rename(key);
  auto [like, isFirst] = costs.try_emplace(plain);
  if (isFirst || &like->second == &own)
    like->second = search(plain);
  return own = like->second;
}

double Resharder::getCost(ArrayRef<DimShardingAttr> from, uint32_t fromPartial, ArrayRef<DimShardingAttr> to,
                          uint32_t toPartial, unsigned elementBytes) {
  Key key;
  key.bytes = elementBytes;
  key.fromPartial = fromPartial;
  key.toPartial = toPartial;
  bool hasRoom = true;
  SmallVector<unsigned> foreign;
  for (auto [d, pair] : llvm::enumerate(llvm::zip_equal(from, to))) {
    const DimChange &change = getChange(std::get<0>(pair), std::get<1>(pair));
    if (change.isForeign)
      foreign.push_back(d);
    key.bytes *= change.unchanged;
    if (change.id != 0)
      hasRoom &= key.add(change.id);
  }
  if (foreign.empty() && hasRoom)
    return getCost(key);
  if (!hasRoom) // more dimensions change than a mesh has places for
    return std::numeric_limits<double>::infinity();
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
  if (!canBecomePartial(from, to) || from.getDims().size() != to.getDims().size())
    return std::numeric_limits<double>::infinity();
  if (mesh.getLoopAxis() >= 0 && (findLoop(from, mesh) || findLoop(to, mesh) || isAccumulated(from, to)))
    return getCostInLoop(from, to, elementBytes);
  return getCost(from.getDims(), getPartialMask(from), to.getDims(), getPartialMask(to), elementBytes);
}

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
  // Layouts of a dimension are few, so what happens to it is looked up once for each of them.
  size_t rank = tos.front().getDims().size();
  std::vector<SmallVector<DimShardingAttr>> distinct(rank);
  std::vector<unsigned> dimsOf; // per layout and dimension, its number among the distinct ones
  std::vector<uint32_t> partial;
  for (ShardingAttr to : tos) {
    for (auto [d, dim] : llvm::enumerate(to.getDims())) {
      auto *at = llvm::find(distinct[d], dim);
      dimsOf.push_back(at - distinct[d].begin());
      if (at == distinct[d].end())
        distinct[d].push_back(dim);
    }
    partial.push_back(getPartialMask(to));
  }
  std::vector<SmallVector<const DimChange *>> changesOf(rank);
  auto fill = [&](size_t row) {
    ShardingAttr from = froms[row];
    for (size_t d = 0; d < rank; ++d) {
      changesOf[d].clear();
      for (DimShardingAttr dim : distinct[d])
        changesOf[d].push_back(&getChange(from.getDims()[d], dim));
    }
    uint32_t fromPartial = getPartialMask(from);
    for (size_t column = 0; column < tos.size(); ++column) {
      double &own = all[row * tos.size() + column];
      if (own >= 0)
        continue;
      if ((fromPartial || partial[column]) && !canBecomePartial(from, tos[column])) {
        own = std::numeric_limits<double>::infinity();
        continue;
      }
      Key key;
      key.bytes = elementBytes;
      key.fromPartial = fromPartial;
      key.toPartial = partial[column];
      bool isPlain = true;
      for (size_t d = 0; d < rank && isPlain; ++d) {
        const DimChange &change = *changesOf[d][dimsOf[column * rank + d]];
        key.bytes *= change.unchanged;
        isPlain = !change.isForeign && (change.id == 0 || key.add(change.id));
      }
      own = isPlain ? getCost(key) : getCost(from, tos[column], elementBytes);
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
