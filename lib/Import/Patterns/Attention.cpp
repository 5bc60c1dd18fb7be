//===- Attention.cpp - softmax attention from its parts ---------------------===//
//
// softmax(scale Q K^T + mask) V, with the scale on either operand or on the product, multiplied or divided;
// masks added or selected, also before the scale; keys and values repeated for grouped heads; zeros in place
// of the NaN of rows that see nothing. Batch and heads may be one dimension or several, and seen otherwise
// between the parts. AttentionScores.h reads what the softmax is of.
//
// Masks that select between 0 and -inf become booleans; their causal part becomes an attribute. Where the
// hidden value is a finite lowest number, a row that sees nothing averages over all keys: booleans cannot say
// that, so such a mask stays a number unless it is causal alone, when every row sees a key.
//
//===----------------------------------------------------------------------===//
#include "AttentionScores.h"
#include "Patterns.h"

#include <cmath>

using namespace mlir;

namespace colossal {

namespace {

/// Guards written out: where(isnan(p), 0, p) of a softmax.
struct RecogniseGuard : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    if (op.getKind() != ElementwiseKind::Select || !isSplat(op.getInputs()[1], 0))
      return failure();
    auto isNaN = matchKind(op.getInputs()[0], ElementwiseKind::IsNaN);
    auto softmax = op.getInputs()[2].getDefiningOp<SoftmaxOp>();
    if (!isNaN || !softmax || isNaN.getInputs()[0] != softmax.getResult() || softmax.getLog())
      return failure();
    GraphBuilder b(rewriter, fuseLocations(op.getLoc(), {softmax.getResult(), isNaN.getResult()}));
    rewriter.replaceOp(op, b.softmax(softmax.getInput(), softmax.getAxis(), false, true));
    return success();
  }
};

/// The operand without constant factors, which go to `scale`; movement ops in between are kept.
Value peelScale(Value value, double &scale, GraphBuilder &b) {
  if (auto op = value.getDefiningOp<ElementwiseOp>()) {
    auto parts = matchWithSplat(op);
    bool div = op.getKind() == ElementwiseKind::Div && parts && parts->first == op.getInputs()[0];
    if (parts && parts->second != 0 && parts->first.getType() == value.getType() &&
        (op.getKind() == ElementwiseKind::Mul || div)) {
      scale *= div ? 1.0 / parts->second : parts->second;
      return peelScale(parts->first, scale, b);
    }
    return value;
  }
  double inner = 1;
  if (auto transpose = value.getDefiningOp<TransposeOp>()) {
    Value source = peelScale(transpose.getInput(), inner, b);
    if (source == transpose.getInput())
      return value;
    scale *= inner;
    return b.transpose(source, transpose.getPermutation());
  }
  if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    Value source = peelScale(reshape.getInput(), inner, b);
    if (source == reshape.getInput())
      return value;
    scale *= inner;
    return b.reshape(source, GraphBuilder::shapeOf(value));
  }
  return value;
}

/// A contraction operand [..] with the dimensions in the order of `wanted` labels; a batch label that is
/// missing becomes a dimension of size 1.
Value arrange(Value value, ArrayRef<int64_t> labels, ArrayRef<int64_t> wanted, GraphBuilder &b) {
  SmallVector<int64_t> permutation, missing;
  for (auto [d, label] : llvm::enumerate(wanted)) {
    auto *at = llvm::find(labels, label);
    if (at == labels.end())
      missing.push_back(d);
    else
      permutation.push_back(at - labels.begin());
  }
  if (permutation.size() != labels.size())
    return {};
  bool moved = false;
  for (auto [d, from] : llvm::enumerate(permutation))
    moved |= int64_t(d) != from;
  if (moved) {
    // A transpose of a transpose is one.
    if (auto inner = value.getDefiningOp<TransposeOp>()) {
      for (int64_t &d : permutation)
        d = inner.getPermutation()[d];
      value = inner.getInput();
    }
    bool identity = true;
    for (auto [d, from] : llvm::enumerate(permutation))
      identity &= int64_t(d) == from;
    value = identity ? value : b.transpose(value, permutation);
  }
  return b.unsqueeze(value, missing);
}

