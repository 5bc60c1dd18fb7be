// Cheapest moves between placements.
#include "colossal/Cost/PlacementSearch.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace colossal::cost {

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

void PlacementGraph::PlacedAxes::read(const Placement &placement) {
  std::fill(counts.begin(), counts.end(), 0);
  for (unsigned axis = 0; axis < width; ++axis)
    if (placement.isOnFactor(axis)) {
      unsigned place = placement.placeOf(axis);
      lists[place * width + placement.depthOf(axis)] = static_cast<std::uint8_t>(axis);
      ++counts[place];
    }
}

PlacementGraph::PlacementGraph(std::vector<Place> given, std::vector<std::int64_t> sizes,
                               const Placement &goal, unsigned mostFree)
    : places(std::move(given)), axisSizes(std::move(sizes)), axes(static_cast<unsigned>(axisSizes.size())),
      goal(goal), mostFree(mostFree), wanted(places.size(), axes), placed(places.size(), axes),
      slots(16, -1) {
  assert(axes <= Placement::kMaxAxes);
  wanted.read(goal);
  getNode(goal);
}

unsigned PlacementGraph::getNode(const Placement &placement) {
  if (2 * (nodes.size() + 1) > slots.size()) {
    slots.assign(2 * slots.size(), -1);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      std::size_t at = nodes[i].placement.hash(axes) % slots.size();
      while (slots[at] >= 0)
        at = (at + 1) % slots.size();
      slots[at] = static_cast<int>(i);
    }
  }
  std::size_t at = placement.hash(axes) % slots.size();
  for (; slots[at] >= 0; at = (at + 1) % slots.size())
    if (nodes[slots[at]].placement == placement)
      return static_cast<unsigned>(slots[at]);
  slots[at] = static_cast<int>(nodes.size());
  nodes.push_back({placement, countElements(placement)});
  return static_cast<unsigned>(slots[at]);
}

double PlacementGraph::countElements(const Placement &placement) {
  localSizes.clear();
  for (const Place &place : places)
    localSizes.push_back(place.size);
  // Outer axes first, as each rounds up.
  unsigned deepest = 0;
  for (unsigned depth = 0; depth <= deepest; ++depth)
    for (unsigned axis = 0; axis < axes; ++axis) {
      if (!placement.isOnFactor(axis))
        continue;
      deepest = std::max(deepest, placement.depthOf(axis));
      std::int64_t &local = localSizes[placement.placeOf(axis)];
      if (placement.depthOf(axis) == depth)
        local = (local + axisSizes[axis] - 1) / axisSizes[axis];
    }
  double elements = 1;
  for (std::int64_t size : localSizes)
    elements *= static_cast<double>(size);
  return elements;
}

bool PlacementGraph::beginsAsWanted(std::size_t place, bool isWhole) const {
  const unsigned have = placed.count(place), want = wanted.count(place);
  if (have > want || (isWhole && have != want))
    return false;
  for (unsigned depth = 0; depth < have; ++depth)
    if (placed.get(place, depth) != wanted.get(place, depth))
      return false;
  return true;
}

int PlacementGraph::getNextAxis(std::size_t place) const {
  const unsigned have = placed.count(place);
  return have < wanted.count(place) && beginsAsWanted(place, false)
             ? static_cast<int>(wanted.get(place, have))
             : -1;
}

unsigned PlacementGraph::countMisplaced(const Placement &here) const {
  unsigned count = 0;
  for (unsigned axis = 0; axis < axes; ++axis)
    count += !here.isAlike(goal, axis);
  return count;
}

