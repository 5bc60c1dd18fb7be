//===- AttentionGradient.cpp ------------------------------------------------===//
//
// The weights are made again from queries and keys, and the row sums that a softmax's gradient needs are read
// off the result (Dao et al., FlashAttention, 2022, appendix B.4).
//
//===----------------------------------------------------------------------===//
#include "AttentionShapes.h"

#include "colossal/FactorGraph/AttentionParts.h"
#include "dialects/Colossal/GradientBuilder.h"
#include "dialects/Colossal/Verification.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using K = colossal::ElementwiseKind;

namespace {
/// Labels of contractions; `group` counts the query heads of a key head.
enum Label : int64_t { kBatch, kHead, kGroup, kQuery, kKey, kDepth, kWidth };

/// What attends to what, and how: all queries, or some rows of them.
struct Attended {
  Value query, key, value, mask;
  Value result, gradient; ///< of the result
  double scale = 1, softcap = 0;
  bool causal = false, guard = false;
  int64_t causalOffset = 0; ///< of the first row
  Value queryOffset;        ///< index, or null
};

/// An op's attributes, and its operands as they are called alike.
template <typename Op>
Attended describe(Op op, Value result, Value gradient) {
  return {op.getQuery(),
          op.getKey(),
          op.getValue(),
          op.getMask(),
          result,
          gradient,
          op.getScale().convertToDouble(),
          op.getSoftcap().convertToDouble(),
          op.getCausal(),
          op.getGuard(),
          static_cast<int64_t>(op.getCausalOffset()),
          Value()};
}

struct AttentionGradients {
  Value query, key, value, mask; ///< in the type that is computed in; null where not wanted
};

class AttentionDerivation {
public:
  AttentionDerivation(OpComposer &ops, const Attended &of)
      : of(of), ops(ops), q(shapeOf(of.query)), k(shapeOf(of.key)), type(elementTypeOf(of.query)),
        inner(computeType(type)), group(q[1] / k[1]) {}

  AttentionGradients build(bool wantsQuery, bool wantsKey, bool wantsValue, bool wantsMask);

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

  const Attended &of;
  OpComposer &ops;
  ArrayRef<int64_t> q, k;
  Type type, inner;
  int64_t group;
};
} // namespace

Value AttentionDerivation::buildProducts() {
  Value queries = split(of.query);
  Value products = ops.contract(queries, perQuery(kDepth), of.key, perKey(kDepth), perQuery(kKey), inner);
  return ops.scale(ops.reshape(products, {q[0], q[1], q[2], k[2]}), of.scale);
}

Value AttentionDerivation::hide(Value scores) {
  Value hidden = ops.constant(-std::numeric_limits<double>::infinity(), scores);
  if (of.mask)
    scores = elementTypeOf(of.mask).isInteger(1) ? ops.select(of.mask, scores, hidden)
                                                 : ops.add(scores, ops.cast(of.mask, inner));
  if (!of.causal)
    return scores;
  OpBuilder &b = ops.builder;
  Value last = IotaOp::create(b, ops.loc, RankedTensorType::get({q[2], 1}, b.getI64Type()), of.queryOffset,
                              b.getI64IntegerAttr(0), b.getF64FloatAttr(static_cast<double>(of.causalOffset)),
                              b.getF64FloatAttr(1));
  Value key = ops.iota({1, k[2]}, b.getI64Type(), 1);
  return ops.select(ops.compare(K::LessOrEqual, key, last), scores, hidden);
}

// s = q k^T, w = softmax(s), y = w v:
//   dv = w^T dy, dw = dy v^T, ds = w (dw - sum(dy y)), dq = ds k, dk = ds^T q
AttentionGradients AttentionDerivation::build(bool wantsQuery, bool wantsKey, bool wantsValue,
                                              bool wantsMask) {
  AttentionGradients found;
  Value y = split(of.gradient);
  Value products = buildProducts(), scores = products, bent;
  if (of.softcap != 0) {
    bent = ops.apply(K::Tanh, {ops.scale(products, 1 / of.softcap)});
    scores = ops.scale(bent, of.softcap);
  }
  Value weights =
      SoftmaxOp::create(ops.builder, ops.loc, scores.getType(), hide(scores), 3, /*log=*/false, of.guard);
  if (wantsValue)
    found.value = ops.contract(split(ops.cast(weights, type)), perQuery(kKey), y, perQuery(kWidth),
                               perKey(kWidth), inner);
  if (!wantsQuery && !wantsKey && !wantsMask)
    return found;
  Value slopes = ops.contract(y, perQuery(kWidth), of.value, perKey(kWidth), perQuery(kKey), inner);
  slopes = ops.reshape(slopes, shapeOf(weights));
  Value upper = ops.cast(of.gradient, inner), result = ops.cast(of.result, inner);
  Value rows = ops.reduce(ReduceKind::Sum, ops.mul(upper, result), {3});
  Value ofScores = ops.mul(weights, ops.sub(slopes, rows));
  if (wantsMask)
    found.mask = ofScores;
  if (bent)
    ofScores = ops.mul(ofScores, ops.shift(ops.neg(ops.mul(bent, bent)), 1));
  Value ofProducts = split(ops.cast(ops.scale(ofScores, of.scale), type));
  if (wantsQuery)
    found.query = ops.reshape(
        ops.contract(ofProducts, perQuery(kKey), of.key, perKey(kDepth), perQuery(kDepth), inner), q);
  if (wantsKey)
    found.key =
        ops.contract(ofProducts, perQuery(kKey), split(of.query), perQuery(kDepth), perKey(kDepth), inner);
  return found;
}

