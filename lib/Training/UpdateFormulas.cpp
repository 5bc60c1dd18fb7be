//===- UpdateFormulas.cpp - updates that are one op -------------------------===//
#include "UpdateFormulas.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::training;

std::optional<UpdateFormulas::Formula> UpdateFormulas::read(Block &block, Operation *before,
                                                            ArrayRef<Value> given, ArrayRef<Value> results) {
  const ArrayRef<int64_t> shape = shapeOf(given.front());
  Builder b(block.front().getContext());
  llvm::DenseMap<Value, int64_t> numbers; // of what is given, and of steps from `firstStep` on
  for (auto [i, value] : llvm::enumerate(given))
    numbers[value] = static_cast<int64_t>(i);
  SmallVector<Operation *> steps;
  Formula formula;
  for (Operation *op = before ? before->getNextNode() : &block.front();
       op && !op->hasTrait<OpTrait::IsTerminator>(); op = op->getNextNode()) {
    if (llvm::none_of(op->getOperands(), [&](Value operand) { return numbers.contains(operand); }))
      continue; // of step values
    auto step = dyn_cast<ElementwiseOp>(op);
    if (!step || step.getParams() || shapeOf(step.getResult()) != shape)
      return std::nullopt;
    for (Value operand : op->getOperands())
      if (!numbers.contains(operand) && !llvm::is_contained(formula.shared, operand))
        formula.shared.push_back(operand);
    numbers[step.getResult()] = -1; // numbered when all operands are known
    steps.push_back(op);
  }
  if (llvm::any_of(formula.shared, [](Value value) { return !shapeOf(value).empty(); }))
    return std::nullopt; // a parameter of another rank would have another
  for (Value value : formula.shared)
    numbers[value] =
        static_cast<int64_t>(given.size() + llvm::find(formula.shared, value) - formula.shared.begin());
  auto next = static_cast<int64_t>(given.size() + formula.shared.size());
  SmallVector<Attribute> attributes;
  for (Operation *op : steps) {
    SmallVector<int64_t> operands;
    for (Value operand : op->getOperands())
      operands.push_back(numbers.lookup(operand));
    attributes.push_back(FormulaStepAttr::get(b.getContext(), cast<ElementwiseOp>(op).getKind(), operands,
                                              elementTypeOf(op->getResult(0))));
    numbers[op->getResult(0)] = next++;
  }
  SmallVector<int64_t> gives;
  for (Value result : results) {
    auto number = numbers.find(result);
    if (number == numbers.end() || shapeOf(result) != shape)
      return std::nullopt;
    gives.push_back(number->second);
  }
  formula.steps = b.getArrayAttr(attributes);
  formula.gives = b.getDenseI64ArrayAttr(gives);
  for (Operation *op : llvm::reverse(steps))
    op->erase();
  return formula;
}

UpdateFormulas::Values UpdateFormulas::create(OpComposer &ops, const Formula &formula,
                                              ArrayRef<Value> given) {
  Values operands(given);
  llvm::append_range(operands, formula.shared);
  ArrayRef<int64_t> gives = formula.gives.asArrayRef();
  SmallVector<Type> types;
  for (int64_t number : gives) {
    const auto behind = static_cast<size_t>(number);
    Type element = behind < operands.size()
                       ? elementTypeOf(operands[behind])
                       : cast<FormulaStepAttr>(formula.steps[behind - operands.size()]).getElement();
    types.push_back(RankedTensorType::get(shapeOf(given.front()), element));
  }
  auto op = FormulaOp::create(ops.builder, ops.loc, types, operands, formula.steps, gives);
  return Values(op.getOutputs());
}

UpdateFormulas::Values UpdateFormulas::apply(OpComposer &ops, int variant, Values given,
                                             llvm::function_ref<Values()> build) {
  const ArrayRef<int64_t> shape = shapeOf(given.front());
  if (shape.empty() || llvm::any_of(given, [&](Value value) { return shapeOf(value) != shape; }))
    return build();
  std::pair<int, std::vector<const void *>> key{variant, {}};
  for (Value value : given)
    key.second.push_back(elementTypeOf(value).getAsOpaquePointer());
  auto [entry, isNew] = known.try_emplace(std::move(key));
  if (isNew) {
    Block &block = *ops.builder.getInsertionBlock();
    Block::iterator end = ops.builder.getInsertionPoint();
    Operation *before = end == block.begin() ? nullptr : &*std::prev(end);
    Values results = build();
    entry->second = read(block, before, given, results);
    if (!entry->second)
      return results;
  }
  return entry->second ? create(ops, *entry->second, given) : build();
}
