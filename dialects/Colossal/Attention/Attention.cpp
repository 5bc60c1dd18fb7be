//===- Attention.cpp -----------------------------------------------------===//
//
// Attention and rotary embedding. All that is known about these ops stands here: verification, folding,
// sharding rules, emission.
//
//===----------------------------------------------------------------------===//
#include "AttentionShapes.h"

#include "dialects/Colossal/OpComposer.h"
#include "dialects/Colossal/Verification.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

LogicalResult colossal::verifyAttended(Operation *op, ValueRange queryKeyValue, Value result,
                                       StringRef resultName, StringRef types, StringRef shapes) {
  Value query = queryKeyValue[0], key = queryKeyValue[1], value = queryKeyValue[2];
  for (Value tensor : {query, key, value, result})
    if (failed(verifyRank(op, tensor, 4, "every tensor", types)) ||
        failed(verifySameElements(op, query, tensor, types)))
      return failure();
  if (failed(verifyFloats(op, query, types)))
    return failure();
  ArrayRef<int64_t> q = shapeOf(query), k = shapeOf(key), v = shapeOf(value);
  if (k[1] == 0 ? q[1] != 0 : q[1] % k[1] != 0)
    return op->emitOpError() << q[1] << " query heads are not a multiple of " << k[1] << " key heads ("
                             << shapes << ")";
  if (failed(verifyShape(op, key, {q[0], k[1], k[2], q[3]}, "key", shapes)) ||
      failed(verifyShape(op, value, {q[0], k[1], k[2], v[3]}, "value", shapes)))
    return failure();
  return verifyShape(op, result, {q[0], q[1], q[2], v[3]}, resultName, shapes);
}

LogicalResult colossal::verifyMask(Operation *op, Value mask, ArrayRef<int64_t> query, ArrayRef<int64_t> key,
                                   StringRef constraint) {
  if (!mask)
    return success();
  Type type = elementTypeOf(mask);
  if (!type.isInteger(1) && !isa<FloatType>(type))
    return op->emitOpError() << "the mask must be of floats or i1, but is " << mask.getType() << " ("
                             << constraint << ")";
  return verifyBroadcasts(op, mask, {query[0], query[1], query[2], key[2]}, "mask", constraint);
}

LogicalResult AttentionOp::verify() {
  if (failed(verifyTensors(*this)) ||
      failed(verifyAttended(*this, {getQuery(), getKey(), getValue()}, getResult(), "result", "C1", "C2")))
    return failure();
  ArrayRef<int64_t> q = shapeOf(getQuery());
  if (Value statistics = getStatistics()) {
    if (failed(verifyShape(*this, statistics, {q[0], q[1], q[2], 1}, "statistics", "C2")))
      return failure();
    if (Type inner = computeType(elementTypeOf(getQuery())); elementTypeOf(statistics) != inner)
      return emitOpError() << "the statistics must be of " << inner << ", but are " << statistics.getType()
                           << " (C4)";
  }
  return verifyMask(*this, getMask(), q, shapeOf(getKey()), "C3");
}

