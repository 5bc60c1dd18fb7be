//===- Pooling.cpp -------------------------------------------------------===//
//
// Windows over spatial dimensions, and resampling. All that is known about these ops stands here:
// verification, folding, sharding rules, emission (but that of a resized element: Resampling.cpp).
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/Reduction/Accumulate.h"
#include "dialects/Colossal/Verification.h"
#include "dialects/Colossal/Window.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

LogicalResult PoolOp::verify() {
  if (failed(verifyTensors(*this)))
    return failure();
  ArrayRef<int64_t> input = shapeOf(getInput());
  if (input.size() < 3)
    return emitOpError() << "needs a spatial dimension, but the input is " << getInput().getType() << " (C1)";
  unsigned spatial = input.size() - 2;
  if (failed(verifyRank(*this, getResult(), input.size(), "result", "C1")) ||
      failed(verifyCount(*this, getKernel().size(), spatial, "kernel", "C1")) ||
      failed(verifyCount(*this, getStrides().size(), spatial, "strides", "C1")) ||
      failed(verifyCount(*this, getDilations().size(), spatial, "dilations", "C1")) ||
      failed(verifyCount(*this, getPads().size(), 2 * spatial, "pads", "C1")))
    return failure();
  auto isPositive = [](int64_t x) { return x > 0; };
  if (!llvm::all_of(getKernel(), isPositive) || !llvm::all_of(getStrides(), isPositive) ||
      !llvm::all_of(getDilations(), isPositive))
    return emitOpError("kernel, strides and dilations must be positive (C1)");
  if (input.take_front(2) != shapeOf(getResult()).take_front(2))
    return emitOpError() << "changes batch or channels: " << getInput().getType() << " to "
                         << getResult().getType() << " (C2)";
  if (getIndices()) {
    if (getKind() != PoolKind::Max)
      return emitOpError() << stringifyPoolKind(getKind()) << " pooling has no indices (C3)";
    if (failed(verifyIndices(*this, getIndices(), "C3")) ||
        failed(verifyShape(*this, getIndices(), shapeOf(getResult()), "indices", "C3")))
      return failure();
  }
  if (getKind() != PoolKind::Max && failed(verifyFloats(*this, getInput(), "C4")))
    return failure();
  return verifySameElements(*this, getInput(), getResult(), "C4");
}

