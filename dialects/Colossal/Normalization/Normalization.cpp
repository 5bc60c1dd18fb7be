//===- Normalization.cpp -------------------------------------------------===//
//
// Normalizations over trailing dimensions, and softmax. All that is known about these ops stands here:
// verification, folding, sharding rules, emission.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/OpComposer.h"
#include "dialects/Colossal/Verification.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>
#include <optional>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

LogicalResult NormalizeOp::verify() {
  if (failed(verifyTensors(*this)) || failed(verifyAxis(*this, getAxis(), getInput(), "C1")))
    return failure();
  if (getType() != getInput().getType())
    return emitOpError() << "the result must be " << getInput().getType() << ", as the input, but is "
                         << getType() << " (C1)";
  for (Value operand : getOperands())
    if (failed(verifyFloats(*this, operand, "C1")))
      return failure();
  if (getScale() && failed(verifyBroadcasts(*this, getScale(), shapeOf(getInput()), "scale", "C2")))
    return failure();
  return getBias() ? verifyBroadcasts(*this, getBias(), shapeOf(getInput()), "bias", "C2") : success();
}

LogicalResult SoftmaxOp::verify() {
  if (failed(verifyTensors(*this)) || failed(verifyFloats(*this, getInput(), "C1")) ||
      failed(verifyAxis(*this, getAxis(), getInput(), "C1")))
    return failure();
  if (getLog() && getGuard())
    return emitOpError("a guard has no logarithm (C2)");
  return success();
}

LogicalResult BatchNormalizeOp::verify() {
  if (failed(verifyTensors(*this)) || failed(verifyFloats(*this, getInput(), "C1")))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(getInput());
  if (shape.size() < 2 || getResult().getType() != getInput().getType())
    return emitOpError()
           << "the input must have two dimensions or more, and the result its type, but they are "
           << getInput().getType() << " and " << getResult().getType() << " (C1)";
  for (auto [name, operand] : {std::pair("scale", getScale()),
                               {"bias", getBias()},
                               {"mean", getMean()},
                               {"variance", getVariance()}})
    if (failed(verifyFloats(*this, operand, "C2")) ||
        failed(verifyShape(*this, operand, {shape[1]}, name, "C2")))
      return failure();
  if (getUpdatedMean().getType() != getMean().getType() ||
      getUpdatedVariance().getType() != getVariance().getType())
    return emitOpError() << "the updated statistics must have the types of the running ones (C2)";
  return success();
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

/// Bytes of one statistic of a row: what is summed in a narrow type is summed in f32.
static double statisticBytes(Value input) {
  return computeType(elementTypeOf(input)).getIntOrFloatBitWidth() / 8.0;
}

FactorRule NormalizeOp::getFactorRule() {
  FactorRule rule = FactorRule::makePointwise(*this);
  for (size_t d = getAxis(); d < rule.factors.size(); ++d) {
    rule.factors[d].staged = true;
    rule.factors[d].padding = PaddingFill::Zero;
  }
  rule.statistics.assign(getKind() == NormalizeKind::Layer ? 2 : 1, {statisticBytes(getInput())});
  return rule;
}

// The deviation is summed from the mean that all ranks agreed on, as on one rank: sums of squares lose what
// the mean and the squares have in common.
FailureOr<SmallVector<Value>> NormalizeOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  if (context.stagedAxes().empty())
    return cloneWithLocalTypes(*this, builder, context);
  OpComposer ops(builder, getLoc());
  Type inner = computeType(elementTypeOf(getInput()));
  SmallVector<int64_t> axes;
  int64_t count = 1;
  for (int64_t d = getAxis(); d < static_cast<int64_t>(shapeOf(getInput()).size()); ++d) {
    axes.push_back(d);
    count *= shapeOf(getInput())[d];
  }
  auto mean = [&](Value value) {
    return context.reduceStatistic(builder, ops.reduce(ReduceKind::Mean, value, axes, count),
                                   ReductionKind::Sum);
  };
  Value centered = ops.cast(context.operand(0), inner);
  if (getKind() == NormalizeKind::Layer) {
    centered = ops.apply(ElementwiseKind::Sub, {centered, mean(centered)});
    centered = context.fillStagedPadding(builder, centered, 0, PaddingFill::Zero);
  }
  Value variance = mean(ops.apply(ElementwiseKind::Mul, {centered, centered}));
  Value raised =
      ops.apply(ElementwiseKind::Add, {variance, ops.constant(getEpsilon().convertToDouble(), variance)});
  Value y = ops.apply(ElementwiseKind::Div, {centered, ops.apply(ElementwiseKind::Sqrt, {raised})});
  unsigned next = 1;
  if (getScale())
    y = ops.apply(ElementwiseKind::Mul, {y, ops.cast(context.operand(next++), inner)});
  if (getBias())
    y = ops.apply(ElementwiseKind::Add, {y, ops.cast(context.operand(next++), inner)});
  return SmallVector<Value>{ops.cast(y, elementTypeOf(getResult()))};
}

