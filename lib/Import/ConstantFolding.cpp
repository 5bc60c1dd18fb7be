//===- ConstantFolding.cpp - colossal ops on host tensors -------------------===//
//
// An op is evaluated by interpreting its element code (ElementFolder.h), an element at a time, so that a new
// op folds as it is. Those that occur by the thousand in shape arithmetic and in the making of masks and
// tables (elementwise, movement, indexing, running sums, ranges) are evaluated here, a tensor at a time and
// splats as one element; FoldingTest.cpp holds them to their element code. What costs more than a moment is
// left to run time.
//
//===----------------------------------------------------------------------===//
#include "ElementwiseEvaluation.h"
#include "HostTensor.h"

#include "colossal/Codegen/ElementFolder.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/NarrowTypes.h"
#include "llvm/ADT/DenseMap.h"
#include <cmath>

using namespace mlir;

namespace colossal {

namespace {

/// Operands of more elements are not read.
constexpr int64_t kMostRead = int64_t(1) << 22;

SmallVector<int64_t> getStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int i = int(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

/// Calls `body(index, flat)` for every index of `shape` in row-major order.
template <typename Body>
void forEachIndex(ArrayRef<int64_t> shape, Body body) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t flat = 0; flat < count; ++flat) {
    body(ArrayRef<int64_t>(index), flat);
    for (int d = int(shape.size()) - 1; d >= 0 && ++index[d] == shape[d]; --d)
      index[d] = 0;
  }
}

void copyElement(HostTensor &to, int64_t i, const HostTensor &from, int64_t j) {
  if (to.isFloat())
    to.floats[i] = from.floats[from.splat ? 0 : j];
  else
    to.ints[i] = from.ints[from.splat ? 0 : j];
}

using Results = std::optional<std::vector<HostTensor>>;

Results single(HostTensor tensor) {
  std::vector<HostTensor> results;
  results.push_back(std::move(tensor));
  return results;
}

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// An input as a splat of another type.
Results resplat(const HostTensor &input, RankedTensorType type) {
  HostTensor result(type, true);
  copyElement(result, 0, input, 0);
  return single(result);
}

/// result[index] = input[f(index)], where f gives a flat position or -1 for `fill`.
template <typename Place>
Results rearrange(const HostTensor &input, RankedTensorType type, Place place,
                  const HostTensor *fill = nullptr) {
  HostTensor result(type);
  bool valid = true;
  forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index, int64_t flat) {
    int64_t from = place(index);
    if (from >= 0 && from < input.count())
      copyElement(result, flat, input, from);
    else if (from == -1 && fill)
      copyElement(result, flat, *fill, 0);
    else if (from != -1)
      valid = false;
  });
  return valid ? single(std::move(result)) : std::nullopt;
}

Results evaluateMovement(Operation *op, ArrayRef<HostTensor> in, RankedTensorType type) {
  ArrayRef<int64_t> shape = type.getShape();
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    HostTensor result = in[0];
    result.type = type;
    return single(std::move(result));
  }
  if (isa<TransposeOp, BroadcastOp, SliceOp>(op) && in[0].splat)
    return resplat(in[0], type);
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    auto strides = getStrides(in[0].type.getShape());
    return rearrange(in[0], type, [&](ArrayRef<int64_t> index) {
      int64_t at = 0;
      for (auto [i, from] : llvm::enumerate(transpose.getPermutation()))
        at += index[i] * strides[from];
      return at;
    });
  }
  if (isa<BroadcastOp>(op)) {
    auto strides = getStrides(in[0].type.getShape());
    return rearrange(in[0], type, [&](ArrayRef<int64_t> index) {
      int64_t at = 0, skip = index.size() - strides.size();
      for (size_t d = 0; d < strides.size(); ++d)
        at += in[0].type.getDimSize(d) == 1 ? 0 : index[d + skip] * strides[d];
      return at;
    });
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    auto strides = getStrides(in[0].type.getShape());
    return rearrange(in[0], type, [&](ArrayRef<int64_t> index) {
      int64_t at = 0;
      for (size_t d = 0; d < strides.size(); ++d)
        at += (slice.getStarts()[d] + index[d] * slice.getSteps()[d]) * strides[d];
      return at;
    });
  }
  if (auto pad = dyn_cast<PadOp>(op)) {
    if (pad.getMode() != PadMode::Constant)
      return std::nullopt;
    auto strides = getStrides(in[0].type.getShape());
    HostTensor zero(RankedTensorType::get({}, type.getElementType()));
    return rearrange(
        in[0], type,
        [&](ArrayRef<int64_t> index) {
          int64_t at = 0;
          for (size_t d = 0; d < strides.size(); ++d) {
            int64_t i = index[d] - pad.getLow()[d];
            if (i < 0 || i >= in[0].type.getDimSize(d))
              return int64_t(-1);
            at += i * strides[d];
          }
          return at;
        },
        in.size() > 1 ? &in[1] : &zero);
  }
  auto concat = cast<ConcatOp>(op);
  HostTensor result(type);
  auto strides = getStrides(shape);
  int64_t start = 0;
  for (const HostTensor &part : in) {
    forEachIndex(part.type.getShape(), [&](ArrayRef<int64_t> index, int64_t flat) {
      int64_t at = start * strides[concat.getAxis()];
      for (size_t d = 0; d < strides.size(); ++d)
        at += index[d] * strides[d];
      copyElement(result, at, part, flat);
    });
    start += part.type.getDimSize(concat.getAxis());
  }
  return single(std::move(result));
}

