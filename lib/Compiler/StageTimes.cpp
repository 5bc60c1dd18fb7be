//===- StageTimes.cpp - how long a run takes through stages -----------------===//
#include "StageTimes.h"

#include "colossal/Cost/PipelineSchedule.h"

#include <algorithm>

namespace colossal {

/// When each of `count` forward passes through stages ends, on each stage. `work`: what one takes, by part of
/// the model, of as many chunks of all stages as it holds.
static std::vector<cost::PipelineEvent> simulateForward(const std::vector<double> &work,
                                                        const std::vector<double> &hops, int64_t count,
                                                        const std::vector<double> &slowdown) {
  cost::PipelineProblem problem;
  problem.stages = static_cast<int>(hops.size());
  problem.chunks = static_cast<int>(work.size() / hops.size());
  problem.schedule = problem.chunks > 1 ? cost::Schedule::Interleaved : cost::Schedule::GPipe;
  problem.forwardOnly = true;
  problem.microbatches = static_cast<int>(count);
  problem.slowdown = slowdown;
  problem.hopSeconds = hops;
  for (double seconds : work)
    problem.work.emplace_back().forward = seconds;
  return cost::simulate(problem, /*withTimeline=*/true).timeline;
}

static double findEnd(const std::vector<cost::PipelineEvent> &events) {
  double end = 0;
  for (const cost::PipelineEvent &event : events)
    end = std::max(end, event.end);
  return end;
}

StageTimes simulateStages(const std::vector<StageWork> &stages, int64_t microbatches,
                          const std::vector<double> &slowdown) {
  const double together = slowdown.empty() ? 1 : slowdown.back();
  const auto parts = static_cast<double>(microbatches);
  const size_t chunks = stages.front().chunks.size();
  double before = 0; // they all begin with that
  std::vector<double> hops, ofRun;
  for (const StageWork &stage : stages) {
    before = std::max(before, stage.once * together);
    double sending = 0;
    for (const StageWork::Chunk &chunk : stage.chunks)
      sending += chunk.sending;
    hops.push_back(sending / parts / static_cast<double>(chunks));
    ofRun.push_back(stage.total());
  }
  std::vector<double> ofPart;
  for (size_t chunk = 0; chunk < chunks; ++chunk)
    for (const StageWork &stage : stages)
      ofPart.push_back(stage.chunks[chunk].computing / parts);
  StageTimes times;
  times.passes.resize(stages.size());
  const std::vector<cost::PipelineEvent> events = simulateForward(ofPart, hops, microbatches, slowdown);
  for (const cost::PipelineEvent &event : events)
    times.passes[event.stage].push_back(
        {event.microbatch, event.chunk, before + event.start, before + event.end});
  times.seconds = before + findEnd(events);
  // Of many runs, as of microbatches, what one more takes.
  const auto few = static_cast<int64_t>(4 * stages.size()), many = 2 * few;
  const std::vector<double> none(stages.size(), 0);
  auto takeRuns = [&](int64_t runs) {
    return chunks == 1 ? findEnd(simulateForward(ofRun, none, runs, slowdown))
                       : findEnd(simulateForward(ofPart, none, runs * microbatches, slowdown)) +
                             static_cast<double>(runs) * before;
  };
  times.interval = (takeRuns(many) - takeRuns(few)) / static_cast<double>(many - few);
  return times;
}

} // namespace colossal
