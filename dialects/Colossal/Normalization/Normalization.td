// Normalizations over trailing dimensions, and softmax.

def Colossal_NormalizeKind : Colossal_Enum<"NormalizeKind", "what is divided out", [
  I32EnumAttrCase<"Layer", 1, "layer">, I32EnumAttrCase<"RMS", 2, "rms">]>;
def Colossal_NormalizeKindAttr : Colossal_EnumAttr<Colossal_NormalizeKind, "normalize_kind">;

def Colossal_NormalizeOp : Colossal_Op<"normalize", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<RowEmissionOpInterface>], ["buildLocal", "getFlops"], [], [],
                                       ["getKernelKind", "getRowSpace", "readsAtOwnIndex"]> {
  let summary = "layer or RMS normalization over dimensions [axis, rank)";
  let description = [{
    layer: (x - mean) / sqrt(variance + epsilon) * scale + bias; rms: x / sqrt(mean(x^2) + epsilon) * scale + bias.
    `scale` and `bias` broadcast right-aligned to x. Statistics are in f32 (f64 for f64). Group and instance
    normalization are this op on a reshaped tensor.

    - (C1) floats; `axis` is a dimension of the input, and the result has its type;
    - (C2) scale and bias broadcast to the input's shape.
  }];
  let arguments = (ins Colossal_NormalizeKindAttr:$kind, AnyRankedTensor:$input, Optional<AnyRankedTensor>:$scale,
                       Optional<AnyRankedTensor>:$bias, I64Attr:$axis, F64Attr:$epsilon);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $kind `(` $input `` custom<ScaleAndBias>($scale, $bias) `)` attr-dict `:` functional-type(operands, results)
  }];
}

def Colossal_SoftmaxOp : Colossal_Op<"softmax",
                                     [AllTypesMatch<["input", "result"]>, DeclareOpInterfaceMethods<RowEmissionOpInterface, ["keepsElements"]>],
                                     ["buildLocal", "getFlops"],
                                     ["isOperandSaved", "isResultSaved"], [],
                                     ["getKernelKind", "getRowSpace", "readsAtOwnIndex"]> {
  let summary = "softmax, or its logarithm, along one dimension";
  let description = [{
    `guard`: a row that is -inf everywhere gives 0 instead of NaN.

    - (C1) floats; `axis` is a dimension of the input;
    - (C2) no `guard` with `log`: the logarithm of such a row would be -inf, which no model asks for.
  }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "false">:$log,
                       DefaultValuedAttr<BoolAttr, "false">:$guard);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}
