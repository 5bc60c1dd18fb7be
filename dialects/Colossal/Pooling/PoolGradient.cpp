//===- PoolGradient.cpp -----------------------------------------------------===//
//
// The gradient of max and average pools: windows pass on what they got. All that is known about the op stands
// here, but its own gradient.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/Reduction/Accumulate.h"
#include "dialects/Colossal/Verification.h"
#include "dialects/Colossal/Window.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

LogicalResult PoolGradientOp::verify() {
  ArrayRef<int64_t> result = shapeOf(getResult());
  if (failed(verifyTensors(*this)))
    return failure();
  const bool isMax = getKind() == PoolKind::Max;
  if ((!isMax && getKind() != PoolKind::Average) || isMax != static_cast<bool>(getInput()))
    return emitOpError() << stringifyPoolKind(getKind()) << (getInput() ? " with" : " without")
                         << " the input is no pool that has a gradient of this kind (C1)";
  if (result.size() < 3)
    return emitOpError() << "needs a spatial dimension, but the result is " << getType() << " (C2)";
  const size_t spatial = result.size() - 2;
  if (failed(verifyCount(*this, getKernel().size(), spatial, "kernel", "C2")) ||
      failed(verifyCount(*this, getStrides().size(), spatial, "strides", "C2")) ||
      failed(verifyCount(*this, getDilations().size(), spatial, "dilations", "C2")) ||
      failed(verifyCount(*this, getPads().size(), 2 * spatial, "pads", "C2")))
    return failure();
  auto isPositive = [](int64_t x) { return x > 0; };
  if (!llvm::all_of(getKernel(), isPositive) || !llvm::all_of(getStrides(), isPositive) ||
      !llvm::all_of(getDilations(), isPositive))
    return emitOpError("kernel, strides and dilations must be positive (C2)");
  if (failed(verifyRank(*this, getGradient(), result.size(), "gradient", "C3")))
    return failure();
  if (shapeOf(getGradient()).take_front(2) != result.take_front(2) ||
      (getInput() && getInput().getType() != getType()))
    return emitOpError() << "batch or channels differ: " << getGradient().getType() << " to " << getType()
                         << " (C3)";
  if (failed(verifyFloats(*this, getResult(), "C3")))
    return failure();
  return verifySameElements(*this, getGradient(), getResult(), "C3");
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

FactorRule PoolGradientOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> windows = shapeOf(getGradient()), result = shapeOf(getResult());
  unsigned batch = rule.add(result[0], FactorKind::Parallel, "batch");
  unsigned channels = rule.add(result[1], FactorKind::Parallel, "channels");
  TensorFactors from = {{batch}, {channels}}, to = from;
  for (size_t d = 2; d < result.size(); ++d) {
    from.push_back({rule.add(windows[d], FactorKind::Whole)});
    to.push_back({rule.add(result[d], FactorKind::Whole)});
  }
  rule.operands.push_back(from);
  if (getInput())
    rule.operands.push_back(to);
  rule.results.push_back(to);
  rule.addCarried(0u);
  return rule;
}

