//===- Passes.cpp - phases as passes ----------------------------------------===//
//
// What lies beside the IR (reports, machine code) is dropped here: passes are for tests and for looking
// inside.
//
//===----------------------------------------------------------------------===//
#include "colossal/Compiler/Passes.h"

#include "colossal/Outline/Outline.h"
#include "colossal/Partition/Partition.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace colossal {
namespace {

/// One phase as a pass.
struct PhasePass : PassWrapper<PhasePass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PhasePass)

  PhasePass(Phase phase, const CompileOptions &options) : phase(phase), options(&options) {
    argument = ("colossal-" + getPhaseName(phase)).str();
  }
  PhasePass(const PhasePass &other) : PassWrapper(other), phase(other.phase), options(other.options) {
    argument = other.argument;
  }

  StringRef getArgument() const final { return argument; }
  StringRef getDescription() const final {
    return "Turn local tensors and collectives into programs over arenas, with kernels";
  }
  void getDependentDialects(DialectRegistry &registry) const final { registerDialects(registry); }
  void runOnOperation() final {
    CompileResult result;
    auto before = static_cast<Phase>(static_cast<unsigned>(phase) - 1);
    if (failed(runPhases(getOperation(), *options, before, phase, result)))
      signalPassFailure();
  }

  Phase phase;
  const CompileOptions *options;
  std::string argument;
};

struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  Option<std::string> to{*this, "to",
                         llvm::cl::desc("last phase: import, outline, search, partition, schedule"),
                         llvm::cl::init("schedule")};
};

} // namespace

void registerPhases(const CompileOptions &options) {
  outline::registerPasses();
  partition::registerPasses();
  layout::registerPasses();
  registerPass([&options] { return std::make_unique<PhasePass>(Phase::Schedule, options); });
  // A pipeline of an unknown phase must be an error of the command line, which only a custom parser can give.
  registerPassPipeline(
      "colossal-pipeline", "Run the phases after import, up to the one named by to=",
      [&options](OpPassManager &manager, StringRef text, function_ref<LogicalResult(const Twine &)> error) {
        PipelineOptions parsed;
        if (failed(parsed.parseFromString(text)))
          return failure();
        std::optional<Phase> last = parsePhase(parsed.to);
        if (!last || *last == Phase::Plan)
          return error("colossal-pipeline: 'to=" + parsed.to.getValue() +
                       "' is not one of import, outline, search, partition, schedule");
        for (unsigned i = 1; i <= static_cast<unsigned>(*last); ++i)
          manager.addPass(std::make_unique<PhasePass>(static_cast<Phase>(i), options));
        return success();
      },
      [](function_ref<void(const detail::PassOptions &)> handler) { handler(PipelineOptions()); });
}

} // namespace colossal
