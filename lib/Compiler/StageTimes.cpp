//===- StageTimes.cpp - how long a run takes through stages -----------------===//
#include "StageTimes.h"

#include "colossal/Cost/PipelineSchedule.h"

#include <algorithm>

namespace colossal {

/// When each of `count` forward passes through stages that take `work` for one ends, on each stage.
static std::vector<cost::PipelineEvent> simulateForward(const std::vector<double> &work,
                                                        const std::vector<double> &hops, int64_t count,
                                                        const std::vector<double> &slowdown) {
  cost::PipelineProblem problem;
  problem.schedule = cost::Schedule::GPipe;
  problem.stages = static_cast<int>(work.size());
  problem.microbatches = static_cast<int>(count);
  problem.slowdown = slowdown;
  problem.hopSeconds = hops;
  for (double seconds : work)
    problem.work.emplace_back().forward = seconds;
  std::vector<cost::PipelineEvent> events = cost::simulate(problem, /*withTimeline=*/true).timeline;
  events.erase(std::remove_if(events.begin(), events.end(),
                              [](const cost::PipelineEvent &event) {
                                return event.pass != cost::PipelineEvent::Forward;
                              }),
               events.end());
  return events;
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
  double before = 0; // they all begin with that
  std::vector<double> ofPart, hops, ofRun;
  for (const StageWork &stage : stages) {
    before = std::max(before, stage.once * together);
    ofPart.push_back(stage.computing / parts);
    hops.push_back(stage.sending / parts);
    ofRun.push_back(stage.total());
  }
  StageTimes times;
  times.passes.resize(stages.size());
  const std::vector<cost::PipelineEvent> events = simulateForward(ofPart, hops, microbatches, slowdown);
  for (const cost::PipelineEvent &event : events)
    times.passes[event.stage].push_back({event.microbatch, before + event.start, before + event.end});
  times.seconds = before + findEnd(events);
  // Of many runs, as of microbatches, what one more takes.
  const auto few = static_cast<int64_t>(4 * stages.size()), many = 2 * few;
  const std::vector<double> none(stages.size(), 0);
  auto takeRuns = [&](int64_t runs) { return findEnd(simulateForward(ofRun, none, runs, slowdown)); };
  times.interval = (takeRuns(many) - takeRuns(few)) / static_cast<double>(many - few);
  return times;
}

} // namespace colossal
