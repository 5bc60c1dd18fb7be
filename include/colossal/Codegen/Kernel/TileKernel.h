// Kernels of ops that emit whole tiles (dialects/Colossal/TileEmitter.h): running sums, sorting, scattering.
// Tiles depend on no other tile, so that threads change no bits.
#ifndef COLOSSAL_CODEGEN_KERNEL_TILEKERNEL_H
#define COLOSSAL_CODEGEN_KERNEL_TILEKERNEL_H

#include "colossal/Codegen/Kernel/Team.h"
#include "llvm/Support/Error.h"

namespace colossal::kernel {

/// The kernel of an op with TileEmissionOpInterface. Buffers: its tensor operands (but the first if it
/// updatesFirstOperand), then its results. `strides` has those of each buffer, in elements. `addsToResult`,
/// for an op that can: its sums are added to what lies in the result.
llvm::Expected<GeneratedKernel> generateTiles(mlir::MLIRContext &context, const Team &team,
                                              mlir::Operation *op,
                                              llvm::ArrayRef<llvm::SmallVector<int64_t>> strides,
                                              bool addsToResult = false);

} // namespace colossal::kernel

#endif // COLOSSAL_CODEGEN_KERNEL_TILEKERNEL_H