LogicalResult RotaryOp::verify() {
  if (failed(verifyTensors(*this)))
    return failure();
  for (Value tensor : {getInput(), getCos(), getSin()})
    if (failed(verifyFloats(*this, tensor, "C1")))
      return failure();
  if (getType() != getInput().getType())
    return emitOpError() << "the result must be " << getInput().getType() << ", as the input, but is "
                         << getType() << " (C1)";
  ArrayRef<int64_t> input = shapeOf(getInput()), cos = shapeOf(getCos()), sin = shapeOf(getSin());
  if (input.size() < 2 || cos.empty() || sin.empty() || cos.back() != sin.back() ||
      2 * cos.back() > input.back())
    return emitOpError() << "cos of " << getCos().getType() << " and sin of " << getSin().getType()
                         << " do not turn rows of " << getInput().getType() << " (C2)";
  SmallVector<int64_t> angles(input);
  angles.back() = cos.back();
  if (failed(verifyBroadcasts(*this, getCos(), angles, "cos", "C2")))
    return failure();
  return verifyBroadcasts(*this, getSin(), angles, "sin", "C2");
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

TensorFactors colossal::getMaskFactors(Value mask, ArrayRef<int64_t> query, ArrayRef<int64_t> key) {
  using F = AttentionFactors;
  const TensorFactors full = {{F::batch}, {F::keyHeads, F::group}, {F::query}, {F::key}};
  const int64_t extents[] = {query[0], query[1], query[2], key[2]};
  ArrayRef<int64_t> sizes = shapeOf(mask);
  TensorFactors dims;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    unsigned target = 4 - sizes.size() + i;
    dims.push_back(size == extents[target] ? full[target] : DimFactors());
  }
  return dims;
}

FactorRule AttentionOp::getFactorRule() {
  using F = AttentionFactors;
  ArrayRef<int64_t> q = cast<RankedTensorType>(getQuery().getType()).getShape();
  ArrayRef<int64_t> k = cast<RankedTensorType>(getKey().getType()).getShape();
  ArrayRef<int64_t> v = cast<RankedTensorType>(getValue().getType()).getShape();
  FactorRule rule;
  rule.add(q[0], FactorKind::Parallel, "batch");
  rule.add(k[1], FactorKind::Parallel, "heads");
  rule.add(q[1] / k[1], FactorKind::Parallel, "group");
  rule.add(q[2], FactorKind::Parallel, "sequence");
  rule.add(k[2], FactorKind::Whole, "keys");
  rule.add(q[3], FactorKind::Whole);
  rule.add(v[3], FactorKind::Whole);
  rule.factors[F::query].indexed = getCausal();
  // The parts' results join by their statistics, which are then no result of the op.
  if (!getStatistics()) {
    Factor &keys = rule.factors[F::key];
    keys.kind = FactorKind::Reduction;
    keys.staged = keys.indexed = true; // what is padding is hidden by the number of real keys
    // A row is a vector of `query`, the rule's an element of it: the greatest logarithm, and the sum of
    // weights.
    double bytes = computeType(elementTypeOf(getQuery())).getIntOrFloatBitWidth() / 8.0;
    rule.statistics.assign(2, {bytes / static_cast<double>(std::max<int64_t>(1, q[3]))});
  }
  rule.operands.push_back({{F::batch}, {F::keyHeads, F::group}, {F::query}, {F::depth}});
  rule.operands.push_back({{F::batch}, {F::keyHeads}, {F::key}, {F::depth}});
  rule.operands.push_back({{F::batch}, {F::keyHeads}, {F::key}, {F::valueDepth}});
  if (getMask())
    rule.operands.push_back(getMaskFactors(getMask(), q, k));
  rule.operands.resize(getNumOperands()); // index operands have no dimensions
  rule.results.push_back({{F::batch}, {F::keyHeads, F::group}, {F::query}, {F::valueDepth}});
  if (getStatistics())
    rule.results.push_back({{F::batch}, {F::keyHeads, F::group}, {F::query}, {}});
  return rule;
}

