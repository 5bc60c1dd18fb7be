//===- Convolution.cpp ---------------------------------------------------===//
//
// Convolutions over 1 to 3 spatial dimensions. All that is known about these ops stands here: verification,
// folding, sharding rules, emission.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/Verification.h"
#include "dialects/Colossal/Window.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// C1, C3 and C4 of both convolutions.
static LogicalResult verifyConvolution(Operation *op, Value input, Value weight, Value result, Value bias,
                                       ArrayRef<int64_t> strides, ArrayRef<int64_t> dilations,
                                       ArrayRef<int64_t> pads, int64_t group) {
  size_t rank = shapeOf(input).size();
  if (rank < 3 || rank > 5)
    return op->emitOpError() << "needs 1 to 3 spatial dimensions, but the input is " << input.getType()
                             << " (C1)";
  if (failed(verifyRank(op, weight, rank, "weight", "C1")) ||
      failed(verifyRank(op, result, rank, "result", "C1")) ||
      failed(verifyCount(op, strides.size(), rank - 2, "strides", "C1")) ||
      failed(verifyCount(op, dilations.size(), rank - 2, "dilations", "C1")) ||
      failed(verifyCount(op, pads.size(), 2 * (rank - 2), "pads", "C1")))
    return failure();
  if (group < 1 ||
      llvm::any_of(
          strides, [](int64_t x) { return x < 1; }) ||
      llvm::any_of(dilations, [](int64_t x) { return x < 1; }))
    return op->emitOpError("group, strides and dilations must be positive (C1)");
  if (shapeOf(result)[0] != shapeOf(input)[0])
    return op->emitOpError() << "batch sizes of " << input.getType() << " and " << result.getType()
                             << " differ (C3)";
  for (Value tensor : {weight, bias, result})
    if (tensor && failed(verifySameElements(op, input, tensor, "C4")))
      return failure();
  return bias ? verifyShape(op, bias, shapeOf(result)[1], "bias", "C3") : success();
}

/// C3: `in` and `out` are the channels that the weight's first two dimensions make for `group` groups.
static LogicalResult verifyChannels(Operation *op, Value input, Value weight, Value result, int64_t group,
                                    int64_t in, int64_t out) {
  if (shapeOf(input)[1] == in && shapeOf(result)[1] == out && shapeOf(weight)[0] % group == 0)
    return success();
  return op->emitOpError() << "channels of " << input.getType() << ", " << weight.getType() << " and "
                           << result.getType() << " do not fit " << group << " groups (C3)";
}

LogicalResult ConvOp::verify() {
  if (failed(verifyTensors(*this)) ||
      failed(verifyConvolution(*this, getInput(), getWeight(), getResult(), getBias(), getStrides(),
                               getDilations(), getPads(), getGroup())))
    return failure();
  ArrayRef<int64_t> input = shapeOf(getInput()), weight = shapeOf(getWeight()), result = shapeOf(getResult());
  if (failed(verifyChannels(*this, getInput(), getWeight(), getResult(), getGroup(), getGroup() * weight[1],
                            weight[0])))
    return failure();
  unsigned spatial = input.size() - 2;
  for (unsigned d = 0; d < spatial; ++d) {
    __int128 end =
        __int128(result[2 + d] - 1) * getStrides()[d] + __int128(weight[2 + d] - 1) * getDilations()[d] + 1;
    if (result[2 + d] > 0 && end > __int128(input[2 + d]) + getPads()[d] + getPads()[spatial + d])
      return emitOpError() << "spatial dimension " << d << " of the result, " << result[2 + d]
                           << ", reaches beyond the padded input (C2)";
  }
  return success();
}

LogicalResult ConvTransposeOp::verify() {
  if (failed(verifyTensors(*this)) ||
      failed(verifyConvolution(*this, getInput(), getWeight(), getResult(), getBias(), getStrides(),
                               getDilations(), getPads(), getGroup())))
    return failure();
  ArrayRef<int64_t> weight = shapeOf(getWeight());
  return verifyChannels(*this, getInput(), getWeight(), getResult(), getGroup(), weight[0],
                        getGroup() * weight[1]);
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

namespace {
/// Factor numbers of both convolutions' rules. Spatial dimension d has its window at `spatial + 2 * d` (the
/// result's extent; the operand's through the factor's operandSize) and its kernel at the next number.
struct ConvFactors {
  static constexpr unsigned batch = 0, group = 1, in = 2, out = 3, spatial = 4;
};

ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}
} // namespace

