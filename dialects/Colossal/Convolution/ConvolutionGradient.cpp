//===- ConvolutionGradient.cpp ----------------------------------------------===//
//
// The gradient of a convolution's input is the transposed convolution, and the other way round. That of the
// weight is a convolution again, with batch and channels exchanged: the result's gradient slides as a filter
// over the input, strides and dilations exchanged too.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/GradientBuilder.h"

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
    const bool isDense = llvm::all_of(getStrides(), [](int64_t stride) { return stride == 1; });
    if (isDense && geometry.isPointwise(weight.drop_front(2)) &&
        shapeOf(g).drop_front(2) == shapeOf(getInput()).drop_front(2))
      gradient.add(0, ops.contract(g, labelsOf(geometry.rank(), 1),
                                   ops.reshape(getWeight(), weight.take_front(2)), {1, 2},
                                   labelsOf(geometry.rank(), 2), elementTypeOf(getInput())));
    else
      gradient.add(0, ConvTransposeOp::create(ops.builder, ops.loc, getInput().getType(), g, getWeight(),
                                              Value(), getStrides(), getDilations(), getPads(), getGroup()));
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
