//===- ParameterRoles.h - what is known of a parameter by how it is read -----===//
//
// Attributes of `colossal.parameter` that training asks for; nothing else depends on them.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_IMPORT_PARAMETERROLES_H
#define COLOSSAL_IMPORT_PARAMETERROLES_H

#include "llvm/ADT/StringRef.h"

namespace colossal {

/// A running mean or variance of a batch normalization (unit).
inline constexpr llvm::StringLiteral kStatisticAttr = "colossal.statistic";
/// The model has it as a node of operator Constant, not as an initializer (unit).
inline constexpr llvm::StringLiteral kConstantNodeAttr = "colossal.constant_node";

} // namespace colossal

#endif // COLOSSAL_IMPORT_PARAMETERROLES_H