double PoolGradientOp::getFlops() {
  double flops = static_cast<double>(cast<RankedTensorType>(getGradient().getType()).getNumElements());
  for (int64_t size : getKernel())
    flops *= static_cast<double>(size);
  return flops;
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

namespace {
/// One window: the taps of the place `window` (spatial only) in the plane of `plane` (batch and channel).
class Window {
public:
  Window(PoolGradientOp op, ElementEmitter &emitter, ArrayRef<Lane> plane, ArrayRef<Lane> window)
      : op(op), emitter(emitter), i64(emitter.builder().getI64Type()), plane(plane), window(window) {}

  /// The spatial index under a tap.
  SmallVector<Lane> at(ArrayRef<Value> counters) {
    SmallVector<Lane> places;
    for (unsigned d = 0; d < counters.size(); ++d) {
      Lane tap = emitter.mul(emitter.uniform(counters[d]), op.getDilations()[d]);
      Lane first =
          emitter.add(emitter.mul(window[d], op.getStrides()[d]), emitter.constant(-op.getPads()[d]));
      places.push_back(emitter.add(first, tap));
    }
    return places;
  }
  /// Whether that lies in the input, or in its padding as well.
  Element isInside(ArrayRef<Lane> places, bool inPadding = false) {
    ArrayRef<int64_t> shape = shapeOf(op.getResult()).drop_front(2);
    Type boolean = emitter.builder().getI1Type();
    Element all(emitter, emitter.scalar(boolean, 1), boolean);
    for (unsigned d = 0; d < places.size(); ++d) {
      int64_t low = inPadding ? -op.getPads()[d] : 0;
      int64_t high = shape[d] + (inPadding ? op.getPads()[places.size() + d] : 0);
      all = all & Element(emitter, emitter.inRange(places[d], low, high), boolean);
    }
    return all;
  }
  Element number(int64_t value) { return {emitter, emitter.scalar(i64, static_cast<double>(value)), i64}; }
  /// Row-major in the plane.
  Element numberOf(ArrayRef<Lane> places) {
    ArrayRef<int64_t> shape = shapeOf(op.getResult()).drop_front(2);
    Lane linear = emitter.constant(0);
    for (unsigned d = 0; d < places.size(); ++d)
      linear = emitter.add(emitter.mul(linear, shape[d]), places[d]);
    return {emitter, emitter.toValue(linear, i64), i64};
  }
  /// Whether the element with the number `own`, `x`, is one of the window, the greatest, and the first of
  /// equal ones; NaN is greater than all numbers and of several the last.
  Element isGreatest(Element x, Element own, ArrayRef<Lane> like) {
    Type type = elementTypeOf(op.getResult()), boolean = emitter.builder().getI1Type();
    auto carried = [&](Value value) { return carriedLike(emitter, value, like); };
    Element isNumber = x == x;
    Value no = carried(emitter.scalar(boolean, 0));
    auto found = overWindow(emitter, op.getKernel(), {no, no}, [&](ArrayRef<Value> counters, ValueRange acc) {
      SmallVector<Lane> places = at(counters), index(plane);
      Element inside = isInside(places), number = numberOf(places);
      llvm::append_range(index, clamped(places));
      Element y = Element(emitter, emitter.load(op.getInput(), index), type).to(x.elementType());
      Element isNaN = y != y;
      Element before = (number < own) & ((x <= y) | (isNaN & isNumber)),
              behind = (own < number) & ((x < y) | isNaN);
      Element met(emitter, acc[0], boolean), beaten(emitter, acc[1], boolean);
      return SmallVector<Value>{carried((met | (inside & (number == own))).get()),
                                carried((beaten | (inside & (before | behind))).get())};
    });
    return Element(emitter, found[0], boolean) & !Element(emitter, found[1], boolean);
  }
  /// How many elements the average counts, at least 1.
  Element countElements(ArrayRef<Lane> like) {
    Type inner = computeType(elementTypeOf(op.getResult()));
    auto carried = [&](Value value) { return carriedLike(emitter, value, like); };
    Value zero = carried(emitter.scalar(inner, 0));
    auto count = overWindow(emitter, op.getKernel(), {zero}, [&](ArrayRef<Value> counters, ValueRange acc) {
      Element one = isInside(at(counters), op.getCountIncludePad()).to(inner);
      return SmallVector<Value>{carried((Element(emitter, acc[0], inner) + one).get())};
    });
    Element total(emitter, count[0], inner);
    return total.max(total.like(1));
  }

private:
  SmallVector<Lane> clamped(ArrayRef<Lane> places) {
    SmallVector<Lane> lanes;
    for (auto [place, size] : llvm::zip_equal(places, shapeOf(op.getResult()).drop_front(2))) {
      Element x(emitter, emitter.toValue(place, i64), i64), least = x.like(0);
      lanes.push_back(emitter.fromValue(x.max(least).min(x.like(static_cast<double>(size - 1))).get()));
    }
    return lanes;
  }

  PoolGradientOp op;
  ElementEmitter &emitter;
  Type i64;
  ArrayRef<Lane> plane, window;
};
} // namespace

/// The sum over the windows that an element may lie in: along a dimension the last that begins before it, and
/// those before that one which are long enough.
Value PoolGradientOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  Type type = elementTypeOf(getResult()), inner = computeType(type), i64 = emitter.builder().getI64Type();
  ArrayRef<int64_t> windows = shapeOf(getGradient()).drop_front(2);
  ArrayRef<Lane> plane = index.take_front(2), own = index.drop_front(2);
  auto carried = [&](Value value) { return carriedLike(emitter, value, index); };
  SmallVector<int64_t> counts;
  SmallVector<Lane> last;
  for (auto [d, lane] : llvm::enumerate(own)) {
    const int64_t reach = (getKernel()[d] - 1) * getDilations()[d] + 1, stride = getStrides()[d];
    counts.push_back(llvm::divideCeil(reach, stride));
    last.push_back(emitter.floorDiv(emitter.add(lane, emitter.constant(getPads()[d])), stride));
  }
  auto sum = overWindow(
      emitter, counts, carried(emitter.scalar(inner, 0)), [&](ArrayRef<Value> counters, ValueRange acc) {
        SmallVector<Lane> place, from(plane);
        Type boolean = emitter.builder().getI1Type();
        Element isWindow(emitter, emitter.scalar(boolean, 1), boolean);
        for (auto [d, counter] : llvm::enumerate(counters)) {
          Lane at = emitter.add(last[d], emitter.mul(emitter.uniform(counter), -1));
          isWindow = isWindow & Element(emitter, emitter.inRange(at, 0, windows[d]), boolean);
          Element x(emitter, emitter.toValue(at, i64), i64);
          place.push_back(
              emitter.fromValue(x.max(x.like(0)).min(x.like(static_cast<double>(windows[d] - 1))).get()));
        }
        llvm::append_range(from, place);
        Window window(*this, emitter, plane, place);
        Element g = Element(emitter, emitter.load(getGradient(), from), type).to(inner);
        Element old(emitter, acc[0], inner), mine = window.numberOf(own);
        if (getKind() == PoolKind::Max) {
          Element x = Element(emitter, emitter.load(getInput(), index), type).to(inner);
          Element isMine = isWindow & window.isGreatest(x, mine, index);
          return SmallVector<Value>{carried(isMine.select(old + g, old).get())};
        }
        // How often the window's taps meet this element: once at most.
        Element share = g / window.countElements(index);
        auto met =
            overWindow(emitter, getKernel(), carried(window.number(0).get()),
                       [&](ArrayRef<Value> taps, ValueRange seen) {
                         SmallVector<Lane> at = window.at(taps);
                         Element here = window.isInside(at);
                         Element isMine = here & (window.numberOf(at) == mine);
                         Element before(emitter, seen[0], window.number(0).elementType());
                         return SmallVector<Value>{carried(isMine.select(before.like(1), before).get())};
                       });
        Element isMet(emitter, met[0], window.number(0).elementType());
        isMet = isWindow & (isMet == isMet.like(1));
        return SmallVector<Value>{carried(isMet.select(old + share, old).get())};
      });
  return Element(emitter, sum[0], inner).to(type).get();
}

bool PoolGradientOp::isElementCostly() {
  return true;
}
