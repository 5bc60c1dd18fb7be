//===- PlanDialect.h - what the runtime executes ----------------------------===//
//
// The compiler's side of the plan format; lib/Plan turns it into include/colossal/Plan/Plan.proto's messages.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_PLAN_PLANDIALECT_H
#define COLOSSAL_DIALECTS_PLAN_PLANDIALECT_H

#include "dialects/Dist/Dist.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"

#include "dialects/Plan/PlanDialect.h.inc"
#include "dialects/Plan/PlanEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Plan/PlanAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Plan/PlanOps.h.inc"

#endif // COLOSSAL_DIALECTS_PLAN_PLANDIALECT_H