FailureOr<SmallVector<Value>> AttentionOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  using F = AttentionFactors;
  unsigned next = 3;
  Value mask = getMask() ? context.operand(next++) : Value();
  Value queryOffset = getQueryOffset() ? context.operand(next++) : Value();
  Value keyCount = getKeyCount() ? context.operand(next++) : Value();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, getLoc(), value);
  };
  if (Value first = getCausal() ? context.getOffset(builder, F::query) : Value())
    queryOffset =
        queryOffset ? arith::AddIOp::create(builder, getLoc(), queryOffset, first).getResult() : first;
  const bool isStaged = context.isSplit(F::key);
  if (isStaged) {
    Value first = context.getOffset(builder, F::key), valid = context.getValidCount(builder, F::key);
    if (!first)
      first = constant(0);
    if (getCausal())
      queryOffset = arith::SubIOp::create(builder, getLoc(), queryOffset ? queryOffset : constant(0), first);
    if (keyCount) {
      Value left = arith::SubIOp::create(builder, getLoc(), keyCount, first);
      left = arith::MinSIOp::create(builder, getLoc(), left,
                                    valid ? valid : constant(context.localSize(F::key)));
      valid = arith::MaxSIOp::create(builder, getLoc(), left, constant(0));
    }
    keyCount = valid;
  }
  SmallVector<int64_t> shape = context.localResultShape(0), rows(shape);
  rows.back() = 1;
  Type element = elementTypeOf(getResult());
  auto type = RankedTensorType::get(shape, element);
  Type statistics;
  if (isStaged || getStatistics())
    statistics = RankedTensorType::get(rows, computeType(element));
  // Of a part of the keys a row may see none.
  auto guard = isStaged ? builder.getBoolAttr(true) : getGuardAttr();
  auto local = AttentionOp::create(
      builder, getLoc(), type, statistics, context.operand(0), context.operand(1), context.operand(2), mask,
      queryOffset, keyCount, getScaleAttr(), getCausalAttr(), getCausalOffsetAttr(), getSoftcapAttr(), guard);
  if (!isStaged)
    return SmallVector<Value>(local.getResults());

  // Each part's share of the sum over all keys scales its result; the sum of these is left to who needs it.
  OpComposer ops(builder, getLoc());
  Value own = local.getStatistics();
  Value greatest = context.reduceStatistic(builder, own, ReductionKind::Max);
  Value lowest = ops.constant(-std::numeric_limits<double>::infinity(), greatest),
        zero = ops.constant(0, greatest);
  // Rows that see nothing at all have no greatest; their weights are zero.
  Value shift = ops.select(ops.compare(ElementwiseKind::Equal, greatest, lowest), zero, greatest);
  Value weight = ops.apply(ElementwiseKind::Exp, {ops.apply(ElementwiseKind::Sub, {own, shift})});
  Value sum = context.reduceStatistic(builder, weight, ReductionKind::Sum);
  Value share = ops.apply(ElementwiseKind::Div, {weight, sum});
  if (getGuard())
    share = ops.select(ops.compare(ElementwiseKind::Equal, sum, zero), zero, share);
  Value result = ops.apply(ElementwiseKind::Mul, {ops.cast(local.getResult(), computeType(element)), share});
  return SmallVector<Value>{ops.cast(result, element)};
}

double AttentionOp::getFlops() {
  ArrayRef<int64_t> q = cast<RankedTensorType>(getQuery().getType()).getShape();
  ArrayRef<int64_t> v = cast<RankedTensorType>(getValue().getType()).getShape();
  // Two products of B x H x Sq x Sk scores, and about eight operations for each score's exponential and
  // statistics.
  double scores = double(q[0]) * q[1] * q[2] * v[2];
  return scores * (2.0 * q[3] + 2.0 * v[3] + 8.0) * (getCausal() ? 0.5 : 1.0);
}

