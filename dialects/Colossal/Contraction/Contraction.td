// Products summed over shared dimensions.

def Colossal_ContractOp : Colossal_Op<"contract", [], ["getFlops"], ["getGradientFlops"], [], ["getKernelKind"]> {
  let summary = "the contraction of two tensors: a matrix product with any dimensions";
  let description = [{
    Each dimension carries a label. A label in all three tensors is a batch dimension, in lhs and result an M dimension,
    in rhs and result N, in lhs and rhs only K: products are summed over it. f16 and bf16 accumulate in f32, integers in
    the result's type.

    - (C1) no label occurs twice in one tensor, and equal labels have equal sizes;
    - (C2) every label of the result occurs in an operand, every label of an operand in another tensor;
    - (C3) one list of labels per tensor, as long as its rank;
    - (C4) all three tensors are of floats, or all of integers.

    Example: `%c = colossal.contract %a [0, 1], %b [1, 2] -> [0, 2] : ...` is a matrix product.
  }];
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, DenseI64ArrayAttr:$lhs_dims,
                       DenseI64ArrayAttr:$rhs_dims, DenseI64ArrayAttr:$result_dims);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $lhs $lhs_dims `,` $rhs $rhs_dims `->` $result_dims attr-dict
    `:` `(` type($lhs) `,` type($rhs) `)` `->` type($result)
  }];
}
