//===- ArenaAllocator.cpp - lifetimes to offsets ----------------------------===//
#include "ArenaAllocator.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

namespace colossal::schedule {

namespace {
/// Bytes [begin, end) of an arena.
struct Stretch {
  uint64_t begin, end;
};

/// Stretches by their offsets that neither overlap nor touch. Buffers that were placed close together, as
/// nearly all are, are one.
class Stretches {
public:
  void add(Stretch added) {
    auto first = std::lower_bound(all.begin(), all.end(), added.begin,
                                  [](const Stretch &known, uint64_t begin) { return known.end < begin; });
    auto last = first;
    for (; last != all.end() && last->begin <= added.end; ++last)
      added = {std::min(added.begin, last->begin), std::max(added.end, last->end)};
    if (first == last) {
      all.insert(first, added);
    } else {
      *first = added;
      all.erase(first + 1, last);
    }
  }
  llvm::ArrayRef<Stretch> get() const { return all; }

private:
  std::vector<Stretch> all;
};

/// What several `Stretches` cover together. Each is in order as it is, so that they are merged in pairs, and
/// become fewer on the way: most fill the gaps of others.
class Union {
public:
  void clear() {
    merged.clear();
    ends.clear();
  }
  void add(llvm::ArrayRef<Stretch> part) {
    if (part.empty())
      return;
    merged.insert(merged.end(), part.begin(), part.end());
    ends.push_back(merged.size());
  }
  /// In order; none touches the next.
  llvm::ArrayRef<Stretch> get() {
    while (ends.size() > 1) {
      spare.resize(merged.size());
      Stretch *out = spare.data();
      const Stretch *begin = merged.data();
      size_t made = 0;
      for (size_t i = 0; i < ends.size(); i += 2) {
        const Stretch *middle = merged.data() + ends[i],
                      *end = merged.data() + ends[std::min(i + 1, ends.size() - 1)];
        out = merge(begin, middle, end, out);
        begin = end;
        ends[made++] = out - spare.data();
      }
      ends.resize(made);
      spare.resize(ends.back());
      std::swap(merged, spare);
    }
    return merged;
  }

private:
  /// Writes the union of [a, middle) and [middle, end) to `out`, and returns its end.
  static Stretch *merge(const Stretch *a, const Stretch *middle, const Stretch *end, Stretch *out) {
    const Stretch *b = middle;
    while (a != middle && b != end) {
      Stretch last = a->begin < b->begin ? *a++ : *b++;
      for (;;) {
        while (a != middle && a->end <= last.end)
          ++a;
        while (b != end && b->end <= last.end)
          ++b;
        if (a != middle && a->begin <= last.end)
          last.end = (a++)->end;
        else if (b != end && b->begin <= last.end)
          last.end = (b++)->end;
        else
          break;
      }
      *out++ = last;
    }
    return std::copy(b, end, std::copy(a, middle, out));
  }

  std::vector<Stretch> merged, spare; ///< parts one behind the other
  std::vector<size_t> ends;           ///< of each part in `merged`
};

/// Where something lies at which moments: a segment tree over the moments, so that neither a buffer nor a
/// question needs a look at each buffer that it meets, which are most of them in the middle of a training
/// step.
class Occupied {
public:
  explicit Occupied(const std::vector<Lifetime> &lifetimes) {
    for (const Lifetime &life : lifetimes)
      moments.push_back(life.first);
    std::sort(moments.begin(), moments.end());
    moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
    always.resize(2 * moments.size());
    any.resize(2 * moments.size());
  }

  void add(const Lifetime &life, Stretch stretch) {
    visit(
        life,
        [&](size_t node) {
          always[node].add(stretch);
          any[node].add(stretch);
        },
        [&](size_t node) { any[node].add(stretch); });
  }

  /// Sets `found` to what is occupied at some moment of `life`.
  void find(const Lifetime &life, Union &found) const {
    found.clear();
    visit(
        life, [&](size_t node) { found.add(any[node].get()); },
        [&](size_t node) { found.add(always[node].get()); });
  }

private:
  /// Calls `whole` for the fewest nodes that together have the moments of `life`, and `above` for those above
  /// a leaf at either end, among which are all above one of the former: two lives meet if a node is whole of
  /// both, or if one that is whole of either is above an end of the other.
  template <typename Whole, typename Above>
  void visit(const Lifetime &life, Whole whole, Above above) const {
    const size_t leaves = moments.size();
    size_t low = std::lower_bound(moments.begin(), moments.end(), life.first) - moments.begin() + leaves;
    size_t high = std::upper_bound(moments.begin(), moments.end(), life.last) - moments.begin() + leaves;
    size_t first = low / 2, last = (high - 1) / 2;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2)
        whole(low++);
      if (high % 2)
        whole(--high);
    }
    for (; last > 0;
         first /= 2, last /= 2) { // leaves are on two levels: `first` may be above the root before
      if (first > 0)
        above(first);
      if (last != first)
        above(last);
    }
  }

  std::vector<int64_t> moments;  ///< at which something begins
  std::vector<Stretches> always; ///< by node: of lives that it is whole of
  std::vector<Stretches> any;    ///< by node: of these, and of lives that have an end below it
};

