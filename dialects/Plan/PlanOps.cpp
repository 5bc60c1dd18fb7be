//===- PlanOps.cpp - constraints of the plan ops ----------------------------===//
//
// The labels are those of the ops' descriptions in PlanDialect.td. What needs all of a program (that buffers
// lie in their arenas) is checked by the phase that makes it, and for any plan by the runtime's validator.
//
//===----------------------------------------------------------------------===//
#include "dialects/Plan/PlanDialect.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::plan;

/// A ranked tensor of static shape.
static FailureOr<RankedTensorType> verifyTensor(Operation *op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return op->emitOpError("has type ") << type << ", expected a ranked tensor of static shape (C1)";
  return tensor;
}

static LogicalResult verifyShape(Operation *op, RankedTensorType tensor, dist::ShardingAttr sharding) {
  if (llvm::equal(sharding.getGlobalShape(), tensor.getShape()))
    return success();
  return op->emitOpError("has sharding ") << sharding << ", which is not one of " << tensor << " (C1)";
}

LogicalResult ArenaOp::verify() {
  auto bytes = static_cast<int64_t>(getBytes()), alignment = static_cast<int64_t>(getAlignment());
  if (bytes < 0)
    return emitOpError("has ") << bytes << " bytes (C1)";
  if (alignment < 64 || !llvm::isPowerOf2_64(alignment))
    return emitOpError("has alignment ") << alignment << ", expected a power of two of at least 64 (C1)";
  return success();
}

LogicalResult ParameterOp::verify() {
  if (failed(verifyTensor(*this, getType())))
    return failure();
  if (static_cast<int64_t>(getOffset()) < 0 || static_cast<int64_t>(getBytes()) < 0)
    return emitOpError("lies at offset ") << static_cast<int64_t>(getOffset()) << " with "
                                          << static_cast<int64_t>(getBytes()) << " bytes (C1)";
  return success();
}

LogicalResult StateOp::verify() {
  if (getName().empty())
    return emitOpError("has no name (C1)");
  if (getSlot().has_value() != (getKind() == StateKind::Slot))
    return emitOpError("is a ") << stringifyStateKind(getKind())
                                << (getSlot() ? " and names a slot (C1)" : " and names none (C1)");
  return success();
}

LogicalResult KernelOp::verify() {
  auto buffers = static_cast<int64_t>(getBuffers()), params = static_cast<int64_t>(getParams());
  if (buffers < 1 || params < 0)
    return emitOpError("takes ") << buffers << " buffers and " << params << " parameters (C1)";
  return success();
}

template <typename Op>
static LogicalResult verifyBinding(Op op) {
  FailureOr<RankedTensorType> tensor = verifyTensor(op, op.getType());
  if (failed(tensor) || failed(verifyShape(op, *tensor, op.getSharding())))
    return failure();
  if (std::optional<ArrayRef<int64_t>> range = op.getRange())
    if (range->size() < 2 || (*range)[0] > (*range)[1])
      return op.emitOpError("has range [") << *range << "], expected a least and a greatest value (C2)";
  return success();
}

LogicalResult InputOp::verify() {
  return verifyBinding(*this);
}

LogicalResult OutputOp::verify() {
  return verifyBinding(*this);
}

LogicalResult LaunchOp::verify() {
  auto buffers = static_cast<int64_t>(getBuffers().size());
  auto writes = static_cast<int64_t>(getWrites());
  if (writes < 0 || writes > buffers)
    return emitOpError("writes ") << writes << " of " << buffers << " buffers (C2)";
  for (int64_t index : getAlsoWritten().value_or(ArrayRef<int64_t>()))
    if (index < 0 || index >= buffers - writes)
      return emitOpError("also writes buffer ")
             << index << ", expected an index below " << buffers - writes << " (C2)";
  if (static_cast<int64_t>(getTiles()) < 1 || static_cast<int64_t>(getTileScratch()) < 0)
    return emitOpError("has ") << static_cast<int64_t>(getTiles()) << " tiles with "
                               << static_cast<int64_t>(getTileScratch()) << " bytes of scratch (C3)";
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("names kernel ") << getKernelAttr() << ", which the module does not have (C1)";
  if (kernel.getBuffers() == getBuffers().size() && kernel.getParams() == getParams().size())
    return success();
  InFlightDiagnostic diagnostic = emitOpError("gives ")
                                  << getBuffers().size() << " buffers and " << getParams().size()
                                  << " parameters to kernel " << getKernelAttr() << " (C1)";
  diagnostic.attachNote(kernel.getLoc())
      << "which takes " << kernel.getBuffers() << " and " << kernel.getParams();
  return diagnostic;
}

