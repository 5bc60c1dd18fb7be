//===- Movement.cpp ------------------------------------------------------===//
//
// Ops that move elements and compute nothing. All that is known about these ops stands here: verification, folding, sharding rules,
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

LogicalResult ReshapeOp::verify() { return success(); }

LogicalResult TransposeOp::verify() { return success(); }

LogicalResult BroadcastOp::verify() { return success(); }

LogicalResult SliceOp::verify() { return success(); }

LogicalResult ConcatOp::verify() { return success(); }

LogicalResult PadOp::verify() { return success(); }

//===----------------------------------------------------------------------===//
// Folding
//===----------------------------------------------------------------------===//

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) { return {}; }

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) { return {}; }

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) { return {}; }

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) { return {}; }

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

FactorRule ReshapeOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule TransposeOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule BroadcastOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule SliceOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule ConcatOp::getFactorRule() { return FactorRule::makeWhole(*this); }

FactorRule PadOp::getFactorRule() { return FactorRule::makeWhole(*this); }

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

/// Index of the input for an index of the result, group by group: runs of dimensions with equal products.
static SmallVector<Lane> reshapeIndex(ElementEmitter &emitter, ArrayRef<Lane> index, ArrayRef<int64_t> from,
                                      ArrayRef<int64_t> to) {
  SmallVector<Lane> out(to.size(), emitter.constant(0));
  unsigned i = 0, o = 0;
  while (i < from.size() && o < to.size()) {
    unsigned iEnd = i + 1, oEnd = o + 1;
    int64_t a = from[i], b = to[o];
    while (a != b) {
      if (a < b && iEnd < from.size())
        a *= from[iEnd++];
      else if (oEnd < to.size())
        b *= to[oEnd++];
      else
        break;
    }
    Lane linear = linearize(emitter, index.slice(i, iEnd - i), from.slice(i, iEnd - i));
    llvm::copy(delinearize(emitter, linear, to.slice(o, oEnd - o)), out.begin() + o);
    i = iEnd;
    o = oEnd;
  }
  return out;
}

Value ReshapeOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  return emitter.load(getInput(), reshapeIndex(emitter, index, shapeOf(getResult()), shapeOf(getInput())));
}

Value TransposeOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  SmallVector<Lane> in(index.size());
  for (auto [d, source] : llvm::enumerate(getPermutation()))
    in[source] = index[d];
  return emitter.load(getInput(), in);
}

Value BroadcastOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  return emitter.load(getInput(), broadcastIndex(emitter, index, getInput()));
}

Value SliceOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  SmallVector<Lane> in;
  for (unsigned d = 0; d < index.size(); ++d)
    in.push_back(emitter.add(emitter.mul(index[d], getSteps()[d]), emitter.constant(getStarts()[d])));
  return emitter.load(getInput(), in);
}

Value ConcatOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  int64_t axis = getAxis();
  SmallVector<Value> inputs;
  for (Value input : getInputs())
    if (shapeOf(input)[axis] != 0)
      inputs.push_back(input);
  auto part = [&](auto self, unsigned i, int64_t start) -> Value {
    auto read = [&] {
      SmallVector<Lane> in(index);
      in[axis] = emitter.add(in[axis], emitter.constant(-start));
      return emitter.load(inputs[i], in);
    };
    if (i + 1 == inputs.size())
      return read();
    int64_t end = start + shapeOf(inputs[i])[axis];
    return emitter.choose(emitter.inRange(index[axis], start, end), read, [&] { return self(self, i + 1, end); });
  };
  return part(part, 0, 0);
}

Value PadOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  SmallVector<Lane> in;
  Value inside;
  OpBuilder &b = emitter.builder();
  Type i64 = b.getI64Type(), boolean = b.getI1Type();
  for (unsigned d = 0; d < index.size(); ++d) {
    int64_t size = shapeOf(getInput())[d], low = getLow()[d];
    int64_t high = shapeOf(getResult())[d] - low - size;
    Lane lane = emitter.add(index[d], emitter.constant(-low));
    if (low > 0 || high > 0) {
      Element at(emitter, emitter.toValue(lane, i64), i64);
      switch (getMode()) {
      case PadMode::Constant: {
        Element here(emitter, emitter.inRange(lane, 0, size), boolean);
        inside = inside ? (Element(emitter, inside, boolean) & here).get() : here.get();
        break;
      }
      case PadMode::Edge: lane = emitter.fromValue(at.max(at.like(0)).min(at.like(size - 1)).get()); break;
      case PadMode::Wrap: lane = emitter.fromValue(at.modulo(at.like(size)).get()); break;
      case PadMode::Reflect: {
        int64_t period = size > 1 ? 2 * (size - 1) : 1;
        Element turned = at.modulo(at.like(period));
        lane = emitter.fromValue(turned.min(at.like(period) - turned).min(at.like(size - 1)).get());
        if (size == 1)
          lane = emitter.constant(0);
        break;
      }
      }
    }
    in.push_back(lane);
  }
  if (!inside)
    return emitter.load(getInput(), in);
  Type element = elementTypeOf(getInput());
  auto fill = [&]() -> Value {
    if (!getValue())
      return emitter.scalar(element, 0);
    return emitter.load(getValue(), SmallVector<Lane>(shapeOf(getValue()).size(), emitter.constant(0)));
  };
  if (shapeOf(getInput()).empty() || llvm::is_contained(shapeOf(getInput()), 0))
    return fill();
  return emitter.choose(inside, [&] { return emitter.load(getInput(), in); }, fill);
}
