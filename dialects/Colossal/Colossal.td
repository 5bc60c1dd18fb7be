// The Colossal dialect: a model as a small set of orthogonal tensor ops, ranked and static after import.
#ifndef COLOSSAL_DIALECTS_COLOSSAL_TD
#define COLOSSAL_DIALECTS_COLOSSAL_TD

include "dialects/Dist/Interfaces.td"
include "dialects/Colossal/Interfaces.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferIntRangeInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Colossal_Dialect : Dialect {
  let name = "colossal";
  let cppNamespace = "::colossal";
  let summary = "Models as tensor ops that can be split";
  let description = [{
    Ranked, static tensors of f32, f64, f16, bf16, signless i8..i64 (signed by default), unsigned ui8..ui64, and i1 for
    booleans. Of narrow types (f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ, f8E8M0FNU, f4E2M1FN, i4, ui4, i2, ui2), elements
    are moved and converted, but nothing is computed in them; each is a byte in memory. Strings are si64, the 64-bit
    digests of their texts: moved, and compared for equality. About forty ops carry the ONNX operators. Every op implements the sharding rule interface (how it may be
    split), the element emission interface (what code computes it) and the differentiable interface (its gradient), but for `batch_normalize`, which stands for other ops until
    it is known whether a step or an evaluation is made. Locations hold the ONNX names of the nodes and tensors that an op came from.

    - (C0) of every op: its tensors are ranked and static, of those element types. Constraints of one op follow in its
      description, as C1, C2, ...; its verifier names the one that is broken.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  // Element code is made of arith, math and vector ops; ops of local tensors get theirs here (LocalOps.h).
  let dependentDialects = ["::colossal::dist::DistDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::shard::ShardDialect", "::mlir::vector::VectorDialect"];
}

class Colossal_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::colossal";
  let genSpecializedAttr = 0;
}
class Colossal_EnumAttr<EnumAttrInfo info, string mnemonic> : EnumAttr<Colossal_Dialect, info, mnemonic>;

// Every op of the model: pure, with a sharding rule, code for its elements, and a gradient. `ownSharding` names the methods of the
// sharding rule interface whose defaults the op replaces, `ownGradient`, `ownEmission` and `ownKernel` those of the others.
class Colossal_Op<string mnemonic, list<Trait> traits = [], list<string> ownSharding = [], list<string> ownGradient = [],
                  list<string> ownEmission = [], list<string> ownKernel = []>
    : Op<Colossal_Dialect, mnemonic, !listconcat(traits, [
    Pure, DeclareOpInterfaceMethods<ShardingRuleOpInterface, ownSharding>,
    DeclareOpInterfaceMethods<ElementEmissionOpInterface, ownEmission>,
    DeclareOpInterfaceMethods<KernelOpInterface, ownKernel>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<GradientOpInterface, ownGradient>])> {
  let hasVerifier = 1;
}

// Ops that say between which integers their results lie, given their operands: what index checks are left out by.
defvar Colossal_InfersRange = DeclareOpInterfaceMethods<InferIntRangeInterface, ["inferResultRangesFromOptional"]>;
// Ops that index a tensor by the elements of another.
defvar Colossal_Indexes = DeclareOpInterfaceMethods<IndexingOpInterface>;

include "dialects/Colossal/Attention/Attention.td"
include "dialects/Colossal/Contraction/Contraction.td"
include "dialects/Colossal/Convolution/Convolution.td"
include "dialects/Colossal/Elementwise/Elementwise.td"
include "dialects/Colossal/Indexing/Indexing.td"
include "dialects/Colossal/Movement/Movement.td"
include "dialects/Colossal/Normalization/Normalization.td"
include "dialects/Colossal/Pooling/Pooling.td"
include "dialects/Colossal/Reduction/Reduction.td"
include "dialects/Colossal/Source/Source.td"

#endif // COLOSSAL_DIALECTS_COLOSSAL_TD
