//===- Resampling.cpp - what an element of a resized tensor is made of ------===//
//
// A resized element samples its input at real coordinates. Along a dimension that is resized it is one
// element of the input (nearest), or the weighted sum of a few, the taps.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/Window.h"

#include <cmath>
#include <optional>

using namespace mlir;
using namespace colossal;

namespace {
/// Where along one dimension a resized element samples: an input coordinate. Computed in f32, as ONNX Runtime
/// does, so that ties fall to the same side; weights are f64.
struct Sampling {
  ElementEmitter &emitter;
  mutable ResizeOp op;
  unsigned d;

  int64_t in() const { return shapeOf(op.getInput())[d]; }
  int64_t out() const { return shapeOf(op.getResult())[d]; }
  double scale() const { return op.getScales()[d]; }
  double roi(bool end) const {
    if (!op.getRoi())
      return end ? 1.0 : 0.0;
    return (*op.getRoi())[d + (end ? shapeOf(op.getInput()).size() : 0)];
  }
  Element coordinate(Lane lane) const {
    Type i64 = emitter.builder().getI64Type(), f32 = emitter.builder().getF32Type();
    Element x = Element(emitter, emitter.toValue(lane, i64), i64).to(f32);
    StringRef mode = op.getCoordinates();
    if (mode == "asymmetric")
      return x / x.like(scale());
    if (mode == "pytorch_half_pixel" && out() <= 1)
      return x.like(0);
    if (mode == "align_corners") {
      if (out() == 1)
        return x.like(0);
      // The resized length counts before it is rounded down, as in ONNX's definition.
      Element length = x.like(scale() * double(in()) - 1);
      return x * x.like(double(in() - 1)) / length;
    }
    if (mode == "tf_crop_and_resize") {
      double last = double(in() - 1), start = roi(false) * last, end = roi(true) * last;
      if (out() == 1)
        return x.like(0.5 * (start + end));
      Element first = x.like(start), steps = x.like(double(out() - 1));
      return x * x.like(end - start) / steps + first;
    }
    Element by = x.like(scale()), half = (x + x.like(0.5)) / by;
    if (mode == "tf_half_pixel_for_nn")
      return half;
    if (mode == "half_pixel_symmetric") {
      float adjustment = float(out()) / (float(scale()) * float(in())), center = float(in()) / 2;
      half = half + x.like(center * (1 - adjustment));
    }
    return half - x.like(0.5);
  }
};

Element floorOf(Element x) {
  return x.apply(MathFunction::Floor);
}

/// Weight of the input element at signed distance `distance` (in input elements) from the sampled coordinate.
Element tapWeight(ResizeOp op, Element distance) {
  Element a = distance.abs(), one = a.like(1), zero = a.like(0);
  if (op.getMode() == "linear")
    return (one - a).max(zero);
  double c = op.getCubicCoeff().convertToDouble();
  Element c3 = a.like(c + 3), near = ((a.like(c + 2) * a - c3) * a) * a + one;
  Element c4 = a.like(4 * c), c8 = a.like(8 * c), c5 = a.like(5 * c);
  Element far = ((a.like(c) * a - c5) * a + c8) * a - c4;
  Element isNear = a <= one;
  return isNear.select(near, (a < a.like(2)).select(far, zero));
}

Element nearestOf(ResizeOp op, Element x) {
  StringRef mode = op.getNearest();
  if (mode == "floor")
    return floorOf(x);
  if (mode == "ceil")
    return x.apply(MathFunction::Ceil);
  if (mode == "round_prefer_ceil")
    return floorOf(x + x.like(0.5));
  return (x - x.like(0.5)).apply(MathFunction::Ceil); // round_prefer_floor
}

/// Along one dimension, the input elements that a resized element is the weighted sum of.
struct Taps {
  unsigned d;
  Element coordinate; ///< f64, where the dimension is sampled
  Element first;      ///< f64, the index of the first tap; it may lie outside
  int64_t count;
  double shrink; ///< below 1 where antialiasing samples a wider window, by how much
};

/// The code of one element.
class Resampling {
public:
  Resampling(ResizeOp op, ElementEmitter &emitter, ArrayRef<Lane> index)
      : op(op), emitter(emitter), index(index), input(shapeOf(op.getInput())), at(index),
        type(elementTypeOf(op.getInput())), i64(emitter.builder().getI64Type()),
        f64(emitter.builder().getF64Type()) {}

  Value emit();

private:
  /// Finds where each dimension is sampled.
  void locate();
  Taps tapsAt(unsigned d, double scale, Element x);
  /// The index of a tap, which may lie outside, and its weight before weights are made to sum to 1.
  std::pair<Element, Element> weigh(const Taps &along, Value counter);
  Element sumWeights(const Taps &along);
  Element sumTaps();
  Element extrapolated(Type of) {
    return {emitter, emitter.scalar(of, op.getExtrapolation().convertToDouble()), of};
  }
  Value carried(Value value) { return carriedLike(emitter, value, index); }

