//===- PassOrder.cpp - in which order stages do their passes ------------------===//
#include "PassOrder.h"

#include <algorithm>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::step;

/// Of a program without backward passes: each part of a microbatch one unit of time after the one before, and
/// microbatches in groups of as many as there are stages, as the interleaved schedule has them; in a V, in
/// which a stage's two parts meet microbatches at times of different parity, two units apart.
static std::vector<StagePass> orderForward(const Pipeline &pipeline, int64_t turns) {
  std::vector<std::pair<int64_t, StagePass>> timed;
  for (int64_t part = 0; part < pipeline.countForwardParts(); ++part)
    for (int64_t turn = 0; turn < turns; ++turn) {
      const int64_t stages = pipeline.stages;
      const int64_t time =
          pipeline.isV ? 2 * turn + part : turn / stages * stages * pipeline.chunks + turn % stages + part;
      timed.push_back({time, {pipeline.getStage(part), pipeline.getChunk(part), turn}});
    }
  std::stable_sort(timed.begin(), timed.end(),
                   [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<StagePass> passes;
  for (auto &[time, pass] : timed)
    passes.push_back(pass);
  return passes;
}

static FailureOr<std::vector<cost::PipelineEvent>> simulatePasses(const Chain &chain, int64_t turns,
                                                                  cost::Schedule schedule) {
  const Pipeline &pipeline = chain.pipeline;
  cost::PipelineProblem problem;
  problem.schedule = schedule;
  problem.stages = static_cast<int>(pipeline.stages);
  problem.chunks = static_cast<int>(pipeline.chunks);
  problem.microbatches = static_cast<int>(turns);
  problem.lastTurnsBack = true;
  const std::vector<double> forward = chain.getForwardSeconds(), backward = chain.getBackwardSeconds();
  for (auto [ahead, back] : llvm::zip_equal(forward, backward)) {
    cost::ChunkWork &work = problem.work.emplace_back();
    const auto parts = static_cast<double>(turns);
    work.forward = ahead / parts;
    // Of each product that gradients are made of, one is that of an input and one that of a weight.
    work.backward = work.weightGradient = back / parts / 2;
    work.activationBytes = cost::ChunkWork::kMicrobatch;
    work.weightGradientBytes = cost::ChunkWork::kOfWeights;
  }
  cost::PipelineResult result = cost::simulate(problem, /*withTimeline=*/true);
  func::FuncOp function = chain.function;
  if (!result.error.empty())
    return emitError(function.getLoc())
           << "--pipeline-schedule " << cost::toString(schedule) << " of " << pipeline.stages << " stages, "
           << pipeline.chunks << " chunks and " << turns << " microbatches: " << result.error;
  return std::move(result.timeline);
}

/// The passes in the order in which they begin.
static std::vector<StagePass> sortPasses(const Pipeline &pipeline, std::vector<cost::PipelineEvent> events) {
  std::vector<StagePass> passes;
  std::stable_sort(
      events.begin(), events.end(),
      [](const cost::PipelineEvent &a, const cost::PipelineEvent &b) { return a.start < b.start; });
  for (const cost::PipelineEvent &event : events) {
    // Chunks of the backward pass are numbered as a microbatch comes to them.
    const int64_t last = pipeline.chunks - 1;
    int64_t chunk = event.chunk;
    if (event.pass != cost::PipelineEvent::Forward)
      chunk = (event.pass == cost::PipelineEvent::Backward ? 1 : 2) * pipeline.chunks + last - event.chunk;
    passes.push_back({event.stage, chunk, event.microbatch});
  }
  return passes;
}

LogicalResult step::orderPasses(const Chain &chain, ArrayRef<ModuleOp> stages, int64_t turns,
                                cost::Schedule schedule, ArrayRef<cost::PipelineEvent> planned) {
  if (!chain.trains || turns < 2)
    return success();
  std::vector<StagePass> passes;
  if (chain.pipeline.hasBackward) {
    FailureOr<std::vector<cost::PipelineEvent>> events = planned.vec();
    if (planned.empty())
      events = simulatePasses(chain, turns, schedule);
    if (failed(events))
      return failure();
    passes = sortPasses(chain.pipeline, std::move(*events));
  } else {
    passes = orderForward(chain.pipeline, turns);
  }
  func::FuncOp whole = chain.function;
  for (auto [s, stage] : llvm::enumerate(stages)) {
    SmallVector<int64_t> order;
    for (const StagePass &pass : passes)
      if (pass.stage == static_cast<int64_t>(s))
        order.append({pass.chunk, pass.turn});
    auto function = ModuleOp(stage).lookupSymbol<func::FuncOp>(whole.getName());
    function->setAttr(kPassesAttrName, DenseI64ArrayAttr::get(function.getContext(), order));
  }
  return success();
}

std::vector<StagePass> step::mergePasses(ArrayRef<func::FuncOp> functions) {
  struct Stage {
    ArrayRef<int64_t> order;
    size_t next = 0;
  };
  const Pipeline pipeline = *getPipeline(functions.front());
  std::vector<Stage> stages;
  for (func::FuncOp function : functions)
    stages.push_back({function->getAttrOfType<DenseI64ArrayAttr>(kPassesAttrName).asArrayRef()});
  llvm::DenseSet<std::pair<int64_t, int64_t>> done; // parts and turns
  const int64_t forward = pipeline.countForwardParts();
  auto isReady = [&](int64_t part, int64_t turn) {
    if (part == 0)
      return true;
    // The gradients of weights need those of the inputs, others the part before.
    return done.contains({part >= 2 * forward ? part - forward : part - 1, turn});
  };
  std::vector<StagePass> merged;
  for (bool goesOn = true; goesOn;) {
    goesOn = false;
    SmallVector<StagePass> now;
    for (auto [s, stage] : llvm::enumerate(stages)) {
      if (stage.next >= stage.order.size())
        continue;
      const StagePass pass{static_cast<int64_t>(s), stage.order[stage.next], stage.order[stage.next + 1]};
      if (isReady(pipeline.getPart(pass.stage, pass.chunk), pass.turn))
        now.push_back(pass);
    }
    for (const StagePass &pass : now) {
      done.insert({pipeline.getPart(pass.stage, pass.chunk), pass.turn});
      stages[pass.stage].next += 2;
      merged.push_back(pass);
      goesOn = true;
    }
  }
  return merged;
}
