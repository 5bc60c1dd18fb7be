//===- CostTypes.h - element types as the cost model knows them -------------===//
//
// The cost model knows no IR.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LAYOUT_COSTTYPES_H
#define COLOSSAL_LAYOUT_COSTTYPES_H

#include "colossal/Cost/Machine.h"
#include "mlir/IR/Types.h"

namespace colossal::layout {

/// The type at whose peak arithmetic on such elements runs: integers below 32 bits as i8, wider ones as i32.
cost::DataType getCostType(mlir::Type element);

} // namespace colossal::layout

#endif // COLOSSAL_LAYOUT_COSTTYPES_H
