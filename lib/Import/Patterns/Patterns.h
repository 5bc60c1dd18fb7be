//===- Patterns.h - normal forms, and recognition of decomposed ops ---------===//
//
// Exporters write one thing in many ways. First the graph is brought to a normal form (Normalize.cpp), then
// groups of ops that compute one known op become that op. One file a pattern; each matches values, not names,
// and leaves alone what it cannot prove.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_PATTERNS_PATTERNS_H
#define COLOSSAL_LIB_IMPORT_PATTERNS_PATTERNS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/PatternMatch.h"

namespace colossal {

/// Folds, simplifies, removes what is unused or computed twice. `isTrained`: what different nodes compute of
/// one parameter stays apart, however equal: training may find that each has a parameter of its own.
mlir::LogicalResult normalizeModel(mlir::ModuleOp module, bool isTrained);
/// Recognises layer and RMS normalization, GELU, SiLU, attention and rotary embedding. `isTrained`: as above.
mlir::LogicalResult recognisePatterns(mlir::ModuleOp module, bool isTrained);

void populateNormalizePatterns(mlir::RewritePatternSet &patterns);
void populateActivationPatterns(mlir::RewritePatternSet &patterns);
void populateNormalizationPatterns(mlir::RewritePatternSet &patterns);
void populateRotaryPatterns(mlir::RewritePatternSet &patterns);
void populateAttentionPatterns(mlir::RewritePatternSet &patterns);

} // namespace colossal

#endif // COLOSSAL_LIB_IMPORT_PATTERNS_PATTERNS_H