/// k of [B, Hk, S, D] repeated to [B, Hk * G, S, D], and G.
std::pair<Value, int64_t> matchRepeatedHeads(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  auto broadcast = reshape ? reshape.getInput().getDefiningOp<BroadcastOp>() : BroadcastOp();
  if (!broadcast)
    return {value, 1};
  auto wide = GraphBuilder::shapeOf(broadcast.getResult()),
       narrow = GraphBuilder::shapeOf(broadcast.getInput());
  auto flat = GraphBuilder::shapeOf(value);
  if (wide.size() != 5 || narrow.size() != 5 || flat.size() != 4 || narrow[2] != 1 ||
      flat[1] != wide[1] * wide[2] || flat[0] != wide[0] || flat.take_back(2) != wide.take_back(2))
    return {value, 1};
  for (unsigned d : {0, 1, 3, 4})
    if (narrow[d] != wide[d])
      return {value, 1};
  return {broadcast.getInput(), wide[2]}; // reshaped to rank 4 by the caller
}

/// The softmax that gives `value`, through reshapes before its last two dimensions and casts, none of which
/// rounds more than f32 or the type of `value` does.
SoftmaxOp findSoftmax(Value value, SmallVectorImpl<Value> &passed) {
  Type last = GraphBuilder::elementOf(value);
  while (true) {
    passed.push_back(value);
    if (auto softmax = value.getDefiningOp<SoftmaxOp>())
      return softmax;
    auto reshape = value.getDefiningOp<ReshapeOp>();
    auto cast = matchKind(value, ElementwiseKind::Cast);
    Value next = reshape ? Value(reshape.getInput()) : cast ? Value(cast.getInputs()[0]) : Value();
    if (!next || GraphBuilder::rankOf(next) < 3 || GraphBuilder::rankOf(value) < 3 ||
        GraphBuilder::shapeOf(next).take_back(2) != GraphBuilder::shapeOf(value).take_back(2))
      return {};
    auto from = dyn_cast<FloatType>(GraphBuilder::elementOf(next)),
         to = dyn_cast<FloatType>(GraphBuilder::elementOf(value));
    if (!from || !to || (from != to && to.getWidth() < 32 && to != last))
      return {};
    value = next;
  }
}

void collectConjuncts(Value condition, SmallVectorImpl<Value> &conjuncts) {
  Value inner = stripBroadcast(condition);
  if (auto both = matchKind(inner, ElementwiseKind::And)) {
    collectConjuncts(both.getInputs()[0], conjuncts);
    collectConjuncts(both.getInputs()[1], conjuncts);
    return;
  }
  conjuncts.push_back(condition);
}

/// Labels of [..., row, column].
SmallVector<int64_t> makeLabels(ArrayRef<int64_t> leads, int64_t row, int64_t column) {
  SmallVector<int64_t> labels(leads);
  labels.append({row, column});
  return labels;
}

/// What the operands of attention's two contractions are labelled, the scores being [..., row, column] in
/// both.
struct AttentionLabels {
  SmallVector<int64_t> query, key, value;
};

/// None where the contractions sum something else than attention does.
std::optional<AttentionLabels> matchLabels(ContractOp first, ContractOp second) {
  ArrayRef<int64_t> s = first.getResultDims(), p = second.getLhsDims();
  int64_t d = -1, v = -1;
  for (int64_t label : first.getLhsDims())
    if (!llvm::is_contained(s, label)) {
      if (d >= 0)
        return std::nullopt;
      d = label;
    }
  for (int64_t label : second.getResultDims())
    if (!llvm::is_contained(p, label))
      v = label;
  const int64_t sq = s[s.size() - 2], sk = s.back(), pq = p[p.size() - 2], pk = p.back();
  const bool sides =
      llvm::is_contained(first.getLhsDims(), sq) && llvm::is_contained(first.getRhsDims(), sk) &&
      !llvm::is_contained(first.getRhsDims(), sq) && !llvm::is_contained(first.getLhsDims(), sk);
  if (d < 0 || v < 0 || !sides ||
      second.getResultDims() != ArrayRef<int64_t>(makeLabels(p.drop_back(2), pq, v)) ||
      llvm::is_contained(second.getRhsDims(), pq) || !llvm::is_contained(second.getRhsDims(), pk))
    return std::nullopt;
  return AttentionLabels{makeLabels(s.drop_back(2), sq, d), makeLabels(s.drop_back(2), sk, d),
                         makeLabels(p.drop_back(2), pk, v)};
}

