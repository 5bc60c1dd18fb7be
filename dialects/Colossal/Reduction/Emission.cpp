//===- Emission.cpp - code of reductions and scans --------------------------===//
//
// The arithmetic of reductions, and from it the three forms of their code: elements that are pulled,
// statistics of rows, and tiles.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/NarrowTypes.h"
#include "dialects/Colossal/Reduction/Accumulate.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace colossal;

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

double colossal::lowestOf(Type type) {
  if (isa<FloatType>(type))
    return -std::numeric_limits<double>::infinity();
  if (type.isUnsignedInteger() || type.isInteger(1))
    return 0;
  return -std::ldexp(1.0, type.getIntOrFloatBitWidth() - 1);
}

Element colossal::highestOf(ElementEmitter &emitter, Type type) {
  if (isa<FloatType>(type))
    return {emitter, emitter.scalar(type, std::numeric_limits<double>::infinity()), type};
  if (type.isInteger(1))
    return {emitter, emitter.scalar(type, 1), type};
  unsigned width = type.getIntOrFloatBitWidth();
  if (isNarrow(type))
    return {emitter, emitter.scalar(type, std::ldexp(1.0, width - !type.isUnsignedInteger()) - 1), type};
  APInt value = type.isUnsignedInteger() ? APInt::getMaxValue(width) : APInt::getSignedMaxValue(width);
  Type storage = IntegerType::get(type.getContext(), width);
  return {emitter,
          arith::ConstantOp::create(emitter.builder(), emitter.loc(), IntegerAttr::get(storage, value))
              .getResult(),
          type};
}

Type colossal::accumulateType(ReduceKind kind, Type type) {
  bool floats = kind == ReduceKind::L2 || kind == ReduceKind::LogSum || kind == ReduceKind::LogSumExp;
  if (floats && !isa<FloatType>(type))
    return Float64Type::get(type.getContext());
  return computeType(type);
}

Element colossal::reduceIdentity(ElementEmitter &emitter, ReduceKind kind, Type type) {
  switch (kind) {
  case ReduceKind::Prod: return {emitter, emitter.scalar(type, 1), type};
  case ReduceKind::Max: return {emitter, emitter.scalar(type, lowestOf(type)), type};
  case ReduceKind::Min: return highestOf(emitter, type);
  default: return {emitter, emitter.scalar(type, 0), type};
  }
}

Element colossal::reduceTerm(ReduceKind kind, Element x) {
  switch (kind) {
  case ReduceKind::SumSquare:
  case ReduceKind::L2: return x * x;
  case ReduceKind::L1: return x.abs();
  default: return x;
  }
}

Element colossal::reduceCombine(ReduceKind kind, Element a, Element b) {
  switch (kind) {
  case ReduceKind::Prod: return a * b;
  case ReduceKind::Max: return a.max(b);
  case ReduceKind::Min: return a.min(b);
  default: return a + b;
  }
}

Element colossal::reduceFinish(ReduceKind kind, Element total, int64_t count, Type type) {
  switch (kind) {
  case ReduceKind::Mean: return (total / total.like(count)).to(type);
  case ReduceKind::L2: return total.apply(MathFunction::Sqrt).to(type);
  case ReduceKind::LogSum: return total.apply(MathFunction::Log).to(type);
  default: return total.to(type);
  }
}

/// Loops over `axes` of `shape`; `visit` gets the index and one accumulator list and returns the next.
static SmallVector<Value> loopOver(ElementEmitter &emitter, ArrayRef<int64_t> axes, ArrayRef<int64_t> shape,
                                   SmallVector<Lane> &index, ValueRange init,
                                   llvm::function_ref<SmallVector<Value>(ValueRange)> visit) {
  if (axes.empty())
    return visit(init);
  return emitter.reduce(shape[axes.front()], init, [&](Value counter, ValueRange carried) {
    index[axes.front()] = emitter.uniform(counter);
    return loopOver(emitter, axes.drop_front(), shape, index, carried, visit);
  });
}

