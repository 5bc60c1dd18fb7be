//===- Activations.cpp - GELU, SiLU and their relatives ---------------------===//
//
// Products are taken apart into a number and factors, so that the order of operands, and whether constants
// divide or multiply, does not matter.
//
//===----------------------------------------------------------------------===//
#include "Matching.h"
#include "Patterns.h"

#include <cmath>

using namespace mlir;

namespace colossal {

namespace {

bool isNear(double number, double expected) {
  return std::fabs(number - expected) <= 2e-3 * std::fabs(expected);
}

/// u of 1 + f(u), in either order.
Value matchOnePlus(Value value, ElementwiseKind function) {
  auto sum = matchKind(value, ElementwiseKind::Add);
  auto parts = sum ? matchWithSplat(sum) : std::nullopt;
  if (!parts || parts->second != 1)
    return {};
  auto inner = matchKind(parts->first, function);
  return inner ? Value(inner.getInputs()[0]) : Value();
}

/// u of 0.5 + 0.5 f(u), in either order.
Value matchHalfPlusHalf(Value value, ElementwiseKind function) {
  auto sum = matchKind(value, ElementwiseKind::Add);
  auto parts = sum ? matchWithSplat(sum) : std::nullopt;
  if (!parts || parts->second != 0.5)
    return {};
  Product product = takeProduct(parts->first);
  auto inner = product.factors.size() == 1 ? matchKind(product.factors[0], function) : ElementwiseOp();
  return inner && product.number == 0.5 ? Value(inner.getInputs()[0]) : Value();
}

/// u of sigmoid(u) written out: 1 / (1 + exp(-u)).
Value matchOnePlusExpOfMinus(Value value) {
  Value minus = matchOnePlus(value, ElementwiseKind::Exp);
  if (!minus)
    return {};
  if (auto negation = matchKind(minus, ElementwiseKind::Neg))
    return negation.getInputs()[0];
  return {};
}

/// Whether `factors` are x to the power of n.
bool isPower(ArrayRef<Value> factors, Value x, int64_t n) {
  int64_t found = 0;
  for (Value factor : factors) {
    auto power = matchKind(factor, ElementwiseKind::Pow);
    if (factor == x) {
      ++found;
      continue;
    }
    auto exponent = power && power.getInputs()[0] == x ? matchSplat(power.getInputs()[1]) : std::nullopt;
    if (!exponent || *exponent != std::floor(*exponent))
      return false;
    found += int64_t(*exponent);
  }
  return found == n;
}

/// Whether u is sqrt(2 / pi) (x + 0.044715 x^3), or the same with x factored out.
bool isTanhArgument(Value u, Value x) {
  constexpr double kRoot = 0.7978845608028654, kCubic = 0.044715;
  Product product = takeProduct(u);
  if (!isNear(product.number, kRoot))
    return false;
  for (size_t i = 0; i < product.factors.size(); ++i) {
    auto sum = matchKind(product.factors[i], ElementwiseKind::Add);
    if (!sum)
      continue;
    SmallVector<Value> rest(product.factors);
    rest.erase(rest.begin() + i);
    for (unsigned side : {0, 1}) {
      Product other = takeProduct(sum.getInputs()[1 - side]);
      if (!isNear(other.number, kCubic))
        continue;
      if (rest.empty() && sum.getInputs()[side] == x && isPower(other.factors, x, 3))
        return true;
      if (isPower(rest, x, 1) && isSplat(sum.getInputs()[side], 1) && isPower(other.factors, x, 2))
        return true;
    }
  }
  return false;
}

/// 0.5 x (1 + erf(x / sqrt 2)) and 0.5 x (1 + tanh(...)).
struct RecogniseGelu : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    if (op.getKind() != ElementwiseKind::Mul && op.getKind() != ElementwiseKind::Div)
      return failure();
    Product product = takeProduct(op.getResult());
    bool isHalf = isNear(product.number, 0.5);
    if ((!isHalf && product.number != 1) || product.factors.size() != 2)
      return failure();
    auto match = isHalf ? matchOnePlus : matchHalfPlusHalf;
    for (unsigned i : {0, 1}) {
      Value x = product.factors[i], sum = product.factors[1 - i];
      std::optional<ElementwiseKind> kind;
      if (Value u = match(sum, ElementwiseKind::Erf)) {
        Product argument = takeProduct(u);
        if (isNear(argument.number, 0.7071067811865476) && argument.factors == SmallVector<Value>{x})
          kind = ElementwiseKind::Gelu;
      } else if (Value u = match(sum, ElementwiseKind::Tanh)) {
        if (isTanhArgument(u, x))
          kind = ElementwiseKind::GeluTanh;
      }
      if (!kind || x.getType() != op.getType())
        continue;
      GraphBuilder b(rewriter, fuseLocations(op.getLoc(), {sum}));
      rewriter.replaceOp(op, b.unary(*kind, x));
      return success();
    }
    return failure();
  }
};

/// sigmoid(x) written out, 1 / (1 + exp(-x)); and a quotient of that denominator becomes a product.
struct RecogniseSigmoid : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    bool isQuotient = op.getKind() == ElementwiseKind::Div;
    if (!isQuotient && op.getKind() != ElementwiseKind::Reciprocal)
      return failure();
    Value denominator = op.getInputs().back(), u = matchOnePlusExpOfMinus(denominator);
    if (!u || u.getType() != op.getType())
      return failure();
    GraphBuilder b(rewriter, fuseLocations(op.getLoc(), {denominator}));
    Value sigmoid = b.unary(ElementwiseKind::Sigmoid, u);
    bool isPlain = !isQuotient || isSplat(op.getInputs()[0], 1);
    rewriter.replaceOp(op, isPlain ? sigmoid : b.mul(op.getInputs()[0], sigmoid));
    return success();
  }
};

/// x sigmoid(alpha x).
struct RecogniseSwish : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    if (op.getKind() != ElementwiseKind::Mul)
      return failure();
    for (unsigned i : {0, 1}) {
      Value x = op.getInputs()[i], other = op.getInputs()[1 - i];
      if (auto sigmoid = matchKind(other, ElementwiseKind::Sigmoid)) {
        Product argument = takeProduct(sigmoid.getInputs()[0]);
        bool direct = sigmoid.getInputs()[0] == x;
        if (!direct && argument.factors != SmallVector<Value>{x})
          continue;
        GraphBuilder b(rewriter, fuseLocations(op.getLoc(), {other}));
        rewriter.replaceOp(op, b.elementwise(ElementwiseKind::Swish, {x}, {direct ? 1.0 : argument.number}));
        return success();
      }
      auto tanh = matchKind(other, ElementwiseKind::Tanh);
      auto softplus = tanh ? matchKind(tanh.getInputs()[0], ElementwiseKind::Softplus) : ElementwiseOp();
      if (softplus && softplus.getInputs()[0] == x) {
        GraphBuilder b(rewriter, fuseLocations(op.getLoc(), {other}));
        rewriter.replaceOp(op, b.unary(ElementwiseKind::Mish, x));
        return success();
      }
    }
    return failure();
  }
};

} // namespace

void populateActivationPatterns(RewritePatternSet &patterns) {
  patterns.add<RecogniseGelu, RecogniseSigmoid, RecogniseSwish>(patterns.getContext());
}

} // namespace colossal
