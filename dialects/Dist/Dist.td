// The Dist dialect: where data lives. The mesh, the sharding of a tensor, and the ops that exist only once tensors are
// local: coordinates, padding, and the collectives that the upstream shard dialect cannot say.
#ifndef COLOSSAL_DIALECTS_DIST_DIST_TD
#define COLOSSAL_DIALECTS_DIST_DIST_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::colossal::dist";
  let summary = "Meshes, shardings, and what moves data between ranks";
  let description = [{
    A tensor is laid out over a *mesh* of named axes by a *sharding*: each dimension is an ordered product of factors,
    and mesh axes lie on factors, not only on the outermost one, so that a shard of `3 * heads * width` over heads keeps
    head boundaries. Ops state in a *factor rule* how the dimensions of their operands and results hang together; a
    layout assigns mesh axes to the factors of a rule.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

class Dist_Attr<string name, string mnemonic_, list<Trait> traits = []> : AttrDef<Dist_Dialect, name, traits> {
  let mnemonic = mnemonic_;
}

def Dist_MeshAxisAttr : Dist_Attr<"MeshAxis", "axis"> {
  let summary = "one named axis of a mesh";
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$size, DefaultValuedParameter<"bool", "false">:$loop);
  let builders = [AttrBuilder<(ins "::mlir::StringAttr":$name, "int64_t":$size), [{
    return $_get($_ctxt, name, size, false);
  }]>];
  let assemblyFormat = "`<` $name `=` $size (`,` $loop^)? `>`";
}

def Dist_MeshAttr : Dist_Attr<"Mesh", "mesh"> {
  let summary = "a mesh of devices with named axes";
  let description = [{
    Ranks are numbered row-major over the axes, the last varying fastest.

    Example: `#dist.mesh<["data" = 2, "model" = 4]>` has 8 ranks; rank 5 has coordinates data = 1, model = 1.

    The last axis may be a *loop* axis: not ranks lie along it, but the turns of a loop that each rank runs, one after the
    other. `#dist.mesh<["model" = 2, "microbatch" = 4 loop]>` has 2 ranks, which take a tensor that is split over both axes
    in 4 parts. A rank's coordinate on that axis is the number of the turn. Nothing moves along it.

    - (C1) axis names are unique and not empty;
    - (C2) sizes are positive;
    - (C3) no axis but the last is a loop axis.
  }];
  let parameters = (ins ArrayRefParameter<"::colossal::dist::MeshAxisAttr">:$axes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Product of the sizes of the axes that ranks lie along.
    int64_t getNumRanks() const;
    /// How many ranks lie along each axis: its size, and 1 for a loop axis.
    ::llvm::SmallVector<int64_t> getRankSizes() const;
    /// The loop axis (the last one), or -1.
    int64_t getLoopAxis() const;
    /// Turns of the loop; 1 where no axis is a loop.
    int64_t getNumTurns() const { return getLoopAxis() < 0 ? 1 : getAxisSize(getLoopAxis()); }
    /// Index of the axis of that name, or -1.
    int64_t findAxis(::llvm::StringRef name) const;
    int64_t getAxisSize(unsigned axis) const { return getAxes()[axis].getSize(); }
    unsigned getNumAxes() const { return getAxes().size(); }
  }];
}

def Dist_FactorShardAttr : Dist_Attr<"FactorShard", "factor"> {
  let summary = "a factor of a dimension and the mesh axes (by index, outer first) that split it";
  let parameters = (ins "int64_t":$size, ArrayRefParameter<"unsigned">:$axes);
  let hasCustomAssemblyFormat = 1;
}

def Dist_DimShardingAttr : Dist_Attr<"DimSharding", "dim"> {
  let summary = "a dimension as an ordered product of factors, outermost first";
  let description = [{
    The product of the factors' sizes is the dimension's global size. Adjacent factors without axes are merged, and a
    factor of size 1 without axes is dropped (unless it is the only one), so that equal layouts are equal attributes.
  }];
  let parameters = (ins ArrayRefParameter<"::colossal::dist::FactorShardAttr">:$factors);
  let hasCustomAssemblyFormat = 1;
}

def Dist_ReductionKind : I32EnumAttr<"ReductionKind", "how partial results combine", [
    I32EnumAttrCase<"Sum", 1, "sum">, I32EnumAttrCase<"Max", 2, "max">, I32EnumAttrCase<"Min", 3, "min">,
    I32EnumAttrCase<"Prod", 4, "prod">, I32EnumAttrCase<"And", 5, "and">, I32EnumAttrCase<"Or", 6, "or">]> {
  let cppNamespace = "::colossal::dist";
  let genSpecializedAttr = 0;
}
def Dist_ReductionKindAttr : EnumAttr<Dist_Dialect, Dist_ReductionKind, "reduction">;

