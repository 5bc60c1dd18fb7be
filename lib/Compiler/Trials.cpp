//===- Trials.cpp - compilations within a limit of memory -------------------===//
#include "Trials.h"

#include "PlanPhase.h"

using namespace mlir;

namespace colossal {

LogicalResult compileWithin(const Imported &imported, const CompileOptions &options, Phase last,
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
