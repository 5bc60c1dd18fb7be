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
  walkOf.resize(nodes.size(), walk++);
  walkOf[start] = walk;
  for (size_t i = 0; i < found.size(); ++i)
    for (unsigned next : nodes[found[i]].*edges)
      if (int64_t place = nodes[next].place; low <= place && place <= high && walkOf[next] != walk) {
        walkOf[next] = walk;
        found.push_back(next);
      }
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
  std::vector<std::pair<int64_t, unsigned>> moved; // by the places that they have
  auto append = [&](const std::vector<unsigned> &found) {
    const auto own = static_cast<ptrdiff_t>(moved.size());
    for (unsigned node : found)
      moved.push_back({nodes[node].place, node});
    std::sort(moved.begin() + own, moved.end());
    return own;
  };
  append(before);
  const ptrdiff_t middle = append(after);
  std::vector<int64_t> places;
  places.reserve(moved.size());
  for (auto [place, node] : moved)
    places.push_back(place);
  std::inplace_merge(places.begin(), places.begin() + middle, places.end());
  for (auto [old, place] : llvm::zip_equal(moved, places))
    nodes[old.second].place = place;
}
