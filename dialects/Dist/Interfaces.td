// What an op tells about being split over ranks.
#ifndef COLOSSAL_DIALECTS_DIST_INTERFACES_TD
#define COLOSSAL_DIALECTS_DIST_INTERFACES_TD

include "mlir/IR/OpBase.td"

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::colossal::dist";
  let description = [{
    The op's *factor rule*: how the dimensions of its tensors hang together (see FactorRule.h), and how its local version
    is built once factors are split.
  }];
  let methods = [
    InterfaceMethod<[{
      The rule of the op at its present (global) shapes. Operands and results that are not ranked tensors have no dims.
    }], "::colossal::dist::FactorRule", "getFactorRule">,
    InterfaceMethod<[{
      Builds the op at local shapes. `context` has the local operands (already in the layout that the rule and the
      assignment ask for), the local size of each factor, offsets and valid extents as index values. Returns the local
      results in the layout that the rule and the assignment give them (partial where reduction factors are split).
      The default clones the op with local result types; ops with attributes that speak of shapes or offsets override it.
    }], "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "buildLocal",
      (ins "::mlir::OpBuilder &":$builder, "::colossal::dist::LocalContext &":$context), [{}], [{
      return ::colossal::dist::cloneWithLocalTypes($_op.getOperation(), builder, context);
    }]>,
    InterfaceMethod<[{
      Floating-point (or integer) operations of the op at its present shapes, split evenly over all factors of the rule
      that are split. The default is one per result element.
    }], "double", "getFlops", (ins), [{}], [{
      return ::colossal::dist::countResultElements($_op.getOperation());
    }]>,
    InterfaceMethod<[{
      Whether the op computes more than it moves, so that its own work counts. What does no more than move and add is
      fused with what makes its operands. The default is more than four operations per result element.
    }], "bool", "isHeavy", (ins), [{}], [{
      return $_op.getFlops() > 4 * ::colossal::dist::countResultElements($_op.getOperation());
    }]>
  ];
}

def GradientOpInterface : OpInterface<"GradientOpInterface"> {
  let cppNamespace = "::colossal::dist";
  let description = [{
    What the gradients of an op take, so that training can be planned before anything is differentiated: their work, and
    what they read of the forward pass. Their layouts follow from the factor rule (dist::getGradientSharding): the gradient
    of an operand lies as the operand does, and is partial over the axes on factors that the operand lacks.
  }];
  let methods = [
    InterfaceMethod<[{
      Operations of the gradient with respect to one operand, at the present shapes, split evenly over all factors that are
      split. The default is one per element of a floating-point operand; 0 says that there is no gradient.
    }], "double", "getGradientFlops", (ins "unsigned":$operand), [{}], [{
      return ::colossal::dist::countGradientElements($_op.getOperation(), operand);
    }]>,
    InterfaceMethod<[{
      Whether some gradient of this op reads the value of the operand. The default, for floating-point operands and for
      integers alike, is yes.
    }], "bool", "isOperandSaved", (ins "unsigned":$operand), [{}], [{ return true; }]>,
    InterfaceMethod<[{
      Whether some gradient of this op reads the value of the result. The default is no.
    }], "bool", "isResultSaved", (ins "unsigned":$result), [{}], [{ return false; }]>
  ];
}

#endif // COLOSSAL_DIALECTS_DIST_INTERFACES_TD
