//===- Emit.h - from the Plan dialect to a plan file ------------------------===//
//
// The last phase of the compiler. Everything is decided by now: this is a translation, one op to one message.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_PLAN_EMIT_H
#define COLOSSAL_PLAN_EMIT_H

#include "colossal/Plan/Plan.pb.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace colossal::plan {

/// Seconds that the compiler predicts for one execution of an instruction, on its op; a float.
constexpr llvm::StringLiteral kSecondsAttrName = "colossal.seconds";

struct EmitOptions {
  std::string modelPath; ///< the ONNX file; parameters' files are relative to its folder
  std::string
      planPath; ///< where the plan will lie; paths in it are relative to its folder where that is shorter
  std::string device; ///< that the plan is for, as the runtime's registry names it
  std::string triple, cpu;
  std::vector<std::string> features;
  Report report;
};

/// Fills `plan` and its data section from a scheduled module with the mesh attribute and `plan` ops. Fails
/// with a diagnostic where a weight file cannot be found or an index expression has no form in the plan.
mlir::LogicalResult emitPlan(mlir::ModuleOp module, const EmitOptions &options, Plan &plan,
                             std::string &data);

/// Replaces what is not UTF-8 in the texts of `message` by U+FFFD. Names of a model may hold any bytes, the
/// plan's format holds UTF-8 only; parameters are read by their place, so that their names need not be the
/// file's.
void repairText(google::protobuf::Message &message);

} // namespace colossal::plan

#endif // COLOSSAL_PLAN_EMIT_H
