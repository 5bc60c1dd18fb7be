//===- DistOps.cpp - constraints of the dist ops ----------------------------===//
//
// The labels are those of the ops' descriptions in Dist.td. What needs the mesh (that an axis is one of it)
// is checked by the phase that makes the op.
//
//===----------------------------------------------------------------------===//
#include "dialects/Dist/Dist.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace colossal::dist;

/// As axis indices of ShardingAttr.
static constexpr int64_t kMaxAxes = 32;

/// The axes of a group: at least one, each an index and named once.
static LogicalResult verifyAxes(Operation *op, ArrayRef<int64_t> axes, StringRef label) {
  if (axes.empty())
    return op->emitOpError("needs at least one mesh axis (") << label << ")";
  for (auto [i, axis] : llvm::enumerate(axes)) {
    if (axis < 0 || axis >= kMaxAxes)
      return op->emitOpError("names mesh axis ")
             << axis << ", expected 0 to " << kMaxAxes - 1 << " (" << label << ")";
    if (llvm::is_contained(axes.take_front(i), axis))
      return op->emitOpError("names mesh axis ") << axis << " twice (" << label << ")";
  }
  return success();
}

LogicalResult CoordinateOp::verify() {
  if (static_cast<int64_t>(getAxis()) < 0 || static_cast<int64_t>(getAxis()) >= kMaxAxes)
    return emitOpError("names mesh axis ")
           << static_cast<int64_t>(getAxis()) << ", expected 0 to " << kMaxAxes - 1 << " (C1)";
  return success();
}

LogicalResult MaskPaddingOp::verify() {
  ArrayRef<int64_t> extents = getExtents();
  int64_t elements = 1;
  for (int64_t extent : extents) {
    if (extent < 0)
      return emitOpError("has extents [") << extents << "], of which one is negative (C1)";
    elements *= extent;
  }
  auto input = cast<RankedTensorType>(getInput().getType());
  if (elements != input.getNumElements())
    return emitOpError("has extents [") << extents << "] of " << elements << " elements, and an input of "
                                        << input.getNumElements() << " (C1)";
  if (getMasked().size() != getValid().size())
    return emitOpError("masks ") << getMasked().size() << " extents and has " << getValid().size()
                                 << " valid sizes (C2)";
  int64_t last = -1;
  for (int64_t masked : getMasked()) {
    if (masked <= last || masked >= static_cast<int64_t>(extents.size()))
      return emitOpError("masks extents [")
             << getMasked() << "], expected ascending indices below " << extents.size() << " (C2)";
    last = masked;
  }
  return success();
}

LogicalResult ExchangeOp::verify() {
  auto input = cast<RankedTensorType>(getInput().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  int64_t dim = getDim();
  if (dim < 0 || dim >= input.getRank())
    return emitOpError("exchanges along dimension ")
           << dim << " of an input of rank " << input.getRank() << " (C1)";
  if (failed(verifyAxes(*this, getAxes(), "C2")))
    return failure();
  SmallVector<int64_t> expected(input.getShape());
  if (result.getRank() == input.getRank())
    expected[dim] = result.getDimSize(dim);
  if (result != RankedTensorType::get(expected, input.getElementType()))
    return emitOpError("has result ") << result << ", expected the input's type " << input
                                      << " with another size of dimension " << dim << " (C3)";
  return success();
}

LogicalResult PermuteOp::verify() {
  return verifyAxes(*this, getAxes(), "C1");
}

LogicalResult LoopSliceOp::verify() {
  auto input = cast<RankedTensorType>(getInput().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  auto dim = static_cast<int64_t>(getDim()), axis = static_cast<int64_t>(getAxis());
  if (axis < 0 || axis >= kMaxAxes)
    return emitOpError("names mesh axis ") << axis << ", expected 0 to " << kMaxAxes - 1 << " (C1)";
  if (dim < 0 || dim >= input.getRank())
    return emitOpError("slices dimension ") << dim << " of an input of rank " << input.getRank() << " (C1)";
  SmallVector<int64_t> expected(input.getShape());
  if (result.getRank() == input.getRank())
    expected[dim] = result.getDimSize(dim);
  if (result != RankedTensorType::get(expected, input.getElementType()) || expected[dim] == 0 ||
      input.getDimSize(dim) % expected[dim] != 0)
    return emitOpError("has result ") << result << ", expected the input's type " << input
                                      << " with a part of dimension " << dim << " (C2)";
  return success();
}