LogicalResult ConvolutionOp::verify() {
  size_t expected = getPack() ? 2 : 4 + (getBias() ? 1 : 0);
  if (getBuffers().size() != expected)
    return emitOpError("has ") << getBuffers().size() << " buffers, expected " << expected << " (C1)";
  size_t rank = getInput().size();
  if (rank < 3 || rank > 5)
    return emitOpError("has an input of rank ") << rank << ", expected 3 to 5 (C2)";
  for (ArrayRef<int64_t> sizes : {getWeight(), getOutput(), getInputStrides(), getOutputStrides()})
    if (sizes.size() != rank)
      return emitOpError("has [") << sizes << "], expected " << rank << " numbers as the input has (C2)";
  for (ArrayRef<int64_t> window : {getStrides(), getDilations(), getPadsBegin(), getPadsEnd()})
    if (window.size() != rank - 2)
      return emitOpError("has [") << window << "] of its window, expected " << rank - 2 << " numbers (C2)";
  if (getCompute() && getPack())
    return emitOpError("packs a weight, and has 'compute', of convolutions that take it as it is (C3)");
  return success();
}

LogicalResult ContractionOp::verify() {
  const size_t expected = 4 + (getBias() ? 1 : 0);
  if (getBuffers().size() != expected)
    return emitOpError("has ") << getBuffers().size() << " buffers, expected " << expected << " (C1)";
  ArrayRef<int64_t> sizes = getSizes();
  if (sizes.size() != 4 || llvm::any_of(sizes, [](int64_t size) { return size < 1; }))
    return emitOpError("has sizes [") << sizes << "], expected batch, m, n and k of at least 1 (C2)";
  const std::tuple<const char *, ArrayRef<int64_t>, int64_t, int64_t> matrices[] = {
      {"A", getAStrides(), sizes[1], sizes[3]},
      {"B", getBStrides(), sizes[3], sizes[2]},
      {"C", getCStrides(), sizes[1], sizes[2]}};
  for (auto [name, strides, rows, columns] : matrices) {
    if (strides.size() != 3)
      return emitOpError("has strides [") << strides << "] of " << name << ", expected three (C2)";
    if (!(strides[1] == 1 && strides[2] >= rows) && !(strides[2] == 1 && strides[1] >= columns))
      return emitOpError("has strides [") << strides << "] of " << name << ", a matrix of " << rows << " x "
                                          << columns << ", expected rows or columns without gaps (C3)";
  }
  if (getBias() && getCStrides()[2] != 1)
    return emitOpError("has a bias, and strides [") << getCStrides() << "] of C (C4)";
  return success();
}

LogicalResult FusedAttentionOp::verify() {
  const size_t expected = 5 + (getMaskType() ? 1 : 0);
  if (getBuffers().size() != expected)
    return emitOpError("has ") << getBuffers().size() << " buffers, expected " << expected << " (C1)";
  ArrayRef<int64_t> sizes = getSizes();
  if (sizes.size() != 7 || llvm::any_of(sizes, [](int64_t size) { return size < 1; }) ||
      sizes[1] % sizes[2] != 0)
    return emitOpError("has sizes [") << sizes
                                      << "], expected seven of at least 1, the second a multiple of the "
                                         "third (C2)";
  for (ArrayRef<int64_t> strides :
       {getQueryStrides(), getKeyStrides(), getValueStrides(), getOutputStrides()})
    if (strides.size() != 4 || strides[3] != 1)
      return emitOpError("has strides [") << strides << "], expected four, the last 1 (C3)";
  if (getMaskStrides() && getMaskStrides()->size() != 4)
    return emitOpError("has strides [") << *getMaskStrides() << "] of its mask, expected four (C3)";
  if (bool(getMaskType()) != bool(getMaskStrides()) || static_cast<int64_t>(getCausalOffset()) < 0)
    return emitOpError("has a mask's type or strides without the other, or a negative 'causal_offset' (C4)");
  return success();
}

