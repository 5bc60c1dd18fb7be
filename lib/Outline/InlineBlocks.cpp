//===- InlineBlocks.cpp - functions back to where they are called -----------===//
#include "colossal/Outline/Outline.h"

#include "dialects/Colossal/Colossal.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

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

/// The constant of the caller with the value of `op`: there already, or moved to the function's top.
static Operation *getConstant(ConstantOp op, func::FuncOp caller,
                              llvm::DenseMap<std::pair<Attribute, Type>, Operation *> &known) {
  Operation *&constant = known[{op.getValue(), op.getType()}];
  if (!constant) {
    OpBuilder builder = OpBuilder::atBlockBegin(&caller.front());
    constant = builder.clone(*op);
  }
  return constant;
}

LogicalResult outline::inlineBlocks(ModuleOp module) {
  if (failed(verifyCalls(module)))
    return failure();
  llvm::MapVector<Operation *, func::FuncOp> callees;
  for (func::FuncOp caller : module.getOps<func::FuncOp>()) {
    if (caller.isExternal())
      continue;
    SmallVector<func::CallOp> calls(caller.getOps<func::CallOp>());
    if (calls.empty())
      continue;
    llvm::DenseMap<std::pair<Attribute, Type>, Operation *> constants;
    for (auto constant : caller.getOps<ConstantOp>())
      constants.try_emplace({constant.getValue(), constant.getType()}, constant);
    for (func::CallOp call : calls) {
      func::FuncOp callee = getCallee(call);
      callees.insert({callee, callee});
      OpBuilder builder(call);
      IRMapping mapping;
      mapping.map(callee.getArguments(), call.getOperands());
      SmallVector<Location> locations = getLocations(call, callee);
      for (auto [op, location] : llvm::zip_equal(callee.front().without_terminator(), locations)) {
        if (auto constant = dyn_cast<ConstantOp>(op)) {
          mapping.map(op.getResults(), getConstant(constant, caller, constants)->getResults());
          continue;
        }
        builder.clone(op, mapping)->setLoc(location);
      }
      for (auto [result, value] :
           llvm::zip_equal(call.getResults(), callee.front().getTerminator()->getOperands()))
        result.replaceAllUsesWith(mapping.lookup(value));
      call.erase();
    }
  }
  for (auto &[op, callee] : callees)
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
