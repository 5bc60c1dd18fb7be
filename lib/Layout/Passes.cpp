//===- Passes.cpp - the search phase as a pass ------------------------------===//
#include "colossal/Cost/MachineChoice.h"
#include "colossal/Layout/Layout.h"

#include "dialects/Colossal/Colossal.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace colossal::layout {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_SEARCHLAYOUTS
#define GEN_PASS_REGISTRATION
#include "colossal/Layout/Passes.h.inc"

namespace {
struct SearchLayoutsPass : impl::SearchLayoutsBase<SearchLayoutsPass> {
  using SearchLayoutsBase::SearchLayoutsBase;
  void runOnOperation() override {
    LayoutOptions options;
    options.memoryBytes = memory;
    cost::MachineChoice choice = cost::chooseMachine(machine);
    if (!choice.error.empty()) {
      getOperation().emitError() << choice.error;
      return signalPassFailure();
    }
    options.machine = std::move(choice.machine);
    options.pins.assign(pins.begin(), pins.end());
    LayoutReport report;
    if (failed(searchLayouts(getOperation(), options, report)))
      return signalPassFailure();
    if (explain)
      llvm::errs() << report.explanation << report.summary;
    if (asPins)
      llvm::errs() << report.pins;
  }
};
} // namespace

void registerPasses() {
  registerLayoutPasses();
}

} // namespace colossal::layout