std::pair<int, double> PlacementGraph::getRank(const Step &step) const {
  enum { Slicing, Scattering, Exchanging, KeepingFirst, MakingWay, Reducing, Gathering };
  double ranks = 1;
  for (unsigned axis : step.axes)
    ranks *= static_cast<double>(axisSizes[axis]);
  switch (step.kind) {
  case MoveKind::Slice: return {Slicing, -ranks};
  case MoveKind::ReduceScatter: return {Scattering, -ranks};
  case MoveKind::AllToAll: return {Exchanging, -ranks};
  case MoveKind::KeepFirst: return {KeepingFirst, -ranks};
  case MoveKind::AllReduce: return {Reducing, -ranks};
  case MoveKind::AllGather: {
    const bool makesWay = wanted.count(step.from) > 0 || goal.isOnFactor(step.axes[0]);
    if (step.axes.size() == 1 && makesWay)
      return {MakingWay, ranks};
    return {Gathering, -ranks};
  }
  case MoveKind::LoopSlice: break;
  }
  return {Gathering, 0};
}

void PlacementGraph::add(const Placement &next, const Step &step) {
  if (asksForPlain) {
    // What already lies as it shall, if not all of it, stays.
    if (step.kind == MoveKind::AllGather && beginsAsWanted(step.from, false))
      return;
    if (const std::pair<int, double> rank = getRank(step); !plain || rank < plain->rank)
      plain = {rank, next, step};
    return;
  }
  Edge edge;
  edge.to = getNode(next);
  edge.step = step;
  edge.elements = nodes[countsResult(step.kind) ? edge.to : current].elements;
  edges.push_back(edge);
}

void PlacementGraph::gather(const Placement &here, unsigned first, unsigned last) {
  Placement next = here;
  Step step;
  step.kind = MoveKind::AllGather;
  step.from = static_cast<std::uint16_t>(first);
  step.last = static_cast<std::uint16_t>(last);
  for (unsigned place = first; place <= last; ++place) {
    step.axes.add(placed.last(place));
    next.drop(placed.last(place));
  }
  add(next, step);
}

/// Ends partial sums that the goal does not have, and makes those that it has.
void PlacementGraph::expandSums(const Placement &here) {
  AxisList ending;
  for (unsigned axis = 0; axis < axes; ++axis)
    if (here.isPartial(axis) && !goal.isPartial(axis))
      ending.add(axis);
  auto reduce = [&](const AxisList &over) {
    Placement next = here;
    for (unsigned axis : over)
      next.drop(axis);
    Step step;
    step.kind = MoveKind::AllReduce;
    step.axes = over;
    add(next, step);
  };
  for (unsigned axis : ending) {
    AxisList one;
    one.add(axis);
    reduce(one);
  }
  if (ending.size() > 1)
    reduce(ending);
  for (unsigned axis = 0; axis < axes; ++axis)
    if (goal.isPartial(axis) && here.isUnused(axis)) {
      Placement next = here;
      next.setPartial(axis);
      Step step;
      step.kind = MoveKind::KeepFirst;
      step.axes.add(axis);
      add(next, step);
    }
}

