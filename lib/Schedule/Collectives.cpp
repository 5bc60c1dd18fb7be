//===- Collectives.cpp - collectives of tensors to collectives of bytes -----===//
//
// A collective along a dimension of a dense tensor, written as blocks with strides: block j of the
// side that holds all members' parts begins j parts further along that dimension.
//
//===----------------------------------------------------------------------===//
#include "Collectives.h"

#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"

using namespace mlir;

namespace colossal::schedule {
namespace {

/// Blocks of one collective, in elements.
struct Blocks {
  SmallVector<int64_t> sizes, srcStrides, dstStrides;
  int64_t srcPeer = 0, dstPeer = 0;
};

SmallVector<int64_t> getStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// Block shape `sizes` inside the dense tensors `src` and `dst`; adjacent dimensions that are dense in both
/// merge.
Blocks makeBlocks(ArrayRef<int64_t> sizes, ArrayRef<int64_t> src, ArrayRef<int64_t> dst) {
  SmallVector<int64_t> srcStrides = getStrides(src), dstStrides = getStrides(dst);
  Blocks blocks;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1)
      continue;
    bool merges = !blocks.sizes.empty() && blocks.srcStrides.back() == srcStrides[i] * sizes[i] &&
                  blocks.dstStrides.back() == dstStrides[i] * sizes[i];
    if (merges) {
      blocks.sizes.back() *= sizes[i];
      blocks.srcStrides.back() = srcStrides[i];
      blocks.dstStrides.back() = dstStrides[i];
    } else {
      blocks.sizes.push_back(sizes[i]);
      blocks.srcStrides.push_back(srcStrides[i]);
      blocks.dstStrides.push_back(dstStrides[i]);
    }
  }
  if (blocks.sizes.empty()) {
    blocks.sizes = {1};
    blocks.srcStrides = blocks.dstStrides = {1};
  }
  return blocks;
}

FailureOr<dist::ReductionKind> getReduction(shard::ReductionKind kind) {
  switch (kind) {
  case shard::ReductionKind::Sum: return dist::ReductionKind::Sum;
  case shard::ReductionKind::Max: return dist::ReductionKind::Max;
  case shard::ReductionKind::Min: return dist::ReductionKind::Min;
  case shard::ReductionKind::Product: return dist::ReductionKind::Prod;
  case shard::ReductionKind::BitwiseAnd: return dist::ReductionKind::And;
  case shard::ReductionKind::BitwiseOr: return dist::ReductionKind::Or;
  default: return failure();
  }
}

SmallVector<int64_t> shapeOf(Value value, ArrayRef<unsigned> order) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
  return llvm::map_to_vector(order, [&](unsigned d) { return shape[d]; });
}

class Lowering {
public:
  Lowering(OpBuilder &builder, Operation *op, plan::BufferAttr src, plan::BufferAttr dst,
           ArrayRef<unsigned> order, bool byPart)
      : builder(builder), op(op), src(src), dst(dst), order(order), byPart(byPart) {}

  LogicalResult run(function_ref<Value(Value)> scalars);

private:
  plan::CollectiveOp create(plan::CollectiveKind kind, ArrayRef<int64_t> axes, const Blocks &blocks,
                            ValueRange operands = {}) {
    Type element = cast<RankedTensorType>(op->getOperand(0).getType()).getElementType();
    auto array = [&](ArrayRef<int64_t> values) { return builder.getDenseI64ArrayAttr(values); };
    auto made = plan::CollectiveOp::create(
        builder, op->getLoc(), plan::CollectiveKindAttr::get(builder.getContext(), kind), operands,
        array(axes), dist::ReductionKindAttr(), TypeAttr::get(element), src, dst, array(blocks.sizes),
        array(blocks.srcStrides), array(blocks.dstStrides), builder.getI64IntegerAttr(blocks.srcPeer),
        builder.getI64IntegerAttr(blocks.dstPeer), IntegerAttr(), DenseI64ArrayAttr(), FloatAttr(),
        plan::BufferAttr(), op->hasAttr(dist::kStatisticsAttrName) ? builder.getUnitAttr() : UnitAttr());
    return made;
  }