/// A carried value must keep its type over a loop: a vector if the elements at `index` are.
static Value carriedLike(ElementEmitter &emitter, Value value, ArrayRef<Lane> index) {
  if (llvm::all_of(index, [](const Lane &lane) { return !lane.base || lane.isUniform(); }))
    return value;
  if (isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(emitter.builder(), emitter.loc(),
                                     VectorType::get({(int64_t)emitter.lanes()}, value.getType()), value);
}

/// As `value`, widened to a vector where `like` is one.
static Value matched(ElementEmitter &emitter, Value value, Value like) {
  if (!isa<VectorType>(like.getType()) || isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(emitter.builder(), emitter.loc(),
                                     cast<VectorType>(like.getType()).clone(value.getType()), value);
}

Value ReduceOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  ArrayRef<int64_t> shape = shapeOf(getInput()), axes = getAxes();
  SmallVector<Lane> in(shape.size());
  unsigned next = 0;
  for (unsigned d = 0; d < shape.size(); ++d) {
    if (!llvm::is_contained(axes, (int64_t)d))
      in[d] = index[next++];
    else if (getKeepdims())
      ++next;
  }
  Type type = elementTypeOf(getInput()), inner = accumulateType(getKind(), type);
  int64_t count = 1;
  for (int64_t axis : axes)
    count *= shape[axis];
  auto term = [&] { return Element(emitter, emitter.load(getInput(), in), type).to(inner); };
  auto fold = [&](ReduceKind kind, llvm::function_ref<Element()> value) {
    Value init = carriedLike(emitter, reduceIdentity(emitter, kind, inner).get(), in);
    return Element(
        emitter,
        loopOver(emitter, axes, shape, in, init,
                 [&](ValueRange carried) -> SmallVector<Value> {
                   return {matched(
                       emitter,
                       reduceCombine(kind, {emitter, carried[0], inner}, reduceTerm(kind, value())).get(),
                       carried[0])};
                 })[0],
        inner);
  };
  if (getKind() == ReduceKind::LogSumExp) {
    Element maximum = fold(ReduceKind::Max, term);
    Element zero = maximum.like(0);
    // A row of -inf, or one with inf, keeps its maximum.
    Element shift = ((maximum - maximum) == zero).select(maximum, zero);
    Element sum = fold(ReduceKind::Sum, [&] { return (term() - shift).apply(MathFunction::Exp); });
    return (sum.apply(MathFunction::Log) + shift).to(elementTypeOf(getResult())).get();
  }
  return reduceFinish(getKind(), fold(getKind(), term), getCount().value_or(count),
                      elementTypeOf(getResult()))
      .get();
}

bool ArgReduceOp::isElementCostly() {
  return true;
}

Value ArgReduceOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  int64_t axis = getAxis();
  ArrayRef<int64_t> shape = shapeOf(getInput());
  SmallVector<Lane> in;
  for (unsigned d = 0, next = 0; d < shape.size(); ++d) {
    if ((int64_t)d == axis) {
      in.push_back(emitter.constant(0));
      next += getKeepdims();
    } else {
      in.push_back(index[next++]);
    }
  }
  Type type = elementTypeOf(getInput()), inner = computeType(type), i64 = emitter.builder().getI64Type();
  Value first = Element(emitter, emitter.load(getInput(), in), type).to(inner).get();
  Value zero = matched(emitter, emitter.scalar(i64, 0), first);
  auto results = emitter.reduce(
      shape[axis], {first, zero}, [&](Value counter, ValueRange carried) -> SmallVector<Value> {
        in[axis] = emitter.uniform(counter);
        Element x = Element(emitter, emitter.load(getInput(), in), type).to(inner),
                best(emitter, carried[0], inner);
        Element better = getMinimum() ? (getSelectLast() ? x <= best : x < best)
                                      : (getSelectLast() ? best <= x : best < x);
        Element at(emitter, carried[1], i64);
        return {better.select(x, best).get(), better.select({emitter, counter, i64}, at).get()};
      });
  return Element(emitter, results[1], i64).to(elementTypeOf(getResult())).get();
}

Value CumulateOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  int64_t axis = getAxis(), extent = shapeOf(getInput())[axis];
  Type type = elementTypeOf(getInput()), inner = computeType(type), i64 = emitter.builder().getI64Type();
  SmallVector<Lane> in(index);
  ReduceKind kind = getProduct() ? ReduceKind::Prod : ReduceKind::Sum;
  Value init = carriedLike(emitter, reduceIdentity(emitter, kind, inner).get(), index);
  Element end(emitter, emitter.toValue(index[axis], i64), i64);
  Value total = emitter.reduce(extent, init, [&](Value counter, ValueRange carried) -> SmallVector<Value> {
    in[axis] = emitter.uniform(counter);
    Element at(emitter, counter, i64), sum(emitter, carried[0], inner);
    Element counts =
        getReverse() ? (getExclusive() ? end < at : end <= at) : (getExclusive() ? at < end : at <= end);
    Element x = Element(emitter, emitter.load(getInput(), in), type).to(inner);
    return {matched(emitter, counts.select(reduceCombine(kind, sum, x), sum).get(), carried[0])};
  })[0];
  return Element(emitter, total, inner).to(type).get();
}

