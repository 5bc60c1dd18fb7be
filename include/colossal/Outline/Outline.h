//===- Outline.h - a block that stands many times is one function -----------===//
//
// The phase between import and search. After it, what a model repeats stands in private functions of the
// module, called with other operands (the layer's parameters among them):
//
//   func.func @main(%ids) { ... %x1 = call @block0(%x0, %w0) ; %x2 = call @block0(%x1, %w1) ... }
//   func.func private @block0(%x, %w) -> ... { ... }
//
// Rules for such modules, which verifyCalls checks:
//  C1  a call names a private function of the module, which has a body and calls nothing;
//  C2  every private function is called, and public functions are not.
//
// Ops in a private function have the location of the block's first repetition; the location of a call holds
// those of its own repetition (getLocations).
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_OUTLINE_OUTLINE_H
#define COLOSSAL_OUTLINE_OUTLINE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace colossal::outline {

/// Outlines the repeated blocks of all public functions.
void outlineBlocks(mlir::ModuleOp module);

/// Puts the bodies of private functions back where they are called, and erases those functions.
mlir::LogicalResult inlineBlocks(mlir::ModuleOp module);

/// Checks C1 and C2; fails with a diagnostic at the call or the function.
mlir::LogicalResult verifyCalls(mlir::ModuleOp module);

/// The function that `call` runs; null where the module has none of that name.
mlir::func::FuncOp getCallee(mlir::func::CallOp call);

/// The locations that the ops of the callee's body (without the terminator, in order) have in this
/// repetition: those of the ops themselves where the call does not say.
llvm::SmallVector<mlir::Location> getLocations(mlir::func::CallOp call, mlir::func::FuncOp callee);

std::unique_ptr<mlir::Pass> createOutlineBlocks();
std::unique_ptr<mlir::Pass> createInlineBlocks();
/// Registers `--colossal-outline-blocks` and `--colossal-inline-blocks`.
void registerPasses();

} // namespace colossal::outline

#endif // COLOSSAL_OUTLINE_OUTLINE_H
