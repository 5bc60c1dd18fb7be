// Transcendental functions on scalars and vectors.
//
// f32 functions are polynomials or rational functions emitted inline, NaN-safe and free of fast-math; the
// errors stated are maxima over the functions' range, relative unless said otherwise. f64 goes to libm lane
// by lane. f16 and bf16 are computed in f32 and rounded once. Functions without a stated error call libm lane
// by lane.
#ifndef COLOSSAL_CODEGEN_KERNEL_VECTORMATH_H
#define COLOSSAL_CODEGEN_KERNEL_VECTORMATH_H

#include "colossal/Codegen/Kernel/Instructions.h"
#include "mlir/IR/Builders.h"

namespace colossal::kernel {

class VectorMath {
public:
  VectorMath(mlir::OpBuilder &builder, mlir::Location loc, const Instructions &instructions)
      : b(builder), loc(loc), instructions(instructions) {}

  mlir::Value exp(mlir::Value x);   // 1.5e-7; exact 0 and infinity beyond the normal range
  mlir::Value exp2(mlir::Value x);  // 2.5e-7; likewise
  mlir::Value expm1(mlir::Value x); // 3e-7
  /// 2^x for x <= 0 (or NaN): 2.5e-7, exact 0 below -127, never a denormal. The inner function of softmax;
  /// f32 only.
  mlir::Value exp2NonPositive(mlir::Value x);
  mlir::Value log(mlir::Value x);
  mlir::Value log2(mlir::Value x);
  mlir::Value log10(mlir::Value x);
  mlir::Value log1p(mlir::Value x);
  mlir::Value erf(mlir::Value x);      // 5e-7 absolute
  mlir::Value tanh(mlir::Value x);     // 3e-7
  mlir::Value sigmoid(mlir::Value x);  // 3e-7
  mlir::Value softplus(mlir::Value x); // log(1 + e^x), 5e-7
  mlir::Value geluErf(mlir::Value x);  // x/2 (1 + erf(x/sqrt 2)), 9e-7 absolute
  mlir::Value geluTanh(mlir::Value x); // x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), 6e-7 absolute
  mlir::Value silu(mlir::Value x);     // x sigmoid(x)
  mlir::Value sqrt(mlir::Value x);
  mlir::Value rsqrt(mlir::Value x); // 1 / sqrt(x), both correctly rounded
  mlir::Value sin(mlir::Value x);
  mlir::Value cos(mlir::Value x);
  mlir::Value tan(mlir::Value x);
  mlir::Value asin(mlir::Value x);
  mlir::Value acos(mlir::Value x);
  mlir::Value atan(mlir::Value x);
  mlir::Value sinh(mlir::Value x);
  mlir::Value cosh(mlir::Value x);
  mlir::Value asinh(mlir::Value x);
  mlir::Value acosh(mlir::Value x);
  mlir::Value atanh(mlir::Value x);
  mlir::Value erfc(mlir::Value x);
  mlir::Value cbrt(mlir::Value x);
  mlir::Value pow(mlir::Value base, mlir::Value exponent);
  mlir::Value atan2(mlir::Value y, mlir::Value x);
  mlir::Value floor(mlir::Value x);
  mlir::Value ceil(mlir::Value x);
  mlir::Value roundEven(mlir::Value x);
  mlir::Value trunc(mlir::Value x);

  /// Larger and smaller of two values of one float type; a NaN in either gives NaN (ONNX, numpy).
  mlir::Value maximum(mlir::Value lhs, mlir::Value rhs);
  mlir::Value minimum(mlir::Value lhs, mlir::Value rhs);
  /// x y + z, rounded once where there is an instruction for it, otherwise twice.
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z);
  /// x limited to [low, high] of constants, NaN kept: two instructions.
  mlir::Value clamp(mlir::Value x, double low, double high);
  /// The running maximum of blocks that hold no NaN: `rhs > lhs ? rhs : lhs`, one instruction; a NaN rhs is
  /// dropped.
  mlir::Value maximumOrdered(mlir::Value lhs, mlir::Value rhs);

private:
  using Unary = llvm::function_ref<mlir::Value(mlir::Value)>;
  /// Runs `compute` in f32 for f16 and bf16, directly otherwise.
  mlir::Value inFloat(mlir::Value x, Unary compute);
  mlir::Value constant(mlir::Value like, double value);
  mlir::Value bits(mlir::Value like, uint32_t pattern);
  mlir::Value polynomial(mlir::Value x, llvm::ArrayRef<double> highestFirst);
  /// p * 2^n for integral float n in [-252, 254], by two factors, so that neither overflows.
  mlir::Value scaleByPowerOfTwo(mlir::Value p, mlir::Value n);

  mlir::OpBuilder &b;
  mlir::Location loc;
  const Instructions &instructions;
};

} // namespace colossal::kernel

#endif // COLOSSAL_CODEGEN_KERNEL_VECTORMATH_H
