//===- Colossal.cpp - the model dialect -------------------------------------===//
//
// Registration. The ops themselves are in one folder per family.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/LocalOps.h"
#include "dialects/Colossal/Normalization/ScaleAndBias.h"
#include "dialects/Dist/Dist.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace colossal;

#include "dialects/Colossal/ColossalDialect.cpp.inc"
#include "dialects/Colossal/ColossalEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Colossal/ColossalAttrs.cpp.inc"
#include "dialects/Colossal/Interfaces.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Colossal/ColossalOps.cpp.inc"

void ColossalDialect::initialize() {
  attachLocalEmission(*getContext());
  addOperations<
#define GET_OP_LIST
#include "dialects/Colossal/ColossalOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Colossal/ColossalAttrs.cpp.inc"
      >();
}

Operation *ColossalDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                                Location loc) {
  if (auto elements = dyn_cast<ElementsAttr>(value))
    return ConstantOp::create(builder, loc, type, elements);
  return nullptr;
}
