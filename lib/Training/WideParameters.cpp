//===- WideParameters.cpp - masters of parameters of 16 bits ----------------===//
#include "WideParameters.h"

#include "dialects/Colossal/OpComposer.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace colossal;

static bool isMovement(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel && kernel.getKernelKind() == KernelKind::Movement && op->getNumOperands() == 1;
}

/// Has what reads `narrow` read `wide`, which holds the same.
static void replace(Value narrow, Value wide) {
  const Type wideElement = elementTypeOf(wide);
  for (OpOperand &use : llvm::make_early_inc_range(narrow.getUses())) {
    Operation *user = use.getOwner();
    auto elementwise = dyn_cast<ElementwiseOp>(user);
    OpBuilder b(user);
    if (elementwise && elementwise.getKind() == ElementwiseKind::Cast) {
      if (elementTypeOf(elementwise.getResult()) == wideElement)
        elementwise.getResult().replaceAllUsesWith(wide);
      else
        use.set(wide);
    } else if (isMovement(user)) {
      IRMapping mapping;
      mapping.map(narrow, wide);
      Operation *moved = b.clone(*user, mapping);
      auto type = cast<RankedTensorType>(user->getResult(0).getType());
      moved->getResult(0).setType(type.clone(wideElement));
      replace(user->getResult(0), moved->getResult(0));
    } else {
      use.set(OpComposer(b, narrow.getLoc()).cast(wide, elementTypeOf(narrow)));
    }
  }
}

ParameterOp training::widen(ParameterOp op) {
  OpBuilder b(op);
  auto type = cast<RankedTensorType>(op.getType());
  auto wide = cast<ParameterOp>(b.clone(*op));
  wide.getResult().setType(type.clone(b.getF32Type()));
  wide->setAttr(kStoredTypeAttr, TypeAttr::get(type.getElementType()));
  b.setInsertionPointAfter(wide);
  replace(op.getResult(), wide.getResult());
  return wide; // (nobody reads `op` any more)
}
