//===- ElementwiseGradient.cpp ----------------------------------------------===//
//
// Derivatives of the elementwise kinds. Where a function has a kink, or two operands are equal, the value is
// that of PyTorch. Of two arguments that make ops one has a name first: C++ does not say which comes first.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/GradientBuilder.h"

#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace colossal;
using K = colossal::ElementwiseKind;

namespace {
/// One op's gradients, in the type in which it computes.
class Derivation {
public:
  Derivation(ElementwiseOp op, GradientBuilder &gradient)
      : op(op), gradient(gradient), ops(gradient.ops()), g(gradient.widen(gradient.resultGradient())) {}

  LogicalResult build();

private:
  Value in(unsigned i) { return gradient.widen(op.getInputs()[i]); }
  Value result() { return gradient.widen(op.getResult()); }
  Value apply(K kind, Value x) { return ops.apply(kind, {x}); }
  double param(unsigned i, double standard) {
    ArrayRef<double> params = op.getParams().value_or(ArrayRef<double>());
    return i < params.size() ? params[i] : standard;
  }

  /// g times the derivative at x; null where that is 0 everywhere.
  Value buildUnary(Value x);
  Value buildGelu(Value x);
  Value buildGeluTanh(Value x);
  void buildProduct();
  void buildQuotient();
  void buildPower();
  void buildRemainder();
  void buildExtremum();
  void buildClip();

  ElementwiseOp op;
  GradientBuilder &gradient;
  OpComposer &ops;
  Value g;
};
} // namespace

// 0.5 (1 + erf(x / sqrt 2)) + x exp(-x^2 / 2) / sqrt(2 pi)
Value Derivation::buildGelu(Value x) {
  Value cumulated = ops.shift(ops.scale(apply(K::Erf, ops.scale(x, M_SQRT1_2)), 0.5), 0.5);
  Value density = ops.scale(apply(K::Exp, ops.scale(ops.mul(x, x), -0.5)), 0.5 * M_2_SQRTPI * M_SQRT1_2);
  return ops.mul(g, ops.add(cumulated, ops.mul(x, density)));
}

// With u = sqrt(2 / pi) (x + 0.044715 x^3): 0.5 (1 + tanh u) + 0.5 x (1 - tanh^2 u) u'
Value Derivation::buildGeluTanh(Value x) {
  constexpr double kOuter = M_SQRT2 * M_2_SQRTPI * 0.5, kCubic = 0.044715;
  Value square = ops.mul(x, x);
  Value cubic = ops.shift(ops.scale(square, kCubic), 1), u = ops.mul(ops.scale(x, kOuter), cubic);
  Value slope = ops.shift(ops.scale(square, 3 * kCubic * kOuter), kOuter);
  Value t = apply(K::Tanh, u);
  Value left = ops.shift(ops.scale(t, 0.5), 0.5);
  Value bent = ops.shift(ops.neg(ops.mul(t, t)), 1);
  Value right = ops.mul(ops.mul(ops.scale(bent, 0.5), x), slope);
  return ops.mul(g, ops.add(left, right));
}

