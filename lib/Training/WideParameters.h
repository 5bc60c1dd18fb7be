//===- WideParameters.h - masters of parameters of 16 bits ------------------===//
#ifndef COLOSSAL_LIB_TRAINING_WIDEPARAMETERS_H
#define COLOSSAL_LIB_TRAINING_WIDEPARAMETERS_H

#include "dialects/Colossal/Colossal.h"

namespace colossal::training {

/// Of a parameter: the type that its elements have in the file, where it is another one.
inline constexpr llvm::StringLiteral kStoredTypeAttr = "colossal.stored_type";

/// Puts a parameter of f32, which is trained, in the place of one of 16 bits, and has its readers narrow it
/// as they read it; those that widened it read it as it is.
ParameterOp widen(ParameterOp op);

} // namespace colossal::training

#endif // COLOSSAL_LIB_TRAINING_WIDEPARAMETERS_H
