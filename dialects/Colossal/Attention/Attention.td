// Attention and rotary embedding.

def Colossal_AttentionOp : Colossal_Op<"attention", [AttrSizedOperandSegments], ["buildLocal", "getFlops"],
                                       ["getGradientFlops", "isResultSaved"], [], ["getKernelKind"]> {
  let summary = "scaled dot-product attention";
  let description = [{
    query B x Hq x Sq x D, key B x Hk x Sk x D, value B x Hk x Sk x Dv, result B x Hq x Sq x Dv; Hq is a multiple of Hk and
    query head h reads key head h / (Hq / Hk). scores = scale * q k^T, softcap (c * tanh(s / c)) if not 0, plus `mask`,
    which broadcasts right-aligned to B x Hq x Sq x Sk (float: added; i1: false means -inf). With `causal`, query i sees
    keys j <= i + causal_offset + query_offset. A row with no visible key gives 0 with `guard`, otherwise what softmax of
    equal scores gives (NaN if all are -inf).

    `query_offset` (index) is the global index of the first local query; `key_count` (index), how many keys are real.

    `statistics`, where asked for, is the logarithm of each row's sum of exponentials, B x Hq x Sq x 1 (-inf where no key is
    visible): with it, results over parts of the keys join to the result over all (Dao et al., FlashAttention, 2022), and a
    backward pass computes the weights again.

    - (C1) query, key, value and result have rank 4 and one float element type;
    - (C2) shapes are as above, Hq a multiple of Hk;
    - (C3) the mask is of floats or i1 and broadcasts to B x Hq x Sq x Sk;
    - (C4) the statistics are f64 where the query is, and f32 otherwise.
  }];
  let arguments = (ins AnyRankedTensor:$query, AnyRankedTensor:$key, AnyRankedTensor:$value,
                       Optional<AnyRankedTensor>:$mask, Optional<Index>:$query_offset, Optional<Index>:$key_count,
                       F64Attr:$scale, DefaultValuedAttr<BoolAttr, "false">:$causal,
                       DefaultValuedAttr<I64Attr, "0">:$causal_offset, DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                       DefaultValuedAttr<BoolAttr, "false">:$guard);
  let results = (outs AnyRankedTensor:$result, Optional<AnyRankedTensor>:$statistics);
  let assemblyFormat = [{
    `(` $query `,` $key `,` $value (`,` `mask` $mask^)? (`query_offset` $query_offset^)?
    (`key_count` $key_count^)? `)` attr-dict
    `:` `(` type($query) `,` type($key) `,` type($value) (`,` type($mask)^)? `)` `->` type($result)
    (`,` type($statistics)^)?
  }];
}

def Colossal_AttentionGradientOp : Colossal_Op<"attention_gradient", [AttrSizedOperandSegments], ["buildLocal", "getFlops"],
                                               [], [], ["getKernelKind"]> {
  let summary = "gradients of attention";
  let description = [{
    Given `gradient`, that of `output`, which `colossal.attention` gives for these operands and attributes: the gradients of
    query, key and value, of their types. The scores are made again: with s = scale * q k^T and what softcap and mask make of it,
    w = softmax(s), dv = w^T dy, dw = dy v^T, ds = w (dw - sums of rows of dy y), dq = scale * ds k, dk = scale * ds^T q
    (Dao et al., FlashAttention, 2022, appendix B). Keys and values have gradients that are partial sums where queries are split.

    No target has a kernel for it: each rank makes it of ordinary ops, `rows` queries of each head at a time, so that B x Hq x
    rows x Sk scores exist at once and not B x Hq x Sq x Sk; under `causal`, of keys that these queries see alone, where that is
    known ahead. `rows` 0: as many as getPartRows says.

    - (C1) as of attention; the gradient has the output's type, and each result that of its operand;
    - (C2) `rows` is not negative.
  }];
  let arguments = (ins AnyRankedTensor:$query, AnyRankedTensor:$key, AnyRankedTensor:$value, AnyRankedTensor:$output,
                       AnyRankedTensor:$gradient, Optional<AnyRankedTensor>:$mask, Optional<Index>:$query_offset, F64Attr:$scale,
                       DefaultValuedAttr<BoolAttr, "false">:$causal, DefaultValuedAttr<I64Attr, "0">:$causal_offset,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap, DefaultValuedAttr<BoolAttr, "false">:$guard,
                       DefaultValuedAttr<I64Attr, "0">:$rows);
  let results = (outs AnyRankedTensor:$query_gradient, AnyRankedTensor:$key_gradient, AnyRankedTensor:$value_gradient);
  let assemblyFormat = [{
    `(` $query `,` $key `,` $value `,` $output `,` $gradient (`,` `mask` $mask^)? (`query_offset` $query_offset^)? `)` attr-dict
    `:` `(` type($query) `,` type($key) `,` type($value) `,` type($output) `,` type($gradient) (`,` type($mask)^)? `)`
    `->` type($query_gradient) `,` type($key_gradient) `,` type($value_gradient)
  }];
  let extraClassDeclaration = [{
    /// Queries of each head that are worked on at a time, of `queries` on this rank that have `scores` with their keys in all
    /// heads together.
    int64_t getPartRows(int64_t queries, double scores);
  }];
}

def Colossal_RotaryOp : Colossal_Op<"rotary", [], [], ["getGradientFlops", "isOperandSaved"]> {
  let summary = "rotary position embedding";
  let description = [{
    input ... x S x D. cos and sin broadcast right-aligned to ... x S x (R / 2), R <= D even; only the first R elements turn.
    Pairs are (i, i + R / 2), or (2i, 2i + 1) if `interleaved`: (a, b) -> (a cos - b sin, b cos + a sin).

    - (C1) floats; the result has the input's type;
    - (C2) cos and sin are equally wide, at most half as wide as the input, and broadcast to ... x S x (R / 2).
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$cos, AnyRankedTensor:$sin,
                       DefaultValuedAttr<BoolAttr, "false">:$interleaved);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    `(` $input `,` $cos `,` $sin `)` attr-dict `:` `(` type($input) `,` type($cos) `,` type($sin) `)` `->` type($result)
  }];
}