Value Derivation::buildUnary(Value x) {
  auto square = [&](Value value) { return ops.mul(value, value); };
  auto times = [&](Value factor) { return ops.mul(g, factor); };
  auto over = [&](Value divisor) { return ops.div(g, divisor); };
  auto isAtMost = [&](double bound) { return ops.compare(K::LessOrEqual, x, bound); };
  auto isAbove = [&](double bound) { return ops.compare(K::Greater, x, bound); };
  auto isBelow = [&](double bound) { return ops.compare(K::Less, x, bound); };
  auto oneMinus = [&](Value value) { return ops.shift(ops.neg(value), 1); };
  switch (op.getKind()) {
  case K::Abs: return times(apply(K::Sign, x));
  case K::Neg: return ops.neg(g);
  case K::Reciprocal: return ops.neg(times(square(result())));
  case K::Sqrt: return over(ops.scale(result(), 2));
  case K::Exp: return times(result());
  case K::Log: return over(x);
  case K::Erf: return times(ops.scale(apply(K::Exp, ops.neg(square(x))), M_2_SQRTPI));
  case K::Sin: return times(apply(K::Cos, x));
  case K::Cos: return ops.neg(times(apply(K::Sin, x)));
  case K::Tan: return times(ops.shift(square(result()), 1));
  case K::Asin: return over(apply(K::Sqrt, oneMinus(square(x))));
  case K::Acos: return ops.neg(over(apply(K::Sqrt, oneMinus(square(x)))));
  case K::Atan: return over(ops.shift(square(x), 1));
  case K::Sinh: return times(apply(K::Cosh, x));
  case K::Cosh: return times(apply(K::Sinh, x));
  case K::Tanh: return times(oneMinus(square(result())));
  case K::Asinh: return over(apply(K::Sqrt, ops.shift(square(x), 1)));
  case K::Acosh: return over(apply(K::Sqrt, ops.shift(square(x), -1)));
  case K::Atanh: return over(oneMinus(square(x)));
  case K::Relu: return ops.dropWhere(ops.compare(K::LessOrEqual, result(), 0), g);
  case K::LeakyRelu: {
    Value below = ops.scale(g, param(0, 0.01));
    return ops.select(isAbove(0), g, below);
  }
  case K::Elu: {
    Value below = ops.mul(ops.scale(g, param(0, 1)), apply(K::Exp, x));
    return ops.select(isAtMost(0), below, g);
  }
  case K::Selu: {
    Value above = ops.scale(g, param(1, 1.05070102214813232421875));
    Value curve = ops.scale(apply(K::Exp, x), param(0, 1.67326319217681884765625));
    Value below = ops.mul(above, curve);
    return ops.select(isAtMost(0), below, above);
  }
  case K::Celu: {
    Value below = times(apply(K::Exp, ops.scale(x, 1 / param(0, 1))));
    return ops.select(isAtMost(0), below, g);
  }
  case K::Sigmoid: {
    Value y = result();
    return times(ops.mul(oneMinus(y), y));
  }
  case K::HardSigmoid: {
    double alpha = param(0, 0.2);
    Value line = ops.shift(ops.scale(x, alpha), param(1, 0.5)), slope = ops.scale(g, alpha);
    Value isInside = ops.apply(K::And, {ops.compare(K::Greater, line, 0), ops.compare(K::Less, line, 1)});
    return ops.keepWhere(isInside, slope);
  }
  case K::HardSwish: {
    Value inside = times(ops.shift(ops.scale(x, 1.0 / 3), 0.5));
    Value above = ops.select(isBelow(3), inside, g);
    return ops.dropWhere(isAtMost(-3), above);
  }
  case K::Softplus: return times(apply(K::Sigmoid, x));
  case K::Softsign: return over(square(ops.shift(apply(K::Abs, x), 1)));
  case K::ThresholdedRelu: return ops.keepWhere(isAbove(param(0, 1)), g);
  case K::Gelu: return buildGelu(x);
  case K::GeluTanh: return buildGeluTanh(x);
  case K::Swish: {
    Value along = ops.scale(x, param(0, 1)), s = apply(K::Sigmoid, along);
    Value bent = ops.shift(ops.mul(oneMinus(s), along), 1);
    return times(ops.mul(s, bent));
  }
  case K::Mish: {
    Value t = apply(K::Tanh, apply(K::Softplus, x)), bent = oneMinus(square(t));
    Value slope = ops.mul(apply(K::Sigmoid, x), bent);
    return times(ops.add(t, ops.mul(x, slope)));
  }
  case K::Shrink: {
    double lambda = param(0, 0.5);
    return ops.keepWhere(ops.apply(K::Or, {isAbove(lambda), isBelow(-lambda)}), g);
  }
  case K::Cast: return g;
  default: return {}; // steps and bits
  }
}

void Derivation::buildProduct() {
  for (unsigned i = 0; i < op.getInputs().size(); ++i) {
    if (!gradient.wants(i))
      continue;
    Value product = g;
    for (unsigned j = 0; j < op.getInputs().size(); ++j)
      if (j != i)
        product = ops.mul(product, in(j));
    gradient.add(i, product);
  }
}

// y = a / b / ...: dy/da = 1 / b / ..., dy/db = -y / b
void Derivation::buildQuotient() {
  Value first = g;
  for (unsigned i = 1; i < op.getInputs().size(); ++i) {
    Value divisor = in(i);
    if (gradient.wants(i))
      gradient.add(i, ops.neg(ops.mul(g, ops.div(result(), divisor))));
    if (gradient.wants(0))
      first = ops.div(first, divisor);
  }
  gradient.add(0, first);
}

void Derivation::buildPower() {
  Value base = in(0), exponent = ops.cast(op.getInputs()[1], elementTypeOf(base));
  if (gradient.wants(0)) {
    DenseFPElementsAttr known;
    if (matchPattern(op.getInputs()[1], m_Constant(&known)) && known.isSplat()) {
      double power = known.getSplatValue<FloatAttr>().getValueAsDouble();
      if (power != 0) { // of constant exponents, kernels know squares and roots
        Value rest = base;
        if (power != 1 && power != 2)
          rest = ops.apply(K::Pow, {base, ops.constant(power - 1, exponent)});
        gradient.add(0, ops.scale(power == 1 ? g : ops.mul(g, rest), power));
      }
    } else {
      Value rest = ops.apply(K::Pow, {base, ops.shift(exponent, -1)});
      Value slope = ops.mul(g, ops.mul(exponent, rest));
      gradient.add(0, ops.dropWhere(ops.compare(K::Equal, exponent, 0), slope));
    }
  }
  if (gradient.wants(1)) {
    Value isFlat =
        ops.apply(K::And, {ops.compare(K::Equal, base, 0), ops.compare(K::GreaterOrEqual, exponent, 0)});
    Value logarithm = apply(K::Log, base);
    Value slope = ops.dropWhere(isFlat, ops.mul(result(), logarithm));
    gradient.add(1, ops.mul(g, slope));
  }
}

