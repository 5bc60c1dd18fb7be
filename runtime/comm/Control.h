// What the hosts of a plan's ranks say to each other outside of any device's work: meeting, collecting small
// texts, and ending the run. It moves no tensors, so it needs no device; a launcher, a TCP store or MPI can
// carry it.
#ifndef COLOSSAL_RUNTIME_COMM_CONTROL_H
#define COLOSSAL_RUNTIME_COMM_CONTROL_H

#include "colossal/Plan/Status.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

/// One rank's handle. Every rank makes the same calls in the same order; each blocks its caller.
class Control {
public:
  virtual ~Control() = default;
  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  /// Returns when all ranks have called it.
  virtual Status barrier() = 0;
  /// Collects `mine` of every rank at rank 0, in order of ranks; elsewhere `all` is left empty.
  virtual Status gather(const std::string &mine, std::vector<std::string> &all) = 0;
  /// Gives rank 0's `text` to every rank.
  virtual Status broadcast(std::string &text) = 0;
  /// Ends the ranks that live in other processes (MPI_Abort). Does not return if there are any.
  virtual void abort(int exitCode) = 0;

  // Who is alive, asked beside the calls above and in no order among ranks. A process that watches over a run
  // calls `answer` every few milliseconds; when the run stands still it asks. What does not answer is
  // stopped, dead, or not in the run. Neither call blocks.
  /// Answers what other processes have asked since with `mine`, what this rank is doing, and takes in their
  /// answers. `ask`: asks all of them now.
  virtual void answer(const std::string &mine, bool ask) { (void)mine, (void)ask; }
  /// The last answers of all ranks that are not older than `span`, by rank; empty where there is none, as for
  /// the own rank. No entries where all ranks live in this process, which sees for itself.
  virtual std::vector<std::string> answers(std::chrono::milliseconds span) const {
    (void)span;
    return {};
  }
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_COMM_CONTROL_H