/// A tensor that is indexed by the elements of another.
class Indexed {
public:
  Indexed(const HostTensor &data, const HostTensor &indices)
      : indices(indices), shape(data.type.getShape()), strides(getStrides(shape)),
        indexStrides(getStrides(indices.type.getShape())) {}

  /// Flat position of the index tensor's element at `index`; of trailing dimensions that are left out, the
  /// first.
  int64_t placeOf(ArrayRef<int64_t> index) const {
    int64_t place = 0;
    for (auto [i, stride] : llvm::zip(index, indexStrides))
      place += i * stride;
    return place;
  }
  /// The index that stands at a flat position, as one of dimension `dim` of the data.
  int64_t read(int64_t place, int64_t dim) const {
    int64_t index = indices.getInt(place);
    return index < 0 ? index + shape[dim] : index;
  }
  /// Flat position of the data's element at index `along(d)` of each dimension d; -2 where there is none.
  template <typename Along>
  int64_t find(Along along) const {
    int64_t at = 0;
    for (auto [d, stride] : llvm::enumerate(strides)) {
      int64_t index = along(static_cast<int64_t>(d));
      if (index < 0 || index >= shape[d])
        return -2;
      at += index * stride;
    }
    return at;
  }

private:
  const HostTensor &indices;
  ArrayRef<int64_t> shape;
  SmallVector<int64_t> strides, indexStrides;
};

Results evaluateGather(GatherOp op, ArrayRef<HostTensor> in, RankedTensorType type) {
  if (op.getOffset())
    return std::nullopt;
  Indexed indexed(in[0], in[1]);
  const int64_t axis = op.getAxis(), extra = in[1].type.getRank();
  return rearrange(in[0], type, [&](ArrayRef<int64_t> index) {
    const int64_t place = indexed.placeOf(index.slice(axis, extra));
    return indexed.find([&](int64_t d) {
      return d < axis ? index[d] : d > axis ? index[d + extra - 1] : indexed.read(place, d);
    });
  });
}

Results evaluateGatherElements(GatherElementsOp op, ArrayRef<HostTensor> in, RankedTensorType type) {
  Indexed indexed(in[0], in[1]);
  const int64_t axis = op.getAxis();
  return rearrange(in[0], type, [&](ArrayRef<int64_t> index) {
    const int64_t place = indexed.placeOf(index);
    return indexed.find([&](int64_t d) { return d == axis ? indexed.read(place, d) : index[d]; });
  });
}

Results evaluateGatherND(GatherNDOp op, ArrayRef<HostTensor> in, RankedTensorType type) {
  Indexed indexed(in[0], in[1]);
  const int64_t depth = in[1].type.getShape().back(), outer = in[1].type.getRank() - 1,
                batch = op.getBatchDims();
  return rearrange(in[0], type, [&](ArrayRef<int64_t> index) {
    const int64_t place = indexed.placeOf(index.take_front(outer));
    return indexed.find([&](int64_t d) {
      return d < batch           ? index[d]
             : d < batch + depth ? indexed.read(place + d - batch, d)
                                 : index[outer + d - batch - depth];
    });
  });
}

