//===- BoundaryAttrs.h - attributes of arguments and results, many at once --===//
#ifndef COLOSSAL_DIALECTS_DIST_BOUNDARYATTRS_H
#define COLOSSAL_DIALECTS_DIST_BOUNDARYATTRS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallVector.h"

namespace colossal::dist {

/// Changes to the attributes of a function's arguments and results, which `apply` makes: O(all of them). The
/// function holds each list as one attribute, so every change that is made by itself copies the list into the
/// context, for good; a step of training has thousands of arguments.
class BoundaryAttrs {
public:
  explicit BoundaryAttrs(mlir::func::FuncOp function);

  void setArgument(unsigned i, llvm::StringRef name, mlir::Attribute value) { arguments[i].set(name, value); }
  void removeArgument(unsigned i, llvm::StringRef name) { arguments[i].erase(name); }
  void setResult(unsigned i, llvm::StringRef name, mlir::Attribute value) { results[i].set(name, value); }
  void apply();

private:
  mlir::func::FuncOp function;
  llvm::SmallVector<mlir::NamedAttrList> arguments, results;
};

} // namespace colossal::dist

#endif // COLOSSAL_DIALECTS_DIST_BOUNDARYATTRS_H
