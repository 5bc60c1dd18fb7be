//===- ConvolutionGradient.cpp ----------------------------------------------===//
//
// The gradient of a transposed convolution's input is a convolution, and so are the others: that of the
// weight with batch and channels exchanged, where the result's gradient slides as a filter over the input,
// strides and dilations exchanged too; that of a convolution's input with the weight's taps in reverse.
// There, the places at each distance from a multiple of the stride see taps of their own: one convolution for
// each, without a product by zero.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Convolution/TransposedConvolution.h"
#include "dialects/Colossal/GradientBuilder.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace colossal;

namespace {
/// A convolution or its transpose, seen as a convolution of `large` to `small`.
struct Geometry {
  ArrayRef<int64_t> strides, dilations, pads;
  int64_t group;

  unsigned rank() const { return strides.size(); }
  /// Low pads, and the least high ones with which windows of `taps` positions, `apart` elements from one
  /// another, that begin at `count` places, `step` apart, lie in a dimension of `size` elements.
  SmallVector<int64_t> padsFor(ArrayRef<int64_t> size, ArrayRef<int64_t> count, ArrayRef<int64_t> step,
                               ArrayRef<int64_t> taps, ArrayRef<int64_t> apart) const {
    SmallVector<int64_t> all(pads.take_front(rank()));
    for (unsigned d = 0; d < rank(); ++d) {
      int64_t end = (count[d] - 1) * step[d] + (taps[d] - 1) * apart[d] + 1;
      all.push_back(std::max<int64_t>(0, end - pads[d] - size[d]));
    }
    return all;
  }
  /// One tap, so that the channels of each place are a product of their own.
  bool isPointwise(ArrayRef<int64_t> kernel) const {
    return group == 1 && llvm::all_of(kernel, [](int64_t size) { return size == 1; }) &&
           llvm::all_of(pads, [](int64_t size) { return size == 0; });
  }
};

template <typename Op>
Geometry geometryOf(Op op) {
  return {op.getStrides(), op.getDilations(), op.getPads(), static_cast<int64_t>(op.getGroup())};
}
} // namespace

/// Labels of a tensor N x C x spatial whose channels are labelled `channels`.
static SmallVector<int64_t> labelsOf(unsigned rank, int64_t channels) {
  SmallVector<int64_t> labels{0, channels};
  for (unsigned d = 0; d < rank; ++d)
    labels.push_back(3 + d);
  return labels;
}

/// Sums over n and places of small[n, o, place] * large[n, c, place * stride + tap * dilation - pad], O x
/// (C / group) x kernel, of the shape `weight`.
static Value buildWeightGradient(OpComposer &ops, const Geometry &geometry, Value large, Value small,
                                 ArrayRef<int64_t> weight) {
  const int64_t group = geometry.group, batch = shapeOf(large)[0], perGroup = weight[1];
  const unsigned rank = geometry.rank();
  Type element = elementTypeOf(large);
  if (geometry.isPointwise(weight.drop_front(2))) {
    for (unsigned d = 0; d < rank; ++d)
      large = ops.slice(large, 2 + d, 0, shapeOf(small)[2 + d], geometry.strides[d]);
    return ops.reshape(ops.contract(small, labelsOf(rank, 1), large, labelsOf(rank, 2), {1, 2}, element),
                       weight);
  }
  SmallVector<int64_t> grouped{batch, group, perGroup}, turned{2, 1, 0}, flat{perGroup, group * batch},
      exchanged{1, 0};
  for (unsigned d = 0; d < rank; ++d) {
    grouped.push_back(shapeOf(large)[2 + d]);
    turned.push_back(3 + d);
    flat.push_back(shapeOf(large)[2 + d]);
    exchanged.push_back(2 + d);
  }
  Value image = ops.reshape(ops.transpose(ops.reshape(large, grouped), turned), flat);
  Value filter = ops.transpose(small, exchanged);
  ArrayRef<int64_t> kernel = weight.drop_front(2);
  SmallVector<int64_t> pads = geometry.padsFor(shapeOf(large).drop_front(2), kernel, geometry.dilations,
                                               shapeOf(small).drop_front(2), geometry.strides);
  SmallVector<int64_t> shape{perGroup, weight[0]};
  llvm::append_range(shape, kernel);
  Value sums = ConvOp::create(ops.builder, ops.loc, RankedTensorType::get(shape, element), image, filter,
                              Value(), geometry.dilations, geometry.strides, pads, group);
  return ops.transpose(sums, exchanged);
}

/// Convolutions that the gradient of one convolution's input may be put together of.
static constexpr int64_t kMaxPhases = 64;

namespace {
/// Along one dimension, the input's places at distance r from a multiple of the stride: place stride * q + r
/// is read by tap first + apart * j of the window at q + start + dilation * (taps - 1 - j).
struct Phase {
  int64_t first = 0, apart = 1, taps = 0, start = 0, dilation = 1;

