//===- Rotary.cpp - rotary position embedding -------------------------------===//
//
// Two forms: x cos + rotate_half(x) sin with tables of full width whose halves are equal, and the halves written out,
// concat(x1 cos - x2 sin, x2 cos + x1 sin).
//
//===----------------------------------------------------------------------===//
#include "Matching.h"
#include "Patterns.h"

using namespace mlir;

namespace colossal {

namespace {

/// Whether `value` is elements [half * n, half * n + n) of the last dimension (of size 2 n) of some x.
bool isHalf(Value value, int64_t half, Value &x) {
  auto slice = value.getDefiningOp<SliceOp>();
  if (!slice)
    return false;
  auto from = GraphBuilder::shapeOf(slice.getInput()), to = GraphBuilder::shapeOf(value);
  int64_t n = to.back();
  if (from.back() != 2 * n || from.drop_back() != to.drop_back() || slice.getStarts().back() != half * n ||
      slice.getSteps().back() != 1)
    return false;
  for (size_t d = 0; d + 1 < from.size(); ++d)
    if (slice.getStarts()[d] != 0 || slice.getSteps()[d] != 1)
      return false;
  x = slice.getInput();
  return true;
}

/// x of concat(-x2, x1).
Value matchRotatedHalf(Value value) {
  auto concat = value.getDefiningOp<ConcatOp>();
  if (!concat || concat.getInputs().size() != 2 || int64_t(concat.getAxis()) != GraphBuilder::rankOf(value) - 1)
    return {};
  Value first = concat.getInputs()[0], low, high;
  auto negated = matchKind(first, ElementwiseKind::Neg);
  Value upper = negated ? Value(negated.getInputs()[0]) : Value();
  if (auto product = matchKind(first, ElementwiseKind::Mul))
    if (auto parts = matchWithSplat(product); parts && parts->second == -1)
      upper = parts->first;
  if (!upper || !isHalf(upper, 1, high) || !isHalf(concat.getInputs()[1], 0, low) || low != high)
    return {};
  return low;
}

struct RecogniseRotary : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    if (op.getKind() != ElementwiseKind::Add)
      return failure();
    for (unsigned i : {0, 1}) {
      auto straight = matchKind(op.getInputs()[i], ElementwiseKind::Mul);
      auto rotated = matchKind(op.getInputs()[1 - i], ElementwiseKind::Mul);
      if (!straight || !rotated)
        return failure();
      for (unsigned r : {0, 1}) {
        Value x = matchRotatedHalf(rotated.getInputs()[r]), sin = rotated.getInputs()[1 - r], cos;
        for (unsigned s : {0, 1})
          if (x && straight.getInputs()[s] == x)
            cos = straight.getInputs()[1 - s];
        if (!cos || x.getType() != op.getType() || !hasEqualHalves(cos) || !hasEqualHalves(sin))
          continue;
        int64_t width = GraphBuilder::shapeOf(x).back();
        if (GraphBuilder::shapeOf(cos).back() != width || GraphBuilder::shapeOf(sin).back() != width)
          continue;
        GraphBuilder b(rewriter, fuseLocations(op.getLoc(), {rotated.getInputs()[r], straight.getResult(),
                                                             rotated.getResult()}));
        cos = b.sliceDim(cos, GraphBuilder::rankOf(cos) - 1, 0, width / 2);
        sin = b.sliceDim(sin, GraphBuilder::rankOf(sin) - 1, 0, width / 2);
        rewriter.replaceOp(op, RotaryOp::create(rewriter, b.loc(), op.getType(), x, cos, sin, false).getResult());
        return success();
      }
    }
    return failure();
  }
};

/// The half of x that `product` (a mul) multiplies, and the table.
bool matchHalfProduct(Value product, int64_t half, Value x, Value &table) {
  auto mul = matchKind(product, ElementwiseKind::Mul);
  for (unsigned i = 0; mul && i < 2; ++i) {
    Value source;
    if (isHalf(mul.getInputs()[i], half, source) && source == x) {
      table = mul.getInputs()[1 - i];
      return true;
    }
  }
  return false;
}

struct RecogniseRotaryHalves : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op, PatternRewriter &rewriter) const override {
    if (op.getInputs().size() != 2 || int64_t(op.getAxis()) != GraphBuilder::rankOf(op.getResult()) - 1)
      return failure();
    auto first = matchKind(op.getInputs()[0], ElementwiseKind::Sub);
    auto second = matchKind(op.getInputs()[1], ElementwiseKind::Add);
    auto lead = first ? matchKind(first.getInputs()[0], ElementwiseKind::Mul) : ElementwiseOp();
    if (!lead || !second)
      return failure();
    for (unsigned i : {0, 1}) {
      Value x, cos = lead.getInputs()[1 - i], sin, cos2, sin2;
      if (!isHalf(lead.getInputs()[i], 0, x) || x.getType() != op.getType() ||
          !matchHalfProduct(first.getInputs()[1], 1, x, sin))
        continue;
      for (unsigned s : {0, 1}) {
        if (!matchHalfProduct(second.getInputs()[s], 1, x, cos2) ||
            !matchHalfProduct(second.getInputs()[1 - s], 0, x, sin2) || cos2 != cos || sin2 != sin)
          continue;
        GraphBuilder b(rewriter, fuseLocations(op.getLoc(), {first.getResult(), second.getResult()}));
        rewriter.replaceOp(op, RotaryOp::create(rewriter, b.loc(), op.getType(), x, cos, sin, false).getResult());
        return success();
      }
    }
    return failure();
  }
};

} // namespace

void populateRotaryPatterns(RewritePatternSet &patterns) {
  patterns.add<RecogniseRotary, RecogniseRotaryHalves>(patterns.getContext());
}

} // namespace colossal
