//===- RowProgram.cpp - statistics of rows inside a kernel ------------------===//
#include "RowProgram.h"

#include "dialects/Colossal/Reduction/Accumulate.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::kernel;

RowProgram::RowProgram(LoopEmitter &emitter, const Team &team, Frame &frame, RowSpace space, unsigned lane,
                       bool held)
    : e(emitter), team(team), frame(frame), space(std::move(space)), lane(lane), held(held) {}

void RowProgram::beginRow(ArrayRef<Lane> index) {
  row.assign(index.begin(), index.end());
  current.clear();
  places.clear();
  heldValues.clear();
  const int64_t width = e.lanes(), span = width * team.members(), extent = space.shape[lane];
  for (int64_t first = 0; held && first < extent; first += span) {
    VectorMemory &m = e.vectorMemory();
    Value at = ofMember(m.constant(first)), isOwn;
    if (first + span > extent) {
      isOwn = arith::CmpIOp::create(e.builder(), e.loc(), arith::CmpIPredicate::slt, at, m.constant(extent));
      at = m.minConstant(at, extent - width);
    }
    places.push_back({Lane{at, width == 1 ? 0 : 1, {}, width}, isOwn});
  }
  for (auto &entry : rooms) {
    entry.second.full = false;
    Value tensor = entry.first;
    e.bindCode(tensor, [this, tensor](ArrayRef<Lane> at) -> Value {
      Room &place = rooms[tensor];
      if (!isHere(at, true))
        return e.compute(tensor, at);
      if (place.full)
        return e.read(place.view, at);
      Value value = e.compute(tensor, at);
      e.store(value, place.view, at);
      if (!llvm::is_contained(filling, tensor))
        filling.push_back(tensor);
      return value;
    });
  }
}

bool RowProgram::isHere(ArrayRef<Lane> index, bool reducedToo) const {
  if (index.size() != space.shape.size())
    return false;
  for (unsigned d = 0; d < index.size(); ++d) {
    if (space.shape[d] == 1 || (space.reduced[d] && !reducedToo))
      continue;
    const Lane &expected = space.reduced[d] ? current[d] : row[d];
    if (index[d].base != expected.base || index[d].vector != expected.vector ||
        index[d].stride != expected.stride)
      return false;
  }
  return true;
}

void RowProgram::finishLoop() {
  for (Value tensor : filling)
    rooms[tensor].full = true;
  filling.clear();
  current.clear();
}

int64_t RowProgram::rowSize() const {
  int64_t size = 1;
  for (unsigned d = 0; d < space.shape.size(); ++d)
    if (space.reduced[d])
      size *= space.shape[d];
  return size;
}

