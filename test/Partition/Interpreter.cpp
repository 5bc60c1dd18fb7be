//===- Interpreter.cpp - partitioned functions, run on all ranks at once ----===//
#include "Interpreter.h"

#include "colossal/Codegen/ElementFolder.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"

#include <cmath>
#include <stdexcept>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::test;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Attribute test::toAttribute(const Tensor &tensor, MLIRContext *context) {
  if (!tensor.type)
    return IntegerAttr::get(IndexType::get(context), static_cast<int64_t>(tensor.data.front()));
  Type element = tensor.type.getElementType();
  if (auto type = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> numbers;
    for (double number : tensor.data) {
      APFloat value(number);
      bool loses;
      value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &loses);
      numbers.push_back(value);
    }
    return DenseElementsAttr::get(tensor.type, numbers);
  }
  if (element.isInteger(1)) {
    SmallVector<bool> numbers;
    for (double number : tensor.data)
      numbers.push_back(number != 0);
    return DenseElementsAttr::get(tensor.type, numbers);
  }
  SmallVector<APInt> numbers;
  for (double number : tensor.data)
    numbers.push_back(APInt(element.getIntOrFloatBitWidth(), static_cast<int64_t>(number), /*isSigned=*/true,
                            /*implicitTrunc=*/true));
  return DenseElementsAttr::get(tensor.type, numbers);
}

Tensor test::fromAttribute(DenseElementsAttr attribute) {
  Tensor tensor{cast<RankedTensorType>(attribute.getType()), {}};
  if (isa<FloatType>(tensor.type.getElementType())) {
    for (APFloat value : attribute.getValues<APFloat>()) {
      bool loses;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
      tensor.data.push_back(value.convertToDouble());
    }
    return tensor;
  }
  Type element = tensor.type.getElementType();
  bool isUnsigned = element.isInteger(1) || element.isUnsignedInteger();
  for (APInt value : attribute.getValues<APInt>())
    tensor.data.push_back(value.roundToDouble(!isUnsigned));
  return tensor;
}

static SmallVector<int64_t> getStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t d = static_cast<int64_t>(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

static int64_t countElements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

//===----------------------------------------------------------------------===//
// Shards
//===----------------------------------------------------------------------===//

static SmallVector<int64_t> getCoordinates(MeshAttr mesh, int64_t rank) {
  SmallVector<int64_t> coordinates(mesh.getNumAxes());
  for (int64_t axis = mesh.getNumAxes() - 1; axis >= 0; --axis) {
    coordinates[axis] = rank % mesh.getAxisSize(axis);
    rank /= mesh.getAxisSize(axis);
  }
  return coordinates;
}

std::vector<int64_t> test::getPlaces(ShardingAttr sharding, MeshAttr mesh, int64_t rank) {
  SmallVector<int64_t> coordinates = getCoordinates(mesh, rank);
  std::vector<int64_t> places{0};
  for (DimShardingAttr dim : sharding.getDims())
    for (FactorShardAttr factor : dim.getFactors()) {
      // Chunk after chunk: what is left of the factor on this rank is [start, end), stored in `chunk` places.
      int64_t start = 0, stop = factor.getSize(), chunk = factor.getSize();
      for (unsigned axis : factor.getAxes()) {
        chunk = (chunk + mesh.getAxisSize(axis) - 1) / mesh.getAxisSize(axis);
        start += coordinates[axis] * chunk;
        stop = std::min(stop, start + chunk);
      }
      std::vector<int64_t> next;
      for (int64_t place : places)
        for (int64_t i = 0; i < chunk; ++i)
          next.push_back(place < 0 || start + i >= stop ? -1 : place * factor.getSize() + start + i);
      places = std::move(next);
    }
  return places;
}

Tensor test::takeShard(const Tensor &global, ShardingAttr sharding, MeshAttr mesh, int64_t rank,
                       double padding) {
  Tensor shard{RankedTensorType::get(sharding.getLocalShape(mesh), global.type.getElementType()), {}};
  for (int64_t place : getPlaces(sharding, mesh, rank))
    shard.data.push_back(place < 0 ? padding : global.data[place]);
  return shard;
}

Tensor test::joinShards(const std::vector<Tensor> &shards, ShardingAttr sharding, MeshAttr mesh,
                        double tolerance, std::string &error) {
  Tensor global{RankedTensorType::get(sharding.getGlobalShape(), shards.front().type.getElementType()), {}};
  global.data.assign(countElements(global.type.getShape()), 0.0);
  std::vector<char> isSet(global.data.size(), 0);
  double largest = 0;
  for (const Tensor &shard : shards)
    for (double value : shard.data)
      if (std::isfinite(value))
        largest = std::max(largest, std::fabs(value));
  for (size_t rank = 0; rank < shards.size(); ++rank) {
    std::vector<int64_t> places = getPlaces(sharding, mesh, rank);
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] < 0)
        continue;
      double value = shards[rank].data[i], &have = global.data[places[i]];
      if (isSet[places[i]] && !(have == value || (std::isnan(have) && std::isnan(value)) ||
                                std::fabs(have - value) <= tolerance * largest))
        error = "rank " + std::to_string(rank) + " has another value of element " + std::to_string(places[i]);
      isSet[places[i]] = 1;
      have = value;
    }
  }
  for (size_t i = 0; i < isSet.size(); ++i)
    if (!isSet[i])
      error = "element " + std::to_string(i) + " is on no rank";
  return global;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

