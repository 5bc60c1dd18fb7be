//===- Pooling.cpp - ONNX pools ---------------------------------------------===//
//
// Pools over windows are `pool`; global ones are reductions.
//
//===----------------------------------------------------------------------===//
#include "Window.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace colossal::onnx_import {

namespace {

LogicalResult importPool(Node &n, PoolKind kind) {
  if (failed(n.require(1)))
    return failure();
  if (n.rank(0) < 3 || n.rank(0) > 5)
    return n.error() << "1 to 3 spatial dimensions are supported, not " << n.in(0).getType();
  auto window = Window::read(n, n.intsAttr("kernel_shape"), n.intAttr("ceil_mode", 0));
  if (failed(window))
    return failure();
  SmallVector<int64_t> shape(n.shape(0).take_front(2));
  llvm::append_range(shape, window->result);
  Type indices = n.wants(1) ? RankedTensorType::get(shape, n.b.ops().getI64Type()) : RankedTensorType();
  auto op = PoolOp::create(n.b.ops(), n.b.loc(), RankedTensorType::get(shape, n.element(0)), indices, kind,
                           n.in(0), window->kernel, window->strides, window->dilations, window->pads,
                           bool(n.intAttr("count_include_pad", 0)), uint64_t(n.intAttr("p", 2)),
                           bool(n.intAttr("storage_order", 0)));
  n.give(0, op.getResult());
  return n.set(1, op.getIndices());
}

LogicalResult importGlobalPool(Node &n, ReduceKind kind) {
  if (failed(n.require(1)))
    return failure();
  if (n.rank(0) < 2)
    return n.error() << "a tensor [N, C, ...] is expected";
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(2, n.rank(0)));
  return n.set(n.b.reduce(kind, n.in(0), axes, true));
}

LogicalResult importGlobalLpPool(Node &n) {
  int64_t p = n.intAttr("p", 2);
  if (p == 1 || p == 2)
    return importGlobalPool(n, p == 1 ? ReduceKind::L1 : ReduceKind::L2);
  if (failed(n.require(1)))
    return failure();
  Type element = n.element(0);
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(2, n.rank(0)));
  Value size = n.b.unary(ElementwiseKind::Abs, n.in(0));
  Value sum =
      n.b.reduce(ReduceKind::Sum,
                 n.b.elementwise(ElementwiseKind::Pow, {size, n.b.scalar(element, double(p))}), axes, true);
  return n.set(n.b.elementwise(ElementwiseKind::Pow, {sum, n.b.scalar(element, 1.0 / double(p))}));
}

/// The inverse of MaxPool: values to the places that its indices name, zeros elsewhere.
LogicalResult importMaxUnpool(Node &n) {
  if (failed(n.require(2)))
    return failure();
  auto window = Window::readSteps(n, n.intsAttr("kernel_shape"));
  if (failed(window))
    return failure();
  size_t spatial = window->kernel.size();
  SmallVector<int64_t> pads = n.hasAttr("pads") ? n.intsAttr("pads") : SmallVector<int64_t>(2 * spatial, 0);
  SmallVector<int64_t> natural(n.shape(0).take_front(2));
  if (pads.size() != 2 * spatial ||
      llvm::any_of(pads, [](int64_t pad) { return pad < 0 || pad > (1 << 30); }))
    return n.error() << "two pads >= 0 per spatial dimension are expected";
  for (size_t d = 0; d < spatial; ++d)
    natural.push_back((n.shape(0)[d + 2] - 1) * window->strides[d] + window->kernel[d] - pads[d] -
                      pads[d + spatial]);
  SmallVector<int64_t> shape = natural;
  if (n.in(2)) {
    auto given = n.intsInput(2);
    if (failed(given))
      return failure();
    if (given->size() != shape.size())
      return n.error() << "output_shape does not fit";
    shape.assign(given->begin(), given->end());
  }
  auto count = [](ArrayRef<int64_t> sizes) {
    int64_t product = 1;
    for (int64_t size : sizes)
      product *= size;
    return product;
  };
  if (llvm::any_of(shape, [](int64_t s) { return s <= 0; }) ||
      llvm::any_of(natural, [](int64_t s) { return s <= 0; }))
    return n.error() << "the result would be empty";
  if (!isPossibleShape(shape) || !isPossibleShape(natural))
    return n.error() << "the result would be too large";
  // Indices count in the tensor of natural size, which stands at the start of a larger result.
  int64_t elements = GraphBuilder::typeOf(n.in(0)).getNumElements();
  Value zeros = n.b.splat({count(natural)}, n.element(0), 0);
  Value updates = n.b.reshape(n.in(0), {elements}), places = n.b.reshape(n.in(1), {elements});
  Value flat = ScatterElementsOp::create(n.b.ops(), n.b.loc(), zeros.getType(), zeros, places, updates, 0,
                                         ScatterReduction::None);
  SmallVector<int64_t> low(shape.size(), 0), high;
  for (auto [a, b] : llvm::zip(shape, natural))
    high.push_back(a - b);
  return n.set(n.b.pad(n.b.reshape(flat, natural), low, high));
}

LogicalResult importMaxRoiPool(Node &n) {
  if (failed(n.require(2)))
    return failure();
  SmallVector<int64_t> bins = n.intsAttr("pooled_shape");
  if (n.rank(0) != 4 || n.rank(1) != 2 || n.shape(1)[1] != 5 || !isa<FloatType>(n.element(0)) ||
      n.element(1) != n.element(0))
    return n.error() << "features [N, C, H, W] and regions [R, 5] of their type are expected, not "
                     << n.in(0).getType() << " and " << n.in(1).getType();
  if (bins.size() != 2 || bins[0] < 1 || bins[1] < 1)
    return n.error() << "pooled_shape must be two positive sizes";
  if (n.shape(0)[0] == 0 || n.shape(0)[2] == 0 || n.shape(0)[3] == 0)
    return n.error() << "there is no image to read in " << n.in(0).getType();
  auto type = RankedTensorType::get({n.shape(1)[0], n.shape(0)[1], bins[0], bins[1]}, n.element(0));
  return n.set(RoiMaxPoolOp::create(n.b.ops(), n.b.loc(), type, n.in(0), n.in(1),
                                    llvm::APFloat(n.floatAttr("spatial_scale", 1))));
}

} // namespace

void addPoolingOperators(OperatorTable &table) {
  auto add = [&](StringRef name, OperatorFunction function, int64_t first = 1) {
    table.push_back({"", name, first, 0, function});
  };
  add("MaxPool", [](Node &n) { return importPool(n, PoolKind::Max); });
  add("AveragePool", [](Node &n) { return importPool(n, PoolKind::Average); });
  add("LpPool", [](Node &n) { return importPool(n, PoolKind::Lp); }, 2);
  add("GlobalMaxPool", [](Node &n) { return importGlobalPool(n, ReduceKind::Max); });
  add("GlobalAveragePool", [](Node &n) { return importGlobalPool(n, ReduceKind::Mean); });
  add("GlobalLpPool", importGlobalLpPool, 2);
  add("MaxRoiPool", importMaxRoiPool);
  add("MaxUnpool", importMaxUnpool, 9);
}

} // namespace colossal::onnx_import
