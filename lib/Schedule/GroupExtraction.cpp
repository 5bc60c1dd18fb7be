//===- GroupExtraction.cpp - groups as functions of their own ---------------===//
#include "FunctionState.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

FailureOr<ExtractedGroup> LoweringContext::extract(ArrayRef<Operation *> ops, ValueRange outputs,
                                                   Operation *routine) {
  ExtractedGroup result;
  OpBuilder b(mlirContext());
  Location loc = b.getUnknownLoc();
  result.module = ModuleOp::create(loc);
  b.setInsertionPointToEnd(result.module->getBody());
  result.function = func::FuncOp::create(b, loc, "group", b.getFunctionType({}, {}));
  Block *block = result.function.addEntryBlock();
  b.setInsertionPointToEnd(block);
  IRMapping mapping;
  llvm::DenseMap<Operation *, bool> inGroup;
  for (Operation *op : ops)
    inGroup[op] = true;
  if (routine)
    for (Value value : routine->getResults())
      mapping.map(value, block->addArgument(value.getType(), loc)); // stands for the sums in registers

  bool failedAny = false;
  auto addScalar = [&](Value source) {
    for (auto [i, known] : llvm::enumerate(result.scalars))
      if (known == source)
        return (int64_t)i;
    result.scalars.push_back(source);
    return (int64_t)result.scalars.size() - 1;
  };
  // Index arguments follow the tensors'; until all tensors are known they are numbered by attributes of their
  // users.
  SmallVector<std::tuple<Operation *, unsigned, int64_t>> scalarUses;
  auto cloneOp = [&](auto import, Operation *op) {
    OperationState made(loc, op->getName().getStringRef());
    SmallVector<std::pair<unsigned, int64_t>> pending;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      if (isa<RankedTensorType>(operand.getType())) {
        made.operands.push_back(import(import, operand));
      } else {
        pending.push_back({i, addScalar(operand)});
        made.operands.push_back(Value());
      }
    }
    Value zero;
    for (auto [i, number] : pending) {
      if (!zero)
        zero = arith::ConstantIndexOp::create(b, loc, 0);
      made.operands[i] = zero;
    }
    made.addTypes(op->getResultTypes());
    SmallVector<NamedAttribute> attributes;
    for (NamedAttribute attribute : op->getAttrs())
      if (!attribute.getName().strref().starts_with("dist.") &&
          !attribute.getName().strref().starts_with("colossal."))
        attributes.push_back(attribute);
    made.addAttributes(attributes);
    made.propertiesAttr = op->getPropertiesAsAttribute();
    Operation *clone = b.create(made);
    for (auto [i, number] : pending)
      scalarUses.push_back({clone, i, number});
    if (auto start = state.sliceStarts.find(op); start != state.sliceStarts.end())
      clone->setAttr("start_argument", b.getI64IntegerAttr(addScalar(start->second)));
    mapping.map(op->getResults(), clone->getResults());
    return clone;
  };
  auto import = [&](auto self, Value value) -> Value {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Operation *def = value.getDefiningOp();
    if (def && inGroup.count(def))
      return cloneOp(self, def)->getResult(cast<OpResult>(value).getResultNumber());
    if (isFree(value))
      return cloneOp(self, def)->getResult(0);
    if (def && isMovement(def)) {
      Value base = value;
      while (base.getDefiningOp() && isMovement(base.getDefiningOp()) && !mapping.contains(base) &&
             !inGroup.count(base.getDefiningOp()))
        base = base.getDefiningOp()->getOperand(0);
      bool inside = mapping.contains(base) || (base.getDefiningOp() && inGroup.count(base.getDefiningOp()));
      if (inside || (!loads && isLoadable(value)
                         ? false
                         : !existingView(value) && (loads || !isLoadable(value)) && existingView(base)))
        return cloneOp(self, def)->getResult(0);
    }
    auto view = viewOf(value);
    if (failed(view)) {
      failedAny = true;
      return Value();
    }
    Value argument = block->addArgument(value.getType(), loc);
    result.inputs.push_back(*view);
    result.values.push_back(value);
    result.types.push_back(tensorOf(value));
    mapping.map(value, argument);
    return argument;
  };
  for (Operation *op : ops) {
    if (op == routine)
      continue;
    if (op->getNumResults() && !mapping.contains(op->getResult(0)))
      cloneOp(import, op);
    if (failedAny)
      return failure();
  }
  SmallVector<Value> results;
  for (Value output : outputs)
    results.push_back(import(import, output));
  if (failedAny)
    return failure();
  for (auto [i, scalar] : llvm::enumerate(result.scalars)) {
    Value argument = block->addArgument(b.getIndexType(), loc);
    for (auto [user, operand, number] : scalarUses)
      if (number == (int64_t)i)
        user->setOperand(operand, argument);
  }
  func::ReturnOp::create(b, loc, results);
  result.function.setFunctionType(
      b.getFunctionType(block->getArgumentTypes(), ValueRange(results).getTypes()));
  // Constants and ops that fell out of use are no part of the group's text.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (op.use_empty() && isPure(&op) && op.getNumResults())
      op.erase();
  return result;
}

bool LoweringContext::mayTake(Value value, const View &view, Value output, ArrayRef<Operation *> last) {
  if (loads || value.getType() != output.getType() || view.storage >= kWeightBase || view.offset != 0 ||
      state.insides.count(value) || view.strides != stridesInOrder(output) ||
      program.storages[view.storage].bytes !=
          tensorOf(output).getNumElements() * kernel::elementBytes(elementTypeOf(output)) ||
      llvm::any_of(output.getUsers(),
                   [](Operation *user) { return isa<func::ReturnOp>(user) || isPadding(user); }))
    return false;
  return isDeadAfter(value, last);
}

static bool readsAtOwnIndex(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel && kernel.readsAtOwnIndex();
}

std::optional<unsigned> LoweringContext::takenInput(FusionGroup &group, const ExtractedGroup &extracted,
                                                    ArrayRef<unsigned> others) {
  if (loads || group.outputs.size() != 1 || !group.reduced.empty())
    return std::nullopt;
  auto readsInPlace = [&](Value value) {
    auto visit = [&](auto self, Value v, bool moved) -> bool {
      return llvm::all_of(v.getUsers(), [&](Operation *user) {
        if (isMovement(user))
          return self(self, user->getResult(0), true);
        return !llvm::is_contained(group.ops, user) ||
               (!moved && readsAtOwnIndex(user) && group.aligned.lookup(user));
      });
    };
    return visit(visit, value, false);
  };
  for (auto [i, value, view] : llvm::enumerate(extracted.values, extracted.inputs)) {
    unsigned readers =
        llvm::count_if(extracted.inputs, [&](const View &other) { return other.storage == view.storage; });
    if (readers == 1 && !llvm::is_contained(others, view.storage) && readsInPlace(value) &&
        mayTake(value, view, group.outputs.front(), group.ops))
      return i;
  }
  return std::nullopt;
}