  ResizeOp op;
  ElementEmitter &emitter;
  ArrayRef<Lane> index;
  ArrayRef<int64_t> input;
  SmallVector<Lane> at; ///< the index that is read; along `taps`, of the tap that is being read
  std::optional<Element> outside;
  SmallVector<Taps> taps;
  Type type, i64, f64;
};

void Resampling::locate() {
  bool mayCrop = op.getCoordinates() == "tf_crop_and_resize";
  for (unsigned d = 0; d < input.size(); ++d) {
    Sampling sampling{emitter, op, d};
    bool crops = mayCrop && (sampling.roi(false) != 0.0 || sampling.roi(true) != 1.0);
    if (input[d] == sampling.out() && sampling.scale() == 1.0 && !crops)
      continue;
    Element x = sampling.coordinate(index[d]).to(f64);
    if (mayCrop) {
      Element isBeyond = x.like(double(input[d] - 1)) < x, out = (x < x.like(0)) | isBeyond;
      outside = outside ? *outside | out : out;
    }
    if (op.getMode() == "nearest") {
      Element place = nearestOf(op, x).max(x.like(0)).min(x.like(double(input[d] - 1)));
      at[d] = emitter.fromValue(place.to(i64).get());
    } else {
      taps.push_back(tapsAt(d, sampling.scale(), x));
    }
  }
}

Taps Resampling::tapsAt(unsigned d, double scale, Element x) {
  bool isLinear = op.getMode() == "linear";
  if (!op.getAntialias()) {
    Element moved = x.like(isLinear ? 0 : 1);
    return {d, x, floorOf(x) - moved, isLinear ? 2 : 4, 1.0};
  }
  // With antialiasing a shrinking dimension samples a window stretched by the scale.
  double shrink = scale < 1.0 ? scale : 1.0, radius = (isLinear ? 1.0 : 2.0) / shrink;
  Element moved = x.like(1);
  return {d, x, floorOf(x - x.like(radius)) + moved, static_cast<int64_t>(std::ceil(2 * radius)), shrink};
}

std::pair<Element, Element> Resampling::weigh(const Taps &along, Value counter) {
  Element tap = along.first + Element(emitter, counter, i64).to(f64);
  Element shrink = tap.like(along.shrink);
  Element weight = tapWeight(op, (tap - along.coordinate) * shrink);
  if (op.getExcludeOutside()) {
    Element isBelow = tap < tap.like(double(input[along.d])), inside = (tap.like(-1) < tap) & isBelow;
    weight = inside.select(weight, weight.like(0));
  }
  return {tap, weight};
}

Element Resampling::sumWeights(const Taps &along) {
  auto add = [&](Value counter, ValueRange sum) -> SmallVector<Value> {
    return {carried((Element(emitter, sum[0], f64) + weigh(along, counter).second).get())};
  };
  return {emitter, emitter.reduce(along.count, carried(emitter.scalar(f64, 0)), add)[0], f64};
}

Element Resampling::sumTaps() {
  SmallVector<Element> totals;
  if (op.getExcludeOutside() || op.getAntialias())
    for (const Taps &along : taps)
      totals.push_back(sumWeights(along));
  SmallVector<int64_t> counts;
  for (const Taps &along : taps)
    counts.push_back(along.count);
  auto add = [&](ArrayRef<Value> counters, ValueRange sum) {
    std::optional<Element> product;
    for (auto [i, along] : llvm::enumerate(taps)) {
      auto [tap, weight] = weigh(along, counters[i]);
      if (!totals.empty())
        weight = weight / totals[i];
      Element place = tap.max(tap.like(0)).min(tap.like(double(input[along.d] - 1)));
      at[along.d] = emitter.fromValue(place.to(i64).get());
      product = product ? *product * weight : weight;
    }
    Element x = Element(emitter, emitter.load(op.getInput(), at), type).to(f64);
    return SmallVector<Value>{carried((Element(emitter, sum[0], f64) + x * *product).get())};
  };
  return {emitter, overWindow(emitter, counts, carried(emitter.scalar(f64, 0)), add)[0], f64};
}

Value Resampling::emit() {
  locate();
  if (taps.empty()) {
    Element value(emitter, emitter.load(op.getInput(), at), type);
    return outside ? outside->select(extrapolated(type), value).get() : value.get();
  }
  Element value = sumTaps();
  if (outside)
    value = outside->select(extrapolated(f64), value);
  // Integers truncate what is exact to f32, and round after antialiasing, as ONNX Runtime does.
  if (!isa<FloatType>(type))
    value =
        op.getAntialias() ? value.apply(MathFunction::RoundEven) : value.to(emitter.builder().getF32Type());
  return value.to(type).get();
}
} // namespace

Value ResizeOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  return Resampling(*this, emitter, index).emit();
}
