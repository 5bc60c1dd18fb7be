// Normalizations over trailing dimensions, and softmax.

def Colossal_NormalizeKind : Colossal_Enum<"NormalizeKind", "what is divided out", [
  I32EnumAttrCase<"Layer", 1, "layer">, I32EnumAttrCase<"RMS", 2, "rms">]>;
def Colossal_NormalizeKindAttr : Colossal_EnumAttr<Colossal_NormalizeKind, "normalize_kind">;

def Colossal_NormalizeOp : Colossal_Op<"normalize", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<RowEmissionOpInterface>], ["buildLocal", "getFlops"], ["isOperandSaved"], [],
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

def Colossal_BatchNormalizeOp : Op<Colossal_Dialect, "batch_normalize", [Pure]> {
  let summary = "a batch normalization that training is to find its statistics for";
  let description = [{
    (input - m) / sqrt(v + epsilon) * scale + bias for each channel, dimension 1 of the input. In a training step m and v are
    mean and variance of the batch, or of the part of it that a rank has in a microbatch, and `updated_mean` and
    `updated_variance` are `mean` and `variance`, the running ones, times `momentum`, plus those of the batch times the rest;
    in an evaluation they are the running ones, which stay as they are.

    Import makes it of models that are to be trained, and the phase `differentiate` replaces it in both functions by other ops of the
    dialect, as it is there that these differ: it has no layout, no gradient and no code of its own.

    - (C1) floats; the input has two dimensions or more, and the result its type;
    - (C2) the others have one dimension, of an element for each channel; the updated ones have the types of `mean` and `variance`.

    Example: `%y, %m, %v = colossal.batch_normalize %x, %scale, %bias, %mean, %variance {epsilon = 1e-5 : f64, momentum = 0.9 : f64} :
    tensor<8x4x5x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<8x4x5x5xf32>, tensor<4xf32>, tensor<4xf32>`
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$scale, AnyRankedTensor:$bias, AnyRankedTensor:$mean,
                       AnyRankedTensor:$variance, F64Attr:$epsilon, F64Attr:$momentum);
  let results = (outs AnyRankedTensor:$result, AnyRankedTensor:$updated_mean, AnyRankedTensor:$updated_variance);
  let assemblyFormat = "operands attr-dict `:` type(operands) `->` type(results)";
  let hasVerifier = 1;
}