LogicalResult CollectiveOp::verify() {
  ArrayRef<int64_t> axes = getAxes();
  if (axes.empty())
    return emitOpError("needs at least one mesh axis (C1)");
  for (auto [i, axis] : llvm::enumerate(axes))
    if (axis < 0 || llvm::is_contained(axes.take_front(i), axis))
      return emitOpError("has mesh axes [") << axes << "], expected each once (C1)";
  if (getSrcStrides().size() != getSizes().size() || getDstStrides().size() != getSizes().size())
    return emitOpError("has ") << getSizes().size() << " sizes with " << getSrcStrides().size() << " and "
                               << getDstStrides().size() << " strides (C2)";
  CollectiveKind kind = getKind();
  bool reduces = kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter;
  if (reduces != getReduction().has_value())
    return emitOpError(reduces ? "needs a reduction (C3)" : "has a reduction, but combines nothing (C3)");
  if (kind == CollectiveKind::Broadcast && !getRoot())
    return emitOpError("needs a root (C3)");
  bool exchanges = kind == CollectiveKind::Exchange;
  size_t operands = exchanges ? 3 : kind == CollectiveKind::Permute ? 1 : 0;
  if (getOperands_().size() != operands)
    return emitOpError("has ") << getOperands_().size() << " operands, expected " << operands << " (C4)";
  if (exchanges != getWindow().has_value() || (exchanges && getWindow()->size() != 4))
    return emitOpError(exchanges ? "needs a window of four sizes (C4)"
                                 : "has a window, which it does not use (C4)");
  return success();
}

LogicalResult CopyOp::verify() {
  if (getSrc().getBytes() == getDst().getBytes())
    return success();
  return emitOpError("copies ") << getSrc().getBytes() << " bytes into " << getDst().getBytes() << " (C1)";
}

LogicalResult RepeatOp::verify() {
  if (static_cast<int64_t>(getCount()) < 1)
    return emitOpError("runs its body ") << static_cast<int64_t>(getCount()) << " times (C1)";
  Block &body = getBody().front();
  if (body.getNumArguments() != 1 || !body.getArgument(0).getType().isIndex())
    return emitOpError("has a body with ") << body.getNumArguments() << " arguments, expected one index (C2)";
  return success();
}

LogicalResult FunctionOp::verify() {
  Block &body = getBody().front();
  if (body.getNumArguments() > 64 ||
      !llvm::all_of(body.getArgumentTypes(), [](Type type) { return type.isIndex(); }))
    return emitOpError("takes ") << body.getNumArguments()
                                 << " arguments, expected at most 64, of type index (C1)";
  WalkResult result = getBody().walk([](CallOp) { return WalkResult::interrupt(); });
  return result.wasInterrupted() ? emitOpError("calls a function (C2)") : success();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee = symbols.lookupNearestSymbolFrom<FunctionOp>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError("names function @") << getCallee() << ", which the module does not have (C1)";
  unsigned takes = callee.getBody().getNumArguments();
  if (takes != getArguments().size())
    return emitOpError("gives ") << getArguments().size() << " arguments to @" << getCallee()
                                 << ", which takes " << takes << " (C1)";
  return success();
}

LogicalResult LoadParameterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(*this, getParameterAttr());
  if (!parameter)
    return emitOpError("names parameter ") << getParameterAttr() << ", which the module does not have (C1)";
  auto tensor = dyn_cast<RankedTensorType>(parameter.getType());
  if (!tensor || !getStarts())
    return tensor ? verifyShape(*this, tensor, getSharding()) : success();
  SmallVector<int64_t> part = getSharding().getGlobalShape();
  bool fits = part.size() == getStarts()->size() && part.size() == tensor.getShape().size();
  for (size_t d = 0; fits && d < part.size(); ++d) {
    const int64_t start = (*getStarts())[d], size = tensor.getDimSize(d);
    fits = start >= 0 && start <= size && part[d] <= size - start;
  }
  if (fits)
    return success();
  return emitOpError("has sharding ")
         << getSharding() << " from [" << *getStarts() << "] on, which is no part of " << tensor << " (C2)";
}
