//===- LoadChains.cpp - what is computed when a plan is loaded --------------===//
//
// Parameters and what depends on nothing else lie in the weights arena; chains of ops over them stand in the
// load program, once for all programs.
//
//===----------------------------------------------------------------------===//
#include "FunctionState.h"

#include "dialects/Dist/ParameterPart.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

/// The text and the op of a parameter, or of that of which it is a part.
static std::string declareParameter(ParameterOp op, Shared &shared) {
  const std::optional<dist::ParameterPart> part = dist::getParameterPart(op);
  const StringAttr name = part ? part->name : op.getNameAttr();
  std::string key = name.str();
  auto [entry, isNew] = shared.parameterSymbols.try_emplace(key);
  if (!isNew)
    return entry->second;
  entry->second = "p" + std::to_string(shared.parameterSymbols.size() - 1);
  OpBuilder b = OpBuilder::atBlockEnd(shared.module.getBody());
  Type type = op.getResult().getType();
  if (auto sharding = op->getAttrOfType<dist::ShardingAttr>("dist.sharding"))
    type = RankedTensorType::get(sharding.getGlobalShape(), tensorOf(op.getResult()).getElementType());
  if (part)
    type = cast<RankedTensorType>(type).clone(part->shape);
  plan::ParameterOp::create(b, op.getLoc(), b.getStringAttr(entry->second), name, TypeAttr::get(type),
                            op.getFileAttr(), op.getOffsetAttr(), op.getBytesAttr(), op.getDataAttr());
  return entry->second;
}

LogicalResult LoweringContext::loadInto(Value value, unsigned storage) {
  Operation *op = value.getDefiningOp();
  RankedTensorType type = tensorOf(value);
  Access access{storage, 0, byteSize(type), true};
  if (type.getNumElements() == 0)
    return success();
  if (auto parameter = dyn_cast<ParameterOp>(op)) {
    std::string symbol = declareParameter(parameter, state.shared);
    auto sharding = op->getAttrOfType<dist::ShardingAttr>("dist.sharding");
    if (!sharding)
      sharding = dist::ShardingAttr::getReplicated(mlirContext(), type.getShape());
    auto reference = FlatSymbolRefAttr::get(mlirContext(), symbol);
    Location loc = op->getLoc();
    std::optional<dist::ParameterPart> part = dist::getParameterPart(op);
    auto starts = part ? part->starts : DenseI64ArrayAttr();
    state.load.append({{access},
                       false,
                       loc,
                       [=](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &) -> Operation * {
                         return plan::LoadParameterOp::create(b, loc, reference, sharding, buffers[0],
                                                              DenseI64ArrayAttr(), starts);
                       },
                       {}});
    return success();
  }
  auto constant = cast<ConstantOp>(op);
  ElementsAttr data = constant.getValue();
  Location loc = op->getLoc();
  state.load.append({{access},
                     false,
                     loc,
                     [=](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &) -> Operation * {
                       return plan::LoadDataOp::create(b, loc, data, buffers[0]);
                     },
                     {}});
  return success();
}

FailureOr<View> LoweringContext::loadTemporary(Value value) {
  Operation *op = value.getDefiningOp();
  if (isSource(op)) {
    View view = state.load.allocate(value);
    view.strides = denseStrides(tensorOf(value).getShape());
    state.load.setView(value, view);
    if (failed(loadInto(value, view.storage)))
      return failure();
    return view;
  }
  // All that it needs and that lies nowhere yet.
  llvm::SetVector<Operation *> slice;
  auto collect = [&](auto self, Operation *def) -> void {
    if (slice.contains(def))
      return;
    for (Value operand : def->getOperands())
      if (Operation *next = operand.getDefiningOp(); next && isa<RankedTensorType>(operand.getType()) &&
                                                     !state.load.views.count(operand) && !isSource(next))
        self(self, next);
    slice.insert(def);
  };
  collect(collect, op);
  if (failed(state.load.lowerOps(slice.getArrayRef(), true)))
    return failure();
  return state.load.viewOf(value);
}

FailureOr<View> LoweringContext::persist(Value value) {
  std::string key = keyOf(value);
  RankedTensorType type = tensorOf(value);
  View view{0, 0, denseStrides(type.getShape())};
  if (auto found = state.shared.weightOf.find(key); found != state.shared.weightOf.end()) {
    view.storage = found->second;
    return state.run.views[value] = view;
  }
  Operation *op = value.getDefiningOp();
  if (isSource(op)) {
    view.storage = newWeight(byteSize(type));
    if (failed(loadInto(value, view.storage)))
      return failure();
  } else {
    auto computed = state.load.viewOf(value);
    if (failed(computed))
      return failure();
    if (computed->storage < kWeightBase && computed->offset == 0 && isDense(*computed, type.getShape()) &&
        state.shared.load.storages[computed->storage].bytes == byteSize(type)) {
      // The temporary becomes the weight.
      unsigned old = computed->storage, storage = newWeight(byteSize(type));
      for (Instruction &instruction : state.shared.load.instructions)
        for (Access &access : instruction.accesses)
          if (access.storage == old)
            access.storage = storage;
      for (auto &entry : state.load.views)
        if (entry.second.storage == old)
          entry.second.storage = storage;
      state.shared.load.storages[old].bytes = 0;
      view.storage = storage;
    } else {
      view.storage = newWeight(byteSize(type));
      if (failed(state.load.copy(*computed, type, view, value.getLoc())))
        return failure();
    }
  }
  state.shared.weightOf[key] = view.storage;
  if (isSource(op))
    state.load.views[value] = view;
  return state.run.views[value] = view;
}
