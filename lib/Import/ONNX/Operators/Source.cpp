//===- Source.cpp - ONNX operators that make tensors ------------------------===//
//
// Constants, ranges, identity matrices, windows of signal processing, random values.
//
//===----------------------------------------------------------------------===//
#include "../Importer.h"
#include "../Operator.h"

#include <cmath>

using namespace mlir;

namespace colossal::onnx_import {

namespace {

LogicalResult importConstant(Node &n) {
  OpBuilder &ops = n.b.ops();
  auto vector = [&](Type element, size_t size) { return RankedTensorType::get({int64_t(size)}, element); };
  if (const auto *value = n.attr("value"); value && value->has_t()) {
    auto tensor = n.importer.importTensor(value->t(), n.proto.output(0), false);
    return failed(tensor) ? failure() : n.set(*tensor);
  }
  if (n.hasAttr("value_float"))
    return n.set(n.b.scalar(ops.getF32Type(), n.floatAttr("value_float", 0)));
  if (const auto *value = n.attr("value_int"))
    return n.set(
        n.b.constant(DenseElementsAttr::get(RankedTensorType::get({}, ops.getI64Type()), value->i())));
  if (n.hasAttr("value_ints"))
    return n.set(n.b.integers(n.intsAttr("value_ints")));
  if (const auto *value = n.attr("value_floats")) {
    SmallVector<float> floats(value->floats().begin(), value->floats().end());
    return n.set(n.b.constant(
        DenseElementsAttr::get(vector(ops.getF32Type(), floats.size()), ArrayRef<float>(floats))));
  }
  if (const auto *value = n.attr("value_string"))
    return n.set(n.importer.constantStrings({value->s()}, {}));
  if (const auto *value = n.attr("value_strings"))
    return n.set(n.importer.constantStrings({value->strings().begin(), value->strings().end()},
                                            {int64_t(value->strings_size())}));
  return n.error() << "sparse tensors are not supported";
}

LogicalResult importConstantOfShape(Node &n) {
  auto shape = n.intsInput(0);
  if (failed(shape))
    return failure();
  if (!isPossibleShape(*shape)) {
    auto diagnostic = n.error() << "the shape [";
    llvm::interleaveComma(*shape, diagnostic);
    return diagnostic << "] is not possible";
  }
  const auto *value = n.attr("value");
  if (!value)
    return n.set(n.b.splat(*shape, n.b.ops().getF32Type(), 0));
  auto one = n.importer.importTensor(value->t(), n.proto.output(0), false);
  if (failed(one))
    return failure();
  if (GraphBuilder::typeOf(*one).getNumElements() != 1)
    return n.error() << "the value must have one element";
  return n.set(n.b.broadcast(n.b.reshape(*one, {}), *shape));
}

LogicalResult importRange(Node &n) {
  if (failed(n.require(3)))
    return failure();
  auto start = n.constantInput(0), limit = n.constantInput(1), delta = n.constantInput(2);
  if (failed(start) || failed(limit) || failed(delta))
    return failure();
  if (start->count() != 1 || limit->count() != 1 || delta->count() != 1 || delta->getFloat(0) == 0)
    return n.error() << "three scalars, the third not 0, are expected";
  double count = std::ceil((limit->getFloat(0) - start->getFloat(0)) / delta->getFloat(0));
  if (!(count < double(kMostStored)))
    return n.error() << "the range is too long";
  return n.set(n.b.iota({std::max<int64_t>(0, int64_t(count))}, n.element(0), 0, start->getFloat(0),
                        delta->getFloat(0)));
}

/// 1 where column - row == k.
LogicalResult importEyeLike(Node &n) {
  if (failed(n.require(1)))
    return failure();
  if (n.rank(0) != 2)
    return n.error() << "a matrix is expected";
  Type element =
      n.hasAttr("dtype") ? getElementType(n.importer.context(), n.intAttr("dtype", 1)) : n.element(0);
  if (!element)
    return n.error() << "the element type is not supported";
  Type i64 = n.b.ops().getI64Type();
  int64_t rows = n.shape(0)[0], columns = n.shape(0)[1];
  Value row = n.b.iota({rows, 1}, i64, 0, double(n.intAttr("k", 0))), column = n.b.iota({1, columns}, i64, 1);
  return n.set(n.b.cast(n.b.elementwise(ElementwiseKind::Equal, {row, column}), element));
}

LogicalResult setRandom(Node &n, RandomKind kind, Value input, ArrayRef<int64_t> shape, Type element,
                        double a, double b) {
  if (!element || !isPossibleShape(shape))
    return n.error() << "the shape is not possible, or the element type not supported";
  uint64_t number =
      n.hasAttr("seed") ? llvm::bit_cast<uint32_t>(float(n.floatAttr("seed", 0))) : n.getStream();
  return n.set(RandomOp::create(n.b.ops(), n.b.loc(), RankedTensorType::get(shape, element), kind, input,
                                Value(), ValueRange(), APFloat(a), APFloat(b), number, shape));
}

LogicalResult importRandom(Node &n, bool normal, bool like) {
  SmallVector<int64_t> shape = n.intsAttr("shape");
  int64_t type = n.intAttr("dtype", like ? 0 : 1);
  Type element = getElementType(n.importer.context(), type);
  if (like) {
    if (failed(n.require(1)))
      return failure();
    shape.assign(n.shape(0).begin(), n.shape(0).end());
    element = type ? element : n.element(0);
  }
  return normal ? setRandom(n, RandomKind::Normal, {}, shape, element, n.floatAttr("mean", 0),
                            n.floatAttr("scale", 1))
                : setRandom(n, RandomKind::Uniform, {}, shape, element, n.floatAttr("low", 0),
                            n.floatAttr("high", 1));
}

LogicalResult importBernoulli(Node &n) {
  if (failed(n.require(1)))
    return failure();
  int64_t type = n.intAttr("dtype", 0);
  Type element = type ? getElementType(n.importer.context(), type) : n.element(0);
  if (failed(setRandom(n, RandomKind::Bernoulli, n.in(0), n.shape(0), n.b.ops().getI1Type(), 0, 0)) ||
      !element)
    return failure();
  return n.set(n.b.cast(n.outputs[0], element));
}

/// Hann, Hamming, Blackman: a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N).
LogicalResult importWindow(Node &n, double a0, double a1, double a2) {
  auto size = n.intsInput(0);
  Type element = getElementType(n.importer.context(), n.intAttr("output_datatype", 1));
  if (failed(size))
    return failure();
  if (size->size() != 1 || size->front() < 0 || size->front() > (1 << 30) || !element)
    return n.error() << "a size and a supported type are expected";
  int64_t count = size->front(), period = n.intAttr("periodic", 1) ? count : count - 1;
  HostTensor window(RankedTensorType::get({count}, n.b.ops().getF32Type()));
  for (int64_t i = 0; i < count; ++i) {
    double angle = 2.0 * M_PI * double(i) / double(std::max<int64_t>(period, 1));
    window.setFloat(i, a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  return n.set(n.b.cast(n.b.constant(window), element));
}

} // namespace

void addSourceOperators(OperatorTable &table) {
  auto add = [&](StringRef name, OperatorFunction function, int64_t first = 1) {
    table.push_back({"", name, first, 0, function});
  };
  add("Constant", importConstant);
  add("ConstantOfShape", importConstantOfShape, 9);
  add("Range", importRange, 11);
  add("EyeLike", importEyeLike, 9);
  add("RandomNormal", [](Node &n) { return importRandom(n, true, false); });
  add("RandomUniform", [](Node &n) { return importRandom(n, false, false); });
  add("RandomNormalLike", [](Node &n) { return importRandom(n, true, true); });
  add("RandomUniformLike", [](Node &n) { return importRandom(n, false, true); });
  add("Bernoulli", importBernoulli, 15);
  add("HannWindow", [](Node &n) { return importWindow(n, 0.5, 0.5, 0.0); }, 17);
  add("HammingWindow", [](Node &n) { return importWindow(n, 25.0 / 46.0, 21.0 / 46.0, 0.0); }, 17);
  add("BlackmanWindow", [](Node &n) { return importWindow(n, 0.42, 0.5, 0.08); }, 17);
}

} // namespace colossal::onnx_import
