// VectorMath: range reduction and polynomials. The coefficients of exp2 and of the error function's rational
// approximation were fitted for these ranges; their errors are checked over the whole range by
// VectorMathTest.
//
// Rounding by adding and subtracting 1.5 * 2^23 must not be reassociated: no op here carries fast-math flags.
#include "colossal/Codegen/Kernel/VectorMath.h"
#include "colossal/Codegen/Kernel/VectorMemory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace colossal::kernel {

using Predicate = arith::CmpFPredicate;

Value VectorMath::constant(Value like, double value) {
  return VectorMemory(b, loc, instructions).constantLike(like.getType(), value);
}

static Type integerLike(OpBuilder &b, Type type) {
  Type element = b.getIntegerType(getElementTypeOrSelf(type).getIntOrFloatBitWidth());
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.clone(element);
  return element;
}

Value VectorMath::bits(Value like, uint32_t pattern) {
  return VectorMemory(b, loc, instructions)
      .constantLike(integerLike(b, like.getType()), double(int32_t(pattern)));
}

Value VectorMath::inFloat(Value x, Unary compute) {
  Type element = getElementTypeOrSelf(x);
  if (!element.isF16() && !element.isBF16())
    return compute(x);
  VectorMemory memory(b, loc, instructions);
  return memory.convert(compute(memory.convert(x, b.getF32Type())), element);
}

static bool isFloat(Value x) {
  return getElementTypeOrSelf(x).isF32();
}

Value VectorMath::polynomial(Value x, ArrayRef<double> highestFirst) {
  Value result = constant(x, highestFirst.front());
  for (double coefficient : highestFirst.drop_front())
    result = fma(result, x, constant(x, coefficient));
  return result;
}

Value VectorMath::fma(Value x, Value y, Value z) {
  Type element = getElementTypeOrSelf(x);
  if (instructions.fma && (element.isF32() || element.isF64()))
    return math::FmaOp::create(b, loc, x, y, z);
  return arith::AddFOp::create(b, loc, arith::MulFOp::create(b, loc, x, y), z);
}

Value VectorMath::clamp(Value x, double low, double high) {
  auto limit = [&](Value x, Predicate predicate, double bound) -> Value {
    Value constantBound = constant(x, bound);
    Value beyond = arith::CmpFOp::create(b, loc, predicate, constantBound, x);
    return arith::SelectOp::create(b, loc, beyond, constantBound, x);
  };
  x = limit(x, Predicate::OGT, low);
  return limit(x, Predicate::OLT, high);
}

Value VectorMath::maximumOrdered(Value lhs, Value rhs) {
  Value greater = arith::CmpFOp::create(b, loc, Predicate::OGT, rhs, lhs);
  return arith::SelectOp::create(b, loc, greater, rhs, lhs);
}

Value VectorMath::maximum(Value lhs, Value rhs) {
  return arith::MaximumFOp::create(b, loc, lhs, rhs);
}
Value VectorMath::minimum(Value lhs, Value rhs) {
  return arith::MinimumFOp::create(b, loc, lhs, rhs);
}

// Degree 6 on [-1/2, 1/2], error 2e-9 before rounding.
static constexpr double exp2Coefficients[] = {1.5403530393381609e-4,
                                              1.3333558146428443e-3,
                                              9.6181291076284772e-3,
                                              5.5504108664821580e-2,
                                              2.4022650695910071e-1,
                                              6.9314718055994531e-1,
                                              1.0};

Value VectorMath::exp2NonPositive(Value d) {
  Value low = constant(d, -127.0);
  Value below = arith::CmpFOp::create(b, loc, Predicate::OGT, low, d);
  d = arith::SelectOp::create(b, loc, below, low, d);
  // 1.5 * 2^23 + 127: the sum's last bits are the biased exponent; at -127 the result is exactly 0.
  Value magic = constant(d, 12583039.0);
  Value z = arith::AddFOp::create(b, loc, d, magic);
  Value n = arith::SubFOp::create(b, loc, z, magic);
  Value f = arith::SubFOp::create(b, loc, d, n);
  Value p = polynomial(
      f, {1.3276471162e-3, 9.6755413278e-3, 5.5507132761e-2, 2.4022119724e-1, 6.9314696706e-1, 1.0000000717});
  Type integer = integerLike(b, d.getType());
  Value exponent = arith::BitcastOp::create(b, loc, integer, z);
  exponent = arith::ShLIOp::create(b, loc, exponent, bits(d, 23));
  return arith::MulFOp::create(b, loc, p, arith::BitcastOp::create(b, loc, d.getType(), exponent));
}