/// The widest of the types; null where two are no floats of different widths.
Type findWidest(Type element, ArrayRef<Type> others) {
  Type widest = element;
  for (Type type : others) {
    if (!type || type == widest)
      continue;
    if (!isa<FloatType>(type) || !isa<FloatType>(widest) ||
        type.getIntOrFloatBitWidth() == widest.getIntOrFloatBitWidth())
      return nullptr;
    if (type.getIntOrFloatBitWidth() > widest.getIntOrFloatBitWidth())
      widest = type;
  }
  return widest;
}

struct RecogniseAttention : OpRewritePattern<ContractOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ContractOp op, PatternRewriter &rewriter) const override {
    // Batch and heads, in any number of dimensions, queries, keys.
    const bool hasLeads = op.getLhsDims().size() >= 3;
    SmallVector<Value> passed;
    SoftmaxOp softmax = hasLeads ? findSoftmax(op.getLhs(), passed) : SoftmaxOp();
    if (!softmax || softmax.getLog() ||
        int64_t(softmax.getAxis()) != GraphBuilder::rankOf(softmax.getInput()) - 1)
      return failure();
    Scores scores;
    if (!matchScores(softmax.getInput(), scores))
      return failure();
    ContractOp first = scores.contract;
    std::optional<AttentionLabels> labels = matchLabels(first, op);
    if (!labels)
      return failure();

    // All as [batch, heads, ...]; one dimension of both is one batch of many heads, which can be split like
    // heads. Nothing is built before it is known to fit.
    Leads outer = leadsOf(op.getLhs()), inner = leadsOf(first.getResult()), heads = scores.leads;
    int64_t most = heads.pop_back_val(), rest = 1;
    for (int64_t size : heads)
      rest *= size;
    heads = {rest, most};
    auto queryShape = fit(first.getLhsDims(), labels->query, inner);
    auto keyShape = fit(first.getRhsDims(), labels->key, inner);
    auto valueShape = fit(op.getRhsDims(), labels->value, outer);
    if (queryShape != Fit::Whole || keyShape == Fit::No || valueShape != keyShape || most == 0 ||
        (keyShape == Fit::Shared && (inner.back() != most || outer.back() != most)))
      return failure();
    // The widest type met; what is narrower is cast to it, which changes no value.
    Type element = GraphBuilder::elementOf(op.getResult());
    Type compute = findWidest(element, {GraphBuilder::elementOf(first.getLhs()), scores.wide});
    if (!compute)
      return failure();

    GraphBuilder b(rewriter, attentionLocation(op, passed, scores));
    Value query = arrange(peelScale(first.getLhs(), scores.scale, b), first.getLhsDims(), labels->query, b);
    Value key = peelScale(first.getRhs(), scores.scale, b);
    key = arrange(key, first.getRhsDims(), labels->key, b);
    Value value = arrange(op.getRhs(), op.getRhsDims(), labels->value, b);
    query = b.cast(regroup(query, inner, heads, b), compute);
    key = regroup(key, inner, heads, b);
    value = regroup(value, outer, heads, b);
    for (auto [factor, leads] : scores.factors)
      query = b.mul(query, b.cast(regroup(factor, leads, heads, b), GraphBuilder::elementOf(query)));
    auto [narrowKey, keyGroup] = matchRepeatedHeads(key);
    auto [narrowValue, valueGroup] = matchRepeatedHeads(value);
    auto narrow = [&](Value x) {
      auto shape = GraphBuilder::shapeOf(x);
      return shape.size() == 5 ? b.squeeze(x, {2}) : x;
    };
    if (keyGroup == valueGroup && keyGroup > 1) {
      key = narrow(narrowKey);
      value = narrow(narrowValue);
    }
    key = b.cast(key, compute);
    value = b.cast(value, compute);
    auto q = GraphBuilder::shapeOf(query), k = GraphBuilder::shapeOf(key), w = GraphBuilder::shapeOf(value);
    if (q[0] != heads[0] || q[1] != heads[1] || q[0] != k[0] || q[0] != w[0] || k[1] != w[1] ||
        k[2] != w[2] || q[3] != k[3] || k[1] == 0 || q[1] % k[1])
      return failure();
    Mask mask = makeMask(scores, q[2], k[2], heads, compute, b);
    auto type = RankedTensorType::get({q[0], q[1], q[2], w[3]}, compute);
    Value result = AttentionOp::create(rewriter, b.loc(), type, Type(), query, key, value, mask.value,
                                       Value(), Value(), APFloat(scores.scale), mask.causal,
                                       uint64_t(mask.offset), APFloat(scores.softcap), softmax.getGuard())
                       .getResult();
    rewriter.replaceOp(op, b.reshape(b.cast(result, element), GraphBuilder::shapeOf(op.getResult())));
    return success();
  }

