// Tensors that come from nowhere: parameters, constants, ranges, random values.

def Colossal_ParameterOp : Colossal_Op<"parameter", [], ["buildLocal", "getFlops"], [], [], ["getKernelKind"]> {
  let summary = "a tensor named by the model";
  let description = [{
    `name` is the initializer's name in the model. Its bytes lie at `offset` of `file` (a path as the model gives it; empty
    for the model's own file), little-endian and dense, `bytes` of them; or, where the file's encoding is not that,
    in `data`. Several names may share one parameter (`aliases`).

    - (C1) `offset` and `bytes` are not negative.
  }];
  let arguments = (ins StrAttr:$name, StrAttr:$file, I64Attr:$offset, I64Attr:$bytes,
                       OptionalAttr<ElementsAttr>:$data, OptionalAttr<StrArrayAttr>:$aliases);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Colossal_ConstantOp : Colossal_Op<"constant", [Colossal_InfersRange, ConstantLike], ["buildLocal", "getFlops"], [], [],
                                      ["getKernelKind", "getElementCost"]> {
  let summary = "a small tensor known at compile time";
  let description = [{ - (C1) `value` has the result's type. }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict $value `:` type($result)";
  let hasFolder = 1;
}

def Colossal_IotaOp : Colossal_Op<"iota", [Colossal_InfersRange], ["buildLocal"], [], [], ["getElementCost", "isElementFree"]> {
  let summary = "start + step * index along one dimension";
  let description = [{
    `offset` is added to the index (the first local element's global index).

    - (C1) `axis` is a dimension of the result; no booleans.
  }];
  let arguments = (ins Optional<Index>:$offset, I64Attr:$axis, F64Attr:$start, F64Attr:$step);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "(`offset` $offset^)? attr-dict `:` type($result)";
}

def Colossal_RandomKind : Colossal_Enum<"RandomKind", "distribution", [
  I32EnumAttrCase<"Uniform", 1, "uniform">, I32EnumAttrCase<"Normal", 2, "normal">,
  I32EnumAttrCase<"Bernoulli", 3, "bernoulli">]>;
def Colossal_RandomKindAttr : Colossal_EnumAttr<Colossal_RandomKind, "random_kind">;

def Colossal_RandomOp : Colossal_Op<"random", [AttrSizedOperandSegments], ["buildLocal"], [], [], ["getElementCost"]> {
  let summary = "random values that depend on seed, step, op and global element index only";
  let description = [{
    uniform in [a, b), normal with mean a and deviation b, bernoulli with the probabilities in `input`. `extents` is the
    global shape and `offsets` the global index of the first local element (absent: 0).

    Element e, counted in row-major order over `extents`, is made of the four words that Philox4x32-10 (Salmon et al., Parallel Random
    Numbers: As Easy as 1, 2, 3, 2011) gives for the key K and the counter (e, S), all of 64 bits, low words first. `stream` holds K and
    S, the step; without it K is `seed` and S is 0. The first two words, as one of 64 bits shifted right by 12, times 2^-52, are u in [0, 1):
    uniform is a + (b - a) u, bernoulli u < p; with v, the same of the last two, normal is a + b sqrt(-2 ln(1 - u)) cos(2 pi v).

    - (C1) one extent per dimension, and one offset where there are any;
    - (C2) `input` is given for `bernoulli` and for nothing else: floats, of the result's shape;
    - (C3) `stream` is a tensor<2xi64>.
  }];
  let arguments = (ins Colossal_RandomKindAttr:$kind, Optional<AnyRankedTensor>:$input, Optional<AnyRankedTensor>:$stream,
                       Variadic<Index>:$offsets, F64Attr:$a, F64Attr:$b, I64Attr:$seed, DenseI64ArrayAttr:$extents);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $kind (`(` $input^ `:` type($input) `)`)? (`stream` $stream^ `:` type($stream))? (`offsets` $offsets^)? attr-dict `:` type($result)
  }];
}

def Colossal_DropoutOp : Colossal_Op<"dropout", [AttrSizedOperandSegments, AllTypesMatch<["input", "result"]>], ["buildLocal"],
                                     ["isOperandSaved"], [], ["readsAtOwnIndex", "getElementCost"]> {
  let summary = "elements kept by chance and scaled, others 0";
  let description = [{
    input / (1 - ratio) where the element is kept, which it is with the probability 1 - ratio, else 0. `extents`, `offsets`, `stream`
    and `seed` are those of `random`; an element is kept where the first word that Philox gives for it is below
    (1 - ratio) 2^32, rounded to the nearest integer. The gradient is the same op with the same mask, which so is never stored.

    - (C1) floats;
    - (C2) one extent per dimension, and one offset where there are any;
    - (C3) `stream` is a tensor<2xi64>;
    - (C4) 0 <= ratio <= 1.
  }];
  let arguments = (ins AnyRankedTensor:$input, Optional<AnyRankedTensor>:$stream, Variadic<Index>:$offsets, F64Attr:$ratio,
                       I64Attr:$seed, DenseI64ArrayAttr:$extents);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input (`stream` $stream^ `:` type($stream))? (`offsets` $offsets^)? attr-dict `:` type($input)
  }];
}
