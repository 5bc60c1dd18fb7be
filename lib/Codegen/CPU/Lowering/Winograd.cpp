//===- Winograd.cpp - 3x3 convolutions with fewer products ----------===//
//
// A convolution whose windows are 3 x 3 with stride 1 may be computed by Winograd's minimal filtering: pieces
// of the input are transformed, contracted with transformed weights, and transformed back, where the epilogue
// is. It is the contraction of ConvolutionContraction.cpp that is replaced, where less time is expected. The
// transformed weights are a contraction of the model's with a constant, made and packed when the plan is
// loaded. Where they change, as in a step of training, a kernel transforms and packs them when they are used.
//
//===----------------------------------------------------------------------===//
#include "CpuTarget.h"
#include "Lowerings.h"
#include "WinogradEstimate.h"
#include "colossal/Schedule/Schedule.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::cpu;
using namespace colossal::schedule;

std::optional<WinogradShape> cpu::chooseWinograd(const Processor &processor, WinogradShape shape,
                                                 bool isLoaded) {
  WinogradEstimate estimate(processor);
  const int64_t in = shape.inputChannels, out = shape.outputChannels;
  double least = WinogradEstimate::clearly *
                 estimate.contraction(1, shape.batch * shape.height * shape.width, 9 * in, out);
  std::optional<WinogradShape> best;
  for (int64_t m : {2, 4}) {
    shape.m = m;
    int64_t transformed = shape.places() * shape.pieces() * (in + out);
    double cycles =
        estimate.contraction(shape.places(), shape.pieces(), in, out) + estimate.traffic(2 * transformed);
    if (!isLoaded) // written before they are read, which takes as long as reading those of a model
      cycles += estimate.weights(shape.places() * in * out);
    if (cycles < least)
      least = cycles, best = shape;
  }
  return best;
}

codegen::ConvolutionBytes CpuTarget::convolutionBytes(Type element, int64_t batch, int64_t inputChannels,
                                                      int64_t outputChannels, int64_t height,
                                                      int64_t width) const {
  codegen::ConvolutionBytes bytes;
  if (!element.isF32())
    return bytes;
  auto transformed = [](const WinogradShape &shape) {
    return sizeof(float) *
           (shape.places() * (shape.pitch(shape.inputChannels) + shape.pitch(shape.outputChannels) +
                              shape.inputChannels * shape.outputChannels));
  };
  // The gradient of the input is a convolution of the result's, from its channels to the input's.
  if (auto shape =
          chooseWinograd(processor(), {4, batch, outputChannels, inputChannels, height, width}, false))
    bytes.ofInput = transformed(*shape);
  if (auto shape =
          chooseWinogradFilter(processor(), {4, batch, inputChannels, outputChannels, height, width}))
    bytes.ofWeights = transformed(*shape);
  return bytes;
}

std::optional<WinogradShape> cpu::winogradOf(const CpuTarget &target, Operation *op,
                                             const ContractionOperands &operands, LoweringContext &context) {
  auto convolution = dyn_cast<ConvOp>(op);
  if (!convolution || !context.options().winograd || context.isLoad() ||
      operands.rhs != convolution.getWeight())
    return std::nullopt;
  auto all = [](ArrayRef<int64_t> values, int64_t value) {
    return llvm::all_of(values, [=](int64_t v) { return v == value; });
  };
  ArrayRef<int64_t> input = shapeOf(convolution.getInput()), weight = shapeOf(convolution.getWeight()),
                    output = shapeOf(convolution.getResult());
  // Strides of a: batch, channels, then per spatial dimension those of windows and of their elements.
  if (input.size() != 4 || !tensorOf(operands.lhs).getElementType().isF32() ||
      !tensorOf(operands.rhs).getElementType().isF32() ||
      !tensorOf(op->getResult(0)).getElementType().isF32() || !all(weight.drop_front(2), 3) ||
      !all(convolution.getStrides(), 1) || !all(convolution.getDilations(), 1) ||
      operands.a.strides[1] != 1 || input[2] < output[2] + 2 || input[3] < output[3] + 2)
    return std::nullopt;
  WinogradShape shape;
  shape.batch = output[0], shape.inputChannels = input[1], shape.outputChannels = output[1];
  shape.height = output[2], shape.width = output[3];
  return chooseWinograd(target.processor(), shape, operands.packs);
}