private:
  enum class Fit { No, Shared, Whole };
  /// Whether an operand with `labels` has no others than `wanted` [..., row, column], and which of those
  /// before the last two: all that count more than 1, or all but the last, which is heads.
  static Fit fit(ArrayRef<int64_t> labels, ArrayRef<int64_t> wanted, ArrayRef<int64_t> leads) {
    if (llvm::any_of(labels, [&](int64_t label) { return !llvm::is_contained(wanted, label); }))
      return Fit::No;
    for (size_t i = 0; i < leads.size(); ++i)
      if (leads[i] != 1 && !llvm::is_contained(labels, wanted[i]))
        return i + 1 == leads.size() ? Fit::Shared : Fit::No;
    return Fit::Whole;
  }

  struct Mask {
    Value value;
    bool causal = false;
    int64_t offset = 0;
  };

  static Location attentionLocation(ContractOp op, ArrayRef<Value> behind, Scores &scores) {
    SmallVector<Value> parts = {scores.contract.getResult()};
    parts.append(scores.passed.rbegin(), scores.passed.rend());
    parts.append(behind.rbegin(), behind.rend());
    return fuseLocations(op.getLoc(), parts);
  }

  static Mask makeMask(const Scores &scores, int64_t queries, int64_t keys, ArrayRef<int64_t> heads,
                       Type element, GraphBuilder &b) {
    Mask mask;
    SmallVector<Value> visible;
    bool booleans = true, finite = std::isfinite(scores.lowest);
    for (const MaskTerm &term : scores.terms) {
      booleans &= term.condition != nullptr;
      finite |= term.condition && std::isfinite(term.hidden);
    }
    for (const MaskTerm &term : scores.terms) {
      if (!booleans)
        break;
      SmallVector<Value> conjuncts;
      if (term.inverted)
        conjuncts.push_back(b.unary(ElementwiseKind::Not, term.condition));
      else
        collectConjuncts(term.condition, conjuncts);
      for (Value conjunct : conjuncts) {
        auto offset = matchCausal(conjunct);
        auto shape = GraphBuilder::shapeOf(stripBroadcast(conjunct));
        bool whole = shape.size() >= 2 && shape.back() == keys && shape[shape.size() - 2] == queries;
        if (!offset || !whole) {
          visible.push_back(regroup(stripBroadcast(conjunct), term.leads, heads, b));
        } else if (*offset < keys - 1) {
          mask.offset = mask.causal ? std::min(mask.offset, *offset) : *offset;
          mask.causal = true;
        }
      }
    }
    // With a finite hidden value, booleans are right only where every row sees a key.
    if (booleans && (!finite || (visible.empty() && (!mask.causal || mask.offset >= 0)))) {
      for (Value one : visible)
        mask.value = mask.value ? b.elementwise(ElementwiseKind::And, {mask.value, one}) : one;
      return mask;
    }
    mask = Mask();
    for (const MaskTerm &term : scores.terms) {
      Value added = term.added ? b.cast(term.added, element) : Value();
      if (added && term.scale != 1)
        added = b.mul(added, b.scalar(GraphBuilder::elementOf(added), term.scale));
      if (!added) {
        Value zero = b.scalar(element, 0), hidden = b.scalar(element, term.hidden);
        added = b.select(term.condition, term.inverted ? hidden : zero, term.inverted ? zero : hidden);
      }
      added = regroup(stripBroadcast(added), term.leads, heads, b);
      mask.value = mask.value ? b.add(mask.value, added) : added;
    }
    if (mask.value && std::isfinite(scores.lowest))
      mask.value = b.elementwise(ElementwiseKind::Max,
                                 {mask.value, b.scalar(GraphBuilder::elementOf(mask.value), scores.lowest)});
    return mask;
  }
};

} // namespace

void populateAttentionPatterns(RewritePatternSet &patterns) {
  patterns.add<RecogniseGuard, RecogniseAttention>(patterns.getContext());
}

} // namespace colossal
