//===- Patterns.cpp - the order of recognition ------------------------------===//
//
// Normal form, then patterns from the inside out, then CSE and removal of what is unused.
//
//===----------------------------------------------------------------------===//
#include "Patterns.h"

#include "colossal/Import/ParameterRoles.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace colossal {

namespace {
/// Ops that give the same: equal but for their locations.
struct EqualOps {
  static Operation *getEmptyKey() { return llvm::DenseMapInfo<Operation *>::getEmptyKey(); }
  static Operation *getTombstoneKey() { return llvm::DenseMapInfo<Operation *>::getTombstoneKey(); }
  static unsigned getHashValue(Operation *op) {
    llvm::hash_code hash = llvm::hash_combine(op->getName(), op->hashProperties());
    for (Value operand : op->getOperands())
      hash = llvm::hash_combine(hash, operand);
    return hash;
  }
  static bool isEqual(Operation *a, Operation *b) {
    if (a == b)
      return true;
    for (Operation *key : {a, b})
      if (key == getEmptyKey() || key == getTombstoneKey())
        return false;
    return a->getName() == b->getName() &&
           OperationEquivalence::isEquivalentTo(a, b, OperationEquivalence::IgnoreLocations);
  }
};
} // namespace

/// Whether `op` is the first that reads some parameter of a model, but for what only moves it.
static bool readsParameter(Operation *op) {
  auto isMovement = [](Operation *op) {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    return kernel && kernel.getKernelKind() == KernelKind::Movement && op->getNumOperands() == 1;
  };
  return !isMovement(op) && llvm::any_of(op->getOperands(), [&](Value operand) {
    Operation *maker = operand.getDefiningOp();
    while (maker && isMovement(maker))
      maker = maker->getOperand(0).getDefiningOp();
    return isa_and_nonnull<ParameterOp>(maker) && !maker->hasAttr(kStatisticAttr);
  });
}

/// Removes what nothing uses and what is computed twice. MLIR's pass for any regions hashes whole
/// dictionaries of attributes, and takes as long as all patterns; here is one block, and most ops hold
/// properties alone.
static void simplify(ModuleOp module, bool isTrained) {
  for (auto function : module.getOps<func::FuncOp>()) {
    llvm::DenseSet<Operation *, EqualOps> known;
    for (Operation &op : llvm::make_early_inc_range(function.front().without_terminator())) {
      if (isOpTriviallyDead(&op)) {
        op.erase();
        continue;
      }
      if (op.getNumRegions() || !isMemoryEffectFree(&op))
        continue;
      auto [first, isNew] = known.insert(&op);
      if (isNew || (isTrained && op.getLoc() != (*first)->getLoc() && readsParameter(&op)))
        continue;
      op.replaceAllUsesWith(*first);
      if (isa<UnknownLoc>((*first)->getLoc()))
        (*first)->setLoc(op.getLoc());
      op.erase();
    }
  }
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
LogicalResult normalizeModel(ModuleOp module, bool isTrained) {
  if (failed(apply(module, populateNormalizePatterns)))
    return failure();
  simplify(module, isTrained);
  return apply(module, populateNormalizePatterns);
}

LogicalResult recognisePatterns(ModuleOp module, bool isTrained) {
  for (auto populate : {populateActivationPatterns, populateNormalizationPatterns, populateRotaryPatterns,
                        populateAttentionPatterns})
    if (failed(applyAtRoots(module, populate)))
      return failure();
  if (failed(apply(module, populateNormalizePatterns)))
    return failure();
  simplify(module, isTrained);
  return success();
}

} // namespace colossal
