//===- NarrowTypes.cpp ------------------------------------------------------===//
//
// Conversions by integer arithmetic on the bits of f32, which every target has, and which kernels and
// constant folding share.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/NarrowTypes.h"

#include "dialects/Colossal/ElementEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cmath>

using namespace mlir;
using namespace colossal;

bool colossal::isNarrowInteger(Type element) {
  auto integer = dyn_cast<IntegerType>(element);
  return integer && (integer.getWidth() == 2 || integer.getWidth() == 4);
}

bool colossal::isNarrowFloat(Type element) {
  return isa<Float8E4M3FNType, Float8E4M3FNUZType, Float8E5M2Type, Float8E5M2FNUZType, Float8E8M0FNUType,
             Float4E2M1FNType>(element);
}

bool colossal::isNarrow(Type element) {
  return isNarrowInteger(element) || isNarrowFloat(element);
}

bool colossal::isString(Type element) {
  return element.isSignedInteger(64);
}

Type colossal::carrierOf(Type element) {
  if (isNarrow(element))
    return IntegerType::get(element.getContext(), 8);
  auto integer = dyn_cast<IntegerType>(element);
  return integer ? IntegerType::get(element.getContext(), integer.getWidth()) : element;
}

uint8_t colossal::carrierBits(const APInt &value, Type element) {
  bool extends = isNarrowInteger(element) && !element.isUnsignedInteger();
  return extends ? uint8_t(value.getSExtValue()) : uint8_t(value.getZExtValue());
}

//===----------------------------------------------------------------------===//
// Narrow floats
//===----------------------------------------------------------------------===//

namespace {

/// A narrow float with a sign: exponent and mantissa below it. Codes are the bits without the sign.
struct Format {
  int mantissa; ///< bits
  int bias;
  int sign;       ///< the place of its bit
  int greatest;   ///< code of the greatest finite value
  int infinity;   ///< code, or -1
  int nan;        ///< a code, or the bits of the only NaN where `isOnlyNaN`; -1: what NaN becomes is -0
  bool isOnlyNaN; ///< the bits of -0 are the NaN, and there is no -0
};

Format formatOf(Type element) {
  if (isa<Float8E4M3FNType>(element))
    return {3, 7, 7, 0x7e, -1, 0x7f, false};
  if (isa<Float8E4M3FNUZType>(element))
    return {3, 8, 7, 0x7f, -1, 0x80, true};
  if (isa<Float8E5M2Type>(element))
    return {2, 15, 7, 0x7b, 0x7c, 0x7e, false};
  if (isa<Float8E5M2FNUZType>(element))
    return {2, 16, 7, 0x7f, -1, 0x80, true};
  return {1, 1, 3, 7, -1, -1, false}; // f4E2M1FN
}

constexpr int64_t kInfinity = 0x7f800000, kQuietNaN = 0x7fc00000;

/// f32 and i32 values of one emitter.
struct Bits {
  ElementEmitter &emitter;
  Type i32, f32;

  explicit Bits(ElementEmitter &emitter)
      : emitter(emitter), i32(emitter.builder().getI32Type()), f32(emitter.builder().getF32Type()) {}

  Element see(Element x, Type as) const {
    Type type = as;
    if (auto vector = dyn_cast<VectorType>(x.get().getType()))
      type = VectorType::get(vector.getShape(), as);
    return {emitter, arith::BitcastOp::create(emitter.builder(), emitter.loc(), type, x.get()), as};
  }
  template <typename Op>
  Element shift(Element x, int places) const {
    Value values[] = {x.get(), x.like(places).get()};
    emitter.unify(values);
    return {emitter, Op::create(emitter.builder(), emitter.loc(), values[0], values[1]), x.elementType()};
  }
  Element left(Element x, int places) const { return shift<arith::ShLIOp>(x, places); }
  Element right(Element x, int places) const { return shift<arith::ShRUIOp>(x, places); }

