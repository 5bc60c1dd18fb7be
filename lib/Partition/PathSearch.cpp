//===- PathSearch.cpp - the cheapest moves between two layouts --------------===//
#include "PathSearch.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace mlir;
using namespace colossal::dist;

static unsigned countPlaces(const State &state) {
  unsigned places = 0;
  for (const Dim &dim : state.dims)
    places += dim.size();
  return places;
}

PathSearch::PathSearch(MeshAttr mesh, const CollectiveCost &cost, const State &to, ReductionKind reduction,
                       double elementBytes)
    : mesh(mesh), cost(cost), to(to), reduction(reduction), elementBytes(elementBytes),
      axes(mesh.getNumAxes()), wanted(countPlaces(to), axes), placed(countPlaces(to), axes) {
  assert(axes <= Placement::kMaxAxes && "the mesh attribute's verifier allows no more");
  for (auto [d, dim] : llvm::enumerate(to.dims))
    for (auto [f, place] : llvm::enumerate(dim)) {
      places.push_back({d, f});
      sizes.push_back(place.size);
    }
  for (unsigned axis = 0; axis < axes; ++axis)
    axisSizes.push_back(mesh.getAxisSize(axis));
  goal = encode(to);
  wanted.read(goal);
  visits.reserve(64);
  slots.assign(64, -1);
}

/// The least cost known of `placement`; infinity at first.
double &PathSearch::getBest(const Placement &placement) {
  if (2 * (best.size() + 1) > slots.size()) {
    slots.assign(2 * slots.size(), -1);
    for (auto [i, known] : llvm::enumerate(best)) {
      size_t at = known.first.hash(axes) % slots.size();
      while (slots[at] >= 0)
        at = (at + 1) % slots.size();
      slots[at] = i;
    }
  }
  size_t at = placement.hash(axes) % slots.size();
  for (; slots[at] >= 0; at = (at + 1) % slots.size())
    if (best[slots[at]].first == placement)
      return best[slots[at]].second;
  slots[at] = best.size();
  best.push_back({placement, std::numeric_limits<double>::infinity()});
  return best.back().second;
}

Placement PathSearch::encode(const State &state) const {
  Placement placement;
  unsigned place = 0;
  for (const Dim &dim : state.dims)
    for (const ShardedFactor &factor : dim) {
      for (auto [depth, axis] : llvm::enumerate(factor.axes))
        placement.put(axis, place, depth);
      ++place;
    }
  for (unsigned axis : state.partial)
    placement.setPartial(axis);
  return placement;
}

double PathSearch::getBytes(const Placement &placement) const {
  llvm::SmallVector<int64_t, 16> local(sizes.begin(), sizes.end());
  // Outer axes first, as each rounds up.
  unsigned deepest = 0;
  for (unsigned depth = 0; depth <= deepest; ++depth)
    for (unsigned axis = 0; axis < axes; ++axis) {
      if (!placement.isOnFactor(axis))
        continue;
      deepest = std::max(deepest, placement.depthOf(axis));
      if (placement.depthOf(axis) == depth)
        local[placement.placeOf(axis)] =
            (local[placement.placeOf(axis)] + axisSizes[axis] - 1) / axisSizes[axis];
    }
  double bytes = elementBytes;
  for (int64_t size : local)
    bytes *= size;
  return bytes;
}

int PathSearch::getNextAxis(unsigned place) const {
  ArrayRef<uint8_t> have = placed[place], want = wanted[place];
  return have.size() < want.size() && want.take_front(have.size()) == have ? want[have.size()] : -1;
}

/// Is it the result whose bytes make the cost of a move (Move::bytes)?
static bool countsResult(MoveKind kind) {
  return kind == MoveKind::AllGather || !isCollective(kind);
}

void PathSearch::push(const Placement &next, Transition step) {
  double bytes = getBytes(next);
  double total = visits[current].cost +
                 cost(step.kind, countsResult(step.kind) ? bytes : visits[current].bytes, step.axes);
  double &least = getBest(next);
  if (least <= total)
    return;
  least = total;
  queue.push({total, static_cast<int>(visits.size())});
  visits.push_back({next, total, bytes, current, std::move(step)});
}

