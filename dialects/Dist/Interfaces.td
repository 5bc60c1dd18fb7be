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
    }]>
  ];
}

#endif // COLOSSAL_DIALECTS_DIST_INTERFACES_TD
