// Cheapest moves between placements.
#include "colossal/Cost/PlacementSearch.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace colossal::cost {

void PlacementSearch::PlacedAxes::read(const Placement &placement) {
  std::fill(counts.begin(), counts.end(), 0);
  for (unsigned axis = 0; axis < width; ++axis)
    if (placement.isOnFactor(axis)) {
      unsigned place = placement.placeOf(axis);
      lists[place * width + placement.depthOf(axis)] = static_cast<std::uint8_t>(axis);
      ++counts[place];
    }
}

PlacementSearch::PlacementSearch(std::vector<Place> given, std::vector<std::int64_t> sizes,
                                 const Placement &goal, double elementBytes, const PlacementCost &cost)
    : places(std::move(given)), axisSizes(std::move(sizes)), axes(static_cast<unsigned>(axisSizes.size())),
      goal(goal), elementBytes(elementBytes), cost(cost), wanted(places.size(), axes),
      placed(places.size(), axes), slots(64, -1) {
  assert(axes <= Placement::kMaxAxes);
  wanted.read(goal);
  visits.reserve(64);
}

/// The least cost known of `placement`; infinity at first.
double &PlacementSearch::getBest(const Placement &placement) {
  if (2 * (best.size() + 1) > slots.size()) {
    slots.assign(2 * slots.size(), -1);
    for (std::size_t i = 0; i < best.size(); ++i) {
      std::size_t at = best[i].first.hash(axes) % slots.size();
      while (slots[at] >= 0)
        at = (at + 1) % slots.size();
      slots[at] = static_cast<int>(i);
    }
  }
  std::size_t at = placement.hash(axes) % slots.size();
  for (; slots[at] >= 0; at = (at + 1) % slots.size())
    if (best[slots[at]].first == placement)
      return best[slots[at]].second;
  slots[at] = static_cast<int>(best.size());
  best.push_back({placement, std::numeric_limits<double>::infinity()});
  return best.back().second;
}

double PlacementSearch::getBytes(const Placement &placement) {
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
  double bytes = elementBytes;
  for (std::int64_t size : localSizes)
    bytes *= static_cast<double>(size);
  return bytes;
}

bool PlacementSearch::beginsAsWanted(std::size_t place, bool isWhole) const {
  const unsigned have = placed.count(place), want = wanted.count(place);
  if (have > want || (isWhole && have != want))
    return false;
  for (unsigned depth = 0; depth < have; ++depth)
    if (placed.get(place, depth) != wanted.get(place, depth))
      return false;
  return true;
}

int PlacementSearch::getNextAxis(std::size_t place) const {
  const unsigned have = placed.count(place);
  return have < wanted.count(place) && beginsAsWanted(place, false)
             ? static_cast<int>(wanted.get(place, have))
             : -1;
}

void PlacementSearch::push(const Placement &next, Step step) {
  const double bytes = getBytes(next);
  step.bytes = countsResult(step.kind) ? bytes : visits[current].bytes;
  const double total = visits[current].cost + cost(step.kind, step.bytes, step.axes);
  double &least = getBest(next);
  if (least <= total)
    return;
  least = total;
  queue.push({total, static_cast<int>(visits.size())});
  visits.push_back({next, total, bytes, current, step});
}

void PlacementSearch::gather(unsigned first, unsigned last) {
  Placement next = visits[current].placement;
  Step step;
  step.kind = MoveKind::AllGather;
  step.from = first;
  step.last = last;
  for (unsigned place = first; place <= last; ++place) {
    step.axes.add(placed.last(place));
    next.drop(placed.last(place));
  }
  push(next, step);
}

/// Ends partial sums that the goal does not have, and makes those that it has.
void PlacementSearch::expandSums(const Placement &here) {
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
    push(next, step);
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
      push(next, step);
    }
}

/// Takes axes off a place, or puts the next one there.
void PlacementSearch::expandPlace(const Placement &here, unsigned place) {
  const unsigned count = placed.count(place);
  auto isDone = [&](unsigned other) { return beginsAsWanted(other, true); };
  if (count > 0 && !isDone(place)) {
    gather(place, place);
    // A run of fully split factors is gathered by one collective.
    auto isDigit = [&](unsigned other) {
      return other < places.size() && places[other].dim == places[place].dim && placed.count(other) == 1 &&
             places[other].size == axisSizes[placed.last(other)] && !isDone(other);
    };
    for (unsigned last = place + 1; isDigit(place) && isDigit(last); ++last)
      gather(place, last);
    const unsigned axis = placed.last(place);
    for (unsigned other = 0; other < places.size(); ++other)
      if (other != place && getNextAxis(other) == static_cast<int>(axis)) {
        Placement next = here;
        next.put(axis, other, placed.count(other));
        Step step;
        step.kind = MoveKind::AllToAll;
        step.axes.add(axis);
        step.from = step.last = place;
        step.to = other;
        push(next, step);
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
  step.to = place;
  push(next, step);
}

void PlacementSearch::expand() {
  const Placement here = visits[current].placement; // visits grows below
  placed.read(here);
  expandSums(here);
  for (unsigned place = 0; place < places.size(); ++place)
    expandPlace(here, place);
}

double PlacementSearch::run(const Placement &from) {
  visits.push_back({from, 0, getBytes(from), -1, Step()});
  getBest(from) = 0;
  queue.push({0.0, 0});
  while (!queue.empty()) {
    auto [total, index] = queue.top();
    queue.pop();
    if (total > getBest(visits[index].placement))
      continue;
    if (visits[index].placement == goal) {
      last = index;
      return total;
    }
    current = index;
    expand();
  }
  return std::numeric_limits<double>::infinity();
}

std::vector<PlacementSearch::Step> PlacementSearch::getSteps() const {
  std::vector<Step> steps;
  for (int i = last; i >= 0 && visits[i].previous >= 0; i = visits[i].previous)
    steps.push_back(visits[i].step);
  std::reverse(steps.begin(), steps.end());
  return steps;
}

} // namespace colossal::cost
