//===- Elements.h - element types and constants as bytes --------------------===//
#ifndef COLOSSAL_LIB_PLAN_ELEMENTS_H
#define COLOSSAL_LIB_PLAN_ELEMENTS_H

#include "colossal/Plan/Plan.pb.h"
#include "mlir/IR/BuiltinAttributes.h"

#include <optional>
#include <string>

namespace colossal::plan {

/// The plan's name of an MLIR element type; none for types that tensors of a model do not have. i1 is BOOL,
/// signless and signed integers are I8..I64.
std::optional<DataType> getDataType(mlir::Type element);
/// Bytes of one element.
unsigned getElementBytes(DataType type);
/// The constant's elements, row-major, little-endian and dense; booleans as one byte each.
mlir::FailureOr<std::string> getBytes(mlir::ElementsAttr value);

} // namespace colossal::plan

#endif // COLOSSAL_LIB_PLAN_ELEMENTS_H
