//===- Resharding.cpp - from one layout of a tensor to another --------------===//
//
// Both layouts are brought to common factors, then Dijkstra's algorithm walks over placements of axes. Moves carry all
// that emission needs, so that no state outlives the search.
//
//===----------------------------------------------------------------------===//
#include "colossal/Partition/Resharding.h"

#include "llvm/ADT/STLExtras.h"

#include <queue>

using namespace mlir;
using namespace colossal::dist;

namespace {
struct Place {
  int64_t size;
  SmallVector<unsigned, 2> axes;
  bool operator==(const Place &other) const { return size == other.size && axes == other.axes; }
};
using Dim = SmallVector<Place, 4>; ///< outermost first

/// A layout while axes move: the factors stay, their axes change.
struct State {
  SmallVector<Dim, 4> dims;
  SmallVector<unsigned, 2> partial;
};
} // namespace

StringRef colossal::dist::stringify(MoveKind kind) {
  switch (kind) {
  case MoveKind::AllGather:
    return "all-gather";
  case MoveKind::AllReduce:
    return "all-reduce";
  case MoveKind::ReduceScatter:
    return "reduce-scatter";
  case MoveKind::AllToAll:
    return "all-to-all";
  case MoveKind::Slice:
    return "slice";
  }
  return "";
}

double colossal::dist::getSentBytes(MoveKind kind, double bytes, int64_t ranks) {
  double share = static_cast<double>(ranks - 1) / ranks;
  switch (kind) {
  case MoveKind::AllGather:
  case MoveKind::ReduceScatter:
  case MoveKind::AllToAll:
    return share * bytes;
  case MoveKind::AllReduce:
    return 2 * share * bytes;
  case MoveKind::Slice:
    return 0;
  }
  return 0;
}

unsigned colossal::dist::getElementBytes(Type type) { return (type.getIntOrFloatBitWidth() + 7) / 8; }

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

