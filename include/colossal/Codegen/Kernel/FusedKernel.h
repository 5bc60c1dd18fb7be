// Generator of fused kernels: a group of ops, given as a function, in one pass over memory.
//
// A group is either *pointwise* (every result element is pulled once) or a *row program*: its reductions,
// softmaxes and normalizations all run over the same dimensions of the same shape; the statistics of a row
// are computed by loops over the row and kept in registers, and results are written by a last loop. Vectors
// run along the innermost dimension of the first result that has more than one element, within the row or
// across rows.
//
// A shard.all_slice has its start in the argument `start_argument` (an attribute, counted among the index
// arguments). Buffers of the kernel: the function's tensor arguments, its results, then the scratch. Params:
// its index arguments.
#ifndef COLOSSAL_CODEGEN_KERNEL_FUSEDKERNEL_H
#define COLOSSAL_CODEGEN_KERNEL_FUSEDKERNEL_H

#include "colossal/Codegen/Kernel/Team.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Error.h"

namespace colossal::kernel {

/// A buffer of the group: strides in elements of the tensor's dimensions; the buffer begins at element [0,
/// ..., 0].
struct FusedBuffer {
  llvm::SmallVector<int64_t> strides;
  bool noalias = true;
};

struct FusedSpec {
  mlir::func::FuncOp function;            ///< one block of model ops
  llvm::SmallVector<FusedBuffer> inputs;  ///< one per tensor argument
  llvm::SmallVector<FusedBuffer> outputs; ///< one per result
};

/// A group that it cannot serve is an error that says why; the caller cuts the group then.
llvm::Expected<GeneratedKernel> generateFused(mlir::MLIRContext &context, const Team &team,
                                              const FusedSpec &spec);

} // namespace colossal::kernel

#endif // COLOSSAL_CODEGEN_KERNEL_FUSEDKERNEL_H