  LogicalResult reduce(plan::CollectiveKind kind, ArrayRef<int16_t> axes, const Blocks &blocks,
                       shard::ReductionKind reduction) {
    FailureOr<dist::ReductionKind> how = getReduction(reduction);
    if (failed(how))
      return op->emitOpError("has a reduction that plans do not have");
    create(kind, widen(axes), blocks)
        .setReductionAttr(dist::ReductionKindAttr::get(builder.getContext(), *how));
    return success();
  }

  static SmallVector<int64_t> widen(ArrayRef<int16_t> axes) {
    return SmallVector<int64_t>(axes.begin(), axes.end());
  }

  OpBuilder &builder;
  Operation *op;
  plan::BufferAttr src, dst;
  ArrayRef<unsigned> order;
  bool byPart;
};

/// Where dimension `dim` lies.
int64_t findPlace(ArrayRef<unsigned> order, const APInt &dim) {
  return llvm::find(order, dim.getZExtValue()) - order.begin();
}

/// Members of the groups along `axes`.
int64_t countMembers(Operation *op, ArrayRef<int16_t> axes) {
  auto mesh = op->getParentOfType<ModuleOp>()->getAttrOfType<dist::MeshAttr>(dist::kMeshAttrName);
  int64_t members = 1;
  for (int16_t axis : axes)
    members *= mesh.getAxisSize(axis);
  return members;
}

LogicalResult Lowering::run(function_ref<Value(Value)> scalars) {
  Value input = op->getOperand(0), result = op->getResult(0);
  SmallVector<int64_t> in = shapeOf(input, order), out = shapeOf(result, order);
  // Parts that stand one behind the other are rows of a matrix.
  auto [srcParts, dstParts] = partsOf(op, order);
  if (byPart) {
    in = {srcParts.count, srcParts.outer * srcParts.inner};
    out = {dstParts.count, dstParts.outer * dstParts.inner};
  }
  auto place = [&](const APInt &dim) { return byPart ? 0 : findPlace(order, dim); };
  if (auto gather = dyn_cast<shard::AllGatherOp>(op)) {
    int64_t dim = place(gather.getGatherAxis());
    Blocks blocks = makeBlocks(in, in, out);
    blocks.dstPeer = in[dim] * getStrides(out)[dim];
    create(plan::CollectiveKind::AllGather, widen(gather.getGridAxes()), blocks);
    return success();
  }
  if (auto allReduce = dyn_cast<shard::AllReduceOp>(op))
    return reduce(plan::CollectiveKind::AllReduce, allReduce.getGridAxes(), makeBlocks(in, in, in),
                  allReduce.getReduction());
  if (auto scatter = dyn_cast<shard::ReduceScatterOp>(op)) {
    int64_t dim = place(scatter.getScatterAxis());
    Blocks blocks = makeBlocks(out, in, out);
    blocks.srcPeer = out[dim] * getStrides(in)[dim];
    return reduce(plan::CollectiveKind::ReduceScatter, scatter.getGridAxes(), blocks, scatter.getReduction());
  }
  if (auto allToAll = dyn_cast<shard::AllToAllOp>(op)) {
    int64_t split = place(allToAll.getSplitAxis()), concat = place(allToAll.getConcatAxis());
    SmallVector<int64_t> block = in;
    // Where split and concat are one, n blocks of the same dimension change places.
    block[split] /= countMembers(op, allToAll.getGridAxes());
    Blocks blocks = makeBlocks(block, in, out);
    blocks.srcPeer = block[split] * getStrides(in)[split];
    blocks.dstPeer = block[concat] * getStrides(out)[concat];
    create(plan::CollectiveKind::AllToAll, widen(allToAll.getGridAxes()), blocks);
    return success();
  }
  if (auto exchange = dyn_cast<dist::ExchangeOp>(op)) {
    int64_t dim = byPart ? 0 : exchange.getDim(), outer = 1, inner = 1;
    for (int64_t d = 0; d < static_cast<int64_t>(in.size()); ++d)
      (d < dim ? outer : inner) *= d == dim ? 1 : in[d];
    Value operands[] = {scalars(exchange.getSrcStart()), scalars(exchange.getSrcValid()),
                        scalars(exchange.getDstStart())};
    auto made = create(plan::CollectiveKind::Exchange, exchange.getAxes(), makeBlocks(in, in, in), operands);
    made.setWindowAttr(builder.getDenseI64ArrayAttr({outer, inner, in[dim], out[dim]}));
    made.setFillAttr(exchange.getFillAttr());
    return success();
  }
  if (auto permute = dyn_cast<dist::PermuteOp>(op)) {
    create(plan::CollectiveKind::Permute, permute.getAxes(), makeBlocks(in, in, in),
           scalars(permute.getSource()));
    return success();
  }
  return op->emitOpError("is no collective");
}

} // namespace

