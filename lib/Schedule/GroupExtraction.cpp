//===- GroupExtraction.cpp - groups as functions of their own ---------------===//
#include "FunctionState.h"
#include "Groups.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

namespace colossal::schedule {
/// Clones the ops of a group into a function of their own. What they read from memory becomes an argument;
/// what is computed from other values of the group, or from nothing, becomes code.
class GroupExtractor {
public:
  GroupExtractor(LoweringContext &context, FunctionState &state, ArrayRef<Operation *> ops,
                 Operation *routine)
      : context(context), state(state), ops(ops), routine(routine), inGroup(ops.begin(), ops.end()),
        b(context.mlirContext()), loc(b.getUnknownLoc()) {}

  FailureOr<ExtractedGroup> run(ValueRange outputs);

private:
  int64_t addScalar(Value source);
  Operation *clone(Operation *op);
  Value import(Value value);
  Value addArgument(Value value);
  bool isComputedHere(Value movement);
  void addScalarArguments();
  void finish(ValueRange results);

  LoweringContext &context;
  FunctionState &state;
  ArrayRef<Operation *> ops;
  Operation *routine;
  llvm::DenseSet<Operation *> inGroup;
  OpBuilder b;
  Location loc;
  ExtractedGroup result;
  Block *block = nullptr;
  IRMapping mapping;
  /// Index arguments follow the tensors'; until all tensors are known, the operands of their users hold 0.
  SmallVector<std::tuple<Operation *, unsigned, int64_t>> scalarUses;
  bool hasFailed = false;
};
} // namespace colossal::schedule

/// The number of the index argument that stands for `source`.
int64_t GroupExtractor::addScalar(Value source) {
  auto known = llvm::find(result.scalars, source);
  int64_t number = std::distance(result.scalars.begin(), known);
  if (known == result.scalars.end())
    result.scalars.push_back(source);
  return number;
}

Operation *GroupExtractor::clone(Operation *op) {
  SmallVector<Value> operands;
  SmallVector<std::pair<unsigned, int64_t>> pending;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (isa<RankedTensorType>(operand.getType())) {
      operands.push_back(import(operand));
    } else {
      pending.push_back({i, addScalar(operand)});
      operands.push_back(Value());
    }
  }
  Value zero;
  for (auto [i, number] : pending) {
    if (!zero)
      zero = arith::ConstantIndexOp::create(b, loc, 0);
    operands[i] = zero;
  }
  NamedAttrList attributes;
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    if (!attribute.getName().strref().starts_with("dist.") &&
        !attribute.getName().strref().starts_with("colossal."))
      attributes.append(attribute);
  // With its properties as they are: written down as attributes they take longer to read than all else.
  Operation *clone =
      b.insert(Operation::create(loc, op->getName(), op->getResultTypes(), operands,
                                 attributes.getDictionary(b.getContext()), op->getPropertiesStorage()));
  for (auto [i, number] : pending)
    scalarUses.push_back({clone, i, number});
  if (auto start = state.sliceStarts.find(op); start != state.sliceStarts.end())
    clone->setAttr("start_argument", b.getI64IntegerAttr(addScalar(start->second)));
  mapping.map(op->getResults(), clone->getResults());
  return clone;
}

/// Whether the result of a movement is read through it: from a value of the group, or from one that lies
/// somewhere while no view says where the result does. Kernels do not know the turn: what is a turn's part
/// has a view.
bool GroupExtractor::isComputedHere(Value movement) {
  Value base = movement;
  bool isOfTurn = false;
  while (Operation *def = base.getDefiningOp()) {
    if (!isMovement(def) || mapping.contains(base) || inGroup.contains(def))
      break;
    isOfTurn |= isa<dist::LoopSliceOp>(def);
    base = def->getOperand(0);
  }
  if (mapping.contains(base) || inGroup.contains(base.getDefiningOp()))
    return true;
  if (!context.isLoad() && context.isLoadable(movement))
    return false;
  return !isOfTurn && !context.existingView(movement) && context.existingView(base);
}

/// What stands in the function for a value of the program.
Value GroupExtractor::import(Value value) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *def = value.getDefiningOp();
  if (def && inGroup.contains(def))
    return clone(def)->getResult(cast<OpResult>(value).getResultNumber());
  if (context.isFree(value) || (def && isMovement(def) && isComputedHere(value)))
    return clone(def)->getResult(0);
  return addArgument(value);
}

Value GroupExtractor::addArgument(Value value) {
  auto view = context.viewOf(value);
  if (failed(view)) {
    hasFailed = true;
    return Value();
  }
  Value argument = block->addArgument(value.getType(), loc);
  result.inputs.push_back(*view);
  result.values.push_back(value);
  result.types.push_back(tensorOf(value));
  mapping.map(value, argument);
  return argument;
}

void GroupExtractor::addScalarArguments() {
  for (auto [i, scalar] : llvm::enumerate(result.scalars)) {
    Value argument = block->addArgument(b.getIndexType(), loc);
    for (auto [user, operand, number] : scalarUses)
      if (number == static_cast<int64_t>(i))
        user->setOperand(operand, argument);
  }
}

void GroupExtractor::finish(ValueRange results) {
  func::ReturnOp::create(b, loc, results);
  result.function.setFunctionType(b.getFunctionType(block->getArgumentTypes(), results.getTypes()));
  // Constants and ops that fell out of use are no part of the group's text.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (op.use_empty() && isPure(&op) && op.getNumResults())
      op.erase();
}

FailureOr<ExtractedGroup> GroupExtractor::run(ValueRange outputs) {
  result.module = ModuleOp::create(loc);
  b.setInsertionPointToEnd(result.module->getBody());
  result.function = func::FuncOp::create(b, loc, "group", b.getFunctionType({}, {}));
  block = result.function.addEntryBlock();
  b.setInsertionPointToEnd(block);
  if (routine)
    for (Value value : routine->getResults())
      mapping.map(value, block->addArgument(value.getType(), loc)); // stands for the sums in registers
  for (Operation *op : ops) {
    if (op != routine && op->getNumResults() && !mapping.contains(op->getResult(0)))
      clone(op);
    if (hasFailed)
      return failure();
  }
  SmallVector<Value> results;
  for (Value output : outputs)
    results.push_back(import(output));
  if (hasFailed)
    return failure();
  addScalarArguments();
  finish(results);
  return std::move(result);
}

FailureOr<ExtractedGroup> LoweringContext::extract(ArrayRef<Operation *> ops, ValueRange outputs,
                                                   Operation *routine) {
  return GroupExtractor(*this, state, ops, routine).run(outputs);
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

std::optional<TakenInput> LoweringContext::takenInput(FusionGroup &group, const ExtractedGroup &extracted,
                                                      ArrayRef<unsigned> others) {
  if (loads || !mayTakeInput(group))
    return std::nullopt;
  for (auto [i, value, view] : llvm::enumerate(extracted.values, extracted.inputs)) {
    unsigned readers =
        llvm::count_if(extracted.inputs, [&](const View &other) { return other.storage == view.storage; });
    if (readers != 1 || llvm::is_contained(others, view.storage) || !isReadInPlace(group, value))
      continue;
    for (auto [number, output] : llvm::enumerate(group.outputs))
      if (mayTake(value, view, output, group.ops))
        return TakenInput{static_cast<unsigned>(i), static_cast<unsigned>(number)};
  }
  return std::nullopt;
}
