// When each instruction ran, on each rank and queue; written as the JSON that chrome://tracing and Perfetto
// open.
#ifndef COLOSSAL_RUNTIME_EXECUTE_TRACE_H
#define COLOSSAL_RUNTIME_EXECUTE_TRACE_H

#include "colossal/Plan/Plan.pb.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace colossal::runtime {

/// Nanoseconds of a clock that all processes of one machine share.
inline int64_t traceClock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Spans of one queue of one rank; one thread appends at a time.
class Trace {
public:
  void add(const plan::Instruction *instruction, int64_t begin, int64_t end) {
    if (spans.size() < limit)
      spans.push_back({instruction, begin, end});
  }
  void clear() { spans.clear(); }
  /// Events as a comma-separated list of JSON objects, with names of the track.
  std::string json(const plan::Plan &plan, uint32_t rank, uint32_t queue) const;

private:
  static constexpr size_t limit = 1 << 20; // a repeat may be long; a viewer is not
  struct Span {
    const plan::Instruction *instruction;
    int64_t begin, end;
  };
  std::vector<Span> spans;
};

/// The file around the lists of all ranks.
std::string traceFile(const std::vector<std::string> &lists);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_TRACE_H