double NormalizeOp::getFlops() {
  return 8.0 * cast<RankedTensorType>(getType()).getNumElements();
}

FactorRule SoftmaxOp::getFactorRule() {
  FactorRule rule = FactorRule::makePointwise(*this);
  rule.factors[getAxis()].staged = true;
  rule.factors[getAxis()].padding = PaddingFill::Lowest;
  rule.statistics.assign(2, {statisticBytes(getInput())});
  return rule;
}

FailureOr<SmallVector<Value>> SoftmaxOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  if (context.stagedAxes().empty())
    return cloneWithLocalTypes(*this, builder, context);
  OpComposer ops(builder, getLoc());
  SmallVector<int64_t> axes{static_cast<int64_t>(getAxis())};
  Value input = ops.cast(context.operand(0), computeType(elementTypeOf(getInput())));
  Value maximum =
      context.reduceStatistic(builder, ops.reduce(ReduceKind::Max, input, axes), ReductionKind::Max);
  Value shifted = ops.apply(ElementwiseKind::Sub, {input, maximum});
  Value exponent = ops.apply(ElementwiseKind::Exp, {shifted});
  Value sum =
      context.reduceStatistic(builder, ops.reduce(ReduceKind::Sum, exponent, axes), ReductionKind::Sum);
  Value y = getLog() ? ops.apply(ElementwiseKind::Sub, {shifted, ops.apply(ElementwiseKind::Log, {sum})})
                     : ops.apply(ElementwiseKind::Div, {exponent, sum});
  if (getGuard()) {
    Value lowest = ops.constant(-std::numeric_limits<double>::infinity(), maximum);
    Value zero = ops.constant(0, y);
    y = ops.select(ops.compare(ElementwiseKind::Equal, maximum, lowest), zero, y);
  }
  return SmallVector<Value>{ops.cast(y, elementTypeOf(getResult()))};
}

