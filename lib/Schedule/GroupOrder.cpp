//===- GroupOrder.cpp - places of groups, renumbered where a need asks for it -===//
#include "GroupOrder.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

using namespace colossal::schedule;

unsigned GroupOrder::add() {
  nodes.push_back({front--, {}, {}});
  return nodes.size() - 1;
}

std::vector<unsigned> GroupOrder::reach(unsigned start, llvm::SmallVector<unsigned> Node::*edges, int64_t low,
                                        int64_t high) const {
  std::vector<unsigned> found = {start};
  llvm::DenseSet<unsigned> seen = {start};
  for (size_t i = 0; i < found.size(); ++i)
    for (unsigned next : nodes[found[i]].*edges)
      if (int64_t place = nodes[next].place; low <= place && place <= high && seen.insert(next).second)
        found.push_back(next);
  return found;
}

bool GroupOrder::needsAny(unsigned group, llvm::ArrayRef<unsigned> others) const {
  int64_t high = nodes[group].place, low = high;
  for (unsigned other : others)
    low = std::min(low, nodes[other].place);
  if (low == high)
    return false;
  llvm::DenseSet<unsigned> asked(others.begin(), others.end());
  return llvm::any_of(reach(group, &Node::needed, low, high),
                      [&](unsigned found) { return found != group && asked.contains(found); });
}

void GroupOrder::require(unsigned group, unsigned other) {
  if (llvm::is_contained(nodes[group].needed, other))
    return;
  nodes[group].needed.push_back(other);
  nodes[other].neededBy.push_back(group);
  int64_t low = nodes[group].place, high = nodes[other].place;
  if (high < low)
    return;
  // What `other` needs, then what needs `group`, in the places that both have had.
  std::vector<unsigned> before = reach(other, &Node::needed, low, high),
                        after = reach(group, &Node::neededBy, low, high);
  auto byPlace = [&](unsigned a, unsigned b) { return nodes[a].place < nodes[b].place; };
  llvm::sort(before, byPlace);
  llvm::sort(after, byPlace);
  std::vector<unsigned> moved = before;
  moved.insert(moved.end(), after.begin(), after.end());
  std::vector<int64_t> places;
  for (unsigned node : moved)
    places.push_back(nodes[node].place);
  llvm::sort(places);
  for (auto [node, place] : llvm::zip_equal(moved, places))
    nodes[node].place = place;
}
