//===- Normalization.cpp - ONNX normalizations and softmaxes ----------------===//
//
// Layer, RMS, group and instance normalization are `normalize` (on a reshaped tensor); batch normalization
// with given statistics is a scale and a shift per channel; the rest is composed.
//
//===----------------------------------------------------------------------===//
#include "../Importer.h"
#include "../Operator.h"
#include "colossal/Import/ParameterRoles.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace colossal::onnx_import {

namespace {

/// A tensor [C] as [C, 1, ..., 1], which broadcasts over `spatial` trailing dimensions.
Value perChannel(Node &n, Value value, int64_t spatial) {
  SmallVector<int64_t> shape = {GraphBuilder::typeOf(value).getNumElements()};
  shape.append(spatial, 1);
  return n.b.reshape(value, shape);
}

LogicalResult importLayerNormalization(Node &n) {
  if (failed(n.require(1)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  if (failed(axis))
    return failure();
  for (size_t i : {1, 2})
    if (n.in(i) && failed(n.checkBroadcast({n.in(0), n.in(i)})))
      return failure();
  double epsilon = n.floatAttr("epsilon", 1e-5f);
  n.give(0, n.b.normalize(NormalizeKind::Layer, n.in(0), n.in(1), n.in(2), *axis, epsilon));
  if (!n.wants(1) && !n.wants(2))
    return success();
  Type stash = getElementType(n.importer.context(), n.intAttr("stash_type", 1));
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(*axis, n.rank(0)));
  Value x = n.b.cast(n.in(0), stash ? stash : n.b.ops().getF32Type());
  Value mean = n.b.reduce(ReduceKind::Mean, x, axes, true);
  Value centered = n.b.sub(x, mean);
  Value variance = n.b.reduce(ReduceKind::Mean, n.b.mul(centered, centered), axes, true);
  Value shifted = n.b.add(variance, n.b.scalar(GraphBuilder::elementOf(x), epsilon));
  n.give(1, mean);
  return n.set(2, n.b.unary(ElementwiseKind::Reciprocal, n.b.unary(ElementwiseKind::Sqrt, shifted)));
}

LogicalResult importRMSNormalization(Node &n) {
  if (failed(n.require(2)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  if (failed(axis) || failed(n.checkBroadcast({n.in(0), n.in(1)})))
    return failure();
  Value scale = n.b.cast(n.in(1), n.element(0));
  return n.set(n.b.normalize(NormalizeKind::RMS, n.in(0), scale, {}, *axis, n.floatAttr("epsilon", 1e-5f)));
}

/// x [N, C, spatial] in groups: normalized over all of a group, then scaled per channel (or per group in
/// version 18).
LogicalResult normalizeGroups(Node &n, int64_t groups, bool scalePerGroup) {
  if (failed(n.require(3)))
    return failure();
  if (n.rank(0) < 2 || groups <= 0 || n.shape(0)[1] % groups)
    return n.error() << "the channels are not a multiple of the groups";
  int64_t batch = n.shape(0)[0], channels = n.shape(0)[1];
  int64_t rest = GraphBuilder::typeOf(n.in(0)).getNumElements() / std::max<int64_t>(1, batch * groups);
  int64_t scales = scalePerGroup ? groups : channels;
  for (size_t i : {1, 2})
    if (n.rank(i) != 1 || n.shape(i)[0] != scales)
      return n.error() << "input " << i << " must have " << scales << " elements";
  Value scale = n.in(1), bias = n.in(2);
  double epsilon = n.floatAttr("epsilon", 1e-5f);
  Value x = n.b.reshape(n.in(0), {batch, groups, rest});
  Value normal = n.b.normalize(NormalizeKind::Layer, x, {}, {}, 2, epsilon);
  if (scalePerGroup) {
    bias = perChannel(n, bias, 1);
    Value result = n.b.add(n.b.mul(normal, perChannel(n, scale, 1)), bias);
    return n.set(n.b.reshape(result, n.shape(0)));
  }
  int64_t spatial = n.rank(0) - 2;
  Value result = n.b.reshape(normal, n.shape(0));
  bias = perChannel(n, bias, spatial);
  return n.set(n.b.add(n.b.mul(result, perChannel(n, scale, spatial)), bias));
}

LogicalResult importGroupNormalization(Node &n) {
  return normalizeGroups(n, n.intAttr("num_groups", 0), n.version < 21);
}

LogicalResult importInstanceNormalization(Node &n) {
  if (failed(n.require(3)))
    return failure();
  return normalizeGroups(n, n.rank(0) > 1 ? n.shape(0)[1] : 0, false);
}

/// A running statistic, told apart from parameters of equal contents that are trained.
Value markStatistic(Node &n, Value value) {
  auto parameter = value.getDefiningOp<ParameterOp>();
  if (!parameter || parameter->hasAttr(kStatisticAttr))
    return value;
  OpBuilder::InsertionGuard guard(n.b.ops());
  n.b.ops().setInsertionPointAfter(parameter);
  Operation *copy = n.b.ops().clone(*parameter);
  copy->setAttr(kStatisticAttr, n.b.ops().getUnitAttr());
  return copy->getResult(0);
}

/// Whether the node takes the statistics of its batch: before version 14 one that gives statistics does.
bool takesBatchStatistics(Node &n) {
  if (n.version >= 14)
    return n.intAttr("training_mode", 0) != 0;
  return llvm::any_of(llvm::drop_begin(n.proto.output()),
                      [](const std::string &name) { return !name.empty(); });
}

struct BatchStatistics {
  Value mean, variance; ///< of each channel over the batch
  Value centered;       ///< the input less its mean
};

BatchStatistics getBatchStatistics(Node &n, Type element) {
  int64_t spatial = std::max<int64_t>(0, n.rank(0) - 2);
  SmallVector<int64_t> axes = {0};
  for (int64_t d = 2; d < n.rank(0); ++d)
    axes.push_back(d);
  Value wide = n.b.cast(n.in(0), element);
  Value mean = n.b.reduce(ReduceKind::Mean, wide, axes, false);
  Value centered = n.b.sub(wide, perChannel(n, mean, spatial));
  return {mean, n.b.reduce(ReduceKind::Mean, n.b.mul(centered, centered), axes, false), centered};
}

/// A batch normalization of which training makes two things.
LogicalResult importTrainedBatchNormalization(Node &n, Value x, int64_t channels, Value mean,
                                              Value variance) {
  SmallVector<int64_t> shape(n.shape(0));
  if (n.rank(0) < 2)
    x = n.b.reshape(x, {n.rank(0) ? shape[0] : 1, 1});
  auto flat = [&](Value value) { return n.b.reshape(value, {channels}); };
  mean = flat(mean);
  variance = flat(variance);
  auto op = BatchNormalizeOp::create(n.b.ops(), n.b.loc(), x.getType(), GraphBuilder::typeOf(mean),
                                     GraphBuilder::typeOf(variance), x, flat(n.in(1)), flat(n.in(2)), mean,
                                     variance, APFloat(double(n.floatAttr("epsilon", 1e-5f))),
                                     APFloat(double(n.floatAttr("momentum", 0.9f))));
  n.give(1, op.getUpdatedMean());
  n.give(2, op.getUpdatedVariance());
  if (n.wants(3) || n.wants(4)) {
    const BatchStatistics now = getBatchStatistics(n, GraphBuilder::elementOf(variance));
    n.give(3, now.mean);
    n.give(4, now.variance);
  }
  return n.set(0, n.b.reshape(op.getResult(), shape));
}

LogicalResult importBatchNormalization(Node &n) {
  if (failed(n.require(5)))
    return failure();
  int64_t channels = n.rank(0) > 1 ? n.shape(0)[1] : 1, spatial = std::max<int64_t>(0, n.rank(0) - 2);
  for (size_t i = 1; i < 5; ++i)
    if (GraphBuilder::typeOf(n.in(i)).getNumElements() != channels)
      return n.error() << "input " << i << " must have " << channels << " elements";
  double epsilon = n.floatAttr("epsilon", 1e-5f);
  Value x = n.in(0), mean = markStatistic(n, n.in(3)), variance = markStatistic(n, n.in(4));
  Value centered; // less the statistics of the batch
  Type statistics = GraphBuilder::elementOf(variance);
  const ImportOptions &options = n.importer.getOptions();
  bool isOfBatch = takesBatchStatistics(n);
  if (options.isTrained)
    isOfBatch = options.takesBatchStatistics.value_or(isOfBatch);
  if (options.isTrained && isOfBatch && !options.computesBatchStatistics)
    return importTrainedBatchNormalization(n, x, channels, mean, variance);
  if (options.isTrained && !isOfBatch) {
    n.give(1, mean);
    n.give(2, variance);
  }
  if (isOfBatch) {
    double momentum = n.floatAttr("momentum", 0.9f);
    const BatchStatistics now = getBatchStatistics(n, statistics);
    auto blend = [&](Value old, Value fresh) {
      fresh = n.b.mul(fresh, n.b.scalar(statistics, 1 - momentum));
      return n.b.add(n.b.mul(old, n.b.scalar(statistics, momentum)), fresh);
    };
    n.give(1, blend(mean, now.mean));
    n.give(2, blend(variance, now.variance));
    n.give(3, now.mean);
    n.give(4, now.variance);
    mean = now.mean;
    variance = now.variance;
    centered = now.centered;
  }
  // scale / sqrt(variance + epsilon) is computed once per channel.
  Value root = n.b.unary(ElementwiseKind::Sqrt, n.b.add(variance, n.b.scalar(statistics, epsilon)));
  Value factor = n.b.div(n.b.cast(n.in(1), statistics), root);
  Value shift = n.b.cast(n.in(2), statistics), from = centered;
  if (!centered) {
    shift = n.b.sub(shift, n.b.mul(mean, factor));
    from = n.b.cast(x, statistics);
  }
  Value scaled = n.b.mul(from, perChannel(n, factor, spatial));
  return n.set(0, n.b.cast(n.b.add(scaled, perChannel(n, shift, spatial)), n.element(0)));
}

LogicalResult importLpNormalization(Node &n) {
  if (failed(n.require(1)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", -1), n.rank(0));
  if (failed(axis))
    return failure();
  ReduceKind kind = n.intAttr("p", 2) == 1 ? ReduceKind::L1 : ReduceKind::L2;
  Value norm = n.b.reduce(kind, n.in(0), *axis, true);
  Value zero = n.b.scalar(n.element(0), 0);
  Value isZero = n.b.elementwise(ElementwiseKind::Equal, {norm, zero});
  return n.set(n.b.select(isZero, zero, n.b.div(n.in(0), norm)));
}

/// Sum of squares over a window of channels, by slices of the padded squares.
LogicalResult importLRN(Node &n) {
  if (failed(n.require(1)))
    return failure();
  int64_t size = n.intAttr("size", 0);
  if (n.rank(0) < 2 || size <= 0 || size > 4096)
    return n.error() << "a tensor [N, C, ...] and a size are expected";
  double alpha = n.floatAttr("alpha", 1e-4f), beta = n.floatAttr("beta", 0.75f),
         bias = n.floatAttr("bias", 1.0f);
  Value x = n.in(0);
  Type element = n.element(0);
  SmallVector<int64_t> low(n.rank(0), 0), high(n.rank(0), 0);
  low[1] = (size - 1) / 2;
  high[1] = size - 1 - low[1];
  Value squares = n.b.pad(n.b.mul(x, x), low, high), sum;
  for (int64_t i = 0; i < size; ++i) {
    Value part = n.b.sliceDim(squares, 1, i, n.shape(0)[1]);
    sum = sum ? n.b.add(sum, part) : part;
  }
  Value base = n.b.add(n.b.mul(sum, n.b.scalar(element, alpha / double(size))), n.b.scalar(element, bias));
  return n.set(n.b.div(x, n.b.elementwise(ElementwiseKind::Pow, {base, n.b.scalar(element, beta)})));
}

LogicalResult importMeanVarianceNormalization(Node &n) {
  if (failed(n.require(1)))
    return failure();
  SmallVector<int64_t> given = n.hasAttr("axes") ? n.intsAttr("axes") : SmallVector<int64_t>{0, 2, 3};
  auto axes = n.axes(given, n.rank(0));
  if (failed(axes))
    return failure();
  Value x = n.in(0);
  Value mean = n.b.reduce(ReduceKind::Mean, x, *axes, true);
  Value square = n.b.reduce(ReduceKind::Mean, n.b.mul(x, x), *axes, true);
  Value deviation = n.b.unary(ElementwiseKind::Sqrt, n.b.sub(square, n.b.mul(mean, mean)));
  return n.set(n.b.div(n.b.sub(x, mean), n.b.add(deviation, n.b.scalar(n.element(0), 1e-9))));
}

/// Before version 13 the dimensions from `axis` on (default 1) are one; since then `axis` (default -1) alone
/// counts.
template <typename Function>
LogicalResult alongAxis(Node &n, Function function) {
  if (failed(n.require(1)))
    return failure();
  bool coerced = n.version < 13;
  int64_t rank = n.rank(0);
  if (rank == 0)
    return n.set(n.b.reshape(function(n.b.reshape(n.in(0), {1}), 0), {}));
  auto axis = n.axis(n.intAttr("axis", coerced ? 1 : -1), std::max<int64_t>(rank, coerced ? 2 : 0));
  if (failed(axis))
    return failure();
  if (!coerced || *axis == rank - 1)
    return n.set(function(n.in(0), *axis));
  int64_t outer = 1, inner = 1;
  for (auto [d, size] : llvm::enumerate(n.shape(0)))
    (int64_t(d) < *axis ? outer : inner) *= size;
  return n.set(n.b.reshape(function(n.b.reshape(n.in(0), {outer, inner}), 1), n.shape(0)));
}

LogicalResult importSoftmax(Node &n) {
  return alongAxis(n, [&](Value x, int64_t axis) { return n.b.softmax(x, axis); });
}
LogicalResult importLogSoftmax(Node &n) {
  return alongAxis(n, [&](Value x, int64_t axis) { return n.b.softmax(x, axis, /*log=*/true); });
}
LogicalResult importHardmax(Node &n) {
  return alongAxis(n, [&](Value x, int64_t axis) {
    Value best = n.b.argReduce(x, axis, false, true, false);
    SmallVector<int64_t> shape(GraphBuilder::rankOf(x), 1);
    shape[axis] = GraphBuilder::shapeOf(x)[axis];
    Value place = n.b.iota(shape, n.b.ops().getI64Type(), axis);
    return n.b.cast(n.b.elementwise(ElementwiseKind::Equal, {place, best}), n.element(0));
  });
}

} // namespace

void addNormalizationOperators(OperatorTable &table) {
  auto add = [&](StringRef name, OperatorFunction function, int64_t first = 1) {
    table.push_back({"", name, first, 0, function});
  };
  add("LayerNormalization", importLayerNormalization); // exporters write it before version 17, too
  add("RMSNormalization", importRMSNormalization, 23);
  add("GroupNormalization", importGroupNormalization, 18);
  add("InstanceNormalization", importInstanceNormalization);
  add("BatchNormalization", importBatchNormalization, 7);
  add("LpNormalization", importLpNormalization);
  add("LRN", importLRN);
  add("MeanVarianceNormalization", importMeanVarianceNormalization, 9);
  add("Softmax", importSoftmax);
  add("LogSoftmax", importLogSoftmax);
  add("Hardmax", importHardmax);
}

} // namespace colossal::onnx_import
