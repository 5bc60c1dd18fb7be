//===- AttentionGradient.cpp ------------------------------------------------===//
//
// The weights are made again from queries and keys, and the row sums that a softmax's gradient needs are read
// off the result (Dao et al., FlashAttention, 2022, appendix B.4).
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/GradientBuilder.h"

#include <limits>

using namespace mlir;
using namespace colossal;
using K = colossal::ElementwiseKind;

namespace {
/// Labels of contractions; `group` counts the query heads of a key head.
enum Label : int64_t { kBatch, kHead, kGroup, kQuery, kKey, kDepth, kWidth };

class AttentionDerivation {
public:
  AttentionDerivation(AttentionOp op, GradientBuilder &gradient)
      : op(op), gradient(gradient), ops(gradient.ops()), q(shapeOf(op.getQuery())), k(shapeOf(op.getKey())),
        type(elementTypeOf(op.getQuery())), inner(computeType(type)), group(q[1] / k[1]) {}

  void build();

private:
  /// A tensor with query heads, these as [key head, query head of it] where there are several.
  Value split(Value tensor) {
    if (group == 1)
      return tensor;
    ArrayRef<int64_t> shape = shapeOf(tensor);
    return ops.reshape(tensor, {shape[0], k[1], group, shape[2], shape[3]});
  }
  SmallVector<int64_t> perQuery(int64_t last) const {
    if (group == 1)
      return {kBatch, kHead, kQuery, last};
    return {kBatch, kHead, kGroup, kQuery, last};
  }
  static SmallVector<int64_t> perKey(int64_t last) { return {kBatch, kHead, kKey, last}; }
  /// scale * q k^T, B x Hq x Sq x Sk
  Value buildProducts();
  /// What is added for the mask, and -inf where a key is hidden.
  Value hide(Value scores);

  AttentionOp op;
  GradientBuilder &gradient;
  OpComposer &ops;
  ArrayRef<int64_t> q, k;
  Type type, inner;
  int64_t group;
};
} // namespace

Value AttentionDerivation::buildProducts() {
  Value queries = split(op.getQuery());
  Value products =
      ops.contract(queries, perQuery(kDepth), op.getKey(), perKey(kDepth), perQuery(kKey), inner);
  return ops.scale(ops.reshape(products, {q[0], q[1], q[2], k[2]}), op.getScale().convertToDouble());
}

Value AttentionDerivation::hide(Value scores) {
  Value hidden = ops.constant(-std::numeric_limits<double>::infinity(), scores);
  if (Value mask = op.getMask())
    scores = elementTypeOf(mask).isInteger(1) ? ops.select(mask, scores, hidden)
                                              : ops.add(scores, ops.cast(mask, inner));
  if (!op.getCausal())
    return scores;
  Type i64 = ops.builder.getI64Type();
  Value last = ops.iota({q[2], 1}, i64, 0, static_cast<double>(static_cast<int64_t>(op.getCausalOffset())));
  Value key = ops.iota({1, k[2]}, i64, 1);
  return ops.select(ops.compare(K::LessOrEqual, key, last), scores, hidden);
}

// s = q k^T, w = softmax(s), y = w v:
//   dv = w^T dy, dw = dy v^T, ds = w (dw - sum(dy y)), dq = ds k, dk = ds^T q
void AttentionDerivation::build() {
  Value y = split(gradient.resultGradient(0));
  Value products = buildProducts(), scores = products, bent;
  if (double cap = op.getSoftcap().convertToDouble()) {
    bent = ops.apply(K::Tanh, {ops.scale(products, 1 / cap)});
    scores = ops.scale(bent, cap);
  }
  Value weights = SoftmaxOp::create(ops.builder, ops.loc, scores.getType(), hide(scores), 3, /*log=*/false,
                                    op.getGuard());
  if (gradient.wants(2))
    gradient.add(2, ops.contract(split(ops.cast(weights, type)), perQuery(kKey), y, perQuery(kWidth),
                                 perKey(kWidth), type));
  const bool wantsMask = op.getMask() && gradient.wants(3);
  if (!gradient.wants(0) && !gradient.wants(1) && !wantsMask)
    return;
  Value slopes = ops.contract(y, perQuery(kWidth), op.getValue(), perKey(kWidth), perQuery(kKey), inner);
  slopes = ops.reshape(slopes, shapeOf(weights));
  Value upper = ops.cast(gradient.resultGradient(0), inner), result = ops.cast(op.getResult(), inner);
  Value rows = ops.reduce(ReduceKind::Sum, ops.mul(upper, result), {3});
  Value ofScores = ops.mul(weights, ops.sub(slopes, rows));
  if (wantsMask)
    gradient.add(3, ofScores);
  if (bent)
    ofScores = ops.mul(ofScores, ops.shift(ops.neg(ops.mul(bent, bent)), 1));
  Value ofProducts = split(ops.cast(ops.scale(ofScores, op.getScale().convertToDouble()), type));
  if (gradient.wants(0)) {
    Value queries =
        ops.contract(ofProducts, perQuery(kKey), op.getKey(), perKey(kDepth), perQuery(kDepth), type);
    gradient.add(0, ops.reshape(queries, q));
  }
  if (gradient.wants(1)) {
    Value queries = split(op.getQuery());
    gradient.add(1,
                 ops.contract(ofProducts, perQuery(kKey), queries, perQuery(kDepth), perKey(kDepth), type));
  }
}

LogicalResult AttentionOp::buildGradient(GradientBuilder &gradient) {
  if (getQueryOffset() || getKeyCount())
    return gradient.refuse("attention to a number of keys that is known at run time only");
  if (getStatistics() && gradient.resultGradient(1))
    return gradient.refuse("the statistics of attention");
  if (gradient.resultGradient(0))
    AttentionDerivation(*this, gradient).build();
  return success();
}

namespace {
/// The two halves that a rotation turns, each as wide as the angles: (a, b).
std::pair<Value, Value> takePairs(OpComposer &ops, RotaryOp op, Value from) {
  const int64_t axis = static_cast<int64_t>(shapeOf(from).size()) - 1, half = shapeOf(op.getCos()).back();
  const int64_t step = op.getInterleaved() ? 2 : 1;
  Value first = ops.slice(from, axis, 0, half, step);
  return {first, ops.slice(from, axis, op.getInterleaved() ? 1 : half, half, step)};
}
} // namespace

// A rotation by the opposite angles. Of (a c - b s, b c + a s): dc = a da' + b db', ds = a db' - b da'.
LogicalResult RotaryOp::buildGradient(GradientBuilder &gradient) {
  OpComposer &ops = gradient.ops();
  Value g = gradient.resultGradient();
  if (gradient.wants(0)) {
    Value back = ops.neg(getSin());
    gradient.add(0, RotaryOp::create(ops.builder, ops.loc, g.getType(), g, getCos(), back, getInterleaved()));
  }
  if (!gradient.wants(1) && !gradient.wants(2))
    return success();
  auto [a, b] = takePairs(ops, *this, gradient.widen(getInput()));
  auto [first, second] = takePairs(ops, *this, gradient.widen(g));
  if (gradient.wants(1)) {
    Value along = ops.mul(a, first);
    gradient.add(1, ops.add(along, ops.mul(b, second)));
  }
  if (gradient.wants(2)) {
    Value along = ops.mul(a, second);
    gradient.add(2, ops.sub(along, ops.mul(b, first)));
  }
  return success();
}
