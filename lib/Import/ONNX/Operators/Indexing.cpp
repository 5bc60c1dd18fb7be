//===- Indexing.cpp - ONNX reads and writes at computed places --------------===//
//
// Gather and scatter in their three forms, and what is made of them.
//
//===----------------------------------------------------------------------===//
#include "../../Patterns/Matching.h"
#include "../Importer.h"
#include "../Operator.h"

using namespace mlir;

namespace colossal::onnx_import {

namespace {

bool isIndexType(Type type) {
  return type.isSignlessInteger(64) || type.isSignlessInteger(32);
}

LogicalResult checkIndices(Node &n, size_t i) {
  if (!isIndexType(n.element(i)))
    return n.error() << "indices must be i32 or i64";
  return success();
}

LogicalResult importGather(Node &n) {
  if (failed(n.require(2)) || failed(checkIndices(n, 1)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (failed(axis))
    return failure();
  // Constant indices that fold name no shard of anything: a slice.
  if (auto indices = evaluate(n.in(1)); indices && indices->count() == 1) {
    int64_t size = n.shape(0)[*axis], at = indices->getInt(0);
    at += at < 0 ? size : 0;
    if (at < 0 || at >= size)
      return n.error() << "index " << indices->getInt(0) << " is outside dimension " << *axis << " of size "
                       << size;
    SmallVector<int64_t> shape(n.shape(0).take_front(*axis));
    llvm::append_range(shape, n.shape(1));
    llvm::append_range(shape, n.shape(0).drop_front(*axis + 1));
    return n.set(n.b.reshape(n.b.sliceDim(n.in(0), *axis, at, 1), shape));
  }
  return n.set(n.b.gather(n.in(0), n.in(1), *axis));
}

LogicalResult checkSmaller(Node &n, int64_t axis) {
  bool fits = n.rank(0) == n.rank(1);
  for (int64_t d = 0; fits && d < n.rank(0); ++d)
    fits = d == axis || n.shape(1)[d] <= n.shape(0)[d];
  if (!fits)
    return n.error() << n.in(1).getType() << " does not index " << n.in(0).getType();
  return success();
}

LogicalResult importGatherElements(Node &n) {
  if (failed(n.require(2)) || failed(checkIndices(n, 1)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  if (failed(axis) || failed(checkSmaller(n, *axis)))
    return failure();
  return n.set(n.b.gatherElements(n.in(0), n.in(1), *axis));
}

/// `tuples` of the file as sums of iotas where they are that: exporters of fixed shapes write so what was
/// computed of the batch and the place, and patterns look into no constant of their size.
Value countTuples(Node &n, Value tuples) {
  auto parameter = tuples.getDefiningOp<ParameterOp>();
  const auto known = parameter ? n.importer.evaluate(tuples) : std::nullopt;
  SmallVector<Affine> parts;
  if (!known || !matchTuples(*known, parts))
    return tuples;
  const RankedTensorType type = known->type;
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = 1;
  SmallVector<Value> columns;
  for (const Affine &part : parts) {
    Value column = n.b.iota(shape, type.getElementType(), type.getRank() - 1, double(part.constant), 0);
    for (auto [d, coefficient] : llvm::enumerate(part.coefficients))
      if (coefficient)
        column = n.b.add(column, n.b.iota(shape, type.getElementType(), int64_t(d), 0, double(coefficient)));
    columns.push_back(column);
  }
  return n.b.concat(columns, type.getRank() - 1);
}

LogicalResult importGatherND(Node &n) {
  if (failed(n.require(2)) || failed(checkIndices(n, 1)))
    return failure();
  int64_t batch = n.intAttr("batch_dims", 0), depth = n.rank(1) ? n.shape(1).back() : 0;
  bool fits = n.rank(1) >= 1 && batch >= 0 && batch < n.rank(1) && depth >= 1 && batch + depth <= n.rank(0) &&
              n.shape(0).take_front(batch) == n.shape(1).take_front(batch);
  if (!fits)
    return n.error() << n.in(1).getType() << " does not index " << n.in(0).getType();
  return n.set(n.b.gatherND(n.in(0), countTuples(n, n.in(1)), batch));
}

FailureOr<ScatterReduction> getReduction(Node &n) {
  StringRef name = n.stringAttr("reduction", "none");
  if (auto reduction = symbolizeScatterReduction(name))
    return *reduction;
  return n.error() << "reduction '" << name << "' is unknown";
}

LogicalResult importScatterElements(Node &n) {
  if (failed(n.require(3)) || failed(checkIndices(n, 1)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  auto reduction = getReduction(n);
  if (failed(axis) || failed(reduction) || failed(checkSmaller(n, *axis)))
    return failure();
  if (n.shape(1) != n.shape(2))
    return n.error() << "indices and updates differ in shape";
  return n.set(n.b.finish(ScatterElementsOp::create(n.b.ops(), n.b.loc(), n.in(0).getType(), n.in(0), n.in(1),
                                                    n.in(2), uint64_t(*axis), *reduction)));
}

LogicalResult importScatterND(Node &n) {
  if (failed(n.require(3)) || failed(checkIndices(n, 1)))
    return failure();
  auto reduction = getReduction(n);
  if (failed(reduction))
    return failure();
  int64_t depth = n.rank(1) ? n.shape(1).back() : 0;
  SmallVector<int64_t> expected(n.rank(1) ? n.shape(1).drop_back() : ArrayRef<int64_t>());
  if (depth >= 1 && depth <= n.rank(0))
    llvm::append_range(expected, n.shape(0).drop_front(depth));
  if (depth < 1 || depth > n.rank(0) || n.shape(2) != ArrayRef<int64_t>(expected))
    return n.error() << n.in(1).getType() << " and " << n.in(2).getType() << " do not fit "
                     << n.in(0).getType();
  return n.set(n.b.finish(
      ScatterNDOp::create(n.b.ops(), n.b.loc(), n.in(0).getType(), n.in(0), n.in(1), n.in(2), *reduction)));
}

/// indices == 0 .. depth - 1 (negative ones from the end), then on or off value.
LogicalResult importOneHot(Node &n) {
  if (failed(n.require(3)))
    return failure();
  auto depths = n.intsInput(1);
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(0) + 1);
  if (failed(depths) || failed(axis))
    return failure();
  if (depths->size() != 1 || depths->front() < 0 || GraphBuilder::typeOf(n.in(2)).getNumElements() != 2)
    return n.error() << "one depth and two values are expected";
  int64_t depth = depths->front();
  Type i64 = n.b.ops().getI64Type();
  Value indices = n.b.cast(n.in(0), i64), zero = n.b.scalar(i64, 0);
  Value isNegative = n.b.elementwise(ElementwiseKind::Less, {indices, zero});
  indices = n.b.select(isNegative, n.b.add(indices, n.b.scalar(i64, double(depth))), indices);
  SmallVector<int64_t> places(n.rank(0) + 1, 1);
  places[*axis] = depth;
  Value same = n.b.elementwise(ElementwiseKind::Equal,
                               {n.b.unsqueeze(indices, {*axis}), n.b.iota(places, i64, *axis)});
  Value off = n.b.reshape(n.b.sliceDim(n.in(2), 0, 0, 1), {}),
        on = n.b.reshape(n.b.sliceDim(n.in(2), 0, 1, 1), {});
  return n.set(n.b.select(same, on, off));
}

/// Keeps row - column <= k (lower: column <= row + k).
LogicalResult importTrilu(Node &n) {
  if (failed(n.require(1)))
    return failure();
  if (n.rank(0) < 2)
    return n.error() << "a matrix is expected";
  int64_t k = 0;
  if (n.in(1)) {
    auto given = n.intsInput(1);
    if (failed(given))
      return failure();
    k = given->empty() ? 0 : given->front();
  }
  Type i64 = n.b.ops().getI64Type();
  int64_t rows = n.shape(0)[n.rank(0) - 2], columns = n.shape(0).back();
  Value edge = n.b.iota({rows, 1}, i64, 0, double(k)), column = n.b.iota({1, columns}, i64, 1);
  auto kind = n.intAttr("upper", 1) ? ElementwiseKind::GreaterOrEqual : ElementwiseKind::LessOrEqual;
  Value keep = n.b.elementwise(kind, {column, edge});
  return n.set(n.b.select(keep, n.in(0), n.b.scalar(n.element(0), 0)));
}

/// Element t of row b comes from len[b] - 1 - t where t < len[b].
LogicalResult importReverseSequence(Node &n) {
  if (failed(n.require(2)))
    return failure();
  int64_t time = n.intAttr("time_axis", 0), batch = n.intAttr("batch_axis", 1);
  if (n.rank(0) < 2 || time < 0 || batch < 0 || time > 1 || batch > 1 || time == batch || n.rank(1) != 1 ||
      n.shape(1)[0] != n.shape(0)[batch])
    return n.error() << "time and batch axes must be 0 and 1, with one length per batch";
  Type i64 = n.b.ops().getI64Type();
  SmallVector<int64_t> timeShape(n.rank(0), 1), lengthShape(n.rank(0), 1);
  timeShape[time] = n.shape(0)[time];
  lengthShape[batch] = n.shape(0)[batch];
  Value place = n.b.iota(timeShape, i64, time), length = n.b.reshape(n.b.cast(n.in(1), i64), lengthShape);
  Value back = n.b.sub(n.b.sub(length, n.b.scalar(i64, 1)), place);
  Value inside = n.b.elementwise(ElementwiseKind::Less, {place, length});
  Value source = n.b.broadcast(n.b.select(inside, back, place), n.shape(0));
  return n.set(n.b.gatherElements(n.in(0), source, time));
}

/// Writes update [.., s, ..] into a cache at per-batch places along `axis`.
LogicalResult importTensorScatter(Node &n) {
  if (failed(n.require(2)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", -2), n.rank(0));
  if (failed(axis))
    return failure();
  StringRef mode = n.stringAttr("mode", "linear");
  if (*axis == 0 || n.rank(1) != n.rank(0) || (n.in(2) && (n.rank(2) != 1 || n.shape(2)[0] != n.shape(0)[0])))
    return n.error() << "shapes of cache, update and places do not fit";
  Type i64 = n.b.ops().getI64Type();
  SmallVector<int64_t> along(n.rank(0), 1), batch(n.rank(0), 1);
  along[*axis] = n.shape(1)[*axis];
  batch[0] = n.shape(0)[0];
  Value place = n.b.iota(along, i64, *axis);
  if (n.in(2))
    place = n.b.add(place, n.b.reshape(n.b.cast(n.in(2), i64), batch));
  if (mode == "circular")
    place = n.b.elementwise(ElementwiseKind::Mod, {place, n.b.scalar(i64, double(n.shape(0)[*axis]))});
  Value indices = n.b.broadcast(place, n.shape(1));
  return n.set(ScatterElementsOp::create(n.b.ops(), n.b.loc(), n.in(0).getType(), n.in(0), indices, n.in(1),
                                         uint64_t(*axis), ScatterReduction::None));
}

} // namespace

void addIndexingOperators(OperatorTable &table) {
  auto add = [&](StringRef name, OperatorFunction function, int64_t first = 1, int64_t last = 0) {
    table.push_back({"", name, first, last, function});
  };
  add("Gather", importGather);
  add("GatherElements", importGatherElements, 11);
  add("GatherND", importGatherND, 11);
  add("ScatterElements", importScatterElements, 11);
  add("Scatter", importScatterElements, 9);
  add("ScatterND", importScatterND, 11);
  add("OneHot", importOneHot, 9);
  add("Trilu", importTrilu, 14);
  add("ReverseSequence", importReverseSequence, 10);
  add("TensorScatter", importTensorScatter, 24);
}

} // namespace colossal::onnx_import
