//===- Passes.cpp - steps of a program as passes ----------------------------===//
#include "colossal/Cost/MachineChoice.h"
#include "colossal/Partition/Partition.h"
#include "colossal/Step/CutStages.h"
#include "colossal/Step/MarkBatch.h"
#include "colossal/Step/MergeCasts.h"
#include "colossal/Step/PropagateBatch.h"
#include "colossal/Step/Transfers.h"
#include "dialects/Dist/Stages.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace colossal::step {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_CUTSTAGES
#define GEN_PASS_DEF_MERGECASTS
#define GEN_PASS_DEF_PLANTRANSFERS
#define GEN_PASS_DEF_PROPAGATEBATCH
#define GEN_PASS_REGISTRATION
#include "colossal/Step/Passes.h.inc"

namespace {
struct PropagateBatchPass : impl::PropagateBatchBase<PropagateBatchPass> {
  void runOnOperation() override {
    if (dist::getMesh(getOperation()).getLoopAxis() < 0)
      return markAllAnalysesPreserved(); // there is nothing to do, and nothing to verify
    if (failed(propagateBatch(getOperation())))
      signalPassFailure();
  }
};

struct CutStagesPass : impl::CutStagesBase<CutStagesPass> {
  using CutStagesBase::CutStagesBase;
  CutStagesPass(const StepOptions &options, StepReport *into) : given(options), into(into) {
    // As text, for pipelines that are printed.
    memory = options.memoryBytes;
    machine = options.machineText;
    chunks = options.chunks;
    pins = options.pins;
  }
  void runOnOperation() override {
    if (!given) {
      cost::MachineChoice choice = cost::chooseMachine(machine);
      if (!choice.error.empty()) {
        getOperation().emitError() << choice.error;
        return signalPassFailure();
      }
      given.emplace();
      given->memoryBytes = memory;
      given->chunks = chunks;
      given->machine = std::move(choice.machine);
      given->pins.assign(pins.begin(), pins.end());
    }
    if (given->chunks < 1) {
      getOperation().emitError() << "chunks=" << given->chunks << ": a stage has one or more";
      return signalPassFailure();
    }
    StepReport report;
    if (failed(cutStages(getOperation(), *given, report)))
      return signalPassFailure();
    markBatch(getOperation());
    if (into)
      *into = std::move(report);
    if (dist::getStages(getOperation()).front() == getOperation()) // nothing was cut
      markAllAnalysesPreserved();
  }

  std::optional<StepOptions> given;
  StepReport *into = nullptr;
};

struct MergeCastsPass : impl::MergeCastsBase<MergeCastsPass> {
  void runOnOperation() override {
    getOperation().walk([](mlir::func::FuncOp function) { mergeCasts(function); });
  }
};

struct PlanTransfersPass : impl::PlanTransfersBase<PlanTransfersPass> {
  using PlanTransfersBase::PlanTransfersBase;
  void runOnOperation() override {
    if (dist::getStages(getOperation()).front() == getOperation())
      return markAllAnalysesPreserved();
    if (failed(planTransfers(getOperation(), sendsWait)))
      signalPassFailure();
  }
};
} // namespace

std::unique_ptr<Pass> createCutStagesPass(const StepOptions &options, StepReport *report) {
  return std::make_unique<CutStagesPass>(options, report);
}

std::unique_ptr<Pass> createPlanTransfersPass(bool sendsWait) {
  PlanTransfersOptions options;
  options.sendsWait = sendsWait;
  return createPlanTransfers(options);
}

void registerPasses() {
  registerStepPasses();
}

} // namespace colossal::step
