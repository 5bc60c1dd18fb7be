//===- IndexChecks.cpp - intervals of indices, against what they index --------===//
#include "IndexChecks.h"
#include "HostTensor.h"

#include "colossal/Import/ONNX.h"
#include "dialects/Colossal/Colossal.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <cmath>

using namespace mlir;

namespace colossal {

namespace {

/// Constants of more elements than that are not looked at.
constexpr int64_t kMostConstants = int64_t(1) << 20;
/// Values that are computed in more steps from what is known are taken as unknown.
constexpr int kMostSteps = 64;

struct Interval {
  double low = -INFINITY, high = INFINITY;
  bool isWithin(double least, double greatest) const { return low >= least && high <= greatest; }
  Interval joined(Interval other) const { return {std::min(low, other.low), std::max(high, other.high)}; }
};

/// Indices and the dimension that they count in; negative ones count from its end.
struct IndexUse {
  Value indices;
  int64_t extent;
};

/// The data that is indexed is operand 0.
std::optional<IndexUse> getIndexUse(Operation *op) {
  auto shape = [&] { return cast<RankedTensorType>(op->getOperand(0).getType()).getShape(); };
  auto most = [&](int64_t first) {
    int64_t depth = cast<RankedTensorType>(op->getOperand(1).getType()).getShape().back(), extent = 0;
    for (int64_t size : shape().slice(first, depth))
      extent = std::max(extent, size);
    return extent;
  };
  if (auto gather = dyn_cast<GatherOp>(op))
    return IndexUse{gather.getIndices(), shape()[gather.getAxis()]};
  if (auto gather = dyn_cast<GatherElementsOp>(op))
    return IndexUse{gather.getIndices(), shape()[gather.getAxis()]};
  if (auto scatter = dyn_cast<ScatterElementsOp>(op))
    return IndexUse{scatter.getIndices(), shape()[scatter.getAxis()]};
  if (auto gather = dyn_cast<GatherNDOp>(op))
    return IndexUse{gather.getIndices(), most(gather.getBatchDims())};
  if (auto scatter = dyn_cast<ScatterNDOp>(op))
    return IndexUse{scatter.getIndices(), most(0)};
  return std::nullopt;
}

class Intervals {
public:
  Interval find(Value value, int steps = 0) {
    if (auto found = known.find(value); found != known.end())
      return found->second;
    Interval interval = steps > kMostSteps ? Interval() : compute(value, steps);
    if (std::isnan(interval.low) || std::isnan(interval.high))
      interval = {};
    Interval ofType = getTypeInterval(getElementTypeOrSelf(value.getType()));
    // What may wrap around can be anything.
    if (!interval.isWithin(ofType.low, ofType.high))
      interval = ofType;
    return known[value] = interval;
  }

private:
  static Interval getTypeInterval(Type type) {
    auto integer = dyn_cast<IntegerType>(type);
    if (!integer)
      return {};
    unsigned width = integer.getWidth();
    if (width == 1)
      return {0, 1};
    if (width > 32)
      return {};
    return integer.isUnsigned() ? Interval{0, std::ldexp(1, width) - 1}
                                : Interval{-std::ldexp(1, width - 1), std::ldexp(1, width - 1) - 1};
  }

  static Interval ofConstant(ElementsAttr attr) {
    auto tensor =
        attr.getNumElements() <= kMostConstants || attr.isSplat() ? HostTensor::fromAttr(attr) : std::nullopt;
    if (!tensor || tensor->count() == 0)
      return {};
    Interval interval{INFINITY, -INFINITY};
    for (int64_t i = 0, count = tensor->splat ? 1 : tensor->count(); i < count; ++i) {
      double value = tensor->getFloat(i);
      if (std::isnan(value))
        return {};
      interval = interval.joined({value, value});
    }
    return interval;
  }

