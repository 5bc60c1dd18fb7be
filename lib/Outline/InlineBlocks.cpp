//===- InlineBlocks.cpp - functions back to where they are called -----------===//
#include "colossal/Outline/Outline.h"

#include "dialects/Colossal/Colossal.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::outline;

func::FuncOp outline::getCallee(func::CallOp call) {
  auto module = call->getParentOfType<ModuleOp>();
  return module ? module.lookupSymbol<func::FuncOp>(call.getCallee()) : func::FuncOp();
}

SmallVector<Location> outline::getLocations(func::CallOp call, func::FuncOp callee) {
  SmallVector<Location> locations;
  for (Operation &op : callee.front().without_terminator())
    locations.push_back(op.getLoc());
  auto fused = dyn_cast<FusedLoc>(call.getLoc());
  auto own = fused ? dyn_cast_or_null<ArrayAttr>(fused.getMetadata()) : ArrayAttr();
  if (own && own.size() == locations.size() && llvm::all_of(own, llvm::IsaPred<LocationAttr>))
    for (auto [location, attribute] : llvm::zip_equal(locations, own))
      location = cast<LocationAttr>(attribute);
  return locations;
}

LogicalResult outline::verifyCalls(ModuleOp module) {
  llvm::DenseSet<Operation *> called;
  for (auto function : module.getOps<func::FuncOp>()) {
    WalkResult result = function.walk([&](func::CallOp call) -> WalkResult {
      func::FuncOp callee = getCallee(call);
      if (!callee || !callee.isPrivate() || callee.isExternal() || !callee.getBody().hasOneBlock())
        return call.emitOpError() << "must name a private function of the module, with a body of one block; '"
                                  << call.getCallee() << "' is none";
      if (function.isPrivate())
        return call.emitOpError() << "stands in private function '" << function.getName()
                                  << "', which may call nothing";
      called.insert(callee);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
  }
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPrivate() && !called.contains(function))
      return function.emitOpError() << "is private, but never called";
  return success();
}

namespace {
/// MLIR's inliner for the calls of one function. That it may inline them all is verifyCalls's to say. Ops get
/// the locations of their repetition, and constants of one value stay one op, at the function's top.
class BlockInliner : public InlinerInterface {
public:
  explicit BlockInliner(func::FuncOp caller) : InlinerInterface(caller.getContext()), caller(caller) {
    for (Operation &op : caller.front())
      position.try_emplace(&op, position.size());
    for (auto constant : caller.getOps<ConstantOp>())
      if (constants.try_emplace({constant.getValue(), constant.getType()}, constant).second)
        elsewhere.insert(constant);
  }

  /// `next` stands behind `call`, which has been put aside.
  LogicalResult run(func::CallOp call, func::FuncOp callee, Operation *next) {
    locations = getLocations(call, callee);
    behind = next;
    auto clone = [](OpBuilder &, Region *source, Block *, Block *before, IRMapping &mapping, bool) {
      source->cloneInto(before->getParent(), before->getIterator(), mapping);
    };
    if (failed(inlineRegion(*this, clone, &callee.getBody(), call, call.getOperands(), call.getResults())))
      return call.emitOpError() << "cannot be inlined";
    call.erase();
    return success();
  }

  void processInlinedBlocks(iterator_range<Region::iterator> blocks) override {
    Block &body = *blocks.begin();
    for (auto [op, location] : llvm::zip_equal(body.without_terminator(), locations))
      if (!isa<ConstantOp>(op))
        op.setLoc(location);
    for (auto constant : llvm::make_early_inc_range(body.getOps<ConstantOp>())) {
      auto [known, isNew] = constants.try_emplace({constant.getValue(), constant.getType()}, constant);
      if (isNew) {
        constant->moveBefore(&caller.front(), caller.front().begin());
      } else {
        // The caller's own may stand behind the call.
        ConstantOp own = known->second;
        if (elsewhere.contains(own) && position.lookup(own) > position.lookup(behind)) {
          own->moveBefore(&caller.front(), caller.front().begin());
          elsewhere.erase(own);
        }
        constant.replaceAllUsesWith(known->second.getResult());
        constant.erase();
      }
    }
  }
  void handleTerminator(Operation *terminator, ValueRange results) const override {
    for (auto [result, value] : llvm::zip_equal(results, terminator->getOperands()))
      result.replaceAllUsesWith(value);
  }
  bool isLegalToInline(Operation *, Operation *, bool) const override { return true; }
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const override { return true; }
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const override { return true; }
  bool allowSingleBlockOptimization(iterator_range<Region::iterator>) const override { return true; }

private:
  func::FuncOp caller;
  llvm::DenseMap<std::pair<Attribute, Type>, ConstantOp> constants;
  llvm::DenseSet<Operation *> elsewhere; ///< constants that need not stand at the function's top
  Operation *behind = nullptr;           ///< what stood behind the call that is inlined
  /// Of the caller's ops before anything was inlined: MLIR would number them anew each time.
  llvm::DenseMap<Operation *, size_t> position;
  SmallVector<Location> locations; ///< of the body's ops, for the call that is inlined
};
} // namespace

LogicalResult outline::inlineBlocks(ModuleOp module) {
  if (failed(verifyCalls(module)))
    return failure();
  llvm::SetVector<func::FuncOp> callees;
  for (func::FuncOp caller : module.getOps<func::FuncOp>()) {
    SmallVector<func::CallOp> calls;
    if (!caller.isExternal())
      llvm::append_range(calls, caller.getOps<func::CallOp>());
    if (calls.empty())
      continue;
    BlockInliner inliner(caller);
    // MLIR's inliner moves all that stands behind a call, twice: where nothing does, that costs nothing.
    auto *aside = new Block;
    caller.getBody().push_back(aside);
    LogicalResult result = success();
    for (func::CallOp call : calls) {
      func::FuncOp callee = getCallee(call);
      callees.insert(callee);
      Operation *next = call->getNextNode();
      call->moveBefore(aside, aside->end());
      result = inliner.run(call, callee, next);
      next->getBlock()->getOperations().splice(next->getIterator(), aside->getOperations());
      if (failed(result))
        break;
    }
    aside->erase();
    if (failed(result))
      return failure();
  }
  for (func::FuncOp callee : callees)
    callee.erase();
  return success();
}

namespace colossal::outline {
#define GEN_PASS_DECL
#define GEN_PASS_DEF_INLINEBLOCKS
#define GEN_PASS_REGISTRATION
#include "colossal/Outline/Passes.h.inc"

namespace {
struct InlineBlocksPass : impl::InlineBlocksBase<InlineBlocksPass> {
  void runOnOperation() override {
    if (failed(inlineBlocks(getOperation())))
      signalPassFailure();
  }
};
} // namespace

void registerPasses() {
  registerOutlinePasses();
}
} // namespace colossal::outline
