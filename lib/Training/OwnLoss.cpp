//===- OwnLoss.cpp - cross-entropies that a model computes itself --------------===//
//
// As lib/Import/ONNX/Operators/Loss.cpp composes them, in any precision.
//
//===----------------------------------------------------------------------===//
#include "colossal/Training/OwnLoss.h"

#include "dialects/Colossal/Colossal.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::training;

static bool isCast(Operation *op) {
  auto elementwise = dyn_cast_or_null<ElementwiseOp>(op);
  return elementwise && elementwise.getKind() == ElementwiseKind::Cast;
}

/// What `value` is but for its shape and type.
static Value skipForm(Value value) {
  for (Operation *op = value.getDefiningOp(); isCast(op) || isa_and_nonnull<ReshapeOp>(op);
       op = value.getDefiningOp())
    value = op->getOperand(0);
  return value;
}

static ElementwiseOp matchKind(Value value, ElementwiseKind kind) {
  auto op = skipForm(value).getDefiningOp<ElementwiseOp>();
  return op && op.getKind() == kind ? op : ElementwiseOp();
}

static ReduceOp matchSum(Value value) {
  auto op = skipForm(value).getDefiningOp<ReduceOp>();
  return op && op.getKind() == ReduceKind::Sum ? op : ReduceOp();
}

/// Of `value == constant`, either way round: what is compared, and the number.
static std::optional<std::pair<Value, int64_t>> matchNumber(ElementwiseOp equal) {
  for (unsigned i = 0; i < 2; ++i) {
    auto constant = skipForm(equal.getInputs()[i]).getDefiningOp<ConstantOp>();
    auto elements = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : DenseIntElementsAttr();
    if (elements && elements.isSplat())
      return std::pair(skipForm(equal.getInputs()[1 - i]), elements.getSplatValue<APInt>().getSExtValue());
  }
  return std::nullopt;
}

static bool isNumber(Value value, double number) {
  auto constant = skipForm(value).getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue()) : DenseFPElementsAttr();
  return elements && elements.isSplat() && elements.getSplatValue<APFloat>().isExactlyValue(number);
}

/// Whether a product gives `logits`, but for biases, scales and what else is done to each element.
static bool isOfProduct(Value logits, int depth = 8) {
  Operation *maker = skipForm(logits).getDefiningOp();
  if (isa_and_nonnull<ContractOp>(maker))
    return true;
  auto countOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); };
  return depth > 0 && isa_and_nonnull<ElementwiseOp>(maker) &&
         llvm::any_of(maker->getOperands(), [&](Value operand) {
           return countOf(operand) == countOf(logits) && isOfProduct(operand, depth - 1);
         });
}

std::optional<OwnCrossEntropy> training::matchCrossEntropy(Value loss) {
  ElementwiseOp mean = matchKind(loss, ElementwiseKind::Div);
  ReduceOp sum = mean ? matchSum(mean.getInputs()[0]) : ReduceOp(),
           count = mean ? matchSum(mean.getInputs()[1]) : ReduceOp();
  ElementwiseOp costs = sum ? matchKind(sum.getInput(), ElementwiseKind::Select) : ElementwiseOp(),
                ones = count ? matchKind(count.getInput(), ElementwiseKind::Select) : ElementwiseOp();
  if (!costs || !ones || skipForm(costs.getInputs()[0]) != skipForm(ones.getInputs()[0]) ||
      !isNumber(costs.getInputs()[2], 0) || !isNumber(ones.getInputs()[1], 1) ||
      !isNumber(ones.getInputs()[2], 0))
    return std::nullopt;
  ElementwiseOp kept = matchKind(costs.getInputs()[0], ElementwiseKind::Not),
                ignored = kept ? matchKind(kept.getInputs()[0], ElementwiseKind::Equal) : ElementwiseOp(),
                negated = matchKind(costs.getInputs()[1], ElementwiseKind::Neg);
  ReduceOp picked = negated ? matchSum(negated.getInputs()[0]) : ReduceOp();
  ElementwiseOp own = picked ? matchKind(picked.getInput(), ElementwiseKind::Select) : ElementwiseOp(),
                chosen = own ? matchKind(own.getInputs()[0], ElementwiseKind::Equal) : ElementwiseOp();
  auto softmax = own ? skipForm(own.getInputs()[1]).getDefiningOp<SoftmaxOp>() : SoftmaxOp();
  std::optional<std::pair<Value, int64_t>> label = ignored ? matchNumber(ignored) : std::nullopt;
  if (!chosen || picked.getAxes() != ArrayRef<int64_t>{1} || !softmax || !label || !softmax.getLog() ||
      softmax.getAxis() != 1 || !isNumber(own.getInputs()[2], 0) ||
      skipForm(chosen.getInputs()[0]) != label->first ||
      !isa_and_nonnull<IotaOp>(skipForm(chosen.getInputs()[1]).getDefiningOp()))
    return std::nullopt;
  Value logits = softmax.getInput();
  auto shapeOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape(); };
  if (shapeOf(logits).size() != 2)
    return std::nullopt;
  // As they were before they were rows.
  const int64_t classes = shapeOf(logits).back();
  for (Operation *op = logits.getDefiningOp(); isCast(op) || isa_and_nonnull<ReshapeOp>(op);
       op = logits.getDefiningOp()) {
    ArrayRef<int64_t> before = shapeOf(op->getOperand(0));
    if (before.size() < 2 || before.size() > 3 || before.back() != classes)
      break;
    logits = op->getOperand(0);
  }
  if (!isOfProduct(logits))
    return std::nullopt;
  return OwnCrossEntropy{logits, label->first, label->second};
}
