// The state of a search and its loop: answers in and out, prices, and which move comes next.
// NeighborhoodBlock.cpp chooses what a move frees, NeighborhoodMove.cpp makes it.
#include "Neighborhood.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace colossal::search {

NeighborhoodSearch::NeighborhoodSearch(const Core &core, std::uint64_t seed)
    : core(core), random(seed), x(core.nodes, 0), held(core.steps()), price(core.steps(), 0),
      prefix(core.steps() + 1, 0), position(core.nodes, -1), parentHalf(core.nodes, -1),
      rootOf(core.nodes, 0), byTime(core.nodes), timeRank(core.nodes), base(core.cost.size()),
      charge(core.cost.size()), table(core.cost.size()), baseFirst(core.nodes + 1), choice(core.nodes),
      bestChoice(core.nodes), change(core.steps() + 1, 0) {
  block.reserve(core.nodes);
  conflicts.reserve(core.nodes);
  order.reserve(core.nodes);
  candidates.reserve(core.nodes);
  int most = 1;
  std::vector<int> begin(core.nodes, core.steps());
  for (int i = 0; i < core.nodes; ++i) {
    most = std::max(most, core.candidates(i));
    for (std::int64_t p = core.pieceFirst[core.first[i]]; p < core.pieceFirst[core.first[i + 1]]; ++p)
      begin[i] = std::min(begin[i], core.pieces[p].begin);
  }
  message.resize(most);
  std::iota(byTime.begin(), byTime.end(), 0);
  std::stable_sort(byTime.begin(), byTime.end(), [&](int a, int b) { return begin[a] < begin[b]; });
  for (int r = 0; r < core.nodes; ++r)
    timeRank[byTime[r]] = r;
  recompute();
}

void NeighborhoodSearch::recompute() {
  total = core.totalCost(x);
  std::fill(change.begin(), change.end(), 0);
  for (int i = 0; i < core.nodes; ++i) {
    int c = core.first[i] + x[i];
    for (std::int64_t p = core.pieceFirst[c]; p < core.pieceFirst[c + 1]; ++p) {
      change[core.pieces[p].begin] += core.pieces[p].bytes;
      change[core.pieces[p].end] -= core.pieces[p].bytes;
    }
  }
  double sum = 0;
  excess = 0;
  for (int t = 0; t < core.steps(); ++t) {
    sum += change[t];
    held[t] = sum;
    excess += std::max(0.0, sum - core.capacity[t]);
  }
  std::fill(change.begin(), change.end(), 0);
}

void NeighborhoodSearch::assign(const std::vector<int> &to) {
  x = to;
  recompute();
}

void NeighborhoodSearch::setPrices(const std::vector<double> &prices) {
  price = prices;
  refreshPrefix();
}

void NeighborhoodSearch::refreshPrefix() {
  for (int t = 0; t < core.steps(); ++t)
    prefix[t + 1] = prefix[t] + price[t];
  spent += core.steps();
}

/// Where the current answer is over the limit, memory is too cheap.
void NeighborhoodSearch::raisePrices() {
  double size = 1;
  for (int t = 0; t < core.steps(); ++t)
    size = std::max(size, held[t]);
  double least = 1e-3 * (std::fabs(total.cost) + 1) / size;
  for (int t = 0; t < core.steps(); ++t)
    if (held[t] > core.capacity[t])
      price[t] = std::min(1e15, 1.25 * price[t] + least);
  refreshPrefix();
}

void NeighborhoodSearch::findConflicts() {
  conflicts.clear();
  for (int i = 0; i < core.nodes; ++i) {
    bool forbidden = isBig(core.cost[core.first[i] + x[i]]);
    const std::size_t count = core.candidates(i);
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1] && !forbidden; ++h)
      forbidden = isBig(core.halves[h].from[x[core.halves[h].other] * count + x[i]]);
    if (forbidden)
      conflicts.push_back(i);
  }
  spent += core.halves.size();
}

void NeighborhoodSearch::improve(std::uint64_t work, const std::function<bool()> &stop) {
  std::uint64_t end = spent + work, ask = spent;
  int moves = 0;
  std::uint64_t look = spent;
  conflicts.clear();
  while (spent < end) {
    if (spent >= ask) {
      if (stop())
        break;
      ask = spent + 500000;
    }
    // Looking for what is forbidden takes a twentieth of the work.
    if (spent >= look && (total.forbidden > 0 || !conflicts.empty())) {
      findConflicts();
      look = spent + 20 * core.halves.size();
    }
    if (excess > 0 && moves++ % 64 == 0)
      raisePrices();
    if (excess == 0 && random.below(4) == 0)
      kick();
    else
      move();
    spent += 20;
  }
  recompute();
}

void NeighborhoodSearch::absorb(const std::vector<int> &other) {
  for (int start = 0; start < core.nodes; ++start) {
    if (x[start] == other[start] || position[start] >= 0)
      continue;
    order.clear();
    order.push_back(start);
    position[start] = 0;
    for (std::size_t n = 0; n < order.size(); ++n)
      for (int h = core.halfFirst[order[n]]; h < core.halfFirst[order[n] + 1]; ++h) {
        int j = core.halves[h].other;
        if (x[j] != other[j] && position[j] < 0) {
          position[j] = static_cast<int>(order.size());
          order.push_back(j);
        }
      }
    // Not a forest: the edges among the changed nodes are added up here, and evaluate() sees none.
    SplitCost among;
    int size = 0;
    for (std::size_t n = 0; n < order.size(); ++n) {
      int i = order[n];
      std::size_t count = core.candidates(i);
      block.push_back(i);
      baseFirst[n] = size;
      choice[n] = other[i];
      parentHalf[i] = -1;
      double *out = base.data() + size;
      size += static_cast<int>(count);
      out[x[i]] = core.cost[core.first[i] + x[i]];
      out[other[i]] = core.cost[core.first[i] + other[i]];
      for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h) {
        const Core::Half &half = core.halves[h];
        const double *row = half.from + x[half.other] * count;
        if (position[half.other] < 0 || x[half.other] == other[half.other]) {
          out[x[i]] += row[x[i]];
          out[other[i]] += row[other[i]];
        } else if (half.other < i) {
          among.add(half.from[other[half.other] * count + other[i]]);
          among.subtract(row[x[i]]);
        }
      }
    }
    baseFirst[order.size()] = size;
    Merit now = evaluate();
    now.total += among;
    changed += among;
    if (now < merit())
      accept();
    forgetChange();
    for (int i : order)
      if (x[i] == other[i])
        position[i] = -1;
    if (x[start] != other[start]) {
      // Left as it was; keep it marked so that it is looked at once.
      for (int i : order)
        position[i] = 0;
      rejected.insert(rejected.end(), order.begin(), order.end());
    }
    block.clear();
  }
  for (int i : rejected)
    position[i] = -1;
  rejected.clear();
  recompute();
}

} // namespace colossal::search
