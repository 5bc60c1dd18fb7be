// An implicit contraction over channels and window: places of the result are rows, out channels columns,
// groups a batch. Windows overlap in memory; nothing is copied for them.
#include "Convolution.h"

#include "Contraction.h"
#include "GroupedConvolution.h"
#include "LibraryConvolution.h"
#include "TensorCores.h"
#include "dialects/Colossal/Convolution/TransposedConvolution.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;
using namespace colossal::schedule;

namespace {

/// Marks a convolution that prepareConvolutions has left without bias and padding.
constexpr llvm::StringLiteral preparedName = "cuda.contraction";

struct Pads {
  SmallVector<int64_t> low, high;
  bool any() const {
    return llvm::any_of(low, [](int64_t pad) { return pad != 0; }) ||
           llvm::any_of(high, [](int64_t pad) { return pad != 0; });
  }
};

/// What makes the windows fit, by spatial dimension; nothing where the input is cropped.
std::optional<Pads> padsOf(ConvOp op) {
  ArrayRef<int64_t> input = shapeOf(op.getInput()), weight = shapeOf(op.getWeight()),
                    result = shapeOf(op.getResult());
  Pads pads;
  for (unsigned d = 0; d + 2 < input.size(); ++d) {
    const int64_t window = op.getDilations()[d] * (weight[d + 2] - 1) + 1,
                  covered = (result[d + 2] - 1) * op.getStrides()[d] + window, low = op.getPads()[d];
    if (low < 0)
      return std::nullopt;
    pads.low.push_back(low);
    pads.high.push_back(std::max<int64_t>(0, covered - input[d + 2] - low));
  }
  return pads;
}

bool hasElements(Value tensor) {
  return tensorOf(tensor).getNumElements() != 0;
}

bool isComputed(ConvOp op) {
  Type element = elementTypeOf(op.getResult());
  const int64_t group = op.getGroup();
  return (group == 1 || tensorOf(op.getResult()).getDimSize(1) / group >= contractedChannels) &&
         (element.isF32() || element.isF64() || element.isF16() || element.isBF16()) &&
         hasElements(op.getResult()) && hasElements(op.getInput());
}

/// Windows of one element, next to each other: the places are those of the input.
bool isPointwise(ConvOp op, const Pads &pads) {
  auto isOne = [](int64_t size) { return size == 1; };
  return op.getGroup() == 1 && !pads.any() && llvm::all_of(shapeOf(op.getWeight()).drop_front(2), isOne) &&
         llvm::all_of(op.getStrides(), isOne);
}

Value makePadded(OpBuilder &b, ConvOp op, const Pads &pads) {
  if (!pads.any())
    return op.getInput();
  RankedTensorType type = tensorOf(op.getInput());
  SmallVector<int64_t> shape(type.getShape()), begin(shape.size(), 0);
  for (unsigned d = 0; d < pads.low.size(); ++d) {
    shape[d + 2] += pads.low[d] + pads.high[d];
    begin[d + 2] = pads.low[d];
  }
  auto padded =
      PadOp::create(b, op.getLoc(), type.clone(shape), op.getInput(), Value(), begin, PadMode::Constant);
  padded->setAttr(kRoomAttrName, b.getUnitAttr()); // what computes the input may do it right there
  return padded.getResult();
}

Value makePointwise(OpBuilder &b, ConvOp op) {
  RankedTensorType weight = tensorOf(op.getWeight());
  Value matrix = ReshapeOp::create(b, op.getLoc(), weight.clone({weight.getDimSize(0), weight.getDimSize(1)}),
                                   op.getWeight());
  // Labels: images, out channels, places, and in channels.
  const int64_t rank = tensorOf(op.getInput()).getRank(), channels = rank;
  SmallVector<int64_t> input, result;
  for (int64_t d = 0; d < rank; ++d) {
    input.push_back(d == 1 ? channels : d);
    result.push_back(d);
  }
  return ContractOp::create(b, op.getLoc(), op.getResult().getType(), matrix, op.getInput(),
                            ArrayRef<int64_t>{1, channels}, input, result);
}

/// `sums` with a bias along the channels in the place of `op`.
void replaceWith(OpBuilder &b, Operation *op, Value bias, Value sums) {
  if (bias) {
    RankedTensorType type = tensorOf(op->getResult(0));
    SmallVector<int64_t> shape(type.getRank() - 1, 1);
    shape[0] = type.getDimSize(1);
    Value channels = ReshapeOp::create(b, op->getLoc(), type.clone(shape), bias);
    sums = ElementwiseOp::create(b, op->getLoc(), type, ElementwiseKind::Add, ValueRange{sums, channels},
                                 DenseF64ArrayAttr());
  }
  op->getResult(0).replaceAllUsesWith(sums);
  op->erase();
}

/// Transposed convolutions become others, or products, of the parts of the result that see the same taps.
void composeTransposed(func::FuncOp function) {
  SmallVector<ConvTransposeOp> transposed;
  function.walk([&](ConvTransposeOp op) { transposed.push_back(op); });
  for (ConvTransposeOp op : transposed) {
    if (!hasElements(op.getResult()) || !hasElements(op.getInput()))
      continue;
    OpBuilder b(op);
    OpComposer ops(b, op.getLoc());
    if (Value sums = composeTransposedConvolution(ops, op))
      replaceWith(b, op, op.getBias(), sums);
  }
}

} // namespace