/// The data with the updates in their places. `find` gives the place of an update by its index, as
/// Indexed::find does.
Results scatter(const HostTensor &data, const HostTensor &updates, ScatterReduction reduction,
                llvm::function_ref<int64_t(ArrayRef<int64_t>)> find) {
  if (reduction != ScatterReduction::None)
    return std::nullopt;
  HostTensor result = data.expanded();
  bool valid = true;
  forEachIndex(updates.type.getShape(), [&](ArrayRef<int64_t> index, int64_t flat) {
    const int64_t at = find(index);
    valid &= at >= 0;
    if (valid)
      copyElement(result, at, updates, flat);
  });
  return valid ? single(std::move(result)) : std::nullopt;
}

Results evaluateScatterElements(ScatterElementsOp op, ArrayRef<HostTensor> in) {
  Indexed indexed(in[0], in[1]);
  const int64_t axis = op.getAxis();
  return scatter(in[0], in[2], op.getReduction(), [&](ArrayRef<int64_t> index) {
    const int64_t place = indexed.placeOf(index);
    return indexed.find([&](int64_t d) { return d == axis ? indexed.read(place, d) : index[d]; });
  });
}

Results evaluateScatterND(ScatterNDOp op, ArrayRef<HostTensor> in) {
  Indexed indexed(in[0], in[1]);
  const int64_t depth = in[1].type.getShape().back(), outer = in[1].type.getRank() - 1;
  return scatter(in[0], in[2], op.getReduction(), [&](ArrayRef<int64_t> index) {
    const int64_t place = indexed.placeOf(index.take_front(outer));
    return indexed.find(
        [&](int64_t d) { return d < depth ? indexed.read(place + d, d) : index[outer + d - depth]; });
  });
}

Results evaluateScan(CumulateOp op, const HostTensor &input, RankedTensorType type) {
  HostTensor result(type);
  auto strides = getStrides(type.getShape());
  int64_t axis = op.getAxis(), size = type.getDimSize(axis), stride = strides[axis];
  bool product = op.getProduct();
  forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index, int64_t flat) {
    if (index[axis] != 0)
      return;
    double total = product;
    int64_t whole = product;
    for (int64_t k = 0; k < size; ++k) {
      int64_t at = flat + (op.getReverse() ? size - 1 - k : k) * stride;
      auto write = [&] { input.isFloat() ? result.setFloat(at, total) : result.setInt(at, whole); };
      if (op.getExclusive())
        write();
      if (input.isFloat())
        total = product ? total * input.getFloat(at) : total + input.getFloat(at);
      else
        whole = product ? whole * input.getInt(at) : whole + input.getInt(at);
      if (!op.getExclusive())
        write();
    }
  });
  return single(std::move(result));
}

/// Any op with element code.
Results interpret(Operation *op, ArrayRef<HostTensor> in, int64_t limit) {
  SmallVector<Attribute> operands;
  for (const HostTensor &tensor : in)
    operands.push_back(tensor.toAttr());
  FoldLimits limits;
  limits.elements = limit;
  limits.instructions = int64_t(1) << 24;
  FailureOr<DenseElementsAttr> value = foldElements(op, operands, 0, limits);
  std::optional<HostTensor> result;
  if (succeeded(value))
    result = HostTensor::fromAttr(*value);
  return result ? single(std::move(*result)) : Results();
}

/// Whether only element code says what the op gives: of bits, and of what saturates or rounds to a narrow
/// type.
bool needsElementCode(ElementwiseOp op) {
  return op.getKind() == ElementwiseKind::Bitcast ||
         (op.getKind() == ElementwiseKind::Cast && isNarrow(op.getResult().getType().getElementType()));
}