int64_t Interpreter::getCoordinate(int64_t rank, unsigned axis) const {
  return getCoordinates(mesh, rank)[axis];
}

std::vector<int64_t> Interpreter::getGroup(int64_t rank, ArrayRef<int64_t> axes) const {
  std::vector<int64_t> group{0};
  SmallVector<int64_t> own = getCoordinates(mesh, rank);
  // Row-major over `axes` in their order; the other coordinates are the rank's own.
  std::vector<SmallVector<int64_t>> members{own};
  for (int64_t axis : axes) {
    std::vector<SmallVector<int64_t>> next;
    for (const auto &member : members)
      for (int64_t c = 0; c < mesh.getAxisSize(axis); ++c) {
        next.push_back(member);
        next.back()[axis] = c;
      }
    members = std::move(next);
  }
  group.clear();
  for (const auto &member : members) {
    int64_t number = 0;
    for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis)
      number = number * mesh.getAxisSize(axis) + member[axis];
    group.push_back(number);
  }
  return group;
}

/// Attention by its definition in Attention.td: the result, and the statistics where the op has them.
static std::vector<Tensor> attend(AttentionOp op, ArrayRef<const Tensor *> operands) {
  const Tensor &q = *operands[0], &k = *operands[1], &v = *operands[2];
  unsigned next = 3;
  const Tensor *mask = op.getMask() ? operands[next++] : nullptr;
  auto offset = static_cast<int64_t>(op.getCausalOffset());
  if (op.getQueryOffset())
    offset += static_cast<int64_t>(operands[next++]->data.front());
  ArrayRef<int64_t> qs = q.type.getShape(), ks = k.type.getShape(), vs = v.type.getShape();
  int64_t keys = op.getKeyCount() ? operands[next]->data.front() : ks[2];
  std::vector<Tensor> results;
  for (Value value : op->getResults())
    results.push_back({cast<RankedTensorType>(value.getType()), {}});
  double scale = op.getScale().convertToDouble(), cap = op.getSoftcap().convertToDouble();
  auto maskAt = [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    int64_t index[] = {b, h, i, j}, place = 0;
    ArrayRef<int64_t> shape = mask->type.getShape();
    for (size_t d = 0; d < shape.size(); ++d)
      place = place * shape[d] + (shape[d] == 1 ? 0 : index[4 - shape.size() + d]);
    return mask->data[place];
  };
  for (int64_t b = 0; b < qs[0]; ++b)
    for (int64_t h = 0; h < qs[1]; ++h)
      for (int64_t i = 0; i < qs[2]; ++i) {
        int64_t kh = h / (qs[1] / ks[1]);
        std::vector<double> weights(ks[2], 0.0);
        double greatest = -INFINITY, sum = 0;
        for (int64_t j = 0; j < ks[2]; ++j) {
          double score = 0;
          for (int64_t d = 0; d < qs[3]; ++d)
            score += q.data[((b * qs[1] + h) * qs[2] + i) * qs[3] + d] *
                     k.data[((b * ks[1] + kh) * ks[2] + j) * ks[3] + d];
          score *= scale;
          if (cap != 0)
            score = cap * std::tanh(score / cap);
          if (mask)
            score = mask->type.getElementType().isInteger(1) ? (maskAt(b, h, i, j) != 0 ? score : -INFINITY)
                                                             : score + maskAt(b, h, i, j);
          if (j >= keys || (op.getCausal() && j > i + offset))
            score = -INFINITY;
          weights[j] = score;
          greatest = std::max(greatest, score);
        }
        for (double &weight : weights)
          sum += weight = std::exp(weight - greatest);
        if (results.size() > 1)
          results[1].data.push_back(greatest == -INFINITY ? greatest : greatest + std::log(sum));
        const bool isEmpty = op.getGuard() && greatest == -INFINITY;
        for (int64_t d = 0; d < vs[3]; ++d) {
          double total = 0;
          for (int64_t j = 0; j < ks[2]; ++j)
            if (weights[j] != 0)
              total += weights[j] / sum * v.data[((b * vs[1] + kh) * vs[2] + j) * vs[3] + d];
          results[0].data.push_back(isEmpty ? 0 : total);
        }
      }
  return results;
}

