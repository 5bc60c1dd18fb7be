//===- Passes.cpp - phases as passes ----------------------------------------===//
#include "colossal/Compiler/Passes.h"

#include "colossal/Codegen/Targets.h"
#include "colossal/Outline/Outline.h"
#include "colossal/Partition/Partition.h"
#include "colossal/Schedule/Foresight.h"
#include "colossal/Step/CutStages.h"
#include "colossal/Step/MergeCasts.h"
#include "colossal/Step/PropagateBatch.h"
#include "colossal/Step/Transfers.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace colossal {

void registerPhaseVerifier();

/// Pins name stages or layouts.
static step::StepOptions getStepOptions(const CompileOptions &options) {
  step::StepOptions step;
  step.machine = options.layout.machine;
  step.machineText = options.layout.machineText;
  step.memoryBytes = options.layout.memoryBytes;
  step.chunks = std::max<int64_t>(1, options.chunks);
  step.schedule = getPipelineSchedule(options);
  step.passes = options.pipelinePasses;
  llvm::copy_if(options.layout.pins, std::back_inserter(step.pins), step::isStagePin);
  return step;
}
static layout::LayoutOptions getLayoutOptions(const CompileOptions &options) {
  layout::LayoutOptions layout = options.layout;
  llvm::erase_if(layout.pins, step::isStagePin);
  if (options.schedule.target)
    layout.foreseeStorage = [target = options.schedule.target](func::FuncOp function, auto isRepeated) {
      return schedule::foreseeStorage(function, *target, isRepeated);
    };
  return layout;
}

void buildPhases(OpPassManager &manager, const CompileOptions &options, Phase from, Phase last,
                 CompileResult *result, std::unique_ptr<codegen::ImageBuilder> *kernels) {
  for (unsigned i = static_cast<unsigned>(from) + 1; i <= static_cast<unsigned>(last); ++i) {
    auto phase = static_cast<Phase>(i);
    switch (phase) {
    case Phase::Precision:
      if (!options.precision)
        continue;
      manager.addPass(precision::createSetPrecisionPass(*options.precision, options.training.has_value()));
      break;
    case Phase::Differentiate:
      if (!options.layout.recipe.empty())
        manager.addNestedPass<func::FuncOp>(
            layout::createSplitFusedContractionsPass(/*readsParts=*/!options.training));
      if (!options.training)
        continue;
      manager.addPass(training::createDifferentiatePass(*options.training));
      break;
    case Phase::Outline: manager.addPass(outline::createOutlineBlocks()); break;
    case Phase::Step:
      manager.addPass(outline::createInlineBlocks());
      manager.addPass(step::createPropagateBatch());
      manager.addPass(step::createCutStagesPass(getStepOptions(options), result ? &result->step : nullptr));
      if (options.training)
        manager.addPass(step::createMergeCasts());
      break;
    case Phase::Search:
      manager.addPass(
          layout::createSearchLayoutsPass(getLayoutOptions(options), result ? &result->layout : nullptr));
      break;
    case Phase::Partition:
      manager.addPass(partition::createPartitionPass(
          [&options](ModuleOp module) { return layout::getCollectiveCost(module, options.layout); }));
      if (options.training)
        manager.addPass(partition::createLossPartsPass());
      manager.addPass(step::createPlanTransfersPass(options.schedule.target &&
                                                    options.schedule.target->sendsWaitForReceivers()));
      break;
    case Phase::Schedule:
      manager.addPass(schedule::createSchedulePass(options.schedule, kernels));
      manager.addPass(schedule::createOutlineProgramsPass());
      break;
    case Phase::Import:
    case Phase::Plan: llvm_unreachable("translations, not passes");
    }
    manager.addPass(createVerifyPhasePass(phase));
  }
}

std::vector<std::string> listPasses(const CompileOptions &options, Phase last) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  PassManager manager(&context);
  buildPhases(manager, options, Phase::Import, std::min(last, Phase::Schedule), nullptr);
  std::vector<std::string> names;
  for (const Pass &pass : manager.getPasses())
    if (!llvm::is_contained(names, pass.getArgument()))
      names.push_back(pass.getArgument().str());
  return names;
}

namespace {
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  Option<std::string> to{
      *this, "to",
      llvm::cl::desc("last phase: import, precision, differentiate, outline, step, search, partition, "
                     "schedule"),
      llvm::cl::init("schedule")};
};
} // namespace

void registerPhases(const CompileOptions &options, CompileResult *result) {
  precision::registerPasses();
  outline::registerPasses();
  step::registerPasses();
  partition::registerPasses();
  layout::registerPasses();
  schedule::registerPasses(codegen::createTarget);
  registerPhaseVerifier();
  // A pipeline of an unknown phase must be an error of the command line, which only a custom parser can give.
  registerPassPipeline(
      "colossal-pipeline", "Run the phases after import, up to the one named by to=",
      [&options, result](OpPassManager &manager, StringRef text,
                         function_ref<LogicalResult(const Twine &)> error) {
        PipelineOptions parsed;
        if (failed(parsed.parseFromString(text)))
          return failure();
        std::optional<Phase> last = parsePhase(parsed.to);
        if (!last || *last == Phase::Plan)
          return error("colossal-pipeline: 'to=" + parsed.to.getValue() +
                       "' is not one of import, precision, differentiate, outline, step, search, partition, "
                       "schedule");
        manager.addPass(createVerifyPhasePass(Phase::Import));
        buildPhases(manager, options, Phase::Import, *last, result);
        return success();
      },
      [](function_ref<void(const detail::PassOptions &)> handler) { handler(PipelineOptions()); });
}

} // namespace colossal
