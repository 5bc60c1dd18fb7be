// How long a run may stand still before it is given up: what the plan predicts, times a factor, or a time
// that the caller sets.
#ifndef COLOSSAL_RUNTIME_EXECUTE_DEADLINE_H
#define COLOSSAL_RUNTIME_EXECUTE_DEADLINE_H

#include "colossal/Plan/Status.h"

#include <chrono>
#include <string>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

/// Without `fixed` or `never`: `factor` times what is predicted, and no less than `floor`; five times that in
/// a program's first run, in which devices load and compile code and time algorithms. Where the plan predicts
/// nothing, and between programs, five times `floor`. With the defaults (100, 120 s) a launch that is
/// predicted at 2 ms may take 120 s, and one at 3 s may take 300 s; in the first run 600 s and 1500 s.
class Deadline {
public:
  using Span = std::chrono::milliseconds;

  Deadline() = default;
  /// `factor` times what is predicted, and no less than `floor` seconds. Both are positive and finite.
  static Deadline predicted(double factor, double floor) {
    Deadline deadline;
    deadline.factor = factor;
    deadline.floor = floor;
    deadline.given = true;
    return deadline;
  }
  /// The same for everything.
  static Deadline fixed(Span span) {
    Deadline deadline;
    deadline.span = span;
    deadline.given = true;
    return deadline;
  }
  static Deadline never() { return fixed(longest); }
  /// Reads "SECONDS" (0.1 to 1e7), "FACTORx", "FACTORx,SECONDS" (the floor) or "never".
  static Status parse(const std::string &text, Deadline &deadline);

  /// Whether the caller asked for it.
  bool isGiven() const { return given; }
  bool followsPrediction() const { return span == Span(0); }
  /// For what is predicted to take `seconds`; 0: nothing is predicted.
  Span forPredicted(double seconds, bool firstRun) const;
  /// Where nothing is predicted.
  Span unpredicted() const { return forPredicted(0, true); }

  /// About thirty years, which added to any clock's time is a time.
  static constexpr Span longest{1'000'000'000'000};

private:
  double factor = 100, floor = 120; // the latter in seconds
  Span span{0};                     // of a fixed one
  bool given = false;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_DEADLINE_H
