//===- Patterns.cpp - the order of recognition ------------------------------===//
//
// Normal form, then patterns from the inside out, then CSE and removal of what is unused.
//
//===----------------------------------------------------------------------===//
#include "Patterns.h"

#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace colossal {

static void simplify(ModuleOp module) {
  IRRewriter rewriter(module.getContext());
  DominanceInfo dominance(module);
  eliminateCommonSubExpressions(rewriter, dominance, module);
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
  if (failed(apply(module, populateNormalizePatterns)))
    return failure();
  simplify(module);
  return apply(module, populateNormalizePatterns);
}

LogicalResult recognisePatterns(ModuleOp module) {
  for (auto populate : {populateActivationPatterns, populateNormalizationPatterns, populateRotaryPatterns,
                        populateAttentionPatterns, populateNormalizePatterns})
    if (failed(apply(module, populate)))
      return failure();
  simplify(module);
  return success();
}

} // namespace colossal