FactorRule ConvOp::getFactorRule() {
  using F = ConvFactors;
  ArrayRef<int64_t> input = getShape(getInput()), weight = getShape(getWeight()),
                    result = getShape(getResult());
  int64_t group = getGroup();
  FactorRule rule;
  rule.add(input[0], FactorKind::Parallel, "batch");
  rule.add(group, FactorKind::Parallel, "group");
  rule.setReduction(rule.add(weight[1], FactorKind::Reduction, "in_channels"), ReductionKind::Sum);
  rule.add(weight[0] / group, FactorKind::Parallel, "channels");
  TensorFactors inputDims = {{F::batch}, {F::group, F::in}}, weightDims = {{F::group, F::out}, {F::in}},
                resultDims = {{F::batch}, {F::group, F::out}};
  static constexpr StringLiteral names[3][3] = {
      {"width", "", ""}, {"height", "width", ""}, {"depth", "height", "width"}};
  unsigned rank = input.size() - 2;
  for (unsigned d = 0; d < rank; ++d) {
    unsigned window = rule.add(result[2 + d], FactorKind::Parallel, names[rank - 1][d]);
    Factor &factor = rule.factors[window];
    factor.refinable = false;
    factor.operandSize = input[2 + d];
    factor.stride = getStrides()[d];
    factor.padLow = getPads()[d];
    factor.window = getDilations()[d] * (weight[2 + d] - 1) + 1;
    unsigned kernel = rule.add(weight[2 + d], FactorKind::Whole);
    inputDims.push_back({window});
    weightDims.push_back({kernel});
    resultDims.push_back({window});
  }
  rule.operands = {inputDims, weightDims};
  if (getBias())
    rule.operands.push_back({{F::group, F::out}});
  rule.results.push_back(resultDims);
  return rule;
}

/// The bias as a rank adds it: where input channels are split, one rank of those whose results are summed.
static Value buildLocalBias(OpBuilder &builder, Location loc, LocalContext &context) {
  Value bias = context.operand(2);
  if (!context.isSplit(ConvFactors::in))
    return bias;
  return keepOnFirst(builder, loc, bias, context.axes(ConvFactors::in));
}

FailureOr<SmallVector<Value>> ConvOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  using F = ConvFactors;
  Value bias = getBias() ? buildLocalBias(builder, getLoc(), context) : Value();
  SmallVector<int64_t> pads(getPads());
  unsigned rank = pads.size() / 2;
  for (unsigned d = 0; d < rank; ++d)
    if (context.isSplit(F::spatial + 2 * d)) // the exchange has brought the padding as well
      pads[d] = pads[rank + d] = 0;
  auto type =
      RankedTensorType::get(context.localResultShape(0), cast<RankedTensorType>(getType()).getElementType());
  return SmallVector<Value>{ConvOp::create(builder, getLoc(), type, context.operand(0), context.operand(1),
                                           bias, getStrides(), getDilations(), pads,
                                           context.localSize(F::group))};
}

double ConvOp::getFlops() {
  ArrayRef<int64_t> weight = getShape(getWeight());
  double flops = 2.0 * cast<RankedTensorType>(getType()).getNumElements();
  for (int64_t size : weight.drop_front())
    flops *= size;
  return flops;
}

FactorRule ConvTransposeOp::getFactorRule() {
  using F = ConvFactors;
  ArrayRef<int64_t> input = getShape(getInput()), weight = getShape(getWeight()),
                    result = getShape(getResult());
  int64_t group = getGroup();
  FactorRule rule;
  rule.add(input[0], FactorKind::Parallel, "batch");
  rule.add(group, FactorKind::Parallel, "group");
  rule.setReduction(rule.add(weight[0] / group, FactorKind::Reduction, "in_channels"), ReductionKind::Sum);
  rule.add(weight[1], FactorKind::Parallel, "channels");
  TensorFactors inputDims = {{F::batch}, {F::group, F::in}}, weightDims = {{F::group, F::in}, {F::out}},
                resultDims = {{F::batch}, {F::group, F::out}};
  for (size_t d = 2; d < input.size(); ++d) {
    inputDims.push_back({rule.add(input[d], FactorKind::Whole)});
    weightDims.push_back({rule.add(weight[d], FactorKind::Whole)});
    resultDims.push_back({rule.add(result[d], FactorKind::Whole)});
  }
  rule.operands = {inputDims, weightDims};
  if (getBias())
    rule.operands.push_back({{F::group, F::out}});
  rule.results.push_back(resultDims);
  return rule;
}

FailureOr<SmallVector<Value>> ConvTransposeOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  using F = ConvFactors;
  Value bias = getBias() ? buildLocalBias(builder, getLoc(), context) : Value();
  auto type =
      RankedTensorType::get(context.localResultShape(0), cast<RankedTensorType>(getType()).getElementType());
  return SmallVector<Value>{ConvTransposeOp::create(builder, getLoc(), type, context.operand(0),
                                                    context.operand(1), bias, getStrides(), getDilations(),
                                                    getPads(), context.localSize(F::group))};
}

