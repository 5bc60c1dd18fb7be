//===- ElementEmitter.cpp - operators on elements ---------------------------===//
//
// Arithmetic that every emission shares. f16 and bf16 are computed in f32 and rounded after each operator, as
// ONNX does.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/ElementEmitter.h"

#include "dialects/Colossal/NarrowTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace colossal;

Type colossal::computeType(Type type) {
  if (isNarrowInteger(type))
    return IntegerType::get(type.getContext(), 8, cast<IntegerType>(type).getSignedness());
  return type.isF16() || type.isBF16() || isNarrowFloat(type) ? Float32Type::get(type.getContext()) : type;
}

Value ElementEmitter::convert(Value value, Type from, Type to) {
  if (from == to)
    return value;
  if (isNarrow(from)) {
    // Bytes that hold an integer are that integer.
    Type wide = computeType(from);
    return convert(isNarrowFloat(from) ? widenFloat(*this, value, from) : value, wide, to);
  }
  if (isNarrowInteger(to))
    return wrapInteger(*this, convertNumber(value, from, carrierOf(to)), to);
  if (isNarrowFloat(to))
    return narrowFloat(*this, convertNumber(value, from, computeType(to)), to);
  return convertNumber(value, from, to);
}

Value ElementEmitter::scalar(Type element, double value) {
  if (isNarrowFloat(element))
    return scalarNumber(carrierOf(element), narrowBits(value, element));
  return scalarNumber(isNarrow(element) ? carrierOf(element) : element, value);
}

Type colossal::elementTypeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}

ArrayRef<int64_t> colossal::shapeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape();
}

SmallVector<Lane> colossal::broadcastIndex(ElementEmitter &emitter, ArrayRef<Lane> index, Value operand) {
  ArrayRef<int64_t> shape = shapeOf(operand);
  SmallVector<Lane> out(index.take_back(shape.size()));
  for (unsigned d = 0; d < shape.size(); ++d)
    if (shape[d] == 1)
      out[d] = emitter.constant(0);
  return out;
}

Lane colossal::linearize(ElementEmitter &emitter, ArrayRef<Lane> index, ArrayRef<int64_t> shape) {
  Lane linear = emitter.constant(0);
  int64_t stride = 1;
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (shape[d] != 1)
      linear = emitter.add(linear, emitter.mul(index[d], stride));
    stride *= shape[d];
  }
  return linear;
}

SmallVector<Lane> colossal::delinearize(ElementEmitter &emitter, Lane linear, ArrayRef<int64_t> shape) {
  SmallVector<Lane> index(shape.size(), emitter.constant(0));
  int outermost = 0;
  while (outermost < (int)shape.size() && shape[outermost] == 1)
    ++outermost;
  for (int d = shape.size() - 1; d >= outermost; --d) {
    if (shape[d] == 1)
      continue;
    index[d] = d == outermost ? linear : emitter.mod(linear, shape[d]);
    if (d != outermost)
      linear = emitter.floorDiv(linear, shape[d]);
  }
  return index;
}

SmallVector<Lane> colossal::reshapeIndex(ElementEmitter &emitter, ArrayRef<Lane> index,
                                         ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<Lane> out(to.size(), emitter.constant(0));
  unsigned i = 0, o = 0;
  while (i < from.size() && o < to.size()) {
    unsigned iEnd = i + 1, oEnd = o + 1;
    int64_t a = from[i], b = to[o];
    while (a != b) {
      if (a < b && iEnd < from.size())
        a *= from[iEnd++];
      else if (oEnd < to.size())
        b *= to[oEnd++];
      else
        break;
    }
    Lane linear = linearize(emitter, index.slice(i, iEnd - i), from.slice(i, iEnd - i));
    llvm::copy(delinearize(emitter, linear, to.slice(o, oEnd - o)), out.begin() + o);
    i = iEnd;
    o = oEnd;
  }
  return out;
}

//===----------------------------------------------------------------------===//
// Element
//===----------------------------------------------------------------------===//

std::pair<Value, Value> Element::with(const Element &o) const {
  Value values[] = {value, o.value};
  emitter->unify(values);
  return {values[0], values[1]};
}

/// Emits `compute` on both values in the compute type of `a`.
static Element binary(ElementEmitter &e, const Element &a, const Element &b,
                      llvm::function_ref<Value(OpBuilder &, Location, Value, Value)> compute) {
  Type type = a.elementType(), inner = computeType(type);
  Value values[] = {e.convert(a.get(), type, inner), e.convert(b.get(), b.elementType(), inner)};
  e.unify(values);
  Value result = compute(e.builder(), e.loc(), values[0], values[1]);
  return {e, e.convert(result, inner, type), type};
}

Element Element::operator+(Element o) const {
  return binary(*emitter, *this, o, [&](OpBuilder &b, Location loc, Value x, Value y) -> Value {
    if (isFloat())
      return arith::AddFOp::create(b, loc, x, y);
    return arith::AddIOp::create(b, loc, x, y);
  });
}

Element Element::operator-(Element o) const {
  return binary(*emitter, *this, o, [&](OpBuilder &b, Location loc, Value x, Value y) -> Value {
    if (isFloat())
      return arith::SubFOp::create(b, loc, x, y);
    return arith::SubIOp::create(b, loc, x, y);
  });
}

Element Element::operator*(Element o) const {
  return binary(*emitter, *this, o, [&](OpBuilder &b, Location loc, Value x, Value y) -> Value {
    if (isFloat())
      return arith::MulFOp::create(b, loc, x, y);
    return arith::MulIOp::create(b, loc, x, y);
  });
}

