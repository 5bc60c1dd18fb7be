//===- Normalizations.cpp - layer and RMS normalization ---------------------===//
//
// First (x - mean) / sqrt(variance + epsilon) or x / sqrt(mean(x^2) + epsilon) become `normalize`; then a
// scale and a bias that follow become its operands.
//
//===----------------------------------------------------------------------===//
#include "Matching.h"
#include "Patterns.h"

using namespace mlir;

namespace colossal {

namespace {

/// The first of the trailing dimensions over which `value` is the mean of `x`, with sizes 1 kept.
std::optional<int64_t> matchMean(Value value, Value &x) {
  ReduceOp reduce = matchKeptReduction(value, ReduceKind::Mean);
  if (!reduce || reduce.getAxes().empty())
    return std::nullopt;
  int64_t rank = GraphBuilder::rankOf(reduce.getInput()), first = rank - int64_t(reduce.getAxes().size());
  for (auto [i, axis] : llvm::enumerate(reduce.getAxes()))
    if (axis != first + int64_t(i))
      return std::nullopt;
  x = reduce.getInput();
  return first;
}

bool isSquare(Value value, Value &x) {
  if (auto power = matchKind(value, ElementwiseKind::Pow)) {
    x = power.getInputs()[0];
    return isSplat(power.getInputs()[1], 2);
  }
  auto product = matchKind(value, ElementwiseKind::Mul);
  if (!product || product.getInputs()[0] != product.getInputs()[1])
    return false;
  x = product.getInputs()[0];
  return true;
}

/// d of d / sqrt(s): by division, by a reciprocal, by a power of -1/2.
bool matchOverRoot(ElementwiseOp op, Value &d, Value &s) {
  auto root = [&](Value value) {
    auto sqrt = matchKind(value, ElementwiseKind::Sqrt);
    auto power = matchKind(value, ElementwiseKind::Pow);
    if (sqrt)
      s = sqrt.getInputs()[0];
    else if (power && isSplat(power.getInputs()[1], 0.5))
      s = power.getInputs()[0];
    else
      return false;
    return true;
  };
  if (op.getKind() == ElementwiseKind::Div) {
    d = op.getInputs()[0];
    return root(op.getInputs()[1]);
  }
  if (op.getKind() != ElementwiseKind::Mul)
    return false;
  for (unsigned i : {0, 1}) {
    d = op.getInputs()[i];
    Value other = op.getInputs()[1 - i];
    auto reciprocal = matchKind(other, ElementwiseKind::Reciprocal);
    auto division = matchKind(other, ElementwiseKind::Div);
    auto power = matchKind(other, ElementwiseKind::Pow);
    if (reciprocal && root(reciprocal.getInputs()[0]))
      return true;
    if (division && isSplat(division.getInputs()[0], 1) && root(division.getInputs()[1]))
      return true;
    if (power && isSplat(power.getInputs()[1], -0.5)) {
      s = power.getInputs()[0];
      return true;
    }
  }
  return false;
}

struct RecogniseNormalization : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    Value numerator, s, squares, x, centered;
    if (!matchOverRoot(op, numerator, s))
      return failure();
    auto sum = matchKind(s, ElementwiseKind::Add);
    auto parts = sum ? matchWithSplat(sum) : std::nullopt;
    if (!parts || !(parts->second >= 0))
      return failure();
    auto axis = matchMean(parts->first, squares);
    if (!axis || !isSquare(squares, centered))
      return failure();
    auto difference = matchKind(centered, ElementwiseKind::Sub);
    Value mean = difference ? Value(difference.getInputs()[1]) : Value();
    auto meanAxis = mean ? matchMean(mean, x) : std::nullopt;
    bool isLayer = meanAxis == axis && difference.getInputs()[0] == x;
    // The difference is made twice in some exports: both must subtract this mean.
    auto isCentered = [&](Value d) {
      auto outer = matchKind(d, ElementwiseKind::Sub);
      return d == centered || (outer && difference && outer.getInputs()[0] == difference.getInputs()[0] &&
                               outer.getInputs()[1] == mean);
    };
    // The scale may come before the division.
    Value scale;
    if (!isCentered(numerator))
      if (auto scaled = matchKind(numerator, ElementwiseKind::Mul))
        for (unsigned i : {0, 1})
          if (isCentered(scaled.getInputs()[i])) {
            scale = scaled.getInputs()[1 - i];
            numerator = scaled.getInputs()[i];
            break;
          }
    if (!isCentered(numerator) || (!isLayer && numerator != centered))
      return failure();
    GraphBuilder b(rewriter, fuseLocations(op.getLoc(), {parts->first, s}));
    Value result = isLayer ? b.normalize(NormalizeKind::Layer, x, {}, {}, *axis, parts->second)
                           : b.normalize(NormalizeKind::RMS, centered, {}, {}, *axis, parts->second);
    if (scale)
      result = b.mul(result, scale);
    if (result.getType() != op.getType())
      return failure();
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// exp(x - max x) / sum exp(x - max x).
struct RecogniseSoftmax : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    auto exp = op.getKind() == ElementwiseKind::Div ? matchKind(op.getInputs()[0], ElementwiseKind::Exp)
                                                    : ElementwiseOp();
    ReduceOp sum = exp ? matchKeptReduction(op.getInputs()[1], ReduceKind::Sum) : ReduceOp();
    auto difference = sum ? matchKind(exp.getInputs()[0], ElementwiseKind::Sub) : ElementwiseOp();
    ReduceOp most = difference ? matchKeptReduction(difference.getInputs()[1], ReduceKind::Max) : ReduceOp();
    if (!most || sum.getInput() != exp.getResult() || most.getInput() != difference.getInputs()[0] ||
        sum.getAxes().size() != 1 || most.getAxes() != sum.getAxes() ||
        most.getInput().getType() != op.getType())
      return failure();
    GraphBuilder b(rewriter,
                   fuseLocations(op.getLoc(), {most, difference.getResult(), exp.getResult(), sum}));
    rewriter.replaceOp(op, b.softmax(most.getInput(), sum.getAxes().front()));
    return success();
  }
};