  Interval compute(Value value, int steps) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return {};
    auto at = [&](unsigned i) { return find(op->getOperand(i), steps + 1); };
    auto size = [&](Value tensor, int64_t axis) {
      return double(cast<RankedTensorType>(tensor.getType()).getDimSize(axis));
    };
    if (auto constant = dyn_cast<ConstantOp>(op))
      return ofConstant(constant.getValue());
    if (auto iota = dyn_cast<IotaOp>(op); iota && !iota.getOffset()) {
      double first = iota.getStart().convertToDouble(),
             last = first + iota.getStep().convertToDouble() * std::max(0.0, size(value, iota.getAxis()) - 1);
      return {std::min(first, last), std::max(first, last)};
    }
    if (isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp, GatherOp, GatherElementsOp, GatherNDOp>(op))
      return at(0);
    if (isa<ConcatOp>(op)) {
      Interval all = at(0);
      for (unsigned i = 1; i < op->getNumOperands(); ++i)
        all = all.joined(at(i));
      return all;
    }
    if (auto reduce = dyn_cast<ArgReduceOp>(op))
      return {0, std::max(0.0, size(reduce.getInput(), reduce.getAxis()) - 1)};
    if (auto top = dyn_cast<TopKOp>(op))
      return value == top.getIndices() ? Interval{0, std::max(0.0, size(top.getInput(), top.getAxis()) - 1)}
                                       : at(0);
    if (auto sum = dyn_cast<CumulateOp>(op); sum && !sum.getProduct()) {
      Interval each = at(0);
      double count = size(sum.getInput(), sum.getAxis());
      return {std::min(0.0, each.low * count), std::max(0.0, each.high * count)};
    }
    if (auto elementwise = dyn_cast<ElementwiseOp>(op))
      return computeElementwise(elementwise, at);
    return {};
  }

  Interval computeElementwise(ElementwiseOp op, llvm::function_ref<Interval(unsigned)> at) {
    auto combine = [&](auto function) {
      Interval all = at(0);
      for (unsigned i = 1; i < op->getNumOperands(); ++i)
        all = function(all, at(i));
      return all;
    };
    auto corners = [](double a, double b, double c, double d) {
      return Interval{std::min({a, b, c, d}), std::max({a, b, c, d})};
    };
    switch (op.getKind()) {
    case ElementwiseKind::Cast: {
      Interval from = at(0);
      // To an integer, toward zero.
      return isa<IntegerType>(op.getResult().getType().getElementType())
                 ? Interval{std::trunc(from.low), std::trunc(from.high)}
                 : from;
    }
    case ElementwiseKind::Floor: return {std::floor(at(0).low), std::floor(at(0).high)};
    case ElementwiseKind::Ceil: return {std::ceil(at(0).low), std::ceil(at(0).high)};
    case ElementwiseKind::Round: return {std::floor(at(0).low), std::ceil(at(0).high)};
    case ElementwiseKind::Relu: return {std::max(0.0, at(0).low), std::max(0.0, at(0).high)};
    case ElementwiseKind::Neg: return {-at(0).high, -at(0).low};
    case ElementwiseKind::Add:
      return combine([](Interval a, Interval b) { return Interval{a.low + b.low, a.high + b.high}; });
    case ElementwiseKind::Sub:
      return combine([](Interval a, Interval b) { return Interval{a.low - b.high, a.high - b.low}; });
    case ElementwiseKind::Mul:
      return combine([&](Interval a, Interval b) {
        return corners(a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high);
      });
    case ElementwiseKind::Max:
      return combine(
          [](Interval a, Interval b) { return Interval{std::max(a.low, b.low), std::max(a.high, b.high)}; });
    case ElementwiseKind::Min:
      return combine(
          [](Interval a, Interval b) { return Interval{std::min(a.low, b.low), std::min(a.high, b.high)}; });
    case ElementwiseKind::Mod: {
      Interval divisor = at(1); // the sign is the divisor's
      bool isInteger = isa<IntegerType>(op.getResult().getType().getElementType());
      return divisor.low > 0 ? Interval{0, divisor.high - isInteger} : Interval();
    }
    case ElementwiseKind::Select: return at(1).joined(at(2));
    case ElementwiseKind::Clip: {
      if (op->getNumOperands() != 3)
        return {};
      Interval x = at(0), low = at(1), high = at(2);
      return {std::min(std::max(x.low, low.low), high.low), std::min(std::max(x.high, low.high), high.high)};
    }
    default: return {};
    }
  }

