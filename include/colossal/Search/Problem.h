// The layout problem that the solvers see: nodes with candidates, cost tables that tie nodes together, and
// memory over time. It knows no IR: the compiler's search phase builds one, calls solve() (Solver.h), and
// reads the chosen candidate of each node back.
#ifndef COLOSSAL_SEARCH_PROBLEM_H
#define COLOSSAL_SEARCH_PROBLEM_H

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace colossal::search {

/// A cost in whole units; the author of a problem picks the unit (the compiler: picoseconds, see
/// costFromSeconds). A legal cost lies in [-kMaxCost, kMaxCost] or is kForbidden.
using Cost = std::int64_t;

/// A sum of costs. 128 bits hold the sum of any problem that fits in memory, so totals never overflow.
using Total = __int128;

inline constexpr Cost kMaxCost = 1'000'000'000'000'000'000;

/// The flag "this choice is not allowed". It is a flag, not a number: it is never added to anything. An
/// assignment that meets one is infeasible whatever its other costs are.
inline constexpr Cost kForbidden = std::numeric_limits<Cost>::max();

/// Seconds to picoseconds, rounded to nearest and saturated at kMaxCost (about eleven days).
/// A negative or NaN time counts as zero.
Cost costFromSeconds(double seconds);
double secondsFromCost(Total cost);

/// Decimal digits of a total (the standard library prints no 128-bit integers).
std::string toString(Total total);

/// `bytes` are held during the time steps [begin, end). Empty where begin >= end. Steps are indices into the
/// author's order of execution; only their order matters.
struct MemoryUse {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t bytes = 0;

  friend bool operator==(const MemoryUse &a, const MemoryUse &b) {
    return a.begin == b.begin && a.end == b.end && a.bytes == b.bytes;
  }
};

/// One way to do a node: what it costs and the memory it holds, each piece over its own time. Recomputation
/// and offloading are candidates like others: the same tensor with two short intervals and a higher cost.
struct Candidate {
  Cost cost = 0;
  std::vector<MemoryUse> memory;
};

struct Node {
  /// For messages only; may be empty.
  std::string name;
  /// At least one.
  std::vector<Candidate> candidates;
};

/// Costs of every combination of the classes of an edge's nodes: row-major, the last node fastest.
using CostTable = std::vector<Cost>;

/// What an edge sees of a node: for each candidate its class. Candidates of one class cost the same on the
/// edge whatever the other nodes choose, and share one row of its table. Classes are numbered from 0 without
/// gaps.
struct Classes {
  std::vector<std::int32_t> of; ///< by candidate
  std::int32_t count = 0;
};

/// Ties one or more nodes together. The same node may not stand twice; several edges may tie the same nodes,
/// and add up. Equal edges should share one table (and equal nodes their classes): solvers do per table what
/// can be done once per table.
/// Example: an edge {a, b}, where a has 2 candidates and b has 3, has a table of 6 costs; entry 1 * 3 + 2 is
/// the cost of a's candidate 1 with b's candidate 2. Were b's candidates 0 and 2 in class 0 and candidate 1
/// in class 1, the table would have 4 costs, and that entry would be 1 * 2 + 0.
struct Edge {
  std::vector<std::int32_t> nodes;
  std::shared_ptr<const CostTable> table;
  /// By node; null where each candidate is a class of its own. Empty: null for all.
  std::vector<std::shared_ptr<const Classes>> classes = {};

  /// The class of a candidate of the `k`-th node.
  std::int32_t classOf(std::size_t k, std::int32_t candidate) const {
    return k < classes.size() && classes[k] ? classes[k]->of[candidate] : candidate;
  }
};

struct Problem {
  std::string name;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  /// At every step the bytes held by the chosen candidates must add up to at most this. None: memory is free.
  std::optional<std::int64_t> memoryLimit;

  /// Adds an edge between two nodes.
  void addEdge(std::int32_t a, std::int32_t b, std::shared_ptr<const CostTable> table,
               std::shared_ptr<const Classes> rows = nullptr,
               std::shared_ptr<const Classes> columns = nullptr) {
    edges.push_back({{a, b}, std::move(table), {std::move(rows), std::move(columns)}});
  }
  /// Rows (columns, ...) that an edge's table has for its `k`-th node.
  std::int32_t countClasses(const Edge &edge, std::size_t k) const {
    return k < edge.classes.size() && edge.classes[k]
               ? edge.classes[k]->count
               : static_cast<std::int32_t>(nodes[edge.nodes[k]].candidates.size());
  }
};

/// The candidate chosen for each node.
using Assignment = std::vector<std::int32_t>;

/// Everything a solver relies on. Returns an empty string for a good problem, and otherwise one message that
/// names the first place that is wrong, such as "edges[3]: table has 6 costs, its nodes have 2 x 4
/// candidates". Checked: at least one candidate per node, at most 2^30 nodes, edges' nodes in range and
/// distinct, classes and table sizes, costs in range, bytes and limit not negative and their sum below 2^52.
std::string validate(const Problem &problem);

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_PROBLEM_H