/// Cuts factors of `dim` without axes so that its cuts are `cuts` (descending inner products, ending with 1). False where
/// a cut falls into a factor with axes or does not divide.
static bool refineTo(Dim &dim, ArrayRef<int64_t> cuts) {
  Dim refined;
  int64_t inner = 1;
  for (const Place &place : dim)
    inner *= place.size;
  size_t next = 0;
  for (const Place &place : dim) {
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
  for (const Place &place : llvm::reverse(dim)) {
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
    SmallVector<Place, 2> onA, onB;
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
    for (const Place &place : llvm::reverse(*dim)) {
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
// Search
//===----------------------------------------------------------------------===//

namespace {
/// One search between layouts of common factors.
class PathSearch {
public:
  PathSearch(MeshAttr mesh, const CollectiveCost &cost, State to, ReductionKind reduction, unsigned elementBytes)
      : mesh(mesh), cost(cost), to(std::move(to)), reduction(reduction), elementBytes(elementBytes) {}
  std::optional<ReshardPath> run(const State &from);

private:
  struct Visit {
    State state;
    double cost;
    int previous; ///< index of the visit it came from
    Move move;
  };
  using Key = std::vector<unsigned>;

  MeshAttr mesh;
  const CollectiveCost &cost;
  State to;
  ReductionKind reduction;
  unsigned elementBytes;
  std::vector<Visit> visits;
  std::map<Key, double> best;
  std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>> queue;
  int current = -1;

  Key getKey(const State &state) const;
  SmallVector<int64_t, 4> getShape(const State &state) const;
  double getBytes(const State &state) const;
  /// The axis that the target has next on factor `f` of dimension `d`, or -1.
  int64_t getNextAxis(const State &state, unsigned d, unsigned f) const;
  void expand();
  void push(State next, Move move);
  void gather(unsigned d, unsigned first, unsigned last);
  void scatter(MoveKind kind, unsigned d, unsigned f, unsigned axis);
  void exchange(unsigned fromDim, unsigned fromFactor, unsigned toDim, unsigned toFactor);
  void reduce(ArrayRef<unsigned> axes);
  int64_t localSize(const Place &place) const { return getLocalSize(place.size, place.axes, mesh); }
};
} // namespace

PathSearch::Key PathSearch::getKey(const State &state) const {
  Key key;
  for (const Dim &dim : state.dims)
    for (const Place &place : dim) {
      key.insert(key.end(), place.axes.begin(), place.axes.end());
      key.push_back(~0u);
    }
  key.insert(key.end(), state.partial.begin(), state.partial.end());
  return key;
}

SmallVector<int64_t, 4> PathSearch::getShape(const State &state) const {
  SmallVector<int64_t, 4> shape;
  for (const Dim &dim : state.dims) {
    shape.push_back(1);
    for (const Place &place : dim)
      shape.back() *= localSize(place);
  }
  return shape;
}

double PathSearch::getBytes(const State &state) const {
  double bytes = elementBytes;
  for (int64_t size : getShape(state))
    bytes *= size;
  return bytes;
}

int64_t PathSearch::getNextAxis(const State &state, unsigned d, unsigned f) const {
  ArrayRef<unsigned> have = state.dims[d][f].axes, want = to.dims[d][f].axes;
  return have.size() < want.size() && want.take_front(have.size()) == have
             ? static_cast<int64_t>(want[have.size()])
             : -1;
}

void PathSearch::push(State next, Move move) {
  move.result = getShape(next);
  for (unsigned axis : move.axes)
    move.ranks *= mesh.getAxisSize(axis);
  double bytes = move.kind == MoveKind::AllGather || move.kind == MoveKind::Slice ? getBytes(next)
                                                                                  : getBytes(visits[current].state);
  move.bytes = bytes;
  double total = visits[current].cost + cost(move.kind, bytes, move.axes);
  auto [it, isNew] = best.try_emplace(getKey(next), total);
  if (!isNew && it->second <= total)
    return;
  it->second = total;
  queue.push({total, static_cast<int>(visits.size())});
  visits.push_back({std::move(next), total, current, std::move(move)});
}

/// The local shape with dimension boundaries also before each of the factors `cuts` (pairs of dimension and factor,
/// ascending); `places` receives the exposed dimension that begins there.
static SmallVector<int64_t, 4> expose(const State &state, MeshAttr mesh, ArrayRef<std::pair<unsigned, unsigned>> cuts,
                                      SmallVectorImpl<int64_t> &places) {
  SmallVector<int64_t, 4> shape;
  for (auto [d, dim] : llvm::enumerate(state.dims)) {
    shape.push_back(1);
    bool isFirst = true;
    for (auto [f, place] : llvm::enumerate(dim)) {
      if (llvm::is_contained(cuts, std::pair<unsigned, unsigned>(d, f))) {
        bool isTaken = !places.empty() && places.back() == static_cast<int64_t>(shape.size()) - 1;
        if (!isFirst && (shape.back() != 1 || isTaken))
          shape.push_back(1);
        places.push_back(shape.size() - 1);
      }
      shape.back() *= getLocalSize(place.size, place.axes, mesh);
      isFirst = false;
    }
  }
  return shape;
}

void PathSearch::gather(unsigned d, unsigned first, unsigned last) {
  const State &state = visits[current].state;
  State next = state;
  Move move;
  move.kind = MoveKind::AllGather;
  if (first == last) {
    Place &place = next.dims[d][first];
    move.axes = {place.axes.pop_back_val()};
  } else {
    for (unsigned f = first; f <= last; ++f)
      move.axes.push_back(next.dims[d][f].axes.pop_back_val());
  }
  SmallVector<int64_t, 2> places;
  move.exposed = expose(state, mesh, {{d, first}}, places);
  move.gatherDim = places[0];
  // What follows the factors inside the exposed dimension stays; the factors grow to their size without the axes.
  int64_t before = 1, after = 1;
  for (unsigned f = first; f <= last; ++f) {
    before *= localSize(state.dims[d][f]);
    after *= localSize(next.dims[d][f]);
  }
  move.gatherSize = move.exposed[places[0]] / before * after;
  push(std::move(next), std::move(move));
}

void PathSearch::scatter(MoveKind kind, unsigned d, unsigned f, unsigned axis) {
  const State &state = visits[current].state;
  State next = state;
  llvm::erase(next.partial, axis);
  next.dims[d][f].axes.push_back(axis);
  Move move;
  move.kind = kind;
  move.axes = {axis};
  move.reduction = reduction;
  SmallVector<int64_t, 2> places;
  move.exposed = expose(state, mesh, {{d, f}}, places);
  move.splitDim = places[0];
  move.splitSize = move.exposed[places[0]] / localSize(state.dims[d][f]) * localSize(next.dims[d][f]) *
                   mesh.getAxisSize(axis);
  push(std::move(next), std::move(move));
}

void PathSearch::exchange(unsigned fromDim, unsigned fromFactor, unsigned toDim, unsigned toFactor) {
  const State &state = visits[current].state;
  State next = state;
  unsigned axis = next.dims[fromDim][fromFactor].axes.pop_back_val();
  next.dims[toDim][toFactor].axes.push_back(axis);
  Move move;
  move.kind = MoveKind::AllToAll;
  move.axes = {axis};
  std::pair<unsigned, unsigned> gatherAt(fromDim, fromFactor), splitAt(toDim, toFactor);
  SmallVector<int64_t, 2> places;
  move.exposed = expose(state, mesh, {gatherAt, splitAt}, places);
  bool gatherFirst = gatherAt < splitAt;
  move.gatherDim = places[gatherFirst ? 0 : 1];
  move.splitDim = places[gatherFirst ? 1 : 0];
  move.gatherSize = move.exposed[move.gatherDim] / localSize(state.dims[fromDim][fromFactor]) *
                    localSize(next.dims[fromDim][fromFactor]);
  move.splitSize = move.exposed[move.splitDim] / localSize(state.dims[toDim][toFactor]) *
                   localSize(next.dims[toDim][toFactor]) * mesh.getAxisSize(axis);
  push(std::move(next), std::move(move));
}

void PathSearch::reduce(ArrayRef<unsigned> axes) {
  State next = visits[current].state;
  llvm::erase_if(next.partial, [&](unsigned axis) { return llvm::is_contained(axes, axis); });
  Move move;
  move.kind = MoveKind::AllReduce;
  move.axes.assign(axes.begin(), axes.end());
  move.reduction = reduction;
  move.exposed = getShape(next);
  push(std::move(next), std::move(move));
}

void PathSearch::expand() {
  const State state = visits[current].state; // visits grows below
  uint32_t used = 0;
  for (unsigned axis : state.partial)
    used |= 1u << axis;
  for (const Dim &dim : state.dims)
    for (const Place &place : dim)
      for (unsigned axis : place.axes)
        used |= 1u << axis;
  SmallVector<unsigned, 2> ending;
  for (unsigned axis : state.partial)
    if (!llvm::is_contained(to.partial, axis))
      ending.push_back(axis);
  for (unsigned axis : ending)
    reduce({axis});
  if (ending.size() > 1)
    reduce(ending);
  for (auto [d, dim] : llvm::enumerate(state.dims))
    for (unsigned f = 0; f < dim.size(); ++f) {
      if (!dim[f].axes.empty() && dim[f].axes != to.dims[d][f].axes) {
        gather(d, f, f);
        // A run of fully split factors is gathered by one collective.
        auto isDigit = [&, d = d](unsigned g) {
          if (g >= state.dims[d].size() || state.dims[d][g].axes.size() != 1)
            return false;
          const Place &place = state.dims[d][g];
          return place.size == mesh.getAxisSize(place.axes.front()) && place.axes != to.dims[d][g].axes;
        };
        for (unsigned last = f + 1; isDigit(f) && isDigit(last); ++last)
          gather(d, f, last);
        unsigned axis = dim[f].axes.back();
        for (unsigned e = 0; e < state.dims.size(); ++e)
          for (unsigned g = 0; g < state.dims[e].size(); ++g)
            if ((e != d || g != f) && getNextAxis(state, e, g) == axis)
              exchange(d, f, e, g);
      }
      int64_t axis = getNextAxis(state, d, f);
      if (axis < 0)
        continue;
      if (llvm::is_contained(ending, static_cast<unsigned>(axis)))
        scatter(MoveKind::ReduceScatter, d, f, axis);
      else if (!(used >> axis & 1))
        scatter(MoveKind::Slice, d, f, axis);
    }
}

std::optional<ReshardPath> PathSearch::run(const State &from) {
  visits.push_back({from, 0, -1, Move()});
  best[getKey(from)] = 0;
  queue.push({0.0, 0});
  Key goal = getKey(to);
  while (!queue.empty()) {
    auto [total, index] = queue.top();
    queue.pop();
    Key key = getKey(visits[index].state);
    if (total > best[key])
      continue;
    if (key == goal) {
      ReshardPath path;
      path.cost = total;
      for (int i = index; visits[i].previous >= 0; i = visits[i].previous)
        path.moves.push_back(visits[i].move);
      std::reverse(path.moves.begin(), path.moves.end());
      return path;
    }
    current = index;
    expand();
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Resharder
//===----------------------------------------------------------------------===//

Resharder::Resharder(MeshAttr mesh, CollectiveCost given) : mesh(mesh), cost(std::move(given)) {
  if (!cost)
    cost = [mesh](MoveKind kind, double bytes, ArrayRef<unsigned> axes) {
      int64_t ranks = 1;
      for (unsigned axis : axes)
        ranks *= mesh.getAxisSize(axis);
      return getSentBytes(kind, bytes, ranks) + (kind == MoveKind::Slice ? 1e-3 : 1.0) + 1e-9 * bytes;
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
  for (unsigned axis : goal.partial)
    if (!llvm::is_contained(start.partial, axis) || from.getPartialKind() != to.getPartialKind())
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
