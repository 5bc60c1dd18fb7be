//===- Normalize.cpp - one form for what exporters write in many ------------===//
//
// Movement ops composed and dropped, broadcasts left to the ops that broadcast by themselves, computed places
// that are affine read as slices. What remains is what the patterns are written against.
//
//===----------------------------------------------------------------------===//
#include "Matching.h"
#include "Patterns.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace colossal {

namespace {

bool isIdentity(ArrayRef<int64_t> permutation) {
  return llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size()));
}

struct ComposeReshapes : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<ReshapeOp>();
    if (!inner)
      return failure();
    GraphBuilder b(rewriter, op.getLoc());
    rewriter.replaceOp(op, b.reshape(inner.getInput(), GraphBuilder::shapeOf(op.getResult())));
    return success();
  }
};

struct ComposeTransposes : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<TransposeOp>();
    if (!inner)
      return failure();
    SmallVector<int64_t> permutation;
    for (int64_t d : op.getPermutation())
      permutation.push_back(inner.getPermutation()[d]);
    GraphBuilder b(rewriter, op.getLoc());
    rewriter.replaceOp(op, isIdentity(permutation) ? inner.getInput()
                                                   : b.transpose(inner.getInput(), permutation));
    return success();
  }
};

struct ComposeSlices : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<SliceOp>();
    if (!inner)
      return failure();
    SmallVector<int64_t> starts, steps;
    for (auto [start, step, innerStart, innerStep] :
         llvm::zip(op.getStarts(), op.getSteps(), inner.getStarts(), inner.getSteps())) {
      starts.push_back(innerStart + start * innerStep);
      steps.push_back(step * innerStep);
    }
    GraphBuilder b(rewriter, op.getLoc());
    rewriter.replaceOp(op, b.slice(inner.getInput(), starts, GraphBuilder::shapeOf(op.getResult()), steps));
    return success();
  }
};

/// reshape(transpose(reshape(x))) in which the outer reshapes merge leading dimensions and split them again:
/// a transpose of the trailing dimensions. Exporters transpose keys that way.
struct TransposeInsideReshapes : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto transpose = op.getInput().getDefiningOp<TransposeOp>();
    auto merge = transpose ? transpose.getInput().getDefiningOp<ReshapeOp>() : ReshapeOp();
    if (!merge)
      return failure();
    auto from = GraphBuilder::shapeOf(merge.getInput()), to = GraphBuilder::shapeOf(op.getResult());
    auto mid = GraphBuilder::shapeOf(merge.getResult());
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    if (mid.size() < 2 || permutation[0] != 0 || from.size() != to.size() || from.size() < mid.size())
      return failure();
    size_t lead = from.size() - (mid.size() - 1);
    if (from.drop_front(lead) != mid.drop_front(1) || from.take_front(lead) != to.take_front(lead))
      return failure();
    SmallVector<int64_t> full = llvm::to_vector(llvm::seq<int64_t>(0, lead));
    for (int64_t d : permutation.drop_front(1))
      full.push_back(d - 1 + lead);
    for (size_t d = 0; d < full.size(); ++d)
      if (from[full[d]] != to[d])
        return failure();
    GraphBuilder b(rewriter, fuseLocations(op.getLoc(), {merge.getResult(), transpose.getResult()}));
    rewriter.replaceOp(op, b.transpose(merge.getInput(), full));
    return success();
  }
};

/// A broadcast that changes no size but adds dimensions of size 1 is a reshape.
struct BroadcastToReshape : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BroadcastOp op, PatternRewriter &rewriter) const override {
    auto from = GraphBuilder::typeOf(op.getInput()), to = GraphBuilder::typeOf(op.getResult());
    if (auto inner = op.getInput().getDefiningOp<BroadcastOp>()) {
      rewriter.modifyOpInPlace(op, [&] { op.getInputMutable().assign(inner.getInput()); });
      return success();
    }
    if (from.getNumElements() != to.getNumElements())
      return failure();
    GraphBuilder b(rewriter, op.getLoc());
    rewriter.replaceOp(op, b.reshape(op.getInput(), to.getShape()));
    return success();
  }
};

