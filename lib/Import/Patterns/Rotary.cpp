//===- Rotary.cpp - rotary position embedding -------------------------------===//
//
// Two forms, each with pairs (i, i + R / 2) or (2i, 2i + 1): x cos + rotate(x) sin with tables of full width
// in which both of a pair are equal, and the pairs written out, (a cos - b sin, b cos + a sin). A cosine of
// ones, that of the first position alone, has folded away. Where only the first elements turn and the others
// are put behind them again, the op takes the whole.
//
//===----------------------------------------------------------------------===//
#include "Matching.h"
#include "Patterns.h"

using namespace mlir;

namespace colossal {

namespace {

/// A box of a tensor, dense but for the last dimension's step.
struct Region {
  Value base;
  bool isMerged = false; ///< the last two dimensions of `base` are seen as one
  SmallVector<int64_t> starts, sizes;
  int64_t step = 1;

  bool operator==(const Region &other) const {
    return base == other.base && isMerged == other.isMerged && starts == other.starts &&
           sizes == other.sizes && step == other.step;
  }
  Value make(GraphBuilder &b) const {
    Value whole = base;
    if (isMerged) {
      SmallVector<int64_t> shape(GraphBuilder::shapeOf(base));
      int64_t last = shape.pop_back_val();
      shape.back() *= last;
      whole = b.reshape(base, shape);
    }
    return GraphBuilder::shapeOf(whole) == ArrayRef<int64_t>(sizes) ? whole : b.slice(whole, starts, sizes);
  }
};

Value peelLastOne(Value value, bool isAdded);

/// One element of each row of `value`'s source [..., n, m], which is every m-th of [..., n * m].
std::optional<Region> matchColumn(Value value) {
  Value column = peelLastOne(value, false);
  auto slice = column ? column.getDefiningOp<SliceOp>() : SliceOp();
  if (!slice || llvm::any_of(slice.getSteps(), [](int64_t step) { return step != 1; }))
    return std::nullopt;
  ArrayRef<int64_t> from = GraphBuilder::shapeOf(slice.getInput()), sizes = GraphBuilder::shapeOf(column);
  if (from.size() < 2 || from.drop_back() != sizes.drop_back())
    return std::nullopt;
  Region region;
  region.base = slice.getInput();
  region.isMerged = true;
  region.sizes.assign(sizes.begin(), sizes.end() - 1);
  region.starts.assign(region.sizes.size(), 0);
  region.starts.back() = slice.getStarts().back();
  region.step = from.back();
  return region;
}

Region regionOf(Value value) {
  if (auto column = matchColumn(value))
    return *column;
  Region region;
  region.base = value;
  region.sizes.assign(GraphBuilder::shapeOf(value).begin(), GraphBuilder::shapeOf(value).end());
  region.starts.assign(region.sizes.size(), 0);
  auto slice = value.getDefiningOp<SliceOp>();
  if (!slice || region.sizes.empty() ||
      llvm::any_of(slice.getSteps().drop_back(), [](int64_t step) { return step != 1; }) ||
      slice.getSteps().back() < 1)
    return region;
  region.base = slice.getInput();
  region.starts.assign(slice.getStarts().begin(), slice.getStarts().end());
  region.step = slice.getSteps().back();
  if (auto outer = region.base.getDefiningOp<SliceOp>()) {
    Region around = regionOf(region.base);
    if (around.base != region.base && around.step == 1) {
      for (auto [start, more] : llvm::zip(region.starts, around.starts))
        start += more;
      region.base = around.base;
    }
  }
  return region;
}

/// The region whose pairs' first elements are `first`, and the second ones `second`.
std::optional<Region> joinPairs(Value first, Value second, bool interleaved) {
  Region a = regionOf(first), b = regionOf(second);
  if (a.sizes.empty() || a.step != (interleaved ? 2 : 1) || b.step != a.step)
    return std::nullopt;
  Region whole = a;
  whole.step = 1;
  whole.sizes.back() *= 2;
  a.starts.back() += interleaved ? 1 : a.sizes.back();
  return a == b ? std::optional(whole) : std::nullopt;
}

/// What a reshape gives `value` of by a last dimension of size 1 more, or less if not `isAdded`; null where
/// none does.
Value peelLastOne(Value value, bool isAdded) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (!reshape)
    return {};
  Value source = reshape.getInput();
  auto longer = GraphBuilder::shapeOf(isAdded ? value : source),
       other = GraphBuilder::shapeOf(isAdded ? source : value);
  return !longer.empty() && longer.back() == 1 && longer.drop_back() == other ? source : Value();
}

/// The two parts that are put behind each other, or (`interleaved`) element by element in turn, along the
/// last dimension. The second is seen as a tensor [..., n, 2].
bool matchPairs(ConcatOp op, Value &first, Value &second, bool &interleaved) {
  if (op.getInputs().size() != 2 || int64_t(op.getAxis()) != GraphBuilder::rankOf(op.getResult()) - 1)
    return false;
  Value a = peelLastOne(op.getInputs()[0], true), b = peelLastOne(op.getInputs()[1], true);
  interleaved = a && b;
  first = interleaved ? a : Value(op.getInputs()[0]);
  second = interleaved ? b : Value(op.getInputs()[1]);
  return first.getType() == second.getType();
}

/// x of the pairs (-second, first), for pairs (first, second) of x.
std::optional<Region> matchRotated(Value value, bool &interleaved) {
  auto concat = value.getDefiningOp<ConcatOp>();
  if (auto reshape = value.getDefiningOp<ReshapeOp>())
    concat = reshape.getInput().getDefiningOp<ConcatOp>();
  Value minus, first;
  if (!concat || !matchPairs(concat, minus, first, interleaved) ||
      interleaved != (concat.getResult() != value))
    return std::nullopt;
  auto shape = GraphBuilder::shapeOf(value), part = GraphBuilder::shapeOf(first);
  if (shape.size() != part.size() || shape.drop_back() != part.drop_back() || shape.back() != 2 * part.back())
    return std::nullopt;
  auto negated = matchKind(minus, ElementwiseKind::Neg);
  Value second = negated ? Value(negated.getInputs()[0]) : Value();
  if (auto product = matchKind(minus, ElementwiseKind::Mul))
    if (auto parts = matchWithSplat(product); parts && parts->second == -1)
      second = parts->first;
  return second ? joinPairs(first, second, interleaved) : std::nullopt;
}

/// One element of each pair of a table in which both are equal.
Value takeOneOfPairs(Value table, bool interleaved, GraphBuilder &b) {
  SmallVector<int64_t> sizes(GraphBuilder::shapeOf(table)), starts(sizes.size(), 0), steps(sizes.size(), 1);
  sizes.back() /= 2;
  steps.back() = interleaved ? 2 : 1;
  return b.slice(table, starts, sizes, steps);
}

struct RecogniseRotary : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    if (op.getKind() != ElementwiseKind::Add)
      return failure();
    for (unsigned i : {0, 1}) {
      auto straight = matchKind(op.getInputs()[i], ElementwiseKind::Mul);
      auto rotated = matchKind(op.getInputs()[1 - i], ElementwiseKind::Mul);
      if (!rotated)
        continue;
      for (unsigned r : {0, 1}) {
        bool interleaved = false;
        auto region = matchRotated(rotated.getInputs()[r], interleaved);
        Value sin = rotated.getInputs()[1 - r], cos, x;
        GraphBuilder b(rewriter, fuseLocations(op.getLoc(), {rotated.getInputs()[r], op.getInputs()[i],
                                                             rotated.getResult()}));
        for (unsigned s : {0, 1})
          if (region && straight && regionOf(straight.getInputs()[s]) == *region) {
            x = straight.getInputs()[s];
            cos = straight.getInputs()[1 - s];
          }
        if (region && !cos && regionOf(op.getInputs()[i]) == *region) {
          x = op.getInputs()[i];
          cos = b.splat(GraphBuilder::shapeOf(sin), GraphBuilder::elementOf(sin), 1);
        }
        if (!cos || x.getType() != op.getType() || !hasEqualPairs(cos, interleaved) ||
            !hasEqualPairs(sin, interleaved))
          continue;
        int64_t width = GraphBuilder::shapeOf(x).back();
        if (!isa<FloatType>(GraphBuilder::elementOf(x)) || GraphBuilder::rankOf(x) < 2 ||
            GraphBuilder::shapeOf(cos).back() != width || GraphBuilder::shapeOf(sin).back() != width)
          continue;
        cos = takeOneOfPairs(cos, interleaved, b);
        sin = takeOneOfPairs(sin, interleaved, b);
        rewriter.replaceOp(
            op, RotaryOp::create(rewriter, b.loc(), op.getType(), x, cos, sin, interleaved).getResult());
        return success();
      }
    }
    return failure();
  }
};

