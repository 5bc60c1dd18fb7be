//===- ElementwiseKinds.h - what a kind of elementwise function is ----------===//
//
// Shared by the op of one function and by formulas of several.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_ELEMENTWISE_ELEMENTWISEKINDS_H
#define COLOSSAL_DIALECTS_COLOSSAL_ELEMENTWISE_ELEMENTWISEKINDS_H

#include "dialects/Colossal/Colossal.h"

#include <string>

namespace colossal {

/// What is wrong with a function of that kind from elements of the types `data` to `found`, with the label of
/// the constraint of ElementwiseOp; empty if nothing is.
std::string checkElements(ElementwiseKind kind, llvm::ArrayRef<mlir::Type> data, mlir::Type found);

/// The function's value, of type `element`. May change `in`.
Element emitKind(ElementEmitter &emitter, ElementwiseKind kind, llvm::MutableArrayRef<Element> in,
                 llvm::ArrayRef<double> params, mlir::Type element);

/// As KernelOpInterface has it.
int64_t getElementCost(ElementwiseKind kind);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_ELEMENTWISE_ELEMENTWISEKINDS_H