  llvm::DenseMap<Value, Interval> known;
};

/// The argument whose elements these are, each at least once; null where they are computed.
BlockArgument findArgument(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    auto elementwise = dyn_cast<ElementwiseOp>(op);
    bool widens = elementwise && elementwise.getKind() == ElementwiseKind::Cast &&
                  getElementTypeOrSelf(op->getOperand(0).getType()).isSignlessInteger(32) &&
                  getElementTypeOrSelf(value.getType()).isSignlessInteger(64);
    if (!widens && !isa<ReshapeOp, TransposeOp, BroadcastOp>(op))
      return {};
    value = op->getOperand(0);
  }
  return cast<BlockArgument>(value);
}

bool dependsOnArgument(Value value) {
  SmallVector<Value> work = {value};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    Operation *op = next.getDefiningOp();
    if (!op)
      return true;
    llvm::append_range(work, op->getOperands());
  }
  return false;
}

std::string describe(Operation *op) {
  if (auto parameter = dyn_cast<ParameterOp>(op))
    return parameter.getName().str();
  auto name = op->getLoc()->findInstanceOf<NameLoc>();
  return name ? name.getName().str() : op->getName().getStringRef().str();
}

LogicalResult checkConstant(Operation *op, const IndexUse &use) {
  auto values = evaluate(use.indices, nullptr, kMostConstants);
  if (!values)
    return success();
  for (int64_t i = 0, count = values->splat ? std::min<int64_t>(1, values->count()) : values->count();
       i < count; ++i) {
    int64_t index = values->getInt(i);
    if (index >= -use.extent && index < use.extent)
      continue;
    InFlightDiagnostic error = emitError(op->getLoc());
    error << "index " << index << " is outside a dimension of size " << use.extent;
    if (Operation *data = op->getOperand(0).getDefiningOp())
      error << " of '" << describe(data) << "'";
    error << "; a dimension of the inputs may be bound too large";
    return error;
  }
  return success();
}

} // namespace

LogicalResult checkIndices(func::FuncOp function) {
  Intervals intervals;
  llvm::DenseMap<Value, std::pair<int64_t, Operation *>> checks; // the least extent, and who asks for it
  SmallVector<Value> order;
  for (Operation &op : function.getBody().front()) {
    std::optional<IndexUse> use = getIndexUse(&op);
    if (!use || cast<RankedTensorType>(use->indices.getType()).getNumElements() == 0)
      continue;
    if (intervals.find(use->indices).isWithin(-double(use->extent), double(use->extent) - 1))
      continue;
    if (!dependsOnArgument(use->indices)) {
      if (failed(checkConstant(&op, *use)))
        return failure();
      continue;
    }
    Value checked = use->indices;
    if (BlockArgument argument = findArgument(checked))
      checked = argument;
    auto [known, isNew] = checks.try_emplace(checked, use->extent, &op);
    if (isNew)
      order.push_back(checked);
    else if (use->extent < known->second.first)
      known->second = {use->extent, &op};
  }
  Builder builder(function.getContext());
  auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
  for (Value value : order) {
    auto [extent, op] = checks.lookup(value);
    NamedAttrList attributes;
    attributes.set(kRangeAttr, builder.getDenseI64ArrayAttr({-extent, extent - 1}));
    attributes.set(kRangeUserAttr, builder.getStringAttr(describe(op)));
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      for (NamedAttribute attribute : attributes)
        function.setArgAttr(argument.getArgNumber(), attribute.getName(), attribute.getValue());
      continue;
    }
    attributes.set(kOnnxNameAttr, builder.getStringAttr("indices of " + describe(op)));
    unsigned at = terminator.getNumOperands();
    terminator.getOperandsMutable().append(value);
    if (failed(function.insertResult(at, value.getType(), attributes.getDictionary(builder.getContext()))))
      return failure();
  }
  return success();
}

} // namespace colossal