// y = a - n b, with n a step function.
void Derivation::buildRemainder() {
  gradient.add(0, g);
  if (!gradient.wants(1))
    return;
  Value dividend = in(0), divisor = in(1);
  Value times = apply(K::Round, ops.div(ops.sub(dividend, result()), divisor));
  gradient.add(1, ops.neg(ops.mul(g, times)));
}

/// Equal greatest (or least) operands share the gradient.
void Derivation::buildExtremum() {
  const bool isGreatest = op.getKind() == K::Max;
  if (op.getInputs().size() == 2) {
    Value a = in(0), b = in(1), isTie = ops.compare(K::Equal, a, b), half = ops.scale(g, 0.5);
    Value isLost = ops.compare(isGreatest ? K::Less : K::Greater, a, b);
    Value isWon = ops.compare(isGreatest ? K::Greater : K::Less, a, b);
    if (gradient.wants(0))
      gradient.add(0, ops.select(isTie, half, ops.dropWhere(isLost, g)));
    if (gradient.wants(1))
      gradient.add(1, ops.select(isTie, half, ops.dropWhere(isWon, g)));
    return;
  }
  SmallVector<Value> chosen;
  Value count;
  for (unsigned i = 0; i < op.getInputs().size(); ++i) {
    Value x = in(i);
    chosen.push_back(ops.compare(K::Equal, x, result()));
    Value one = ops.cast(chosen.back(), elementTypeOf(g));
    count = count ? ops.add(count, one) : one;
  }
  Value share = ops.div(g, count);
  for (unsigned i = 0; i < op.getInputs().size(); ++i)
    gradient.add(i, ops.keepWhere(chosen[i], share));
}

void Derivation::buildClip() {
  Value x = in(0), low = in(1), high = in(2);
  Value isInside =
      ops.apply(K::And, {ops.compare(K::GreaterOrEqual, x, low), ops.compare(K::LessOrEqual, x, high)});
  gradient.add(0, ops.keepWhere(isInside, g));
  if (gradient.wants(1)) {
    Value isLow = ops.apply(K::And, {ops.compare(K::Less, x, low), ops.compare(K::Less, low, high)});
    gradient.add(1, ops.keepWhere(isLow, g));
  }
  if (gradient.wants(2)) {
    Value isHigh = ops.apply(K::Or, {ops.compare(K::Greater, x, high), ops.compare(K::Less, high, low)});
    gradient.add(2, ops.keepWhere(isHigh, g));
  }
}

LogicalResult Derivation::build() {
  switch (op.getKind()) {
  case K::Add:
    for (unsigned i = 0; i < op.getInputs().size(); ++i)
      gradient.add(i, g);
    break;
  case K::Sub:
    for (unsigned i = 0; i < op.getInputs().size(); ++i)
      if (gradient.wants(i))
        gradient.add(i, i == 0 ? g : ops.neg(g));
    break;
  case K::Mul: buildProduct(); break;
  case K::Div: buildQuotient(); break;
  case K::Pow: buildPower(); break;
  case K::Mod:
  case K::Fmod: buildRemainder(); break;
  case K::Max:
  case K::Min: buildExtremum(); break;
  case K::PRelu: {
    Value isPositive = ops.compare(K::Greater, in(0), 0);
    if (gradient.wants(0))
      gradient.add(0, ops.select(isPositive, g, ops.mul(g, in(1))));
    if (gradient.wants(1))
      gradient.add(1, ops.dropWhere(isPositive, ops.mul(g, in(0))));
    break;
  }
  case K::Select:
    if (gradient.wants(1))
      gradient.add(1, ops.keepWhere(op.getInputs()[0], g));
    if (gradient.wants(2))
      gradient.add(2, ops.dropWhere(op.getInputs()[0], g));
    break;
  case K::Clip: buildClip(); break;
  default:
    if (op.getInputs().size() == 1 && gradient.wants(0))
      if (Value x = buildUnary(in(0)))
        gradient.add(0, x);
  }
  return success();
}

LogicalResult ElementwiseOp::buildGradient(GradientBuilder &gradient) {
  if (getKind() == K::PRelu && getInputs().size() > 2)
    return gradient.refuse("prelu of several slopes");
  if ((getKind() == K::Mod || getKind() == K::Fmod || getKind() == K::Pow) && getInputs().size() > 2)
    return gradient.refuse(stringifyElementwiseKind(getKind()) + " of more than two operands");
  return Derivation(*this, gradient).build();
}
