//===- Shape.cpp - ONNX operators that give shapes and need values ----------===//
//
// Shape and Size are constants once dimensions are bound. What gives a result whose shape depends on values
// (NonZero, Compress, Unique) is evaluated, and is an error where its input is known at run time only.
//
//===----------------------------------------------------------------------===//
#include "../Importer.h"
#include "../Operator.h"

#include <map>

using namespace mlir;

namespace colossal::onnx_import {

namespace {

LogicalResult importShape(Node &n) {
  if (failed(n.require(1)))
    return failure();
  int64_t rank = n.rank(0);
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  int64_t start = clamp(n.intAttr("start", 0)), end = clamp(n.intAttr("end", rank));
  return n.set(n.b.integers(n.shape(0).slice(start, std::max<int64_t>(0, end - start))));
}

LogicalResult importSize(Node &n) {
  if (failed(n.require(1)))
    return failure();
  return n.set(n.b.scalar(n.b.ops().getI64Type(), double(GraphBuilder::typeOf(n.in(0)).getNumElements())));
}

LogicalResult importNonZero(Node &n) {
  auto value = n.countedInput(0);
  if (failed(value))
    return failure();
  int64_t rank = value->type.getRank();
  std::vector<int64_t> places;
  for (int64_t i = 0; i < value->count(); ++i)
    if (value->isFloat() ? value->getFloat(i) != 0 : value->getInt(i) != 0)
      places.push_back(i);
  HostTensor result(RankedTensorType::get({rank, int64_t(places.size())}, n.b.ops().getI64Type()));
  for (auto [column, place] : llvm::enumerate(places))
    for (int64_t d = rank - 1, rest = place; d >= 0; --d) {
      result.ints[d * places.size() + column] = rest % value->type.getDimSize(d);
      rest /= value->type.getDimSize(d);
    }
  return n.set(n.b.constant(result));
}

LogicalResult importCompress(Node &n) {
  if (failed(n.require(2)))
    return failure();
  auto condition = n.countedInput(1);
  if (failed(condition))
    return failure();
  Value data = n.in(0);
  int64_t at = 0;
  if (n.hasAttr("axis")) {
    auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
    if (failed(axis))
      return failure();
    at = *axis;
  } else {
    data = n.b.reshape(data, {GraphBuilder::typeOf(data).getNumElements()});
  }
  SmallVector<int64_t> kept;
  for (int64_t i = 0; i < condition->count(); ++i)
    if (condition->getInt(i)) {
      if (i >= GraphBuilder::shapeOf(data)[at])
        return n.error() << "the condition is longer than the dimension";
      kept.push_back(i);
    }
  return n.set(n.b.gather(data, n.b.integers(kept), at));
}

LogicalResult importUnique(Node &n) {
  auto value = n.countedInput(0);
  if (failed(value))
    return failure();
  int64_t outer = 1, size = value->count(), inner = 1;
  bool flat = !n.hasAttr("axis");
  int64_t at = 0;
  if (!flat) {
    auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
    if (failed(axis))
      return failure();
    at = *axis;
    size = n.shape(0)[at];
    for (auto [d, extent] : llvm::enumerate(n.shape(0)))
      (int64_t(d) < at ? outer : inner) *= int64_t(d) == at ? 1 : extent;
  }
  using Key = std::vector<double>;
  std::map<Key, std::pair<int64_t, int64_t>> known; // first place, count
  std::vector<Key> keys(size);
  std::vector<Key> order;
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t k = 0; k < inner; ++k)
        keys[i].push_back(value->getFloat((o * size + i) * inner + k));
    auto [entry, isNew] = known.insert({keys[i], {i, 0}});
    ++entry->second.second;
    if (isNew)
      order.push_back(keys[i]);
  }
  if (n.intAttr("sorted", 1))
    llvm::sort(order);
  SmallVector<int64_t> first, counts, inverse;
  for (const Key &key : order) {
    first.push_back(known[key].first);
    counts.push_back(known[key].second);
  }
  for (const Key &key : keys)
    inverse.push_back(llvm::find(order, key) - order.begin());
  Value data = flat ? n.b.reshape(n.in(0), {size}) : n.in(0);
  n.give(0, n.b.gather(data, n.b.integers(first), at));
  n.give(1, n.b.integers(first));
  n.give(2, n.b.integers(inverse));
  return n.set(3, n.b.integers(counts));
}

} // namespace

void addShapeOperators(OperatorTable &table) {
  auto add = [&](StringRef name, OperatorFunction function, int64_t first = 1) {
    table.push_back({"", name, first, 0, function});
  };
  add("Shape", importShape);
  add("Size", importSize);
  add("NonZero", importNonZero, 9);
  add("Compress", importCompress, 9);
  add("Unique", importUnique, 11);
}

} // namespace colossal::onnx_import
