// Contractions on GPUs: by the library, or where it lacks types or strides by a kernel whose blocks compute a
// tile of the result each.
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_CONTRACTION_H
#define COLOSSAL_LIB_CODEGEN_CUDA_CONTRACTION_H

#include "BlockTeam.h"

#include "colossal/Schedule/LoweringContext.h"

namespace colossal::nvidia {

/// A dimension with its strides in both operands and the result, in elements; 0 where a tensor lacks it.
struct ContractionDim {
  int64_t size = 1, a = 0, b = 0, c = 0;
};

/// C[batch, m, n] = sum over k of A[batch, m, k] B[batch, k, n]; each of the four may be several dimensions.
struct ContractionShape {
  mlir::Type aType, bType, cType; ///< f32 f64 f16 bf16, (u)i8..(u)i64
  mlir::Type accumulate;          ///< f32 (f32, f16, bf16), f64, i32 or i64
  bool isRounded = false;         ///< f32 may be multiplied as tf32
  llvm::SmallVector<ContractionDim> batch, m, n, k;
};

/// Buffers: A, B, C. A block holds parts of A and B in shared memory and sums in registers; the order of a
/// sum is that of k. Factors of 16 bits, and of tf32, are multiplied by tensor cores. `team` has 128 threads.
kernel::GeneratedKernel generateContraction(mlir::MLIRContext &context, const BlockTeam &team,
                                            const ContractionShape &shape);

/// A group of a colossal.contract; what neither the library nor the kernel takes is handed back to be
/// computed by element code.
mlir::LogicalResult lowerContraction(const BlockTeam &team, schedule::LoweringContext &context,
                                     schedule::FusionGroup &group);

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_CONTRACTION_H
