// Ops that move elements and compute nothing.

def Colossal_ReshapeOp : Colossal_Op<"reshape", [Colossal_InfersRange], ["getFlops"], ["isOperandSaved"], ["getForwarding"], ["getKernelKind", "viewThrough", "keepsOrder", "getElementCost"]> {
  let summary = "the same elements, row-major, under another shape";
  let description = [{ - (C1) input and result have equally many elements, of one type. }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def Colossal_TransposeOp : Colossal_Op<"transpose", [Colossal_InfersRange], [], ["isOperandSaved"], ["getForwarding"], ["getKernelKind", "viewThrough", "getDimensionOrder", "getElementCost"]> {
  let summary = "dimension i of the result is dimension permutation[i] of the input";
  let description = [{
    - (C1) `permutation` holds every dimension of the input once;
    - (C2) the result's shape follows; its element type is the input's.
  }];
  let arguments = (ins AnyRankedTensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input $permutation attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def Colossal_BroadcastOp : Colossal_Op<"broadcast", [Colossal_InfersRange], [], ["isOperandSaved"], ["getForwarding"], ["getKernelKind", "viewThrough", "getElementCost"]> {
  let summary = "stretches dimensions of size 1, and adds leading ones, right-aligned";
  let description = [{ - (C1) the input broadcasts to the result's shape and has its element type. }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def Colossal_SliceOp : Colossal_Op<"slice", [Colossal_InfersRange], ["buildLocal"], ["isOperandSaved"], ["getForwarding"], ["getKernelKind", "viewThrough"]> {
  let summary = "element i of dimension d is input element starts[d] + i * steps[d]";
  let description = [{
    Steps may be negative; sizes are the result's.

    - (C1) one start, one step and one size per dimension of the input; the result has its element type;
    - (C2) every element that is read lies in the input.
  }];
  let arguments = (ins AnyRankedTensor:$input, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$steps);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input $starts `by` $steps attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def Colossal_ConcatOp : Colossal_Op<"concat", [Colossal_InfersRange], [], ["isOperandSaved"]> {
  let summary = "tensors one after another along a dimension";
  let description = [{
    - (C1) at least one operand; `axis` is a dimension of the result;
    - (C2) operands have the result's shape, but along `axis`, where the result has their sum, and its element type.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, I64Attr:$axis);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$inputs attr-dict `:` functional-type($inputs, $result)";
}

def Colossal_PadMode : Colossal_Enum<"PadMode", "what stands outside", [
  I32EnumAttrCase<"Constant", 1, "constant">, I32EnumAttrCase<"Reflect", 2, "reflect">,
  I32EnumAttrCase<"Edge", 3, "edge">, I32EnumAttrCase<"Wrap", 4, "wrap">]>;
def Colossal_PadModeAttr : Colossal_EnumAttr<Colossal_PadMode, "pad_mode">;

def Colossal_PadOp : Colossal_Op<"pad", [], [], ["isOperandSaved"], [], ["getKernelKind", "getLowBorder"]> {
  let summary = "adds elements before (low) each dimension; those after follow from the result's shape";
  let description = [{
    Negative pads crop. `value` is what constant pads hold, 0 if absent.

    - (C1) one low pad and one size of the result per dimension of the input; one element type;
    - (C2) but for `constant`, a dimension that grows is not empty;
    - (C3) `value` is one element of the input's type.
  }];
  let arguments = (ins AnyRankedTensor:$input, Optional<AnyRankedTensor>:$value, DenseI64ArrayAttr:$low,
                       DefaultValuedAttr<Colossal_PadModeAttr, "PadMode::Constant">:$mode);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input (`value` $value^)? `low` $low attr-dict `:` type($input) (`,` type($value)^)? `->` type($result)
  }];
}
