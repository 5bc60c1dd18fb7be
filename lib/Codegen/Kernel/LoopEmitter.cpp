//===- LoopEmitter.cpp - element code inside a kernel -----------------------===//
#include "colossal/Codegen/Kernel/LoopEmitter.h"

#include "dialects/Colossal/NarrowTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>
#include <numeric>

using namespace mlir;
using namespace colossal;
using namespace colossal::kernel;

static std::optional<int64_t> constantOf(Value value) {
  IntegerAttr attribute;
  if (value && matchPattern(value, m_Constant(&attribute)))
    return attribute.getInt();
  return std::nullopt;
}

LoopEmitter::LoopEmitter(OpBuilder &builder, Location loc, const Instructions &instructions, unsigned width,
                         unsigned indexBits)
    : b(builder), location(loc), maths(builder, loc, instructions),
      accesses(builder, loc, instructions, indexBits), width(width), scopes(1) {}

Value LoopEmitter::remember(Key key, llvm::function_ref<Value()> make) {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (auto found = scope->find(key); found != scope->end())
      return found->second;
  Value value = make();
  scopes.back().emplace(std::move(key), value);
  return value;
}

Value LoopEmitter::toIndex(Value word) {
  Type index = accesses.indexType();
  if (getElementTypeOrSelf(word) == index)
    return word;
  Type type = index;
  if (auto vector = dyn_cast<VectorType>(word.getType()))
    type = vector.clone(index);
  return b.createOrFold<arith::TruncIOp>(location, type, word);
}

Value LoopEmitter::toWord(Value index) {
  if (index.getType().isInteger(64))
    return index;
  return b.createOrFold<arith::ExtSIOp>(location, b.getI64Type(), index);
}

Lane LoopEmitter::toIndex(Lane lane) {
  if (lane.base)
    lane.base = toIndex(lane.base);
  if (lane.vector)
    lane.vector = toIndex(lane.vector);
  return lane;
}

Value LoopEmitter::widen(Value value) {
  return isa<VectorType>(value.getType()) ? value : accesses.splat(value, width);
}

