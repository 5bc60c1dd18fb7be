//===- PoolingGradient.cpp --------------------------------------------------===//
//
// Gradients of pools and of resampling. The latter is linear: along each dimension it is a product with the
// matrix that resampling makes of the unit vectors, and its gradient one with the transpose.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/GradientBuilder.h"

using namespace mlir;
using namespace colossal;
using K = colossal::ElementwiseKind;

// y = (sum |x|^p)^(1/p): dx = sign(x) |x|^(p-1) sum over windows of dy y^(1-p), by a transposed convolution
// with ones.
static void buildNormGradient(PoolOp op, GradientBuilder &gradient) {
  OpComposer &ops = gradient.ops();
  Value g = gradient.resultGradient(0), x = op.getInput(), y = op.getResult();
  const auto p = static_cast<double>(static_cast<int64_t>(op.getP()));
  const int64_t channels = shapeOf(x)[1];
  if (p != 1) {
    Value scaled = ops.mul(g, ops.apply(K::Pow, {y, ops.constant(1 - p, y)}));
    g = ops.dropWhere(ops.compare(K::Equal, y, 0), scaled);
  }
  SmallVector<int64_t> shape{channels, 1};
  llvm::append_range(shape, op.getKernel());
  Value ones = ops.fill(RankedTensorType::get(shape, elementTypeOf(x)), 1);
  Value sums = ConvTransposeOp::create(ops.builder, ops.loc, x.getType(), g, ones, Value(), op.getStrides(),
                                       op.getDilations(), op.getPads(), channels);
  Value slope = ops.apply(K::Sign, {x});
  if (p != 1) {
    Value size = ops.apply(K::Abs, {x});
    slope = ops.mul(slope, ops.apply(K::Pow, {size, ops.constant(p - 1, size)}));
  }
  gradient.add(0, ops.mul(sums, slope));
}

LogicalResult PoolOp::buildGradient(GradientBuilder &gradient) {
  Value g = gradient.resultGradient(0);
  if (!g || !gradient.wants(0))
    return success();
  if (getKind() == PoolKind::Lp) {
    buildNormGradient(*this, gradient);
    return success();
  }
  OpComposer &ops = gradient.ops();
  Value taps;
  if (getKind() == PoolKind::Max)
    taps =
        PoolTapsOp::create(ops.builder, ops.loc, RankedTensorType::get(shapeOf(g), ops.builder.getI32Type()),
                           getInput(), getKernel(), getStrides(), getDilations(), getPads());
  gradient.add(0, PoolGradientOp::create(ops.builder, ops.loc, getInput().getType(), getKind(), g, taps,
                                         getKernel(), getStrides(), getDilations(), getPads(),
                                         getCountIncludePad()));
  return success();
}

// The gradient of an average is linear in the averages' gradient.
LogicalResult PoolGradientOp::buildGradient(GradientBuilder &gradient) {
  if (getKind() != PoolKind::Average)
    return gradient.refuse("the gradient of a max pool");
  OpComposer &ops = gradient.ops();
  auto averages = PoolOp::create(ops.builder, ops.loc, getGradient().getType(), Type(), getKind(),
                                 gradient.resultGradient(), getKernel(), getStrides(), getDilations(),
                                 getPads(), getCountIncludePad());
  gradient.add(0, averages.getResult());
  return success();
}

LogicalResult PoolTapsOp::buildGradient(GradientBuilder &) {
  return success(); // integers
}

LogicalResult RoiMaxPoolOp::buildGradient(GradientBuilder &gradient) {
  return gradient.refuse();
}

LogicalResult ResizeOp::buildGradient(GradientBuilder &gradient) {
  OpComposer &ops = gradient.ops();
  Builder &b = ops.builder;
  Type inner = GradientBuilder::wideType(getInput());
  Value g = gradient.widen(gradient.resultGradient());
  const auto rank = static_cast<int64_t>(shapeOf(g).size());
  for (auto [d, size, resized] : llvm::enumerate(shapeOf(getInput()), shapeOf(getResult()))) {
    const double from = getRoi() ? (*getRoi())[d] : 0, to = getRoi() ? (*getRoi())[rank + d] : 1;
    const double along = getScales()[d];
    if (size == resized && along == 1 && from == 0 && to == 1)
      continue;
    // What lies outside is a constant, whose gradient is 0.
    DenseF64ArrayAttr roi = getRoi() ? b.getDenseF64ArrayAttr({0, from, 1, to}) : DenseF64ArrayAttr();
    Value taps = ResizeOp::create(
        ops.builder, ops.loc, RankedTensorType::get({size, resized}, inner), ops.identity(size, inner),
        getModeAttr(), getCoordinatesAttr(), getNearestAttr(), b.getDenseF64ArrayAttr({1, along}), roi,
        getCubicCoeffAttr(), getExcludeOutsideAttr(), getAntialiasAttr(), b.getF64FloatAttr(0));
    SmallVector<int64_t> labels = llvm::to_vector(llvm::seq<int64_t>(rank)), folded(labels);
    folded[d] = rank;
    g = ops.contract(g, labels, taps, {rank, static_cast<int64_t>(d)}, folded, inner);
  }
  gradient.add(0, g);
  return success();
}
