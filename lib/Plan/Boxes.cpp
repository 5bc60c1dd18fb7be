//===- Boxes.cpp - index expressions, and the boxes that shardings mean ------===//
#include "Boxes.h"

#include "dialects/Dist/ParameterPart.h"
#include "dialects/Plan/PlanDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::plan;

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

static Expr makeConstant(int64_t value) {
  Expr expr;
  expr.set_constant(value);
  return expr;
}

/// Folds constants, so that plans hold no arithmetic that needs no coordinate.
static Expr makeBinary(Expr::Op op, Expr lhs, Expr rhs) {
  if (lhs.kind_case() == Expr::kConstant && rhs.kind_case() == Expr::kConstant) {
    int64_t a = lhs.constant(), b = rhs.constant();
    switch (op) {
    case Expr::ADD: return makeConstant(a + b);
    case Expr::SUB: return makeConstant(a - b);
    case Expr::MUL: return makeConstant(a * b);
    case Expr::FLOOR_DIV: return makeConstant(b > 0 ? (a >= 0 ? a / b : -((-a + b - 1) / b)) : 0);
    case Expr::MOD: return makeConstant(b > 0 ? ((a % b) + b) % b : 0);
    case Expr::MIN: return makeConstant(std::min(a, b));
    case Expr::MAX: return makeConstant(std::max(a, b));
    default: break;
    }
  }
  Expr expr;
  expr.mutable_binary()->set_op(op);
  *expr.mutable_binary()->mutable_lhs() = std::move(lhs);
  *expr.mutable_binary()->mutable_rhs() = std::move(rhs);
  return expr;
}

/// The number that `value`, an argument of a function or the counter of a repeat, has in expressions.
static unsigned getNumber(BlockArgument value) {
  unsigned number = value.getArgNumber();
  for (Operation *around = value.getOwner()->getParentOp()->getParentOp(); isa<RepeatOp, FunctionOp>(around);
       around = around->getParentOp())
    number += around->getRegion(0).getNumArguments();
  return number;
}

FailureOr<Expr> plan::makeExpr(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op) {
    if (!isa<RepeatOp, FunctionOp>(value.getParentRegion()->getParentOp()))
      return failure();
    Expr expr;
    expr.set_counter(getNumber(cast<BlockArgument>(value)));
    return expr;
  }
  if (auto coordinate = dyn_cast<dist::CoordinateOp>(op)) {
    Expr expr;
    expr.set_coordinate(coordinate.getAxis());
    return expr;
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto integer = dyn_cast<IntegerAttr>(constant.getValue());
    if (!integer)
      return failure();
    return makeConstant(integer.getInt());
  }
  Expr::Op kind =
      llvm::TypeSwitch<Operation *, Expr::Op>(op)
          .Case<arith::AddIOp>([](auto) { return Expr::ADD; })
          .Case<arith::SubIOp>([](auto) { return Expr::SUB; })
          .Case<arith::MulIOp>([](auto) { return Expr::MUL; })
          .Case<arith::FloorDivSIOp, arith::DivSIOp, arith::DivUIOp>([](auto) { return Expr::FLOOR_DIV; })
          .Case<arith::RemSIOp, arith::RemUIOp>([](auto) { return Expr::MOD; })
          .Case<arith::MinSIOp>([](auto) { return Expr::MIN; })
          .Case<arith::MaxSIOp>([](auto) { return Expr::MAX; })
          .Default([](auto) { return Expr::OP_UNSPECIFIED; });
  if (kind == Expr::OP_UNSPECIFIED)
    return op->emitOpError("has no form in a plan's expressions"), failure();
  FailureOr<Expr> lhs = makeExpr(op->getOperand(0)), rhs = makeExpr(op->getOperand(1));
  if (failed(lhs) || failed(rhs))
    return failure();
  return makeBinary(kind, *lhs, *rhs);
}

//===----------------------------------------------------------------------===//
// Boxes
//===----------------------------------------------------------------------===//

/// All of a dimension of `size` elements, in room for `local`.
static void addWhole(int64_t size, int64_t local, Box &box) {
  BoxDim &out = *box.add_dims();
  out.set_global(size);
  out.set_local(local);
  *out.mutable_start() = makeConstant(0);
  *out.mutable_valid() = makeConstant(size);
}