Value VectorMath::scaleByPowerOfTwo(Value p, Value n) {
  Type integer = integerLike(b, p.getType());
  auto power = [&](Value exponent) -> Value {
    Value biased = arith::AddFOp::create(b, loc, exponent, constant(p, 12583039.0));
    Value shift = bits(p, 23);
    Value field = arith::ShLIOp::create(b, loc, arith::BitcastOp::create(b, loc, integer, biased), shift);
    return arith::BitcastOp::create(b, loc, p.getType(), field);
  };
  // Halves differ by at most one, both far from the exponents' ends.
  Value magic = constant(p, 12582912.0);
  Value half = arith::MulFOp::create(b, loc, n, constant(p, 0.5));
  half = arith::SubFOp::create(b, loc, arith::AddFOp::create(b, loc, half, magic), magic);
  Value rest = arith::SubFOp::create(b, loc, n, half);
  Value second = power(rest), first = power(half);
  return arith::MulFOp::create(b, loc, arith::MulFOp::create(b, loc, p, first), second);
}

Value VectorMath::exp2(Value x) {
  return inFloat(x, [&](Value x) -> Value {
    if (!isFloat(x))
      return math::Exp2Op::create(b, loc, x);
    Value d = clamp(x, -151.0, 129.0);
    Value magic = constant(d, 12582912.0);
    Value n = arith::SubFOp::create(b, loc, arith::AddFOp::create(b, loc, d, magic), magic);
    Value f = arith::SubFOp::create(b, loc, d, n);
    return scaleByPowerOfTwo(polynomial(f, exp2Coefficients), n);
  });
}

// e^f on [-ln2/2, ln2/2], Taylor up to degree 7: below 1e-8.
static constexpr double expCoefficients[] = {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24,
                                             1.0 / 6,    0.5,       1.0,       1.0};

Value VectorMath::exp(Value x) {
  return inFloat(x, [&](Value x) -> Value {
    if (!isFloat(x))
      return math::ExpOp::create(b, loc, x);
    Value d = clamp(x, -104.0, 89.0);
    Value magic = constant(d, 12582912.0);
    Value n = fma(d, constant(d, 1.4426950408889634), magic);
    n = arith::SubFOp::create(b, loc, n, magic);
    // ln 2 in two parts (Cody and Waite).
    Value f = fma(n, constant(d, -0.693359375), d);
    f = fma(n, constant(d, 2.12194440054690583e-4), f);
    return scaleByPowerOfTwo(polynomial(f, expCoefficients), n);
  });
}

Value VectorMath::sigmoid(Value x) {
  return inFloat(x, [&](Value x) -> Value {
    Value negative = arith::NegFOp::create(b, loc, x);
    Value e = exp(negative);
    Value one = constant(x, 1.0);
    return arith::DivFOp::create(b, loc, one, arith::AddFOp::create(b, loc, one, e));
  });
}

Value VectorMath::silu(Value x) {
  return inFloat(x, [&](Value x) -> Value {
    Value e = exp(arith::NegFOp::create(b, loc, x));
    return arith::DivFOp::create(b, loc, x, arith::AddFOp::create(b, loc, constant(x, 1.0), e));
  });
}

Value VectorMath::softplus(Value x) {
  return inFloat(x, [&](Value x) -> Value {
    // max(x, 0) + log1p(e^-|x|)
    Value magnitude = math::AbsFOp::create(b, loc, x);
    Value tail = math::Log1pOp::create(b, loc, exp(arith::NegFOp::create(b, loc, magnitude)));
    Value zero = constant(x, 0.0);
    Value below = arith::CmpFOp::create(b, loc, Predicate::OGT, zero, x);
    return arith::AddFOp::create(b, loc, arith::SelectOp::create(b, loc, below, zero, x), tail);
  });
}

