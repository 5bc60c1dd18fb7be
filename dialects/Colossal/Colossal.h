//===- Colossal.h - the model dialect ---------------------------------------===//
//
// Ops of a model. Each family of ops has a folder here with its ODS, one .cpp that holds what is known about
// it (verification, folding, sharding rule, emission), and one with its gradients.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_COLOSSAL_H
#define COLOSSAL_DIALECTS_COLOSSAL_COLOSSAL_H

#include "dialects/Colossal/ElementEmitter.h"
#include "dialects/Colossal/KernelKind.h"
#include "dialects/Colossal/RowEmitter.h"
#include "dialects/Colossal/TileEmitter.h"
#include "dialects/Dist/FactorRule.h"
#include "mlir/Interfaces/InferIntRangeInterface.h"

namespace colossal {
class GradientBuilder;
} // namespace colossal

#include "dialects/Colossal/ColossalDialect.h.inc"
#include "dialects/Colossal/ColossalEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Colossal/ColossalAttrs.h.inc"
#include "dialects/Colossal/Interfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/Colossal/ColossalOps.h.inc"

#endif // COLOSSAL_DIALECTS_COLOSSAL_COLOSSAL_H