namespace {
/// One convolution on its way to its instructions.
class WinogradLowering {
public:
  WinogradLowering(const CpuTarget &target, LoweringContext &context, ConvOp op, const WinogradShape &shape,
                   const ContractionOperands &operands)
      : target(target), context(context), op(op), shape(shape), operands(operands) {
    const int64_t in = shape.inputChannels, out = shape.outputChannels;
    spec.aType = spec.bType = spec.cType = spec.accumulate = Float32Type::get(context.mlirContext());
    spec.batch = {{shape.places(), shape.pitch(in), 0, shape.pitch(out)}};
    spec.m = {{shape.pieces(), in, 0, out}};
    spec.n = {{out, 0, 0, 1}};
    spec.k = {{in, 1, 0, 0}};
    spec.packed = true;
  }

  FailureOr<Access> transformInput();
  /// The weights of all places, packed; sets how they lie in `spec`.
  FailureOr<Access> transformWeight() { return operands.packs ? weightOfLoad() : weightOfRun(); }
  FailureOr<Access> multiply(Access pieces, Access weights);

private:
  FailureOr<Access> weightOfLoad();
  FailureOr<Access> weightOfRun();
  const CachedKernel *getKernel(const KernelKey &key, StringRef name,
                                llvm::function_ref<llvm::Expected<GeneratedKernel>()> generate);
  Access newStorage(int64_t elements) { return {context.newStorage(4 * elements), 0, 4 * elements, true}; }

  const CpuTarget &target;
  LoweringContext &context;
  ConvOp op;
  const WinogradShape &shape;
  const ContractionOperands &operands;
  ContractionSpec spec; ///< of the products
};
} // namespace

const CachedKernel *
WinogradLowering::getKernel(const KernelKey &key, StringRef name,
                            llvm::function_ref<llvm::Expected<GeneratedKernel>()> generate) {
  std::string problem;
  const CachedKernel *kernel = context.getKernel(key, name, problem, generate);
  if (!kernel)
    op.emitOpError("cannot be transformed for this target") << (problem.empty() ? "" : ": ") << problem;
  return kernel;
}

FailureOr<Access> WinogradLowering::transformInput() {
  const View &a = operands.a;
  std::array<int64_t, 3> strides = {a.strides[0], a.strides[2], a.strides[4]};
  KernelKey key(kWinogradKernel);
  key.add(ArrayRef<int64_t>{shape.m, shape.batch, shape.inputChannels, shape.height, shape.width})
      .add(ArrayRef<int64_t>(strides));
  const CachedKernel *kernel = getKernel(key, "winograd", [&]() -> llvm::Expected<GeneratedKernel> {
    return generateWinogradInput(*context.mlirContext(), target.processor(), shape, strides);
  });
  if (!kernel)
    return failure();
  Access pieces = newStorage(shape.places() * shape.pitch(shape.inputChannels));
  context.launch(*kernel, {context.accessOf(a, operands.lhsType, false), pieces}, 1, {}, op.getLoc());
  return pieces;
}

/// The model's weights as places x out channels x in channels.
static Value transformedWeight(ConvOp op, Value model, const WinogradShape &shape, bool reversed) {
  OpBuilder b(op.getContext());
  b.setInsertionPointAfterValue(model);
  Location loc = op.getLoc();
  Type f32 = b.getF32Type();
  const int64_t places = shape.places(), out = shape.outputChannels, in = shape.inputChannels;
  std::vector<float> values = winogradWeightMatrix(shape.m);
  for (int64_t place = 0; reversed && place < places; ++place)
    std::reverse(values.begin() + 9 * place, values.begin() + 9 * (place + 1));
  auto matrixType = RankedTensorType::get({places, 9}, f32);
  Value matrix =
      ConstantOp::create(b, loc, matrixType, DenseElementsAttr::get(matrixType, ArrayRef<float>(values)));
  Value windows = ReshapeOp::create(b, loc, RankedTensorType::get({out, in, 9}, f32), model);
  return ContractOp::create(b, loc, RankedTensorType::get({places, out, in}, f32), matrix, windows,
                            ArrayRef<int64_t>{0, 3}, ArrayRef<int64_t>{1, 2, 3}, ArrayRef<int64_t>{0, 1, 2});
}

