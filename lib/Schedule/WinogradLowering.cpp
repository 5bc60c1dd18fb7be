//===- WinogradLowering.cpp - 3x3 convolutions with fewer products ----------===//
//
// A convolution whose windows are 3 x 3 with stride 1 may be computed by Winograd's minimal filtering: pieces
// of the input are transformed, contracted with transformed weights, and transformed back, where the epilogue
// is. It is the contraction of ConvolutionContraction.cpp that is replaced, where less time is expected. The
// transformed weights are a contraction of the model's with a constant, made and packed when the plan is
// loaded.
//
//===----------------------------------------------------------------------===//
#include "FunctionLowering.h"

using namespace mlir;
using namespace colossal;
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

std::optional<cpu::WinogradShape> FunctionLowering::winogradOf(Operation *op, const Operands &operands,
                                                               const Place &place) {
  auto convolution = dyn_cast<ConvOp>(op);
  if (!convolution || !shared.winograd || place.load || !operands.packs)
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
  Estimate estimate{4.0 * shared.target.lanes(32)};
  cpu::WinogradShape shape;
  shape.batch = output[0], shape.inputChannels = input[1], shape.outputChannels = output[1];
  shape.height = output[2], shape.width = output[3];
  // What a transform costs is a little uncertain; so a gain must be clear.
  double least = 0.85 * estimate.contraction(1, output[0] * output[2] * output[3], 9 * input[1], output[1]);
  std::optional<cpu::WinogradShape> best;
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
static Value transformedWeight(ConvOp op, const cpu::WinogradShape &shape) {
  OpBuilder b(op.getContext());
  b.setInsertionPointAfterValue(op.getWeight());
  Location loc = op.getLoc();
  Type f32 = b.getF32Type();
  const int64_t places = shape.places(), out = shape.outputChannels, in = shape.inputChannels;
  std::vector<float> values = cpu::winogradWeightMatrix(shape.m);
  auto matrixType = RankedTensorType::get({places, 9}, f32);
  Value matrix =
      ConstantOp::create(b, loc, matrixType, DenseElementsAttr::get(matrixType, ArrayRef<float>(values)));
  Value windows = ReshapeOp::create(b, loc, RankedTensorType::get({out, in, 9}, f32), op.getWeight());
  return ContractOp::create(b, loc, RankedTensorType::get({places, out, in}, f32), matrix, windows,
                            ArrayRef<int64_t>{0, 3}, ArrayRef<int64_t>{1, 2, 3}, ArrayRef<int64_t>{0, 1, 2});
}

LogicalResult FunctionLowering::lowerWinograd(ConvOp op, const cpu::WinogradShape &shape,
                                              const Operands &operands, const CachedKernel &output,
                                              ArrayRef<Access> outputAccesses, unsigned writes,
                                              ArrayRef<Value> scalars, ArrayRef<int64_t> alsoWritten,
                                              Place &place) {
  Location loc = op.getLoc();
  const int64_t places = shape.places(), in = shape.inputChannels, out = shape.outputChannels;
  auto unavailable = [&](StringRef problem) {
    return op.emitOpError("cannot be transformed for this target")
           << (problem.empty() ? "" : ": ") << problem;
  };
  auto storageOf = [&](int64_t channels) {
    int64_t bytes = 4 * places * shape.pitch(channels);
    return Access{newStorage(place, Life::Activations, bytes), 0, bytes, true};
  };
  std::string problem;

  Access pieces = storageOf(in), products = storageOf(out);
  const View &a = operands.a;
  std::array<int64_t, 3> strides = {a.strides[0], a.strides[2], a.strides[4]};
  KernelKey inputKey(KernelKey::Kind::Winograd);
  inputKey.add(ArrayRef<int64_t>{shape.m, shape.batch, in, shape.height, shape.width})
      .add(ArrayRef<int64_t>(strides));
  const CachedKernel *input =
      getKernel(inputKey, "winograd", problem, [&]() -> llvm::Expected<cpu::GeneratedKernel> {
        return cpu::generateWinogradInput(*context, shared.target, shape, strides);
      });
  if (!input)
    return unavailable(problem);
  launch(*input, {accessOf(a, operands.lhsType, false), pieces}, 1, {}, loc, place);

  Value weight = transformedWeight(op, shape);
  auto view = viewOf(weight, loadPlace);
  if (failed(view))
    return failure();
  cpu::ContractionSpec spec;
  spec.aType = spec.bType = spec.cType = spec.accumulate = Float32Type::get(context);
  spec.batch = {{places, shape.pitch(in), view->strides[0], shape.pitch(out)}};
  spec.m = {{shape.pieces(), in, 0, out}};
  spec.n = {{out, 0, view->strides[1], 1}};
  spec.k = {{in, 1, view->strides[2], 0}};
  auto packed = packedWeight(weight, spec.accumulate, spec.batch, spec.n, spec.k, *view);
  if (failed(packed))
    return failure();
  spec.packed = true;
  spec.batch[0].b = cpu::packedElements(shared.target, spec.bType, spec.accumulate, out, in);
  KernelKey key(KernelKey::Kind::Winograd);
  key.add(spec.batch).add(spec.m).add(spec.n).add(spec.k);
  const CachedKernel *contraction = getKernel(key, "contract_winograd", problem, [&] {
    return cpu::generateContraction(*context, shared.target, spec);
  });
  if (!contraction)
    return unavailable(problem);
  Access from = pieces,
         weights{packed->storage, 0, shared.weights[packed->storage - kWeightBase].bytes, false};
  from.writes = false;
  launch(*contraction, {from, weights, products}, 1, {}, loc, place);
  place.program->steps.back().work = {Work::Kind::Contraction, places, shape.pieces(), out, in};

  products.writes = false;
  SmallVector<Access> accesses{products};
  llvm::append_range(accesses, outputAccesses);
  launch(output, accesses, writes, scalars, loc, place, alsoWritten);
  return success();
}
