//===- OutlineBlocks.cpp - repeated subgraphs to functions ------------------===//
#include "colossal/Outline/Outline.h"

#include "colossal/Outline/RepeatedBlocks.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::outline;

namespace {
/// A result of an op of a block, by its place in the block.
struct Output {
  unsigned op, result;
};
} // namespace

/// Results that anything outside their instance uses, in any of the instances.
static SmallVector<Output> findOutputs(const RepeatedBlock &block) {
  SmallVector<Output> outputs;
  SmallVector<llvm::DenseSet<Operation *>> inside;
  for (const auto &instance : block.instances)
    inside.emplace_back(instance.begin(), instance.end());
  for (unsigned j = 0; j < block.size(); ++j)
    for (unsigned r = 0; r < block.instances.front()[j]->getNumResults(); ++r) {
      auto isUsedOutside = [&](unsigned i) {
        return llvm::any_of(block.instances[i][j]->getResult(r).getUsers(),
                            [&](Operation *user) { return !inside[i].contains(user); });
      };
      if (llvm::any_of(llvm::seq<unsigned>(0, block.instances.size()), isUsedOutside))
        outputs.push_back({j, r});
    }
  return outputs;
}

static SmallVector<Value> getOutputs(ArrayRef<Operation *> instance, ArrayRef<Output> outputs) {
  SmallVector<Value> values;
  for (Output output : outputs)
    values.push_back(instance[output.op]->getResult(output.result));
  return values;
}

/// The function of a block, made of its first instance.
static func::FuncOp makeFunction(ModuleOp module, const RepeatedBlock &block, ArrayRef<Output> outputs) {
  ArrayRef<Operation *> first = block.instances.front();
  SmallVector<Value> inputs = getOutsideOperands(first), results = getOutputs(first, outputs);
  SmallString<16> name;
  for (unsigned number = 0; name.empty() || module.lookupSymbol(name); ++number)
    name = ("block" + Twine(number)).str();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto function = func::FuncOp::create(
      builder, first.front()->getLoc(), name,
      builder.getFunctionType(ValueRange(inputs).getTypes(), ValueRange(results).getTypes()));
  function.setPrivate();
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToEnd(body);
  IRMapping mapping;
  for (auto [input, argument] : llvm::zip_equal(inputs, body->getArguments())) {
    mapping.map(input, argument);
    argument.setLoc(input.getLoc());
  }
  for (Operation *op : first)
    for (Value operand : op->getOperands())
      if (!mapping.contains(operand))
        if (auto constant = operand.getDefiningOp<ConstantOp>())
          builder.clone(*constant, mapping);
  for (Operation *op : first)
    builder.clone(*op, mapping);
  SmallVector<Value> returned;
  for (Value result : results)
    returned.push_back(mapping.lookup(result));
  func::ReturnOp::create(builder, function.getLoc(), returned);
  return function;
}

/// Replaces an instance by a call.
static void callInstead(func::FuncOp function, ArrayRef<Operation *> instance, ArrayRef<Output> outputs) {
  OpBuilder builder(instance.back());
  builder.setInsertionPointAfter(instance.back());
  // Locations of the callee's ops: of its constants, which all instances share, then of its own.
  SmallVector<Attribute> locations;
  for (Operation &op : function.front().without_terminator())
    if (isSource(&op))
      locations.push_back(op.getLoc());
  SmallVector<Location> all;
  for (Operation *op : instance) {
    locations.push_back(op->getLoc());
    all.push_back(op->getLoc());
  }
  Location location = FusedLoc::get(all, builder.getArrayAttr(locations), builder.getContext());
  auto call = func::CallOp::create(builder, location, function, getOutsideOperands(instance));
  for (auto [value, result] : llvm::zip_equal(getOutputs(instance, outputs), call.getResults()))
    value.replaceUsesWithIf(result,
                            [&](OpOperand &use) { return !llvm::is_contained(instance, use.getOwner()); });
  for (Operation *op : llvm::reverse(instance))
    op->erase();
}

void outline::outlineBlocks(ModuleOp module) {
  for (func::FuncOp caller : SmallVector<func::FuncOp>(module.getOps<func::FuncOp>())) {
    if (caller.isPrivate() || caller.isExternal() || !caller.getBody().hasOneBlock())
      continue;
    for (const RepeatedBlock &block : findRepeatedBlocks(caller)) {
      SmallVector<Output> outputs = findOutputs(block);
      func::FuncOp function = makeFunction(module, block, outputs);
      for (ArrayRef<Operation *> instance : block.instances)
        callInstead(function, instance, outputs);
    }
    // Constants that only blocks used.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(caller.front())))
      if (isa<ConstantOp>(op) && op.use_empty())
        op.erase();
  }
}

namespace colossal::outline {
#define GEN_PASS_DEF_OUTLINEBLOCKS
#include "colossal/Outline/Passes.h.inc"

namespace {
struct OutlineBlocksPass : impl::OutlineBlocksBase<OutlineBlocksPass> {
  void runOnOperation() override {
    outlineBlocks(getOperation());
    if (failed(verifyCalls(getOperation())))
      signalPassFailure();
  }
};
} // namespace
} // namespace colossal::outline
