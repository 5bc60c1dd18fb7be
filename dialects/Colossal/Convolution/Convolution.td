// Convolutions over 1 to 3 spatial dimensions.

def Colossal_ConvOp : Colossal_Op<"conv", [], ["buildLocal", "getFlops"], ["getGradientFlops", "isOperandSaved"], [], ["getKernelKind"]> {
  let summary = "convolution";
  let description = [{
    input N x C x spatial, weight O x (C / group) x kernel, optional bias O, result N x O x spatial. `pads` holds the low
    pads of all spatial dimensions, then the high ones.

    - (C1) 1 to 3 spatial dimensions; strides, dilations: one per spatial dimension, pads two; all but pads positive;
    - (C2) every window lies in the padded input: (result - 1) * stride + dilation * (kernel - 1) + 1 <= low + in + high
      along every spatial dimension;
    - (C3) batch, channels and bias fit: C = group * (C / group), O a multiple of group;
    - (C4) one element type.
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$weight, Optional<AnyRankedTensor>:$bias,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads, I64Attr:$group);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    `(` $input `,` $weight (`,` $bias^)? `)` attr-dict
    `:` `(` type($input) `,` type($weight) (`,` type($bias)^)? `)` `->` type($result)
  }];
}

def Colossal_ConvTransposeOp : Colossal_Op<"conv_transpose", [], ["buildLocal", "getFlops"], ["getGradientFlops", "isOperandSaved"], [],
                                           ["getKernelKind"]> {
  let summary = "transposed convolution";
  let description = [{
    input N x C x spatial, weight C x (O / group) x kernel, optional bias O. The result's spatial shape is its type's; the
    high pad follows from it.

    - (C1) as for `conv`;
    - (C3) batch, channels and bias fit: C a multiple of group, O = group * (O / group);
    - (C4) one element type.
  }];
  let arguments = (ins AnyRankedTensor:$input, AnyRankedTensor:$weight, Optional<AnyRankedTensor>:$bias,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads, I64Attr:$group);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    `(` $input `,` $weight (`,` $bias^)? `)` attr-dict
    `:` `(` type($input) `,` type($weight) (`,` type($bias)^)? `)` `->` type($result)
  }];
}
