//===- Passes.cpp - the schedule phase as a pass ----------------------------===//
#include "colossal/Schedule/Schedule.h"

#include "dialects/Plan/PlanDialect.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace colossal::schedule {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_SCHEDULEPROGRAMS
#define GEN_PASS_REGISTRATION
#include "colossal/Schedule/Passes.h.inc"

namespace {
struct ScheduleProgramsPass : impl::ScheduleProgramsBase<ScheduleProgramsPass> {
  using ScheduleProgramsBase::ScheduleProgramsBase;
  ScheduleProgramsPass(const ScheduleProgramsOptions &options, GeneratedCode *code)
      : ScheduleProgramsBase(options), code(code) {}

  void runOnOperation() override {
    ScheduleOptions options;
    options.target = target;
    options.targetCpu = targetCpu;
    options.threads = threads;
    options.rankThreads = rankThreads;
    options.winograd = winograd;
    auto found = codegen::createTarget(options.getTargetName(), options.getTargetOptions());
    if (!found) {
      getOperation().emitError(llvm::toString(found.takeError()));
      return signalPassFailure();
    }
    GeneratedCode dropped;
    if (failed(schedule(getOperation(), **found, options.threads, code ? *code : dropped)))
      signalPassFailure();
  }

  GeneratedCode *code = nullptr;
};
} // namespace

std::unique_ptr<Pass> createSchedulePass(const ScheduleOptions &options, GeneratedCode *code) {
  ScheduleProgramsOptions values;
  values.target = options.target;
  values.targetCpu = options.targetCpu;
  values.threads = options.threads;
  values.rankThreads = options.rankThreads;
  values.winograd = options.winograd;
  return std::make_unique<ScheduleProgramsPass>(values, code);
}

void registerPasses() {
  registerSchedulePasses();
}

} // namespace colossal::schedule