/// The factors of a product that has two.
std::optional<std::pair<Value, Value>> matchProduct(Value value) {
  auto mul = matchKind(value, ElementwiseKind::Mul);
  if (!mul)
    return std::nullopt;
  return std::make_pair(Value(mul.getInputs()[0]), Value(mul.getInputs()[1]));
}

/// The other factor of `product`, if `factor` is one.
Value matchOtherFactor(Value product, Value factor) {
  auto factors = matchProduct(product);
  if (!factors)
    return {};
  return factors->first == factor ? factors->second : factors->second == factor ? factors->first : Value();
}

struct RecogniseRotaryPairs : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op, PatternRewriter &rewriter) const override {
    Value low, high;
    bool interleaved;
    if (!matchPairs(op, low, high, interleaved))
      return failure();
    auto difference = matchKind(low, ElementwiseKind::Sub), sum = matchKind(high, ElementwiseKind::Add);
    auto lead = difference ? matchProduct(difference.getInputs()[0]) : std::nullopt;
    auto rest = difference ? matchProduct(difference.getInputs()[1]) : std::nullopt;
    if (!lead || !rest || !sum)
      return failure();
    // a cos - b sin and b cos + a sin: which factor is the element, and which the table, the regions tell.
    for (unsigned choice = 0; choice < 8; ++choice) {
      Value a = choice & 1 ? lead->second : lead->first, cos = choice & 1 ? lead->first : lead->second;
      Value b = choice & 2 ? rest->second : rest->first, sin = choice & 2 ? rest->first : rest->second;
      auto region = joinPairs(a, b, interleaved);
      Value bCos = sum.getInputs()[choice & 4 ? 1 : 0], aSin = sum.getInputs()[choice & 4 ? 0 : 1];
      auto isTable = [&](Value table) {
        return GraphBuilder::rankOf(table) > 0 &&
               GraphBuilder::shapeOf(table).back() == GraphBuilder::shapeOf(a).back();
      };
      if (!region || region->sizes.size() < 2 || !isa<FloatType>(GraphBuilder::elementOf(a)) ||
          a.getType() != low.getType() || matchOtherFactor(bCos, b) != cos ||
          matchOtherFactor(aSin, a) != sin || !isTable(cos) || !isTable(sin))
        continue;
      GraphBuilder graph(rewriter, fuseLocations(op.getLoc(), {low, high}));
      Value x = region->make(graph);
      Value turned = RotaryOp::create(rewriter, graph.loc(), x.getType(), x, cos, sin, interleaved);
      rewriter.replaceOp(op, graph.reshape(turned, GraphBuilder::shapeOf(op.getResult())));
      return success();
    }
    return failure();
  }
};