Element colossal::comesBefore(bool largest, Element x, Element i, Element y, Element j) {
  Element before = largest ? y < x : x < y, isTie = x == y;
  if (x.isFloat()) {
    Element xIsNaN = x != x, yIsNaN = y != y;
    before = before | (largest ? xIsNaN & !yIsNaN : yIsNaN & !xIsNaN);
    isTie = isTie | (xIsNaN & yIsNaN);
  }
  return before | (isTie & (i < j));
}

Value TopKOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  // Takes the first of the elements that come after the one taken before, up to the rank wanted: O(k n) for
  // each result.
  int64_t axis = getAxis(), extent = shapeOf(getInput())[axis], k = shapeOf(getValues())[axis];
  Type type = elementTypeOf(getInput()), inner = computeType(type), i64 = emitter.builder().getI64Type();
  SmallVector<Lane> in(index);
  Element rank(emitter, emitter.toValue(index[axis], i64), i64);
  in[axis] = emitter.constant(0);
  Value first =
      carriedLike(emitter, Element(emitter, emitter.load(getInput(), in), type).to(inner).get(), index);
  Value none = matched(emitter, emitter.scalar(i64, -1), first);
  auto taken = emitter.reduce(k, {first, none}, [&](Value step, ValueRange previous) -> SmallVector<Value> {
    Element last(emitter, previous[0], inner), lastPlace(emitter, previous[1], i64);
    auto next =
        emitter.reduce(extent, {first, none}, [&](Value counter, ValueRange carried) -> SmallVector<Value> {
          in[axis] = emitter.uniform(counter);
          Element x = Element(emitter, emitter.load(getInput(), in), type).to(inner),
                  at(emitter, counter, i64);
          Element best(emitter, carried[0], inner), place(emitter, carried[1], i64);
          Element isAfter = comesBefore(getLargest(), last, lastPlace, x, at);
          Element isLeft = (lastPlace == at.like(-1)) | isAfter;
          Element isBefore = comesBefore(getLargest(), x, at, best, place);
          Element isBetter = (place == at.like(-1)) | isBefore;
          Element takes = isLeft & isBetter;
          return {matched(emitter, takes.select(x, best).get(), first),
                  matched(emitter, takes.select(at, place).get(), first)};
        });
    Element goesOn = Element(emitter, step, i64) <= rank;
    return {matched(emitter, goesOn.select({emitter, next[0], inner}, last).get(), first),
            matched(emitter, goesOn.select({emitter, next[1], i64}, lastPlace).get(), first)};
  });
  if (result == 0)
    return Element(emitter, taken[0], inner).to(type).get();
  return Element(emitter, taken[1], i64).to(elementTypeOf(getIndices())).get();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void ReduceOp::emitRow(RowEmitter &rows) {
  Type type = elementTypeOf(getInput()), inner = accumulateType(getKind(), type);
  Type result = elementTypeOf(getResult());
  auto input = [&](ArrayRef<Lane> index) { return rows.element(getInput(), inner, index); };
  if (getKind() == ReduceKind::LogSumExp) {
    Element maximum = rows.fold(ReduceKind::Max, inner, input);
    Element sum = rows.fold(ReduceKind::Sum, inner, [&](ArrayRef<Lane> index) {
      return rows.expNonPositive(input(index) - maximum);
    });
    // A row of -inf, or one with inf, keeps its maximum.
    Element isFinite = (maximum - maximum) == maximum.like(0);
    Element total = isFinite.select(sum.apply(MathFunction::Log) + maximum, maximum);
    return rows.bindStatistic(getResult(), total.to(result));
  }
  Element total = rows.fold(getKind(), inner, input);
  rows.bindStatistic(getResult(),
                     reduceFinish(getKind(), total, getCount().value_or(rows.rowSize()), result));
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

// A tile is a line along the axis.
TilePlan CumulateOp::getTiles() {
  TilePlan plan{SmallVector<int64_t>(shapeOf(getInput())), 0};
  plan.shape.erase(plan.shape.begin() + getAxis());
  return plan;
}

void CumulateOp::emitTile(TileEmitter &tiles, ArrayRef<Lane> tile) {
  ElementEmitter &e = tiles.elements();
  int64_t axis = getAxis(), extent = shapeOf(getInput())[axis];
  Type type = elementTypeOf(getInput()), inner = computeType(type);
  ReduceKind kind = getProduct() ? ReduceKind::Prod : ReduceKind::Sum;
  SmallVector<Lane> index(tile);
  index.insert(index.begin() + axis, Lane());
  e.reduce(extent, reduceIdentity(e, kind, inner).get(),
           [&](Value counter, ValueRange carried) -> SmallVector<Value> {
             Element place =
                 getReverse() ? tiles.number(extent - 1) - tiles.word(counter) : tiles.word(counter);
             index[axis] = e.uniform(place.get());
             Element before(e, carried[0], inner);
             Element after =
                 reduceCombine(kind, before, Element(e, tiles.read(getInput(), index), type).to(inner));
             tiles.write((getExclusive() ? before : after).to(type).get(), getResult(), index);
             return {after.get()};
           });
}

TilePlan TopKOp::getTiles() {
  TilePlan plan{SmallVector<int64_t>(shapeOf(getValues())), 2 * shapeOf(getInput())[getAxis()]};
  plan.shape.erase(plan.shape.begin() + getAxis());
  return plan;
}

/// Sorts the places of a line by merging runs of 1, 2, 4, ... from one half of the scratch into the other.
void TopKOp::emitTile(TileEmitter &tiles, ArrayRef<Lane> tile) {
  using Carried = SmallVector<Value>;
  ElementEmitter &e = tiles.elements();
  int64_t axis = getAxis(), extent = shapeOf(getInput())[axis], k = shapeOf(getValues())[axis];
  Type type = elementTypeOf(getInput());
  SmallVector<Lane> index(tile);
  index.insert(index.begin() + axis, Lane());
  auto number = [&](int64_t value) { return tiles.number(value); };
  auto word = [&](Value value) { return tiles.word(value); };
  auto valueAt = [&](Element place) {
    index[axis] = e.uniform(place.get());
    return Element(e, tiles.read(getInput(), index), type);
  };
  auto placeAt = [&](Element position) { return word(tiles.readScratch(e.uniform(position.get()))); };
  e.reduce(extent, number(0).get(), [&](Value counter, ValueRange carried) -> Carried {
    tiles.writeScratch(counter, e.uniform(counter));
    return {carried[0]};
  });
  int64_t passes = 0;
  while ((int64_t(1) << passes) < extent)
    ++passes;
  // Carried: the run's length, where the runs lie, where the merged ones go.
  SmallVector<Value> first{number(1).get(), number(0).get(), number(extent).get()};
  Carried sorted = e.reduce(passes, first, [&](Value, ValueRange pass) -> Carried {
    Element run = word(pass[0]), from = word(pass[1]), to = word(pass[2]), both = run + run;
    // Carried: the next of the left run, of the right run, and where this pair of runs began.
    SmallVector<Value> begin{number(0).get(), number(0).get(), number(0).get()};
    e.reduce(extent, begin, [&](Value counter, ValueRange carried) -> Carried {
      Element position = word(counter), last = number(extent);
      Element isNew = position == (word(carried[2]) + both).min(last);
      Element start = (isNew | (position == number(0))).select(position, word(carried[2]));
      Element fresh = isNew | (position == number(0));
      Element middle = (start + run).min(last), end = (start + both).min(last);
      Element left = fresh.select(start, word(carried[0])), right = fresh.select(middle, word(carried[1]));
      Element hasLeft = left < middle, hasRight = right < end;
      Element a = placeAt(from + left.min(number(extent - 1))),
              b = placeAt(from + right.min(number(extent - 1)));
      Element ofB = valueAt(b), before = comesBefore(getLargest(), valueAt(a), a, ofB, b);
      Element takesLeft = hasLeft & ((!hasRight) | before);
      Lane place = e.uniform((to + position).get());
      tiles.writeScratch(takesLeft.select(a, b).get(), place);
      Element one = number(1), none = number(0);
      return {(left + takesLeft.select(one, none)).get(), (right + takesLeft.select(none, one)).get(),
              start.get()};
    });
    return {both.get(), pass[2], pass[1]};
  });
  e.reduce(k, number(0).get(), [&](Value counter, ValueRange carried) -> Carried {
    Element place = placeAt(word(sorted[1]) + word(counter));
    Value value = valueAt(place).get();
    index[axis] = e.uniform(counter);
    tiles.write(value, getValues(), index);
    tiles.write(place.to(elementTypeOf(getIndices())).get(), getIndices(), index);
    return {carried[0]};
  });
}