/// Elementwise ops broadcast by themselves: a broadcast operand is read before its broadcast; where that
/// makes the result smaller, the result is broadcast instead.
struct BroadcastAfterElementwise : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    SmallVector<Value> inputs(op.getInputs());
    bool changed = false;
    for (Value &input : inputs)
      if (auto broadcast = input.getDefiningOp<BroadcastOp>()) {
        input = broadcast.getInput();
        changed = true;
      }
    if (!changed)
      return failure();
    SmallVector<int64_t> shape;
    for (Value input : inputs)
      shape = *broadcastShapes(shape, GraphBuilder::shapeOf(input));
    auto full = GraphBuilder::typeOf(op.getResult());
    auto type = RankedTensorType::get(shape, full.getElementType());
    GraphBuilder b(rewriter, op.getLoc());
    Value result =
        ElementwiseOp::create(rewriter, op.getLoc(), type, op.getKind(), inputs, op.getParamsAttr());
    rewriter.replaceOp(op, b.broadcast(result, full.getShape()));
    return success();
  }
};

/// x * 1, x / 1, true and x, false or x.
struct DropNeutral : OpRewritePattern<ElementwiseOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOp op, PatternRewriter &rewriter) const override {
    double neutral;
    switch (op.getKind()) {
    case ElementwiseKind::Mul:
    case ElementwiseKind::Div:
    case ElementwiseKind::And: neutral = 1; break;
    case ElementwiseKind::Or: neutral = 0; break;
    default: return failure();
    }
    for (unsigned i : {1, 0}) {
      Value other = op.getInputs()[1 - i];
      if ((op.getKind() == ElementwiseKind::Div && i == 0) || matchSplat(op.getInputs()[i]) != neutral)
        continue;
      GraphBuilder b(rewriter, op.getLoc());
      rewriter.replaceOp(op, b.broadcast(other, GraphBuilder::shapeOf(op.getResult())));
      return success();
    }
    return failure();
  }
};

/// Reads at affine places are slices, which dimensions that the places do not depend on repeat: positions
/// that are written out for each sequence of a batch. Places outside stay as they are (an error at run time).
struct GatherToSlice : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter &rewriter) const override {
    auto places = matchAffine(op.getIndices());
    auto shape = GraphBuilder::shapeOf(op.getIndices());
    if (!places || op.getOffset())
      return failure();
    const int64_t axis = op.getAxis();
    int64_t moving = -1, count = 1;
    SmallVector<int64_t> once(GraphBuilder::shapeOf(op.getResult()));
    for (auto [d, size] : llvm::enumerate(shape)) {
      if (size == 0)
        return failure();
      if (places->coefficients[d] == 0)
        once[axis + d] = 1;
      if (size == 1 || places->coefficients[d] == 0)
        continue;
      if (moving >= 0)
        return failure();
      moving = d;
      count = size;
    }
    int64_t step = moving < 0 ? 1 : places->coefficients[moving];
    int64_t size = GraphBuilder::shapeOf(op.getData())[axis], first = places->constant,
            last = first + step * (count - 1);
    if (std::max(first, last) < 0) { // counted from the end
      first += size;
      last += size;
    }
    if (std::min(first, last) < 0 || std::max(first, last) >= size)
      return failure();
    SmallVector<int64_t> starts(GraphBuilder::rankOf(op.getData()), 0), steps(starts.size(), 1);
    SmallVector<int64_t> sizes(GraphBuilder::shapeOf(op.getData()));
    starts[axis] = first;
    steps[axis] = step;
    sizes[axis] = count;
    GraphBuilder b(rewriter, op.getLoc());
    Value sliced = b.slice(op.getData(), starts, sizes, steps);
    rewriter.replaceOp(op, b.broadcast(b.reshape(sliced, once), GraphBuilder::shapeOf(op.getResult())));
    return success();
  }
};

/// Reads of a flattened tensor at row-major places, data[(i * n + j) + c]: the tensor unflattened, and
/// sliced.
struct FlatGatherToSlice : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter &rewriter) const override {
    auto places = matchAffine(op.getIndices());
    auto shape = GraphBuilder::shapeOf(op.getIndices());
    int64_t axis = op.getAxis(), size = GraphBuilder::shapeOf(op.getData())[axis];
    if (!places || op.getOffset() || places->constant < 0)
      return failure();
    // Strides of the unflattened dimensions, outermost first.
    SmallVector<int64_t> strides, counts;
    for (auto [d, count] : llvm::enumerate(shape)) {
      if (count == 1)
        continue;
      int64_t stride = places->coefficients[d];
      if (stride <= 0 || count == 0 ||
          (!strides.empty() && (strides.back() <= stride || strides.back() % stride)))
        return failure();
      strides.push_back(stride);
      counts.push_back(count);
    }
    if (strides.size() < 2 || strides.back() != 1 || size % strides.front())
      return failure();
    auto data = GraphBuilder::shapeOf(op.getData());
    SmallVector<int64_t> apart(data.take_front(axis)), starts(axis, 0), sizes(apart);
    int64_t outer = size, rest = places->constant;
    for (auto [stride, count] : llvm::zip(strides, counts)) {
      apart.push_back(outer / stride);
      starts.push_back(rest / stride);
      sizes.push_back(count);
      if (starts.back() + count > apart.back())
        return failure();
      outer = stride;
      rest %= stride;
    }
    llvm::append_range(apart, data.drop_front(axis + 1));
    starts.append(data.size() - axis - 1, 0);
    llvm::append_range(sizes, data.drop_front(axis + 1));
    GraphBuilder b(rewriter, op.getLoc());
    Value sliced = b.slice(b.reshape(op.getData(), apart), starts, sizes);
    rewriter.replaceOp(op, b.reshape(sliced, GraphBuilder::shapeOf(op.getResult())));
    return success();
  }
};