void PathSearch::gather(unsigned first, unsigned last) {
  Placement next = visits[current].placement;
  Transition step;
  step.kind = MoveKind::AllGather;
  step.from = first;
  step.last = last;
  for (unsigned place = first; place <= last; ++place) {
    step.axes.push_back(placed[place].back());
    next.drop(step.axes.back());
  }
  push(next, std::move(step));
}

void PathSearch::expand() {
  const Placement here = visits[current].placement; // visits grows below
  placed.read(here);
  SmallVector<unsigned, 4> ending;
  for (unsigned axis = 0; axis < axes; ++axis)
    if (here.isPartial(axis) && !goal.isPartial(axis))
      ending.push_back(axis);
  auto reduce = [&](ArrayRef<unsigned> over) {
    Placement next = here;
    for (unsigned axis : over)
      next.drop(axis);
    push(next, {MoveKind::AllReduce, SmallVector<unsigned, 2>(over), 0, 0, 0});
  };
  for (unsigned axis : ending)
    reduce({axis});
  if (ending.size() > 1)
    reduce(ending);
  for (unsigned axis = 0; axis < axes; ++axis)
    if (goal.isPartial(axis) && here.isUnused(axis)) {
      Placement next = here;
      next.setPartial(axis);
      push(next, {MoveKind::KeepFirst, {axis}, 0, 0, 0});
    }
  for (unsigned place = 0; place < places.size(); ++place) {
    unsigned count = placed[place].size();
    if (count > 0 && !isAsWanted(place)) {
      gather(place, place);
      // A run of fully split factors is gathered by one collective.
      auto isDigit = [&](unsigned other) {
        if (other >= places.size() || places[other].first != places[place].first || placed[other].size() != 1)
          return false;
        return sizes[other] == axisSizes[placed[other].front()] && !isAsWanted(other);
      };
      for (unsigned last = place + 1; isDigit(place) && isDigit(last); ++last)
        gather(place, last);
      int axis = placed[place].back();
      for (unsigned other = 0; other < places.size(); ++other)
        if (other != place && getNextAxis(other) == axis) {
          Placement next = here;
          next.put(axis, other, placed[other].size());
          push(next, {MoveKind::AllToAll, {static_cast<unsigned>(axis)}, place, place, other});
        }
    }
    int axis = getNextAxis(place);
    if (axis < 0)
      continue;
    Placement next = here;
    next.put(axis, place, count);
    if (here.isPartial(axis) && !goal.isPartial(axis))
      push(next, {MoveKind::ReduceScatter, {static_cast<unsigned>(axis)}, 0, 0, place});
    else if (here.isUnused(axis))
      push(next, {MoveKind::Slice, {static_cast<unsigned>(axis)}, 0, 0, place});
  }
}

int PathSearch::walk(const State &from) {
  Placement start = encode(from);
  visits.push_back({start, 0, getBytes(start), -1, Transition()});
  getBest(start) = 0;
  queue.push({0.0, 0});
  while (!queue.empty()) {
    auto [total, index] = queue.top();
    queue.pop();
    if (total > getBest(visits[index].placement))
      continue;
    if (visits[index].placement == goal)
      return index;
    current = index;
    expand();
  }
  return -1;
}

double PathSearch::runForCost(const State &from) {
  int last = walk(from);
  return last < 0 ? std::numeric_limits<double>::infinity() : visits[last].cost;
}

std::optional<ReshardPath> PathSearch::run(const State &from) {
  int last = walk(from);
  if (last < 0)
    return std::nullopt;
  SmallVector<int> way;
  for (int i = last; visits[i].previous >= 0; i = visits[i].previous)
    way.push_back(i);
  ReshardPath path;
  path.cost = visits[last].cost;
  State state = from;
  for (int i : llvm::reverse(way)) {
    path.moves.push_back(apply(state, visits[i].step));
    Move &move = path.moves.back();
    move.bytes = countsResult(move.kind) ? visits[i].bytes : visits[visits[i].previous].bytes;
  }
  return path;
}