LogicalResult ResizeOp::verify() {
  if (failed(verifyTensors(*this)))
    return failure();
  size_t rank = shapeOf(getInput()).size();
  if (failed(verifyRank(*this, getResult(), rank, "result", "C1")) ||
      failed(verifyCount(*this, getScales().size(), rank, "scales", "C1")) ||
      (getRoi() && failed(verifyCount(*this, getRoi()->size(), 2 * rank, "roi", "C1"))) ||
      failed(verifySameElements(*this, getInput(), getResult(), "C1")))
    return failure();
  for (double scale : getScales())
    if (!(scale > 0) || std::isinf(scale))
      return emitOpError() << "scales must be positive, but one is " << scale << " (C1)";
  auto verifyName = [&](StringRef what, StringRef value, ArrayRef<StringRef> names) -> LogicalResult {
    if (!llvm::is_contained(names, value))
      return emitOpError() << what << " must be one of " << llvm::join(names, ", ") << ", but is " << value
                           << " (C2)";
    return success();
  };
  if (failed(verifyName("mode", getMode(), {"nearest", "linear", "cubic"})) ||
      failed(verifyName("coordinates", getCoordinates(),
                        {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                         "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"})))
    return failure();
  return verifyName("nearest", getNearest(), {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
}

LogicalResult RoiMaxPoolOp::verify() {
  if (failed(verifyTensors(*this)) || failed(verifyRank(*this, getInput(), 4, "input", "C1")) ||
      failed(verifyRank(*this, getRois(), 2, "rois", "C1")) ||
      failed(verifyRank(*this, getResult(), 4, "result", "C1")))
    return failure();
  ArrayRef<int64_t> input = shapeOf(getInput()), result = shapeOf(getResult());
  int64_t regions = shapeOf(getRois())[0];
  if (failed(verifyShape(*this, getRois(), {regions, 5}, "rois", "C1")))
    return failure();
  if (input[0] == 0 || input[2] == 0 || input[3] == 0)
    return emitOpError() << "has no image to read in " << getInput().getType() << " (C1)";
  if (failed(verifyShape(*this, getResult(), {regions, input[1], result[2], result[3]}, "result", "C2")) ||
      failed(verifyFloats(*this, getInput(), "C3")) ||
      failed(verifySameElements(*this, getInput(), getRois(), "C3")))
    return failure();
  return verifySameElements(*this, getInput(), getResult(), "C3");
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

FactorRule PoolOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> input = getShape(getInput()), result = getShape(getResult());
  rule.add(input[0], FactorKind::Parallel, "batch");
  rule.add(input[1], FactorKind::Parallel, "channels");
  TensorFactors inputDims = {{0}, {1}}, resultDims = {{0}, {1}};
  unsigned rank = input.size() - 2;
  static constexpr StringLiteral names[3][3] = {
      {"width", "", ""}, {"height", "width", ""}, {"depth", "height", "width"}};
  // A shard of a spatial dimension sees its padding as elements. That is right for maxima (-inf), for sums of
  // powers (0), and for averages that count it; flat indices of maxima are of the whole input and stay whole.
  for (unsigned d = 0; d < rank; ++d) {
    int64_t low = getPads()[d], high = getPads()[rank + d];
    int64_t window = getDilations()[d] * (getKernel()[d] - 1) + 1;
    int64_t last =
        (result[2 + d] - 1) * getStrides()[d] + window; // end of the last window, in padded elements
    bool isPadded = low > 0 || last > low + input[2 + d];
    bool fits = last <= low + input[2 + d] + high;
    bool isWhole = getIndices() || rank > 3 ||
                   (getKind() == PoolKind::Average && isPadded && !(getCountIncludePad() && fits));
    if (isWhole) {
      inputDims.push_back({rule.add(input[2 + d], FactorKind::Whole)});
      resultDims.push_back({rule.add(result[2 + d], FactorKind::Whole)});
      continue;
    }
    unsigned factorIndex = rule.add(result[2 + d], FactorKind::Parallel, names[rank - 1][d]);
    Factor &factor = rule.factors[factorIndex];
    factor.refinable = false;
    factor.operandSize = input[2 + d];
    factor.stride = getStrides()[d];
    factor.padLow = low;
    factor.window = window;
    factor.windowFill = getKind() == PoolKind::Max ? -std::numeric_limits<double>::infinity() : 0.0;
    inputDims.push_back({factorIndex});
    resultDims.push_back({factorIndex});
  }
  rule.operands.push_back(inputDims);
  rule.results.assign(getNumResults(), resultDims);
  return rule;
}

FailureOr<SmallVector<Value>> PoolOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  FailureOr<SmallVector<Value>> results = cloneWithLocalTypes(*this, builder, context);
  SmallVector<int64_t> pads(getPads());
  const FactorRule &rule = context.rule();
  unsigned rank = pads.size() / 2;
  for (unsigned d = 0; d < rank; ++d)
    if (context.isSplit(rule.operands[0][2 + d].front())) // the exchange has brought the padding as well
      pads[d] = pads[rank + d] = 0;
  cast<PoolOp>(results->front().getDefiningOp()).setPads(pads);
  return results;
}

double PoolOp::getFlops() {
  double flops = cast<RankedTensorType>(getResult().getType()).getNumElements();
  for (int64_t size : getKernel())
    flops *= size;
  return flops;
}

FactorRule ResizeOp::getFactorRule() {
  FactorRule rule;
  TensorFactors input, result;
  for (auto [d, size] : llvm::enumerate(getShape(getInput()))) {
    int64_t resized = getShape(getResult())[d];
    bool isCropped =
        getRoi() && ((*getRoi())[d] != 0.0 || (*getRoi())[getShape(getInput()).size() + d] != 1.0);
    bool isKept = size == resized && getScales()[d] == 1.0 && !isCropped;
    input.push_back({rule.add(size, isKept ? FactorKind::Parallel : FactorKind::Whole)});
    result.push_back({isKept ? input.back().front() : rule.add(resized, FactorKind::Whole)});
  }
  rule.operands.push_back(input);
  rule.results.push_back(result);
  return rule;
}

// Which rows and columns of which image a region reads is data: only channels and regions are independent.
FactorRule RoiMaxPoolOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> input = getShape(getInput()), result = getShape(getResult());
  unsigned images = rule.add(input[0], FactorKind::Whole);
  unsigned channels = rule.add(input[1], FactorKind::Parallel, "channels");
  unsigned height = rule.add(input[2], FactorKind::Whole), width = rule.add(input[3], FactorKind::Whole);
  unsigned regions = rule.add(result[0], FactorKind::Parallel, "regions");
  unsigned columns = rule.add(getShape(getRois())[1], FactorKind::Whole);
  unsigned binsHigh = rule.add(result[2], FactorKind::Whole),
           binsWide = rule.add(result[3], FactorKind::Whole);
  rule.operands = {{{images}, {channels}, {height}, {width}}, {{regions}, {columns}}};
  rule.results.push_back({{regions}, {channels}, {binsHigh}, {binsWide}});
  return rule;
}