  Phase(int64_t r, int64_t stride, int64_t window, int64_t pad, int64_t kernel) {
    const int64_t common = std::gcd(stride, window);
    apart = stride / common, dilation = window / common;
    while (first < std::min(kernel, apart) && (r + pad - first * window) % stride != 0)
      ++first;
    if (first < std::min(kernel, apart)) {
      taps = llvm::divideCeil(kernel - first, apart);
      start = (r + pad - first * window) / stride - dilation * (taps - 1);
    }
  }
};

/// The gradient of a convolution's input, N x C x spatial, from that of its result, N x O x spatial.
class InputGradient {
public:
  InputGradient(OpComposer &ops, const Geometry &geometry, Value g, Value weight, RankedTensorType input)
      : ops(ops), geometry(geometry), g(g), weight(weight), input(input) {
    for (auto [size, stride] : llvm::zip_equal(input.getShape().drop_front(2), geometry.strides))
      places.push_back(llvm::divideCeil(size, stride));
  }

  /// Null where it would be too many convolutions.
  Value build() {
    ArrayRef<int64_t> kernel = shapeOf(weight).drop_front(2);
    if (geometry.group == 1 && llvm::all_of(geometry.dilations, [](int64_t apart) { return apart == 1; }) &&
        llvm::all_of_zip(kernel, geometry.strides, std::less_equal<>()))
      return buildApart();
    if (std::accumulate(geometry.strides.begin(), geometry.strides.end(), int64_t(1), std::multiplies<>()) >
        kMaxPhases)
      return {};
    exchangeChannels();
    SmallVector<int64_t> shape(input.getShape());
    std::copy(places.begin(), places.end(), shape.begin() + 2);
    SmallVector<int64_t> remainders;
    Value all = interleave(remainders, shape);
    for (unsigned d = 0; d < geometry.rank(); ++d)
      shape[2 + d] *= geometry.strides[d];
    return crop(ops.reshape(all, shape), SmallVector<int64_t>(geometry.rank(), 0));
  }

private:
  /// Windows that do not overlap: one product.
  Value buildApart() {
    const unsigned rank = geometry.rank();
    SmallVector<int64_t> ofWeight{1, 2}, ofResult{0, 2}, shape(input.getShape()),
        padded(input.getShape().take_front(2)), low(2, 0), ends;
    for (unsigned d = 0; d < rank; ++d) {
      ofWeight.push_back(3 + rank + d);
      llvm::append_range(ofResult, ArrayRef<int64_t>{3 + d, 3 + rank + d});
      llvm::append_range(padded, ArrayRef<int64_t>{shapeOf(g)[2 + d], geometry.strides[d]});
      llvm::append_range(low, ArrayRef<int64_t>{0, 0});
      shape[2 + d] = shapeOf(g)[2 + d] * geometry.strides[d];
      ends.push_back(-geometry.pads[d]);
    }
    // One tap has no dimension, so that what is made is an image as others are.
    Value all;
    if (llvm::all_of(shapeOf(weight).drop_front(2), [](int64_t size) { return size == 1; })) {
      Value flat = ops.reshape(weight, shapeOf(weight).take_front(2));
      all = ops.contract(g, labelsOf(rank, 1), flat, {1, 2}, labelsOf(rank, 2), input.getElementType());
      if (llvm::all_of(geometry.strides, [](int64_t stride) { return stride == 1; }))
        return crop(all, ends);
      SmallVector<int64_t> split(input.getShape().take_front(2));
      for (unsigned d = 0; d < rank; ++d)
        llvm::append_range(split, ArrayRef<int64_t>{shapeOf(g)[2 + d], 1});
      all = ops.reshape(all, split);
    } else {
      all = ops.contract(g, labelsOf(rank, 1), weight, ofWeight, ofResult, input.getElementType());
    }
    return crop(ops.reshape(ops.pad(all, low, padded), shape), ends);
  }

  /// The weight as C x (O / group) x kernel.
  void exchangeChannels() {
    ArrayRef<int64_t> shape = shapeOf(weight);
    SmallVector<int64_t> grouped{geometry.group, shape[0] / geometry.group, shape[1]}, exchanged{0, 2, 1},
        flat{input.getDimSize(1), shape[0] / geometry.group};
    for (unsigned d = 0; d < geometry.rank(); ++d) {
      grouped.push_back(shape[2 + d]);
      exchanged.push_back(3 + d);
      flat.push_back(shape[2 + d]);
    }
    weight = ops.reshape(ops.transpose(ops.reshape(weight, grouped), exchanged), flat);
  }

  /// The phases whose first remainders are given, N x C x (places, or places x stride behind those).
  Value interleave(SmallVector<int64_t> &remainders, ArrayRef<int64_t> shape) {
    const unsigned d = remainders.size();
    if (d == geometry.rank())
      return buildPhase(remainders, shape);
    SmallVector<Value> parts;
    for (int64_t r = 0; r < geometry.strides[d]; ++r) {
      remainders.push_back(r);
      Value part = interleave(remainders, shape);
      remainders.pop_back();
      if (geometry.strides[d] == 1)
        return part;
      SmallVector<int64_t> lengthened(shapeOf(part));
      lengthened.insert(lengthened.begin() + 3 + d, 1);
      parts.push_back(ops.reshape(part, lengthened));
    }
    return ops.concat(parts, 3 + d);
  }

