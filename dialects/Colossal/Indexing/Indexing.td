// Reads and writes at computed places.

def Colossal_ScatterReduction : Colossal_Enum<"ScatterReduction", "how a scattered update combines", [
  I32EnumAttrCase<"None", 1, "none">, I32EnumAttrCase<"Add", 2, "add">, I32EnumAttrCase<"Mul", 3, "mul">,
  I32EnumAttrCase<"Max", 4, "max">, I32EnumAttrCase<"Min", 5, "min">]>;
def Colossal_ScatterReductionAttr : Colossal_EnumAttr<Colossal_ScatterReduction, "scatter_reduction">;

def Colossal_GatherOp : Colossal_Op<"gather", [Colossal_InfersRange, Colossal_Indexes], ["buildLocal"], ["isOperandSaved"], [], ["readsFromMemory"]> {
  let summary = "slices of a dimension chosen by indices";
  let description = [{
    result[a.., i.., b..] = data[a.., indices[i..], b..] with a before `axis` and b after it. Negative indices count from
    the end of the *global* dimension, `extent` elements (data's own if absent). With `offset`, data holds elements
    [offset, offset + size) of the global dimension; an index outside gives 0, so that shards add up.

    - (C1) `axis` is a dimension of data, indices are integers;
    - (C2) the result's shape is as above, its element type the data's.
  }];
  let arguments = (ins AnyRankedTensor:$data, AnyRankedTensor:$indices, Optional<Index>:$offset, I64Attr:$axis,
                       OptionalAttr<I64Attr>:$extent);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $data `[` $indices `]` (`offset` $offset^)? attr-dict `:` type($data) `,` type($indices) `->` type($result)
  }];
}

def Colossal_GatherElementsOp : Colossal_Op<"gather_elements", [Colossal_InfersRange, Colossal_Indexes], [], [], [], ["readsFromMemory"]> {
  let summary = "result[i0.., in] = data[.., indices[i0.., in] at axis, ..]";
  let description = [{
    Negative indices count from the end.

    - (C1) `axis` is a dimension of data; indices are integers, of the data's rank;
    - (C2) the result has the indices' shape and the data's element type;
    - (C3) but along `axis`, indices are no larger than data.
  }];
  let arguments = (ins AnyRankedTensor:$data, AnyRankedTensor:$indices, I64Attr:$axis);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$data `[` $indices `]` attr-dict `:` type($data) `,` type($indices) `->` type($result)";
}

def Colossal_GatherNDOp : Colossal_Op<"gather_nd", [Colossal_InfersRange, Colossal_Indexes], [], [], [], ["readsFromMemory"]> {
  let summary = "slices chosen by tuples of indices (ONNX GatherND)";
  let description = [{
    The last dimension of indices holds tuples that index the dimensions of data after the first `batch_dims`; negative
    indices count from the end.

    - (C1) indices are integers; their first `batch_dims` dimensions, fewer than their rank, are the data's, and a tuple is
      no longer than what data has left;
    - (C2) the result has the indices' shape without the tuples, then the data's dimensions that no index takes, and the
      data's element type.
  }];
  let arguments = (ins AnyRankedTensor:$data, AnyRankedTensor:$indices, I64Attr:$batch_dims);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$data `[` $indices `]` attr-dict `:` type($data) `,` type($indices) `->` type($result)";
}

def Colossal_ScatterElementsOp : Colossal_Op<"scatter_elements",
                                             [Colossal_Indexes, DeclareOpInterfaceMethods<TileEmissionOpInterface, ["updatesFirstOperand"]>], [],
                                             [], [], ["getKernelKind"]> {
  let summary = "data with elements replaced (ONNX ScatterElements)";
  let description = [{
    Where several updates meet, they combine by `reduction`, together with the element of data; without one, the last wins.

    - (C1) `axis` is a dimension of data; indices are integers, of the data's rank; updates have the indices' shape;
    - (C2) data, updates and result have one element type; the result has the data's shape;
    - (C3) but along `axis`, indices are no larger than data.
  }];
  let arguments = (ins AnyRankedTensor:$data, AnyRankedTensor:$indices, AnyRankedTensor:$updates, I64Attr:$axis,
                       Colossal_ScatterReductionAttr:$reduction);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $reduction $data `[` $indices `]` `,` $updates attr-dict
    `:` type($data) `,` type($indices) `,` type($updates) `->` type($result)
  }];
}

def Colossal_ScatterNDOp : Colossal_Op<"scatter_nd",
                                       [Colossal_Indexes, DeclareOpInterfaceMethods<TileEmissionOpInterface, ["updatesFirstOperand"]>], [], [],
                                       [], ["getKernelKind"]> {
  let summary = "data with slices replaced (ONNX ScatterND)";
  let description = [{
    Where several updates meet, they combine by `reduction`, together with the element of data; without one, the last wins.

    - (C1) indices are integers, their tuples no longer than the data's rank; updates have the indices' shape without the
      tuples, then the data's dimensions that no index takes;
    - (C2) data, updates and result have one element type; the result has the data's shape.
  }];
  let arguments = (ins AnyRankedTensor:$data, AnyRankedTensor:$indices, AnyRankedTensor:$updates,
                       Colossal_ScatterReductionAttr:$reduction);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $reduction $data `[` $indices `]` `,` $updates attr-dict
    `:` type($data) `,` type($indices) `,` type($updates) `->` type($result)
  }];
}

def Colossal_SegmentSumOp : Colossal_Op<"segment_sum", [DeclareOpInterfaceMethods<TileEmissionOpInterface, ["canAddToResult"]>],
                                        ["buildLocal", "getFlops"], [], [], ["getKernelKind"]> {
  let summary = "sums of slices with equal indices: the transpose of gather";
  let description = [{
    result[a.., s, b..] is the sum of updates[a.., i.., b..] over all i with indices[i..] = s, with a before `axis` and b after
    the indices. Where no index points, it is 0. Indices outside of [0, size) add nothing.

    - (C1) indices are signed integers; `axis` is a dimension of the result;
    - (C2) the updates' shape is as above, their element type the result's.
  }];
  let arguments = (ins AnyRankedTensor:$updates, AnyRankedTensor:$indices, I64Attr:$axis);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$updates `by` $indices attr-dict `:` type($updates) `,` type($indices) `->` type($result)";
}