LogicalResult plan::fillBox(dist::ShardingAttr sharding, dist::MeshAttr mesh, Box &box) {
  for (dist::DimShardingAttr dim : sharding.getDims())
    for (dist::FactorShardAttr factor : dim.getFactors()) {
      int64_t size = factor.getSize();
      ArrayRef<unsigned> axes = factor.getAxes();
      if (!axes.empty() && axes.front() == mesh.getLoopAxis()) {
        axes = axes.drop_front();
        const int64_t turns = mesh.getNumTurns();
        if (axes.empty()) {
          addWhole(size, (size + turns - 1) / turns * turns, box);
          continue;
        }
        if (size % turns != 0)
          return failure();
        addWhole(turns, turns, box);
        size /= turns;
      }
      BoxDim &out = *box.add_dims();
      out.set_global(size);
      int64_t chunk = size;
      Expr start = makeConstant(0), valid = makeConstant(size);
      for (unsigned axis : axes) {
        if (axis == mesh.getLoopAxis())
          return failure();
        int64_t n = mesh.getAxisSize(axis);
        bool even = chunk % n == 0 && valid.kind_case() == Expr::kConstant && valid.constant() == chunk;
        chunk = (chunk + n - 1) / n;
        Expr coordinate;
        coordinate.set_coordinate(axis);
        Expr offset = makeBinary(Expr::MUL, coordinate, makeConstant(chunk));
        start = makeBinary(Expr::ADD, start, offset);
        valid = even
                    ? makeConstant(chunk)
                    : makeBinary(Expr::MIN,
                                 makeBinary(Expr::MAX, makeBinary(Expr::SUB, valid, offset), makeConstant(0)),
                                 makeConstant(chunk));
      }
      out.set_local(chunk);
      // An empty shard begins at the end, so that start + valid stays within the tensor.
      bool canPass = valid.kind_case() != Expr::kConstant;
      *out.mutable_start() = canPass ? makeBinary(Expr::MIN, start, makeConstant(size)) : start;
      *out.mutable_valid() = valid;
    }
  return success();
}

LogicalResult plan::moveIntoWhole(dist::ShardingAttr sharding, ArrayRef<int64_t> starts,
                                  const google::protobuf::RepeatedField<uint64_t> &shape, dist::MeshAttr mesh,
                                  Box &box) {
  Box moved;
  int next = 0;
  for (auto [d, dim] : llvm::enumerate(sharding.getDims())) {
    const auto size = static_cast<int64_t>(shape[static_cast<int>(d)]);
    std::optional<unsigned> joined = dist::countJoinedFactors(dim, starts[d], size, mesh);
    if (!joined)
      return failure();
    BoxDim &run = *moved.add_dims();
    run = box.dims(next);
    auto global = static_cast<int64_t>(run.global());
    for (unsigned i = 1; i < *joined; ++i) {
      const BoxDim &inner = box.dims(next + static_cast<int>(i));
      const auto factor = static_cast<int64_t>(inner.global());
      global *= factor;
      Expr start =
          makeBinary(Expr::ADD, makeBinary(Expr::MUL, run.start(), makeConstant(factor)), inner.start());
      // An empty share stays behind the end.
      *run.mutable_start() = run.valid().kind_case() == Expr::kConstant
                                 ? start
                                 : makeBinary(Expr::MIN, start, makeConstant(global));
      *run.mutable_valid() = makeBinary(Expr::MUL, run.valid(), inner.valid());
      run.set_local(run.local() * inner.local());
    }
    int64_t unit = 1;
    for (dist::FactorShardAttr factor : dim.getFactors().drop_front(*joined))
      unit *= factor.getSize();
    *run.mutable_start() = makeBinary(Expr::ADD, run.start(), makeConstant(starts[d] / unit));
    run.set_global(size / unit);
    const int count = static_cast<int>(dim.getFactors().size());
    for (int i = static_cast<int>(*joined); i < count; ++i)
      *moved.add_dims() = box.dims(next + i);
    next += count;
  }
  box = std::move(moved);
  return success();
}
