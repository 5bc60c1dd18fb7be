//===- StagedOps.cpp - the stages of an op, written as ops --------------------===//
#include "dialects/Colossal/StagedOps.h"

using namespace mlir;
using namespace colossal;

/// Right-aligned; sizes of 1 stretch.
static SmallVector<int64_t> broadcastShape(ValueRange operands) {
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

Value StagedOps::apply(ElementwiseKind kind, ValueRange operands) {
  auto type = RankedTensorType::get(broadcastShape(operands), elementTypeOf(operands.front()));
  return ElementwiseOp::create(builder, loc, type, kind, operands, DenseF64ArrayAttr());
}

Value StagedOps::compare(ElementwiseKind kind, Value a, Value b) {
  auto type = RankedTensorType::get(broadcastShape({a, b}), builder.getI1Type());
  return ElementwiseOp::create(builder, loc, type, kind, ValueRange{a, b}, DenseF64ArrayAttr());
}

Value StagedOps::select(Value condition, Value yes, Value no) {
  auto type = RankedTensorType::get(broadcastShape({condition, yes, no}), elementTypeOf(yes));
  return ElementwiseOp::create(builder, loc, type, ElementwiseKind::Select, ValueRange{condition, yes, no},
                               DenseF64ArrayAttr());
}

Value StagedOps::cast(Value value, Type element) {
  if (elementTypeOf(value) == element)
    return value;
  auto type = RankedTensorType::get(shapeOf(value), element);
  return ElementwiseOp::create(builder, loc, type, ElementwiseKind::Cast, ValueRange{value},
                               DenseF64ArrayAttr());
}

Value StagedOps::constant(double value, Value like) {
  Type element = elementTypeOf(like);
  auto type = RankedTensorType::get(SmallVector<int64_t>(shapeOf(like).size(), 1), element);
  Attribute number;
  if (auto floats = dyn_cast<FloatType>(element))
    number = FloatAttr::get(floats, value);
  else
    number =
        IntegerAttr::get(element, APInt(element.getIntOrFloatBitWidth(), static_cast<int64_t>(value),
                                        /*isSigned=*/!element.isUnsignedInteger(), /*implicitTrunc=*/true));
  return ConstantOp::create(builder, loc, type, DenseElementsAttr::get(type, number));
}

Value StagedOps::reduce(ReduceKind kind, Value value, ArrayRef<int64_t> axes, std::optional<int64_t> count) {
  SmallVector<int64_t> shape(shapeOf(value));
  for (int64_t axis : axes)
    shape[axis] = 1;
  auto type = RankedTensorType::get(shape, elementTypeOf(value));
  return ReduceOp::create(builder, loc, type, ReduceKindAttr::get(builder.getContext(), kind), value,
                          builder.getDenseI64ArrayAttr(axes), builder.getBoolAttr(true),
                          count ? builder.getI64IntegerAttr(*count) : IntegerAttr());
}

Value StagedOps::shiftIndices(Value indices, Value offset) {
  if (!offset)
    return indices;
  auto type = RankedTensorType::get(SmallVector<int64_t>(shapeOf(indices).size(), 1), elementTypeOf(indices));
  Value shift = IotaOp::create(builder, loc, type, offset, builder.getI64IntegerAttr(0),
                               builder.getF64FloatAttr(0), builder.getF64FloatAttr(1));
  return apply(ElementwiseKind::Add, {indices, shift});
}