  Element fromByte(Value byte) const {
    Type u8 = IntegerType::get(i32.getContext(), 8, IntegerType::Unsigned);
    return {emitter, emitter.convert(byte, u8, i32), i32};
  }
  Value toByte(Element bits) const {
    return emitter.convert(bits.get(), i32, IntegerType::get(i32.getContext(), 8));
  }
};

/// A power of two: its exponent, biased as that of f32.
Value narrowPower(const Bits &b, Element bits, Narrowing how) {
  Element magnitude = bits & bits.like(0x7fffffff), mantissa = bits & bits.like(0x7fffff);
  Element exponent = b.right(magnitude, 23), zero = bits.like(0);
  // What is below 2^-126 is denormal, with 2^-127 at half of the mantissa's range.
  Element isDenormal = exponent == zero;
  bool up = how.powers == Narrowing::Up;
  int64_t above = up ? 0 : 0x3fffff, aboveLeast = up ? 0x400000 : 0x5fffff;
  Element least = bits.like(above), passes = isDenormal.select(bits.like(aboveLeast), least) < mantissa;
  Element code = exponent;
  if (how.powers != Narrowing::Down)
    code = exponent + passes.select(bits.like(1), zero);
  Element highest = bits.like(254);
  code = (highest < code).select(how.saturate ? highest : bits.like(255), code);
  if (!how.saturate)
    code = (magnitude < bits.like(0x400000)).select(bits.like(255), code); // below 2^-127
  return b.toByte((bits.like(kInfinity) < magnitude).select(bits.like(255), code));
}

} // namespace

Value colossal::widenFloat(ElementEmitter &emitter, Value byte, Type from) {
  Bits b(emitter);
  Element bits = b.fromByte(byte);
  if (isa<Float8E8M0FNUType>(from)) {
    Element isZero = bits == bits.like(0), normal = b.left(bits, 23);
    Element power = isZero.select(bits.like(0x400000), normal);
    return b.see((bits == bits.like(255)).select(bits.like(kQuietNaN), power), b.f32).get();
  }
  Format format = formatOf(from);
  Element code = bits & bits.like((1 << format.sign) - 1);
  // Exponent and mantissa at their places of f32; a multiplication sets the bias right and makes denormals
  // normal.
  Element scaled = b.see(b.left(code, 23 - format.mantissa), b.f32);
  Element real = b.see(scaled * scaled.like(std::ldexp(1.0, 127 - format.bias)), b.i32);
  if (format.infinity >= 0) {
    Element infinite = bits.like(kInfinity), special = b.left(code, 23 - format.mantissa) | infinite;
    real = (bits.like(format.infinity - 1) < code).select(special, real);
  }
  if (format.nan >= 0 && !format.isOnlyNaN && format.infinity < 0)
    real = (code == bits.like(format.nan)).select(bits.like(kQuietNaN), real);
  real = real | b.left(bits & bits.like(1 << format.sign), 31 - format.sign);
  if (format.isOnlyNaN)
    real = (bits == bits.like(format.nan)).select(bits.like(kQuietNaN), real);
  return b.see(real, b.f32).get();
}

