// What the library takes, the room that it may need, and the call.
#include "LibraryConvolution.h"

#include "TensorCores.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

namespace {

/// Marks a convolution that is the library's.
constexpr llvm::StringLiteral libraryName = "cuda.library";

/// What an engine may take for partial sums at most, besides a copy of each tensor in another order.
constexpr int64_t maxPartialSums = int64_t(32) << 20, workspaceAlignment = 256;
/// What engines take of their own, as tables of offsets: a few KiB were seen.
constexpr int64_t tables = int64_t(64) << 10;

/// Zeros behind the input, by dimension; null where the result is not what the whole input gives.
std::optional<SmallVector<int64_t>> padsBehind(ConvOp op) {
  ArrayRef<int64_t> input = shapeOf(op.getInput()), weight = shapeOf(op.getWeight()),
                    result = shapeOf(op.getResult());
  SmallVector<int64_t> behind;
  for (unsigned d = 0; d + 2 < input.size(); ++d) {
    const int64_t window = op.getDilations()[d] * (weight[d + 2] - 1) + 1, stride = op.getStrides()[d],
                  low = op.getPads()[d], covered = (result[d + 2] - 1) * stride + window,
                  high = std::max<int64_t>(0, covered - input[d + 2] - low);
    if (low < 0 || input[d + 2] + low + high - covered >= stride)
      return std::nullopt;
    behind.push_back(high);
  }
  return behind;
}

/// Empty where the library takes it.
StringRef whyNot(ConvOp op) {
  Type element = elementTypeOf(op.getResult());
  if (!element.isF32() && !element.isF64() && !element.isF16() && !element.isBF16())
    return "it computes floats of 16, 32 and 64 bits only";
  const int64_t rank = tensorOf(op.getInput()).getRank();
  if (rank < 3 || rank > 5)
    return "it convolves over one to three dimensions";
  if (!padsBehind(op))
    return "it crops no input";
  return "";
}

bool hasElements(ConvOp op) {
  return tensorOf(op.getResult()).getNumElements() != 0 && tensorOf(op.getInput()).getNumElements() != 0;
}

int64_t workspaceFor(ConvOp op) {
  int64_t bytes = tables;
  for (Value tensor : {op.getInput(), op.getWeight(), op.getResult()})
    bytes += llvm::alignTo(byteSize(tensorOf(tensor)), workspaceAlignment);
  const int64_t partial = elementTypeOf(op.getResult()).isF64() ? 8 : 4;
  bytes += std::min(maxPartialSums, 4 * tensorOf(op.getResult()).getNumElements() * partial);
  return llvm::alignTo(bytes, workspaceAlignment);
}

} // namespace

bool nvidia::leaveToLibrary(ConvOp op) {
  if (!hasElements(op))
    return false;
  if (StringRef why = whyNot(op); !why.empty()) {
    op.emitRemark(
        "this, and what else it holds for, is not left to cuDNN, but computed by a kernel of our own: ")
        << why;
    return false;
  }
  op->setAttr(libraryName, UnitAttr::get(op.getContext()));
  return true;
}

bool nvidia::isOfLibrary(ConvOp op) {
  return op->hasAttr(libraryName);
}

bool nvidia::fitsLibrary(ConvOp op, ArrayRef<Operation *> ops) {
  if (ops.empty())
    return true;
  auto relu = dyn_cast<ElementwiseOp>(ops.front());
  return ops.size() == 1 && relu && relu.getKind() == ElementwiseKind::Relu && op.getBias() &&
         relu->getOperand(0) == op.getResult() && relu->getResult(0).getType() == op.getResult().getType();
}

LogicalResult nvidia::callConvolution(LoweringContext &context, FusionGroup &group) {
  auto op = cast<ConvOp>(group.routine);
  SmallVector<Operation *> rest;
  llvm::copy_if(group.ops, std::back_inserter(rest), [&](Operation *member) { return member != op; });
  if (!fitsLibrary(op, rest) || group.outputs.size() != 1)
    return context.lowerSeparately(group);
  SmallVector<Access> accesses;
  for (Value operand : {op.getInput(), op.getWeight(), op.getBias()}) {
    if (!operand)
      continue;
    auto view = context.denseViewOf(operand);
    if (failed(view))
      return failure();
    accesses.push_back(context.accessOf(*view, tensorOf(operand), false));
  }
  Value result = group.outputs.front();
  RankedTensorType type = tensorOf(result);
  const View place = context.allocate(result);
  View to = place;
  if (!isDense(place, type.getShape()))
    to = View{context.newStorage(byteSize(type)), 0, denseStrides(type.getShape())};
  const int64_t workspace = workspaceFor(op);
  accesses.push_back({context.newStorage(workspace), 0, workspace, true});
  accesses.push_back(context.accessOf(to, type, true));

  const SmallVector<int64_t> behind = *padsBehind(op);
  const StringRef compute = type.getElementType().isF64()                       ? "f64"
                            : type.getElementType().isF32() && roundsToTf32(op) ? "tf32"
                                                                                : "f32";
  auto make = [type, behind, compute, relu = !rest.empty(), loc = op.getLoc(),
               input = SmallVector<int64_t>(shapeOf(op.getInput())),
               weight = SmallVector<int64_t>(shapeOf(op.getWeight())),
               strides = SmallVector<int64_t>(op.getStrides()),
               dilations = SmallVector<int64_t>(op.getDilations()),
               before = SmallVector<int64_t>(op.getPads().take_front(behind.size())), groups = op.getGroup(),
               bias = bool(op.getBias())](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers,
                                          IRMapping &) -> Operation * {
    SmallVector<Attribute> attributes(buffers.begin(), buffers.end());
    auto list = [&](ArrayRef<int64_t> values) { return b.getDenseI64ArrayAttr(values); };
    return plan::ConvolutionOp::create(
        b, loc, b.getArrayAttr(attributes), TypeAttr::get(type.getElementType()), list(input), list(weight),
        list(type.getShape()), list(denseStrides(input)), list(denseStrides(type.getShape())), list(strides),
        list(dilations), list(before), list(behind), b.getI64IntegerAttr(groups), b.getBoolAttr(bias),
        b.getBoolAttr(false), b.getStringAttr(relu ? "relu" : ""), DenseF64ArrayAttr(), b.getBoolAttr(false),
        b.getStringAttr(""), b.getBoolAttr(false), b.getStringAttr(compute));
  };
  context.append({accesses, false, op.getLoc(), make, {}});
  return to.storage == place.storage ? success() : context.copy(to, type, place, op.getLoc());
}
