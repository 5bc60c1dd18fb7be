//===- Passes.cpp - the schedule phase as a pass ----------------------------===//
#include "colossal/Schedule/Schedule.h"

#include "dialects/Plan/PlanDialect.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace colossal::schedule {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_SCHEDULEPROGRAMS
#include "colossal/Schedule/Passes.h.inc"

namespace {
struct ScheduleProgramsPass : impl::ScheduleProgramsBase<ScheduleProgramsPass> {
  using ScheduleProgramsBase::ScheduleProgramsBase;
  ScheduleProgramsPass() = default;
  explicit ScheduleProgramsPass(TargetResolver resolve) : resolve(std::move(resolve)) {}
  ScheduleProgramsPass(const ScheduleProgramsOptions &values, const ScheduleOptions &options,
                       std::unique_ptr<codegen::ImageBuilder> *kernels)
      : ScheduleProgramsBase(values), given(options.target), ahead(options.ahead),
        generated(options.generated), kernels(kernels) {}

  void runOnOperation() override {
    if (!given && resolve) {
      auto found = resolve(target, targetCpu);
      if (!found) {
        getOperation().emitError(llvm::toString(found.takeError()));
        return signalPassFailure();
      }
      given = *found;
    }
    ScheduleOptions options{given, threads, rankThreads, winograd, compileKernels, ahead, generated};
    GeneratedCode dropped;
    if (failed(kernels ? schedule(getOperation(), options, *kernels)
                       : schedule(getOperation(), options, dropped)))
      signalPassFailure();
  }

  TargetResolver resolve;
  std::shared_ptr<const codegen::Target> given;
  std::shared_ptr<const KernelCache> ahead;
  std::shared_ptr<KernelCache> generated;
  std::unique_ptr<codegen::ImageBuilder> *kernels = nullptr;
};
} // namespace

std::unique_ptr<Pass> createSchedulePass(const ScheduleOptions &options,
                                         std::unique_ptr<codegen::ImageBuilder> *kernels) {
  ScheduleProgramsOptions values;
  // So that the pipeline's text, in a reproducer, makes the same pass.
  if (options.target)
    values.target = options.target->spelling();
  values.threads = options.threads;
  values.rankThreads = options.rankThreads;
  values.winograd = options.winograd;
  values.compileKernels = options.compileKernels;
  return std::make_unique<ScheduleProgramsPass>(values, options, kernels);
}

void registerPasses(TargetResolver resolve) {
  registerPass(createOutlineProgramsPass);
  registerPass([resolve = std::move(resolve)]() -> std::unique_ptr<Pass> {
    return std::make_unique<ScheduleProgramsPass>(resolve);
  });
}

} // namespace colossal::schedule
