// Kernels of ops whose results depend on one another: running sums, sorting, scattering. Pulling each element
// by itself would do the same work again for each; these walk a line once. Time: linear in the elements, n
// log n for top-k. Neighbour: FusedKernel, which makes all other elementwise code.
#ifndef COLOSSAL_CODEGEN_CPU_SEQUENTIALKERNEL_H
#define COLOSSAL_CODEGEN_CPU_SEQUENTIALKERNEL_H

#include "colossal/Codegen/CPU/KernelFunction.h"
#include "colossal/Codegen/CPU/Target.h"
#include "mlir/IR/Operation.h"

namespace colossal::cpu {

/// cumulate, topk, scatter_elements, scatter_nd.
bool isSequential(mlir::Operation *op);

/// Whether the kernel updates what its output holds already: the op's first operand must be copied there
/// before, and is no buffer of the kernel.
bool updatesOutput(mlir::Operation *op);

/// Buffers: the op's tensor operands (but the first if updatesOutput), then its results. `strides` has those
/// of each buffer, in elements. A tile is a line or what is independent of all other tiles, so that threads
/// change no bits. Indices out of range touch nothing.
llvm::Expected<GeneratedKernel> generateSequential(mlir::MLIRContext &context, const Target &target,
                                                   mlir::Operation *op,
                                                   llvm::ArrayRef<llvm::SmallVector<int64_t>> strides);

} // namespace colossal::cpu

#endif
