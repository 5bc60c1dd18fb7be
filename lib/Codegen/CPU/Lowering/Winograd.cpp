//===- Winograd.cpp - 3x3 convolutions with fewer products ----------===//
//
// A convolution whose windows are 3 x 3 with stride 1 may be computed by Winograd's minimal filtering: pieces
// of the input are transformed, contracted with transformed weights, and transformed back, where the epilogue
// is. It is the contraction of ConvolutionContraction.cpp that is replaced, where less time is expected. The
// transformed weights are a contraction of the model's with a constant, made and packed when the plan is
// loaded.
//
//===----------------------------------------------------------------------===//
#include "Lowerings.h"
#include "colossal/Schedule/Schedule.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::cpu;
using namespace colossal::schedule;

namespace {
/// Cycles of one core, as far as they decide between algorithms. Weights of a model come from memory, each
/// once.
struct Estimate {
  double flopsPerCycle;
  static constexpr double memoryBytesPerCycle = 5, cacheBytesPerCycle = 20;
  /// Products of `count` matrices: rows x depth with depth x columns.
  double contraction(int64_t count, int64_t rows, int64_t depth, int64_t columns) const {
    double products = 2.0 * count * rows * depth * columns / flopsPerCycle;
    return std::max(products, 4.0 * count * depth * columns / memoryBytesPerCycle);
  }
  /// Elements that are read or written between kernels.
  double traffic(int64_t elements) const { return 4.0 * elements / cacheBytesPerCycle; }
};
} // namespace

std::optional<WinogradShape> cpu::winogradOf(const CpuTarget &target, Operation *op,
                                             const ContractionOperands &operands, LoweringContext &context) {
  auto convolution = dyn_cast<ConvOp>(op);
  if (!convolution || !context.options().winograd || context.isLoad() || !operands.packs)
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
  Estimate estimate{4.0 * target.processor().lanes(32)};
  WinogradShape shape;
  shape.batch = output[0], shape.inputChannels = input[1], shape.outputChannels = output[1];
  shape.height = output[2], shape.width = output[3];
  // What a transform costs is a little uncertain; so a gain must be clear.
  double least = 0.85 * estimate.contraction(1, output[0] * output[2] * output[3], 9 * input[1], output[1]);
  std::optional<WinogradShape> best;
  for (int64_t m : {2, 4}) {
    shape.m = m;
    int64_t transformed = shape.places() * shape.pieces() * (input[1] + output[1]);
    double cycles = estimate.contraction(shape.places(), shape.pieces(), input[1], output[1]) +
                    estimate.traffic(2 * transformed);
    if (cycles < least)
      least = cycles, best = shape;
  }
  return best;
}

/// The model's weights as places x out channels x in channels.
static Value transformedWeight(ConvOp op, const WinogradShape &shape) {
  OpBuilder b(op.getContext());
  b.setInsertionPointAfterValue(op.getWeight());
  Location loc = op.getLoc();
  Type f32 = b.getF32Type();
  const int64_t places = shape.places(), out = shape.outputChannels, in = shape.inputChannels;
  std::vector<float> values = winogradWeightMatrix(shape.m);
  auto matrixType = RankedTensorType::get({places, 9}, f32);
  Value matrix =
      ConstantOp::create(b, loc, matrixType, DenseElementsAttr::get(matrixType, ArrayRef<float>(values)));
  Value windows = ReshapeOp::create(b, loc, RankedTensorType::get({out, in, 9}, f32), op.getWeight());
  return ContractOp::create(b, loc, RankedTensorType::get({places, out, in}, f32), matrix, windows,
                            ArrayRef<int64_t>{0, 3}, ArrayRef<int64_t>{1, 2, 3}, ArrayRef<int64_t>{0, 1, 2});
}

LogicalResult cpu::lowerWinograd(const CpuTarget &target, LoweringContext &context, ConvOp op,
                                 const WinogradShape &shape, const ContractionOperands &operands,
                                 const CachedKernel &output, ArrayRef<Access> outputAccesses, unsigned writes,
                                 ArrayRef<Value> scalars, ArrayRef<int64_t> alsoWritten) {
  Location loc = op.getLoc();
  const int64_t places = shape.places(), in = shape.inputChannels, out = shape.outputChannels;
  auto unavailable = [&](StringRef problem) {
    return op.emitOpError("cannot be transformed for this target")
           << (problem.empty() ? "" : ": ") << problem;
  };
  auto storageOf = [&](int64_t channels) {
    int64_t bytes = 4 * places * shape.pitch(channels);
    return Access{context.newStorage(bytes), 0, bytes, true};
  };
  std::string problem;

  Access pieces = storageOf(in), products = storageOf(out);
  const View &a = operands.a;
  std::array<int64_t, 3> strides = {a.strides[0], a.strides[2], a.strides[4]};
  KernelKey inputKey(kWinogradKernel);
  inputKey.add(ArrayRef<int64_t>{shape.m, shape.batch, in, shape.height, shape.width})
      .add(ArrayRef<int64_t>(strides));
  const CachedKernel *input =
      context.getKernel(inputKey, "winograd", problem, [&]() -> llvm::Expected<GeneratedKernel> {
        return generateWinogradInput(*context.mlirContext(), target.processor(), shape, strides);
      });
  if (!input)
    return unavailable(problem);
  context.launch(*input, {context.accessOf(a, operands.lhsType, false), pieces}, 1, {}, loc);

  Value weight = transformedWeight(op, shape);
  auto view = context.load().viewOf(weight);
  if (failed(view))
    return failure();
  ContractionSpec spec;
  spec.aType = spec.bType = spec.cType = spec.accumulate = Float32Type::get(context.mlirContext());
  spec.batch = {{places, shape.pitch(in), view->strides[0], shape.pitch(out)}};
  spec.m = {{shape.pieces(), in, 0, out}};
  spec.n = {{out, 0, view->strides[1], 1}};
  spec.k = {{in, 1, view->strides[2], 0}};
  auto packed = packedWeight(target, context, weight, spec.accumulate, spec.batch, spec.n, spec.k, *view);
  if (failed(packed))
    return failure();
  spec.packed = true;
  spec.batch[0].b = packedElements(target.processor(), spec.bType, spec.accumulate, out, in);
  KernelKey key(kWinogradKernel);
  for (ArrayRef<ContractionDim> dims : {spec.batch, spec.m, spec.n, spec.k})
    addDims(key, dims);
  const CachedKernel *contraction = context.getKernel(key, "contract_winograd", problem, [&] {
    return generateContraction(*context.mlirContext(), target.processor(), spec);
  });
  if (!contraction)
    return unavailable(problem);
  Access from = pieces, weights{packed->storage, 0, context.bytesOfWeight(packed->storage), false};
  from.writes = false;
  Work work{Work::Kind::Contraction, places, shape.pieces(), out, in};
  context.launch(*contraction, {from, weights, products}, 1, {}, loc, work);

  products.writes = false;
  SmallVector<Access> accesses{products};
  llvm::append_range(accesses, outputAccesses);
  context.launch(output, accesses, writes, scalars, loc, {}, alsoWritten);
  return success();
}
