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

FactorRule AttentionOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule RotaryOp::getFactorRule() { return FactorRule::makeWhole(*this); }

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
