//===- Precision.h - the floats of a model in one precision -----------------===//
//
// The phase between import and differentiation, where --precision asks for it. What it leaves is a model like
// any other, with casts as ops: the phases after it see types, sizes and rates, and nothing else.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_PRECISION_PRECISION_H
#define COLOSSAL_PRECISION_PRECISION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <optional>

namespace colossal::precision {

enum class Precision { F32, TF32, BF16, F16 };

/// "f32", "tf32", "bf16", "f16"; none for other names.
std::optional<Precision> parsePrecision(llvm::StringRef name);
llvm::StringRef getPrecisionName(Precision precision);

/// Attribute of a module (unit): products of f32 may round their factors to ten bits.
inline constexpr llvm::StringLiteral kTf32AttrName = "colossal.tf32";

/// Rewrites all functions of `module`, as imported. `training`: they are to be differentiated. Gradients are
/// composed of ops in the type of what they are of, and must not be rounded after each: so what computes each
/// element stays in f32, and what it gives, which the reverse pass reads again, is narrowed after it.
void setPrecision(mlir::ModuleOp module, Precision precision, bool training = false);

/// The same as a pass.
std::unique_ptr<mlir::Pass> createSetPrecisionPass(Precision precision, bool training = false);
/// Registers `--colossal-set-precision`.
void registerPasses();

} // namespace colossal::precision

#endif // COLOSSAL_PRECISION_PRECISION_H