bool isCollective(Operation *op) {
  return isa<shard::AllGatherOp, shard::AllReduceOp, shard::ReduceScatterOp, shard::AllToAllOp,
             dist::ExchangeOp, dist::PermuteOp>(op);
}

bool keepsOrder(Operation *op) {
  return isa<shard::AllGatherOp, shard::AllReduceOp, shard::ReduceScatterOp>(op);
}

std::pair<Parts, Parts> partsOf(Operation *op, ArrayRef<unsigned> order) {
  const SmallVector<int64_t> in = shapeOf(op->getOperand(0), order), out = shapeOf(op->getResult(0), order);
  auto product = [](ArrayRef<int64_t> sizes) {
    int64_t count = 1;
    for (int64_t size : sizes)
      count *= size;
    return count;
  };
  // `count` parts along dimension `dim` of `shape`.
  auto cut = [&](ArrayRef<int64_t> shape, int64_t dim, int64_t count) {
    int64_t outer = product(shape.take_front(dim));
    return Parts{outer, count, product(shape.drop_front(dim)) / std::max<int64_t>(count, 1)};
  };
  auto whole = [&](ArrayRef<int64_t> shape) { return Parts{1, 1, product(shape)}; };
  if (auto gather = dyn_cast<shard::AllGatherOp>(op))
    return {whole(in),
            cut(out, findPlace(order, gather.getGatherAxis()), countMembers(op, gather.getGridAxes()))};
  if (auto scatter = dyn_cast<shard::ReduceScatterOp>(op))
    return {cut(in, findPlace(order, scatter.getScatterAxis()), countMembers(op, scatter.getGridAxes())),
            whole(out)};
  if (auto allToAll = dyn_cast<shard::AllToAllOp>(op)) {
    int64_t members = countMembers(op, allToAll.getGridAxes());
    return {cut(in, findPlace(order, allToAll.getSplitAxis()), members),
            cut(out, findPlace(order, allToAll.getConcatAxis()), members)};
  }
  if (auto exchange = dyn_cast<dist::ExchangeOp>(op))
    return {cut(in, exchange.getDim(), in[exchange.getDim()]),
            cut(out, exchange.getDim(), out[exchange.getDim()])};
  return {whole(in), whole(out)};
}

LogicalResult lowerCollective(OpBuilder &builder, Operation *op, plan::BufferAttr src, plan::BufferAttr dst,
                              ArrayRef<unsigned> order, bool byPart, function_ref<Value(Value)> scalars) {
  return Lowering(builder, op, src, dst, order, byPart).run(scalars);
}

Value buildSliceStart(OpBuilder &builder, Operation *op) {
  auto slice = dyn_cast<shard::AllSliceOp>(op);
  if (!slice)
    return nullptr;
  auto mesh = op->getParentOfType<ModuleOp>()->getAttrOfType<dist::MeshAttr>(dist::kMeshAttrName);
  Location loc = slice.getLoc();
  // The member's rank in the group, row-major over the axes in their order.
  Value member = arith::ConstantIndexOp::create(builder, loc, 0);
  for (int16_t axis : slice.getGridAxes()) {
    Value size = arith::ConstantIndexOp::create(builder, loc, mesh.getAxisSize(axis));
    Value coordinate =
        dist::CoordinateOp::create(builder, loc, builder.getIndexType(), builder.getI64IntegerAttr(axis));
    member =
        arith::AddIOp::create(builder, loc, arith::MulIOp::create(builder, loc, member, size), coordinate);
  }
  const int64_t dim = slice.getSliceAxis().getSExtValue();
  Value chunk = arith::ConstantIndexOp::create(builder, loc, slice.getResult().getType().getShape()[dim]);
  return arith::MulIOp::create(builder, loc, member, chunk);
}

} // namespace colossal::schedule