/// Every element looks at its whole channel of the image.
double RoiMaxPoolOp::getFlops() {
  ArrayRef<int64_t> input = getShape(getInput());
  return countResultElements(*this) * input[2] * input[3];
}

/// Of an average each element of a window gets its part, whatever the elements are.
bool PoolOp::isOperandSaved(unsigned operand) {
  return getKind() != PoolKind::Average;
}

/// The gradient goes to each maximum; regions are not trained.
double RoiMaxPoolOp::getGradientFlops(unsigned operand) {
  return operand == 0 ? countGradientElements(*this, 0) : 0;
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

bool PoolOp::isElementCostly() {
  return true;
}
bool ResizeOp::isElementCostly() {
  return true;
}
bool RoiMaxPoolOp::isElementCostly() {
  return true;
}

/// Input index under a tap of the window of the result element at `index`, and whether it lies in the input
/// or in `lowPadding` and `highPadding` times the padding around it.
static std::pair<SmallVector<Lane>, Value> locateTap(PoolOp op, ElementEmitter &emitter, ArrayRef<Lane> index,
                                                     ArrayRef<Value> counters, int64_t lowPadding,
                                                     int64_t highPadding) {
  ArrayRef<int64_t> input = shapeOf(op.getInput()), pads = op.getPads();
  unsigned spatial = counters.size();
  Type boolean = emitter.builder().getI1Type();
  SmallVector<Lane> at{index[0], index[1]};
  Value inside;
  for (unsigned d = 0; d < spatial; ++d) {
    Lane window = emitter.mul(emitter.uniform(counters[d]), op.getDilations()[d]);
    Lane pad = emitter.constant(-pads[d]);
    at.push_back(emitter.add(emitter.add(emitter.mul(index[d + 2], op.getStrides()[d]), window), pad));
    Element here(
        emitter,
        emitter.inRange(at.back(), -lowPadding * pads[d], input[d + 2] + highPadding * pads[d + spatial]),
        boolean);
    inside = inside ? (Element(emitter, inside, boolean) & here).get() : here.get();
  }
  return {at, inside};
}

/// The greatest element of a window (`result` 0), or where it stands (1).
static Value emitMaximum(PoolOp op, ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  ArrayRef<int64_t> input = shapeOf(op.getInput()), kernel = op.getKernel();
  unsigned spatial = kernel.size();
  Type type = elementTypeOf(op.getInput()), inner = computeType(type);
  Type i64 = emitter.builder().getI64Type(), boolean = emitter.builder().getI1Type();
  auto carried = [&](Value value) { return carriedLike(emitter, value, index); };
  // 16-bit floats are compared as f32: not every target has code for comparing them as they are.
  Value lowest = carried(emitter.scalar(type, lowestOf(type)));
  Value least = carried(Element(emitter, lowest, type).to(inner).get());
  Value nowhere = carried(emitter.scalar(i64, -1));
  auto values = overWindow(emitter, kernel, {least, nowhere}, [&](ArrayRef<Value> counters, ValueRange acc) {
    auto [at, inside] = locateTap(op, emitter, index, counters, 0, 0);
    Element best(emitter, acc[0], inner), place(emitter, acc[1], i64), here(emitter, inside, boolean);
    Element x = Element(emitter, emitter.load(op.getInput(), at, inside, lowest), type).to(inner);
    if (result == 0)
      return SmallVector<Value>{carried(best.max(x).get()), acc[1]};
    Lane linear = emitter.add(emitter.mul(index[0], input[1]), index[1]);
    for (unsigned i = 0; i < spatial; ++i) {
      unsigned d = op.getColumnMajor() ? spatial - 1 - i : i;
      linear = emitter.add(emitter.mul(linear, input[d + 2]), at[d + 2]);
    }
    Element flat(emitter, emitter.toValue(linear, i64), i64);
    Element isFirst = place == place.like(-1), better = here & ((best < x) | isFirst);
    return SmallVector<Value>{carried(better.select(x, best).get()),
                              carried(better.select(flat, place).get())};
  });
  if (result == 0)
    return Element(emitter, values[0], inner).to(type).get();
  return Element(emitter, values[1], i64).to(elementTypeOf(op.getIndices())).get();
}

/// The average of a window, or its norm.
static Value emitSum(PoolOp op, ElementEmitter &emitter, ArrayRef<Lane> index) {
  Type type = elementTypeOf(op.getInput()), inner = computeType(type);
  Type boolean = emitter.builder().getI1Type();
  auto carried = [&](Value value) { return carriedLike(emitter, value, index); };
  bool average = op.getKind() == PoolKind::Average;
  Value zero = carried(emitter.scalar(inner, 0));
  auto values =
      overWindow(emitter, op.getKernel(), {zero, zero}, [&](ArrayRef<Value> counters, ValueRange acc) {
        auto [at, inside] = locateTap(op, emitter, index, counters, 0, 0);
        Element sum(emitter, acc[0], inner), count(emitter, acc[1], inner), here(emitter, inside, boolean);
        Element x = Element(emitter, emitter.load(op.getInput(), at, inside), type).to(inner);
        if (!average) {
          x = x.abs();
          Element power = x;
          if (op.getP() == 2)
            power = x * x;
          else if (op.getP() != 1) {
            Value values[] = {x.get(), x.like(op.getP()).get()};
            emitter.unify(values);
            power = Element(emitter, emitter.pow(values[0], values[1]), inner);
          }
          x = here.select(power, x.like(0));
        }
        Element counts = here;
        if (op.getCountIncludePad())
          counts = Element(emitter, locateTap(op, emitter, index, counters, 1, 1).second, boolean);
        return SmallVector<Value>{carried((sum + x).get()), carried((count + counts.to(inner)).get())};
      });
  Element sum(emitter, values[0], inner), count(emitter, values[1], inner);
  if (average)
    return (sum / count.max(count.like(1))).to(type).get();
  if (op.getP() == 1)
    return sum.to(type).get();
  if (op.getP() == 2)
    return sum.apply(MathFunction::Sqrt).to(type).get();
  Value root[] = {sum.get(), sum.like(1.0 / op.getP()).get()};
  emitter.unify(root);
  return Element(emitter, emitter.pow(root[0], root[1]), inner).to(type).get();
}

Value PoolOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  return getKind() == PoolKind::Max ? emitMaximum(*this, emitter, result, index)
                                    : emitSum(*this, emitter, index);
}

