// The Plan dialect: programs and instructions, one to one with include/colossal/Plan/Plan.proto.
#ifndef COLOSSAL_DIALECTS_PLAN_PLANDIALECT_TD
#define COLOSSAL_DIALECTS_PLAN_PLANDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::colossal::plan";
  let summary = "What the runtime executes";
  let description = [{
    A module holds arenas, parameters, kernels and programs. A program's body is a list of instructions over byte ranges of
    arenas (`#plan.buffer`), with index arithmetic (`dist.coordinate`, `arith` on index) between them for what differs by
    rank. Every op maps to one message of the plan format, whose comments give the semantics.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::colossal::dist::DistDialect"];
}

// The Dist dialect's attributes, named without including its definitions (they would be generated twice).
class Plan_DistAttr<string cppName, string text> : Attr<CPred<"::llvm::isa<::colossal::dist::" # cppName # ">($_self)">, text> {
  let storageType = "::colossal::dist::" # cppName;
  let returnType = "::colossal::dist::" # cppName;
  let convertFromStorage = "$_self";
}
def Plan_ShardingAttr : Plan_DistAttr<"ShardingAttr", "sharding">;
def Plan_ReductionAttr : Plan_DistAttr<"ReductionKindAttr", "reduction">;

class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<Plan_Dialect, mnemonic, traits>;

def Plan_BufferAttr : AttrDef<Plan_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "bytes of an arena";
  let description = [{
    `#plan.buffer<@activations[128, 4096]>`: 4096 bytes at offset 128. In repeats and functions, it may move: with
    `#plan.buffer<@io[0, 512] by [0, 512]>` by 512 bytes in each turn of the inner one of two repeats. Strides belong to the
    arguments of the function around it, then to the counters of the repeats, the outermost first; what is left out is 0.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$arena, "uint64_t":$offset, "uint64_t":$bytes,
                        OptionalArrayRefParameter<"int64_t">:$strides);
  let builders = [AttrBuilder<(ins "::mlir::FlatSymbolRefAttr":$arena, "uint64_t":$offset, "uint64_t":$bytes), [{
    return $_get($_ctxt, arena, offset, bytes, ::llvm::ArrayRef<int64_t>());
  }]>];
  let assemblyFormat = "`<` $arena `[` $offset `,` $bytes `]` (`by` `[` $strides^ `]`)? `>`";
}
def Plan_BufferArrayAttr : TypedArrayAttrBase<Plan_BufferAttr, "buffers">;

class Plan_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::colossal::plan";
  let genSpecializedAttr = 0;
}

// Numbers as in Plan.proto.
def Plan_Space : Plan_Enum<"Space", "where an arena lies", [
  I32EnumAttrCase<"Device", 1, "device">, I32EnumAttrCase<"PinnedHost", 2, "pinned_host">, I32EnumAttrCase<"Disk", 3, "disk">]>;
def Plan_SpaceAttr : EnumAttr<Plan_Dialect, Plan_Space, "space">;
def Plan_Life : Plan_Enum<"Life", "how long an arena's contents live", [
  I32EnumAttrCase<"Weights", 1, "weights">, I32EnumAttrCase<"State", 2, "state">,
  I32EnumAttrCase<"Activations", 3, "activations">, I32EnumAttrCase<"IO", 4, "io">,
  I32EnumAttrCase<"Workspace", 5, "workspace">]>;
def Plan_LifeAttr : EnumAttr<Plan_Dialect, Plan_Life, "life">;
def Plan_Role : Plan_Enum<"Role", "when a program runs", [
  I32EnumAttrCase<"Load", 1, "load">, I32EnumAttrCase<"Infer", 2, "infer">, I32EnumAttrCase<"Step", 3, "step">,
  I32EnumAttrCase<"Save", 4, "save">, I32EnumAttrCase<"Restore", 5, "restore">]>;
def Plan_RoleAttr : EnumAttr<Plan_Dialect, Plan_Role, "role">;
def Plan_StateKind : Plan_Enum<"StateKind", "what a state is", [
  I32EnumAttrCase<"Parameter", 1, "parameter">, I32EnumAttrCase<"Slot", 2, "slot">,
  I32EnumAttrCase<"Statistic", 3, "statistic">]>;