/// The gradients of attention by their definition in Attention.td. The weights come of attention to an
/// identity matrix, so that there is one definition of what is hidden.
static std::vector<Tensor> differentiate(AttentionGradientOp op, ArrayRef<const Tensor *> operands) {
  const Tensor &q = *operands[0], &k = *operands[1], &v = *operands[2], &y = *operands[3], &dy = *operands[4];
  ArrayRef<int64_t> qs = q.type.getShape(), ks = k.type.getShape(), vs = v.type.getShape();
  const int64_t group = qs[1] / ks[1];
  OpBuilder builder(op);
  auto identityType = RankedTensorType::get({qs[0], ks[1], ks[2], ks[2]}, q.type.getElementType());
  Tensor identity{identityType, std::vector<double>(identityType.getNumElements(), 0.0)};
  for (int64_t i = 0; i < qs[0] * ks[1] * ks[2]; ++i)
    identity.data[i * ks[2] + i % ks[2]] = 1;
  auto weightType = RankedTensorType::get({qs[0], qs[1], qs[2], ks[2]}, q.type.getElementType());
  auto like =
      AttentionOp::create(builder, op.getLoc(), weightType, Type(), op.getQuery(), op.getKey(), op.getValue(),
                          op.getMask(), op.getQueryOffset(), Value(), op.getScaleAttr(), op.getCausalAttr(),
                          op.getCausalOffsetAttr(), op.getSoftcapAttr(), op.getGuardAttr());
  std::vector<const Tensor *> given{&q, &k, &identity};
  given.insert(given.end(), operands.begin() + 5, operands.end());
  const Tensor weights = attend(like, given)[0];
  like.erase();
  const double scale = op.getScale().convertToDouble(), cap = op.getSoftcap().convertToDouble();
  std::vector<Tensor> results;
  for (const Tensor *of : {&q, &k, &v})
    results.push_back({of->type, std::vector<double>(of->data.size(), 0.0)});
  for (int64_t row = 0; row < qs[0] * qs[1] * qs[2]; ++row) {
    const int64_t head = row / qs[2] / group; // of keys: heads of queries stand in groups of equal size
    double sum = 0;
    for (int64_t d = 0; d < vs[3]; ++d)
      sum += dy.data[row * vs[3] + d] * y.data[row * vs[3] + d];
    for (int64_t j = 0; j < ks[2]; ++j) {
      const double weight = weights.data[row * ks[2] + j];
      if (weight == 0)
        continue;
      const int64_t key = head * ks[2] + j;
      double slope = -sum, product = 0;
      for (int64_t d = 0; d < vs[3]; ++d) {
        slope += dy.data[row * vs[3] + d] * v.data[key * vs[3] + d];
        results[2].data[key * vs[3] + d] += weight * dy.data[row * vs[3] + d];
      }
      slope *= weight;
      if (cap != 0) {
        for (int64_t d = 0; d < qs[3]; ++d)
          product += scale * q.data[row * qs[3] + d] * k.data[key * qs[3] + d];
        slope *= 1 - std::pow(std::tanh(product / cap), 2);
      }
      for (int64_t d = 0; d < qs[3]; ++d) {
        results[0].data[row * qs[3] + d] += scale * slope * k.data[key * qs[3] + d];
        results[1].data[key * qs[3] + d] += scale * slope * q.data[row * qs[3] + d];
      }
    }
  }
  return results;
}

