//===- PoolGradient.cpp -----------------------------------------------------===//
//
// The gradient of max and average pools: windows pass on what they got. A max pool's are looked at once, by
// pool_taps, and not by each of the elements that lie in them. All that is known about these ops stands here,
// but their own gradients.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/Reduction/Accumulate.h"
#include "dialects/Colossal/Verification.h"
#include "dialects/Colossal/Window.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

/// Attributes of windows over `spatial` dimensions.
template <typename Op>
static LogicalResult verifyWindows(Op op, size_t spatial, StringRef constraint) {
  if (failed(verifyCount(op, op.getKernel().size(), spatial, "kernel", constraint)) ||
      failed(verifyCount(op, op.getStrides().size(), spatial, "strides", constraint)) ||
      failed(verifyCount(op, op.getDilations().size(), spatial, "dilations", constraint)) ||
      failed(verifyCount(op, op.getPads().size(), 2 * spatial, "pads", constraint)))
    return failure();
  auto isPositive = [](int64_t x) { return x > 0; };
  if (!llvm::all_of(op.getKernel(), isPositive) || !llvm::all_of(op.getStrides(), isPositive) ||
      !llvm::all_of(op.getDilations(), isPositive))
    return op.emitOpError("kernel, strides and dilations must be positive (") << constraint << ")";
  return success();
}

LogicalResult PoolTapsOp::verify() {
  if (failed(verifyTensors(*this)))
    return failure();
  ArrayRef<int64_t> input = shapeOf(getInput());
  if (input.size() < 3)
    return emitOpError() << "needs a spatial dimension, but the input is " << getInput().getType() << " (C1)";
  if (failed(verifyWindows(*this, input.size() - 2, "C1")) ||
      failed(verifyRank(*this, getResult(), input.size(), "result", "C2")))
    return failure();
  if (shapeOf(getResult()).take_front(2) != input.take_front(2))
    return emitOpError() << "changes batch or channels: " << getInput().getType() << " to " << getType()
                         << " (C2)";
  if (failed(verifyFloats(*this, getInput(), "C2")))
    return failure();
  return verifyIndices(*this, getResult(), "C2");
}