def Plan_StateKindAttr : EnumAttr<Plan_Dialect, Plan_StateKind, "state_kind">;
def Plan_CollectiveKind : Plan_Enum<"CollectiveKind", "what a collective does", [
  I32EnumAttrCase<"AllReduce", 1, "all_reduce">, I32EnumAttrCase<"AllGather", 2, "all_gather">,
  I32EnumAttrCase<"ReduceScatter", 3, "reduce_scatter">, I32EnumAttrCase<"AllToAll", 4, "all_to_all">,
  I32EnumAttrCase<"Broadcast", 5, "broadcast">, I32EnumAttrCase<"Exchange", 6, "exchange">,
  I32EnumAttrCase<"Permute", 7, "permute">]>;
def Plan_CollectiveKindAttr : EnumAttr<Plan_Dialect, Plan_CollectiveKind, "collective_kind">;

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

def Plan_ArenaOp : Plan_Op<"arena", [Symbol]> {
  let summary = "memory that the runtime allocates once, on each rank";
  let description = [{
    - (C1) `bytes` is not negative, and `alignment` is a power of two of at least 64.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Plan_SpaceAttr:$space, Plan_LifeAttr:$life, I64Attr:$bytes,
                       DefaultValuedAttr<I64Attr, "64">:$alignment);
  let assemblyFormat = "$sym_name $space $life $bytes attr-dict";
  let hasVerifier = 1;
}

def Plan_ParameterOp : Plan_Op<"parameter", [Symbol]> {
  let summary = "a tensor of the model";
  let description = [{
    As `colossal.parameter`: bytes at `offset` of `file` (empty: the model's own), or `data`.

    - (C1) `type` is a ranked tensor of static shape; `offset` and `bytes` are not negative.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$name, TypeAttr:$type, StrAttr:$file, I64Attr:$offset,
                       I64Attr:$bytes, OptionalAttr<ElementsAttr>:$data);
  let assemblyFormat = "$sym_name $name `:` $type attr-dict";
  let hasVerifier = 1;
}

def Plan_StateOp : Plan_Op<"state"> {
  let summary = "a tensor that persists from run to run and changes";
  let description = [{
    Where it lies say the bindings of that name of the programs `save` and `restore`, which have all states in the order
    in which they are declared. A slot is what an optimizer keeps of the parameter `parameter` of the model's file, which
    has further names in `tied`; of these, matrices in `transposed` lie the other way round there.

    - (C1) its name is not empty, and a slot, and nothing else, says which one it is.
  }];
  let arguments = (ins StrAttr:$name, Plan_StateKindAttr:$kind, StrAttr:$parameter, OptionalAttr<StrAttr>:$slot,
                       OptionalAttr<StrArrayAttr>:$tied, OptionalAttr<StrArrayAttr>:$transposed);
  let assemblyFormat = [{
    $kind $name `of` $parameter (`slot` $slot^)? (`tied` $tied^)? (`transposed` $transposed^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_KernelOp : Plan_Op<"kernel", [Symbol]> {
  let summary = "a function of the machine-code image; its symbol there is the op's";
  let description = [{
    - (C1) it takes at least one buffer, and no negative number of parameters.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$buffers, I64Attr:$params);
  let assemblyFormat = "$sym_name `buffers` $buffers `params` $params attr-dict";
  let hasVerifier = 1;
}

def Plan_ProgramOp : Plan_Op<"program", [Symbol, NoTerminator, SingleBlock]> {
  let summary = "instructions that run together: the load program, or one binding of the model's dimensions";
  let description = [{
    `save` and `restore` have no instructions: the outputs of the one and the inputs of the other are all states, as they
    lie in an arena of life `state`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Plan_RoleAttr:$role, OptionalAttr<DictionaryAttr>:$dimensions,
                       OptionalAttr<F64Attr>:$predicted_seconds);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $role attr-dict-with-keyword $body";
}

def Plan_InputOp : Plan_Op<"input", [HasParent<"ProgramOp">]> {
  let summary = "a tensor that the caller gives: global type, and each rank's shard of it";
  let description = [{
    `range` is the least and the greatest value that an element may have, where `range_user`, an ONNX name, takes the
    elements as indices; what follows these are values that it may have, too.

    - (C1) `type` is a ranked tensor of static shape, and `sharding` is of that shape;
    - (C2) `range`, where given, begins with two numbers in ascending order.
  }];
  let arguments = (ins StrAttr:$name, TypeAttr:$type, Plan_ShardingAttr:$sharding, Plan_BufferAttr:$buffer,
                       OptionalAttr<DenseI64ArrayAttr>:$range, OptionalAttr<StrAttr>:$range_user);
  let assemblyFormat = "$name `:` $type $sharding $buffer attr-dict";
  let hasVerifier = 1;
}

def Plan_OutputOp : Plan_Op<"output", [HasParent<"ProgramOp">]> {
  let summary = "a tensor that the caller receives, or the runtime checks";
  let description = [{
    With `range`, as of an input, the caller does not receive it: a run fails where an element lies outside.
    Constraints C1 and C2 as of an input.
  }];
  let arguments = (ins StrAttr:$name, TypeAttr:$type, Plan_ShardingAttr:$sharding, Plan_BufferAttr:$buffer,
                       OptionalAttr<DenseI64ArrayAttr>:$range, OptionalAttr<StrAttr>:$range_user);
  let assemblyFormat = "$name `:` $type $sharding $buffer attr-dict";
  let hasVerifier = 1;
}

def Plan_FixedInputOp : Plan_Op<"fixed_input", [HasParent<"ProgramOp">]> {
  let summary = "an input whose contents were bound at compile time";
  let arguments = (ins StrAttr:$name, ElementsAttr:$value);
  let assemblyFormat = "$name $value attr-dict";
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

// Discardable on every instruction: `queue`, `waits`, `signals` (integers as in the format). Locations become `source`.

def Plan_LaunchOp : Plan_Op<"launch", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs tiles [0, tiles) of a kernel";
  let description = [{
    The last `writes` buffers are written; `also_written` are indices of further ones that are read and written.

    - (C1) `kernel` is a `plan.kernel` of the module, and takes as many buffers and parameters as are given;
    - (C2) `writes` is at most the number of buffers, and `also_written` are indices of those before;
    - (C3) `tiles` is at least 1, and `tile_scratch` not negative.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Index>:$params, Plan_BufferArrayAttr:$buffers, I64Attr:$writes,
                       I64Attr:$tiles, DefaultValuedAttr<I64Attr, "0">:$tile_scratch,
                       OptionalAttr<DenseI64ArrayAttr>:$also_written);
  let assemblyFormat = "$kernel `(` $params `)` $buffers `writes` $writes `tiles` $tiles attr-dict";
  let hasVerifier = 1;
}

def Plan_ConvolutionOp : Plan_Op<"convolution"> {
  let summary = "convolution by the device's library, or the packing of its weight";
  let description = [{
    Buffers: input, packed weight, [bias], scratchpad, output; with `pack`: weight, packed weight; with `compute`, which says in what
    products are added up: input, weight as it is, [bias], workspace, output. Shapes and strides are in the library's order N C spatial
    and of elements.

    - (C1) two buffers with `pack`, else four, and one more with `bias`;
    - (C2) input, weight and output have one rank, of 3 to 5, and their strides and the window's attributes match it;
    - (C3) with `compute` there is no `pack`.
  }];
  let arguments = (ins Plan_BufferArrayAttr:$buffers, TypeAttr:$element_type, DenseI64ArrayAttr:$input,
                       DenseI64ArrayAttr:$weight, DenseI64ArrayAttr:$output, DenseI64ArrayAttr:$input_strides,
                       DenseI64ArrayAttr:$output_strides, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations,
                       DenseI64ArrayAttr:$pads_begin, DenseI64ArrayAttr:$pads_end, I64Attr:$group, BoolAttr:$bias,
                       BoolAttr:$residual, StrAttr:$activation, OptionalAttr<DenseF64ArrayAttr>:$activation_args,
                       BoolAttr:$transposed, StrAttr:$algorithm, DefaultValuedAttr<BoolAttr, "false">:$pack,
                       OptionalAttr<StrAttr>:$compute);
  let assemblyFormat = "$buffers `:` $element_type attr-dict";
  let hasVerifier = 1;
}

def Plan_ContractionOp : Plan_Op<"contraction"> {
  let summary = "contraction of matrices by the device's library";
  let description = [{
    Buffers: A, B, [bias], workspace, C. `sizes` are batch, m, n and k; strides are of elements, from matrix to matrix, row to
    row and column to column.

    - (C1) four buffers, and one more with `bias`;
    - (C2) four sizes of at least 1, and three strides for each of A, B and C;
    - (C3) of a matrix's last two strides one is 1, and the other at least its extent along the first;
    - (C4) the columns of C have stride 1 with `bias`.
  }];
  let arguments = (ins Plan_BufferArrayAttr:$buffers, TypeAttr:$element_type, TypeAttr:$result_type, StrAttr:$compute,
                       DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$a_strides, DenseI64ArrayAttr:$b_strides,
                       DenseI64ArrayAttr:$c_strides, BoolAttr:$bias, StrAttr:$activation);
  let assemblyFormat = "$buffers `:` $element_type `->` $result_type attr-dict";
  let hasVerifier = 1;
}

def Plan_FusedAttentionOp : Plan_Op<"fused_attention"> {
  let summary = "scaled dot-product attention by the device's library";
  let description = [{
    Buffers: query, key, value, [mask], workspace, output. `sizes` are batch, query heads, key heads, queries, keys, and the widths of keys
    and of values; strides are of elements, by batch, head, position and element. output = softmax(scale query key^T + mask) value, where
    under `causal` query i sees keys j <= i + causal_offset.

    - (C1) five buffers, and one more with a mask;
    - (C2) seven sizes of at least 1, the query heads a multiple of the key heads;
    - (C3) four strides of each tensor, the last of query, key, value and output 1;
    - (C4) `mask_type` and `mask_strides` come together, and `causal_offset` is not negative.
  }];
  let arguments = (ins Plan_BufferArrayAttr:$buffers, TypeAttr:$element_type, DenseI64ArrayAttr:$sizes,
                       DenseI64ArrayAttr:$query_strides, DenseI64ArrayAttr:$key_strides, DenseI64ArrayAttr:$value_strides,
                       DenseI64ArrayAttr:$output_strides, F64Attr:$scale, BoolAttr:$causal,
                       DefaultValuedAttr<I64Attr, "0">:$causal_offset, OptionalAttr<TypeAttr>:$mask_type,
                       OptionalAttr<DenseI64ArrayAttr>:$mask_strides);
  let assemblyFormat = "$buffers `:` $element_type attr-dict";
  let hasVerifier = 1;
}

def Plan_CollectiveOp : Plan_Op<"collective"> {
  let summary = "moves bytes between the ranks that differ only in `axes`";
  let description = [{
    `sizes` and strides describe blocks of elements as in the format. For `exchange`, `window` is
    (outer, inner, src_extent, dst_extent) and the operands src_start, src_valid, dst_start; for `permute` the operand is
    the source member.

    `statistics` marks what the ranks of one op exchange between its stages.

    - (C1) `axes` are at least one and each named once;
    - (C2) `sizes`, `src_strides` and `dst_strides` are equally many;
    - (C3) `all_reduce` and `reduce_scatter` have a `reduction`, others none; `broadcast` has a `root`;
    - (C4) `exchange` has three operands and a `window` of four sizes, `permute` one operand, others none.
  }];
  let arguments = (ins Plan_CollectiveKindAttr:$kind, Variadic<Index>:$operands_, DenseI64ArrayAttr:$axes,
                       OptionalAttr<Plan_ReductionAttr>:$reduction,
                       TypeAttr:$element_type, Plan_BufferAttr:$src, Plan_BufferAttr:$dst,
                       DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$src_strides, DenseI64ArrayAttr:$dst_strides,
                       DefaultValuedAttr<I64Attr, "0">:$src_peer_stride, DefaultValuedAttr<I64Attr, "0">:$dst_peer_stride,
                       OptionalAttr<I64Attr>:$root, OptionalAttr<DenseI64ArrayAttr>:$window, OptionalAttr<F64Attr>:$fill,
                       OptionalAttr<Plan_BufferAttr>:$scratch, UnitAttr:$statistics);
  let assemblyFormat = "$kind `(` $operands_ `)` $axes $src `->` $dst `:` $element_type attr-dict";
  let hasVerifier = 1;
}

def Plan_CopyOp : Plan_Op<"copy"> {
  let summary = "copies bytes from buffer to buffer";
  let description = [{
    - (C1) both buffers have as many bytes.
  }];
  let arguments = (ins Plan_BufferAttr:$src, Plan_BufferAttr:$dst);
  let assemblyFormat = "$src `->` $dst attr-dict";
  let hasVerifier = 1;
}

def Plan_LoadParameterOp : Plan_Op<"load_parameter", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "reads this rank's box of a parameter; padding becomes zero";
  let description = [{
    With `strides`, which belong to what those of a buffer belong to, it is that many parameters further in the plan's table.
    With `starts`, `sharding` is of the part of the parameter that begins there.

    - (C1) `parameter` is a `plan.parameter` of the module, and `sharding` is of its shape;
    - (C2) or, with one start for each dimension, of a shape that lies in it from there on.
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter, Plan_ShardingAttr:$sharding, Plan_BufferAttr:$dst,
                       OptionalAttr<DenseI64ArrayAttr>:$strides, OptionalAttr<DenseI64ArrayAttr>:$starts);
  let assemblyFormat = "$parameter $sharding `->` $dst attr-dict";
}

def Plan_LoadDataOp : Plan_Op<"load_data"> {
  let summary = "copies a constant from the plan";
  let arguments = (ins ElementsAttr:$value, Plan_BufferAttr:$dst);
  let assemblyFormat = "$value `->` $dst attr-dict";
}

def Plan_SendOp : Plan_Op<"send"> {
  let summary = "sends bytes to a rank; nothing where the peer is negative";
  let arguments = (ins Plan_BufferAttr:$src, Index:$peer, I64Attr:$tag);
  let assemblyFormat = "$src `to` $peer `tag` $tag attr-dict";
}

def Plan_RecvOp : Plan_Op<"recv"> {
  let summary = "receives bytes from a rank; nothing where the peer is negative";
  let arguments = (ins Plan_BufferAttr:$dst, Index:$peer, I64Attr:$tag);
  let assemblyFormat = "$dst `from` $peer `tag` $tag attr-dict";
}

def Plan_RepeatOp : Plan_Op<"repeat", [NoTerminator, SingleBlock]> {
  let summary = "runs instructions `count` times";
  let description = [{
    The body's argument is the counter, from 0 on. Index arithmetic may use the counters of all repeats around it, and
    buffers move with them.

    - (C1) `count` is at least 1;
    - (C2) the body has one argument, of type index.

    Example: `plan.repeat 4 { ^bb0(%turn: index): plan.copy #plan.buffer<@io[0, 64] by [64]> -> ... }`.
  }];
  let arguments = (ins I64Attr:$count);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$count attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

def Plan_FunctionOp : Plan_Op<"function", [Symbol, NoTerminator, SingleBlock, IsolatedFromAbove]> {
  let summary = "instructions that programs call";
  let description = [{
    The body's arguments are numbers, which buffers move with and index arithmetic may use. Its instructions see nothing else
    of the caller.

    - (C1) the body's arguments are of type index, and at most 64;
    - (C2) the body calls no function.

    Example: `plan.function @layer { ^bb0(%layer: index): plan.copy #plan.buffer<@weights[0, 64] by [4096]> -> ... }`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Plan_CallOp : Plan_Op<"call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs the instructions of a function";
  let description = [{
    `names` are what the names of the callee's instructions leave open (Call.names in the plan format).

    - (C1) `callee` is a `plan.function` of the module, and takes as many arguments as are given.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Index>:$arguments, OptionalAttr<StrArrayAttr>:$names);
  let assemblyFormat = "$callee `(` $arguments `)` (`names` $names^)? attr-dict";
}

#endif // COLOSSAL_DIALECTS_PLAN_PLANDIALECT_TD
