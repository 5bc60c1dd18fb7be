//===- State.h - tensors that persist from run to run and change ------------===//
//
// How functions say that they read and write a state: a parameter that is trained, what an optimizer keeps of
// it, a running statistic. It is an argument of each function that uses it, its value before the run, and, of
// a function that changes it, a result, its value after. Both have the state's name as an attribute; they are
// laid out alike in all functions, and lie at one place, where the schedule writes the new value over the
// old.
//
//   func.func @step(%w: tensor<8x4xf32> {colossal.state = "fc.weight", colossal.state_info = {...}}, ...)
//       -> (tensor<8x4xf32> {colossal.state = "fc.weight"}, ...)
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_DIST_STATE_H
#define COLOSSAL_DIALECTS_DIST_STATE_H

#include "mlir/IR/BuiltinOps.h"

namespace colossal::dist {

/// Attribute of an argument or result: the name of the state that it is.
inline constexpr llvm::StringLiteral kStateAttrName = "colossal.state";

/// With it, of an argument: a dictionary that says what the state is, the same in all functions:
///   kind       "parameter", "slot" or "statistic"
///   parameter  the tensor of the model's file that it is, or whose slot it is
///   slot       of a slot: "exp_avg", ...
///   tied       further tensors of the file with the same value; an array of strings
///   transposed those of `tied` that lie the other way round in the file; an array of strings
///   source     a dictionary with the attributes of the `colossal.parameter` that it begins as, and the type
///   of
///              its elements (`type`) where that is another one; without it, the state begins as zeros
inline constexpr llvm::StringLiteral kStateInfoAttrName = "colossal.state_info";

/// Of an argument that is a state: indices of mesh axes that its layout must use as far as they fit
/// (`colossal.stored_over`), or that it must not use (`colossal.replicated_over`).
inline constexpr llvm::StringLiteral kStoredOverAttrName = "colossal.stored_over",
                                     kReplicatedOverAttrName = "colossal.replicated_over";

/// Attribute of a function: the role of its program, "step"; absent: an inference.
inline constexpr llvm::StringLiteral kRoleAttrName = "colossal.role";

/// Attribute of a module whose functions train: a dictionary with `optimizer`, `step_values` (array of
/// strings), `global_batch`, `loss`.
inline constexpr llvm::StringLiteral kTrainingAttrName = "colossal.training";

/// What the module that `op` is or lies in, or that which this is a stage of, says of training; null where it
/// does not train.
inline mlir::DictionaryAttr getTraining(mlir::Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto training = op->getAttrOfType<mlir::DictionaryAttr>(kTrainingAttrName))
      return training;
  return {};
}

} // namespace colossal::dist

#endif // COLOSSAL_DIALECTS_DIST_STATE_H
