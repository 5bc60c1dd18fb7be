// What the library takes, where it may lie, and the call.
#include "LibraryAttention.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

namespace {

/// What its kernels read at a time.
constexpr int64_t vectorBytes = 16;
/// What engines take beside the tensors: a few hundred bytes were seen.
constexpr int64_t workspaceBytes = int64_t(64) << 10;
constexpr int64_t maxWidth = 256;

/// Empty where the library takes it.
StringRef whyNot(AttentionOp op) {
  Type element = elementTypeOf(op.getQuery());
  if (!element.isF16() && !element.isBF16())
    return "it computes attention of 16 bits only";
  for (Value tensor : {op.getKey(), op.getValue()})
    if (const int64_t width = shapeOf(tensor)[3]; width % 8 != 0 || width > maxWidth)
      return "its heads have multiples of 8 elements, at most 256";
  if (op.getStatistics())
    return "sums of rows are asked for, as where keys are on several ranks";
  if (op.getKeyCount() || (op.getCausal() && op.getQueryOffset()))
    return "how many keys there are, or which query is the first, is known only when it runs";
  if (op.getSoftcap().convertToDouble() != 0)
    return "its scores are capped";
  if (op.getCausal() && static_cast<int64_t>(op.getCausalOffset()) < 0)
    return "the first queries see no key";
  if (Value mask = op.getMask()) {
    Type type = elementTypeOf(mask);
    if (!type.isF32() && !type.isF16() && !type.isBF16())
      return "its mask is not of floats of 16 or 32 bits";
    if (op.getGuard())
      return "a query that the mask lets see no key has to give zeros";
  }
  return "";
}

bool hasElements(AttentionOp op) {
  return llvm::all_of(ArrayRef<Value>{op.getQuery(), op.getKey(), op.getValue(), op.getResult()},
                      [](Value tensor) { return tensorOf(tensor).getNumElements() != 0; });
}

/// Strides as the library takes them: those of a dimension of one element do not matter, and are chosen so.
/// None where vectors would not begin where they have to.
std::optional<SmallVector<int64_t>> stridesOf(const View &view, RankedTensorType type) {
  const int64_t lanes = vectorBytes / kernel::elementBytes(type.getElementType());
  SmallVector<int64_t> dense = denseStrides(type.getShape()), strides;
  for (auto [size, stride, own] : llvm::zip_equal(type.getShape(), view.strides, dense))
    strides.push_back(size == 1 ? own : stride);
  for (int64_t stride : ArrayRef(strides).drop_back())
    if (stride <= 0 || stride % lanes != 0)
      return std::nullopt;
  return strides.back() == 1 && view.offset % lanes == 0 && view.turn % lanes == 0 ? std::optional(strides)
                                                                                   : std::nullopt;
}

} // namespace

FailureOr<bool> nvidia::callAttention(LoweringContext &context, AttentionOp op) {
  if (!hasElements(op))
    return false;
  if (StringRef why = whyNot(op); !why.empty()) {
    op.emitRemark(
        "this, and what else it holds for, is not left to cuDNN, but computed by a kernel of our own: ")
        << why;
    return false;
  }
  SmallVector<Access> accesses;
  SmallVector<SmallVector<int64_t>, 4> strides;
  for (Value operand : {op.getQuery(), op.getKey(), op.getValue()}) {
    RankedTensorType type = tensorOf(operand);
    auto view = context.viewOf(operand);
    if (failed(view))
      return failure();
    auto own = stridesOf(*view, type);
    if (!own) {
      View dense{context.newStorage(byteSize(type)), 0, denseStrides(type.getShape())};
      if (failed(context.copy(*view, type, dense, op.getLoc())))
        return failure();
      view = dense;
      own = denseStrides(type.getShape());
    }
    accesses.push_back(context.accessOf(*view, type, false));
    strides.push_back(*own);
  }
  SmallVector<int64_t> maskStrides(4, 0);
  Type maskType;
  if (Value mask = op.getMask()) {
    RankedTensorType type = tensorOf(mask);
    auto view = context.viewOf(mask);
    if (failed(view))
      return failure();
    maskType = type.getElementType();
    for (int64_t d = 0; d < type.getRank(); ++d) // it broadcasts, right-aligned
      maskStrides[4 - type.getRank() + d] = type.getDimSize(d) == 1 ? 0 : view->strides[d];
    accesses.push_back(context.accessOf(*view, type, false));
  }
  RankedTensorType type = tensorOf(op.getResult());
  const View place = context.allocate(op.getResult());
  context.setView(op.getResult(), place);
  View to = place;
  auto own = stridesOf(place, type);
  if (!own) {
    to = View{context.newStorage(byteSize(type)), 0, denseStrides(type.getShape())};
    own = denseStrides(type.getShape());
  }
  strides.push_back(*own);
  accesses.push_back({context.newStorage(workspaceBytes), 0, workspaceBytes, true});
  accesses.push_back(context.accessOf(to, type, true));

  ArrayRef<int64_t> query = shapeOf(op.getQuery()), key = shapeOf(op.getKey());
  SmallVector<int64_t> sizes{
      query[0], query[1], key[1], query[2], key[2], query[3], shapeOf(op.getValue())[3]};
  auto make = [element = type.getElementType(), sizes, strides, maskStrides, maskType, scale = op.getScale(),
               causal = op.getCausal(), offset = op.getCausal() ? op.getCausalOffset() : 0,
               loc = op.getLoc()](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers,
                                  IRMapping &) -> Operation * {
    SmallVector<Attribute> attributes(buffers.begin(), buffers.end());
    auto list = [&](ArrayRef<int64_t> values) { return b.getDenseI64ArrayAttr(values); };
    return plan::FusedAttentionOp::create(
        b, loc, b.getArrayAttr(attributes), TypeAttr::get(element), list(sizes), list(strides[0]),
        list(strides[1]), list(strides[2]), list(strides[3]), b.getF64FloatAttr(scale.convertToDouble()),
        b.getBoolAttr(causal), b.getI64IntegerAttr(offset), maskType ? TypeAttr::get(maskType) : TypeAttr(),
        maskType ? list(maskStrides) : DenseI64ArrayAttr());
  };
  context.append({accesses, false, op.getLoc(), make, {}});
  if (to.storage != place.storage && failed(context.copy(to, type, place, op.getLoc())))
    return failure();
  return true;
}