void Interpreter::runElements(Operation &op, int64_t rank) {
  SmallVector<Attribute> operands;
  SmallVector<const Tensor *> tensors;
  for (Value operand : op.getOperands()) {
    tensors.push_back(&values[rank][operand]);
    if (!isa<AttentionOp, AttentionGradientOp>(op))
      operands.push_back(toAttribute(values[rank][operand], op.getContext()));
  }
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    for (auto [value, result] : llvm::zip_equal(op.getResults(), attend(attention, tensors)))
      values[rank][value] = result;
    return;
  }
  if (auto gradient = dyn_cast<AttentionGradientOp>(op)) {
    for (auto [value, result] : llvm::zip_equal(op.getResults(), differentiate(gradient, tensors)))
      values[rank][value] = result;
    return;
  }
  for (OpResult result : op.getResults()) {
    FailureOr<DenseElementsAttr> folded = foldElements(&op, operands, result.getResultNumber());
    if (failed(folded))
      throw std::runtime_error("cannot evaluate " + op.getName().getStringRef().str());
    values[rank][result] = fromAttribute(*folded);
  }
}

bool Interpreter::runScalar(Operation &op, int64_t rank) {
  if (op.getNumResults() != 1 || !op.getResult(0).getType().isIndex())
    return false;
  auto operand = [&](unsigned i) {
    return static_cast<int64_t>(values[rank][op.getOperand(i)].data.front());
  };
  int64_t value;
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    value = cast<IntegerAttr>(constant.getValue()).getInt();
  else if (auto coordinate = dyn_cast<CoordinateOp>(op))
    value = getCoordinate(rank, coordinate.getAxis());
  else if (isa<arith::AddIOp>(op))
    value = operand(0) + operand(1);
  else if (isa<arith::SubIOp>(op))
    value = operand(0) - operand(1);
  else if (isa<arith::MulIOp>(op))
    value = operand(0) * operand(1);
  else if (isa<arith::MinSIOp>(op))
    value = std::min(operand(0), operand(1));
  else if (isa<arith::MaxSIOp>(op))
    value = std::max(operand(0), operand(1));
  else
    throw std::runtime_error("unexpected index op " + op.getName().getStringRef().str());
  values[rank][op.getResult(0)] = Tensor{{}, {static_cast<double>(value)}};
  return true;
}

static double combine(shard::ReductionKind kind, double a, double b, Type element) {
  switch (kind) {
  case shard::ReductionKind::Sum: {
    double sum = a + b;
    return element.isF32() ? static_cast<float>(sum) : sum;
  }
  case shard::ReductionKind::Max: return std::max(a, b);
  case shard::ReductionKind::Min: return std::min(a, b);
  case shard::ReductionKind::Product: return a * b;
  case shard::ReductionKind::BitwiseAnd: return a != 0 && b != 0;
  case shard::ReductionKind::BitwiseOr: return a != 0 || b != 0;
  default: throw std::runtime_error("unexpected reduction");
  }
}

