//===- Attention.cpp -----------------------------------------------------===//
//
// Attention and rotary embedding. All that is known about these ops stands here: verification, folding, sharding rules,
// emission.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

LogicalResult AttentionOp::verify() { return success(); }

LogicalResult RotaryOp::verify() { return success(); }

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

namespace {
/// Factor numbers of attention's rule; batch, key heads and query heads per key head have no factor where they are 1.
struct AttentionFactors {
  static constexpr unsigned batch = 0, keyHeads = 1, group = 2, query = 3, key = 4, depth = 5, valueDepth = 6;
};
} // namespace

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
  rule.operands.push_back({{F::batch}, {F::keyHeads, F::group}, {F::query}, {F::depth}});
  rule.operands.push_back({{F::batch}, {F::keyHeads}, {F::key}, {F::depth}});
  rule.operands.push_back({{F::batch}, {F::keyHeads}, {F::key}, {F::valueDepth}});
  if (getMask()) {
    const TensorFactors full = {{F::batch}, {F::keyHeads, F::group}, {F::query}, {F::key}};
    ArrayRef<int64_t> sizes = cast<RankedTensorType>(getMask().getType()).getShape();
    int64_t extents[] = {q[0], q[1], q[2], k[2]};
    TensorFactors dims;
    for (auto [i, size] : llvm::enumerate(sizes)) {
      unsigned target = 4 - sizes.size() + i;
      dims.push_back(size == extents[target] ? full[target] : DimFactors());
    }
    rule.operands.push_back(dims);
  }
  rule.operands.resize(getNumOperands()); // index operands have no dimensions
  rule.results.push_back({{F::batch}, {F::keyHeads, F::group}, {F::query}, {F::valueDepth}});
  return rule;
}

FailureOr<SmallVector<Value>> AttentionOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  unsigned next = 3;
  Value mask = getMask() ? context.operand(next++) : Value();
  Value queryOffset = getQueryOffset() ? context.operand(next++) : Value();
  Value keyCount = getKeyCount() ? context.operand(next++) : Value();
  Value shard = getCausal() ? context.getOffset(builder, AttentionFactors::query) : Value();
  if (shard)
    queryOffset = queryOffset ? arith::AddIOp::create(builder, getLoc(), queryOffset, shard).getResult() : shard;
  auto type = RankedTensorType::get(context.localResultShape(0), cast<RankedTensorType>(getType()).getElementType());
  return SmallVector<Value>{AttentionOp::create(builder, getLoc(), type, context.operand(0), context.operand(1),
                                                context.operand(2), mask, queryOffset, keyCount, getScaleAttr(),
                                                getCausalAttr(), getCausalOffsetAttr(), getSoftcapAttr(),
                                                getGuardAttr())};
}

double AttentionOp::getFlops() {
  ArrayRef<int64_t> q = cast<RankedTensorType>(getQuery().getType()).getShape();
  ArrayRef<int64_t> v = cast<RankedTensorType>(getValue().getType()).getShape();
  // Two products of B x H x Sq x Sk scores, and about eight operations for each score's exponential and statistics.
  double scores = double(q[0]) * q[1] * q[2] * v[2];
  return scores * (2.0 * q[3] + 2.0 * v[3] + 8.0) * (getCausal() ? 0.5 : 1.0);
}

FactorRule RotaryOp::getFactorRule() {
  FactorRule rule = FactorRule::makePointwise(*this);
  unsigned last = rule.factors.size() - 1;
  rule.factors[last].kind = FactorKind::Whole; // the elements of a pair lie far apart
  for (unsigned i : {1u, 2u}) {                // half as wide as the input, so that broadcasting did not match them
    int64_t size = cast<RankedTensorType>(getOperand(i).getType()).getShape().back();
    DimFactors &dim = rule.operands[i].back();
    dim.clear();
    if (size != 1)
      dim.push_back(rule.add(size, FactorKind::Whole));
  }
  return rule;
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

// Attention has a kernel of its own.
Value AttentionOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) { return {}; }

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
      Lane pair = emitter.floorDiv(d, 2), even = emitter.mul(pair, 2), odd = emitter.add(even, emitter.constant(1));
      Element a = inputAt(even), b = inputAt(odd), c = angles(pair, getCos()), s = angles(pair, getSin());
      Element isOdd = Element(emitter, emitter.toValue(emitter.mod(d, 2), i64), i64);
      return (isOdd == isOdd.like(1)).select(b * c + a * s, a * c - b * s).to(type).get();
    }
    return emitter.choose(
        emitter.inRange(d, 0, half),
        [&] {
          Element a = inputAt(d), b = inputAt(emitter.add(d, emitter.constant(half)));
          return (a * angles(d, getCos()) - b * angles(d, getSin())).to(type).get();
        },
        [&] {
          Lane pair = emitter.add(d, emitter.constant(-half));
          Element a = inputAt(pair), b = inputAt(d);
          return (b * angles(pair, getCos()) + a * angles(pair, getSin())).to(type).get();
        });
  };
  if (2 * half == width)
    return turned();
  return emitter.choose(emitter.inRange(d, 0, 2 * half), turned, [&] { return emitter.load(getInput(), index); });
}
