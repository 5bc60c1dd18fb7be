// Elementwise ops: one op, many kinds.


def Colossal_ElementwiseKind : Colossal_Enum<"ElementwiseKind", "what an elementwise op computes", [
  // unary
  I32EnumAttrCase<"Abs", 1, "abs">, I32EnumAttrCase<"Neg", 2, "neg">, I32EnumAttrCase<"Reciprocal", 3, "reciprocal">,
  I32EnumAttrCase<"Sqrt", 4, "sqrt">, I32EnumAttrCase<"Exp", 5, "exp">, I32EnumAttrCase<"Log", 6, "log">,
  I32EnumAttrCase<"Erf", 7, "erf">, I32EnumAttrCase<"Sin", 8, "sin">, I32EnumAttrCase<"Cos", 9, "cos">,
  I32EnumAttrCase<"Tan", 10, "tan">, I32EnumAttrCase<"Asin", 11, "asin">, I32EnumAttrCase<"Acos", 12, "acos">,
  I32EnumAttrCase<"Atan", 13, "atan">, I32EnumAttrCase<"Sinh", 14, "sinh">, I32EnumAttrCase<"Cosh", 15, "cosh">,
  I32EnumAttrCase<"Tanh", 16, "tanh">, I32EnumAttrCase<"Asinh", 17, "asinh">, I32EnumAttrCase<"Acosh", 18, "acosh">,
  I32EnumAttrCase<"Atanh", 19, "atanh">, I32EnumAttrCase<"Ceil", 20, "ceil">, I32EnumAttrCase<"Floor", 21, "floor">,
  I32EnumAttrCase<"Round", 22, "round">, I32EnumAttrCase<"Sign", 23, "sign">, I32EnumAttrCase<"Relu", 24, "relu">,
  I32EnumAttrCase<"LeakyRelu", 25, "leaky_relu">, I32EnumAttrCase<"Elu", 26, "elu">, I32EnumAttrCase<"Selu", 27, "selu">,
  I32EnumAttrCase<"Celu", 28, "celu">, I32EnumAttrCase<"Sigmoid", 29, "sigmoid">,
  I32EnumAttrCase<"HardSigmoid", 30, "hard_sigmoid">, I32EnumAttrCase<"HardSwish", 31, "hard_swish">,
  I32EnumAttrCase<"Softplus", 32, "softplus">, I32EnumAttrCase<"Softsign", 33, "softsign">,
  I32EnumAttrCase<"ThresholdedRelu", 34, "thresholded_relu">, I32EnumAttrCase<"Gelu", 35, "gelu">,
  I32EnumAttrCase<"GeluTanh", 36, "gelu_tanh">, I32EnumAttrCase<"Swish", 37, "swish">, I32EnumAttrCase<"Mish", 38, "mish">,
  I32EnumAttrCase<"Shrink", 39, "shrink">, I32EnumAttrCase<"Not", 40, "not">, I32EnumAttrCase<"IsNaN", 41, "is_nan">,
  I32EnumAttrCase<"IsInf", 42, "is_inf">, I32EnumAttrCase<"BitNot", 43, "bit_not">, I32EnumAttrCase<"Cast", 44, "cast">,
  I32EnumAttrCase<"Bitcast", 45, "bitcast">,
  // binary
  I32EnumAttrCase<"Add", 60, "add">, I32EnumAttrCase<"Sub", 61, "sub">, I32EnumAttrCase<"Mul", 62, "mul">,
  I32EnumAttrCase<"Div", 63, "div">, I32EnumAttrCase<"Pow", 64, "pow">, I32EnumAttrCase<"Mod", 65, "mod">,
  I32EnumAttrCase<"Fmod", 66, "fmod">, I32EnumAttrCase<"Max", 67, "max">, I32EnumAttrCase<"Min", 68, "min">,
  I32EnumAttrCase<"And", 69, "and">, I32EnumAttrCase<"Or", 70, "or">, I32EnumAttrCase<"Xor", 71, "xor">,
  I32EnumAttrCase<"Equal", 72, "equal">, I32EnumAttrCase<"Less", 73, "less">,
  I32EnumAttrCase<"LessOrEqual", 74, "less_or_equal">, I32EnumAttrCase<"Greater", 75, "greater">,
  I32EnumAttrCase<"GreaterOrEqual", 76, "greater_or_equal">, I32EnumAttrCase<"PRelu", 77, "prelu">,
  I32EnumAttrCase<"BitAnd", 78, "bit_and">, I32EnumAttrCase<"BitOr", 79, "bit_or">, I32EnumAttrCase<"BitXor", 80, "bit_xor">,
  I32EnumAttrCase<"ShiftLeft", 81, "shift_left">, I32EnumAttrCase<"ShiftRight", 82, "shift_right">,
  // ternary
  I32EnumAttrCase<"Select", 90, "select">, I32EnumAttrCase<"Clip", 91, "clip">]>;