  /// One convolution, N x C x places.
  Value buildPhase(ArrayRef<int64_t> remainders, ArrayRef<int64_t> shape) {
    const unsigned rank = geometry.rank();
    auto type = RankedTensorType::get(shape, input.getElementType());
    Value image = g, taps = weight;
    SmallVector<int64_t> low, high, dilations;
    for (unsigned d = 0; d < rank; ++d) {
      Phase phase(remainders[d], geometry.strides[d], geometry.dilations[d], geometry.pads[d],
                  shapeOf(weight)[2 + d]);
      const int64_t size = shapeOf(g)[2 + d],
                    end = places[d] + phase.start + phase.dilation * (phase.taps - 1);
      if (phase.taps == 0 || phase.start >= size || end <= 0)
        return ops.fill(type, 0);
      if (phase.start > 0)
        image = ops.slice(image, 2 + d, phase.start, size - phase.start);
      if (phase.taps > 1 || phase.taps != shapeOf(weight)[2 + d])
        taps = ops.slice(taps, 2 + d, phase.first + phase.apart * (phase.taps - 1), phase.taps, -phase.apart);
      low.push_back(std::max<int64_t>(0, -phase.start));
      high.push_back(std::max<int64_t>(0, end - size));
      dilations.push_back(phase.dilation);
    }
    llvm::append_range(low, high);
    return ConvOp::create(ops.builder, ops.loc, type, image, taps, Value(), SmallVector<int64_t>(rank, 1),
                          dilations, low, geometry.group);
  }

  /// `value` with zeros behind it, or cut, to the input's shape; element 0 comes to lie at `low`.
  Value crop(Value value, ArrayRef<int64_t> low) {
    SmallVector<int64_t> before(2, 0);
    llvm::append_range(before, low);
    if (shapeOf(value) == input.getShape() && llvm::all_of(low, [](int64_t pad) { return pad == 0; }))
      return value;
    return ops.pad(value, before, input.getShape());
  }

  OpComposer &ops;
  const Geometry &geometry;
  Value g, weight;
  RankedTensorType input;
  SmallVector<int64_t> places; ///< of each phase
};
} // namespace

Value colossal::composeTransposedConvolution(OpComposer &ops, ConvTransposeOp op) {
  // It is the gradient of the input of a convolution with the same weight, and the operand that of its
  // result.
  const Geometry geometry = geometryOf(op);
  return InputGradient(ops, geometry, op.getInput(), op.getWeight(),
                       cast<RankedTensorType>(op.getResult().getType()))
      .build();
}

/// That of a bias: the sum over everything but channels.
static void addBiasGradient(GradientBuilder &gradient, Value g) {
  if (!gradient.wants(2))
    return;
  OpComposer &ops = gradient.ops();
  SmallVector<int64_t> axes;
  for (int64_t d = 0; d < static_cast<int64_t>(shapeOf(g).size()); ++d)
    if (d != 1)
      axes.push_back(d);
  gradient.add(2, ops.reshape(ops.reduce(ReduceKind::Sum, gradient.widen(g), axes), shapeOf(g)[1]));
}

LogicalResult ConvOp::buildGradient(GradientBuilder &gradient) {
  OpComposer &ops = gradient.ops();
  Geometry geometry = geometryOf(*this);
  Value g = gradient.resultGradient();
  ArrayRef<int64_t> weight = shapeOf(getWeight());
  if (gradient.wants(0)) {
    auto input = cast<RankedTensorType>(getInput().getType());
    Value sums = InputGradient(ops, geometry, g, getWeight(), input).build();
    gradient.add(0, sums ? sums
                         : ConvTransposeOp::create(ops.builder, ops.loc, input, g, getWeight(), Value(),
                                                   getStrides(), getDilations(), getPads(), getGroup()));
  }
  if (gradient.wants(1))
    gradient.add(1, buildWeightGradient(ops, geometry, getInput(), g, weight));
  if (getBias())
    addBiasGradient(gradient, g);
  return success();
}

LogicalResult ConvTransposeOp::buildGradient(GradientBuilder &gradient) {
  OpComposer &ops = gradient.ops();
  Geometry geometry = geometryOf(*this);
  Value g = gradient.resultGradient();
  ArrayRef<int64_t> weight = shapeOf(getWeight());
  if (gradient.wants(0)) {
    SmallVector<int64_t> pads = geometry.padsFor(shapeOf(g).drop_front(2), shapeOf(getInput()).drop_front(2),
                                                 getStrides(), weight.drop_front(2), getDilations());
    gradient.add(0, ConvOp::create(ops.builder, ops.loc, getInput().getType(), g, getWeight(), Value(),
                                   getStrides(), getDilations(), pads, getGroup()));
  }
  if (gradient.wants(1))
    gradient.add(1, buildWeightGradient(ops, geometry, g, getInput(), weight));
  if (getBias())
    addBiasGradient(gradient, g);
  return success();
}
