//===- Patterns.cpp - the order of recognition ------------------------------===//
//
// Normal form, then patterns from the inside out, then CSE and removal of what is unused.
//
//===----------------------------------------------------------------------===//
#include "Patterns.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace colossal {

static LogicalResult simplify(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.addPass(createCSEPass());
  return passes.run(module);
}

static LogicalResult apply(ModuleOp module, void (*populate)(RewritePatternSet &)) {
  RewritePatternSet patterns(module.getContext());
  populate(patterns);
  GreedyRewriteConfig config;
  config.enableFolding(true);
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled); // functions have one block
  return applyPatternsGreedily(module, std::move(patterns), config);
}

/// Removes what nothing uses (apply does that) and what is computed twice.
LogicalResult normalizeModel(ModuleOp module) {
  if (failed(apply(module, populateNormalizePatterns)) || failed(simplify(module)))
    return failure();
  return apply(module, populateNormalizePatterns);
}

LogicalResult recognisePatterns(ModuleOp module) {
  for (auto populate : {populateActivationPatterns, populateNormalizationPatterns, populateRotaryPatterns,
                        populateAttentionPatterns, populateNormalizePatterns})
    if (failed(apply(module, populate)))
      return failure();
  return simplify(module);
}

} // namespace colossal