Element Element::operator/(Element o) const {
  if (isFloat())
    return binary(*emitter, *this, o, [&](OpBuilder &b, Location loc, Value x, Value y) -> Value {
      return arith::DivFOp::create(b, loc, x, y);
    });
  // Neither x / 0 nor least / -1 may trap: also lanes that do not exist are computed.
  Element one = o.like(1), zero = o.like(0);
  Element isZero = o == zero;
  if (isUnsigned()) {
    Element divisor = isZero.select(one, o);
    Element quotient =
        binary(*emitter, *this, divisor, [&](OpBuilder &b, Location loc, Value x, Value y) -> Value {
          return arith::DivUIOp::create(b, loc, x, y);
        });
    return isZero.select(zero, quotient);
  }
  Element isMinusOne = o == o.like(-1);
  Element divisor = (isZero | isMinusOne).select(one, o);
  Element quotient =
      binary(*emitter, *this, divisor, [&](OpBuilder &b, Location loc, Value x, Value y) -> Value {
        return arith::DivSIOp::create(b, loc, x, y);
      });
  return isZero.select(zero, isMinusOne.select(zero - quotient, quotient));
}

Element Element::remainder(Element o) const {
  if (isFloat())
    return binary(*emitter, *this, o, [&](OpBuilder &b, Location loc, Value x, Value y) -> Value {
      return arith::RemFOp::create(b, loc, x, y);
    });
  return *this - (*this / o) * o;
}

Element Element::modulo(Element o) const {
  Element r = remainder(o), zero = like(0);
  if (isUnsigned())
    return r;
  Element isNegative = o < zero, signsDiffer = (r < zero) ^ isNegative;
  return ((r != zero) & signsDiffer).select(r + o, r);
}

Element Element::max(Element o) const {
  return binary(*emitter, *this, o, [&](OpBuilder &b, Location loc, Value x, Value y) -> Value {
    if (isFloat())
      return emitter->maximum(x, y);
    if (isUnsigned())
      return arith::MaxUIOp::create(b, loc, x, y);
    return arith::MaxSIOp::create(b, loc, x, y);
  });
}

Element Element::min(Element o) const {
  return binary(*emitter, *this, o, [&](OpBuilder &b, Location loc, Value x, Value y) -> Value {
    if (isFloat())
      return emitter->minimum(x, y);
    if (isUnsigned())
      return arith::MinUIOp::create(b, loc, x, y);
    return arith::MinSIOp::create(b, loc, x, y);
  });
}

static Element compare(ElementEmitter &e, const Element &a, const Element &b, arith::CmpFPredicate floats,
                       arith::CmpIPredicate integers) {
  Type inner = computeType(a.elementType());
  Value values[] = {e.convert(a.get(), a.elementType(), inner), e.convert(b.get(), b.elementType(), inner)};
  e.unify(values);
  Type boolean = e.builder().getI1Type();
  if (a.isFloat())
    return {e, arith::CmpFOp::create(e.builder(), e.loc(), floats, values[0], values[1]), boolean};
  return {e, arith::CmpIOp::create(e.builder(), e.loc(), integers, values[0], values[1]), boolean};
}

Element Element::operator<(Element o) const {
  return compare(*emitter, *this, o, arith::CmpFPredicate::OLT,
                 isUnsigned() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt);
}

Element Element::operator<=(Element o) const {
  return compare(*emitter, *this, o, arith::CmpFPredicate::OLE,
                 isUnsigned() ? arith::CmpIPredicate::ule : arith::CmpIPredicate::sle);
}

Element Element::operator==(Element o) const {
  return compare(*emitter, *this, o, arith::CmpFPredicate::OEQ, arith::CmpIPredicate::eq);
}

Element Element::operator!=(Element o) const {
  return compare(*emitter, *this, o, arith::CmpFPredicate::UNE, arith::CmpIPredicate::ne);
}

Element Element::operator!() const {
  return *this ^ like(1);
}

Element Element::operator&(Element o) const {
  auto [x, y] = with(o);
  return {*emitter, arith::AndIOp::create(emitter->builder(), emitter->loc(), x, y), type};
}

Element Element::operator|(Element o) const {
  auto [x, y] = with(o);
  return {*emitter, arith::OrIOp::create(emitter->builder(), emitter->loc(), x, y), type};
}

Element Element::operator^(Element o) const {
  auto [x, y] = with(o);
  return {*emitter, arith::XOrIOp::create(emitter->builder(), emitter->loc(), x, y), type};
}

Element Element::abs() const {
  if (isUnsigned())
    return *this;
  Type inner = computeType(type);
  Value x = emitter->convert(value, type, inner);
  Value result = isFloat() ? math::AbsFOp::create(emitter->builder(), emitter->loc(), x).getResult()
                           : math::AbsIOp::create(emitter->builder(), emitter->loc(), x).getResult();
  return {*emitter, emitter->convert(result, inner, type), type};
}

Element Element::to(Type element) const {
  return {*emitter, emitter->convert(value, type, element), element};
}

Element Element::apply(MathFunction function) const {
  return {*emitter, emitter->math(function, value), type};
}

Element Element::select(Element a, Element b) const {
  Value values[] = {value, a.value, b.value};
  // A scalar condition selects whole vectors.
  if (isa<VectorType>(value.getType()))
    emitter->unify(values);
  else
    emitter->unify(MutableArrayRef<Value>(values).drop_front());
  return {*emitter,
          arith::SelectOp::create(emitter->builder(), emitter->loc(), values[0], values[1], values[2]),
          a.type};
}
