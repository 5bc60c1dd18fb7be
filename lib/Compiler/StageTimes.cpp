//===- StageTimes.cpp - how long a run takes through stages -----------------===//
#include "StageTimes.h"

#include "colossal/Cost/PipelineSchedule.h"

#include "llvm/ADT/STLExtras.h"

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

StageTimes simulatePasses(const std::vector<StageWork> &stages, const dist::Pipeline &pipeline,
                          cost::Schedule schedule, int64_t microbatches,
                          const std::vector<double> &slowdown) {
  const auto parts = static_cast<double>(microbatches);
  cost::PipelineProblem problem;
  problem.stages = static_cast<int>(pipeline.stages);
  problem.chunks = static_cast<int>(pipeline.chunks);
  problem.microbatches = static_cast<int>(microbatches);
  problem.forwardOnly = !pipeline.hasBackward;
  // Without backward passes a microbatch goes through a V as through any chunks.
  problem.schedule = pipeline.hasBackward  ? schedule
                     : pipeline.chunks > 1 ? cost::Schedule::Interleaved
                                           : cost::Schedule::GPipe;
  if (!pipeline.splits)
    problem.slowdown = slowdown;
  const double together = slowdown.empty() ? 1 : slowdown.back();
  double once = 0;
  for (const StageWork &stage : stages) {
    double own = stage.once, sending = 0;
    for (auto [c, chunk] : llvm::enumerate(stage.chunks)) {
      if (pipeline.isClosing(static_cast<int64_t>(c)))
        own += chunk.computing + chunk.sending;
      else
        sending += chunk.sending;
    }
    once = std::max(once, own * together);
    problem.hopSeconds.push_back(sending / parts / static_cast<double>(pipeline.countTurnChunks()));
  }
  for (int64_t part = 0; part < pipeline.countForwardParts(); ++part) {
    const StageWork &stage = stages[pipeline.getStage(part)];
    auto getSeconds = [&](int64_t chunk) {
      const auto place = static_cast<size_t>(chunk);
      return place < stage.chunks.size() ? stage.chunks[place].computing / parts : 0;
    };
    const int64_t chunk = pipeline.getChunk(part), backward = 2 * pipeline.chunks - 1 - chunk;
    cost::ChunkWork &work = problem.work.emplace_back();
    work.forward = getSeconds(chunk);
    work.backward = pipeline.hasBackward ? getSeconds(backward) : 0;
    work.weightGradient = pipeline.splits ? getSeconds(backward + pipeline.chunks) : 0;
    work.activationBytes = 1;
    work.weightGradientBytes = 0.5;
  }
  const cost::PipelineResult result = cost::simulate(problem, /*withTimeline=*/true);
  StageTimes times;
  times.passes.resize(stages.size());
  for (const cost::PipelineEvent &event : result.timeline) {
    int64_t chunk = event.chunk;
    if (event.pass != cost::PipelineEvent::Forward)
      chunk = (event.pass == cost::PipelineEvent::Backward ? 2 : 3) * pipeline.chunks - 1 - event.chunk;
    times.passes[event.stage].push_back({event.microbatch, chunk, event.start, event.end});
  }
  times.seconds = times.interval = result.seconds + once;
  return times;
}

} // namespace colossal
