//===- Statistics.h - the arithmetic of normalization -----------------------===//
//
// The parts of a normalization that its pulled form and whole-row kernels share.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_NORMALIZATION_STATISTICS_H
#define COLOSSAL_DIALECTS_COLOSSAL_NORMALIZATION_STATISTICS_H

#include "dialects/Colossal/Colossal.h"

namespace colossal {

/// 1 / sqrt(squares / count + epsilon).
Element inverseDeviation(NormalizeOp op, Element squares, int64_t count);
/// centered * inverse * scale + bias at `index`, of the result's type.
Element normalizeElement(ElementEmitter &emitter, NormalizeOp op, Element centered, Element inverse,
                         llvm::ArrayRef<Lane> index);

} // namespace colossal

#endif
