//===- ReductionGradient.cpp ------------------------------------------------===//
//
// Gradients of reductions, running sums and selections. Equal greatest elements share the gradient, as in
// PyTorch's amax; indices have none.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/GradientBuilder.h"

using namespace mlir;
using namespace colossal;
using K = colossal::ElementwiseKind;

/// The product of all others, at each element: a zero leaves something at its own place only.
static Value buildProductSlope(OpComposer &ops, Value x, ArrayRef<int64_t> axes) {
  Value isZero = ops.compare(K::Equal, x, 0), one = ops.constant(1, x);
  Value rest = ops.select(isZero, one, x);
  Value product = ops.reduce(ReduceKind::Prod, rest, axes);
  Value zeros = ops.reduce(ReduceKind::Sum, ops.cast(isZero, elementTypeOf(x)), axes);
  Value none = ops.div(product, rest);
  Value isOnly = ops.apply(K::And, {ops.compare(K::Equal, zeros, 1), isZero});
  Value some = ops.keepWhere(isOnly, product);
  return ops.select(ops.compare(K::Equal, zeros, 0), none, some);
}

LogicalResult ReduceOp::buildGradient(GradientBuilder &gradient) {
  OpComposer &ops = gradient.ops();
  Type inner = GradientBuilder::wideType(getInput());
  SmallVector<int64_t> kept(shapeOf(getInput())), axes(getAxes());
  int64_t count = 1;
  for (int64_t axis : axes) {
    count *= kept[axis];
    kept[axis] = 1;
  }
  Value g = ops.cast(ops.reshape(gradient.resultGradient(), kept), inner);
  auto input = [&] { return ops.cast(getInput(), inner); };
  auto result = [&] { return ops.cast(ops.reshape(getResult(), kept), inner); };
  switch (getKind()) {
  case ReduceKind::Sum: break;
  case ReduceKind::Mean: g = ops.scale(g, 1.0 / static_cast<double>(getCount().value_or(count))); break;
  case ReduceKind::Prod: g = ops.mul(g, buildProductSlope(ops, input(), axes)); break;
  case ReduceKind::Max:
  case ReduceKind::Min: {
    Value x = input(), isChosen = ops.compare(K::Equal, x, result());
    Value chosen = ops.reduce(ReduceKind::Sum, ops.cast(isChosen, inner), axes);
    g = ops.keepWhere(isChosen, ops.div(g, chosen));
    break;
  }
  case ReduceKind::SumSquare: g = ops.mul(ops.scale(g, 2), input()); break;
  case ReduceKind::L1: g = ops.mul(g, ops.apply(K::Sign, {input()})); break;
  case ReduceKind::L2: {
    Value y = result(), along = ops.div(ops.mul(g, input()), y);
    g = ops.dropWhere(ops.compare(K::Equal, y, 0), along);
    break;
  }
  case ReduceKind::LogSum: g = ops.div(g, ops.reduce(ReduceKind::Sum, input(), axes)); break;
  case ReduceKind::LogSumExp: {
    // Of rows that are -inf everywhere nothing is known.
    Value x = input(), y = result();
    Value weight = ops.apply(K::Exp, {ops.sub(x, y)});
    g = ops.mul(g, weight);
    break;
  }
  }
  gradient.add(0, g);
  return success();
}

// Which element is the greatest changes in steps.
LogicalResult ArgReduceOp::buildGradient(GradientBuilder &) {
  return success();
}

/// Of running products y, the matrix of products without element j, up to element i: [..., j, i].
static Value buildRunningSlope(OpComposer &ops, CumulateOp op, Value x) {
  int64_t axis = op.getAxis(), extent = shapeOf(x)[axis];
  SmallVector<int64_t> shape(shapeOf(x)), all(shape), rows(shape.size() + 1, 1), columns(rows);
  shape.insert(shape.begin() + axis, 1);
  all.insert(all.begin() + axis, extent);
  rows[axis] = columns[axis + 1] = extent;
  Type i64 = ops.builder.getI64Type();
  Value j = ops.iota(rows, i64, axis), i = ops.iota(columns, i64, axis + 1);
  Value spread = ops.broadcast(ops.reshape(x, shape), all);
  Value without = ops.select(ops.compare(K::Equal, j, i), ops.constant(1, spread), spread);
  Value products = CumulateOp::create(ops.builder, ops.loc, without.getType(), without, axis + 1,
                                      op.getExclusive(), op.getReverse(), true);
  // Whether element j is a factor of product i.
  K order = op.getReverse() ? (op.getExclusive() ? K::Greater : K::GreaterOrEqual)
                            : (op.getExclusive() ? K::Less : K::LessOrEqual);
  return ops.keepWhere(ops.compare(order, j, i), products);
}

LogicalResult CumulateOp::buildGradient(GradientBuilder &gradient) {
  OpComposer &ops = gradient.ops();
  Value g = gradient.widen(gradient.resultGradient());
  int64_t axis = getAxis();
  if (!getProduct()) {
    gradient.add(0, CumulateOp::create(ops.builder, ops.loc, g.getType(), g, axis, getExclusive(),
                                       !getReverse(), false));
    return success();
  }
  Value slope = buildRunningSlope(ops, *this, gradient.widen(getInput()));
  SmallVector<int64_t> shape(shapeOf(g));
  shape.insert(shape.begin() + axis, 1);
  Value terms = ops.mul(slope, ops.reshape(g, shape));
  gradient.add(0, ops.reshape(ops.reduce(ReduceKind::Sum, terms, {axis + 1}), shapeOf(getInput())));
  return success();
}

// Elements that were selected take their gradients where they came from.
LogicalResult TopKOp::buildGradient(GradientBuilder &gradient) {
  Value g = gradient.resultGradient(0);
  if (!g || !gradient.wants(0))
    return success();
  OpComposer &ops = gradient.ops();
  Value zeros = ops.broadcast(ops.constant(0, getInput()), shapeOf(getInput()));
  gradient.add(0, ScatterElementsOp::create(ops.builder, ops.loc, getInput().getType(), zeros, getIndices(),
                                            g, getAxis(), ScatterReduction::None));
  return success();
}
