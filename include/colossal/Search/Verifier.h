// Judges an assignment by the definition of the problem alone. It shares no code with the solvers, so that a
// mistake in one of them cannot hide here.
#ifndef COLOSSAL_SEARCH_VERIFIER_H
#define COLOSSAL_SEARCH_VERIFIER_H

#include "colossal/Search/Problem.h"

namespace colossal::search {

struct Verdict {
  /// Empty if the assignment has one candidate in range for every node; otherwise what is wrong, and nothing
  /// else below is meaningful.
  std::string malformed;
  /// Sum of all costs that are not forbidden.
  Total cost = 0;
  /// How many forbidden choices and combinations the assignment meets.
  std::int64_t forbidden = 0;
  /// Largest sum of bytes held at one step, and the first step that reaches it.
  std::int64_t peakBytes = 0;
  std::int64_t peakStep = 0;
  /// max(0, peakBytes - limit); 0 without a limit.
  std::int64_t excessBytes = 0;

  bool feasible() const { return malformed.empty() && forbidden == 0 && excessBytes == 0; }
};

/// O(total size of the assignment's costs and intervals, with one sort).
Verdict verify(const Problem &problem, const Assignment &assignment);

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_VERIFIER_H
