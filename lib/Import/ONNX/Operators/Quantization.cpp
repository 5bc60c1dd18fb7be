//===- Quantization.cpp - ONNX linear quantization by composition -----------===//
//
// y = saturate(round(x / scale) + zero point) and back, per tensor, per axis or per block.
//
//===----------------------------------------------------------------------===//
#include "../Importer.h"
#include "../Operator.h"
#include "Window.h"
#include "dialects/Colossal/NarrowTypes.h"

#include <cmath>

using namespace mlir;

namespace colossal::onnx_import {

namespace {

/// Least and greatest values of an integer type.
std::pair<double, double> getRange(Type type) {
  auto integer = cast<IntegerType>(type);
  double size = std::ldexp(1.0, integer.getWidth());
  return integer.isUnsigned() ? std::make_pair(0.0, size - 1) : std::make_pair(-size / 2, size / 2 - 1);
}

/// A scale or zero point in a shape that broadcasts to `shape`.
FailureOr<Value> fit(Node &n, Value value, ArrayRef<int64_t> shape) {
  auto own = GraphBuilder::shapeOf(value);
  int64_t count = GraphBuilder::typeOf(value).getNumElements();
  if (count == 1)
    return n.b.reshape(value, {});
  auto axis = n.axis(n.intAttr("axis", 1), shape.size());
  if (failed(axis))
    return failure();
  int64_t block = n.intAttr("block_size", 0);
  if (own.size() == 1 && block == 0 && count == shape[*axis]) {
    SmallVector<int64_t> spread(shape.size(), 1);
    spread[*axis] = count;
    return n.b.reshape(value, spread);
  }
  // One per block along the axis: each repeated, then cut to the size.
  bool fits = block > 0 && own.size() == shape.size();
  for (size_t d = 0; fits && d < shape.size(); ++d)
    fits = int64_t(d) == *axis ? own[d] == (shape[d] + block - 1) / block : own[d] == shape[d];
  if (!fits)
    return n.error() << "scale " << value.getType() << " does not fit the tensor";
  SmallVector<int64_t> apart(own), stretched, joined(own);
  apart.insert(apart.begin() + *axis + 1, 1);
  stretched = apart;
  stretched[*axis + 1] = block;
  joined[*axis] *= block;
  Value repeated = n.b.reshape(n.b.broadcast(n.b.reshape(value, apart), stretched), joined);
  return n.b.sliceDim(repeated, *axis, 0, shape[*axis]);
}

Value saturate(Node &n, Value value, Type type) {
  auto [low, high] = getRange(type);
  Type element = GraphBuilder::elementOf(value);
  return n.b.cast(
      n.b.elementwise(ElementwiseKind::Clip, {value, n.b.scalar(element, low), n.b.scalar(element, high)}),
      type);
}

/// saturate(round(x / scale) + zero) as `type`. `scale` and `zero` (may be null) broadcast to x. A float type
/// rounds by itself, and its zero point is 0.
Value quantize(Node &n, Value x, Value scale, Value zero, Type type) {
  Type wide = n.b.ops().getF32Type();
  Value ratio = n.b.div(n.b.cast(x, wide), n.b.cast(scale, wide));
  if (isNarrowFloat(type))
    return n.b.cast(zero ? n.b.add(ratio, n.b.cast(zero, wide)) : ratio, type,
                    {double(n.intAttr("saturate", 1)), 0.0});
  Value steps = n.b.unary(ElementwiseKind::Round, ratio);
  if (zero)
    steps = n.b.add(steps, n.b.cast(zero, wide));
  return saturate(n, steps, type);
}

LogicalResult importQuantizeLinear(Node &n) {
  if (failed(n.require(2)))
    return failure();
  Type type = n.b.ops().getIntegerType(8, false);
  if (int64_t given = n.intAttr("output_dtype", 0))
    type = getElementType(n.importer.context(), given);
  else if (n.in(2))
    type = n.element(2);
  if (!type || (!isa<IntegerType>(type) && !isNarrowFloat(type)) || isString(type) ||
      !isa<FloatType>(n.element(1)))
    return n.error() << "only integers and floats of four and eight bits are quantized to, by floats";
  auto scale = fit(n, n.in(1), n.shape(0));
  FailureOr<Value> zero = n.in(2) ? fit(n, n.in(2), n.shape(0)) : FailureOr<Value>(Value());
  if (failed(scale) || failed(zero))
    return failure();
  return n.set(quantize(n, n.in(0), *scale, *zero, type));
}

LogicalResult importDequantizeLinear(Node &n) {
  if (failed(n.require(2)))
    return failure();
  Type type = n.element(1);
  if (int64_t given = n.intAttr("output_dtype", 0))
    type = getElementType(n.importer.context(), given);
  if (!type || !isa<FloatType>(type))
    return n.error() << "the result's type is not supported";
  auto scale = fit(n, n.in(1), n.shape(0));
  FailureOr<Value> zero = n.in(2) ? fit(n, n.in(2), n.shape(0)) : FailureOr<Value>(Value());
  if (failed(scale) || failed(zero))
    return failure();
  // Differences of integers are exact in i32, those of narrow floats in f32.
  Type inner = n.b.ops().getI32Type();
  if (isa<FloatType>(n.element(0)))
    inner = n.b.ops().getF32Type();
  Value x = n.b.cast(n.in(0), inner);
  if (*zero)
    x = n.b.sub(x, n.b.cast(*zero, inner));
  Type wide = n.b.ops().getF32Type();
  return n.set(n.b.cast(n.b.mul(n.b.cast(x, wide), n.b.cast(*scale, wide)), type));
}

/// uint8 over the range of x, widened to contain 0.
LogicalResult importDynamicQuantizeLinear(Node &n) {
  if (failed(n.require(1)))
    return failure();
  Type f32 = n.b.ops().getF32Type(), u8 = n.b.ops().getIntegerType(8, false);
  SmallVector<int64_t> all;
  for (int64_t d = 0; d < n.rank(0); ++d)
    all.push_back(d);
  Value zero = n.b.scalar(f32, 0);
  Value low = n.b.elementwise(ElementwiseKind::Min, {n.b.reduce(ReduceKind::Min, n.in(0), all, false), zero});
  Value high =
      n.b.elementwise(ElementwiseKind::Max, {n.b.reduce(ReduceKind::Max, n.in(0), all, false), zero});
  Value scale = n.b.div(n.b.sub(high, low), n.b.scalar(f32, 255));
  Value point = n.b.unary(ElementwiseKind::Round, n.b.unary(ElementwiseKind::Neg, n.b.div(low, scale)));
  Value zeroPoint = saturate(n, point, u8);
  n.give(0, quantize(n, n.in(0), scale, zeroPoint, u8));
  n.give(1, scale);
  return n.set(2, zeroPoint);
}

/// Operand i as real numbers; its scale and zero point are inputs i + 1 and i + 2, per tensor or per element
/// of `axis`.
FailureOr<Value> getReal(Node &n, size_t i, int64_t axis) {
  Type i32 = n.b.ops().getI32Type(), f32 = n.b.ops().getF32Type();
  Value x = n.b.cast(n.in(i), i32), scale = n.in(i + 1), zero = n.in(i + 2);
  auto spread = [&](Value value) -> FailureOr<Value> {
    int64_t count = GraphBuilder::typeOf(value).getNumElements();
    if (count == 1)
      return n.b.reshape(value, {});
    if (GraphBuilder::rankOf(value) == n.rank(i))
      return value;
    SmallVector<int64_t> shape(n.rank(i), 1);
    if (axis < 0 || count != n.shape(i)[axis])
      return n.error() << "scale or zero point of input " << i << " does not fit";
    shape[axis] = count;
    return n.b.reshape(value, shape);
  };
  auto s = spread(scale), z = spread(zero);
  if (failed(s) || failed(z) || failed(n.checkBroadcast({n.in(i), *s})) ||
      failed(n.checkBroadcast({n.in(i), *z})))
    return failure();
  return n.b.mul(n.b.cast(n.b.sub(x, n.b.cast(*z, i32)), f32), n.b.cast(*s, f32));
}

LogicalResult importQLinearMatMul(Node &n) {
  if (failed(n.require(8)))
    return failure();
  if (n.rank(0) < 2 || n.rank(3) < 2 || n.shape(0).back() != n.shape(3)[n.rank(3) - 2] ||
      !broadcastShapes(n.shape(0).drop_back(2), n.shape(3).drop_back(2)))
    return n.error() << "shapes do not fit";
  auto a = getReal(n, 0, n.rank(0) - 2), b = getReal(n, 3, n.rank(3) - 1);
  if (failed(a) || failed(b) || GraphBuilder::typeOf(n.in(6)).getNumElements() != 1 ||
      GraphBuilder::typeOf(n.in(7)).getNumElements() != 1)
    return n.error() << "one scale for the result is expected";
  Value zero = n.b.reshape(n.in(7), {}), scale = n.b.reshape(n.in(6), {});
  return n.set(quantize(n, n.b.matmul(*a, *b), scale, zero, n.element(7)));
}

/// Products are exact in i32, and so is the bias, whose scale is that of the products.
LogicalResult importQLinearConv(Node &n) {
  if (failed(n.require(8)))
    return failure();
  Type i32 = n.b.ops().getI32Type(), f32 = n.b.ops().getF32Type();
  if (n.rank(0) < 3 || n.rank(3) != n.rank(0))
    return n.error() << n.in(0).getType() << " and " << n.in(3).getType() << " do not fit";
  auto spread = [&](size_t i, int64_t rank) -> FailureOr<Value> {
    int64_t count = GraphBuilder::typeOf(n.in(i)).getNumElements();
    if (count != 1 && count != n.shape(3)[0])
      return n.error() << "input " << i << " must have one element or one per channel of the result";
    SmallVector<int64_t> shape(rank, 1);
    shape.front() = count;
    return n.b.reshape(n.in(i), shape);
  };
  for (size_t i : {1, 2, 6, 7})
    if (GraphBuilder::typeOf(n.in(i)).getNumElements() != 1)
      return n.error() << "input " << i << " must have one element";
  auto weightZero = spread(5, n.rank(0)), weightScale = spread(4, n.rank(0) - 1);
  if (failed(weightZero) || failed(weightScale))
    return failure();
  Value xZero = n.b.cast(n.b.reshape(n.in(2), {}), i32), x = n.b.sub(n.b.cast(n.in(0), i32), xZero);
  Value wZero = n.b.cast(*weightZero, i32), w = n.b.sub(n.b.cast(n.in(3), i32), wZero);
  if (n.in(8) && (n.rank(8) != 1 || n.shape(8)[0] != n.shape(3)[0] || n.element(8) != i32))
    return n.error() << "the bias must be one i32 per channel of the result";
  if (failed(setConv(n, x, w, n.in(8))))
    return failure();
  Value scale = n.b.cast(*weightScale, f32);
  scale = n.b.mul(n.b.cast(n.b.reshape(n.in(1), {}), f32), scale);
  Value real = n.b.mul(n.b.cast(n.outputs[0], f32), scale);
  Value zero = n.b.reshape(n.in(7), {});
  return n.set(quantize(n, real, n.b.reshape(n.in(6), {}), zero, n.element(7)));
}

} // namespace

void addQuantizationOperators(OperatorTable &table) {
  table.push_back({"", "QuantizeLinear", 10, 0, importQuantizeLinear});
  table.push_back({"", "DequantizeLinear", 10, 0, importDequantizeLinear});
  table.push_back({"", "DynamicQuantizeLinear", 11, 0, importDynamicQuantizeLinear});
  table.push_back({"", "QLinearConv", 10, 0, importQLinearConv});
  table.push_back({"", "QLinearMatMul", 10, 0, importQLinearMatMul});
}

} // namespace colossal::onnx_import
