//===- EmitReshard.cpp - collectives of a resharding path -------------------===//
#include "colossal/Partition/Resharding.h"

#include "colossal/Partition/Partition.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/FactorRule.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

static shard::ReductionKind getShardReduction(ReductionKind kind) {
  switch (kind) {
  case ReductionKind::Sum: return shard::ReductionKind::Sum;
  case ReductionKind::Max: return shard::ReductionKind::Max;
  case ReductionKind::Min: return shard::ReductionKind::Min;
  case ReductionKind::Prod: return shard::ReductionKind::Product;
  case ReductionKind::And: return shard::ReductionKind::BitwiseAnd;
  case ReductionKind::Or: return shard::ReductionKind::BitwiseOr;
  }
  return shard::ReductionKind::Sum;
}

static RankedTensorType withShape(Value value, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, cast<RankedTensorType>(value.getType()).getElementType());
}

/// `value` under another shape. A reshape that this path itself has just made (`own`) is replaced; others may
/// be what the program goes on with, though nothing uses them yet.
static Value emitReshape(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape,
                         ReshapeOp &own) {
  if (own && value == own.getResult()) {
    value = own.getInput();
    own.erase();
  }
  own = {};
  RankedTensorType type = withShape(value, shape);
  if (type == value.getType())
    return value;
  own = ReshapeOp::create(builder, loc, type, value);
  return own;
}

/// `value` with `dim` padded with zeros, or cropped, to `size` elements.
static Value resizeDim(OpBuilder &builder, Location loc, Value value, int64_t dim, int64_t size) {
  SmallVector<int64_t> shape(cast<RankedTensorType>(value.getType()).getShape());
  if (shape[dim] == size)
    return value;
  bool grows = shape[dim] < size;
  shape[dim] = size;
  SmallVector<int64_t> zeros(shape.size(), 0), ones(shape.size(), 1);
  if (grows)
    return PadOp::create(builder, loc, withShape(value, shape), value, Value(), zeros, PadMode::Constant);
  return SliceOp::create(builder, loc, withShape(value, shape), value, zeros, ones);
}

bool colossal::dist::hasPadding(ShardingAttr sharding, MeshAttr mesh) {
  return llvm::any_of(sharding.getDims(), [&](DimShardingAttr dim) {
    return llvm::any_of(dim.getFactors(), [&](FactorShardAttr factor) {
      return isUneven(factor.getSize(), factor.getAxes(), mesh);
    });
  });
}

Value colossal::dist::emitConstant(OpBuilder &builder, Value global, ShardingAttr wanted, MeshAttr mesh) {
  auto constant = global.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!elements || !elements.isSplat() || wanted.isPartial())
    return {};
  auto number = dyn_cast<FloatAttr>(elements.getSplatValue<Attribute>());
  const bool isZero = number && number.getValue().isPosZero();
  if (!isZero && hasPadding(wanted, mesh)) // in the padding of what is brought there are zeros
    return {};
  auto type = RankedTensorType::get(wanted.getLocalShape(mesh), elements.getElementType());
  return ConstantOp::create(builder, global.getLoc(), type, elements.resizeSplat(type));
}

static FlatSymbolRefAttr getGrid(OpBuilder &builder) {
  return FlatSymbolRefAttr::get(builder.getContext(), kGridName);
}

static DenseI16ArrayAttr getAxes(OpBuilder &builder, ArrayRef<unsigned> axes) {
  return builder.getDenseI16ArrayAttr(SmallVector<int16_t>(axes.begin(), axes.end()));
}

Value colossal::dist::emitAllReduce(OpBuilder &builder, Location loc, Value local, ArrayRef<unsigned> axes,
                                    ReductionKind reduction) {
  auto kind = shard::ReductionKindAttr::get(builder.getContext(), getShardReduction(reduction));
  return shard::AllReduceOp::create(builder, loc, local.getType(), getGrid(builder), getAxes(builder, axes),
                                    local, kind);
}

Value colossal::dist::emitAllGather(OpBuilder &builder, Location loc, Value local, ArrayRef<unsigned> axes,
                                    int64_t dim, int64_t ranks) {
  SmallVector<int64_t> shape(shapeOf(local));
  shape[dim] *= ranks;
  return shard::AllGatherOp::create(builder, loc, withShape(local, shape), getGrid(builder),
                                    getAxes(builder, axes), local, builder.getIndexAttr(dim));
}

Value colossal::dist::emitReshard(OpBuilder &builder, Location loc, Value local, const ReshardPath &path) {
  FlatSymbolRefAttr grid = getGrid(builder);
  ReshapeOp own;
  for (const Move &move : path.moves) {
    if (move.splitDim >= 0 || move.gatherDim >= 0)
      local = emitReshape(builder, loc, local, move.exposed, own);
    if (move.splitDim >= 0)
      local = resizeDim(builder, loc, local, move.splitDim, move.splitSize);
    DenseI16ArrayAttr axesAttr = getAxes(builder, move.axes);
    SmallVector<int64_t> shape(shapeOf(local));
    if (move.splitDim >= 0)
      shape[move.splitDim] /= move.ranks;
    switch (move.kind) {
    case MoveKind::AllGather:
      local = emitAllGather(builder, loc, local, move.axes, move.gatherDim, move.ranks);
      break;
    case MoveKind::AllReduce: local = emitAllReduce(builder, loc, local, move.axes, move.reduction); break;
    case MoveKind::ReduceScatter:
      local = shard::ReduceScatterOp::create(
          builder, loc, withShape(local, shape), grid, axesAttr, local,
          shard::ReductionKindAttr::get(builder.getContext(), getShardReduction(move.reduction)),
          builder.getIndexAttr(move.splitDim));
      break;
    case MoveKind::AllToAll:
      shape[move.gatherDim] *= move.ranks;
      local = shard::AllToAllOp::create(builder, loc, withShape(local, shape), grid, axesAttr, local,
                                        builder.getIndexAttr(move.splitDim),
                                        builder.getIndexAttr(move.gatherDim));
      break;
    case MoveKind::KeepFirst: local = keepOnFirst(builder, loc, local, move.axes); break;
    case MoveKind::LoopSlice:
      local = LoopSliceOp::create(builder, loc, withShape(local, shape), local,
                                  builder.getI64IntegerAttr(move.splitDim),
                                  builder.getI64IntegerAttr(move.axes.front()));
      break;
    case MoveKind::Slice:
      local = shard::AllSliceOp::create(builder, loc, withShape(local, shape), grid, axesAttr, local,
                                        builder.getIndexAttr(move.splitDim));
      break;
    }
    if (move.gatherDim >= 0)
      local = resizeDim(builder, loc, local, move.gatherDim, move.gatherSize);
    local = emitReshape(builder, loc, local, move.result, own);
  }
  return local;
}
