// What remains of a problem once the reductions have had their way, laid flat for inner loops: nodes with
// candidates, pairwise tables, and memory over compressed time. Costs are doubles that hold whole numbers
// exactly: a problem whose costs could add up to more than 2^52 is divided by a power of two first
// (Reduction.h), so sums of costs never round.
#ifndef COLOSSAL_SEARCH_CORE_H
#define COLOSSAL_SEARCH_CORE_H

#include <cstdint>
#include <memory>
#include <vector>

namespace colossal::search {

/// Stands for a forbidden choice. Larger than any sum of allowed costs, and sums of many stay ordered.
inline constexpr double kBig = 1e24;
inline bool isBig(double cost) {
  return cost >= kBig / 2;
}

/// A sum of costs with what is forbidden counted apart, where adding kBig would round the allowed costs away.
struct SplitCost {
  std::int64_t forbidden = 0;
  double cost = 0;

  void add(double entry) { isBig(entry) ? void(++forbidden) : void(cost += entry); }
  void subtract(double entry) { isBig(entry) ? void(--forbidden) : void(cost -= entry); }
  SplitCost &operator+=(const SplitCost &other) {
    forbidden += other.forbidden;
    cost += other.cost;
    return *this;
  }
  bool operator==(const SplitCost &other) const { return forbidden == other.forbidden && cost == other.cost; }
  bool operator<(const SplitCost &other) const {
    return forbidden != other.forbidden ? forbidden < other.forbidden : cost < other.cost;
  }
};

/// A dense pairwise table, row-major, immutable and shared by all edges that look alike.
struct Table {
  int rows = 0, cols = 0;
  std::vector<double> costs;
  const double *row(int r) const { return costs.data() + static_cast<std::size_t>(r) * cols; }
};
using TablePtr = std::shared_ptr<const Table>;

/// `bytes` over the compressed steps [begin, end), begin < end.
struct Piece {
  int begin = 0, end = 0;
  double bytes = 0;
};

struct Core {
  /// One end of an edge, seen from node i.
  struct Half {
    int other = 0;
    /// Index of the same edge seen from the other end.
    int reverse = 0;
    /// Rows are the other node's candidates, columns are node i's: the row of a fixed neighbour is
    /// contiguous.
    const double *from = nullptr;
  };

  int nodes = 0;
  std::vector<int> first;     ///< nodes + 1: where a node's candidates begin in `cost` and `pieceFirst`
  std::vector<double> cost;   ///< per candidate
  std::vector<int> halfFirst; ///< nodes + 1
  std::vector<Half> halves;   ///< by node
  std::vector<std::int64_t> pieceFirst; ///< per candidate, plus one
  std::vector<Piece> pieces;
  std::vector<double> capacity; ///< per step: bytes that the candidates' pieces may add up to
  double offset = 0;            ///< cost of what has been decided already
  std::vector<TablePtr> tables; ///< keeps the tables alive

  int candidates(int i) const { return first[i + 1] - first[i]; }
  int steps() const { return static_cast<int>(capacity.size()); }
  SplitCost totalCost(const std::vector<int> &x) const;
};

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_CORE_H