uint64_t alignTo(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// What is placed first, of two buffers. Bytes are aligned.
using Comes = bool (*)(const Lifetime &a, const Lifetime &b);
int64_t duration(const Lifetime &life) {
  return life.last - life.first;
}
bool isLarger(const Lifetime &a, const Lifetime &b) {
  return a.bytes != b.bytes ? a.bytes > b.bytes : a.first < b.first;
}
bool isLargerOrLonger(const Lifetime &a, const Lifetime &b) {
  return a.bytes != b.bytes ? a.bytes > b.bytes : duration(a) > duration(b);
}
bool isEarlier(const Lifetime &a, const Lifetime &b) {
  return a.first != b.first ? a.first < b.first : a.bytes > b.bytes;
}
bool isLaterGone(const Lifetime &a, const Lifetime &b) {
  return a.last != b.last ? a.last > b.last : a.bytes > b.bytes;
}
/// Of about the same size, the one that lies there longer.
bool isOfLargerClassOrLonger(const Lifetime &a, const Lifetime &b) {
  const unsigned classA = llvm::Log2_64(a.bytes + 1), classB = llvm::Log2_64(b.bytes + 1);
  if (classA != classB)
    return classA > classB;
  return duration(a) != duration(b) ? duration(a) > duration(b) : a.bytes > b.bytes;
}
bool takesMore(const Lifetime &a, const Lifetime &b) {
  const double allOfA = static_cast<double>(a.bytes) * static_cast<double>(duration(a) + 1),
               allOfB = static_cast<double>(b.bytes) * static_cast<double>(duration(b) + 1);
  return allOfA != allOfB ? allOfA > allOfB : isLarger(a, b);
}
/// The first decides where it comes close to the bound, which is nearly always.
constexpr Comes kOrders[] = {isLarger,    isLargerOrLonger,        isEarlier,
                             isLaterGone, isOfLargerClassOrLonger, takesMore};
/// Nothing is tried any more where an arena is at most a part of this size above the bound.
constexpr uint64_t kCloseParts = 256;

/// Places in this order, best fit among the gaps. Nothing where the arena takes `most` bytes or more.
std::optional<ArenaPlan> place(const std::vector<Lifetime> &lifetimes, const std::vector<size_t> &order,
                               uint64_t most) {
  ArenaPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  Occupied occupied(lifetimes);
  Union taken;
  for (size_t item : order) {
    const Lifetime &life = lifetimes[item];
    if (life.bytes == 0)
      continue; // it meets nothing anywhere
    occupied.find(life, taken);
    uint64_t end = 0, best = 0, bestGap = UINT64_MAX;
    for (const Stretch &other : taken.get()) {
      if (other.begin >= end + life.bytes && other.begin - end < bestGap) {
        best = end;
        bestGap = other.begin - end;
      }
      end = std::max(end, other.end);
    }
    const uint64_t offset = bestGap == UINT64_MAX ? end : best;
    plan.offsets[item] = offset;
    occupied.add(life, {offset, offset + life.bytes});
    plan.bytes = std::max(plan.bytes, offset + life.bytes);
    if (plan.bytes >= most)
      return std::nullopt;
  }
  return plan;
}

/// Where no order of those comes close: what ends above the bound comes earlier, by this part of its place,
/// over and over ("squeaky wheel" optimization, Joslin and Clements 1999).
constexpr double kForward[] = {0.8, 0.7, 0.5};
constexpr size_t kMostRounds = 60,
                 kMostPlaced = 50000; ///< of one of them; all buffers of its rounds together

void improve(const std::vector<Lifetime> &lifetimes, std::vector<size_t> order, uint64_t bound,
             double forward, ArenaPlan &plan) {
  std::vector<double> ranks(lifetimes.size());
  for (size_t i = 0; i < order.size(); ++i)
    ranks[order[i]] = static_cast<double>(i + 1);
  const size_t rounds = std::min(kMostRounds, kMostPlaced / std::max<size_t>(1, lifetimes.size()));
  ArenaPlan last = plan;
  for (size_t round = 0; round < rounds && plan.bytes > bound + bound / kCloseParts; ++round) {
    for (size_t i = 0; i < lifetimes.size(); ++i)
      if (last.offsets[i] + lifetimes[i].bytes > bound)
        ranks[i] *= forward;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ranks[a] < ranks[b]; });
    last = *place(lifetimes, order, UINT64_MAX);
    if (last.bytes < plan.bytes)
      plan = last;
  }
}
} // namespace

ArenaPlan allocate(const std::vector<Lifetime> &given, uint64_t alignment) {
  std::vector<Lifetime> lifetimes = given;
  std::map<int64_t, int64_t> changes;
  for (Lifetime &life : lifetimes) {
    life.bytes = alignTo(life.bytes, alignment);
    changes[life.first] += static_cast<int64_t>(life.bytes);
    changes[life.last + 1] -= static_cast<int64_t>(life.bytes);
  }
  uint64_t bound = 0;
  int64_t alive = 0;
  for (auto [step, change] : changes)
    bound = std::max<uint64_t>(bound, alive += change);
  ArenaPlan plan;
  plan.bytes = UINT64_MAX;
  auto isClose = [&] { return plan.bytes <= bound + bound / kCloseParts; };
  std::vector<size_t> best(lifetimes.size());
  for (Comes comes : kOrders) {
    if (isClose())
      break;
    std::vector<size_t> order(lifetimes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return comes(lifetimes[a], lifetimes[b]); });
    if (std::optional<ArenaPlan> found = place(lifetimes, order, plan.bytes)) {
      plan = std::move(*found);
      best = std::move(order);
    }
  }
  for (double forward : kForward)
    if (!isClose())
      improve(lifetimes, best, bound, forward, plan);
  plan.bound = bound;
  return plan;
}

} // namespace colossal::schedule
