//===- ConvolutionContraction.cpp - convolutions as contractions ------------===//
//
// A convolution over a padded input is a contraction over (kernel, channels) whose left side is read in
// place: windows overlap in memory, so that no im2col copy is made. Its kernel is generated like that of any
// other contraction, with any epilogue and any type. What follows it writes straight into the padded input of
// the next one.
//
// Measured (ResNet-50, batch 1, one thread): the library's kernels read weights from memory when they need
// them, ours fetch the next panel while one is used; see docs/Performance.md.
//
//===----------------------------------------------------------------------===//
#include "Lowerings.h"
#include "dialects/Dist/State.h"

#include <numeric>

using namespace mlir;
using namespace colossal;
using namespace colossal::cpu;
using namespace colossal::schedule;

/// Marks a convolution without bias and padding that is lowered as a contraction.
static constexpr StringLiteral kContraction = "cpu.contraction";

/// Marks one of those whose weight's windows are read from their last element to the first.
static constexpr StringLiteral kReversed = "cpu.reversed";

bool cpu::isContraction(Operation *op) {
  return isa<ContractOp>(op) || (isa<ConvOp>(op) && op->hasAttr(kContraction));
}

/// Low and high pads per spatial dimension that make the convolution's windows fit; none where the input is
/// cropped.
static std::optional<std::pair<SmallVector<int64_t>, SmallVector<int64_t>>> windowPads(ConvOp op) {
  ArrayRef<int64_t> input = shapeOf(op.getInput()), weight = shapeOf(op.getWeight()),
                    result = shapeOf(op.getResult());
  SmallVector<int64_t> low, high;
  for (unsigned d = 0; d + 2 < input.size(); ++d) {
    int64_t window = op.getDilations()[d] * (weight[d + 2] - 1) + 1;
    int64_t covered = (result[d + 2] - 1) * op.getStrides()[d] + window;
    low.push_back(op.getPads()[d]);
    high.push_back(std::max<int64_t>(0, covered - input[d + 2] - low.back()));
    if (low.back() < 0)
      return std::nullopt;
  }
  return std::make_pair(low, high);
}

/// The weight whose windows `weight` has in reverse, as the gradient of a convolution's input asks for them;
/// null where it has not.
static Value reversedWeight(Value weight) {
  SmallVector<bool> isReversed(tensorOf(weight).getRank(), false);
  while (auto slice = weight.getDefiningOp<SliceOp>()) {
    if (slice.getInput().getType() != slice.getType())
      return {};
    for (unsigned d = 0; d < isReversed.size(); ++d)
      if (slice.getSteps()[d] == -1)
        isReversed[d] = !isReversed[d];
    weight = slice.getInput();
  }
  for (auto [d, size] : llvm::enumerate(shapeOf(weight)))
    if (isReversed[d] != (d >= 2 && size != 1))
      return {};
  return weight;
}

void cpu::prepareConvolutions(func::FuncOp function) {
  SmallVector<ConvOp> convolutions;
  function.walk([&](ConvOp op) { convolutions.push_back(op); });
  for (ConvOp op : convolutions) {
    RankedTensorType inputType = tensorOf(op.getInput()), resultType = tensorOf(op.getResult());
    Type element = resultType.getElementType();
    unsigned spatial = inputType.getRank() - 2;
    auto pads = windowPads(op);
    // Groups of few channels leave most lanes of a panel empty.
    if (op.getGroup() != 1 || spatial < 1 || spatial > 3 || !pads || !isa<FloatType>(element) ||
        element != inputType.getElementType() || resultType.getNumElements() == 0 ||
        inputType.getNumElements() == 0)
      continue;
    OpBuilder b(op);
    Location loc = op.getLoc();
    Value input = op.getInput();
    auto [low, high] = *pads;
    if (llvm::any_of(low, [](int64_t p) { return p != 0; }) ||
        llvm::any_of(high, [](int64_t p) { return p != 0; })) {
      SmallVector<int64_t> shape(inputType.getShape()), begin(shape.size(), 0);
      for (unsigned d = 0; d < spatial; ++d) {
        shape[d + 2] += low[d] + high[d];
        begin[d + 2] = low[d];
      }
      auto pad = PadOp::create(b, loc, inputType.clone(shape), input, Value(), begin, PadMode::Constant);
      pad->setAttr(kRoomAttrName, b.getUnitAttr());
      input = pad.getResult();
    }
    Value weight = op.getWeight(), reversed = reversedWeight(weight);
    auto product =
        ConvOp::create(b, loc, resultType, input, reversed ? reversed : weight, Value(), op.getStrides(),
                       op.getDilations(), SmallVector<int64_t>(2 * spatial, 0), 1);
    product->setAttr(kContraction, b.getUnitAttr());
    if (reversed && reversed != weight)
      product->setAttr(kReversed, b.getUnitAttr());
    Value result = product.getResult();
    if (op.getBias()) {
      SmallVector<int64_t> shape(inputType.getRank() - 1, 1);
      shape[0] = resultType.getDimSize(1);
      Value bias = ReshapeOp::create(b, loc, resultType.clone(shape), op.getBias());
      result = ElementwiseOp::create(b, loc, resultType, ElementwiseKind::Add, ValueRange{result, bias},
                                     DenseF64ArrayAttr());
    }
    op.getResult().replaceAllUsesWith(result);
    op.erase();
    while (auto slice = weight.getDefiningOp<SliceOp>()) {
      if (!slice->use_empty())
        break;
      weight = slice.getInput();
      slice.erase();
    }
  }
}

