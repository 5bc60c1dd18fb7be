//===- Formula.cpp - several elementwise functions as one op ----------------===//
#include "ElementwiseKinds.h"
#include "dialects/Colossal/GradientBuilder.h"
#include "dialects/Colossal/Verification.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

LogicalResult FormulaOp::verify() {
  if (failed(verifyTensors(*this, ElementUse::Moves)))
    return failure();
  if (getOutputs().empty())
    return emitOpError() << "gives nothing (C1)";
  ArrayRef<int64_t> shape = shapeOf(getOutputs().front());
  for (auto [number, output] : llvm::enumerate(getOutputs()))
    if (failed(verifyShape(*this, output, shape, "result " + std::to_string(number), "C1")))
      return failure();
  SmallVector<Type> elements; // by the number of the value
  for (auto [number, operand] : llvm::enumerate(getInputs())) {
    if (failed(verifyBroadcasts(*this, operand, shape, "operand " + Twine(number), "C2")))
      return failure();
    elements.push_back(elementTypeOf(operand));
  }
  auto isKnown = [&](int64_t value) { return value >= 0 && value < static_cast<int64_t>(elements.size()); };
  for (auto [number, step] : llvm::enumerate(getSteps().getAsRange<FormulaStepAttr>())) {
    SmallVector<Type, 3> data;
    for (int64_t operand : step.getOperands()) {
      if (!isKnown(operand))
        return emitOpError() << "step " << number << " takes value " << operand
                             << ", which does not stand before it (C3)";
      data.push_back(elements[operand]);
    }
    if (std::string problem = checkElements(step.getKind(), data, step.getElement()); !problem.empty())
      return emitOpError() << "step " << number << ": " << StringRef(problem).rsplit(" (").first << " (C3)";
    elements.push_back(step.getElement());
  }
  if (failed(verifyCount(*this, getGives().size(), getOutputs().size(), "gives", "C3")))
    return failure();
  for (auto [number, value, output] : llvm::enumerate(getGives(), getOutputs()))
    if (!isKnown(value))
      return emitOpError() << "result " << number << " is value " << value << ", which there is not (C3)";
    else if (elements[value] != elementTypeOf(output))
      return emitOpError() << "result " << number << " has elements of type " << elementTypeOf(output)
                           << ", but its value has " << elements[value] << " (C3)";
  return success();
}

FactorRule FormulaOp::getFactorRule() {
  FactorRule rule = FactorRule::makePointwise(*this);
  // Integer division traps on a zero divisor, which padding may hold.
  for (auto step : getSteps().getAsRange<FormulaStepAttr>()) {
    const bool divides = step.getKind() == ElementwiseKind::Div || step.getKind() == ElementwiseKind::Mod ||
                         step.getKind() == ElementwiseKind::Fmod;
    if (divides && step.getElement().isInteger())
      for (Factor &factor : rule.factors)
        factor.padding = PaddingFill::One;
  }
  return rule;
}

/// As those of the ops that it stands for.
double FormulaOp::getFlops() {
  return static_cast<double>(getSteps().size()) *
         cast<RankedTensorType>(getOutputs().front().getType()).getNumElements();
}

bool FormulaOp::isHeavy() {
  return false;
}

bool FormulaOp::readsAtOwnIndex() {
  return true;
}

int64_t FormulaOp::getElementCost() {
  int64_t cost = 0;
  for (auto step : getSteps().getAsRange<FormulaStepAttr>())
    cost += colossal::getElementCost(step.getKind());
  return cost;
}

LogicalResult FormulaOp::buildGradient(GradientBuilder &gradient) {
  return gradient.refuse();
}

Value FormulaOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  const auto operands = static_cast<int64_t>(getInputs().size());
  SmallVector<std::optional<Element>> known(operands + getSteps().size());
  auto get = [&](auto get, int64_t number) -> Element {
    if (known[number])
      return *known[number];
    if (number < operands) {
      Value operand = getInputs()[number];
      known[number] = Element(emitter, emitter.load(operand, broadcastIndex(emitter, index, operand)),
                              elementTypeOf(operand));
    } else {
      auto step = cast<FormulaStepAttr>(getSteps()[number - operands]);
      SmallVector<Element, 3> in;
      for (int64_t operand : step.getOperands())
        in.push_back(get(get, operand));
      known[number] = emitKind(emitter, step.getKind(), in, {}, step.getElement());
    }
    return *known[number];
  };
  return get(get, getGives()[result]).get();
}