/// The first elements turned, the others behind them.
struct WidenRotary : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op, PatternRewriter &rewriter) const override {
    if (op.getInputs().size() != 2 || int64_t(op.getAxis()) != GraphBuilder::rankOf(op.getResult()) - 1)
      return failure();
    Value first = op.getInputs()[0];
    while (auto reshape = first.getDefiningOp<ReshapeOp>()) // there and back, behind pairs written out
      first = reshape.getInput();
    auto rotary = first.getDefiningOp<RotaryOp>();
    if (!rotary || rotary.getType() != op.getInputs()[0].getType())
      return failure();
    Region turned = regionOf(rotary.getInput()), others = regionOf(op.getInputs()[1]), whole = turned;
    whole.sizes.back() += others.sizes.back();
    turned.starts.back() += turned.sizes.back();
    turned.sizes.back() = others.sizes.back();
    // Of a table of half the rotated width, so that the op knows how far it turns.
    if (!(turned == others) || turned.step != 1 ||
        2 * GraphBuilder::shapeOf(rotary.getCos()).back() != GraphBuilder::shapeOf(rotary.getInput()).back())
      return failure();
    GraphBuilder b(rewriter, fuseLocations(op.getLoc(), {rotary.getResult()}));
    Value x = whole.make(b);
    rewriter.replaceOp(op, RotaryOp::create(rewriter, b.loc(), op.getType(), x, rotary.getCos(),
                                            rotary.getSin(), rotary.getInterleaved())
                               .getResult());
    return success();
  }
};

} // namespace

void populateRotaryPatterns(RewritePatternSet &patterns) {
  patterns.add<RecogniseRotary, RecogniseRotaryPairs, WidenRotary>(patterns.getContext());
}

} // namespace colossal
