// What an op tells about the code that computes it.
#ifndef COLOSSAL_DIALECTS_COLOSSAL_INTERFACES_TD
#define COLOSSAL_DIALECTS_COLOSSAL_INTERFACES_TD

include "mlir/IR/OpBase.td"

def ElementEmissionOpInterface : OpInterface<"ElementEmissionOpInterface"> {
  let cppNamespace = "::colossal";
  let description = [{
    Code for the elements of the op's results, pulled by index: the one description from which kernels are fused, loops
    are emitted, and small constants are folded (see ElementEmitter.h).
  }];
  let methods = [
    InterfaceMethod<[{
      Emits the value of `result` at `index` (one Lane per dimension): a scalar, or a vector of `emitter.lanes()` elements
      if some lane varies (a scalar also then where all lanes have the same value). Operands are read through `emitter.load`, loops are opened through `emitter.reduce`. Returns a
      null Value, having emitted nothing, where this op is computed by a routine of its own (contraction, convolution,
      attention) and not element by element.
    }], "::mlir::Value", "emitElement",
      (ins "::colossal::ElementEmitter &":$emitter, "unsigned":$result, "::llvm::ArrayRef<::colossal::Lane>":$index)>,
    InterfaceMethod<[{
      Whether an element takes a long loop over operands that neighbours read again, so that it should be computed once, in
      loops of its own and from memory, rather than by each reader. About speed only.
    }], "bool", "isElementCostly", (ins), "", [{ return false; }]>
  ];
}

#endif // COLOSSAL_DIALECTS_COLOSSAL_INTERFACES_TD
