// Windows over spatial dimensions, and resampling.

def Colossal_PoolKind : Colossal_Enum<"PoolKind", "what a window gives", [
  I32EnumAttrCase<"Max", 1, "max">, I32EnumAttrCase<"Average", 2, "average">, I32EnumAttrCase<"Lp", 3, "lp">]>;
def Colossal_PoolKindAttr : Colossal_EnumAttr<Colossal_PoolKind, "pool_kind">;

def Colossal_PoolOp : Colossal_Op<"pool", [], ["buildLocal", "getFlops"], ["isOperandSaved"], ["isElementCostly"]> {
  let summary = "max, average or Lp pooling";
  let description = [{
    input N x C x spatial. `pads`: low pads of the spatial dimensions, then high ones (high pads bound what counts as
    included padding). Average divides by the window's elements inside the input, or inside the padded input with
    `count_include_pad`. A second result (max only) has the flat index (i64) of each maximum in the whole input,
    row-major, or column-major over the spatial dimensions with `column_major`.

    - (C1) at least one spatial dimension; kernel, strides, dilations: one per spatial dimension, positive; pads: two;
    - (C2) the result has the input's batch and channels;
    - (C3) indices: of `max` only, integers, of the result's shape;
    - (C4) one element type, of floats but for `max`.
  }];
  let arguments = (ins Colossal_PoolKindAttr:$kind, AnyRankedTensor:$input, DenseI64ArrayAttr:$kernel,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads,
                       DefaultValuedAttr<BoolAttr, "false">:$count_include_pad, DefaultValuedAttr<I64Attr, "2">:$p,
                       DefaultValuedAttr<BoolAttr, "false">:$column_major);
  let results = (outs AnyRankedTensor:$result, Optional<AnyRankedTensor>:$indices);
  let assemblyFormat = "$kind $input attr-dict `:` type($input) `->` type(results)";
}

def Colossal_PoolTapsOp : Colossal_Op<"pool_taps", [], ["getFlops"], [], ["isElementCostly"]> {
  let summary = "which element of each window of a max pool is the greatest";
  let description = [{
    The number, row-major in `kernel`, of the greatest element of each window of `pool max` with the same attributes: of equal
    ones the first; NaN is greater than all numbers, and of several the last counts. -1 for a window that lies outside.

    - (C1) at least one spatial dimension; kernel, strides, dilations: one per spatial dimension, positive; pads: two;
    - (C2) the result has the input's batch and channels and is of integers, the input of floats.
  }];
  let arguments = (ins AnyRankedTensor:$input, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def Colossal_PoolGradientOp : Colossal_Op<"pool_gradient", [], ["getFlops"], [], ["isElementCostly"]> {
  let summary = "the gradient of a pool's input";
  let description = [{
    For each window of `pool` with the same attributes, the `gradient` of its result: for `max` where the element lies that
    `taps` says (pool_taps), for `average` divided over the elements that the average counts.

    - (C1) `kind` is max, with taps, or average, without;
    - (C2) kernel, strides, dilations: one per spatial dimension, positive; pads: two;
    - (C3) gradient and result have one batch, channels, rank and element type, of floats; taps are integers of the gradient's shape.
  }];
  let arguments = (ins Colossal_PoolKindAttr:$kind, AnyRankedTensor:$gradient, Optional<AnyRankedTensor>:$taps,
                       DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations,
                       DenseI64ArrayAttr:$pads, DefaultValuedAttr<BoolAttr, "false">:$count_include_pad);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$kind $gradient (`at` $taps^)? attr-dict `:` type($gradient) (`,` type($taps)^)? `->` type($result)";
}

def Colossal_ResizeOp : Colossal_Op<"resize", [], [], [], ["isElementCostly"]> {
  let summary = "resampling (ONNX Resize)";
  let description = [{
    Modes and coordinate transformations have ONNX's names. `scales` (one per dimension) are those of the operator; `roi` is
    given for `tf_crop_and_resize` (starts, then ends).

    - (C1) a positive scale per dimension of the input, two entries of `roi` and a size of the result; one element type;
    - (C2) `mode` is nearest, linear or cubic; `coordinates` and `nearest` are names that ONNX knows.
  }];
  let arguments = (ins AnyRankedTensor:$input, StrAttr:$mode, StrAttr:$coordinates, StrAttr:$nearest,
                       DenseF64ArrayAttr:$scales, OptionalAttr<DenseF64ArrayAttr>:$roi, F64Attr:$cubic_coeff,
                       BoolAttr:$exclude_outside, BoolAttr:$antialias, F64Attr:$extrapolation);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def Colossal_RoiMaxPoolOp : Colossal_Op<"roi_max_pool", [], ["getFlops"], ["getGradientFlops"], ["isElementCostly"]> {
  let summary = "maxima over the bins of regions of interest (Girshick, Fast R-CNN, 2015, section 2.1)";
  let description = [{
    input N x C x H x W. rois R x 5: image, left, top, right, bottom, the corners (inclusive) in units of `scale` input
    elements, rounded half away from zero. The result R x C x Ph x Pw divides each region, at least one element high and
    wide, into Ph x Pw bins: bin p of P over an extent e from s on covers [floor(p e / P) + s, ceil((p + 1) e / P) + s), cut
    to the input. A bin that is then empty gives 0. An image out of range is taken as the nearest that there is.

    - (C1) input and result have rank 4, rois are R x 5; the input's images are not empty, and there is one;
    - (C2) the result has a row per region and the input's channels;
    - (C3) one element type, of floats.
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$rois, F64Attr:$scale);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`(` $input `,` $rois `)` attr-dict `:` functional-type(operands, results)";
}