void nvidia::prepareConvolutions(func::FuncOp function, bool byLibrary) {
  composeTransposed(function);
  SmallVector<ConvOp> convolutions;
  function.walk([&](ConvOp op) { convolutions.push_back(op); });
  for (ConvOp op : convolutions) {
    auto pads = padsOf(op);
    const bool isProduct = pads && isComputed(op) && isPointwise(op, *pads);
    if (byLibrary && !isProduct && leaveToLibrary(op))
      continue;
    if (!pads || !isComputed(op))
      continue;
    OpBuilder b(op);
    RankedTensorType type = tensorOf(op.getResult());
    Value result;
    if (isProduct) {
      result = makePointwise(b, op);
    } else {
      auto product = ConvOp::create(b, op.getLoc(), type, makePadded(b, op, *pads), op.getWeight(), Value(),
                                    op.getStrides(), op.getDilations(),
                                    SmallVector<int64_t>(2 * pads->low.size(), 0), op.getGroup());
      product->setAttr(preparedName, b.getUnitAttr());
      result = product.getResult();
    }
    replaceWith(b, op, op.getBias(), result);
  }
}

LogicalResult nvidia::lowerConvolution(const BlockTeam &team, LoweringContext &context, FusionGroup &group) {
  auto op = dyn_cast<ConvOp>(group.routine);
  if (op && isOfLibrary(op))
    return callConvolution(context, group);
  if (op && isGrouped(op))
    return lowerGrouped(team, context, group);
  if (!op || !op->hasAttr(preparedName) || group.ops.size() != 1)
    return context.lowerSeparately(group);
  auto a = context.viewOf(op.getInput()), b = context.viewOf(op.getWeight());
  if (failed(a) || failed(b))
    return failure();
  View c = context.allocate(op.getResult(), /*inside=*/true);
  context.setView(op.getResult(), c);
  ArrayRef<int64_t> result = shapeOf(op.getResult()), weight = shapeOf(op.getWeight());
  ContractionShape shape;
  shape.aType = shape.bType = shape.cType = elementTypeOf(op.getResult());
  shape.isRounded = roundsToTf32(op);
  shape.accumulate = shape.cType.isF64() ? shape.cType : Float32Type::get(context.mlirContext());
  auto add = [](SmallVector<ContractionDim> &dims, ContractionDim dim) {
    if (dim.size != 1)
      dims.push_back(dim);
  };
  add(shape.m, {result[0], a->strides[0], 0, c.strides[0]});
  const int64_t groups = op.getGroup(), columns = result[1] / groups;
  add(shape.batch, {groups, weight[1] * a->strides[1], columns * b->strides[0], columns * c.strides[1]});
  add(shape.n, {columns, 0, b->strides[0], c.strides[1]});
  add(shape.k, {weight[1], a->strides[1], b->strides[1], 0});
  for (unsigned d = 0; d + 2 < result.size(); ++d) {
    add(shape.m, {result[d + 2], a->strides[d + 2] * op.getStrides()[d], 0, c.strides[d + 2]});
    add(shape.k, {weight[d + 2], a->strides[d + 2] * op.getDilations()[d], b->strides[d + 2], 0});
  }
  KernelKey key(2u);
  key.add(op.getOperation()).add(op.getInput().getType()).add(op.getWeight().getType());
  key.add(a->strides).add(b->strides).add(c.strides);
  std::string problem;
  const CachedKernel *kernel =
      context.getKernel(key, "convolve", problem, [&]() -> llvm::Expected<kernel::GeneratedKernel> {
        return generateContraction(*context.mlirContext(), team, shape);
      });
  auto product = [](ArrayRef<ContractionDim> dims) {
    int64_t size = 1;
    for (const ContractionDim &dim : dims)
      size *= dim.size;
    return size;
  };
  context.launch(
      *kernel,
      {context.accessOf(*a, tensorOf(op.getInput()), false),
       context.accessOf(*b, tensorOf(op.getWeight()), false),
       context.accessOf(c, tensorOf(op.getResult()), true)},
      1, {}, op.getLoc(),
      Work{Work::Kind::Convolution, groups, product(shape.m), product(shape.n), product(shape.k), 0});
  return success();
}
