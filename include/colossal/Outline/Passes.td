// Passes of the outline phase.
#ifndef COLOSSAL_OUTLINE_PASSES_TD
#define COLOSSAL_OUTLINE_PASSES_TD

include "mlir/Pass/PassBase.td"

def OutlineBlocks : Pass<"colossal-outline-blocks", "::mlir::ModuleOp"> {
  let summary = "Turn repeated subgraphs into functions";
  let description = [{
    Every block that a function repeats (the layers of a transformer, the units of a residual network) becomes a private
    function, called with other operands at each place where it stood. Parameters stay with the caller and are passed;
    constants that all repetitions share move into the function. The location of a call holds those of the ops that it
    stands for.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

def InlineBlocks : Pass<"colossal-inline-blocks", "::mlir::ModuleOp"> {
  let summary = "Put the bodies of private functions back where they are called";
  let description = [{
    Undoes `colossal-outline-blocks`: every op has the location of its own repetition again. Private functions that nobody
    calls are erased.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

#endif // COLOSSAL_OUTLINE_PASSES_TD
