//===- ParameterRoles.h - what is known of a parameter by how it is read -----===//
//
// Attributes of `colossal.parameter` that training asks for, on which nothing else depends, and which numbers
// are parameters.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_IMPORT_PARAMETERROLES_H
#define COLOSSAL_IMPORT_PARAMETERROLES_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

namespace colossal {

/// A running mean or variance of a batch normalization (unit).
inline constexpr llvm::StringLiteral kStatisticAttr = "colossal.statistic";
/// The model has it as a node of operator Constant, not as an initializer (unit).
inline constexpr llvm::StringLiteral kConstantNodeAttr = "colossal.constant_node";
/// Which of its `aliases` lie the other way round in the file: they are the matrix with its dimensions
/// exchanged (array of strings).
inline constexpr llvm::StringLiteral kTransposedAttr = "colossal.transposed";
/// A loss weighs its classes by it, where no derivative goes (unit).
inline constexpr llvm::StringLiteral kClassWeightsAttr = "colossal.class_weights";
/// A recurrence begins with it as it is, one state for each sample of a batch (unit).
inline constexpr llvm::StringLiteral kInitialStateAttr = "colossal.initial_state";

/// What the exporter says that it was in the module (string): kIsModuleParameter, or kIsModuleBuffer.
inline constexpr llvm::StringLiteral kModuleRoleAttr = "colossal.module_role";
inline constexpr llvm::StringLiteral kIsModuleParameter = "parameter", kIsModuleBuffer = "buffer";

/// Whether a name is of those that torch.onnx gives what it makes itself, as the scale and bias of an
/// instance normalization that has none: val_12.
inline bool isNumberedByExporter(llvm::StringRef name) {
  return name.consume_front("val_") && !name.empty() && llvm::all_of(name, llvm::isDigit);
}

/// Whether torch.onnx calls so what a function has made that fills a tensor with one number: zeros_1.
inline bool isFilledByExporter(llvm::StringRef name) {
  auto [stem, number] = name.rsplit('_');
  if (!number.empty() && llvm::all_of(number, llvm::isDigit))
    name = stem;
  name.consume_front("new_");
  name.consume_back("_like");
  return llvm::StringSwitch<bool>(name).Cases({"zeros", "ones", "full"}, true).Default(false);
}

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
