//===- ParameterRoles.h - what is known of a parameter by how it is read -----===//
//
// Attributes of `colossal.parameter` that training asks for, on which nothing else depends, and which numbers
// are parameters.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_IMPORT_PARAMETERROLES_H
#define COLOSSAL_IMPORT_PARAMETERROLES_H

#include "llvm/ADT/StringSwitch.h"

namespace colossal {

/// A running mean or variance of a batch normalization (unit).
inline constexpr llvm::StringLiteral kStatisticAttr = "colossal.statistic";
/// The model has it as a node of operator Constant, not as an initializer (unit).
inline constexpr llvm::StringLiteral kConstantNodeAttr = "colossal.constant_node";

/// Whether a tensor of one number is learned, by the last part of its name: exporters write the constants of
/// formulas as initializers, too.
inline bool isLearnedNumber(llvm::StringRef name) {
  const llvm::StringRef last = name.substr(name.rfind('.') + 1);
  return llvm::StringSwitch<bool>(last)
      .Cases({"weight", "bias", "gamma", "beta", "alpha", "logit_scale"}, true)
      .Default(false);
}

} // namespace colossal

#endif // COLOSSAL_IMPORT_PARAMETERROLES_H
