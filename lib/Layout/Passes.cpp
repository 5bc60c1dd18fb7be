//===- Passes.cpp - the search phase as passes ------------------------------===//
#include "SplitFusedContractions.h"

#include "colossal/Cost/MachineChoice.h"
#include "colossal/Layout/Layout.h"

#include "dialects/Colossal/Colossal.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace colossal::layout {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_SEARCHLAYOUTS
#define GEN_PASS_DEF_SPLITFUSEDCONTRACTIONS
#define GEN_PASS_REGISTRATION
#include "colossal/Layout/Passes.h.inc"

namespace {
struct SearchLayoutsPass : impl::SearchLayoutsBase<SearchLayoutsPass> {
  using SearchLayoutsBase::SearchLayoutsBase;
  SearchLayoutsPass(const LayoutOptions &options, LayoutReport *into) : given(options), into(into) {
    // As text, for pipelines that are printed.
    memory = options.memoryBytes;
    machine = options.machineText;
    pins = options.pins;
    recipe = options.recipe;
  }
  void runOnOperation() override {
    if (!given && failed(readOptions()))
      return signalPassFailure();
    LayoutReport own;
    LayoutReport &report = into ? *into : own; // of a refusal, too: what it would need
    report = LayoutReport();
    auto refinementOf = [&](func::FuncOp function) -> const dist::RefinementAnalysis & {
      return getAnalysisManager().nest(function).getAnalysis<dist::RefinementAnalysis, func::FuncOp>();
    };
    if (failed(searchLayouts(getOperation(), *given, refinementOf, report)))
      return signalPassFailure();
    markAnalysesPreserved<dist::RefinementAnalysis>(); // for the partitioner
    if (explain)
      llvm::errs() << report.explanation << report.summary;
    if (asPins)
      llvm::errs() << report.pins;
  }

  /// What the options' text says.
  LogicalResult readOptions() {
    cost::MachineChoice choice = cost::chooseMachine(machine);
    if (!choice.error.empty())
      return getOperation().emitError() << choice.error;
    given.emplace();
    given->memoryBytes = memory;
    given->machine = std::move(choice.machine);
    given->pins.assign(pins.begin(), pins.end());
    given->recipe = recipe;
    return success();
  }

  std::optional<LayoutOptions> given;
  LayoutReport *into = nullptr;
};

struct SplitFusedContractionsPass : impl::SplitFusedContractionsBase<SplitFusedContractionsPass> {
  using SplitFusedContractionsBase::SplitFusedContractionsBase;
  SplitFusedContractionsPass(bool reads) { readsParts = reads; }
  void runOnOperation() override { splitFusedContractions(getOperation(), readsParts); }
};
} // namespace

std::unique_ptr<Pass> createSplitFusedContractionsPass(bool readsParts) {
  return std::make_unique<SplitFusedContractionsPass>(readsParts);
}

std::unique_ptr<Pass> createSearchLayoutsPass(const LayoutOptions &options, LayoutReport *report) {
  return std::make_unique<SearchLayoutsPass>(options, report);
}

void registerPasses() {
  registerLayoutPasses();
}

} // namespace colossal::layout