/// Elements of the longest run along the k dimensions (channels and window) that lie next to each other.
static int64_t innerRun(ConvOp op, const View &view) {
  SmallVector<std::pair<int64_t, int64_t>> dims{{view.strides[1], shapeOf(op.getInput())[1]}};
  for (unsigned d = 0; d + 2 < view.strides.size(); ++d)
    dims.push_back({view.strides[d + 2] * op.getDilations()[d], shapeOf(op.getWeight())[d + 2]});
  llvm::sort(dims);
  int64_t run = 1;
  for (auto [stride, size] : dims)
    if (size != 1 && stride == run)
      run *= size;
  return run;
}

/// Whether the dimension along which the result lies in memory is one of the left side alone.
static bool followsLeft(ContractOp op, LoweringContext &context) {
  ArrayRef<int64_t> shape = shapeOf(op.getResult());
  for (auto [size, stride, label] :
       llvm::zip_equal(shape, context.stridesInOrder(op.getResult()), op.getResultDims()))
    if (size != 1 && stride == 1)
      return llvm::is_contained(op.getLhsDims(), label) && !llvm::is_contained(op.getRhsDims(), label);
  return false;
}

bool cpu::hasPlacesAsColumns(const CpuTarget &target, ConvOp op) {
  if (winogradOfFilter(target, op))
    return true;
  // Of more, storing the sums is a small part.
  constexpr int64_t fewProducts = 512;
  ArrayRef<int64_t> window = shapeOf(op.getWeight()).drop_front(1),
                    places = shapeOf(op.getResult()).drop_front(2);
  auto count = [](ArrayRef<int64_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
  };
  return op.getGroup() == 1 && op.getWeight().getDefiningOp<TransposeOp>() && count(window) < fewProducts &&
         count(places) < count(window.drop_front(1));
}

FailureOr<ContractionOperands> cpu::operandsOf(const CpuTarget &target, Operation *op,
                                               LoweringContext &context) {
  ContractionOperands operands;
  if (auto contract = dyn_cast<ContractOp>(op)) {
    operands.lhs = contract.getLhs(), operands.rhs = contract.getRhs();
    operands.lhsDims.assign(contract.getLhsDims().begin(), contract.getLhsDims().end());
    operands.rhsDims.assign(contract.getRhsDims().begin(), contract.getRhsDims().end());
    operands.resultDims.assign(contract.getResultDims().begin(), contract.getResultDims().end());
    // The weight stands on the right, where it can be packed, or else what the result's rows follow, so that
    // vectors are stored whole.
    auto isWeight = [&](Value side) { return !context.isLoad() && context.isLoadable(side); };
    const bool isLeftWeight = isWeight(operands.lhs);
    if (isLeftWeight != isWeight(operands.rhs) ? isLeftWeight : followsLeft(contract, context)) {
      std::swap(operands.lhs, operands.rhs);
      std::swap(operands.lhsDims, operands.rhsDims);
    }
    operands.lhsType = tensorOf(operands.lhs);
    operands.rhsType = tensorOf(operands.rhs);
  } else {
    // Labels: 0 batch, 1 in channels, 2 out channels, then per spatial dimension the window's place and its
    // element.
    auto convolution = cast<ConvOp>(op);
    operands.lhs = convolution.getInput(), operands.rhs = convolution.getWeight();
    ArrayRef<int64_t> result = shapeOf(convolution.getResult()), weight = shapeOf(operands.rhs);
    SmallVector<int64_t> shape{result[0], weight[1]};
    operands.lhsDims = {0, 1}, operands.rhsDims = {2, 1}, operands.resultDims = {0, 2};
    for (unsigned d = 0; d + 2 < result.size(); ++d) {
      int64_t where = 3 + 2 * d, element = where + 1;
      operands.lhsDims.append({where, element});
      operands.rhsDims.push_back(element);
      operands.resultDims.push_back(where);
      shape.append({result[d + 2], weight[d + 2]});
    }
    operands.lhsType = tensorOf(operands.lhs).clone(shape);
    operands.rhsType = tensorOf(operands.rhs);
    operands.reversed = op->hasAttr(kReversed);
  }
  // A step reads a weight that stays as it is in two ways, forward and for its input's gradient, each of
  // which would have a packed copy: both read the one that there is, as they do those that are trained.
  operands.packs = !dist::getTraining(op) && !context.isLoad() && context.isLoadable(operands.rhs) &&
                   !context.isLoadable(operands.lhs);
  LoweringContext &right = operands.packs ? context.load() : context;
  auto a = context.viewOf(operands.lhs), b = right.viewOf(operands.rhs);
  if (failed(a) || failed(b))
    return failure();
  operands.a = *a, operands.b = *b;
  if (auto convolution = dyn_cast<ConvOp>(op)) {
    RankedTensorType type = tensorOf(operands.lhs);
    // Runs shorter than a line of the cache would be gathered again for every panel.
    const bool isSwapped = !operands.packs && hasPlacesAsColumns(target, convolution);
    if (!isSwapped && innerRun(convolution, operands.a) < std::min<int64_t>(16, type.getDimSize(1))) {
      View turned{context.newStorage(byteSize(type)), 0, channelsLastStrides(type.getShape())};
      if (failed(context.copy(operands.a, type, turned, op->getLoc())))
        return failure();
      operands.a = turned;
    }
    SmallVector<int64_t> strides{operands.a.strides[0], operands.a.strides[1]};
    for (unsigned d = 0; d + 2 < operands.a.strides.size(); ++d)
      strides.append({operands.a.strides[d + 2] * convolution.getStrides()[d],
                      operands.a.strides[d + 2] * convolution.getDilations()[d]});
    operands.a.strides = strides;
    if (isSwapped) {
      std::swap(operands.lhs, operands.rhs);
      std::swap(operands.lhsDims, operands.rhsDims);
      std::swap(operands.lhsType, operands.rhsType);
      std::swap(operands.a, operands.b);
    }
  }
  return operands;
}
