// Passes of the precision phase.
#ifndef COLOSSAL_PRECISION_PASSES_TD
#define COLOSSAL_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def SetPrecision : Pass<"colossal-set-precision", "::mlir::ModuleOp"> {
  let summary = "Store and compute the floats of a model in one precision";
  let description = [{
    Rewrites the functions of an imported module. f32: all that is f16 or bf16 becomes f32. bf16 and f16: values of f32 become
    the narrow type as far as the ops that make and read them may (`dialects/Colossal/Precision.h`): products read and give it,
    with sums in f32; what moves elements moves narrow ones; what computes each element computes in f32 and reads and writes narrow
    ones. Everything else stays in f32, with casts around it, and so do what positions, angles and masks are computed from, and what is
    computed from parameters alone, up to where it is narrowed, once. tf32: as f32, and products of f32 may round their factors to ten bits
    (`colossal.tf32` on the module). Arguments and results of functions keep their types, f64 and all that is no float stays as it is.
  }];
  let options = [
    Option<"precision", "precision", "std::string", "", "f32, tf32, bf16 or f16">,
    Option<"training", "training", "bool", "false",
           "The model is to be differentiated: what computes each element stays in f32, as its gradient then does, and is narrowed after it">
  ];
}

#endif // COLOSSAL_PRECISION_PASSES_TD