/// normalize(x) * scale and normalize(x) + bias, where these vary over the normalized dimensions only.
struct AbsorbScaleAndBias : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    bool isScale = op.getKind() == ElementwiseKind::Mul;
    if (!isScale && op.getKind() != ElementwiseKind::Add)
      return failure();
    for (unsigned i : {0, 1}) {
      auto normalize = op.getInputs()[i].getDefiningOp<NormalizeOp>();
      Value other = op.getInputs()[1 - i];
      if (!normalize || !normalize->hasOneUse() || normalize.getType() != op.getType() ||
          normalize.getBias() || (isScale && normalize.getScale()))
        continue;
      auto shape = GraphBuilder::shapeOf(other);
      int64_t inner = GraphBuilder::rankOf(normalize.getResult()) - int64_t(normalize.getAxis());
      if (int64_t(shape.size()) > inner &&
          llvm::any_of(shape.drop_back(inner), [](int64_t size) { return size != 1; }))
        continue;
      // A residual of the same shape is not a bias; a vector of parameters is.
      if (GraphBuilder::typeOf(other) == GraphBuilder::typeOf(op.getResult()) &&
          int64_t(shape.size()) > inner)
        continue;
      rewriter.setInsertionPoint(op);
      GraphBuilder b(rewriter, fuseLocations(op.getLoc(), {normalize.getResult()}));
      if (int64_t(shape.size()) > inner)
        other = b.reshape(other, shape.take_back(inner));
      rewriter.replaceOp(op, b.normalize(normalize.getKind(), normalize.getInput(),
                                         isScale ? other : normalize.getScale(), isScale ? Value() : other,
                                         normalize.getAxis(), normalize.getEpsilon().convertToDouble()));
      return success();
    }
    return failure();
  }
};

} // namespace

void populateNormalizationPatterns(RewritePatternSet &patterns) {
  patterns.add<RecogniseNormalization, RecogniseSoftmax, AbsorbScaleAndBias>(patterns.getContext());
}

} // namespace colossal
