// Large-neighbourhood local search on a core. A move frees a forest of nodes, the rest held fixed, and finds
// its best choice by dynamic programming, memory being charged at a price per step; the price is bisected per
// move, so that the best choice that fits is found, and prices rise where moves run into the limit. The
// search owns all scratch memory: a move allocates nothing. One search belongs to one thread. Dual.h supplies
// the first prices.
#ifndef COLOSSAL_SEARCH_NEIGHBORHOOD_H
#define COLOSSAL_SEARCH_NEIGHBORHOOD_H

#include "Core.h"

#include <cstdint>
#include <functional>

namespace colossal::search {

/// A small, fast, seedable generator (splitmix64): the same everywhere, unlike the standard library's
/// distributions.
class Random {
public:
  explicit Random(std::uint64_t seed) : state(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  /// In [0, n), n > 0.
  int below(int n) {
    return static_cast<int>((static_cast<unsigned __int128>(next()) * static_cast<unsigned>(n)) >> 64);
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

private:
  std::uint64_t state;
};

/// Fewer forbidden choices, then cheaper, is better among answers that fit; less excess is better among those
/// that do not.
struct Merit {
  double excess = 0; ///< bytes over the limit, added over steps
  SplitCost total;
  bool allowed() const { return excess == 0 && total.forbidden == 0; }
  bool operator==(const Merit &other) const { return excess == other.excess && total == other.total; }
  bool operator<(const Merit &other) const {
    return excess != other.excess ? excess < other.excess : total < other.total;
  }
};

class NeighborhoodSearch {
public:
  NeighborhoodSearch(const Core &core, std::uint64_t seed);

  /// Sets the current answer; the prices stay.
  void assign(const std::vector<int> &x);
  const std::vector<int> &current() const { return x; }
  Merit merit() const { return {excess, total}; }

  /// Price of a byte at each step, in cost; empty steps cost nothing.
  void setPrices(const std::vector<double> &prices);
  const std::vector<double> &prices() const { return price; }

  /// Moves until `work` units are spent or `stop` says so (asked about every millisecond). Never makes
  /// merit() worse. Where nothing exceeds the limit, forced changes with repair around them are tried, too
  /// (iterated local search).
  void improve(std::uint64_t work, const std::function<bool()> &stop);

  /// Takes over from another answer each connected set of nodes that differs, where that makes merit()
  /// better.
  void absorb(const std::vector<int> &other);

  /// Units of work done so far: table entries touched, and steps of time.
  std::uint64_t work() const { return spent; }

private:
  void chooseBlock();
  bool addToBlock(int i);
  void clearBlock();
  int root(int i);
  void growFrom(int seed, int target);
  void orderBlock();
  void gather();
  void solveForest(double scale);
  void forgetChange();
  void priceBlock();
  void refreshPrefix();
  /// What node i adds if it takes a candidate: its own cost and its edges to nodes outside of the block.
  SplitCost outside(int i, int candidate);
  /// The merit if the block's nodes take `choice`; leaves the change of cost in `changed`, and that of memory
  /// in `change` over [low, high).
  Merit evaluate();
  void accept();
  void move();
  void kick();
  void raisePrices();
  void findConflicts();
  void recompute();

  const Core &core;
  Random random;
  std::vector<int> x;
  SplitCost total;
  double excess = 0;
  std::vector<int> conflicts; ///< nodes that took part in a forbidden choice when last looked at
  std::vector<double> held;   ///< bytes per step
  std::vector<double> price;  ///< per step
  std::vector<double> prefix;
  std::uint64_t spent = 0;
  double typicalSize = 24;

  // Block scratch.
  std::vector<int> block, position, parentHalf, rootOf, order, byTime, timeRank, candidates, rejected;
  std::vector<double> base, charge, table, message; ///< per block candidate
  std::vector<int> baseFirst;                       ///< per block position
  std::vector<int> choice, bestChoice;
  std::vector<double> change;
  int low = 0, high = 0;
  bool blockHoldsMemory = false;
  SplitCost changed;
  int worstStep = -1;

  // A kick in progress.
  int focus = -1, frozen = -1;
  bool journaling = false;
  std::vector<std::pair<int, int>> journal; ///< node and the candidate it had
};

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_NEIGHBORHOOD_H