static Element floorOf(Element x) {
  return x.apply(MathFunction::Floor);
}

Value RoiMaxPoolOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  Type type = elementTypeOf(getInput()), real = computeType(type), i64 = emitter.builder().getI64Type();
  ArrayRef<int64_t> input = shapeOf(getInput()), bins = shapeOf(getResult()).drop_front(2);
  auto ofRegion = [&](int64_t column) {
    Value loaded = emitter.load(getRois(), {index[0], emitter.constant(column)});
    return Element(emitter, loaded, type).to(real);
  };
  auto corner = [&](int64_t column) {
    Element x = ofRegion(column);
    x = x * x.like(getScale().convertToDouble());
    Element half = x.like(0.5), size = floorOf(x.abs() + half);
    return (x < x.like(0)).select(-size, size);
  };
  // Bins stay real numbers: comparisons with NaN are false, and a huge corner overflows no index.
  auto binOf = [&](unsigned d) {
    Element start = corner(2 - d), one = start.like(1), extent = corner(4 - d) - start + one;
    Element count = extent.like(double(bins[d])), step = extent.max(extent.like(1)) / count;
    Element bin = Element(emitter, emitter.toValue(index[2 + d], i64), i64).to(real);
    Element first = floorOf(bin * step) + start;
    Element end = ((bin + bin.like(1)) * step).apply(MathFunction::Ceil) + start;
    end = end.min(end.like(double(input[2 + d])));
    return std::make_pair(first.max(first.like(0)), end);
  };
  auto rows = binOf(0), columns = binOf(1);
  Element image = ofRegion(0).to(i64);
  Lane at = emitter.fromValue(image.max(image.like(0)).min(image.like(double(input[0] - 1))).get());
  auto carried = [&](Value value) { return carriedLike(emitter, value, index); };
  Value lowest = carried(emitter.scalar(real, lowestOf(real)));
  auto values =
      overWindow(emitter, input.drop_front(2), {lowest}, [&](ArrayRef<Value> counters, ValueRange acc) {
        Element row = Element(emitter, counters[0], i64).to(real),
                column = Element(emitter, counters[1], i64).to(real);
        Element beforeLast = column < columns.second, fromFirst = columns.first <= column,
                inRows = row < rows.second;
        Element inside = (rows.first <= row) & inRows & fromFirst & beforeLast;
        Lane place[] = {at, index[1], emitter.uniform(counters[0]), emitter.uniform(counters[1])};
        Element best(emitter, acc[0], real);
        Element x = Element(emitter, emitter.load(getInput(), place), type).to(real);
        return SmallVector<Value>{carried(inside.select(best.max(x), best).get())};
      });
  Element best(emitter, values[0], real);
  Element hasColumns = columns.first < columns.second;
  Element isFilled = (rows.first < rows.second) & hasColumns;
  return isFilled.select(best, best.like(0)).to(type).get();
}
