// Passes between the phases.
#ifndef COLOSSAL_COMPILER_PASSES_TD
#define COLOSSAL_COMPILER_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyPhase : Pass<"colossal-verify-phase", "::mlir::ModuleOp"> {
  let summary = "Check that a module is what a phase promises";
  let description = [{
    Lists everything in the module that has no place in it after the phase, each where it stands: ops of another phase,
    attributes that should have been used up, instructions outside their arenas. Phase.h says what each phase promises. Runs after
    every phase; fails where it has listed anything.
  }];
  let options = [
    Option<"phase", "phase", "std::string", "", "import, precision, differentiate, outline, step, search, partition or schedule">
  ];
}

#endif // COLOSSAL_COMPILER_PASSES_TD
