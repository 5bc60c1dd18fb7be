//===- Scope.h - code inside a region of a kernel ---------------------------===//
//
// A builder inside some region, with what emits through it, and the loops and branches that open further
// ones.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_CODEGEN_CPU_SCOPE_H
#define COLOSSAL_LIB_CODEGEN_CPU_SCOPE_H

#include "colossal/Codegen/CPU/Processor.h"
#include "colossal/Codegen/Kernel/VectorMath.h"
#include "colossal/Codegen/Kernel/VectorMemory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace colossal::cpu {

struct Scope {
  Scope(mlir::OpBuilder &b, mlir::Location loc, const Processor &processor)
      : b(b), loc(loc), processor(processor), memory(b, loc, processor), math(b, loc, processor) {}
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value lhs, mlir::Value rhs) {
    return mlir::arith::CmpIOp::create(b, loc, predicate, lhs, rhs);
  }
  mlir::Value sub(mlir::Value lhs, mlir::Value rhs) {
    return mlir::arith::SubIOp::create(b, loc, lhs, rhs, mlir::arith::IntegerOverflowFlags::nsw);
  }
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs) {
    return mlir::arith::MulIOp::create(b, loc, lhs, rhs, mlir::arith::IntegerOverflowFlags::nsw);
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
  const Processor &processor;
  VectorMemory memory;
  VectorMath math;
};

/// `body(scope, index)` for each index.
template <typename Body>
void loop(Scope &scope, mlir::Value begin, mlir::Value end, int64_t step, Body body) {
  mlir::scf::ForOp::create(scope.b, scope.loc, begin, end, scope.memory.constant(step), mlir::ValueRange(),
                           [&](mlir::OpBuilder &b, mlir::Location loc, mlir::Value index, mlir::ValueRange) {
                             Scope inner(b, loc, scope.processor);
                             body(inner, index);
                             mlir::scf::YieldOp::create(b, loc);
                           });
}

/// The same, from 0 to `extent`.
template <typename Body>
void loop(Scope &scope, int64_t extent, int64_t step, Body body) {
  mlir::Value end = scope.memory.constant(extent), begin = scope.memory.constant(0);
  loop(scope, begin, end, step, body);
}

/// `yes(scope)` where the condition holds, `no(scope)` elsewhere.
template <typename Then, typename Else>
void branch(Scope &scope, mlir::Value condition, Then yes, Else no) {
  auto region = [&](auto &body) {
    return [&](mlir::OpBuilder &b, mlir::Location loc) {
      Scope inner(b, loc, scope.processor);
      body(inner);
      mlir::scf::YieldOp::create(b, loc);
    };
  };
  mlir::scf::IfOp::create(scope.b, scope.loc, condition, region(yes), region(no));
}

template <typename Then>
void branch(Scope &scope, mlir::Value condition, Then yes) {
  mlir::scf::IfOp::create(scope.b, scope.loc, condition, [&](mlir::OpBuilder &b, mlir::Location loc) {
    Scope inner(b, loc, scope.processor);
    yes(inner);
    mlir::scf::YieldOp::create(b, loc);
  });
}

} // namespace colossal::cpu

#endif // COLOSSAL_LIB_CODEGEN_CPU_SCOPE_H
