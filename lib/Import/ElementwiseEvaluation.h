//===- ElementwiseEvaluation.h - elementwise ops on host tensors ------------===//
//
// Part of ConstantFolding.cpp: the kinds of the elementwise op.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_ELEMENTWISEEVALUATION_H
#define COLOSSAL_LIB_IMPORT_ELEMENTWISEEVALUATION_H

#include "HostTensor.h"
#include "dialects/Colossal/Colossal.h"

namespace colossal {

/// The elements of `op` for constant operands (`splat`: all are splats, and so is the result); nullopt for
/// kinds that are left to run time and for divisions by zero.
std::optional<std::vector<HostTensor>> evaluateElementwise(ElementwiseOp op,
                                                           llvm::ArrayRef<HostTensor> operands,
                                                           mlir::RankedTensorType type, bool splat);

} // namespace colossal

#endif // COLOSSAL_LIB_IMPORT_ELEMENTWISEEVALUATION_H