double ConvTransposeOp::getFlops() {
  double flops = 2.0 * cast<RankedTensorType>(getInput().getType()).getNumElements();
  for (int64_t size : getShape(getWeight()).drop_front())
    flops *= size;
  return flops;
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

// The gradients of the input and of the filter pair the same elements as the convolution itself; that of a
// bias is a sum.
double ConvOp::getGradientFlops(unsigned operand) {
  return operand < 2 ? getFlops() : countGradientElements(*this, operand);
}
double ConvTransposeOp::getGradientFlops(unsigned operand) {
  return operand < 2 ? getFlops() : countGradientElements(*this, operand);
}

bool ConvOp::isOperandSaved(unsigned operand) {
  return operand < 2; // not the bias
}
bool ConvTransposeOp::isOperandSaved(unsigned operand) {
  return operand < 2;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

KernelKind ConvOp::getKernelKind() {
  return KernelKind::Convolution;
}

KernelKind ConvTransposeOp::getKernelKind() {
  return KernelKind::Convolution;
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

namespace {
/// What a tap multiplies: an element of the input, zero where `inside` is given and false, and one of the
/// weight.
struct Tap {
  SmallVector<Lane> input, weight;
  Value inside;

  void require(ElementEmitter &emitter, Element here) {
    inside = inside ? (Element(emitter, inside, here.elementType()) & here).get() : here.get();
  }
};
} // namespace

/// The bias of the result element at `index`, or 0, and to it the products under all taps of a window of
/// `extents`, which begin with the input channels. `locate` says where a tap stands, given its place in the
/// window.
template <typename ConvolutionOp>
static Value sumProducts(ConvolutionOp op, ElementEmitter &emitter, ArrayRef<Lane> index,
                         ArrayRef<int64_t> extents, function_ref<Tap(ArrayRef<Value>)> locate) {
  Type type = elementTypeOf(op.getResult()), inner = computeType(type);
  Value init = op.getBias() ? Element(emitter, emitter.load(op.getBias(), {index[1]}), type).to(inner).get()
                            : emitter.scalar(inner, 0);
  auto add = [&](ArrayRef<Value> counters, ValueRange carried) {
    Tap tap = locate(counters);
    Element x(emitter, emitter.load(op.getInput(), tap.input, tap.inside), type),
        w(emitter, emitter.load(op.getWeight(), tap.weight), type);
    w = w.to(inner);
    Element total = Element(emitter, carried[0], inner) + x.to(inner) * w;
    return SmallVector<Value>{carriedLike(emitter, total.get(), index)};
  };
  Value sum = overWindow(emitter, extents, carriedLike(emitter, init, index), add)[0];
  return Element(emitter, sum, inner).to(type).get();
}

Value ConvOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  Type boolean = emitter.builder().getI1Type();
  ArrayRef<int64_t> input = shapeOf(getInput()), weight = shapeOf(getWeight());
  unsigned spatial = input.size() - 2;
  int64_t perGroup = weight[0] / getGroup();
  Lane firstChannel = emitter.mul(emitter.floorDiv(index[1], perGroup), weight[1]);
  auto locate = [&](ArrayRef<Value> counters) {
    Lane from = emitter.add(firstChannel, emitter.uniform(counters[0]));
    Tap tap{{index[0], from}, {index[1], emitter.uniform(counters[0])}, {}};
    for (unsigned d = 0; d < spatial; ++d) {
      Lane window = emitter.mul(emitter.uniform(counters[d + 1]), getDilations()[d]);
      Lane pad = emitter.constant(-getPads()[d]);
      Lane first = emitter.mul(index[d + 2], getStrides()[d]);
      tap.input.push_back(emitter.add(emitter.add(first, window), pad));
      tap.weight.push_back(emitter.uniform(counters[d + 1]));
      if (getPads()[d] != 0 || getPads()[d + spatial] != 0)
        tap.require(emitter, {emitter, emitter.inRange(tap.input.back(), 0, input[d + 2]), boolean});
    }
    return tap;
  };
  return sumProducts(*this, emitter, index, weight.drop_front(1), locate);
}

Value ConvTransposeOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  // Element o receives input i through tap k where o = i * stride - pad + k * dilation.
  Type i64 = emitter.builder().getI64Type();
  ArrayRef<int64_t> input = shapeOf(getInput()), weight = shapeOf(getWeight());
  unsigned spatial = input.size() - 2;
  int64_t perGroup = input[1] / getGroup();
  Lane group = emitter.floorDiv(index[1], weight[1]), channel = emitter.mod(index[1], weight[1]);
  SmallVector<int64_t> extents{perGroup};
  extents.append(weight.begin() + 2, weight.end());
  auto locate = [&](ArrayRef<Value> counters) {
    Lane from = emitter.add(emitter.mul(group, perGroup), emitter.uniform(counters[0]));
    Tap tap{{index[0], from}, {from, channel}, {}};
    for (unsigned d = 0; d < spatial; ++d) {
      int64_t stride = getStrides()[d];
      Lane back = emitter.mul(emitter.uniform(counters[d + 1]), -getDilations()[d]);
      Lane shifted = emitter.add(emitter.add(index[d + 2], emitter.constant(getPads()[d])), back);
      tap.weight.push_back(emitter.uniform(counters[d + 1]));
      Element position(emitter, emitter.toValue(shifted, i64), i64);
      Element quotient = position / position.like(stride);
      Element isBelow = quotient < position.like(input[d + 2]),
              isWhole = quotient * position.like(stride) == position;
      Element here = (position.like(-1) < position) & isWhole & isBelow;
      tap.input.push_back(emitter.fromValue(quotient.get()));
      tap.require(emitter, here);
    }
    return tap;
  };
  return sumProducts(*this, emitter, index, extents, locate);
}