Value colossal::narrowFloat(ElementEmitter &emitter, Value real, Type to, Narrowing how) {
  Bits b(emitter);
  Element bits = b.see(Element(emitter, real, b.f32), b.i32);
  if (isa<Float8E8M0FNUType>(to))
    return narrowPower(b, bits, how);
  Format format = formatOf(to);
  if (isa<Float4E2M1FNType>(to))
    how.saturate = true;
  int drop = 23 - format.mantissa;
  Element magnitude = bits & bits.like(0x7fffffff);
  Element sign = b.right(bits & bits.like(-0x80000000LL), 31 - format.sign);
  // Normal results: round to nearest even at the last bit that stays, then move the bias.
  Element one = bits.like(1), odd = b.right(magnitude, drop) & one;
  Element rounded = b.right(magnitude + bits.like((1 << (drop - 1)) - 1) + odd, drop);
  Element code = rounded - bits.like((127 - format.bias) << format.mantissa);
  // Denormal results: an addition leaves them, rounded, in the last bits.
  double unit = std::ldexp(1.0, 24 - format.bias - format.mantissa);
  Element small = b.see(magnitude, b.f32);
  Element bias = bits.like((127 + 24 - format.bias - format.mantissa) << 23);
  small = b.see(small + small.like(unit), b.i32) - bias;
  code = (magnitude < bits.like((128 - format.bias) << 23)).select(small, code);
  Element greatest = bits.like(format.greatest), isOver = greatest < code;
  if (how.saturate)
    code = isOver.select(greatest, code);
  else if (!format.isOnlyNaN)
    code = isOver.select(bits.like(format.infinity >= 0 ? format.infinity : format.nan), code);
  Element result = code | sign;
  if (format.isOnlyNaN) {
    result = (result == bits.like(format.nan)).select(bits.like(0), result); // -0
    if (!how.saturate)
      result = isOver.select(bits.like(format.nan), result);
  }
  Element nan = bits.like(1 << format.sign);
  if (!format.isOnlyNaN && format.nan >= 0)
    nan = sign | bits.like(format.nan);
  return b.toByte((bits.like(kInfinity) < magnitude).select(nan, result));
}

uint8_t colossal::narrowBits(double value, Type element) {
  const llvm::fltSemantics &semantics = cast<FloatType>(element).getFloatSemantics();
  APFloat greatest = APFloat::getLargest(semantics);
  bool loses;
  APFloat limit = greatest;
  limit.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
  if (!std::isnan(value) && std::fabs(value) >= limit.convertToDouble()) {
    if (value < 0 && APFloat::semanticsHasSignedRepr(semantics))
      greatest.changeSign();
    return uint8_t(greatest.bitcastToAPInt().getZExtValue());
  }
  if (std::isnan(value) && !APFloat::semanticsHasNaN(semantics))
    return 1 << 3;
  // A type of powers of two alone has no 0: its least value is the nearest.
  if (!APFloat::semanticsHasZero(semantics) && !(value >= 0x1p-127))
    return std::isnan(value) ? 255 : 0;
  APFloat number(value);
  number.convert(semantics, APFloat::rmNearestTiesToEven, &loses);
  return uint8_t(number.bitcastToAPInt().getZExtValue());
}

//===----------------------------------------------------------------------===//
// Integers and bits
//===----------------------------------------------------------------------===//

Value colossal::wrapInteger(ElementEmitter &emitter, Value byte, Type to) {
  auto integer = cast<IntegerType>(to);
  Bits b(emitter);
  Element x(emitter, byte, IntegerType::get(to.getContext(), 8));
  if (integer.isUnsigned())
    return (x & x.like((1 << integer.getWidth()) - 1)).get();
  int rest = 8 - integer.getWidth();
  return b.shift<arith::ShRSIOp>(b.left(x, rest), rest).get();
}

static unsigned bitsOf(Type element) {
  return element.isInteger(1) ? 8 : element.getIntOrFloatBitWidth();
}

bool colossal::canBitcast(Type from, Type to) {
  return !isString(from) && !isString(to) && bitsOf(from) == bitsOf(to);
}

Value colossal::bitcastElement(ElementEmitter &emitter, Value value, Type from, Type to) {
  Bits b(emitter);
  Type i8 = IntegerType::get(from.getContext(), 8);
  Type carrier = carrierOf(from), wanted = carrierOf(to);
  if (from.isInteger(1))
    value = emitter.convert(value, from, carrier = i8);
  else if (isNarrowInteger(from)) {
    Element x(emitter, value, i8);
    value = (x & x.like((1 << bitsOf(from)) - 1)).get();
  }
  if (to.isInteger(1))
    return emitter.convert(value, i8, to);
  if (carrier != wanted)
    value = b.see(Element(emitter, value, carrier), wanted).get();
  return isNarrowInteger(to) ? wrapInteger(emitter, value, to) : value;
}
