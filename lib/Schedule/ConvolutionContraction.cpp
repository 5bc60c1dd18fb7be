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
#include "FunctionLowering.h"
#include "Prepare.h"

#include "colossal/Codegen/CPU/VectorMemory.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

/// Marks a convolution without bias and padding that is lowered as a contraction, and the pad in front of it.
static constexpr StringLiteral kContraction = "schedule.contraction";

bool schedule::isContraction(Operation *op) {
  return isa<ContractOp>(op) || (isa<ConvOp>(op) && op->hasAttr(kContraction));
}

bool schedule::isPadding(Operation *op) {
  return isa<PadOp>(op) && op->hasAttr(kContraction);
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

void schedule::prepareConvolutions(func::FuncOp function) {
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
      pad->setAttr(kContraction, b.getUnitAttr());
      input = pad.getResult();
    }
    auto product = ConvOp::create(b, loc, resultType, input, op.getWeight(), Value(), op.getStrides(),
                                  op.getDilations(), SmallVector<int64_t>(2 * spatial, 0), 1);
    product->setAttr(kContraction, b.getUnitAttr());
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

FailureOr<FunctionLowering::Operands> FunctionLowering::operandsOf(Operation *op, Place &place) {
  Operands operands;
  if (auto contract = dyn_cast<ContractOp>(op)) {
    operands.lhs = contract.getLhs(), operands.rhs = contract.getRhs();
    operands.lhsDims.assign(contract.getLhsDims().begin(), contract.getLhsDims().end());
    operands.rhsDims.assign(contract.getRhsDims().begin(), contract.getRhsDims().end());
    operands.resultDims.assign(contract.getResultDims().begin(), contract.getResultDims().end());
    // The weight stands on the right, where it can be packed.
    if (!place.load && isLoadable(operands.lhs) && !isLoadable(operands.rhs)) {
      std::swap(operands.lhs, operands.rhs);
      std::swap(operands.lhsDims, operands.rhsDims);
    }
    operands.lhsType = tensorOf(operands.lhs);
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
  }
  operands.packs = !place.load && isLoadable(operands.rhs) && !isLoadable(operands.lhs);
  auto a = viewOf(operands.lhs, place), b = viewOf(operands.rhs, operands.packs ? loadPlace : place);
  if (failed(a) || failed(b))
    return failure();
  operands.a = *a, operands.b = *b;
  if (auto convolution = dyn_cast<ConvOp>(op)) {
    RankedTensorType type = tensorOf(operands.lhs);
    // Runs shorter than a line of the cache would be gathered again for every panel.
    if (innerRun(convolution, operands.a) < std::min<int64_t>(16, type.getDimSize(1))) {
      View turned{newStorage(place, Life::Activations,
                             type.getNumElements() * cpu::elementBytes(type.getElementType())),
                  0, channelsLastStrides(type.getShape())};
      if (failed(copy(operands.a, type, turned, place, op->getLoc())))
        return failure();
      operands.a = turned;
    }
    SmallVector<int64_t> strides{operands.a.strides[0], operands.a.strides[1]};
    for (unsigned d = 0; d + 2 < operands.a.strides.size(); ++d)
      strides.append({operands.a.strides[d + 2] * convolution.getStrides()[d],
                      operands.a.strides[d + 2] * convolution.getDilations()[d]});
    operands.a.strides = strides;
  }
  return operands;
}

//===----------------------------------------------------------------------===//
// Padded storages
//===----------------------------------------------------------------------===//

LogicalResult FunctionLowering::fillZero(const View &to, RankedTensorType type, Place &place, Location loc) {
  if (type.getNumElements() == 0)
    return success();
  std::string problem;
  KernelKey key(KernelKey::Kind::Fill);
  key.add(Type(type)).add(to.strides);
  const CachedKernel *kernel = getKernel(key, "fill", problem, [&] {
    OpBuilder b(context);
    Location unknown = b.getUnknownLoc();
    OwningOpRef<ModuleOp> module = ModuleOp::create(unknown);
    b.setInsertionPointToEnd(module->getBody());
    auto function = func::FuncOp::create(b, unknown, "group", b.getFunctionType({}, {type}));
    b.setInsertionPointToEnd(function.addEntryBlock());
    auto zero = DenseElementsAttr::get(type, b.getZeroAttr(type.getElementType()));
    Value constant = ConstantOp::create(b, unknown, type, zero);
    func::ReturnOp::create(b, unknown, constant);
    return cpu::generateFused(*context, shared.target, {function, {}, {{to.strides, true}}});
  });
  if (!kernel)
    return emitError(loc, "a fill cannot be generated") << (problem.empty() ? "" : ": ") << problem;
  launch(*kernel, {accessOf(to, type, true)}, 1, {}, loc, place);
  return success();
}

LogicalResult FunctionLowering::allocatePadded(PadOp op, Place &place) {
  RankedTensorType type = tensorOf(op.getResult());
  View view{
      newStorage(place, Life::Activations, type.getNumElements() * cpu::elementBytes(type.getElementType())),
      0, channelsLastStrides(type.getShape())};
  place.views[op.getResult()] = view;
  // The border: per dimension the slabs before and after the input, within the input in the dimensions above.
  SmallVector<int64_t> shape(type.getShape()), input(shapeOf(op.getInput()));
  View part = view;
  for (unsigned d = 2; d < shape.size(); ++d) {
    int64_t low = op.getLow()[d], high = type.getDimSize(d) - low - input[d];
    for (auto [first, size] : {std::pair<int64_t, int64_t>{0, low}, {low + input[d], high}}) {
      SmallVector<int64_t> slab(shape);
      slab[d] = size;
      View at = part;
      at.offset += first * view.strides[d];
      if (size && failed(fillZero(at, type.clone(slab), place, op.getLoc())))
        return failure();
    }
    part.offset += low * view.strides[d];
    shape[d] = input[d];
  }
  return success();
}

/// The padded input of a convolution that `value` may be computed into: its borders are filled when it is
/// allocated.
static PadOp paddingOf(Value value) {
  for (Operation *user : value.getUsers())
    if (isPadding(user))
      return cast<PadOp>(user);
  return nullptr;
}

std::optional<View> FunctionLowering::allocateInside(Value value, Place &place) {
  if (auto found = insides.find(value); found != insides.end())
    return found->second;
  PadOp padding = paddingOf(value);
  if (!padding || place.load || place.views.count(padding.getResult()))
    return std::nullopt;
  if (failed(allocatePadded(padding, place)))
    return std::nullopt;
  View view = place.views[padding.getResult()];
  for (auto [stride, low] : llvm::zip(view.strides, padding.getLow()))
    view.offset += stride * low;
  insides[value] = view;
  return view;
}

LogicalResult FunctionLowering::lowerPadding(PadOp op, Place &place) {
  if (place.views.count(op.getResult()))
    return success();
  auto source = viewOf(op.getInput(), place);
  if (failed(source) || failed(allocatePadded(op, place)))
    return failure();
  View inside = place.views[op.getResult()];
  for (auto [stride, low] : llvm::zip(inside.strides, op.getLow()))
    inside.offset += stride * low;
  return copy(*source, tensorOf(op.getInput()), inside, place, op.getLoc());
}
