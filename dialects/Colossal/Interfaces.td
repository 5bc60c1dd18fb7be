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
    }], "bool", "isElementCostly", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{
      Whether the elements of the result are those of the first operand: moved, repeated or in a wider type, but no others.
    }], "::colossal::Forwarding", "getForwarding", (ins), "", [{ return ::colossal::Forwarding::None; }]>
  ];
}

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::colossal";
  let description = [{
    The gradient of an op, as ordinary ops under ordinary factor rules, so that layouts, partial sums, padding, fusion and cost
    come from what exists.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds what computes the gradients of those operands that `gradient` wants, given those of the results
      (see GradientBuilder.h). Adds nothing for operands on which the results depend in steps only (comparisons, roundings,
      indices). Fails after an error at the op where it has no gradient.
    }], "::llvm::LogicalResult", "buildGradient", (ins "::colossal::GradientBuilder &":$gradient)>
  ];
}

def KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::colossal";
  let description = [{
    What the op is to the kernels that compute it (see KernelKind.h): what may stand in one kernel with it, and what it costs
    there. About speed only.
  }];
  let methods = [
    InterfaceMethod<"What computes the op.", "::colossal::KernelKind", "getKernelKind", (ins), "",
                    [{ return ::colossal::KernelKind::Element; }]>,
    InterfaceMethod<"What names of kernels and traces call the op.", "::llvm::StringRef", "getKernelName", (ins), "",
                    [{ return $_op->getName().stripDialect(); }]>,
    InterfaceMethod<"The rows over which an op of kind Row computes statistics; none for all others.",
                    "::std::optional<::colossal::RowSpace>", "getRowSpace", (ins), "", [{ return ::std::nullopt; }]>,
    InterfaceMethod<[{
      Whether an element of the result reads the operands at its own index only (broadcast where they are smaller), or at that
      of its row: then producers can be computed in the same loops.
    }], "bool", "readsAtOwnIndex", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{
      Whether `operand` is read at places that are known at run time only, or by many elements: then it should lie in memory.
    }], "bool", "readsFromMemory", (ins "unsigned":$operand), "", [{ return false; }]>,
    InterfaceMethod<[{
      Of an op of kind Movement: where the elements of its result lie, given where those of its operand do; none where an
      offset and strides cannot say it.
    }], "::std::optional<::colossal::ElementPlaces>", "viewThrough", (ins "const ::colossal::ElementPlaces &":$input), "",
                    [{ return ::std::nullopt; }]>,
    InterfaceMethod<"Whether the result holds the operand's elements in their row-major order.", "bool", "keepsOrder", (ins), "",
                    [{ return false; }]>,
    InterfaceMethod<[{
      Of an op of kind Movement that only orders dimensions anew: for each dimension of the result, that of the operand; none
      for all others.
    }], "::std::optional<::llvm::SmallVector<unsigned>>", "getDimensionOrder", (ins), "", [{ return ::std::nullopt; }]>,
    InterfaceMethod<[{
      Of an op of kind Padding: for each dimension, how many elements of the border stand before the operand's.
    }], "::llvm::SmallVector<int64_t>", "getLowBorder", (ins), "", [{ return {}; }]>,
    InterfaceMethod<[{
      What an element costs beside its loads, in additions, roughly; 0 where it is not worth keeping for a second reader.
    }], "int64_t", "getElementCost", (ins), "", [{ return 4; }]>,
    InterfaceMethod<[{
      Whether an element is rather computed again by each reader than read from memory, even where many read it.
    }], "bool", "isElementFree", (ins), "", [{ return false; }]>
  ];
}

def IndexingOpInterface : OpInterface<"IndexingOpInterface"> {
  let cppNamespace = "::colossal";
  let description = [{
    Ops that index a tensor, their first operand, by the elements of another; negative indices count from the end.
  }];
  let methods = [
    InterfaceMethod<"The tensor of indices.", "::mlir::Value", "getIndexOperand", (ins)>,
    InterfaceMethod<"The size of the dimension that indices count in; of several, the largest.", "int64_t", "getIndexedSize", (ins)>
  ];
}

def RowEmissionOpInterface : OpInterface<"RowEmissionOpInterface"> {
  let cppNamespace = "::colossal";
  let description = [{
    Code for ops of kind Row in kernels that go row by row (see RowEmitter.h), so that statistics are computed once a row and
    not by every element.
  }];
  let methods = [
    InterfaceMethod<"Emits the statistics of the row that the kernel is at, and binds code to the result.", "void", "emitRow",
      (ins "::colossal::RowEmitter &":$emitter)>,
    InterfaceMethod<[{
      Whether computing the statistics also gives most of the result, which is then worth keeping (RowEmitter::keep).
    }], "bool", "keepsElements", (ins), "", [{ return false; }]>
  ];
}

def TileEmissionOpInterface : OpInterface<"TileEmissionOpInterface"> {
  let cppNamespace = "::colossal";
  let description = [{
    Code for ops whose elements depend on one another, by tiles that depend on no other tile (see TileEmitter.h).
  }];
  let methods = [
    InterfaceMethod<"How the op is cut into tiles.", "::colossal::TilePlan", "getTiles", (ins)>,
    InterfaceMethod<"Emits the tile at index `tile` of the plan's shape. Indices out of range touch nothing.", "void", "emitTile",
      (ins "::colossal::TileEmitter &":$emitter, "::llvm::ArrayRef<::colossal::Lane>":$tile)>,
    InterfaceMethod<[{
      Whether the result is what the first operand holds, with some elements replaced: it must lie there before, and is no
      operand of the kernel.
    }], "bool", "updatesFirstOperand", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{
      Whether the result is a sum that begins with zeros, and can begin with what lies in its place instead
      (TileEmitter::addsToResult).
    }], "bool", "canAddToResult", (ins), "", [{ return false; }]>
  ];
}

#endif // COLOSSAL_DIALECTS_COLOSSAL_INTERFACES_TD