double SoftmaxOp::getFlops() {
  return 12.0 * cast<RankedTensorType>(getType()).getNumElements();
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

/// All but the bias.
bool NormalizeOp::isOperandSaved(unsigned operand) {
  return !getBias() || operand + 1 != getNumOperands();
}
// dx = y (dy - sum(y dy)): the result is enough.
bool SoftmaxOp::isOperandSaved(unsigned operand) {
  return false;
}
bool SoftmaxOp::isResultSaved(unsigned result) {
  return true;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

KernelKind NormalizeOp::getKernelKind() {
  return KernelKind::Row;
}

std::optional<RowSpace> NormalizeOp::getRowSpace() {
  RowSpace space{SmallVector<int64_t>(shapeOf(getInput())), {}};
  for (int64_t d = 0; d < static_cast<int64_t>(space.shape.size()); ++d)
    space.reduced.push_back(d >= static_cast<int64_t>(getAxis()));
  return space;
}

bool NormalizeOp::readsAtOwnIndex() {
  return true;
}

KernelKind SoftmaxOp::getKernelKind() {
  return KernelKind::Row;
}

std::optional<RowSpace> SoftmaxOp::getRowSpace() {
  RowSpace space{SmallVector<int64_t>(shapeOf(getInput())), {}};
  for (int64_t d = 0; d < static_cast<int64_t>(space.shape.size()); ++d)
    space.reduced.push_back(d == static_cast<int64_t>(getAxis()));
  return space;
}

bool SoftmaxOp::readsAtOwnIndex() {
  return true;
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

/// 1 / sqrt(squares / count + epsilon).
static Element inverseDeviation(NormalizeOp op, Element squares, int64_t count) {
  Element variance = squares * squares.like(1.0 / count);
  return (variance + variance.like(op.getEpsilon().convertToDouble())).apply(MathFunction::Rsqrt);
}

/// centered * inverse * scale + bias at `index`, of the result's type.
static Element normalizeElement(ElementEmitter &emitter, NormalizeOp op, Element centered, Element inverse,
                                ArrayRef<Lane> index) {
  Element y = centered * inverse;
  auto operand = [&](Value tensor) {
    return Element(emitter, emitter.load(tensor, broadcastIndex(emitter, index, tensor)),
                   elementTypeOf(tensor))
        .to(centered.elementType());
  };
  if (op.getScale())
    y = y * operand(op.getScale());
  if (op.getBias())
    y = y + operand(op.getBias());
  return y.to(elementTypeOf(op.getResult()));
}

Value NormalizeOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  // The statistics of an element's own row: kernels compute them once a row instead.
  Type type = elementTypeOf(getInput());
  ArrayRef<int64_t> shape = shapeOf(getInput());
  SmallVector<Lane> in(index);
  Type inner = computeType(type);
  Value zero = emitter.scalar(inner, 0);
  for (const Lane &lane : index.take_front(getAxis()))
    if (!lane.isUniform() && !isa<VectorType>(zero.getType()))
      zero = vector::BroadcastOp::create(emitter.builder(), emitter.loc(),
                                         VectorType::get({(int64_t)emitter.lanes()}, inner), zero);
  int64_t count = 1;
  for (int64_t d = getAxis(); d < (int64_t)shape.size(); ++d)
    count *= shape[d];
  auto sum = [&](llvm::function_ref<Element(Element)> term) {
    auto loop = [&](auto self, unsigned d, ValueRange init) -> SmallVector<Value> {
      if (d == shape.size()) {
        Element x = Element(emitter, emitter.load(getInput(), in), type).to(inner);
        return {(Element(emitter, init[0], inner) + term(x)).get()};
      }
      return emitter.reduce(shape[d], init, [&](Value counter, ValueRange carried) {
        in[d] = emitter.uniform(counter);
        return self(self, d + 1, carried);
      });
    };
    return Element(emitter, loop(loop, getAxis(), zero)[0], inner);
  };
  std::optional<Element> mean;
  if (getKind() == NormalizeKind::Layer) {
    Element total = sum([](Element x) { return x; });
    mean = total / total.like(count);
  }
  auto centered = [&](Element x) { return mean ? x - *mean : x; };
  Element squares = sum([&](Element x) {
    Element c = centered(x);
    return c * c;
  });
  Element x = Element(emitter, emitter.load(getInput(), index), type).to(inner);
  Element inverse = inverseDeviation(*this, squares, count);
  return normalizeElement(emitter, *this, centered(x), inverse, index).get();
}

Value SoftmaxOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  Type type = elementTypeOf(getInput()), inner = computeType(type);
  int64_t axis = getAxis(), extent = shapeOf(getInput())[axis];
  SmallVector<Lane> in(index);
  auto carried = [&](Value value) -> Value {
    for (unsigned d = 0; d < index.size(); ++d)
      if ((int64_t)d != axis && !index[d].isUniform())
        return vector::BroadcastOp::create(emitter.builder(), emitter.loc(),
                                           VectorType::get({(int64_t)emitter.lanes()}, value.getType()),
                                           value);
    return value;
  };
  auto at = [&](Value counter) {
    in[axis] = emitter.uniform(counter);
    return Element(emitter, emitter.load(getInput(), in), type).to(inner);
  };
  Value lowest = carried(emitter.scalar(inner, -std::numeric_limits<double>::infinity()));
  Element maximum(emitter,
                  emitter.reduce(extent, lowest,
                                 [&](Value counter, ValueRange acc) -> SmallVector<Value> {
                                   return {Element(emitter, acc[0], inner).max(at(counter)).get()};
                                 })[0],
                  inner);
  Element sum(
      emitter,
      emitter.reduce(
          extent, carried(emitter.scalar(inner, 0)),
          [&](Value counter, ValueRange acc) -> SmallVector<Value> {
            return {
                (Element(emitter, acc[0], inner) + (at(counter) - maximum).apply(MathFunction::Exp)).get()};
          })[0],
      inner);
  Element x = Element(emitter, emitter.load(getInput(), index), type).to(inner) - maximum;
  Element y = getLog() ? x - sum.apply(MathFunction::Log) : x.apply(MathFunction::Exp) / sum;
  if (getGuard())
    y = (maximum == maximum.like(-std::numeric_limits<double>::infinity())).select(y.like(0), y);
  return y.to(type).get();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

bool SoftmaxOp::keepsElements() {
  return !getLog();
}

void SoftmaxOp::emitRow(RowEmitter &rows) {
  Type type = elementTypeOf(getInput()), inner = computeType(type);
  Value tensor = getInput(), result = getResult();
  auto input = [&](ArrayRef<Lane> index) { return rows.element(tensor, inner, index); };
  Element maximum = rows.fold(ReduceKind::Max, inner, input);
  Element lowest = maximum.like(-std::numeric_limits<double>::infinity());
  if (getGuard())
    maximum = (maximum == lowest).select(maximum.like(0), maximum);
  const bool log = getLog(), keeps = !log && rows.hasRoom(result);
  Element sum = rows.fold(ReduceKind::Sum, inner, [&](ArrayRef<Lane> index) {
    Element y = rows.expNonPositive(input(index) - maximum);
    if (keeps)
      rows.keep(y, result, index);
    return y;
  });
  if (log) {
    Element factor = sum.apply(MathFunction::Log) + maximum;
    return rows.bindElements(result, [&rows, type, inner, tensor, factor](ArrayRef<Lane> index) {
      return (rows.element(tensor, inner, index) - factor).to(type).get();
    });
  }
  Element factor = sum.like(1) / sum;
  if (getGuard())
    factor = (sum == sum.like(0)).select(sum.like(0), factor);
  rows.bindElements(result, [&rows, type, inner, tensor, result, maximum, factor](ArrayRef<Lane> index) {
    std::optional<Element> y = rows.kept(result, index);
    if (!y)
      y = rows.expNonPositive(rows.element(tensor, inner, index) - maximum);
    return (*y * factor).to(type).get();
  });
}

void NormalizeOp::emitRow(RowEmitter &rows) {
  Type inner = computeType(elementTypeOf(getInput()));
  auto input = [&rows, inner, tensor = Value(getInput())](ArrayRef<Lane> index) {
    return rows.element(tensor, inner, index);
  };
  const int64_t count = rows.rowSize();
  std::optional<Element> mean;
  if (getKind() == NormalizeKind::Layer) {
    Element total = rows.fold(ReduceKind::Sum, inner, input);
    mean = total * total.like(1.0 / count);
  }
  auto centered = [input, mean](ArrayRef<Lane> index) {
    Element x = input(index);
    return mean ? x - *mean : x;
  };
  Element squares = rows.fold(ReduceKind::Sum, inner, [&](ArrayRef<Lane> index) {
    Element x = centered(index);
    return x * x;
  });
  Element inverse = inverseDeviation(*this, squares, count);
  rows.bindElements(getResult(), [&rows, op = *this, centered, inverse](ArrayRef<Lane> index) mutable {
    return normalizeElement(rows.elements(), op, centered(index), inverse, index).get();
  });
}