/// Elements [start, start + size) of a dimension.
static Tensor takeRange(const Tensor &tensor, int64_t dim, int64_t start, int64_t size) {
  SmallVector<int64_t> shape(tensor.type.getShape());
  int64_t extent = shape[dim], inner = countElements(ArrayRef(shape).drop_front(dim + 1));
  int64_t outer = countElements(ArrayRef(shape).take_front(dim));
  shape[dim] = size;
  Tensor part{tensor.type.clone(shape), {}};
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = start; i < start + size; ++i)
      for (int64_t n = 0; n < inner; ++n)
        part.data.push_back(tensor.data[(o * extent + i) * inner + n]);
  return part;
}

static Tensor concatenate(ArrayRef<Tensor> parts, int64_t dim) {
  SmallVector<int64_t> shape(parts.front().type.getShape());
  int64_t inner = countElements(ArrayRef(shape).drop_front(dim + 1)),
          outer = countElements(ArrayRef(shape).take_front(dim));
  int64_t extent = shape[dim];
  shape[dim] *= parts.size();
  Tensor whole{parts.front().type.clone(shape), {}};
  for (int64_t o = 0; o < outer; ++o)
    for (const Tensor &part : parts)
      whole.data.insert(whole.data.end(), part.data.begin() + o * extent * inner,
                        part.data.begin() + (o + 1) * extent * inner);
  return whole;
}

bool Interpreter::runCollective(Operation &op) {
  auto axesAttr = op.getAttrOfType<DenseI16ArrayAttr>("grid_axes");
  if (!axesAttr || !isa<shard::AllGatherOp, shard::AllReduceOp, shard::ReduceScatterOp, shard::AllToAllOp,
                        shard::AllSliceOp>(op))
    return false;
  SmallVector<int64_t> axes(axesAttr.asArrayRef().begin(), axesAttr.asArrayRef().end());
  std::vector<Tensor> results;
  for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank) {
    std::vector<int64_t> group = getGroup(rank, axes);
    int64_t place = llvm::find(group, rank) - group.begin(), members = group.size();
    auto inputOf = [&](int64_t member) -> const Tensor & { return values[group[member]][op.getOperand(0)]; };
    auto reduceAll = [&](shard::ReductionKind kind) {
      Tensor total = inputOf(0);
      for (int64_t m = 1; m < members; ++m)
        for (size_t i = 0; i < total.data.size(); ++i)
          total.data[i] = combine(kind, total.data[i], inputOf(m).data[i], total.type.getElementType());
      return total;
    };
    auto share = [&](const Tensor &tensor, int64_t dim, int64_t member) {
      int64_t size = tensor.type.getDimSize(dim) / members;
      return takeRange(tensor, dim, member * size, size);
    };
    if (auto gather = dyn_cast<shard::AllGatherOp>(op)) {
      SmallVector<Tensor> parts;
      for (int64_t m = 0; m < members; ++m)
        parts.push_back(inputOf(m));
      results.push_back(concatenate(parts, gather.getGatherAxis().getSExtValue()));
    } else if (auto reduce = dyn_cast<shard::AllReduceOp>(op)) {
      results.push_back(reduceAll(reduce.getReduction()));
    } else if (auto scatter = dyn_cast<shard::ReduceScatterOp>(op)) {
      results.push_back(
          share(reduceAll(scatter.getReduction()), scatter.getScatterAxis().getSExtValue(), place));
    } else if (auto slice = dyn_cast<shard::AllSliceOp>(op)) {
      results.push_back(share(inputOf(place), slice.getSliceAxis().getSExtValue(), place));
    } else {
      auto exchange = cast<shard::AllToAllOp>(op);
      SmallVector<Tensor> parts;
      for (int64_t m = 0; m < members; ++m)
        parts.push_back(share(inputOf(m), exchange.getSplitAxis().getSExtValue(), place));
      results.push_back(concatenate(parts, exchange.getConcatAxis().getSExtValue()));
    }
  }
  for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank)
    values[rank][op.getResult(0)] = results[rank];
  return true;
}