FactorRule RotaryOp::getFactorRule() {
  FactorRule rule = FactorRule::makePointwise(*this);
  unsigned last = rule.factors.size() - 1;
  rule.factors[last].kind = FactorKind::Whole; // the elements of a pair lie far apart
  for (unsigned i : {1u, 2u}) { // half as wide as the input, so that broadcasting did not match them
    int64_t size = cast<RankedTensorType>(getOperand(i).getType()).getShape().back();
    DimFactors &dim = rule.operands[i].back();
    dim.clear();
    if (size != 1)
      dim.push_back(rule.add(size, FactorKind::Whole));
  }
  return rule;
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

// Five products of scores' size for the forward pass's two: the scores again, and the gradients of weights,
// values, queries and keys (Dao et al., FlashAttention, 2022, appendix B). They are spread over the three
// operands. A mask of floats is added to the scores: its gradient is theirs, summed up where it is broadcast.
double AttentionOp::getGradientFlops(unsigned operand) {
  return operand < 3 ? getFlops() * 2.5 / 3 : countGradientElements(*this, operand);
}

// The weights are computed again from the statistics of the softmax; its gradient needs the rows' product
// with the result.
bool AttentionOp::isResultSaved(unsigned result) {
  return true;
}

// A rotation is linear in its input, and the angles have no gradient that training would use.
bool RotaryOp::isOperandSaved(unsigned operand) {
  return operand > 0;
}
double RotaryOp::getGradientFlops(unsigned operand) {
  return operand == 0 ? countGradientElements(*this, 0) : 0;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

KernelKind AttentionOp::getKernelKind() {
  return KernelKind::Attention;
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

/// One score: scale, softcap, mask, then what is not visible (causal, beyond the keys) is -inf.
static Element emitScore(ElementEmitter &emitter, AttentionOp op, ArrayRef<Lane> index, Lane keyHead,
                         Lane key, Element visible, Value zero) {
  Type type = elementTypeOf(op.getQuery()), inner = computeType(type);
  Value dot =
      emitter.reduce(shapeOf(op.getQuery()).back(), zero, [&](Value d, ValueRange sum) -> SmallVector<Value> {
        Lane at = emitter.uniform(d);
        Element q(emitter, emitter.load(op.getQuery(), {index[0], index[1], index[2], at}), type);
        Element k(emitter, emitter.load(op.getKey(), {index[0], keyHead, key, at}), type);
        k = k.to(inner);
        return {(Element(emitter, sum[0], inner) + q.to(inner) * k).get()};
      })[0];
  Element score(emitter, dot, inner), hidden = score.like(-std::numeric_limits<double>::infinity());
  score = score * score.like(op.getScale().convertToDouble());
  if (double cap = op.getSoftcap().convertToDouble()) {
    Element most = score.like(cap);
    score = (score / score.like(cap)).apply(MathFunction::Tanh) * most;
  }
  if (Value mask = op.getMask()) {
    Type maskType = elementTypeOf(mask);
    SmallVector<Lane> at{index[0], index[1], index[2], key};
    Element m(emitter, emitter.load(mask, broadcastIndex(emitter, at, mask)), maskType);
    score = maskType.isInteger(1) ? m.select(score, hidden) : score + m.to(inner);
  }
  return visible.select(score, hidden);
}

/// Online softmax over the keys, for types and shapes that have no kernel of their own: O(keys * width) an
/// element.
Value AttentionOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  Type type = elementTypeOf(getQuery()), inner = computeType(type), i64 = emitter.builder().getI64Type();
  ArrayRef<int64_t> key = shapeOf(getKey());
  Lane keyHead = emitter.floorDiv(index[1], shapeOf(getQuery())[1] / key[1]);
  double infinity = std::numeric_limits<double>::infinity();
  auto carried = [&](Value value) -> Value {
    if (isa<VectorType>(value.getType()) ||
        llvm::all_of(index, [](const Lane &lane) { return lane.isUniform(); }))
      return value;
    return vector::BroadcastOp::create(emitter.builder(), emitter.loc(),
                                       VectorType::get({(int64_t)emitter.lanes()}, value.getType()), value);
  };
  Value zero = carried(emitter.scalar(inner, 0)), lowest = carried(emitter.scalar(inner, -infinity));
  auto sums = emitter.reduce(
      key[2], {lowest, zero, zero}, [&](Value counter, ValueRange state) -> SmallVector<Value> {
        Element maximum(emitter, state[0], inner), total(emitter, state[1], inner),
            sum(emitter, state[2], inner);
        Element at(emitter, counter, i64), visible = at == at;
        if (getCausal()) {
          Element query(emitter, emitter.toValue(index[2], i64), i64);
          Element last = query + query.like(static_cast<int64_t>(getCausalOffset()));
          if (getQueryOffset())
            last = last + Element(emitter, emitter.scalarOperand(getQueryOffset()), i64);
          visible = at <= last;
        }
        if (getKeyCount())
          visible = visible & (at < Element(emitter, emitter.scalarOperand(getKeyCount()), i64));
        Element score = emitScore(emitter, *this, index, keyHead, emitter.uniform(counter), visible, zero);
        Element greatest = maximum.max(score), low = greatest.like(-infinity);
        Element shift = (greatest == low).select(greatest.like(0), greatest);
        Element keep = (maximum - shift).apply(MathFunction::Exp),
                weight = (score - shift).apply(MathFunction::Exp);
        if (result == 1)
          return {carried(greatest.get()), carried((total * keep + weight).get()), state[2]};
        // What lies under a hidden key may be anything.
        Element value(
            emitter, emitter.load(getValue(), {index[0], keyHead, emitter.uniform(counter), index[3]}), type);
        Element term = visible.select(weight * value.to(inner), weight.like(0));
        return {carried(greatest.get()), carried((total * keep + weight).get()),
                carried((sum * keep + term).get())};
      });
  Element maximum(emitter, sums[0], inner), total(emitter, sums[1], inner);
  if (result == 1)
    return (maximum + total.apply(MathFunction::Log)).get();
  Element y = Element(emitter, sums[2], inner) / total;
  if (getGuard())
    y = (maximum == maximum.like(-infinity)).select(y.like(0), y);
  return y.to(type).get();
}

Value RotaryOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  Type type = elementTypeOf(getInput()), inner = computeType(type), i64 = emitter.builder().getI64Type();
  int64_t half = shapeOf(getCos()).back(), width = shapeOf(getInput()).back();
  Lane d = index.back();
  auto read = [&](Value tensor, ArrayRef<Lane> at) {
    return Element(emitter, emitter.load(tensor, at), elementTypeOf(tensor)).to(inner);
  };
  auto inputAt = [&](Lane lane) {
    SmallVector<Lane> at(index);
    at.back() = lane;
    return read(getInput(), at);
  };
  auto angles = [&](Lane pair, Value tensor) {
    SmallVector<Lane> at(index);
    at.back() = pair;
    return read(tensor, broadcastIndex(emitter, at, tensor));
  };
  auto turned = [&]() -> Value {
    if (getInterleaved()) {
      Lane pair = emitter.floorDiv(d, 2), even = emitter.mul(pair, 2),
           odd = emitter.add(even, emitter.constant(1));
      Element a = inputAt(even), b = inputAt(odd), c = angles(pair, getCos()), s = angles(pair, getSin());
      Element isOdd = Element(emitter, emitter.toValue(emitter.mod(d, 2), i64), i64);
      isOdd = isOdd == isOdd.like(1);
      Element bs = b * s, first = a * c - bs, as = a * s;
      return isOdd.select(b * c + as, first).to(type).get();
    }
    return emitter.choose(
        emitter.inRange(d, 0, half),
        [&] {
          Element a = inputAt(d), b = inputAt(emitter.add(d, emitter.constant(half)));
          Element turned = b * angles(d, getSin());
          return (a * angles(d, getCos()) - turned).to(type).get();
        },
        [&] {
          Lane pair = emitter.add(d, emitter.constant(-half));
          Element a = inputAt(pair), b = inputAt(d);
          Element turned = a * angles(pair, getSin());
          return (b * angles(pair, getCos()) + turned).to(type).get();
        });
  };
  if (2 * half == width)
    return turned();
  return emitter.choose(emitter.inRange(d, 0, 2 * half), turned,
                        [&] { return emitter.load(getInput(), index); });
}
