// What a session holds; its functions stand in Session.cpp, and those that report of a run in
// SessionReports.cpp.
#ifndef COLOSSAL_RUNTIME_EXECUTE_SESSIONCORE_H
#define COLOSSAL_RUNTIME_EXECUTE_SESSIONCORE_H

#include "runtime/device/Registry.h"
#include "runtime/execute/RankThreads.h"
#include "runtime/execute/Session.h"

#include <set>
#include <unordered_map>

namespace colossal::runtime {

struct Session::Core {
  std::string path; // of the file
  plan::PlanFile file;
  Rank::Shared shared;
  std::unique_ptr<Driver> driver;
  std::vector<std::unique_ptr<Rank>> ranks;
  std::unique_ptr<RankThreads> rankThreads; // after the ranks: it goes first
  uint32_t rankCount = 1;
  unsigned threads = 1;
  std::string warning, remark; // the latter of the weights, to the former
  std::set<int> hasRun;        // programs
  /// What the digests of strings stand for: of the plan's own, and of those that the last run's inputs
  /// brought.
  std::unordered_map<uint64_t, std::string> texts;

  Status open(const std::string &path, const SessionOptions &options);
  Status start(const SessionOptions &options);
  /// How long ranks wait for one another around and in a program that is predicted to take `seconds`, 0 where
  /// none runs. The watch over all of them, which knows what a rank is doing, is to give up first.
  void waitAsLongAs(double seconds, bool firstRun) {
    const Deadline &deadline = shared.deadline;
    Deadline::Span span = std::max(deadline.unpredicted(), deadline.forPredicted(seconds, firstRun));
    shared.betweenPrograms = span;
    if (deadline.followsPrediction() && span < Deadline::longest)
      span += std::chrono::seconds(2);
    shared.abort.timeout = span;
  }
  /// Whether all processes have opened the same plan; every process calls it.
  Status comparePlans(Control &control) const;
  /// Learns the texts of the plan and of a run's inputs; fails where two have one digest.
  Status learn(const plan::Program *program, const Tensors &inputs);
  Status scatter(int program, const Tensors &inputs, const SourcedInputs &sourced, Rank &rank);
  /// Collects texts of processes with one rank each; watched as a run is, so that one that never gives its
  /// own is named.
  Status gather(const std::string &mine, std::vector<std::string> &all) {
    return rankThreads->run([&](Rank &rank) { return rank.control().gather(mine, all); });
  }
  /// Makes of `texts`, one for each rank of this process, those of all ranks.
  Status gather(std::vector<std::string> &texts) {
    return ranks.size() == rankCount ? Status() : gather(std::string(texts[0]), texts);
  }
  /// After a run: whether what it computed for this lies in its ranges, on the ranks of this process.
  Status checkComputed(int program);
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_SESSIONCORE_H