LogicalResult PoolGradientOp::verify() {
  ArrayRef<int64_t> result = shapeOf(getResult());
  if (failed(verifyTensors(*this)))
    return failure();
  const bool isMax = getKind() == PoolKind::Max;
  if ((!isMax && getKind() != PoolKind::Average) || isMax != static_cast<bool>(getTaps()))
    return emitOpError() << stringifyPoolKind(getKind()) << (getTaps() ? " with" : " without")
                         << " taps is no pool that has a gradient of this kind (C1)";
  if (result.size() < 3)
    return emitOpError() << "needs a spatial dimension, but the result is " << getType() << " (C2)";
  if (failed(verifyWindows(*this, result.size() - 2, "C2")) ||
      failed(verifyRank(*this, getGradient(), result.size(), "gradient", "C3")))
    return failure();
  if (shapeOf(getGradient()).take_front(2) != result.take_front(2))
    return emitOpError() << "batch or channels differ: " << getGradient().getType() << " to " << getType()
                         << " (C3)";
  if (getTaps() && (failed(verifyIndices(*this, getTaps(), "C3")) ||
                    failed(verifyShape(*this, getTaps(), shapeOf(getGradient()), "taps", "C3"))))
    return failure();
  if (failed(verifyFloats(*this, getResult(), "C3")))
    return failure();
  return verifySameElements(*this, getGradient(), getResult(), "C3");
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

/// Of an image and its windows; all places of one are needed for each of the other.
static void addPlaces(FactorRule &rule, ArrayRef<int64_t> image, ArrayRef<int64_t> windows,
                      TensorFactors &ofImage, TensorFactors &ofWindows) {
  unsigned batch = rule.add(image[0], FactorKind::Parallel, "batch");
  unsigned channels = rule.add(image[1], FactorKind::Parallel, "channels");
  ofImage = ofWindows = {{batch}, {channels}};
  for (size_t d = 2; d < image.size(); ++d) {
    ofWindows.push_back({rule.add(windows[d], FactorKind::Whole)});
    ofImage.push_back({rule.add(image[d], FactorKind::Whole)});
  }
}

/// A step for each tap of each window.
static double countTaps(Value windows, ArrayRef<int64_t> kernel) {
  double taps = static_cast<double>(cast<RankedTensorType>(windows.getType()).getNumElements());
  for (int64_t size : kernel)
    taps *= static_cast<double>(size);
  return taps;
}

FactorRule PoolTapsOp::getFactorRule() {
  FactorRule rule;
  TensorFactors image, windows;
  addPlaces(rule, shapeOf(getInput()), shapeOf(getResult()), image, windows);
  rule.operands = {image};
  rule.results = {windows};
  return rule;
}

double PoolTapsOp::getFlops() {
  return countTaps(getResult(), getKernel());
}

FactorRule PoolGradientOp::getFactorRule() {
  FactorRule rule;
  TensorFactors image, windows;
  addPlaces(rule, shapeOf(getResult()), shapeOf(getGradient()), image, windows);
  rule.operands.assign(getTaps() ? 2 : 1, windows);
  rule.results = {image};
  rule.addCarried(0u);
  return rule;
}

double PoolGradientOp::getFlops() {
  return countTaps(getGradient(), getKernel());
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

namespace {
/// One window: the taps of the place `window` (spatial only).
template <typename Op>
class Window {
public:
  Window(Op op, ArrayRef<int64_t> image, ElementEmitter &emitter, ArrayRef<Lane> window)
      : op(op), image(image), emitter(emitter), window(window) {}

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
    Type boolean = emitter.builder().getI1Type();
    Element all(emitter, emitter.scalar(boolean, 1), boolean);
    for (unsigned d = 0; d < places.size(); ++d) {
      int64_t low = inPadding ? -op.getPads()[d] : 0;
      int64_t high = image[d] + (inPadding ? op.getPads()[places.size() + d] : 0);
      all = all & Element(emitter, emitter.inRange(places[d], low, high), boolean);
    }
    return all;
  }

private:
  Op op;
  ArrayRef<int64_t> image; ///< sizes, spatial only
  ElementEmitter &emitter;
  ArrayRef<Lane> window;
};
} // namespace

/// The places nearest to `places` in an image of these sizes.
static SmallVector<Lane> clamp(ElementEmitter &emitter, ArrayRef<Lane> places, ArrayRef<int64_t> sizes) {
  Type i64 = emitter.builder().getI64Type();
  SmallVector<Lane> lanes;
  for (auto [place, size] : llvm::zip_equal(places, sizes)) {
    Element x(emitter, emitter.toValue(place, i64), i64);
    lanes.push_back(emitter.fromValue(x.max(x.like(0)).min(x.like(static_cast<double>(size - 1))).get()));
  }
  return lanes;
}

/// The number of a tap of `kernel`, row-major.
static Element numberOf(ElementEmitter &emitter, ArrayRef<Lane> tap, ArrayRef<int64_t> kernel, Type type) {
  Lane linear = emitter.constant(0);
  for (auto [lane, size] : llvm::zip_equal(tap, kernel))
    linear = emitter.add(emitter.mul(linear, size), lane);
  return {emitter, emitter.toValue(linear, type), type};
}

Value PoolTapsOp::emitElement(ElementEmitter &emitter, unsigned, ArrayRef<Lane> index) {
  Type type = elementTypeOf(getInput()), inner = computeType(type), integer = elementTypeOf(getResult());
  ArrayRef<int64_t> image = shapeOf(getInput()).drop_front(2);
  ArrayRef<Lane> place = index.drop_front(2);
  Window window(*this, image, emitter, place);
  auto carried = [&](Value value) { return carriedLike(emitter, value, index); };
  const Value none = emitter.scalar(integer, -1);
  // The greatest so far, its tap, and the first tap inside, whose element may be as low as what is begun
  // with.
  SmallVector<Value> begin{carried(emitter.scalar(inner, lowestOf(inner))), carried(none), carried(none)};
  auto found = overWindow(emitter, getKernel(), begin, [&](ArrayRef<Value> counters, ValueRange acc) {
    SmallVector<Lane> at = window.at(counters), from(index.take_front(2)), tap;
    for (Value counter : counters)
      tap.push_back(emitter.uniform(counter));
    llvm::append_range(from, clamp(emitter, at, image));
    Element inside = window.isInside(at), number = numberOf(emitter, tap, getKernel(), integer);
    Element x = Element(emitter, emitter.load(getInput(), from), type).to(inner);
    Element best(emitter, acc[0], inner), taken(emitter, acc[1], integer), first(emitter, acc[2], integer);
    // Also where x is NaN.
    Element isGreater = inside & ((best < x) | (x != x));
    return SmallVector<Value>{carried(isGreater.select(x, best).get()),
                              carried(isGreater.select(number, taken).get()),
                              carried((inside & (first == first.like(-1))).select(number, first).get())};
  });
  Element taken(emitter, found[1], integer), first(emitter, found[2], integer);
  return (taken == taken.like(-1)).select(first, taken).get();
}

bool PoolTapsOp::isElementCostly() {
  return true;
}

/// The sum over the windows that an element may lie in: along a dimension the last that begins before it, and
/// those before that one which are long enough.
Value PoolGradientOp::emitElement(ElementEmitter &emitter, unsigned, ArrayRef<Lane> index) {
  Type type = elementTypeOf(getResult()), inner = computeType(type), boolean = emitter.builder().getI1Type();
  ArrayRef<int64_t> windows = shapeOf(getGradient()).drop_front(2),
                    image = shapeOf(getResult()).drop_front(2);
  auto carried = [&](Value value) { return carriedLike(emitter, value, index); };
  SmallVector<int64_t> counts;
  SmallVector<Lane> padded, last;
  for (auto [d, lane] : llvm::enumerate(index.drop_front(2))) {
    const int64_t reach = (getKernel()[d] - 1) * getDilations()[d] + 1, stride = getStrides()[d];
    counts.push_back(llvm::divideCeil(reach, stride));
    padded.push_back(emitter.add(lane, emitter.constant(getPads()[d])));
    last.push_back(emitter.floorDiv(padded[d], stride));
  }
  auto sum = overWindow(
      emitter, counts, carried(emitter.scalar(inner, 0)), [&](ArrayRef<Value> counters, ValueRange acc) {
        SmallVector<Lane> place, tap, from(index.take_front(2));
        Element isMine(emitter, emitter.scalar(boolean, 1), boolean);
        for (auto [d, counter] : llvm::enumerate(counters)) {
          place.push_back(emitter.add(last[d], emitter.mul(emitter.uniform(counter), -1)));
          isMine = isMine & Element(emitter, emitter.inRange(place[d], 0, windows[d]), boolean);
          Lane offset = emitter.add(padded[d], emitter.mul(place[d], -getStrides()[d]));
          const int64_t apart = getDilations()[d];
          tap.push_back(emitter.floorDiv(offset, apart));
          isMine = isMine & Element(emitter, emitter.inRange(tap[d], 0, getKernel()[d]), boolean) &
                   Element(emitter, emitter.inRange(emitter.mod(offset, apart), 0, 1), boolean);
        }
        llvm::append_range(from, clamp(emitter, place, windows));
        Element g = Element(emitter, emitter.load(getGradient(), from), type).to(inner);
        if (getTaps()) {
          Type integer = elementTypeOf(getTaps());
          Element taken(emitter, emitter.load(getTaps(), from), integer);
          isMine = isMine & (taken == numberOf(emitter, tap, getKernel(), integer));
        } else {
          Window window(*this, image, emitter, place);
          Value none = carried(emitter.scalar(inner, 0));
          auto count = overWindow(emitter, getKernel(), none, [&](ArrayRef<Value> taps, ValueRange before) {
            Element one = window.isInside(window.at(taps), getCountIncludePad()).to(inner);
            return SmallVector<Value>{carried((Element(emitter, before[0], inner) + one).get())};
          });
          Element total(emitter, count[0], inner);
          g = g / total.max(total.like(1));
        }
        Element old(emitter, acc[0], inner);
        return SmallVector<Value>{carried(isMine.select(old + g, old).get())};
      });
  return Element(emitter, sum[0], inner).to(type).get();
}

bool PoolGradientOp::isElementCostly() {
  return true;
}