/// A gather_nd whose tuples are affine, one dimension each: a slice, transposed and broadcast. That is how
/// exporters write mask[batch, key] for all heads and queries.
struct GatherNDToBroadcast : OpRewritePattern<GatherNDOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherNDOp op, PatternRewriter &rewriter) const override {
    auto shape = GraphBuilder::shapeOf(op.getResult()), data = GraphBuilder::shapeOf(op.getData());
    int64_t depth = GraphBuilder::shapeOf(op.getIndices()).back();
    if (op.getBatchDims() != 0 || depth != int64_t(data.size()))
      return failure();
    SmallVector<Affine> parts;
    if (!collectParts(op.getIndices(), parts) || int64_t(parts.size()) != depth)
      return failure();
    SmallVector<int64_t> starts, sizes, dims;
    for (auto [k, part] : llvm::enumerate(parts)) {
      int64_t moving = -1;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] == 1 || part.coefficients[d] == 0)
          continue;
        if (moving >= 0 || part.coefficients[d] != 1 || llvm::is_contained(dims, int64_t(d)))
          return failure();
        moving = d;
      }
      starts.push_back(part.constant);
      sizes.push_back(moving < 0 ? 1 : shape[moving]);
      dims.push_back(moving);
      if (part.constant < 0 || part.constant + sizes.back() > data[k])
        return failure();
    }
    GraphBuilder b(rewriter, op.getLoc());
    Value result = b.slice(op.getData(), starts, sizes);
    // Data dimensions in the order of the result's dimensions that they run along.
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, depth)), placed(shape.size(), 1);
    llvm::stable_sort(order, [&](int64_t i, int64_t j) { return dims[i] < dims[j]; });
    for (int64_t k = 0; k < depth; ++k)
      if (dims[k] >= 0)
        placed[dims[k]] = sizes[k];
    if (!isIdentity(order))
      result = b.transpose(result, order);
    rewriter.replaceOp(op, b.broadcast(b.reshape(result, placed), shape));
    return success();
  }

private:
  /// The tuple's components as functions of the index without its last dimension.
  static bool collectParts(Value indices, SmallVectorImpl<Affine> &parts) {
    SmallVector<Value> pieces = {indices};
    auto concat = indices.getDefiningOp<ConcatOp>();
    if (concat && int64_t(concat.getAxis()) == GraphBuilder::rankOf(indices) - 1)
      pieces.assign(concat.getInputs().begin(), concat.getInputs().end());
    return llvm::all_of(pieces, [&](Value piece) { return matchTuples(piece, parts); });
  }
};

/// Whether a function of an index of `shape` is its part `dim`, `step` times.
bool isPart(const Affine &function, ArrayRef<int64_t> shape, int64_t dim, int64_t step) {
  if (function.constant != 0)
    return false;
  for (auto [d, size] : llvm::enumerate(shape))
    if (size > 1 && function.coefficients[d] != (int64_t(d) == dim ? step : 0))
      return false;
  return true;
}

/// A gather_nd whose first part of each tuple is the row of the tuple itself, data[row, place[row]]: rows are
/// a dimension of the batch, and each looks into its own. That is how exporters take the last token of every
/// sequence.
struct GatherNDOfOwnRows : OpRewritePattern<GatherNDOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherNDOp op, PatternRewriter &rewriter) const override {
    const int64_t batch = op.getBatchDims(), last = GraphBuilder::rankOf(op.getIndices()) - 1;
    const ArrayRef<int64_t> data = GraphBuilder::shapeOf(op.getData()),
                            shape = GraphBuilder::shapeOf(op.getIndices());
    auto concat = op.getIndices().getDefiningOp<ConcatOp>();
    if (!concat || int64_t(concat.getAxis()) != last || batch >= last || shape[batch] != data[batch])
      return failure();
    const ValueRange pieces = concat.getInputs();
    if (pieces.size() < 2 || GraphBuilder::shapeOf(pieces.front()).back() != 1)
      return failure();
    const auto rows = matchAffine(pieces.front());
    if (!rows || !isPart(*rows, shape.take_front(last), batch, 1))
      return failure();
    GraphBuilder b(rewriter, op.getLoc());
    rewriter.replaceOp(op, b.gatherND(op.getData(), b.concat(pieces.drop_front(), last), batch + 1));
    return success();
  }
};