FailureOr<Access> WinogradLowering::weightOfLoad() {
  Value weight = transformedWeight(op, operands.rhs, shape, operands.reversed);
  auto view = context.load().viewOf(weight);
  if (failed(view))
    return failure();
  spec.batch[0].b = view->strides[0], spec.n[0].b = view->strides[1], spec.k[0].b = view->strides[2];
  auto packed = packedWeight(target, context, weight, spec.accumulate, spec.batch, spec.n, spec.k, *view);
  if (failed(packed))
    return failure();
  spec.batch[0].b = packedElements(target.processor(), spec.bType, spec.accumulate, shape.outputChannels,
                                   shape.inputChannels);
  return Access{packed->storage, 0, context.bytesOfWeight(packed->storage), false};
}

FailureOr<Access> WinogradLowering::weightOfRun() {
  const View &b = operands.b;
  WinogradWeights weights{0, {b.strides[0], b.strides[1], b.strides[2], b.strides[3]}};
  if (operands.reversed)
    for (int64_t &stride : llvm::MutableArrayRef(weights.strides).drop_front(2))
      weights.first += 2 * stride, stride = -stride;
  KernelKey key(kWinogradKernel);
  key.add(ArrayRef<int64_t>{shape.m, shape.inputChannels, shape.outputChannels, weights.first})
      .add(ArrayRef<int64_t>(weights.strides));
  const CachedKernel *kernel = getKernel(key, "winograd_weight", [&]() -> llvm::Expected<GeneratedKernel> {
    return generateWinogradWeights(*context.mlirContext(), target.processor(), shape, weights);
  });
  if (!kernel)
    return failure();
  const int64_t pitch = winogradWeightPitch(*context.mlirContext(), target.processor(), shape);
  spec.batch[0].b = pitch;
  Access transformed = newStorage(shape.places() * pitch);
  context.launch(*kernel, {context.accessOf(b, operands.rhsType, false), transformed}, 1, {}, op.getLoc());
  return transformed;
}

FailureOr<Access> WinogradLowering::multiply(Access pieces, Access weights) {
  KernelKey key(kWinogradKernel);
  for (ArrayRef<ContractionDim> dims : {spec.batch, spec.m, spec.n, spec.k})
    addDims(key, dims);
  const CachedKernel *kernel = getKernel(key, "contract_winograd", [&] {
    return generateContraction(*context.mlirContext(), target.processor(), spec);
  });
  if (!kernel)
    return failure();
  pieces.writes = weights.writes = false;
  Access products = newStorage(shape.places() * shape.pitch(shape.outputChannels));
  Work work{Work::Kind::Contraction, shape.places(), shape.pieces(), shape.outputChannels,
            shape.inputChannels};
  context.launch(*kernel, {pieces, weights, products}, 1, {}, op.getLoc(), work);
  return products;
}

LogicalResult cpu::lowerWinograd(const CpuTarget &target, LoweringContext &context, ConvOp op,
                                 const WinogradShape &shape, const ContractionOperands &operands,
                                 const CachedKernel &output, ArrayRef<Access> outputAccesses, unsigned writes,
                                 ArrayRef<Value> scalars, ArrayRef<int64_t> alsoWritten) {
  WinogradLowering lowering(target, context, op, shape, operands);
  // The weights first: there may be less of other things to keep for them.
  auto weights = lowering.transformWeight();
  auto pieces = succeeded(weights) ? lowering.transformInput() : FailureOr<Access>();
  auto products = succeeded(pieces) ? lowering.multiply(*pieces, *weights) : FailureOr<Access>();
  if (failed(products))
    return failure();
  products->writes = false;
  SmallVector<Access> accesses{*products};
  llvm::append_range(accesses, outputAccesses);
  context.launch(output, accesses, writes, scalars, op.getLoc(), {}, alsoWritten);
  return success();
}