/// Takes axes off a place, or puts the next one there.
void PlacementGraph::expandPlace(const Placement &here, unsigned place) {
  const unsigned count = placed.count(place);
  auto isDone = [&](unsigned other) { return beginsAsWanted(other, true); };
  if (count > 0 && !isDone(place)) {
    gather(here, place, place);
    // A run of fully split factors is gathered by one collective.
    auto isDigit = [&](unsigned other) {
      return other < places.size() && places[other].dim == places[place].dim && placed.count(other) == 1 &&
             places[other].size == axisSizes[placed.last(other)] && !isDone(other);
    };
    for (unsigned last = place + 1; isDigit(place) && isDigit(last); ++last)
      gather(here, place, last);
    const unsigned axis = placed.last(place);
    for (unsigned other = 0; other < places.size(); ++other)
      if (other != place && getNextAxis(other) == static_cast<int>(axis)) {
        Placement next = here;
        next.put(axis, other, placed.count(other));
        Step step;
        step.kind = MoveKind::AllToAll;
        step.axes.add(axis);
        step.from = step.last = static_cast<std::uint16_t>(place);
        step.to = static_cast<std::uint16_t>(other);
        add(next, step);
      }
  }
  const int wantedNext = getNextAxis(place);
  if (wantedNext < 0)
    return;
  const auto axis = static_cast<unsigned>(wantedNext);
  const bool isSum = here.isPartial(axis) && !goal.isPartial(axis);
  if (!isSum && !here.isUnused(axis))
    return;
  Placement next = here;
  next.put(axis, place, count);
  Step step;
  step.kind = isSum ? MoveKind::ReduceScatter : MoveKind::Slice;
  step.axes.add(axis);
  step.to = step.last = static_cast<std::uint16_t>(place);
  add(next, step);
  // Sums go to a run of digits by one collective.
  auto isEmptyDigit = [&](unsigned other) {
    if (other >= places.size() || places[other].dim != places[place].dim || placed.count(other) > 0)
      return false;
    const int digit = getNextAxis(other);
    return digit >= 0 && places[other].size == axisSizes[digit] &&
           here.isPartial(static_cast<unsigned>(digit)) && !goal.isPartial(static_cast<unsigned>(digit));
  };
  for (unsigned last = place + 1; isEmptyDigit(place) && isEmptyDigit(last); ++last) {
    const auto digit = static_cast<unsigned>(getNextAxis(last));
    next.put(digit, last, 0);
    step.axes.add(digit);
    step.last = static_cast<std::uint16_t>(last);
    add(next, step);
  }
}

std::pair<unsigned, unsigned> PlacementGraph::getEdges(unsigned node) {
  if (nodes[node].first < 0) {
    const Placement here = nodes[node].placement; // nodes grows below
    const auto first = static_cast<int>(edges.size());
    current = node;
    placed.read(here);
    plain.reset();
    asksForPlain = countMisplaced(here) > mostFree;
    expandSums(here);
    for (unsigned place = 0; place < places.size(); ++place)
      expandPlace(here, place);
    asksForPlain = false;
    if (plain)
      add(plain->next, plain->step);
    nodes[node].first = first;
    nodes[node].end = static_cast<int>(edges.size());
  }
  return {nodes[node].first, nodes[node].end};
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

double PlacementSearch::run(PlacementGraph &graph, unsigned from, double elementBytes,
                            const PlacementCost &cost) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  visits.clear();
  queue.clear();
  best.assign(graph.countNodes(), kNever);
  last = -1;
  visits.push_back({from, -1, 0, 0});
  best[from] = 0;
  queue.push_back({0.0, 0});
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const auto [total, index] = queue.back();
    queue.pop_back();
    const unsigned node = visits[index].node;
    if (total > best[node])
      continue;
    if (node == PlacementGraph::kGoal) {
      last = index;
      return total;
    }
    const auto [first, end] = graph.getEdges(node);
    best.resize(graph.countNodes(), kNever);
    for (unsigned e = first; e < end; ++e) {
      const PlacementGraph::Edge &edge = graph.getEdge(e);
      const double bytes = elementBytes * edge.elements;
      const double sum = total + cost(edge.step.kind, bytes, edge.step.axes);
      if (best[edge.to] <= sum)
        continue;
      best[edge.to] = sum;
      queue.push_back({sum, static_cast<int>(visits.size())});
      std::push_heap(queue.begin(), queue.end(), std::greater<>());
      visits.push_back({edge.to, index, e, bytes});
    }
  }
  return kNever;
}

std::vector<PlacementSearch::Step> PlacementSearch::getSteps(const PlacementGraph &graph) const {
  std::vector<Step> steps;
  for (int i = last; i >= 0 && visits[i].previous >= 0; i = visits[i].previous) {
    Step step;
    static_cast<PlacementGraph::Step &>(step) = graph.getEdge(visits[i].edge).step;
    step.bytes = visits[i].bytes;
    steps.push_back(step);
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

} // namespace colossal::cost