LogicalResult AttentionOp::buildGradient(GradientBuilder &gradient) {
  if (getQueryOffset() || getKeyCount())
    return gradient.refuse("attention to a number of keys that is known at run time only");
  if (getStatistics() && gradient.resultGradient(1))
    return gradient.refuse("the statistics of attention");
  Value upper = gradient.resultGradient(0);
  if (!upper)
    return success();
  OpComposer &ops = gradient.ops();
  // A mask's gradient is as large as the scores: then they are there at once in any case.
  if (getMask() && gradient.wants(3)) {
    const Attended of = describe(*this, getResult(), upper);
    AttentionGradients found =
        AttentionDerivation(ops, of).build(gradient.wants(0), gradient.wants(1), gradient.wants(2), true);
    const std::array<Value, 4> values{found.query, found.key, found.value, found.mask};
    for (auto [operand, value] : llvm::enumerate(values))
      if (value)
        gradient.add(operand, value);
    return success();
  }
  auto made = AttentionGradientOp::create(
      ops.builder, ops.loc, getQuery().getType(), getKey().getType(), getValue().getType(), getQuery(),
      getKey(), getValue(), getResult(), upper, getMask(), Value(), getScaleAttr(), getCausalAttr(),
      getCausalOffsetAttr(), getSoftcapAttr(), getGuardAttr(), ops.builder.getI64IntegerAttr(0));
  for (unsigned operand : {0u, 1u, 2u})
    if (gradient.wants(operand))
      gradient.add(operand, made->getResult(operand));
  return success();
}

//===----------------------------------------------------------------------===//
// The gradient as an op
//===----------------------------------------------------------------------===//

LogicalResult AttentionGradientOp::verify() {
  if (failed(verifyTensors(*this)) ||
      failed(verifyAttended(*this, {getQuery(), getKey(), getValue()}, getOutput(), "output", "C1", "C1")))
    return failure();
  if (getGradient().getType() != getOutput().getType())
    return emitOpError() << "the gradient must be " << getOutput().getType() << ", as the output, but is "
                         << getGradient().getType() << " (C1)";
  for (unsigned i : {0u, 1u, 2u})
    if (getOperand(i).getType() != (*this)->getResult(i).getType())
      return emitOpError() << "the gradient of " << getOperand(i).getType()
                           << " must be of that type, but is " << (*this)->getResult(i).getType() << " (C1)";
  if (static_cast<int64_t>(getRows()) < 0)
    return emitOpError() << "rows are " << static_cast<int64_t>(getRows()) << " (C2)";
  return verifyMask(*this, getMask(), shapeOf(getQuery()), shapeOf(getKey()), "C1");
}

FactorRule AttentionGradientOp::getFactorRule() {
  using F = AttentionFactors;
  ArrayRef<int64_t> q = shapeOf(getQuery()), k = shapeOf(getKey()), v = shapeOf(getValue());
  FactorRule rule;
  rule.add(q[0], FactorKind::Parallel, "batch");
  rule.add(k[1], FactorKind::Parallel, "heads");
  rule.add(q[1] / k[1], FactorKind::Reduction, "group");
  rule.add(q[2], FactorKind::Reduction, "sequence");
  rule.add(k[2], FactorKind::Whole, "keys");
  rule.add(q[3], FactorKind::Whole);
  rule.add(v[3], FactorKind::Whole);
  // Keys and values have no query heads of their own, and no queries: their gradients are sums over both.
  rule.setReduction(F::group, ReductionKind::Sum);
  rule.setReduction(F::query, ReductionKind::Sum);
  rule.factors[F::query].indexed = getCausal();
  const TensorFactors queries = {{F::batch}, {F::keyHeads, F::group}, {F::query}, {F::depth}},
                      keys = {{F::batch}, {F::keyHeads}, {F::key}, {F::depth}},
                      values = {{F::batch}, {F::keyHeads}, {F::key}, {F::valueDepth}},
                      rows = {{F::batch}, {F::keyHeads, F::group}, {F::query}, {F::valueDepth}};
  rule.operands = {queries, keys, values, rows, rows};
  if (getMask())
    rule.operands.push_back(getMaskFactors(getMask(), q, k));
  rule.operands.resize(getNumOperands()); // index operands have no dimensions
  rule.results = {queries, keys, values};
  return rule;
}

int64_t AttentionGradientOp::getPartRows(int64_t queries, double scores) {
  const auto given = static_cast<int64_t>(getRows());
  return given > 0 ? given
                   : static_cast<int64_t>(
                         factors::attentionPartRows(static_cast<double>(queries), scores, getCausal()));
}

