// Which nodes a move frees: a forest grown at random, and its order.
#include "Neighborhood.h"

#include <algorithm>
#include <cmath>

namespace colossal::search {

int NeighborhoodSearch::root(int i) {
  while (rootOf[i] != i)
    i = rootOf[i] = rootOf[rootOf[i]];
  return i;
}

/// Adds i unless it would close a cycle.
bool NeighborhoodSearch::addToBlock(int i) {
  if (position[i] >= 0 || i == frozen)
    return false;
  int degree = core.halfFirst[i + 1] - core.halfFirst[i];
  spent += degree;
  // Two neighbours in one tree close a cycle. Marks on roots are undone by looking at pairs: degrees are
  // small, and hubs are handled by the mark below.
  candidates.clear();
  for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
    int j = core.halves[h].other;
    if (position[j] < 0)
      continue;
    int r = root(j);
    if (parentHalf[r] == -2) {
      for (int marked : candidates)
        parentHalf[marked] = -1;
      return false;
    }
    parentHalf[r] = -2;
    candidates.push_back(r);
  }
  for (int marked : candidates) {
    parentHalf[marked] = -1;
    rootOf[marked] = i;
  }
  rootOf[i] = i;
  parentHalf[i] = -1;
  position[i] = static_cast<int>(block.size());
  block.push_back(i);
  return true;
}

void NeighborhoodSearch::growFrom(int seed, int target) {
  if (!addToBlock(seed))
    return;
  // A random frontier: pick a node of the block and one of its neighbours.
  std::size_t start = block.size() - 1;
  int goal = static_cast<int>(block.size()) + target - 1, fails = 0;
  while (static_cast<int>(block.size()) < goal && fails < 2 * target + 8) {
    int i = block[start + random.below(static_cast<int>(block.size() - start))];
    int degree = core.halfFirst[i + 1] - core.halfFirst[i];
    if (degree == 0 || !addToBlock(core.halves[core.halfFirst[i] + random.below(degree)].other))
      ++fails;
  }
}

void NeighborhoodSearch::chooseBlock() {
  // Sizes from a few nodes to many times the typical one, log-uniform.
  int size = static_cast<int>(3 * std::exp(random.unit() * std::log(typicalSize * 8 / 3)));
  size = std::max(2, std::min(size, core.nodes));
  int seed = random.below(core.nodes);
  if (focus < 0 && !conflicts.empty() && random.below(2)) // where something forbidden is to be mended
    seed = conflicts[random.below(static_cast<int>(conflicts.size()))];
  if (focus >= 0) {
    // Near the node in focus: itself, or one or two steps away.
    seed = focus;
    size = std::max(2, size / 4);
    for (int steps = random.below(3); steps > 0; --steps) {
      int degree = core.halfFirst[seed + 1] - core.halfFirst[seed];
      if (degree > 0)
        seed = core.halves[core.halfFirst[seed] + random.below(degree)].other;
    }
  }
  bool far = core.steps() > 0 && random.below(2);
  if (!far) {
    growFrom(seed, size);
    return;
  }
  // Several trees that are alive at about the same time: what one gives up the other may use.
  int trees = 2 + random.below(4);
  int window = std::max(8, std::min(core.nodes, 16 << random.below(8)));
  for (int k = 0; k < trees; ++k) {
    growFrom(seed, std::max(1, size / trees));
    int rank = timeRank[seed] - window / 2 + random.below(window);
    seed = byTime[std::min(core.nodes - 1, std::max(0, rank))];
  }
}

/// Orders the forest parents first, and finds each node's half edge to its parent.
void NeighborhoodSearch::orderBlock() {
  order.clear();
  blockHoldsMemory = false;
  for (int i : block)
    parentHalf[i] = -1;
  int size = 0;
  for (int start : block) {
    if (parentHalf[start] != -1)
      continue;
    parentHalf[start] = -2;
    std::size_t next = order.size();
    order.push_back(start);
    for (; next < order.size(); ++next) {
      int i = order[next];
      for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
        int j = core.halves[h].other;
        if (position[j] >= 0 && parentHalf[j] == -1) {
          parentHalf[j] = core.halves[h].reverse;
          order.push_back(j);
        }
      }
    }
  }
  for (std::size_t n = 0; n < order.size(); ++n) {
    int i = order[n];
    position[i] = static_cast<int>(n);
    baseFirst[n] = size;
    size += core.candidates(i);
    blockHoldsMemory |= core.pieceFirst[core.first[i]] != core.pieceFirst[core.first[i + 1]];
  }
  baseFirst[order.size()] = size;
}

void NeighborhoodSearch::clearBlock() {
  for (int i : block) {
    position[i] = -1;
    parentHalf[i] = -1;
  }
  block.clear();
}

} // namespace colossal::search
