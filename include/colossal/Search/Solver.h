// The one interface of all solvers: a problem and a budget in, an assignment and a bound out. What the solver
// does with the budget is told in docs/Search.md.
#ifndef COLOSSAL_SEARCH_SOLVER_H
#define COLOSSAL_SEARCH_SOLVER_H

#include "colossal/Search/Problem.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

namespace colossal::search {

/// How long to search. With `seconds` the answer depends on the machine's speed; with `work` it is bit-equal
/// for any number of threads and any machine. The search also ends by itself when the answer is proven
/// optimal, or when `gap` is reached.
struct Budget {
  /// Wall time from the call, in seconds.
  double seconds = std::numeric_limits<double>::infinity();
  /// Abstract units, about a thousand table entries each; 0 means: count seconds instead.
  std::uint64_t work = 0;
  /// Stop once (cost - bound) <= gap * |cost|.
  double gap = 0.0;
  /// Threads to use, at least 1.
  int threads = 1;
  std::uint64_t seed = 1;
};

enum class StopReason {
  /// Cost equals the lower bound.
  Optimal,
  /// The asked gap is reached.
  Gap,
  /// Time or work is spent.
  Budget,
  /// It is proven that no assignment is allowed (forbidden choices, or the limit below the sum of the least
  /// bytes).
  Infeasible,
};
/// "optimal", "gap", "budget", "infeasible".
const char *toString(StopReason reason);

/// A better answer, as it is found, or a step done, told in `note`.
struct Progress {
  double seconds = 0;
  Total cost = 0;
  bool feasible = false;
  std::optional<Total> lowerBound;
  std::string note;
};

struct Solution {
  /// One candidate per node. Always filled for a valid problem, feasible or not: where nothing feasible was
  /// found it is the assignment with the fewest forbidden choices, then the least excess of memory, then the
  /// least cost.
  Assignment assignment;
  /// Sum of the costs that are not forbidden.
  Total cost = 0;
  bool feasible = false;
  std::int64_t forbidden = 0;
  std::int64_t peakBytes = 0;
  /// No feasible assignment costs less. Valid in exact arithmetic. None: no bound was computed.
  std::optional<Total> lowerBound;
  StopReason stop = StopReason::Budget;
  double seconds = 0;
  /// Where `feasible` is false, a sentence for the user: "no assignment fits the memory limit of 100 bytes;
  /// the smallest peak found is 120 bytes". Says whether that is proven.
  std::string message;
};

/// Solves a problem for which validate() returns an empty string. An invalid problem gives a Solution with an
/// empty assignment, stop == Infeasible and validate()'s message. Deterministic for a given (problem, work,
/// seed).
Solution solve(const Problem &problem, const Budget &budget,
               const std::function<void(const Progress &)> &progress = nullptr);

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_SOLVER_H