double AttentionGradientOp::getFlops() {
  ArrayRef<int64_t> q = shapeOf(getQuery()), v = shapeOf(getValue());
  const double scores = double(q[0]) * q[1] * q[2] * v[2];
  double seen = 1;
  if (getCausal() && q[2] > 0) {
    const double parts = std::ceil(double(q[2]) / double(getPartRows(q[2], scores)));
    seen = (parts + 1) / (2 * parts);
  }
  // Five products, and about a dozen operations for each score's exponential and slope.
  return scores * seen * (6.0 * q[3] + 4.0 * v[3] + 12.0);
}

KernelKind AttentionGradientOp::getKernelKind() {
  return KernelKind::Attention;
}

Value AttentionGradientOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  return Value();
}

LogicalResult AttentionGradientOp::buildGradient(GradientBuilder &gradient) {
  return gradient.refuse();
}

FailureOr<SmallVector<Value>> AttentionGradientOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  using F = AttentionFactors;
  OpComposer ops(builder, getLoc());
  Attended all = describe(*this, context.operand(3), context.operand(4));
  all.query = context.operand(0);
  all.key = context.operand(1);
  all.value = context.operand(2);
  unsigned next = 5;
  if (getMask())
    all.mask = context.operand(next++);
  if (getQueryOffset())
    all.queryOffset = context.operand(next++);
  if (Value first = getCausal() ? context.getOffset(builder, F::query) : Value())
    all.queryOffset = all.queryOffset
                          ? arith::AddIOp::create(builder, getLoc(), all.queryOffset, first).getResult()
                          : first;
  // Rows that are padding may see no key, and enter the sums over all rows.
  all.guard |= context.isSplit(F::query) || context.isSplit(F::group);

  const int64_t queries = shapeOf(all.query)[2], keys = shapeOf(all.key)[2];
  const int64_t rows =
      getPartRows(queries, double(shapeOf(all.query)[0]) * shapeOf(all.query)[1] * queries * keys);
  const bool wantsQuery = !getQueryGradient().use_empty(), wantsKey = !getKeyGradient().use_empty(),
             wantsValue = !getValueGradient().use_empty();
  SmallVector<Value> parts; // of the queries' gradient, last first
  // Of keys or values, from the last rows on, which see most: the sum for what the rows up to here see, and
  // the sums behind that, last first, to which no row adds any more.
  struct Sum {
    Value open;
    SmallVector<Value> done;
  } key, value;
  auto add = [&](Sum &sum, Value part) {
    if (!sum.open || !part) {
      sum.open = part;
      return;
    }
    const int64_t seen = shapeOf(part)[2], known = shapeOf(sum.open)[2];
    if (seen < known)
      sum.done.push_back(ops.slice(sum.open, 2, seen, known - seen));
    sum.open = ops.add(part, ops.slice(sum.open, 2, 0, seen));
  };
  for (int64_t begin = (std::max<int64_t>(1, queries) - 1) / rows * rows; begin >= 0; begin -= rows) {
    const int64_t count = std::min(rows, queries - begin);
    Attended part = all;
    for (Value *tensor : {&part.query, &part.result, &part.gradient})
      *tensor = ops.slice(*tensor, 2, begin, count);
    part.causalOffset += begin;
    int64_t seen = keys;
    if (all.causal && !all.queryOffset) // one at least: hidden keys' softmax is the op's own matter
      seen = std::clamp<int64_t>(part.causalOffset + count, 1, keys);
    part.key = ops.slice(part.key, 2, 0, seen);
    part.value = ops.slice(part.value, 2, 0, seen);
    if (part.mask) {
      const auto rank = static_cast<int64_t>(shapeOf(part.mask).size());
      if (rank > 1 && shapeOf(part.mask)[rank - 2] == queries && queries > 1)
        part.mask = ops.slice(part.mask, rank - 2, begin, count);
      if (rank > 0 && shapeOf(part.mask)[rank - 1] == keys && keys > 1)
        part.mask = ops.slice(part.mask, rank - 1, 0, seen);
    }
    AttentionGradients found = AttentionDerivation(ops, part).build(wantsQuery, wantsKey, wantsValue, false);
    if (found.query)
      parts.push_back(ops.cast(found.query, elementTypeOf(getQuery())));
    add(key, found.key);
    add(value, found.value);
  }
  // Last first, as they were found.
  auto finish = [&](SmallVector<Value> sums, unsigned result) {
    Type element = elementTypeOf((*this)->getResult(result));
    SmallVector<int64_t> shape = context.localResultShape(result);
    if (sums.empty())
      return ops.fill(RankedTensorType::get(shape, element), 0);
    std::reverse(sums.begin(), sums.end());
    return ops.pad(ops.cast(ops.concat(sums, 2), element), {0, 0, 0, 0}, shape); // for keys that nobody sees
  };
  for (Sum *sum : {&key, &value})
    if (sum->open)
      sum->done.push_back(sum->open);
  return SmallVector<Value>{finish(parts, 0), finish(key.done, 1), finish(value.done, 2)};
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
