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

/// apply, where nothing is left to fold: begins at the ops that some pattern begins at. What these change is
/// looked at as usual.
static LogicalResult applyAtRoots(ModuleOp module, void (*populate)(RewritePatternSet &)) {
  RewritePatternSet list(module.getContext());
  populate(list);
  FrozenRewritePatternSet patterns(std::move(list));
  GreedyRewriteConfig config;
  config.enableFolding(true);
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  const auto &ofRoot = patterns.getOpSpecificNativePatterns();
  bool isChanged = true;
  for (int64_t i = 0; isChanged && i < config.getMaxIterations(); ++i) {
    SmallVector<Operation *> roots;
    module.walk([&](Operation *op) {
      if (ofRoot.contains(op->getName()))
        roots.push_back(op);
    });
    std::reverse(roots.begin(), roots.end()); // the last is looked at first
    if (failed(applyOpPatternsGreedily(roots, patterns, config, &isChanged)))
      return failure();
  }
  return success(!isChanged);
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
                        populateAttentionPatterns})
    if (failed(applyAtRoots(module, populate)))
      return failure();
  if (failed(apply(module, populateNormalizePatterns)))
    return failure();
  simplify(module);
  return success();
}

} // namespace colossal
