// Ops that move elements and compute nothing.

def Colossal_ReshapeOp : Colossal_Op<"reshape", [], ["getFlops"], ["isOperandSaved"]> {
  let summary = "the same elements, row-major, under another shape";
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def Colossal_TransposeOp : Colossal_Op<"transpose", [], [], ["isOperandSaved"]> {
  let summary = "dimension i of the result is dimension permutation[i] of the input";
  let arguments = (ins AnyRankedTensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input $permutation attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def Colossal_BroadcastOp : Colossal_Op<"broadcast", [], [], ["isOperandSaved"]> {
  let summary = "stretches dimensions of size 1, and adds leading ones, right-aligned";
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def Colossal_SliceOp : Colossal_Op<"slice", [], ["buildLocal"], ["isOperandSaved"]> {
  let summary = "element i of dimension d is input element starts[d] + i * steps[d]";
  let description = [{ One start and one step (which may be negative) per dimension; sizes are the result's. }];
  let arguments = (ins AnyRankedTensor:$input, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$steps);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input $starts `by` $steps attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def Colossal_ConcatOp : Colossal_Op<"concat", [], [], ["isOperandSaved"]> {
  let summary = "tensors one after another along a dimension";
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, I64Attr:$axis);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$inputs attr-dict `:` functional-type($inputs, $result)";
}

def Colossal_PadMode : Colossal_Enum<"PadMode", "what stands outside", [
  I32EnumAttrCase<"Constant", 1, "constant">, I32EnumAttrCase<"Reflect", 2, "reflect">,
  I32EnumAttrCase<"Edge", 3, "edge">, I32EnumAttrCase<"Wrap", 4, "wrap">]>;
def Colossal_PadModeAttr : Colossal_EnumAttr<Colossal_PadMode, "pad_mode">;

def Colossal_PadOp : Colossal_Op<"pad", [], [], ["isOperandSaved"]> {
  let summary = "adds elements before (low) each dimension; those after follow from the result's shape";
  let description = [{ Negative pads crop. `value` (a tensor of one element) is what constant pads hold, 0 if absent. }];
  let arguments = (ins AnyRankedTensor:$input, Optional<AnyRankedTensor>:$value, DenseI64ArrayAttr:$low,
                       DefaultValuedAttr<Colossal_PadModeAttr, "PadMode::Constant">:$mode);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input (`value` $value^)? `low` $low attr-dict `:` type($input) (`,` type($value)^)? `->` type($result)
  }];
}