SmallVector<Lane> RowProgram::rowIndex(ArrayRef<int64_t> resultShape) const {
  SmallVector<Lane> index;
  bool keepdims = resultShape.size() == space.shape.size();
  for (unsigned d = 0; d < space.shape.size(); ++d) {
    if (!space.reduced[d])
      index.push_back(row[d]);
    else if (keepdims)
      index.push_back(e.constant(0));
  }
  return index;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// The vectors of a held row in turn. What nothing is carried through only stores, which members do with
/// their own.
SmallVector<Value>
RowProgram::walkHeld(SmallVector<Value> carried,
                     llvm::function_ref<SmallVector<Value>(int64_t, ArrayRef<Lane>, ValueRange)> step) {
  SmallVector<Lane> index(row);
  for (unsigned d = 0; d < space.shape.size(); ++d)
    if (space.reduced[d])
      index[d] = e.constant(0);
  for (auto [number, place] : llvm::enumerate(places)) {
    index[lane] = place.first;
    current = index;
    if (!place.second || !carried.empty()) {
      exists = place.second;
      carried = step(int64_t(number), index, carried);
      exists = nullptr;
      continue;
    }
    auto branch = scf::IfOp::create(e.builder(), e.loc(), place.second);
    OpBuilder::InsertionGuard guard(e.builder());
    e.builder().setInsertionPointToStart(&branch.getThenRegion().front());
    e.enterRegion();
    step(int64_t(number), index, carried);
    e.leaveRegion();
  }
  current.clear();
  return carried;
}

SmallVector<Value>
RowProgram::loop(unsigned ways, ArrayRef<Value> init,
                 llvm::function_ref<SmallVector<Value>(unsigned, ArrayRef<Lane>, ValueRange)> body) {
  OpBuilder &b = e.builder();
  SmallVector<unsigned> outer;
  for (unsigned d = 0; d < space.shape.size(); ++d)
    if (space.reduced[d] && d != lane)
      outer.push_back(d);
  unsigned perWay = ways ? init.size() / ways : 0;
  if (held)
    return walkHeld(SmallVector<Value>(init), [&](int64_t number, ArrayRef<Lane> at, ValueRange all) {
      const unsigned way = ways ? number % ways : 0;
      SmallVector<Value> next(all), mine = body(way, at, all.slice(way * perWay, perWay));
      llvm::copy(mine, next.begin() + way * perWay);
      return next;
    });
  SmallVector<Lane> index(row);
  auto step = [&](unsigned way, ValueRange all) {
    SmallVector<Value> next(all);
    current = index;
    SmallVector<Value> mine = body(way, index, all.slice(way * perWay, perWay));
    llvm::copy(mine, next.begin() + way * perWay);
    return next;
  };
  auto forLoop = [&](Value low, Value high, Value by, ValueRange carried,
                     llvm::function_ref<SmallVector<Value>(Value, ValueRange)> turn) {
    auto loop = scf::ForOp::create(b, e.loc(), low, high, by, carried);
    OpBuilder::InsertionGuard guard(b);
    Block *block = loop.getBody();
    if (!block->empty() && block->back().hasTrait<OpTrait::IsTerminator>())
      block->back().erase();
    b.setInsertionPointToEnd(block);
    e.enterRegion();
    SmallVector<Value> next = turn(loop.getInductionVar(), loop.getRegionIterArgs());
    e.leaveRegion();
    scf::YieldOp::create(b, e.loc(), next);
    return SmallVector<Value>(loop.getResults());
  };
  auto constant = [&](int64_t v) { return e.vectorMemory().constant(v); };
  // Elements [begin, extent) one by one; their sums go into the first lane of what is carried.
  auto scalars = [&](unsigned way, int64_t begin, ValueRange carried) {
    const unsigned width = e.lanes();
    SmallVector<Value> first;
    for (Value value : carried.slice(way * perWay, perWay))
      first.push_back(isa<VectorType>(value.getType())
                          ? vector::ExtractOp::create(b, e.loc(), value, int64_t(0)).getResult()
                          : value);
    e.setLanes(1);
    Value low = constant(begin);
    if (team.members() > 1)
      low = e.vectorMemory().add(e.toIndex(frame.member()), low);
    Value by = constant(team.members()), high = constant(space.shape[lane]);
    SmallVector<Value> sums = forLoop(low, high, by, first, [&](Value counter, ValueRange mine) {
      index[lane] = {counter, 0, {}, 1};
      return step(0, mine);
    });
    e.setLanes(width);
    SmallVector<Value> next(carried);
    for (auto [i, sum] : llvm::enumerate(sums)) {
      Value &value = next[way * perWay + i];
      value = isa<VectorType>(value.getType())
                  ? vector::InsertOp::create(b, e.loc(), sum, value, int64_t(0)).getResult()
                  : sum;
    }
    return next;
  };
  // The vectors of one line: whole groups in a loop, the rest unrolled, then what is less than a vector for
  // each member.
  auto line = [&](ValueRange carried) -> SmallVector<Value> {
    if (!alongRow())
      return step(0, carried);
    const int64_t width = e.lanes(), span = width * team.members();
    const bool several = team.members() > 1;
    int64_t extent = space.shape[lane], whole = extent / span;
    int64_t group = std::max<int64_t>(ways, 1), groups = whole / group;
    SmallVector<Value> values(carried);
    if (groups > 1) {
      Value by = constant(group * span), high = constant(groups * group * span), low = constant(0);
      values = forLoop(low, high, by, values, [&](Value counter, ValueRange mine) {
        SmallVector<Value> next(mine);
        for (int64_t way = 0; way < group; ++way) {
          Value at = ofMember(e.vectorMemory().addConstant(counter, way * span));
          index[lane] = {at, width == 1 ? 0 : 1, {}, width};
          next = step(way, next);
        }
        return next;
      });
    }
    for (int64_t i = groups > 1 ? groups * group : 0; i < whole; ++i) {
      index[lane] = {ofMember(constant(i * span)), width == 1 ? 0 : 1, {}, several ? width : i * span};
      values = step(i % group, values);
    }
    int64_t rest = extent - whole * span;
    if (rest && (team.tail() == Team::Tail::Scalar || width == 1))
      return scalars(whole % group, whole * span, values);
    if (rest) {
      index[lane] = {ofMember(constant(whole * span)), 1, {}, several ? width : whole * span};
      Value outside = e.mask();
      if (several) {
        Value before = e.vectorMemory().mulConstant(ofMember(constant(0)), -1);
        e.setMask(e.vectorMemory().prefixMask(width, e.vectorMemory().addConstant(before, rest)));
      } else {
        e.setMask(e.vectorMemory().prefixMask(width, rest));
      }
      values = step(whole % group, values);
      e.setMask(outside);
    }
    return values;
  };
  auto nest = [&](auto self, unsigned depth, ValueRange carried) -> SmallVector<Value> {
    if (depth == outer.size())
      return line(carried);
    unsigned d = outer[depth];
    return e.reduce(space.shape[d], carried, [&](Value counter, ValueRange next) {
      index[d] = {counter, 0, {}, 1};
      return self(self, depth + 1, next);
    });
  };
  SmallVector<Value> results = nest(nest, 0, init);
  finishLoop();
  return results;
}

Value RowProgram::ofMember(Value base) {
  if (team.members() == 1)
    return base;
  return e.vectorMemory().add(base, e.vectorMemory().mulConstant(e.toIndex(frame.member()), e.lanes()));
}

void RowProgram::forEach(llvm::function_ref<void(ArrayRef<Lane>)> body) {
  loop(0, {}, [&](unsigned, ArrayRef<Lane> index, ValueRange) -> SmallVector<Value> {
    body(index);
    return {};
  });
}

Element RowProgram::horizontal(ReduceKind kind, Element value) {
  if (!isa<VectorType>(value.get().getType()))
    return value;
  OpBuilder &b = e.builder();
  bool floats = value.isFloat();
  vector::CombiningKind combine;
  switch (kind) {
  case ReduceKind::Prod: combine = vector::CombiningKind::MUL; break;
  case ReduceKind::Max:
    combine = floats               ? vector::CombiningKind::MAXIMUMF
              : value.isUnsigned() ? vector::CombiningKind::MAXUI
                                   : vector::CombiningKind::MAXSI;
    break;
  case ReduceKind::Min:
    combine = floats               ? vector::CombiningKind::MINIMUMF
              : value.isUnsigned() ? vector::CombiningKind::MINUI
                                   : vector::CombiningKind::MINSI;
    break;
  default: combine = vector::CombiningKind::ADD; break;
  }
  bool sums = combine == vector::CombiningKind::ADD || combine == vector::CombiningKind::MUL;
  auto flags = floats && sums ? arith::FastMathFlags::reassoc : arith::FastMathFlags::none;
  // 16-bit floats by way of f32, exactly: LLVM calls library functions to reduce them where the target lacks
  // them.
  Value vector = value.get();
  Type type = value.elementType();
  bool halves = type.isF16() || type.isBF16();
  if (halves)
    vector = e.vectorMemory().convert(vector, b.getF32Type(), false);
  Value result = vector::ReductionOp::create(b, e.loc(), combine, vector, flags);
  if (halves)
    result = e.vectorMemory().convert(result, type, false);
  return {e, result, type};
}

Element RowProgram::fold(ReduceKind kind, Type type, Term term) {
  bool along = alongRow() && e.lanes() > 1;
  // Sums of an adder's latency: four chains hide it.
  unsigned ways = along ? std::clamp<int64_t>(space.shape[lane] / (e.lanes() * team.members()), 1, 4) : 1;
  Value identity = reduceIdentity(e, kind, type).get();
  bool vectors =
      e.lanes() > 1 && (along || llvm::any_of(row, [](const Lane &l) { return l.base && !l.isUniform(); }));
  if (vectors)
    identity = e.widen(identity);
  SmallVector<Value> results =
      loop(ways, SmallVector<Value>(ways, identity), [&](unsigned, ArrayRef<Lane> index, ValueRange acc) {
        Element x = reduceTerm(kind, term(index));
        if (exists)
          x = {e,
               arith::SelectOp::create(e.builder(), e.loc(), exists, vectors ? e.widen(x.get()) : x.get(),
                                       identity),
               type};
        if (along && e.mask()) {
          Value masked = e.widen(x.get());
          masked = arith::SelectOp::create(e.builder(), e.loc(), e.mask(), masked, e.widen(identity));
          x = {e, masked, type};
        }
        Element total = reduceCombine(kind, {e, acc[0], type}, x);
        return SmallVector<Value>{vectors ? e.widen(total.get()) : total.get()};
      });
  Element total(e, results[0], type);
  ReduceKind merge = kind;
  for (unsigned i = 1; i < results.size(); ++i)
    total = reduceCombine(merge, total, {e, results[i], type});
  if (along)
    total = horizontal(kind, total);
  if (!alongRow() || team.members() == 1)
    return total;
  return {
      e,
      frame.combine(total.get(),
                    [&](Value a, Value b) { return reduceCombine(kind, {e, a, type}, {e, b, type}).get(); }),
      type};
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

Element RowProgram::expNonPositive(Element x) {
  if (!x.elementType().isF32())
    return x.apply(MathFunction::Exp);
  constexpr double log2e = 1.4426950408889634;
  Element scaled = x * x.like(log2e);
  return Element(e, e.vectorMath().exp2NonPositive(scaled.get()), x.elementType());
}

void RowProgram::bindStatistic(Value result, Element value) {
  SmallVector<Lane> here = rowIndex(shapeOf(result));
  e.bindCode(result, [this, here, result, value = value.get()](ArrayRef<Lane> index) {
    // A dimension of one element has one index, however it is written.
    for (auto [at, expected, size] : llvm::zip(index, here, shapeOf(result)))
      if (size != 1 &&
          (at.base != expected.base || at.vector != expected.vector || at.stride != expected.stride))
        failElsewhere(result);
    return value;
  });
}

void RowProgram::bindElements(Value result, Code code) {
  e.bindCode(result, [this, result, code = std::move(code)](ArrayRef<Lane> index) {
    if (!isHere(index, false))
      failElsewhere(result);
    return code(index);
  });
}

void RowProgram::failElsewhere(Value result) {
  e.fail((result.getDefiningOp()->getName().getStringRef() + " is read at another row").str());
}

void RowProgram::keep(Element element, Value result, ArrayRef<Lane> index) {
  if (held) {
    heldValues[{result.getAsOpaquePointer(), index[lane].base.getAsOpaquePointer()}] = element.get();
    return;
  }
  e.store(element.get(), rooms.find(result)->second.view, index);
}

std::optional<Element> RowProgram::kept(Value result, ArrayRef<Lane> index) {
  if (held) {
    auto value = heldValues.find({result.getAsOpaquePointer(), index[lane].base.getAsOpaquePointer()});
    if (value == heldValues.end() || !isHere(index, true))
      return std::nullopt;
    return Element(e, value->second, computeType(elementTypeOf(result)));
  }
  auto room = rooms.find(result);
  if (room == rooms.end() || !isHere(index, true))
    return std::nullopt;
  TensorView view = room->second.view;
  return Element(e, e.read(view, index), view.element);
}