def Colossal_ElementwiseKindAttr : Colossal_EnumAttr<Colossal_ElementwiseKind, "elementwise_kind">;

def Colossal_ElementwiseOp : Colossal_Op<"elementwise", [Colossal_InfersRange], [], ["isOperandSaved", "isResultSaved"], ["getForwarding"],
                                         ["getKernelName", "readsAtOwnIndex", "getElementCost", "isElementFree"]> {
  let summary = "one function of the elements at the same place";
  let description = [{
    Operands broadcast as in NumPy: right-aligned, dimensions of size 1 stretch. The semantics of a kind are those of the
    ONNX operator of the same name; integer division truncates, `mod` has the sign of the divisor and `fmod` of the
    dividend, `round` rounds half to even, `select` takes (condition, then, else), `clip` (x, low, high). `params` holds
    the numeric attributes of the operator in ONNX's order (leaky_relu: alpha; elu, celu, thresholded_relu, swish: alpha;
    selu: alpha, gamma; hard_sigmoid: alpha, beta; shrink: lambd, bias; is_inf: detect_negative, detect_positive; cast to a
    narrow float: saturate, and for f8E8M0FNU whether to round up (0), down (1) or to nearest (2)). `bitcast` sees the
    bits of each element as another type of the same width, where i1 counts as a byte.

    - (C1) operands broadcast to the result's shape;
    - (C2) the number of operands is the kind's; of a binary kind more than two are combined from left to right;
    - (C3) element types fit the kind: (data) operands have one type (`pow`: each its own) that the kind has a meaning
      for; comparisons give i1, `cast` any type but strings, which it does not take either, `bitcast` one of the same
      width, others that of their operands; `select` and `equal` take all types, but `equal` no narrow floats;
    - (C4) no more `params` than the kind has.

    Example: `%y = colossal.elementwise add(%a, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>`
  }];
  let arguments = (ins Colossal_ElementwiseKindAttr:$kind, Variadic<AnyRankedTensor>:$inputs,
                       OptionalAttr<DenseF64ArrayAttr>:$params);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$kind `(` $inputs `)` attr-dict `:` functional-type($inputs, $result)";
}

def Colossal_FormulaStepAttr : AttrDef<Colossal_Dialect, "FormulaStep"> {
  let summary = "one function of elements within a formula";
  let description = [{
    What `colossal.elementwise` of that kind, without `params`, makes of the values with the numbers `operands`; its elements
    are of type `element`. Example: `#colossal.step<mul [0, 4] : f32>`
  }];
  let mnemonic = "step";
  let parameters = (ins EnumParameter<Colossal_ElementwiseKind>:$kind, ArrayRefParameter<"int64_t">:$operands, "::mlir::Type":$element);
  let assemblyFormat = "`<` $kind `[` $operands `]` `:` $element `>`";
}

def Colossal_FormulaOp : Colossal_Op<"formula", [], ["getFlops", "isHeavy"], [], [], ["readsAtOwnIndex", "getElementCost"]> {
  let summary = "several functions of the elements at the same place";
  let description = [{
    What a sequence of `colossal.elementwise` gives, as one op: values are numbered, operands first, then what each of `steps`
    makes of values before it; `gives` numbers the results. Where a model repeats a sequence very often, as a training step does the
    update of its parameters, this is one op for each that has to be laid out, split, checked and lowered, and one attribute for all.

    - (C1) there is a result, and all have one shape;
    - (C2) operands broadcast to it;
    - (C3) each step takes values before it, as many and of such element types as its kind does, and gives elements of the type
      that the kind gives; `gives` has a value for each result, of its element type.

    Example: `%y, %z = colossal.formula(%a, %b) {gives = array<i64: 2, 3>, steps = [#colossal.step<add [0, 1] : f32>,
    #colossal.step<mul [2, 0] : f32>]} : (tensor<4x8xf32>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)`
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, TypedArrayAttrBase<Colossal_FormulaStepAttr, "steps of a formula">:$steps,
                       DenseI64ArrayAttr:$gives);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = "`(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)";
}
