//===- ArenaAllocator.cpp - lifetimes to offsets ----------------------------===//
#include "ArenaAllocator.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace colossal::schedule {

ArenaPlan allocate(const std::vector<Lifetime> &lifetimes, uint64_t alignment) {
  auto align = [&](uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  ArenaPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);

  std::map<int64_t, int64_t> changes;
  for (const Lifetime &life : lifetimes) {
    changes[life.first] += align(life.bytes);
    changes[life.last + 1] -= align(life.bytes);
  }
  int64_t alive = 0;
  for (auto [step, change] : changes)
    plan.bound = std::max<uint64_t>(plan.bound, alive += change);

  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return align(lifetimes[a].bytes) != align(lifetimes[b].bytes)
               ? align(lifetimes[a].bytes) > align(lifetimes[b].bytes)
               : lifetimes[a].first < lifetimes[b].first;
  });
  std::vector<size_t> placed; // by offset
  for (size_t item : order) {
    const Lifetime &life = lifetimes[item];
    uint64_t need = align(life.bytes), end = 0, best = 0, bestGap = UINT64_MAX;
    for (size_t other : placed) {
      const Lifetime &o = lifetimes[other];
      if (o.last < life.first || life.last < o.first)
        continue;
      uint64_t offset = plan.offsets[other];
      if (offset >= end + need && offset - end < bestGap) {
        best = end;
        bestGap = offset - end;
      }
      end = std::max(end, offset + align(o.bytes));
    }
    plan.offsets[item] = bestGap == UINT64_MAX ? end : best;
    auto at = std::upper_bound(placed.begin(), placed.end(), plan.offsets[item],
                               [&](uint64_t offset, size_t other) { return offset < plan.offsets[other]; });
    placed.insert(at, item);
    plan.bytes = std::max(plan.bytes, plan.offsets[item] + need);
  }
  return plan;
}

} // namespace colossal::schedule
