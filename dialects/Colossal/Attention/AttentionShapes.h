//===- AttentionShapes.h - what attention and its gradient have in common ---===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_ATTENTION_ATTENTIONSHAPES_H
#define COLOSSAL_DIALECTS_COLOSSAL_ATTENTION_ATTENTIONSHAPES_H

#include "dialects/Colossal/Colossal.h"

namespace colossal {

/// Factor numbers of the rules; batch, key heads and query heads per key head have size 1 where there is one.
struct AttentionFactors {
  static constexpr unsigned batch = 0, keyHeads = 1, group = 2, query = 3, key = 4, depth = 5, valueDepth = 6;
};

/// Factors of the dimensions of `mask`, which broadcasts to batch x query heads x queries x keys.
dist::TensorFactors getMaskFactors(mlir::Value mask, llvm::ArrayRef<int64_t> query,
                                   llvm::ArrayRef<int64_t> key);

/// What is attended to, and the result: ranks and types (told as `types`), shapes (`shapes`).
mlir::LogicalResult verifyAttended(mlir::Operation *op, mlir::ValueRange queryKeyValue, mlir::Value result,
                                   llvm::StringRef resultName, llvm::StringRef types, llvm::StringRef shapes);
/// `mask`, which may be null.
mlir::LogicalResult verifyMask(mlir::Operation *op, mlir::Value mask, llvm::ArrayRef<int64_t> query,
                               llvm::ArrayRef<int64_t> key, llvm::StringRef constraint);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_ATTENTION_ATTENTIONSHAPES_H
