//===- Trials.cpp - compilations within a limit of memory -------------------===//
#include "Trials.h"

#include "PlanPhase.h"

using namespace mlir;

namespace colossal {

static LogicalResult compileAsAsked(const Imported &imported, const CompileOptions &options, Phase last,
                                    const std::function<bool()> &spend, CompileResult &result) {
  auto compileOnce = [&](const CompileOptions &once, CompileResult &of) {
    of.module = imported.module.get().clone();
    return runPhases(*of.module, once, Phase::Import, last, of);
  };
  if (failed(compileOnce(options, result)))
    return failure();
  const uint64_t limit = options.layout.memoryBytes;
  if (limit == 0 || last != Phase::Plan)
    return success();
  CompileOptions tighter = options;
  std::vector<PhaseTime> phases = result.phases;
  PlanMemory memory = measureMemory(result.plan, options);
  uint64_t tooLittle = 0, enough = limit;
  for (int attempt = 0; attempt < 7 && memory.total() > limit; ++attempt) {
    uint64_t beyond = memory.total() - limit + limit / 128;
    // First without what was only for speed.
    if (!tighter.schedule.winograd)
      tighter.layout.memoryBytes =
          enough > tooLittle + beyond ? enough - beyond : tooLittle + (enough - tooLittle) / 2;
    if (enough - tooLittle < limit / 128 || !spend())
      break;
    tighter.schedule.winograd = false;
    if (options.progress)
      options.progress("again, since the plan takes more than --memory");
    CompileResult next;
    next.recompute = result.recompute;
    ScopedDiagnosticHandler quiet(imported.module.get().getContext(), [](Diagnostic &) { return success(); });
    LogicalResult done = compileOnce(tighter, next);
    llvm::append_range(phases, next.phases);
    if (failed(done)) {
      tooLittle = tighter.layout.memoryBytes;
      continue;
    }
    enough = tighter.layout.memoryBytes;
    PlanMemory found = measureMemory(next.plan, options);
    if (found.total() < memory.total()) {
      result = std::move(next);
      memory = found;
    }
  }
  result.phases = std::move(phases);
  return success();
}

LogicalResult compileWithin(const Imported &imported, const CompileOptions &options, Phase last,
                            const std::function<bool()> &spend, CompileResult &result) {
  if (!options.training)
    return compileAsAsked(imported, options, last, spend, result);
  if (options.training->recompute) {
    result.recompute = *options.training->recompute;
    return compileAsAsked(imported, options, last, spend, result);
  }
  CompileOptions trial = options;
  MLIRContext *context = imported.module.get().getContext();
  std::vector<PhaseTime> phases;
  struct Attempt {
    CompileResult result;
    std::vector<Diagnostic> said;
    LogicalResult done = success();
    bool isTooLarge = false;
  };
  auto attempt = [&](Recompute recompute) {
    trial.training->recompute = recompute;
    if (recompute != Recompute::None && options.progress)
      options.progress("again with recompute " + describe(recompute).str() + ", since the step does not fit");
    Attempt one;
    // The first may have the kernels that were prepared; what it has added to them is no other's.
    if (recompute == Recompute::None)
      one.result.kernels = std::move(result.kernels);
    one.result.recompute = recompute;
    {
      ScopedDiagnosticHandler hold(context, [&](Diagnostic &diagnostic) {
        one.said.push_back(std::move(diagnostic));
        return success();
      });
      one.done = compileAsAsked(imported, trial, last, spend, one.result);
    }
    llvm::append_range(phases, one.result.phases);
    const uint64_t limit = options.layout.memoryBytes;
    one.isTooLarge = failed(one.done) ? one.result.layout.neededBytes > 0
                                      : limit > 0 && last == Phase::Plan &&
                                            measureMemory(one.result.plan, trial).total() > limit;
    return one;
  };
  auto take = [&](Attempt &one) {
    for (Diagnostic &diagnostic : one.said)
      context->getDiagEngine().emit(std::move(diagnostic));
    result = std::move(one.result);
    result.phases = std::move(phases);
    return one.done;
  };
  for (Recompute recompute : {Recompute::None, Recompute::Selective})
    if (Attempt one = attempt(recompute); !one.isTooLarge)
      return take(one);
  // Of single values as many as fit: each choice has those of the one before.
  std::vector<std::vector<std::string>> choices;
  if (options.findKept) {
    ScopedDiagnosticHandler quiet(context, [](Diagnostic &) { return success(); });
    choices = options.findKept();
  }
  std::optional<Attempt> fits;
  for (size_t begin = 0, end = choices.size(); begin < end;) {
    const size_t middle = begin + (end - begin) / 2;
    trial.training->kept = choices[middle];
    Attempt one = attempt(Recompute::ByValue);
    if (one.isTooLarge || failed(one.done)) {
      end = middle;
    } else {
      begin = middle + 1;
      fits = std::move(one);
    }
  }
  if (fits)
    return take(*fits);
  trial.training->kept.clear();
  Attempt least = attempt(Recompute::Full);
  return take(least);
}

Trial tryWithin(const Imported &imported, const CompileOptions &options, Phase last, uint64_t limit,
                const std::function<bool()> &spend) {
  CompileOptions trial = options;
  trial.layout.memoryBytes = limit;
  trial.schedule.compileKernels = false;
  trial.progress = nullptr;
  trial.configurePasses = nullptr;
  Trial left;
  ScopedDiagnosticHandler quiet(imported.module.get().getContext(), [&](Diagnostic &diagnostic) {
    if (!left.complaint && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      left.complaint = std::move(diagnostic);
    return success();
  });
  CompileResult result;
  if (failed(compileWithin(imported, trial, last, spend, result))) {
    if (result.layout.neededBytes)
      left.needed = result.layout.neededBytes;
    return left;
  }
  uint64_t needed = last == Phase::Plan && limit ? measureMemory(result.plan, options).total() : 0;
  left.needed = needed <= limit ? 0 : needed;
  for (const ProgramPrediction &program : result.predictions) {
    left.seconds += program.seconds;
    left.interval += program.interval;
  }
  if (result.predictions.empty()) {
    left.seconds = result.layout.predictedSeconds;
    left.interval = result.step.stages.empty() ? left.seconds : result.searchedInterval;
  }
  return left;
}

} // namespace colossal