/// The rows that a gather_nd chooses by one index each, as a gather.
struct GatherNDToGather : OpRewritePattern<GatherNDOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherNDOp op, PatternRewriter &rewriter) const override {
    const ArrayRef<int64_t> shape = GraphBuilder::shapeOf(op.getIndices());
    if (op.getBatchDims() != 0 || shape.back() != 1)
      return failure();
    GraphBuilder b(rewriter, op.getLoc());
    rewriter.replaceOp(op, b.gather(op.getData(), b.reshape(op.getIndices(), shape.drop_back()), 0));
    return success();
  }
};

/// Whether each element of `value` is an index of a dimension of `size` elements, without a sign: what
/// arg_reduce gives.
bool indexesFromBegin(Value value, int64_t size) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto found = dyn_cast<ArgReduceOp>(op))
      return GraphBuilder::shapeOf(found.getInput())[found.getAxis()] <= size;
    auto cast = dyn_cast<ElementwiseOp>(op);
    if (!isa<ReshapeOp>(op) && !(cast && cast.getKind() == ElementwiseKind::Cast))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

/// Reads of flattened rows in which each row looks into its own, data[row * n + place[row]]: rows are a
/// dimension of the batch. That is how torchscript exports the last token of every sequence.
struct FlatGatherOfOwnRows : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter &rewriter) const override {
    auto flat = op.getData().getDefiningOp<ReshapeOp>();
    auto sum = op.getIndices().getDefiningOp<ElementwiseOp>();
    if (!flat || !sum || sum.getKind() != ElementwiseKind::Add || op.getAxis() != 0 || op.getOffset())
      return failure();
    const ArrayRef<int64_t> apart = GraphBuilder::shapeOf(flat.getInput()),
                            data = GraphBuilder::shapeOf(op.getData()),
                            shape = GraphBuilder::shapeOf(op.getIndices());
    if (shape.empty() || apart.size() < 2 || apart[0] != shape[0] || apart[0] < 2 ||
        apart.drop_front(2) != data.drop_front(1))
      return failure();
    for (unsigned i : {0, 1}) {
      Value row = sum.getInputs()[i], place = sum.getInputs()[1 - i];
      if (GraphBuilder::rankOf(row) != int64_t(shape.size()) || !indexesFromBegin(place, apart[1]))
        continue;
      const auto rows = matchAffine(row);
      if (!rows || !isPart(*rows, shape, 0, apart[1]))
        continue;
      GraphBuilder b(rewriter, op.getLoc());
      SmallVector<int64_t> tuples(shape);
      tuples.push_back(1);
      rewriter.replaceOp(op, b.gatherND(flat.getInput(), b.reshape(b.broadcast(place, shape), tuples), 1));
      return success();
    }
    return failure();
  }
};

/// A parameter that is transposed to be contracted is contracted as it lies: an order of labels.
struct ContractTransposedParameter : OpRewritePattern<ContractOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ContractOp op, PatternRewriter &rewriter) const override {
    auto transpose = op.getRhs().getDefiningOp<TransposeOp>();
    if (!transpose || !transpose.getInput().getDefiningOp<ParameterOp>())
      return failure();
    SmallVector<int64_t> labels(op.getRhsDims().size());
    for (auto [i, from] : llvm::enumerate(transpose.getPermutation()))
      labels[from] = op.getRhsDims()[i];
    rewriter.modifyOpInPlace(op, [&] {
      op.getRhsMutable().assign(transpose.getInput());
      op.setRhsDims(labels);
    });
    return success();
  }
};

} // namespace

void populateNormalizePatterns(RewritePatternSet &patterns) {
  patterns.add<ComposeReshapes, ComposeTransposes, ComposeSlices, TransposeInsideReshapes, BroadcastToReshape,
               BroadcastAfterElementwise, DropNeutral, GatherToSlice, FlatGatherToSlice, GatherNDToBroadcast,
               GatherNDOfOwnRows, GatherNDToGather, FlatGatherOfOwnRows, ContractTransposedParameter>(
      patterns.getContext());
}

} // namespace colossal