void LoopEmitter::unify(MutableArrayRef<Value> values) {
  if (llvm::any_of(values, [](Value v) { return isa<VectorType>(v.getType()); }))
    for (Value &value : values)
      value = widen(value);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static Lane offsetOf(LoopEmitter &emitter, const TensorView &view, ArrayRef<Lane> index) {
  Lane offset = emitter.constant(0);
  for (auto [lane, stride] : llvm::zip(index, view.strides))
    if (stride != 0)
      offset = emitter.add(offset, emitter.mul(lane, stride));
  return offset;
}

Value LoopEmitter::read(const TensorView &view, ArrayRef<Lane> index) {
  Lane offset = offsetOf(*this, view, index);
  Value value;
  if (offset.vector) {
    value = accesses.gather(view.pointer, view.element, offset.vector, active);
  } else {
    Value address = accesses.address(view.pointer, view.element, offset.base);
    if (offset.stride == 0)
      value = accesses.load(address, view.element, 1);
    else if (offset.stride == 1)
      value = accesses.load(address, view.element, width, active);
    else
      value = accesses.gather(address, view.element, laneVector({accesses.constant(0), offset.stride, {}, 0}),
                              active);
  }
  if (!view.element.isInteger(1))
    return value;
  Value zero = accesses.constantLike(value.getType(), 0);
  return arith::CmpIOp::create(b, location, arith::CmpIPredicate::ne, value, zero);
}

void LoopEmitter::store(Value value, const TensorView &view, ArrayRef<Lane> index) {
  if (view.element.isInteger(1)) {
    Type type = VectorMemory::vectorOf(b.getI8Type(), isa<VectorType>(value.getType()) ? width : 1);
    value = arith::ExtUIOp::create(b, location, type, value);
  }
  Lane offset = offsetOf(*this, view, index);
  if (offset.vector)
    return accesses.scatter(widen(value), view.pointer, offset.vector, active);
  Value address = accesses.address(view.pointer, view.element, offset.base);
  if (offset.stride == 0 || width == 1) {
    if (isa<VectorType>(value.getType()))
      return fail("stores a vector at one place");
    return accesses.store(value, address);
  }
  if (offset.stride == 1)
    return accesses.store(widen(value), address, active);
  Value places = laneVector({accesses.constant(0), offset.stride, {}, 0});
  accesses.scatter(widen(value), address, places, active);
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Value LoopEmitter::load(Value tensor, ArrayRef<Lane> index, Value mask, Value otherwise) {
  if (!mask)
    return pull(tensor, index);
  return choose(
      mask, [&] { return pull(tensor, index); },
      [&] { return otherwise ? otherwise : scalar(elementTypeOf(tensor), 0); });
}

Value LoopEmitter::pull(Value tensor, ArrayRef<Lane> index) {
  Key key{tensor.getAsOpaquePointer(), active.getAsOpaquePointer()};
  for (const Lane &lane : index) {
    key.push_back(lane.base.getAsOpaquePointer());
    key.push_back(reinterpret_cast<const void *>(lane.vector ? 0 : lane.stride));
    key.push_back(lane.vector.getAsOpaquePointer());
  }
  return remember(std::move(key), [&]() -> Value {
    if (auto code = codes.find(tensor); code != codes.end())
      return code->second(index);
    return compute(tensor, index);
  });
}

Value LoopEmitter::compute(Value tensor, ArrayRef<Lane> index) {
  if (auto view = memory.find(tensor); view != memory.end()) {
    TensorView copy = view->second;
    return read(copy, index);
  }
  Type element = elementTypeOf(tensor);
  Operation *op = tensor.getDefiningOp();
  DenseElementsAttr attribute;
  if (op && matchPattern(tensor, m_Constant(&attribute)) && attribute.isSplat()) {
    if (isa<FloatType>(element) && !isNarrow(element))
      return arith::ConstantOp::create(b, location, attribute.getSplatValue<FloatAttr>());
    Type carrier = carrierOf(element);
    APInt bits = !isNarrow(element)       ? attribute.getSplatValue<APInt>()
                 : isNarrowFloat(element) ? APInt(8, carrierBits(attribute.getSplatValue<APFloat>(), element))
                                          : APInt(8, carrierBits(attribute.getSplatValue<APInt>(), element));
    return arith::ConstantOp::create(b, location, IntegerAttr::get(carrier, bits));
  }
  if (auto emission = dyn_cast_or_null<ElementEmissionOpInterface>(op))
    if (Value value = emission.emitElement(*this, cast<OpResult>(tensor).getResultNumber(), index))
      return value;
  fail(op ? (op->getName().getStringRef() + " has no element code").str() : "a tensor lies nowhere");
  return scalar(element, 0);
}

Value LoopEmitter::scalarOperand(Value value) {
  if (auto found = scalars.find(value); found != scalars.end())
    return found->second;
  if (isa<IndexType>(value.getType()))
    if (auto known = constantOf(value))
      return toWord(accesses.constant(*known));
  fail("an index value is not given to the kernel");
  return toWord(accesses.constant(0));
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

SmallVector<Value> LoopEmitter::reduce(int64_t extent, ValueRange init,
                                       llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  if (extent == 0)
    return SmallVector<Value>(init);
  if (extent == 1)
    return body(toWord(accesses.constant(0)), init);
  SmallVector<Value> first(init);
  // The second attempt has vectors where the body turned out to make some.
  for (int attempt = 0; attempt < 2; ++attempt) {
    Value step = accesses.constant(1), end = accesses.constant(extent), begin = accesses.constant(0);
    auto loop = scf::ForOp::create(b, location, begin, end, step, first);
    SmallVector<Value> next;
    bool widened = false;
    {
      OpBuilder::InsertionGuard guard(b);
      Block *block = loop.getBody();
      if (!block->empty() && block->back().hasTrait<OpTrait::IsTerminator>())
        block->back().erase();
      b.setInsertionPointToEnd(block);
      enterRegion();
      next = body(toWord(loop.getInductionVar()), loop.getRegionIterArgs());
      leaveRegion();
      for (auto [value, carried] : llvm::zip(next, first)) {
        if (isa<VectorType>(carried.getType()))
          value = widen(value);
        widened |= value.getType() != carried.getType();
      }
      scf::YieldOp::create(b, location, widened ? ValueRange(loop.getRegionIterArgs()) : ValueRange(next));
    }
    if (!widened)
      return SmallVector<Value>(loop.getResults());
    SmallVector<bool> vectors;
    for (Value value : next)
      vectors.push_back(isa<VectorType>(value.getType()));
    loop.erase();
    for (auto [value, vector] : llvm::zip(first, vectors))
      if (vector)
        value = widen(value);
  }
  fail("a loop changes the type of what it carries");
  return first;
}

Value LoopEmitter::choose(Value condition, Thunk then, Thunk otherwise) {
  if (!isa<VectorType>(condition.getType())) {
    if (auto known = constantOf(condition))
      return *known ? then() : otherwise();
    auto branch = scf::IfOp::create(b, location, TypeRange(), condition, /*withElseRegion=*/true);
    auto emit = [&](Region &region, Thunk thunk) {
      OpBuilder::InsertionGuard guard(b);
      if (!region.front().empty())
        region.front().back().erase();
      b.setInsertionPointToEnd(&region.front());
      enterRegion();
      Value value = thunk();
      leaveRegion();
      return value;
    };
    Value values[] = {emit(branch.getThenRegion(), then), emit(branch.getElseRegion(), otherwise)};
    bool vector = isa<VectorType>(values[0].getType()) || isa<VectorType>(values[1].getType());
    Region *regions[] = {&branch.getThenRegion(), &branch.getElseRegion()};
    for (unsigned i = 0; i < 2; ++i) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(&regions[i]->front());
      if (vector)
        values[i] = widen(values[i]);
      scf::YieldOp::create(b, location, values[i]);
    }
    auto typed = scf::IfOp::create(b, location, TypeRange(values[0].getType()), condition, true);
    typed.getThenRegion().takeBody(branch.getThenRegion());
    typed.getElseRegion().takeBody(branch.getElseRegion());
    branch.erase();
    return typed.getResult(0);
  }
  Value outer = active;
  active = outer ? arith::AndIOp::create(b, location, outer, condition).getResult() : condition;
  Value yes = then();
  Value negated =
      arith::XOrIOp::create(b, location, condition, accesses.constantLike(condition.getType(), 1));
  active = outer ? arith::AndIOp::create(b, location, outer, negated).getResult() : negated;
  Value no = otherwise();
  active = outer;
  no = widen(no);
  return arith::SelectOp::create(b, location, condition, widen(yes), no);
}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

Value LoopEmitter::laneVector(Lane lane) {
  lane = toIndex(lane);
  if (lane.vector)
    return lane.vector;
  Value base = accesses.splat(lane.base, width);
  if (lane.stride == 0)
    return base;
  SmallVector<int64_t> steps(width);
  for (unsigned i = 0; i < width; ++i)
    steps[i] = i * lane.stride;
  Value step = accesses.constants(steps);
  if (constantOf(lane.base) == 0)
    return step;
  return arith::AddIOp::create(b, location, base, step);
}

Lane LoopEmitter::constant(int64_t value) {
  Value base =
      remember({nullptr, reinterpret_cast<const void *>(value)}, [&] { return accesses.constant(value); });
  return {base, 0, {}, value};
}

Lane LoopEmitter::add(Lane x, Lane y) {
  x = toIndex(x), y = toIndex(y);
  if (x.vector || y.vector) {
    if (x.isUniform() && constantOf(x.base) == 0)
      return y;
    if (y.isUniform() && constantOf(y.base) == 0)
      return x;
    Value right = laneVector(y);
    return {x.base, 0, arith::AddIOp::create(b, location, laneVector(x), right), 1};
  }
  Value base = remember({this, x.base.getAsOpaquePointer(), y.base.getAsOpaquePointer()},
                        [&] { return accesses.add(x.base, y.base); });
  return {base, x.stride + y.stride, {}, std::gcd(x.multiple, y.multiple)};
}

Lane LoopEmitter::mul(Lane x, int64_t factor) {
  x = toIndex(x);
  if (factor == 1)
    return x;
  if (x.vector) {
    Value by = accesses.constantLike(x.vector.getType(), double(factor));
    return {x.base, 0, arith::MulIOp::create(b, location, x.vector, by), 1};
  }
  Value base = remember({this, &maths, x.base.getAsOpaquePointer(), reinterpret_cast<const void *>(factor)},
                        [&] { return accesses.mulConstant(x.base, factor); });
  return {base, x.stride * factor, {}, x.multiple * factor};
}

/// All lanes lie between two multiples of `divisor`.
bool LoopEmitter::sameBlock(const Lane &lane, int64_t divisor) const {
  int64_t span = lane.stride * width;
  return !lane.vector && span > 0 && divisor % span == 0 && lane.multiple % span == 0;
}

Lane LoopEmitter::floorDiv(Lane lane, int64_t divisor) {
  lane = toIndex(lane);
  if (divisor == 1)
    return lane;
  auto quotient = [&](Value base) {
    return remember({this, &accesses, base.getAsOpaquePointer(), reinterpret_cast<const void *>(divisor)},
                    [&] { return accesses.divRem(base, divisor).first; });
  };
  if (lane.isUniform() || sameBlock(lane, divisor))
    return {quotient(lane.base), 0, {}, lane.multiple % divisor == 0 ? lane.multiple / divisor : 1};
  if (!lane.vector && lane.stride % divisor == 0 && lane.multiple % divisor == 0)
    return {quotient(lane.base), lane.stride / divisor, {}, lane.multiple / divisor};
  // 32-bit lanes divide by multiplication; 64-bit ones would go through scalar registers.
  Value at = laneVector(lane);
  Type narrow = VectorMemory::vectorOf(b.getI32Type(), width);
  Value x = at.getType() == narrow ? at : arith::TruncIOp::create(b, location, narrow, at).getResult();
  x = arith::DivUIOp::create(b, location, x, accesses.constantLike(narrow, double(divisor)));
  if (at.getType() != narrow)
    x = arith::ExtUIOp::create(b, location, at.getType(), x);
  return {lane.base, 0, x, 1};
}

Lane LoopEmitter::mod(Lane lane, int64_t divisor) {
  lane = toIndex(lane);
  if (divisor == 1)
    return constant(0);
  auto remainder = [&](Value base) {
    return remember({this, &scopes, base.getAsOpaquePointer(), reinterpret_cast<const void *>(divisor)},
                    [&] { return accesses.divRem(base, divisor).second; });
  };
  if (lane.isUniform() || sameBlock(lane, divisor))
    return {remainder(lane.base), lane.stride, {}, std::gcd(lane.multiple, divisor)};
  if (!lane.vector && lane.stride % divisor == 0)
    return {remainder(lane.base), 0, {}, std::gcd(lane.multiple, divisor)};
  Lane quotient = floorDiv(lane, divisor);
  return add(lane, mul(quotient, -divisor));
}

Lane LoopEmitter::fromValue(Value integer) {
  Value wide = accesses.convert(integer, b.getI64Type());
  if (!accesses.indexType().isInteger(64)) {
    // What a narrow index cannot hold is out of every range, and must stay so.
    auto limit = [&](int64_t value) { return accesses.constantLike(wide.getType(), double(value)); };
    wide = arith::MaxSIOp::create(b, location, wide, limit(std::numeric_limits<int32_t>::min()));
    wide = toIndex(arith::MinSIOp::create(b, location, wide, limit(std::numeric_limits<int32_t>::max())));
  }
  if (isa<VectorType>(wide.getType()))
    return {accesses.constant(0), 0, wide, 1};
  auto known = constantOf(wide);
  return {wide, 0, {}, known ? *known : 1};
}

Value LoopEmitter::toValue(Lane lane, Type integerType) {
  Value value = lane.isUniform() ? lane.base : laneVector(lane);
  return accesses.convert(value, integerType);
}

Value LoopEmitter::inRange(Lane lane, int64_t low, int64_t high) {
  lane = toIndex(lane);
  auto known = lane.vector ? std::nullopt : constantOf(lane.base);
  if (known) {
    int64_t last = *known + lane.stride * (width - 1), least = std::min(*known, last),
            most = std::max(*known, last);
    if (least >= low && most < high)
      return scalar(b.getI1Type(), 1);
    if (most < low || least >= high)
      return scalar(b.getI1Type(), 0);
  }
  int64_t span = lane.stride * width;
  bool together =
      !lane.vector && span > 0 && lane.multiple % span == 0 && low % span == 0 && high % span == 0;
  auto compare = [&](Value at) -> Value {
    // One comparison: unsigned distance from the low end.
    Value shifted =
        low == 0 ? at : arith::SubIOp::create(b, location, at, accesses.constantLike(at.getType(), low));
    return arith::CmpIOp::create(b, location, arith::CmpIPredicate::ult, shifted,
                                 accesses.constantLike(at.getType(), double(high - low)));
  };
  if (high <= low)
    return scalar(b.getI1Type(), 0);
  return compare(lane.isUniform() || together ? lane.base : laneVector(lane));
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value LoopEmitter::convertNumber(Value value, Type from, Type to) {
  if (from == to)
    return value;
  int64_t count = isa<VectorType>(value.getType()) ? width : 1;
  if (to.isInteger(1)) {
    Value zero = accesses.constantLike(value.getType(), 0);
    if (isa<FloatType>(from)) {
      if (from.isF16() || from.isBF16()) {
        value = accesses.convert(value, b.getF32Type());
        zero = accesses.constantLike(value.getType(), 0);
      }
      return arith::CmpFOp::create(b, location, arith::CmpFPredicate::UNE, value, zero);
    }
    return arith::CmpIOp::create(b, location, arith::CmpIPredicate::ne, value, zero);
  }
  if (from.isInteger(1)) {
    Type storage = storageType(to), type = VectorMemory::vectorOf(storage, count);
    Value zero = accesses.constantLike(type, 0), one = accesses.constantLike(type, 1);
    return arith::SelectOp::create(b, location, value, one, zero);
  }
  return accesses.convert(value, to, from.isUnsignedInteger(), to.isUnsignedInteger());
}

Value LoopEmitter::scalarNumber(Type element, double value) {
  if (element.isInteger(1))
    return arith::ConstantOp::create(b, location, b.getBoolAttr(value != 0));
  return accesses.constantLike(storageType(element), value);
}

Value LoopEmitter::math(MathFunction function, Value x) {
  switch (function) {
  case MathFunction::Exp: return maths.exp(x);
  case MathFunction::Log: return maths.log(x);
  case MathFunction::Erf: return maths.erf(x);
  case MathFunction::Sin: return maths.sin(x);
  case MathFunction::Cos: return maths.cos(x);
  case MathFunction::Tan: return maths.tan(x);
  case MathFunction::Asin: return maths.asin(x);
  case MathFunction::Acos: return maths.acos(x);
  case MathFunction::Atan: return maths.atan(x);
  case MathFunction::Sinh: return maths.sinh(x);
  case MathFunction::Cosh: return maths.cosh(x);
  case MathFunction::Tanh: return maths.tanh(x);
  case MathFunction::Asinh: return maths.asinh(x);
  case MathFunction::Acosh: return maths.acosh(x);
  case MathFunction::Atanh: return maths.atanh(x);
  case MathFunction::Sigmoid: return maths.sigmoid(x);
  case MathFunction::Softplus: return maths.softplus(x);
  case MathFunction::GeluErf: return maths.geluErf(x);
  case MathFunction::GeluTanh: return maths.geluTanh(x);
  case MathFunction::Silu: return maths.silu(x);
  case MathFunction::Sqrt: return maths.sqrt(x);
  case MathFunction::Rsqrt: return maths.rsqrt(x);
  case MathFunction::Floor: return maths.floor(x);
  case MathFunction::Ceil: return maths.ceil(x);
  case MathFunction::RoundEven: return maths.roundEven(x);
  }
  llvm_unreachable("unknown function");
}
