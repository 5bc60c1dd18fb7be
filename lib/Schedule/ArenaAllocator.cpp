//===- ArenaAllocator.cpp - lifetimes to offsets ----------------------------===//
#include "ArenaAllocator.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace colossal::schedule {

namespace {
/// Lifetimes by their moments: those that meet a given one are found without a look at the others, which are
/// most of them in a model of many layers.
class Placed {
public:
  explicit Placed(const std::vector<Lifetime> &lifetimes) : lifetimes(lifetimes) {
    for (const Lifetime &life : lifetimes)
      moments.push_back(life.first);
    std::sort(moments.begin(), moments.end());
    moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
    beginning.resize(moments.size());
    covering.resize(2 * moments.size());
  }

  void add(size_t item) {
    const size_t begin = getPlace(item), end = getEnd(item), leaves = moments.size();
    beginning[begin].push_back(item);
    for (size_t low = begin + leaves, high = end + leaves; low < high; low /= 2, high /= 2) {
      if (low % 2)
        covering[low++].push_back(item);
      if (high % 2)
        covering[--high].push_back(item);
    }
  }

  /// Those added that are alive at some moment of `item`'s life, each once: they live when it begins, or
  /// begin later in its life.
  void findMeeting(size_t item, std::vector<size_t> &found) const {
    found.clear();
    const size_t begin = getPlace(item), end = getEnd(item);
    for (size_t node = begin + moments.size(); node > 0; node /= 2)
      found.insert(found.end(), covering[node].begin(), covering[node].end());
    for (size_t moment = begin + 1; moment < end; ++moment)
      found.insert(found.end(), beginning[moment].begin(), beginning[moment].end());
  }

private:
  size_t getPlace(size_t item) const {
    return std::lower_bound(moments.begin(), moments.end(), lifetimes[item].first) - moments.begin();
  }
  size_t getEnd(size_t item) const {
    return std::upper_bound(moments.begin(), moments.end(), lifetimes[item].last) - moments.begin();
  }

  const std::vector<Lifetime> &lifetimes;
  std::vector<int64_t> moments;               ///< at which something begins
  std::vector<std::vector<size_t>> beginning; ///< by moment
  /// A segment tree over the moments: a node has those that are alive at all of its moments, and not at all
  /// of its parent's.
  std::vector<std::vector<size_t>> covering;
};
} // namespace

/// To sort one item takes about as long as a look at so many.
static constexpr size_t kManyMeet = 8;

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
  auto byOffset = [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; };
  Placed placed(lifetimes);
  std::vector<size_t> meeting, all; // all that are placed, by their offsets
  for (size_t item : order) {
    const Lifetime &life = lifetimes[item];
    placed.findMeeting(item, meeting);
    // Where many meet, as in the middle of a training step, they are told from the others faster than sorted.
    const bool areMany = meeting.size() * kManyMeet > all.size();
    if (!areMany)
      std::sort(meeting.begin(), meeting.end(), byOffset);
    uint64_t need = align(life.bytes), end = 0, best = 0, bestGap = UINT64_MAX;
    for (size_t other : areMany ? all : meeting) {
      if (lifetimes[other].first > life.last || lifetimes[other].last < life.first)
        continue;
      uint64_t offset = plan.offsets[other];
      if (offset >= end + need && offset - end < bestGap) {
        best = end;
        bestGap = offset - end;
      }
      end = std::max(end, offset + align(lifetimes[other].bytes));
    }
    plan.offsets[item] = bestGap == UINT64_MAX ? end : best;
    placed.add(item);
    all.insert(std::upper_bound(all.begin(), all.end(), item, byOffset), item);
    plan.bytes = std::max(plan.bytes, plan.offsets[item] + need);
  }
  return plan;
}

} // namespace colossal::schedule
