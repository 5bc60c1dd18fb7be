// Whose times a search predicts, and whose program they are for.
#ifndef COLOSSAL_LAYOUT_DEVICE_H
#define COLOSSAL_LAYOUT_DEVICE_H

#include "colossal/Cost/Machine.h"
#include "mlir/IR/BuiltinOps.h"

namespace colossal::layout {

/// Attribute of a module (string): the device that its program is for, where that is not the CPU.
inline constexpr llvm::StringLiteral kDeviceAttrName = "colossal.device";
/// What the module, or one around it, says; else "cpu".
llvm::StringRef getDevice(mlir::ModuleOp module);

/// Empty where times for `machine` are times of programs for `device`; otherwise a sentence that says whose
/// they are.
std::string describeForeignTimes(const cost::Machine &machine, llvm::StringRef device);

} // namespace colossal::layout

#endif // COLOSSAL_LAYOUT_DEVICE_H
