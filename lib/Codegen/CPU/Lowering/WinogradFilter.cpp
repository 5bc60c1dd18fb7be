//===- WinogradFilter.cpp - gradients of 3x3 weights with fewer products ---===//
//
// The gradient of a weight is a convolution with 3 x 3 places over which the result's gradient slides as a
// window; all that the forward pass does by Winograd's algorithm has a transpose here. Pieces of the image
// and of the gradient are transformed, multiplied place by place, and the products transformed to windows.
//
//===----------------------------------------------------------------------===//
#include "Lowerings.h"
#include "WinogradEstimate.h"
#include "colossal/Schedule/Schedule.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::cpu;
using namespace colossal::schedule;

std::optional<WinogradShape> cpu::chooseWinogradFilter(const Processor &processor, WinogradShape shape) {
  WinogradEstimate estimate(processor);
  const int64_t in = shape.inputChannels, out = shape.outputChannels;
  double least = WinogradEstimate::clearly *
                 estimate.contraction(1, out, shape.batch * shape.height * shape.width, 9 * in);
  std::optional<WinogradShape> best;
  for (int64_t m : {2, 4}) {
    shape.m = m;
    int64_t transformed = shape.places() * shape.pieces() * (in + out);
    double cycles = estimate.contraction(shape.places(), out, shape.pieces(), in) +
                    estimate.traffic(2 * transformed) + estimate.weights(2 * shape.places() * in * out);
    if (cycles < least)
      least = cycles, best = shape;
  }
  return best;
}

std::optional<WinogradShape> cpu::winogradOfFilter(const CpuTarget &target, ConvOp op) {
  auto all = [](ArrayRef<int64_t> values, int64_t value) {
    return llvm::all_of(values, [=](int64_t v) { return v == value; });
  };
  // Batch and channels exchanged: channels x images, window: channels x images.
  ArrayRef<int64_t> image = shapeOf(op.getInput()), window = shapeOf(op.getWeight());
  if (image.size() != 4 || op.getGroup() != 1 || !op.getWeight().getDefiningOp<TransposeOp>() ||
      !tensorOf(op.getInput()).getElementType().isF32() ||
      !tensorOf(op.getResult()).getElementType().isF32() || !all(shapeOf(op.getResult()).drop_front(2), 3) ||
      !all(op.getStrides(), 1) || !all(op.getDilations(), 1) || !all(op.getPads(), 0) ||
      image[2] != window[2] + 2 || image[3] != window[3] + 2)
    return std::nullopt;
  WinogradShape shape;
  shape.batch = image[1], shape.inputChannels = image[0], shape.outputChannels = window[0];
  shape.height = window[2], shape.width = window[3];
  return chooseWinogradFilter(target.processor(), shape);
}

namespace {
/// One gradient on its way to its instructions.
class FilterLowering {
public:
  FilterLowering(const CpuTarget &target, LoweringContext &context, ConvOp op, const WinogradShape &shape)
      : target(target), context(context), op(op), shape(shape) {}

  LogicalResult run(const View &image, const View &window);

private:
  /// Launches the kernel of `key`, which writes the last of `accesses`.
  LogicalResult launch(const KernelKey &key, StringRef name, ArrayRef<Access> accesses,
                       llvm::function_ref<llvm::Expected<GeneratedKernel>()> generate, Work work = {});
  /// Pieces of the image, or of the result's gradient.
  FailureOr<Access> transform(const View &view, Value value, bool isImage);
  FailureOr<Access> multiply(Access gradient, Access image);
  Access newStorage(int64_t elements) { return {context.newStorage(4 * elements), 0, 4 * elements, true}; }

  const CpuTarget &target;
  LoweringContext &context;
  ConvOp op;
  const WinogradShape &shape;
};
} // namespace

LogicalResult FilterLowering::launch(const KernelKey &key, StringRef name, ArrayRef<Access> accesses,
                                     llvm::function_ref<llvm::Expected<GeneratedKernel>()> generate,
                                     Work work) {
  std::string problem;
  const CachedKernel *kernel = context.getKernel(key, name, problem, generate);
  if (!kernel)
    return op.emitOpError("cannot be transformed for this target")
           << (problem.empty() ? "" : ": ") << problem;
  context.launch(*kernel, accesses, 1, {}, op.getLoc(), work);
  return success();
}

