// Reductions and scans.

def Colossal_ReduceKind : Colossal_Enum<"ReduceKind", "what a reduction computes", [
  I32EnumAttrCase<"Sum", 1, "sum">, I32EnumAttrCase<"Mean", 2, "mean">, I32EnumAttrCase<"Prod", 3, "prod">,
  I32EnumAttrCase<"Max", 4, "max">, I32EnumAttrCase<"Min", 5, "min">, I32EnumAttrCase<"SumSquare", 6, "sum_square">,
  I32EnumAttrCase<"L1", 7, "l1">, I32EnumAttrCase<"L2", 8, "l2">, I32EnumAttrCase<"LogSum", 9, "log_sum">,
  I32EnumAttrCase<"LogSumExp", 10, "log_sum_exp">]>;
def Colossal_ReduceKindAttr : Colossal_EnumAttr<Colossal_ReduceKind, "reduce_kind">;

def Colossal_ReduceOp : Colossal_Op<"reduce", [DeclareOpInterfaceMethods<RowEmissionOpInterface>], ["buildLocal", "getFlops"], ["isOperandSaved", "isResultSaved"], [],
                                    ["getKernelKind", "getRowSpace", "readsAtOwnIndex"]> {
  let summary = "reduction over dimensions";
  let description = [{
    Reduces `axes` (ascending, unique). The result has size 1 there if `keepdims`, otherwise lacks them. i1 reduces by
    `max` (any) and `min` (all). `mean` divides by the product of the *global* reduced sizes, `count` (so that a shard's
    partial means add up).

    - (C1) `axes` are ascending dimensions of the input;
    - (C2) the result's shape follows; its element type is the input's;
    - (C3) booleans reduce by `max` and `min` only.
  }];
  let arguments = (ins Colossal_ReduceKindAttr:$kind, AnyRankedTensor:$input, DenseI64ArrayAttr:$axes,
                       DefaultValuedAttr<BoolAttr, "false">:$keepdims, OptionalAttr<I64Attr>:$count);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$kind $input `over` $axes attr-dict `:` type($input) `->` type($result)";
}

def Colossal_ArgReduceOp : Colossal_Op<"arg_reduce", [Colossal_InfersRange], ["buildLocal"], [], ["isElementCostly"]> {
  let summary = "index of the greatest (or least) element along a dimension";
  let description = [{
    Ties go to the first, or to the last with `select_last`.

    - (C1) `axis` is a dimension of the input that is not empty;
    - (C2) the result is of integers; it has size 1 along `axis` if `keepdims`, otherwise lacks it.
  }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$axis, BoolAttr:$minimum, BoolAttr:$keepdims, BoolAttr:$select_last);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def Colossal_CumulateOp : Colossal_Op<"cumulate",
                                      [Colossal_InfersRange, AllTypesMatch<["input", "result"]>, DeclareOpInterfaceMethods<TileEmissionOpInterface>],
                                      [], [], [], ["getKernelKind"]> {
  let summary = "running sum or product along a dimension";
  let description = [{ - (C1) `axis` is a dimension of the input; no booleans. }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$axis, BoolAttr:$exclusive, BoolAttr:$reverse,
                       DefaultValuedAttr<BoolAttr, "false">:$product);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Colossal_TopKOp : Colossal_Op<"topk", [Colossal_InfersRange, DeclareOpInterfaceMethods<TileEmissionOpInterface>],
                                  ["buildLocal"], [], [], ["getKernelKind"]> {
  let summary = "the k greatest (or least) elements along a dimension, and their indices (i64)";
  let description = [{
    Sorted; ties go to the lower index. k is the results' size along `axis`.

    - (C1) `axis` is a dimension of the input, which has at least k elements there;
    - (C2) results have the input's shape, but k along `axis`; values its element type, indices integers.
  }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$axis, BoolAttr:$largest);
  let results = (outs AnyRankedTensor:$values, AnyRankedTensor:$indices);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($values) `,` type($indices)";
}
