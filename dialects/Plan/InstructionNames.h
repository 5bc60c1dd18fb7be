//===- InstructionNames.h - ONNX names of instructions ----------------------===//
//
// What instructions came from stands in their locations. Those of a function stand for several places of the
// model, so that their names are texts with gaps, which calls fill (Call.names in the plan format); these are
// attributes.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_PLAN_INSTRUCTIONNAMES_H
#define COLOSSAL_DIALECTS_PLAN_INSTRUCTIONNAMES_H

#include "mlir/IR/Operation.h"

namespace colossal::plan {

/// On an instruction of a function, arrays of strings: its names and the operators among them.
constexpr llvm::StringLiteral kNamesAttrName = "colossal.names", kOperatorsAttrName = "colossal.operators";

/// The ONNX names of an instruction, each once, in order.
llvm::SmallVector<llvm::StringRef> getNames(mlir::Operation *instruction);

/// The names of operators among them: of what has no node (parameters), the tensor's.
llvm::SmallVector<llvm::StringRef> getOperators(mlir::Operation *instruction);

} // namespace colossal::plan

#endif // COLOSSAL_DIALECTS_PLAN_INSTRUCTIONNAMES_H
