//===- ImportPhase.h - the programs of a model, imported --------------------===//
//
// A model is imported once; every layout, mesh and limit that is tried begins with a copy of what came of it.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_COMPILER_IMPORTPHASE_H
#define COLOSSAL_LIB_COMPILER_IMPORTPHASE_H

#include "colossal/Compiler/Compiler.h"

namespace colossal {

/// A model after import, from which it is compiled as often as it takes.
struct Imported {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  PhaseTime time;
  std::shared_ptr<void> source; ///< what it was read into, where it is one function; nothing refers to it
};

/// Imports one function per combination of the dimensions with several values, into one module. Fails, with
/// diagnostics, where the model cannot be imported, or where its plan (`last` is Phase::Plan) could not be
/// written to `options.planPath`. `shorter`: as ImportHooks has it, where there is one such function.
mlir::FailureOr<Imported>
importModel(mlir::MLIRContext *context, const CompileOptions &options, Phase last,
            const std::function<void(mlir::OwningOpRef<mlir::ModuleOp>)> &shorter = nullptr);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_IMPORTPHASE_H
