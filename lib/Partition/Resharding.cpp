//===- Resharding.cpp - from one layout of a tensor to another --------------===//
//
// Both layouts are brought to common factors; PathSearch walks between them. Paths are remembered.
//
//===----------------------------------------------------------------------===//
#include "colossal/Partition/Resharding.h"

#include "PathSearch.h"

#include "colossal/Plan/Volume.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

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
  case MoveKind::KeepFirst: return 0;
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

Resharder::Resharder(MeshAttr mesh, CollectiveCost given, bool axesAreAlike)
    : mesh(mesh), cost(std::move(given)) {
  SmallVector<unsigned, 4> order;
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
    order.push_back(axis);
  auto isSameSize = [&](const SmallVector<unsigned, 4> &names) {
    return llvm::all_of(llvm::enumerate(names), [&](auto renamed) {
      return mesh.getAxisSize(renamed.index()) == mesh.getAxisSize(renamed.value());
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
// Costs of many pairs
//===----------------------------------------------------------------------===//

static constexpr int64_t kEndOfRun = -1;
static constexpr unsigned kAxisBits = 5; ///< of a number that holds a list of axes, each plus one

static int64_t packAxes(ArrayRef<unsigned> axes) {
  int64_t packed = 0;
  for (unsigned axis : axes)
    packed = packed << kAxisBits | (axis + 1);
  return packed;
}

static int64_t packPartial(uint32_t from, uint32_t to) {
  return static_cast<int64_t>(from) << 32 | to;
}

static SmallVector<unsigned, 2> unpackAxes(int64_t packed) {
  SmallVector<unsigned, 2> axes;
  for (; packed; packed >>= kAxisBits)
    axes.push_back((packed & ((1 << kAxisBits) - 1)) - 1);
  std::reverse(axes.begin(), axes.end());
  return axes;
}

unsigned Resharder::getId(const std::vector<int64_t> &words) {
  auto [it, isNew] = idOfWords.try_emplace(words, wordsOf.size());
  unsigned id = it->second;
  if (!isNew)
    return id;
  wordsOf.push_back(&it->first); // map nodes stay where they are
  renamedIds.emplace_back();
  std::vector<unsigned> ids;
  for (ArrayRef<unsigned> names : renamings) {
    std::vector<int64_t> renamed = words;
    for (size_t i = 0; i < words.size(); ++i)
      for (; words[i] != kEndOfRun; i += 3)
        for (size_t axes : {i + 1, i + 2}) {
          SmallVector<unsigned, 2> unpacked = unpackAxes(words[axes]);
          for (unsigned &axis : unpacked)
            axis = names[axis];
          renamed[axes] = packAxes(unpacked);
        }
    ids.push_back(getId(renamed)); // known words are renamed already: this ends
  }
  renamedIds[id] = std::move(ids);
  return id;
}

static uint32_t renameMask(uint32_t mask, ArrayRef<unsigned> names) {
  uint32_t renamed = 0;
  for (auto [axis, name] : llvm::enumerate(names))
    renamed |= (mask >> axis & 1) << name;
  return renamed;
}

bool Resharder::renameAxes() {
  bool isRenamed = false;
  size_t ids = key.size() - 2;
  SmallVector<int64_t, 12> given(key.begin(), key.end());
  for (auto [r, names] : llvm::enumerate(renamings)) {
    renamedKey.clear();
    for (size_t i = 0; i < ids; ++i)
      renamedKey.push_back(renamedIds[given[i]][r]);
    llvm::sort(renamedKey);
    renamedKey.push_back(packPartial(renameMask(given[ids] >> 32, names), renameMask(given[ids], names)));
    renamedKey.push_back(given.back());
    if (renamedKey < key) {
      std::swap(renamedKey, key);
      isRenamed = true;
    }
  }
  return isRenamed;
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
    words.insert(words.end(), {have.size, packAxes(have.axes), packAxes(want.axes)});
  }
  endRun();
  if (!words.empty())
    change->id = getId(words);
  return *change;
}

double Resharder::search(ArrayRef<int64_t> ids, uint32_t fromPartial, uint32_t toPartial,
                         double unchangedBytes) {
  State start, goal;
  for (int64_t id : ids) {
    ArrayRef<int64_t> words = *wordsOf[id];
    for (size_t i = 0; i < words.size(); ++i) {
      Dim before, after;
      for (; words[i] != kEndOfRun; i += 3) {
        before.push_back({words[i], unpackAxes(words[i + 1])});
        after.push_back({words[i], unpackAxes(words[i + 2])});
      }
      start.dims.push_back(before);
      goal.dims.push_back(after);
    }
  }
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis) {
    if (fromPartial >> axis & 1)
      start.partial.push_back(axis);
    if (toPartial >> axis & 1)
      goal.partial.push_back(axis);
  }
  return PathSearch(mesh, cost, goal, ReductionKind::Sum, unchangedBytes).runForCost(start);
}

double Resharder::getCost(ArrayRef<DimShardingAttr> from, uint32_t fromPartial, ArrayRef<DimShardingAttr> to,
                          uint32_t toPartial, unsigned elementBytes) {
  key.clear();
  int64_t unchanged = elementBytes;
  SmallVector<unsigned> foreign;
  for (auto [d, pair] : llvm::enumerate(llvm::zip_equal(from, to))) {
    const DimChange &change = getChange(std::get<0>(pair), std::get<1>(pair));
    if (change.isForeign)
      foreign.push_back(d);
    unchanged *= change.unchanged;
    if (change.id != 0) // the order of dimensions does not matter
      key.insert(llvm::upper_bound(key, change.id), change.id);
  }
  if (foreign.empty()) {
    if (key.empty() && fromPartial == toPartial)
      return 0;
    key.insert(key.end(), {packPartial(fromPartial, toPartial), unchanged});
    auto [it, isNew] = costs.try_emplace(key);
    if (isNew) {
      double &own = it->second; // stays where it is
      bool isRenamed = renameAxes();
      auto [least, isFirst] = isRenamed ? costs.try_emplace(key) : std::pair(it, true);
      if (isFirst) {
        auto partial = static_cast<uint64_t>(key[key.size() - 2]);
        least->second =
            search(ArrayRef(key).drop_back(2), partial >> 32, static_cast<uint32_t>(partial), unchanged);
      }
      return own = least->second;
    }
    return it->second;
  }
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

double Resharder::getCost(ShardingAttr from, ShardingAttr to, unsigned elementBytes) {
  if (from == to)
    return 0;
  uint32_t fromPartial = 0, toPartial = 0;
  for (unsigned axis : from.getPartialAxes())
    fromPartial |= 1u << axis;
  for (unsigned axis : to.getPartialAxes())
    toPartial |= 1u << axis;
  if (!canBecomePartial(from, to) || from.getDims().size() != to.getDims().size())
    return std::numeric_limits<double>::infinity();
  return getCost(from.getDims(), fromPartial, to.getDims(), toPartial, elementBytes);
}