/// A fill beyond an integer type's range is its least or greatest value.
static double getFill(double fill, Type element) {
  if (!element.isInteger())
    return fill;
  if (element.isInteger(1))
    return fill != 0;
  if (element.isUnsignedInteger())
    return std::min(std::max(fill, 0.0), std::ldexp(1.0, element.getIntOrFloatBitWidth()) - 1);
  double greatest = std::ldexp(1.0, element.getIntOrFloatBitWidth() - 1);
  return std::min(std::max(fill, -greatest), greatest - 1);
}

bool Interpreter::runDist(Operation &op) {
  auto indexOf = [&](int64_t rank, Value value) {
    return static_cast<int64_t>(values[rank][value].data.front());
  };
  std::vector<Tensor> results;
  for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank) {
    if (auto mask = dyn_cast<MaskPaddingOp>(op)) {
      Tensor tensor = values[rank][mask.getInput()];
      SmallVector<int64_t> strides = getStrides(mask.getExtents());
      for (size_t i = 0; i < tensor.data.size(); ++i)
        for (auto [place, valid] : llvm::zip_equal(mask.getMasked(), mask.getValid()))
          if (static_cast<int64_t>(i) / strides[place] % mask.getExtents()[place] >= indexOf(rank, valid))
            tensor.data[i] = getFill(mask.getFill().convertToDouble(), tensor.type.getElementType());
      results.push_back(tensor);
    } else if (auto exchange = dyn_cast<ExchangeOp>(op)) {
      auto type = cast<RankedTensorType>(exchange.getType());
      int64_t dim = exchange.getDim(), extent = type.getDimSize(dim),
              first = indexOf(rank, exchange.getDstStart());
      int64_t inner = countElements(type.getShape().drop_front(dim + 1)),
              outer = countElements(type.getShape().take_front(dim));
      Tensor window{
          type, std::vector<double>(countElements(type.getShape()), exchange.getFill().convertToDouble())};
      for (int64_t member : getGroup(rank, exchange.getAxes())) {
        const Tensor &source = values[member][exchange.getInput()];
        int64_t start = indexOf(member, exchange.getSrcStart()),
                valid = indexOf(member, exchange.getSrcValid());
        for (int64_t i = 0; i < extent; ++i)
          if (first + i >= start && first + i < start + valid)
            for (int64_t o = 0; o < outer; ++o)
              for (int64_t n = 0; n < inner; ++n)
                window.data[(o * extent + i) * inner + n] =
                    source.data[(o * source.type.getDimSize(dim) + first + i - start) * inner + n];
      }
      results.push_back(window);
    } else if (auto parameter = dyn_cast<ParameterOp>(op)) {
      const Tensor &global = parameters.at(parameter.getName().str());
      auto sharding = parameter->getAttrOfType<ShardingAttr>(kShardingAttrName);
      results.push_back(sharding ? takeShard(global, sharding, mesh, rank, 0.0) : global);
    } else {
      return false;
    }
  }
  for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank)
    values[rank][op.getResult(0)] = results[rank];
  return true;
}

void Interpreter::runOp(Operation &op) {
  if (runCollective(op) || runDist(op))
    return;
  for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank)
    if (!runScalar(op, rank))
      runElements(op, rank);
}

std::vector<std::vector<Tensor>> Interpreter::run(func::FuncOp function,
                                                  std::vector<std::vector<Tensor>> arguments) {
  int64_t ranks = mesh.getNumRanks();
  values.assign(ranks, llvm::DenseMap<Value, Tensor>());
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (auto [argument, tensor] : llvm::zip_equal(function.getArguments(), arguments[rank]))
      values[rank][argument] = tensor;
  for (Operation &op : function.front().without_terminator())
    runOp(op);
  std::vector<std::vector<Tensor>> results(ranks);
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (Value value : function.front().getTerminator()->getOperands())
      results[rank].push_back(values[rank][value]);
  return results;
}