HostTensor evaluateIota(IotaOp op, RankedTensorType type) {
  HostTensor result(type);
  forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index, int64_t flat) {
    int64_t i = index[op.getAxis()];
    double value = op.getStart().convertToDouble() + op.getStep().convertToDouble() * double(i);
    result.isFloat() ? result.setFloat(flat, value) : result.setInt(flat, int64_t(value));
  });
  return result;
}

} // namespace

Results evaluateOp(Operation *op, ArrayRef<HostTensor> operands, int64_t limit) {
  if (op->getNumResults() != 1)
    return std::nullopt;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || !type.getElementType().isIntOrFloat())
    return std::nullopt;
  bool splats = llvm::all_of(operands, [](const HostTensor &t) { return t.splat || t.count() == 1; }) &&
                !operands.empty();
  if (splats && type.getNumElements() > 1 &&
      isa<ElementwiseOp, BroadcastOp, TransposeOp, ReshapeOp, SliceOp>(op)) {
    if (auto elementwise = dyn_cast<ElementwiseOp>(op); elementwise && !needsElementCode(elementwise))
      return evaluateElementwise(elementwise, operands, type, /*splat=*/true);
    if (!isa<ElementwiseOp>(op) && (!isa<ReshapeOp>(op) || operands[0].splat))
      return resplat(operands[0], type);
  }
  // A constant of one value may be of any size, and what reduces it would read every element.
  auto isLong = [&](const HostTensor &tensor) { return tensor.count() > std::max(limit, kMostRead); };
  if (type.getNumElements() > limit || llvm::any_of(operands, isLong))
    return std::nullopt;
  if (auto elementwise = dyn_cast<ElementwiseOp>(op); elementwise && !needsElementCode(elementwise))
    return evaluateElementwise(elementwise, operands, type, /*splat=*/false);
  if (isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp, ConcatOp, PadOp>(op))
    return evaluateMovement(op, operands, type);
  if (auto gather = dyn_cast<GatherOp>(op))
    return evaluateGather(gather, operands, type);
  if (auto gather = dyn_cast<GatherElementsOp>(op))
    return evaluateGatherElements(gather, operands, type);
  if (auto gather = dyn_cast<GatherNDOp>(op))
    return evaluateGatherND(gather, operands, type);
  if (auto scatter = dyn_cast<ScatterElementsOp>(op))
    return evaluateScatterElements(scatter, operands);
  if (auto scatter = dyn_cast<ScatterNDOp>(op))
    return evaluateScatterND(scatter, operands);
  if (auto scan = dyn_cast<CumulateOp>(op))
    return evaluateScan(scan, operands[0], type);
  if (auto iota = dyn_cast<IotaOp>(op); iota && !iota.getOffset())
    return single(evaluateIota(iota, type));
  return operands.empty() ? Results() : interpret(op, operands, limit);
}

static std::optional<HostTensor> evaluate(Value value, ParameterReader reader, int64_t limit,
                                          llvm::DenseMap<Value, std::optional<HostTensor>> &known) {
  auto found = known.find(value);
  if (found != known.end())
    return found->second;
  std::optional<HostTensor> result;
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast_or_null<ConstantOp>(op)) {
    result = HostTensor::fromAttr(constant.getValue());
  } else if (isa_and_nonnull<ParameterOp>(op)) {
    if (reader && typeOf(value).getNumElements() <= limit)
      result = reader(op);
  } else if (op && op->getNumResults() == 1 && isa_and_nonnull<ColossalDialect>(op->getDialect()) &&
             !isa<RandomOp, DropoutOp>(op)) {
    std::vector<HostTensor> operands;
    bool all = true;
    for (Value operand : op->getOperands()) {
      auto one = evaluate(operand, reader, limit, known);
      if (!(all = one.has_value()))
        break;
      operands.push_back(std::move(*one));
    }
    if (all)
      if (auto results = evaluateOp(op, operands, limit))
        result = std::move(results->front());
  }
  known[value] = result;
  return result;
}

std::optional<HostTensor> evaluate(Value value, ParameterReader reader, int64_t limit) {
  if (auto constant = value.getDefiningOp<ConstantOp>())
    return HostTensor::fromAttr(constant.getValue());
  llvm::DenseMap<Value, std::optional<HostTensor>> known;
  return evaluate(value, reader, limit, known);
}

} // namespace colossal