FailureOr<Access> FilterLowering::transform(const View &view, Value value, bool isImage) {
  const int64_t channels = isImage ? shape.inputChannels : shape.outputChannels;
  std::array<int64_t, 3> strides = {view.strides[1], view.strides[2], view.strides[3]};
  KernelKey key(kWinogradKernel);
  key.add(ArrayRef<int64_t>{isImage, shape.m, shape.batch, channels, shape.height, shape.width})
      .add(ArrayRef<int64_t>(strides));
  Access pieces = newStorage(shape.places() * shape.pitch(channels));
  if (failed(launch(key, isImage ? "winograd" : "winograd_gradient",
                    {context.accessOf(view, tensorOf(value), false), pieces},
                    [&]() -> llvm::Expected<GeneratedKernel> {
                      return (isImage ? generateWinogradInput : generateWinogradGradient)(
                          *context.mlirContext(), target.processor(), shape, strides);
                    })))
    return failure();
  pieces.writes = false;
  return pieces;
}

FailureOr<Access> FilterLowering::multiply(Access gradient, Access image) {
  const int64_t in = shape.inputChannels, out = shape.outputChannels;
  ContractionSpec spec;
  spec.aType = spec.bType = spec.cType = spec.accumulate = Float32Type::get(context.mlirContext());
  spec.batch = {{shape.places(), shape.pitch(out), shape.pitch(in), winogradFilterPitch(shape)}};
  spec.m = {{out, 1, 0, in}};
  spec.n = {{in, 0, 1, 1}};
  spec.k = {{shape.pieces(), out, in, 0}};
  KernelKey key(kWinogradKernel);
  for (ArrayRef<ContractionDim> dims : {spec.batch, spec.m, spec.n, spec.k})
    addDims(key, dims);
  Access products = newStorage(shape.places() * winogradFilterPitch(shape));
  Work work{Work::Kind::Contraction, shape.places(), out, in, shape.pieces()};
  if (failed(launch(
          key, "contract_winograd", {gradient, image, products},
          [&] { return generateContraction(*context.mlirContext(), target.processor(), spec); }, work)))
    return failure();
  products.writes = false;
  return products;
}

LogicalResult FilterLowering::run(const View &image, const View &window) {
  auto ofWindow = transform(window, op.getWeight(), false);
  auto ofImage = succeeded(ofWindow) ? transform(image, op.getInput(), true) : FailureOr<Access>();
  auto products = succeeded(ofImage) ? multiply(*ofWindow, *ofImage) : FailureOr<Access>();
  if (failed(products))
    return failure();
  View output = context.allocate(op.getResult(), /*inside=*/true);
  // The result has in channels first.
  WinogradWeights weights{0, {output.strides[1], output.strides[0], output.strides[2], output.strides[3]}};
  KernelKey key(kWinogradKernel);
  key.add(ArrayRef<int64_t>{shape.m, shape.inputChannels, shape.outputChannels})
      .add(ArrayRef<int64_t>(weights.strides));
  return launch(key, "winograd_filter", {*products, context.accessOf(output, tensorOf(op.getResult()), true)},
                [&]() -> llvm::Expected<GeneratedKernel> {
                  return generateWinogradFilter(*context.mlirContext(), target.processor(), shape, weights);
                });
}

FailureOr<bool> cpu::lowerWinogradFilter(const CpuTarget &target, LoweringContext &context, ConvOp op) {
  std::optional<WinogradShape> shape = winogradOfFilter(target, op);
  if (!shape || !context.options().winograd || context.isLoad() || context.isLoadable(op.getWeight()))
    return false;
  auto image = context.viewOf(op.getInput()), window = context.viewOf(op.getWeight());
  if (failed(image) || failed(window))
    return failure();
  if (image->strides[0] != 1 || window->strides[0] != 1)
    return false;
  if (failed(FilterLowering(target, context, op, *shape).run(*image, *window)))
    return failure();
  return true;
}