def Dist_ShardingAttr : Dist_Attr<"Sharding", "sharding"> {
  let summary = "where the elements of a tensor lie";
  let description = [{
    One `dim` entry for each dimension of the tensor. Axes that occur nowhere hold replicas. `partialAxes` are axes over
    which the tensor is *partial*: the ranks that differ only there hold values whose combination by `partialKind` is
    the tensor.

    Where a list of axes splits a factor of size f: over the first axis (n ranks) each rank stores ceil(f / n) elements
    beginning at coordinate * ceil(f / n); the next axis splits that chunk in the same way. What lies beyond f is padding.

    Example, on a mesh `["data" = 2, "model" = 2]`: `#dist.sharding<[8:(0)], [3, 12:(1), 64]>` is an 8 x 2304 tensor
    whose rows are split over `data` and whose 12 heads over `model`; a rank stores 4 x (3 * 6 * 64).

    - (C1) an axis occurs at most once, partial axes included;
    - (C2) axis indices are below 32 and factor sizes are not negative.
  }];
  let parameters = (ins ArrayRefParameter<"::colossal::dist::DimShardingAttr">:$dims,
                        ArrayRefParameter<"unsigned">:$partialAxes,
                        "::colossal::dist::ReductionKind":$partialKind);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// No axis on any factor and nothing partial.
    bool isReplicated() const;
    bool isPartial() const { return !getPartialAxes().empty(); }
    /// The same dimensions, summed (or otherwise combined).
    ShardingAttr withoutPartial() const {
      return isPartial() ? ShardingAttr::get(getContext(), getDims(), {}, ReductionKind::Sum) : *this;
    }
    /// A sharding of `shape` that replicates it everywhere.
    static ShardingAttr getReplicated(::mlir::MLIRContext *context, ::llvm::ArrayRef<int64_t> shape);
    /// The global shape.
    ::llvm::SmallVector<int64_t> getGlobalShape() const;
    /// The padded shape of one rank's shard on `mesh`.
    ::llvm::SmallVector<int64_t> getLocalShape(MeshAttr mesh) const;
  }];
}

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, traits>;

def Dist_CoordinateOp : Dist_Op<"coordinate", [Pure]> {
  let summary = "this rank's coordinate on a mesh axis";
  let description = [{
    - (C1) `axis` is at least 0 and below 32.
  }];
  let arguments = (ins I64Attr:$axis);
  let results = (outs Index:$result);
  let assemblyFormat = "$axis attr-dict";
  let hasVerifier = 1;
}

def Dist_MaskPaddingOp : Dist_Op<"mask_padding", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "replaces the padding of a shard by a value";
  let description = [{
    The input's shape is seen, refined, as `extents` (their product in order refines the input's dimensions, row-major).
    An element whose refined index along `masked[i]` is at least `valid[i]` becomes `fill`; the rest is unchanged. A fill
    beyond the element type's range becomes its least or greatest value; for i1 it is true unless 0.

    - (C1) extents are not negative, and together as many elements as the input's;
    - (C2) `masked` are indices of extents, in ascending order, with one `valid` each.
  }];
  let arguments = (ins AnyRankedTensor:$input, Variadic<Index>:$valid, DenseI64ArrayAttr:$extents,
                       DenseI64ArrayAttr:$masked, F64Attr:$fill);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `[` $valid `]` attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Dist_ExchangeOp : Dist_Op<"exchange", [Pure]> {
  let summary = "every member takes a window of one dimension, wherever it lies";
  let description = [{
    Along `dim`, the members of the group over `axes` (indices of mesh axes) hold elements
    [src_start, src_start + src_valid) of a global dimension in the first places of their shard; each receives
    [dst_start, dst_start + extent of the result). What no member holds is `fill`. The three operands are index values
    computed from coordinates. Halo exchange and uneven re-layouts are instances.

    - (C1) `dim` is a dimension of the input;
    - (C2) `axes` are at least one, each at least 0, below 32 and named once;
    - (C3) the result has the input's element type, and its sizes but for `dim`.
  }];
  let arguments = (ins AnyRankedTensor:$input, Index:$src_start, Index:$src_valid, Index:$dst_start, I64Attr:$dim,
                       DenseI64ArrayAttr:$axes, F64Attr:$fill);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `,` `from` $src_start `valid` $src_valid `to` $dst_start attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Dist_PermuteOp : Dist_Op<"permute", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "takes the shard of another member of the group";
  let description = [{
    `source` is the member's position in the group over `axes`, an index computed from coordinates; where it is negative
    the result is zero.

    - (C1) `axes` are at least one, each at least 0, below 32 and named once.
  }];
  let arguments = (ins AnyRankedTensor:$input, Index:$source, DenseI64ArrayAttr:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `from` $source attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Dist_LoopSliceOp : Dist_Op<"loop_slice", [Pure]> {
  let summary = "the part of a tensor that this turn of the loop works on";
  let description = [{
    Elements [turn * extent, (turn + 1) * extent) of dimension `dim`, with `turn` the coordinate on the loop axis `axis` and
    extent the result's size there. The input is the same in all turns.

    - (C1) `axis` is at least 0 and below 32, and `dim` a dimension of the input;
    - (C2) the result has the input's element type, and its sizes but for `dim`, where the input's is a multiple of the
      result's.
  }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$dim, I64Attr:$axis);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

#endif // COLOSSAL_DIALECTS_DIST_DIST_TD
