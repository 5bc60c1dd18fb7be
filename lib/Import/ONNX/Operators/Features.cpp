//===- Features.cpp - operators of ai.onnx.ml on single features ------------===//
//
// What comes before and after the models of classical machine learning, and is elementwise: tables of labels,
// thresholds, chosen columns.
//
//===----------------------------------------------------------------------===//
#include "../Importer.h"
#include "../Operator.h"

#include <cmath>

using namespace mlir;

namespace colossal::onnx_import {

namespace {

/// A list that LabelEncoder gives as `prefix` and one of several endings: keys, values, a default. Null where
/// it has none of them.
FailureOr<Value> getList(Node &n, StringRef prefix, bool isOne) {
  auto named = [&](StringRef ending) { return n.attr((prefix + ending).str()); };
  if (const auto *tensor = named("_tensor"); tensor && tensor->has_t()) {
    auto value = n.importer.importTensor(tensor->t(), n.proto.output(0), false);
    if (failed(value))
      return failure();
    return n.b.reshape(*value, {GraphBuilder::typeOf(*value).getNumElements()});
  }
  if (const auto *strings = named(isOne ? "_string" : "_strings")) {
    std::vector<std::string> all(strings->strings().begin(), strings->strings().end());
    if (isOne)
      all = {strings->s()};
    return n.importer.constantStrings(all, {int64_t(all.size())});
  }
  if (const auto *integers = named(isOne ? "_int64" : "_int64s")) {
    SmallVector<int64_t> all(integers->ints().begin(), integers->ints().end());
    return n.b.integers(isOne ? ArrayRef<int64_t>(integers->i()) : all);
  }
  if (const auto *floats = named(isOne ? "_float" : "_floats")) {
    SmallVector<float> all(floats->floats().begin(), floats->floats().end());
    if (isOne)
      all = {floats->f()};
    return n.b.constant(DenseElementsAttr::get(
        RankedTensorType::get({int64_t(all.size())}, n.b.ops().getF32Type()), ArrayRef<float>(all)));
  }
  return Value();
}

/// The value whose key equals the element, or the default: all keys are compared, and the place of the first
/// that fits chooses the value.
LogicalResult importLabelEncoder(Node &n) {
  if (failed(n.require(1)))
    return failure();
  auto keys = getList(n, "keys", false), values = getList(n, "values", false);
  if (failed(keys) || failed(values))
    return failure();
  if (!*keys || !*values || GraphBuilder::shapeOf(*keys) != GraphBuilder::shapeOf(*values) ||
      GraphBuilder::shapeOf(*keys)[0] == 0 || GraphBuilder::elementOf(*keys) != n.element(0))
    return n.error() << "as many values as keys, of the input's type, are expected";
  if (isa<FloatType>(n.element(0)))
    if (auto known = n.importer.evaluate(*keys);
        known && llvm::any_of(known->floats, [](double key) { return std::isnan(key); }))
      return n.error() << "keys that are no numbers are not supported";
  Type element = GraphBuilder::elementOf(*values);
  // ONNX's own defaults, by type of the values.
  auto fallback = getList(n, "default", true);
  if (failed(fallback))
    return failure();
  if (!*fallback && element.isSignedInteger())
    fallback = n.importer.constantStrings({"_Unused"}, {});
  else if (!*fallback)
    fallback = n.b.scalar(element, isa<FloatType>(element) ? -0.0 : -1);
  if (GraphBuilder::elementOf(*fallback) != element || GraphBuilder::typeOf(*fallback).getNumElements() != 1)
    return n.error() << "one default of the values' type is expected";
  SmallVector<int64_t> spread(n.shape(0));
  spread.push_back(1);
  Value fits = n.b.elementwise(ElementwiseKind::Equal, {n.b.reshape(n.in(0), spread), *keys});
  Value counted = n.b.cast(fits, n.b.ops().getI32Type());
  int64_t last = n.rank(0);
  Value place = n.b.argReduce(counted, last, /*minimum=*/false, /*keepdims=*/false, /*selectLast=*/false);
  Value any = n.b.cast(n.b.reduce(ReduceKind::Max, counted, {last}, false), n.b.ops().getI1Type());
  Value otherwise = n.b.reshape(*fallback, {});
  return n.set(n.b.select(any, n.b.gather(*values, place, 0), otherwise));
}

LogicalResult importBinarizer(Node &n) {
  if (failed(n.require(1)))
    return failure();
  auto over = n.elementwise(ElementwiseKind::Greater,
                            {n.in(0), n.b.scalar(n.element(0), n.floatAttr("threshold", 0))});
  return failed(over) ? failure() : n.set(n.b.cast(*over, n.element(0)));
}

/// Columns of the last dimension.
LogicalResult importArrayFeatureExtractor(Node &n) {
  if (failed(n.require(2)))
    return failure();
  if (n.rank(0) < 1)
    return n.error() << "a tensor of at least one dimension is expected";
  int64_t count = GraphBuilder::typeOf(n.in(1)).getNumElements();
  Value chosen = n.b.gather(n.in(0), n.b.reshape(n.in(1), {count}), n.rank(0) - 1);
  return n.set(n.rank(0) == 1 ? n.b.reshape(chosen, {1, count}) : chosen);
}

} // namespace

void addFeatureOperators(OperatorTable &table) {
  table.push_back({"ai.onnx.ml", "ArrayFeatureExtractor", 1, 0, importArrayFeatureExtractor});
  table.push_back({"ai.onnx.ml", "Binarizer", 1, 0, importBinarizer});
  table.push_back({"ai.onnx.ml", "LabelEncoder", 2, 0, importLabelEncoder});
}

} // namespace colossal::onnx_import
