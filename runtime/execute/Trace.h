// When each instruction ran, on each rank and queue: recorded by the ranks, brought together at the root, and
// told from there as the JSON that ui.perfetto.dev opens, or as a profile by instruction.
#ifndef COLOSSAL_RUNTIME_EXECUTE_TRACE_H
#define COLOSSAL_RUNTIME_EXECUTE_TRACE_H

#include "colossal/Plan/Plan.pb.h"
#include "colossal/Plan/Status.h"

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
  struct Span {
    const plan::Instruction *instruction;
    const plan::Call *call; ///< of the function that it stands in; null in a program
    int64_t begin, end;
    uint32_t run; ///< counted from 1 since recording began
    int32_t peer; ///< of a message; -1 where there is none
  };

  /// Of many runs the last are kept: a viewer does not show more than `limit` spans.
  void beginRun(uint32_t run);
  void add(const plan::Instruction *instruction, const plan::Call *call, int64_t begin, int64_t end,
           int32_t peer) {
    if (spans.size() < 2 * limit) // a repeat may be long
      spans.push_back({instruction, call, begin, end, current, peer});
  }
  void clear() { spans.clear(); }
  const std::vector<Span> &recorded() const { return spans; }

private:
  static constexpr size_t limit = 1 << 19;
  std::vector<Span> spans;
  uint32_t current = 0;
};

/// Where an instruction runs: in a program, or in a function as one call runs it.
struct Site {
  const plan::Instruction *instruction;
  const plan::Call *call; ///< null in a program
};

/// What a trace or a profiler shows it as: names of ONNX operators, of several the first with how many more;
/// without them a kernel's or what kind of instruction it is.
std::string nameOf(const plan::Plan &plan, const Site &site);

/// The spans of all ranks on one axis of time.
class Timeline {
public:
  struct Span {
    uint32_t site;            ///< index in sites
    uint32_t run, occurrence; ///< the how manieth time that its rank executed it in that run
    int32_t peer;
    uint32_t queue;
    int64_t begin, end; ///< nanoseconds; the first of all begins at 0
    int64_t arrived;    ///< when all who take part had come: until then it waited, afterwards it moved
    uint32_t last;      ///< who came last
  };

  /// What one rank recorded, as bytes for the root. `start`: when the rank came out of a barrier of all, by
  /// its clock.
  static std::string pack(const plan::Plan &plan, const Trace *const *queues, size_t count, int64_t start);
  /// From the bytes of all ranks, in their order.
  static plan::Status unpack(const plan::Plan &plan, const std::vector<std::string> &ranks,
                             Timeline &timeline);

  /// Trace events: a process for each rank, a track for each queue and one for the runs; slices carry the
  /// names of operators, with waiting and moving inside them, and arrows lead from the rank that came last to
  /// those that waited for it, and from senders to receivers.
  std::string events() const;

  /// One instruction over the runs, in one place that it runs in, averages of all ranks.
  struct Row {
    std::string name, kind, kernel;  ///< as in the trace; the kernel is empty for what is none
    double executions = 0;           ///< in a run
    double seconds = 0, waiting = 0; ///< of a run; waiting is apart
    double predicted = 0;            ///< of a run; 0 where the plan states none
  };
  /// The instructions that ran, the dearest first.
  std::vector<Row> profile() const;

private:
  void arrive();
  const plan::Plan *plan = nullptr;
  std::vector<Site> sites;
  std::vector<std::vector<Span>> spans; // by rank, in order of time on each queue
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_TRACE_H
