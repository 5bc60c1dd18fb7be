//===- StoredSizes.cpp - tensors that are too large to be stored --------------===//
#include "StoredSizes.h"
#include "GraphBuilder.h"

#include "colossal/Import/OnnxNames.h"

using namespace mlir;

namespace colossal {

/// Tensors of that many bytes, thousands of them, still have a sum.
static constexpr int64_t kMostComputed = int64_t(1) << 48;

/// Whether `op` may be computed where its results are read, so that they need not be stored.
static bool isComputedInPlace(Operation *op) {
  auto emission = dyn_cast<ElementEmissionOpInterface>(op);
  auto kernel = dyn_cast<KernelOpInterface>(op);
  if (!emission || !kernel)
    return false;
  const bool isPointwise = kernel.getKernelKind() == KernelKind::Element && kernel.readsAtOwnIndex();
  return isPointwise || kernel.isElementFree() || emission.getForwarding() != Forwarding::None ||
         op->hasTrait<OpTrait::ConstantLike>();
}

static LogicalResult check(Location location, Type type, int64_t most) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getNumElements() <= most)
    return success();
  OnnxNames names = getOnnxNames(location);
  InFlightDiagnostic error = emitError(location);
  if (!names.nodes.empty())
    error << "node '" << names.nodes.back() << "': ";
  else if (!names.tensors.empty())
    error << "tensor '" << names.tensors.back() << "': ";
  return error << "it needs a tensor of type " << tensor << " to be stored, and at most " << most
               << " elements are possible; bind the model's dimensions smaller";
}

LogicalResult checkStoredSizes(func::FuncOp function) {
  bool ok = true;
  function.walk([&](Operation *op) {
    if (op == function)
      return;
    if (isa<func::ReturnOp>(op)) {
      for (Value result : op->getOperands())
        ok &= succeeded(check(result.getLoc(), result.getType(), kMostStored));
      return;
    }
    for (Type type : op->getResultTypes())
      ok &= succeeded(check(op->getLoc(), type, isComputedInPlace(op) ? kMostComputed : kMostStored));
  });
  return success(ok);
}

} // namespace colossal