//===----------------------------------------------------------------------===//
// Steps as moves
//===----------------------------------------------------------------------===//

SmallVector<int64_t, 4> PathSearch::getShape(const State &state) const {
  SmallVector<int64_t, 4> shape;
  for (const Dim &dim : state.dims) {
    shape.push_back(1);
    for (const ShardedFactor &place : dim)
      shape.back() *= localSize(place);
  }
  return shape;
}

/// The local shape with dimension boundaries also before each of the factors `cuts` (pairs of dimension and
/// factor, ascending); `places` receives the exposed dimension that begins there.
static SmallVector<int64_t, 4> expose(const State &state, MeshAttr mesh,
                                      ArrayRef<std::pair<unsigned, unsigned>> cuts,
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

Move PathSearch::apply(State &state, const Transition &step) const {
  Move move;
  move.kind = step.kind;
  move.axes = step.axes;
  for (unsigned axis : step.axes)
    move.ranks *= mesh.getAxisSize(axis);
  State next = state;
  auto placeOf = [&](State &of, unsigned place) -> ShardedFactor & {
    return of.dims[places[place].first][places[place].second];
  };
  SmallVector<int64_t, 2> exposed;
  switch (step.kind) {
  case MoveKind::AllReduce:
    llvm::erase_if(next.partial, [&](unsigned axis) { return llvm::is_contained(step.axes, axis); });
    move.reduction = reduction;
    move.exposed = getShape(next);
    break;
  case MoveKind::LoopSlice: llvm_unreachable("is taken before a path begins");
  case MoveKind::KeepFirst:
    next.partial.push_back(step.axes[0]);
    move.exposed = getShape(next);
    break;
  case MoveKind::AllGather: {
    move.exposed = expose(state, mesh, {places[step.from]}, exposed);
    move.gatherDim = exposed[0];
    // What follows the factors inside the exposed dimension stays; the factors grow to their size without the
    // axes.
    int64_t before = 1, after = 1;
    for (unsigned place = step.from; place <= step.last; ++place) {
      placeOf(next, place).axes.pop_back();
      before *= localSize(placeOf(state, place));
      after *= localSize(placeOf(next, place));
    }
    move.gatherSize = move.exposed[exposed[0]] / before * after;
    break;
  }
  case MoveKind::ReduceScatter:
  case MoveKind::Slice:
    llvm::erase(next.partial, step.axes[0]);
    placeOf(next, step.to).axes.push_back(step.axes[0]);
    move.reduction = reduction;
    move.exposed = expose(state, mesh, {places[step.to]}, exposed);
    move.splitDim = exposed[0];
    move.splitSize = move.exposed[exposed[0]] / localSize(placeOf(state, step.to)) *
                     localSize(placeOf(next, step.to)) * mesh.getAxisSize(step.axes[0]);
    break;
  case MoveKind::AllToAll: {
    placeOf(next, step.from).axes.pop_back();
    placeOf(next, step.to).axes.push_back(step.axes[0]);
    move.exposed = expose(state, mesh, {places[step.from], places[step.to]}, exposed);
    bool gatherFirst = step.from < step.to;
    move.gatherDim = exposed[gatherFirst ? 0 : 1];
    move.splitDim = exposed[gatherFirst ? 1 : 0];
    move.gatherSize = move.exposed[move.gatherDim] / localSize(placeOf(state, step.from)) *
                      localSize(placeOf(next, step.from));
    move.splitSize = move.exposed[move.splitDim] / localSize(placeOf(state, step.to)) *
                     localSize(placeOf(next, step.to)) * mesh.getAxisSize(step.axes[0]);
    break;
  }
  }
  state = std::move(next);
  move.result = getShape(state);
  return move;
}
