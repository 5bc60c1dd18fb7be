//===- Verification.cpp -----------------------------------------------------===//
//
// Checks that verifiers of several families share (see Verification.h).
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Verification.h"

#include "dialects/Colossal/ElementEmitter.h"
#include "dialects/Colossal/NarrowTypes.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OpDefinition.h"

using namespace mlir;
using namespace colossal;

static bool isElementType(Type type) {
  if (isNarrow(type) || isString(type))
    return true;
  if (auto integer = dyn_cast<IntegerType>(type))
    return type.isSignlessInteger(1) ||
           (!integer.isSigned() && llvm::is_contained({8u, 16u, 32u, 64u}, integer.getWidth()));
  return type.isF32() || type.isF64() || type.isF16() || type.isBF16();
}

LogicalResult colossal::verifyTensors(Operation *op, ElementUse use) {
  auto check = [&](Type type, const char *what, unsigned number) -> LogicalResult {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return success(); // an index
    if (!tensor.hasStaticShape())
      return op->emitOpError() << what << " " << number << " must have a static shape, but is " << type
                               << " (C0)";
    if (!isElementType(tensor.getElementType()))
      return op->emitOpError() << what << " " << number << " has elements of unsupported type "
                               << tensor.getElementType() << " (C0)";
    if (use == ElementUse::Computes && !isComputable(tensor.getElementType()))
      return op->emitOpError() << "computes, and elements of " << what << " " << number << " have type "
                               << tensor.getElementType()
                               << ", which can only be moved, compared and converted (C0)";
    return success();
  };
  for (auto [number, type] : llvm::enumerate(op->getOperandTypes()))
    if (failed(check(type, "operand", number)))
      return failure();
  for (auto [number, type] : llvm::enumerate(op->getResultTypes()))
    if (failed(check(type, "result", number)))
      return failure();
  return success();
}

LogicalResult colossal::verifyAxis(Operation *op, int64_t axis, Value tensor, StringRef label) {
  int64_t rank = shapeOf(tensor).size();
  if (axis < 0 || axis >= rank)
    return op->emitOpError() << "axis " << axis << " is not one of the " << rank << " dimensions of "
                             << tensor.getType() << " (" << label << ")";
  return success();
}

LogicalResult colossal::verifyShape(Operation *op, Value tensor, ArrayRef<int64_t> shape, StringRef name,
                                    StringRef label) {
  if (shapeOf(tensor) != shape)
    return op->emitOpError() << name << " must have shape [" << shape << "], but is " << tensor.getType()
                             << " (" << label << ")";
  return success();
}

LogicalResult colossal::verifyRank(Operation *op, Value tensor, size_t rank, StringRef name,
                                   StringRef label) {
  if (shapeOf(tensor).size() != rank)
    return op->emitOpError() << name << " must have rank " << rank << ", but is " << tensor.getType() << " ("
                             << label << ")";
  return success();
}

LogicalResult colossal::verifyBroadcasts(Operation *op, Value tensor, ArrayRef<int64_t> shape,
                                         const Twine &name, StringRef label) {
  ArrayRef<int64_t> from = shapeOf(tensor);
  bool fits = from.size() <= shape.size();
  for (size_t d = 0; fits && d < from.size(); ++d)
    fits = from[d] == 1 || from[d] == shape[shape.size() - from.size() + d];
  if (!fits)
    return op->emitOpError() << name << " does not broadcast to [" << shape << "]: it is " << tensor.getType()
                             << " (" << label << ")";
  return success();
}

LogicalResult colossal::verifySameElements(Operation *op, Value a, Value b, StringRef label) {
  if (elementTypeOf(a) != elementTypeOf(b))
    return op->emitOpError() << "mixes elements of types " << elementTypeOf(a) << " and " << elementTypeOf(b)
                             << " (" << label << ")";
  return success();
}

LogicalResult colossal::verifyFloats(Operation *op, Value tensor, StringRef label) {
  if (!isa<FloatType>(elementTypeOf(tensor)) || isNarrow(elementTypeOf(tensor)))
    return op->emitOpError() << "has no meaning for " << elementTypeOf(tensor) << " (" << label << ")";
  return success();
}

LogicalResult colossal::verifyIndices(Operation *op, Value tensor, StringRef label) {
  Type type = elementTypeOf(tensor);
  if (!isa<IntegerType>(type) || type.isInteger(1) || !isComputable(type))
    return op->emitOpError() << "indices must be integers, but are " << type << " (" << label << ")";
  return success();
}

LogicalResult colossal::verifyCount(Operation *op, size_t found, size_t expected, StringRef name,
                                    StringRef label) {
  if (found != expected)
    return op->emitOpError() << name << " must have " << expected << " entries, but has " << found << " ("
                             << label << ")";
  return success();
}