Value VectorMath::erf(Value x) {
  return inFloat(x, [&](Value x) -> Value {
    if (!isFloat(x))
      return math::ErfOp::create(b, loc, x);
    x = clamp(x, -4.0, 4.0);
    Value square = arith::MulFOp::create(b, loc, x, x);
    Value p = polynomial(square, {-2.72614225801306e-10, 2.77068142495902e-8, -2.10102402082508e-6,
                                  -5.69250639462346e-5, -7.34990630326855e-4, -2.95459980854025e-3,
                                  -1.60960333262415e-2});
    Value q = polynomial(square, {-1.45660718464996e-5, -2.13374055278905e-4, -1.68282697438203e-3,
                                  -7.37332916720468e-3, -1.42647390514189e-2});
    return arith::DivFOp::create(b, loc, arith::MulFOp::create(b, loc, x, p), q);
  });
}

Value VectorMath::geluErf(Value x) {
  return inFloat(x, [&](Value x) -> Value {
    Value e = erf(arith::MulFOp::create(b, loc, x, constant(x, 0.70710678118654752)));
    Value half = arith::MulFOp::create(b, loc, x, constant(x, 0.5));
    return fma(half, e, half);
  });
}

Value VectorMath::geluTanh(Value x) {
  return inFloat(x, [&](Value x) -> Value {
    // 0.5 (1 + tanh u) = 1 / (1 + e^-2u)
    Value square = arith::MulFOp::create(b, loc, x, x);
    Value linear = constant(x, -2 * 0.7978845608028654);
    Value inner = fma(square, constant(x, -2 * 0.7978845608028654 * 0.044715), linear);
    Value e = exp(arith::MulFOp::create(b, loc, x, inner));
    return arith::DivFOp::create(b, loc, x, arith::AddFOp::create(b, loc, constant(x, 1.0), e));
  });
}

#define COLOSSAL_UNARY(name, Op)                                                                             \
  Value VectorMath::name(Value x) {                                                                          \
    return inFloat(x, [&](Value x) -> Value { return math::Op::create(b, loc, x); });                        \
  }
COLOSSAL_UNARY(expm1, ExpM1Op)
COLOSSAL_UNARY(log, LogOp)
COLOSSAL_UNARY(log2, Log2Op)
COLOSSAL_UNARY(log10, Log10Op)
COLOSSAL_UNARY(log1p, Log1pOp)
COLOSSAL_UNARY(tanh, TanhOp)
COLOSSAL_UNARY(sqrt, SqrtOp)
COLOSSAL_UNARY(sin, SinOp)
COLOSSAL_UNARY(cos, CosOp)
COLOSSAL_UNARY(tan, TanOp)
COLOSSAL_UNARY(asin, AsinOp)
COLOSSAL_UNARY(acos, AcosOp)
COLOSSAL_UNARY(atan, AtanOp)
COLOSSAL_UNARY(sinh, SinhOp)
COLOSSAL_UNARY(cosh, CoshOp)
COLOSSAL_UNARY(asinh, AsinhOp)
COLOSSAL_UNARY(acosh, AcoshOp)
COLOSSAL_UNARY(atanh, AtanhOp)
COLOSSAL_UNARY(erfc, ErfcOp)
COLOSSAL_UNARY(cbrt, CbrtOp)
COLOSSAL_UNARY(floor, FloorOp)
COLOSSAL_UNARY(ceil, CeilOp)
COLOSSAL_UNARY(roundEven, RoundEvenOp)
COLOSSAL_UNARY(trunc, TruncOp)
#undef COLOSSAL_UNARY

Value VectorMath::rsqrt(Value x) {
  return inFloat(x, [&](Value x) -> Value {
    Value root = math::SqrtOp::create(b, loc, x);
    return arith::DivFOp::create(b, loc, constant(x, 1.0), root);
  });
}

Value VectorMath::pow(Value base, Value exponent) {
  VectorMemory memory(b, loc, instructions);
  Type element = getElementTypeOrSelf(base);
  if (element.isF16() || element.isBF16()) {
    exponent = memory.convert(exponent, b.getF32Type());
    return memory.convert(pow(memory.convert(base, b.getF32Type()), exponent), element);
  }
  return math::PowFOp::create(b, loc, base, exponent);
}

Value VectorMath::atan2(Value y, Value x) {
  VectorMemory memory(b, loc, instructions);
  Type element = getElementTypeOrSelf(y);
  if (element.isF16() || element.isBF16()) {
    x = memory.convert(x, b.getF32Type());
    return memory.convert(atan2(memory.convert(y, b.getF32Type()), x), element);
  }
  return math::Atan2Op::create(b, loc, y, x);
}

} // namespace colossal::kernel
