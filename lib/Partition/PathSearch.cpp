//===- PathSearch.cpp - the cheapest moves between two layouts --------------===//
#include "PathSearch.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

cost::PlacementGraph dist::makeGraph(const State &to, MeshAttr mesh) {
  std::vector<cost::PlacementGraph::Place> places;
  for (auto [d, dim] : llvm::enumerate(to.dims))
    for (const ShardedFactor &factor : dim)
      places.push_back({factor.size, static_cast<unsigned>(d)});
  std::vector<int64_t> sizes;
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
    sizes.push_back(mesh.getAxisSize(axis));
  return {std::move(places), std::move(sizes), getPlacement(to), countFreeAxes(mesh)};
}

cost::Placement dist::getPlacement(const State &state) {
  cost::Placement placement;
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

PathSearch::PathSearch(MeshAttr mesh, const State &to, ReductionKind reduction)
    : mesh(mesh), reduction(reduction), graph(makeGraph(to, mesh)) {
  for (auto [d, dim] : llvm::enumerate(to.dims))
    for (unsigned f = 0; f < dim.size(); ++f)
      places.push_back({d, f});
}

std::optional<ReshardPath> PathSearch::run(const State &from, double elementBytes,
                                           const cost::PlacementCost &price) {
  cost::PlacementSearch search;
  ReshardPath path;
  path.cost = search.run(graph, graph.getNode(getPlacement(from)), elementBytes, price);
  if (std::isinf(path.cost))
    return std::nullopt;
  State state = from;
  for (const cost::PlacementSearch::Step &step : search.getSteps(graph)) {
    path.moves.push_back(apply(state, step));
    path.moves.back().bytes = step.bytes;
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

Move PathSearch::apply(State &state, const cost::PlacementSearch::Step &step) const {
  Move move;
  move.kind = step.kind;
  move.axes.assign(step.axes.begin(), step.axes.end());
  for (unsigned axis : step.axes)
    move.ranks *= mesh.getAxisSize(axis);
  State next = state;
  auto placeOf = [&](State &of, unsigned place) -> ShardedFactor & {
    return of.dims[places[place].first][places[place].second];
  };
  SmallVector<int64_t, 2> exposed;
  switch (step.kind) {
  case MoveKind::AllReduce:
    llvm::erase_if(next.partial, [&](unsigned axis) { return llvm::is_contained(move.axes, axis); });
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
  case MoveKind::Slice: {
    int64_t before = 1, after = 1;
    for (auto [i, axis] : llvm::enumerate(step.axes)) {
      const auto place = static_cast<unsigned>(step.to + i);
      llvm::erase(next.partial, axis);
      placeOf(next, place).axes.push_back(axis);
      before *= localSize(placeOf(state, place));
      after *= localSize(placeOf(next, place));
    }
    move.reduction = reduction;
    move.exposed = expose(state, mesh, {places[step.to]}, exposed);
    move.splitDim = exposed[0];
    move.splitSize = move.exposed[exposed[0]] / before * after * move.ranks;
    break;
  }
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
