//===- MergeCasts.cpp - one narrow copy of a parameter ----------------------===//
#include "colossal/Step/MergeCasts.h"

#include "colossal/Outline/OpNames.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/State.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace colossal;

/// Whether a copy lies in memory for it: products and convolutions read one, and others narrow what they read
/// on the way.
static bool isCopied(ElementwiseOp cast) {
  return llvm::all_of(cast->getUsers(), [](Operation *user) {
    auto kernel = dyn_cast<KernelOpInterface>(user);
    return kernel && (kernel.getKernelKind() == KernelKind::Contraction ||
                      kernel.getKernelKind() == KernelKind::Convolution);
  });
}

static bool isAgain(Operation *op) {
  std::vector<std::string> names = outline::getNames(op->getLoc());
  return outline::nameFirstTime(names);
}

/// Whether both are casts of one value in one pass: what the backward pass makes again is not kept for it.
static bool isSameCast(ElementwiseOp a, ElementwiseOp b) {
  return isAgain(a) == isAgain(b) && a.getInputs() == b.getInputs() && a.getType() == b.getType() &&
         a->getDiscardableAttrDictionary() == b->getDiscardableAttrDictionary();
}

void step::mergeCasts(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    if (!function.getArgAttr(argument.getArgNumber(), dist::kStateAttrName))
      continue;
    SmallVector<ElementwiseOp> casts; // in the order of the block
    for (Operation *user : argument.getUsers())
      if (auto cast = dyn_cast<ElementwiseOp>(user); cast && cast.getKind() == ElementwiseKind::Cast &&
                                                     cast->getBlock() == argument.getOwner() &&
                                                     isCopied(cast))
        casts.push_back(cast);
    llvm::sort(casts, [](ElementwiseOp a, ElementwiseOp b) { return a->isBeforeInBlock(b); });
    SmallVector<ElementwiseOp, 2> kept;
    for (ElementwiseOp cast : casts) {
      auto *same = llvm::find_if(kept, [&](ElementwiseOp other) { return isSameCast(cast, other); });
      if (same == kept.end()) {
        kept.push_back(cast);
        continue;
      }
      cast.getResult().replaceAllUsesWith(same->getResult());
      cast.erase();
    }
  }
}
