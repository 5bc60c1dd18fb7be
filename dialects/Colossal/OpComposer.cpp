//===- OpComposer.cpp - computations written as ops -------------------------===//
#include "dialects/Colossal/OpComposer.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Matchers.h"

#include <numeric>

using namespace mlir;
using namespace colossal;

SmallVector<int64_t> colossal::getBroadcastShape(ValueRange operands) {
  SmallVector<int64_t> shape;
  for (Value operand : operands) {
    ArrayRef<int64_t> own = shapeOf(operand);
    if (own.size() > shape.size())
      shape.insert(shape.begin(), own.size() - shape.size(), 1);
    for (size_t d = 0; d < own.size(); ++d) {
      int64_t &size = shape[shape.size() - own.size() + d];
      size = size == 1 ? own[d] : size;
    }
  }
  return shape;
}

/// Whether each element is 1, as what a sum's gradient begins with.
static bool isOne(Value value) {
  while (isa_and_nonnull<ReshapeOp, BroadcastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  DenseFPElementsAttr constant;
  return matchPattern(value, m_Constant(&constant)) && constant.isSplat() &&
         constant.getSplatValue<APFloat>().isExactlyValue(1);
}

Value OpComposer::apply(ElementwiseKind kind, ValueRange given, ArrayRef<double> params) {
  SmallVector<int64_t> shape = getBroadcastShape(given);
  SmallVector<Value, 3> operands(given);
  // Operands stretch by themselves: what was stretched to the size of another is read as it was.
  for (Value &operand : operands)
    if (auto broadcast = operand.getDefiningOp<BroadcastOp>()) {
      Value stretched = operand;
      operand = broadcast.getInput();
      if (getBroadcastShape(operands) != shape)
        operand = stretched;
    }
  if (kind == ElementwiseKind::Mul)
    for (unsigned i : {0, 1})
      if (isOne(operands[i]) && shapeOf(operands[1 - i]) == ArrayRef(shape) &&
          elementTypeOf(operands[0]) == elementTypeOf(operands[1]))
        return operands[1 - i];
  auto type = RankedTensorType::get(shape, elementTypeOf(operands.front()));
  return ElementwiseOp::create(builder, loc, type, kind, operands,
                               params.empty() ? DenseF64ArrayAttr() : builder.getDenseF64ArrayAttr(params));
}

Value OpComposer::scale(Value value, double factor) {
  return factor == 1 ? value : mul(value, constant(factor, value));
}

Value OpComposer::shift(Value value, double summand) {
  return summand == 0 ? value : add(value, constant(summand, value));
}

Value OpComposer::compare(ElementwiseKind kind, Value a, Value b) {
  auto type = RankedTensorType::get(getBroadcastShape({a, b}), builder.getI1Type());
  return ElementwiseOp::create(builder, loc, type, kind, ValueRange{a, b}, DenseF64ArrayAttr());
}

Value OpComposer::select(Value condition, Value yes, Value no) {
  auto type = RankedTensorType::get(getBroadcastShape({condition, yes, no}), elementTypeOf(yes));
  return ElementwiseOp::create(builder, loc, type, ElementwiseKind::Select, ValueRange{condition, yes, no},
                               DenseF64ArrayAttr());
}

/// What was widened to `value` from `element` without loss; null where nothing was.
static Value findNarrow(Value value, Type element) {
  auto widened = value.getDefiningOp<ElementwiseOp>();
  auto from = dyn_cast<FloatType>(element), to = dyn_cast<FloatType>(elementTypeOf(value));
  if (!widened || widened.getKind() != ElementwiseKind::Cast || !from || !to)
    return {};
  const Value narrow = widened.getInputs().front();
  const bool isExact = APFloat::isRepresentableBy(from.getFloatSemantics(), to.getFloatSemantics());
  return elementTypeOf(narrow) == element && isExact ? narrow : Value();
}

Value OpComposer::cast(Value value, Type element) {
  if (elementTypeOf(value) == element)
    return value;
  if (const Value narrow = findNarrow(value, element))
    return narrow;
  auto type = RankedTensorType::get(shapeOf(value), element);
  return ElementwiseOp::create(builder, loc, type, ElementwiseKind::Cast, ValueRange{value},
                               DenseF64ArrayAttr());
}

Value OpComposer::constant(double value, Value like) {
  return fill(RankedTensorType::get(SmallVector<int64_t>(shapeOf(like).size(), 1), elementTypeOf(like)),
              value);
}

Value OpComposer::fill(RankedTensorType type, double value) {
  Type element = type.getElementType();
  Attribute number;
  if (auto floats = dyn_cast<FloatType>(element))
    number = FloatAttr::get(floats, value);
  else
    number =
        IntegerAttr::get(element, APInt(element.getIntOrFloatBitWidth(), static_cast<int64_t>(value),
                                        /*isSigned=*/!element.isUnsignedInteger(), /*implicitTrunc=*/true));
  return ConstantOp::create(builder, loc, type, DenseElementsAttr::get(type, number));
}

Value OpComposer::reduce(ReduceKind kind, Value value, ArrayRef<int64_t> axes, std::optional<int64_t> count) {
  SmallVector<int64_t> shape(shapeOf(value));
  for (int64_t axis : axes)
    shape[axis] = 1;
  auto type = RankedTensorType::get(shape, elementTypeOf(value));
  return ReduceOp::create(builder, loc, type, ReduceKindAttr::get(builder.getContext(), kind), value,
                          builder.getDenseI64ArrayAttr(axes), builder.getBoolAttr(true),
                          count ? builder.getI64IntegerAttr(*count) : IntegerAttr());
}

Value OpComposer::shiftIndices(Value indices, Value offset, int64_t sign) {
  if (!offset)
    return indices;
  auto type = RankedTensorType::get(SmallVector<int64_t>(shapeOf(indices).size(), 1), elementTypeOf(indices));
  if (type.getRank() == 0) // a range needs a dimension to count along
    type = RankedTensorType::get({1}, type.getElementType());
  Value by = IotaOp::create(builder, loc, type, offset, builder.getI64IntegerAttr(0),
                            builder.getF64FloatAttr(0), builder.getF64FloatAttr(static_cast<double>(sign)));
  return apply(ElementwiseKind::Add,
               {indices, reshape(by, SmallVector<int64_t>(shapeOf(indices).size(), 1))});
}

Value OpComposer::iota(ArrayRef<int64_t> shape, Type element, int64_t axis, double start) {
  return IotaOp::create(builder, loc, RankedTensorType::get(shape, element), Value(),
                        builder.getI64IntegerAttr(axis), builder.getF64FloatAttr(start),
                        builder.getF64FloatAttr(1));
}

Value OpComposer::identity(int64_t size, Type element) {
  Type i64 = builder.getI64Type();
  return cast(compare(ElementwiseKind::Equal, iota({size, 1}, i64, 0), iota({1, size}, i64, 1)), element);
}

Value OpComposer::reshape(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return ReshapeOp::create(builder, loc, RankedTensorType::get(shape, elementTypeOf(value)), value);
}

Value OpComposer::transpose(Value value, ArrayRef<int64_t> permutation) {
  if (isIdentityPermutation(permutation))
    return value;
  auto type = RankedTensorType::get(applyPermutation(shapeOf(value), permutation), elementTypeOf(value));
  return TransposeOp::create(builder, loc, type, value, permutation);
}

Value OpComposer::broadcast(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return BroadcastOp::create(builder, loc, RankedTensorType::get(shape, elementTypeOf(value)), value);
}

Value OpComposer::slice(Value value, int64_t axis, int64_t start, int64_t size, int64_t step) {
  SmallVector<int64_t> shape(shapeOf(value));
  if (start == 0 && size == shape[axis] && step == 1)
    return value;
  SmallVector<int64_t> starts(shape.size(), 0), steps(shape.size(), 1);
  shape[axis] = size;
  starts[axis] = start;
  steps[axis] = step;
  return SliceOp::create(builder, loc, RankedTensorType::get(shape, elementTypeOf(value)), value, starts,
                         steps);
}

Value OpComposer::concat(ValueRange values, int64_t axis) {
  if (values.size() == 1)
    return values.front();
  SmallVector<int64_t> shape(shapeOf(values.front()));
  shape[axis] = 0;
  for (Value value : values)
    shape[axis] += shapeOf(value)[axis];
  return ConcatOp::create(builder, loc, RankedTensorType::get(shape, elementTypeOf(values.front())), values,
                          axis);
}

Value OpComposer::pad(Value value, ArrayRef<int64_t> low, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape && llvm::all_of(low, [](int64_t size) { return size == 0; }))
    return value;
  return PadOp::create(builder, loc, RankedTensorType::get(shape, elementTypeOf(value)), value, Value(), low);
}

Value OpComposer::contract(Value lhs, ArrayRef<int64_t> lhsDims, Value rhs, ArrayRef<int64_t> rhsDims,
                           ArrayRef<int64_t> resultDims, Type element) {
  SmallVector<int64_t> shape;
  for (int64_t label : resultDims) {
    const int64_t *at = llvm::find(lhsDims, label);
    shape.push_back(at != lhsDims.end() ? shapeOf(lhs)[at - lhsDims.begin()]
                                        : shapeOf(rhs)[llvm::find(rhsDims, label) - rhsDims.begin()]);
  }
  return ContractOp::create(builder, loc, RankedTensorType::get(shape, element), lhs, rhs, lhsDims, rhsDims,
                            resultDims);
}

Value OpComposer::sumTo(Value value, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> have = shapeOf(value);
  if (have == shape)
    return value;
  const int64_t added = static_cast<int64_t>(have.size()) - static_cast<int64_t>(shape.size());
  SmallVector<int64_t> axes;
  for (int64_t d = 0; d < static_cast<int64_t>(have.size()); ++d)
    if (d < added || (shape[d - added] == 1 && have[d] != 1))
      axes.push_back(d);
  return reshape(axes.empty() ? value : reduce(ReduceKind::Sum, value, axes), shape);
}
