//===- Lowerings.h - what CPUs compute by routines --------------------------===//
//
// Contractions by a kernel of our own over weights packed at load; convolutions the same way, by Winograd's
// algorithm or by the library; attention by one kernel. All tensors of convolutions lie channels last.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_CODEGEN_CPU_LOWERING_LOWERINGS_H
#define COLOSSAL_LIB_CODEGEN_CPU_LOWERING_LOWERINGS_H

#include "CpuTarget.h"
#include "colossal/Codegen/CPU/ContractionKernel.h"
#include "colossal/Codegen/CPU/WinogradKernel.h"
#include "colossal/Schedule/LoweringContext.h"

namespace colossal::cpu {

using schedule::Access;
using schedule::CachedKernel;
using schedule::FusionGroup;
using schedule::KernelKey;
using schedule::LoweringContext;
using schedule::View;

/// The target's own kinds of kernels.
enum : unsigned { kContractionKernel, kAttentionKernel, kPackKernel, kWinogradKernel, kRowCopyKernel };
void addDims(KernelKey &key, llvm::ArrayRef<ContractionDim> dims);

mlir::LogicalResult lowerContraction(const CpuTarget &target, LoweringContext &context, FusionGroup &group);
mlir::LogicalResult lowerConvolution(LoweringContext &context, FusionGroup &group);
mlir::LogicalResult lowerAttention(const CpuTarget &target, LoweringContext &context, FusionGroup &group);

/// Takes bias and padding out of the convolutions that are computed as contractions, and marks them.
void prepareConvolutions(mlir::func::FuncOp function);
/// A contraction, or a convolution that prepareConvolutions made one.
bool isContraction(mlir::Operation *op);
/// Whether the library can do `ops` (in order) on the result of a convolution.
bool fitsLibrary(mlir::Operation *convolution, llvm::ArrayRef<mlir::Operation *> ops);

/// What a contraction multiplies: labels of the dimensions, and where the sides lie. Windows of a convolution
/// are dimensions of the left side whose strides overlap.
struct ContractionOperands {
  mlir::Value lhs, rhs;
  View a, b;
  mlir::RankedTensorType lhsType, rhsType; ///< sizes of a's and b's dimensions
  llvm::SmallVector<int64_t> lhsDims, rhsDims, resultDims;
  bool packs = false;    ///< the right side is a weight, packed when it is loaded
  bool reversed = false; ///< windows of the right side are read from their last element to the first
};
mlir::FailureOr<ContractionOperands> operandsOf(const CpuTarget &target, mlir::Operation *op,
                                                LoweringContext &context);

/// Whether the places of a convolution's windows are the columns of the contraction, not rows: so it is for
/// the gradient of a weight, whose places are the weight's window, where few products are summed up for each
/// of them, or where it may be computed by Winograd's algorithm. They are stored as vectors in the order of
/// the weight, and the image is read with its batch, the channels of the forward pass, innermost.
bool hasPlacesAsColumns(const CpuTarget &target, ConvOp op);

/// A weight as the contraction kernel reads it, packed at load; one for all that read it so. Its dimensions
/// begin `first` elements behind the view's beginning.
mlir::FailureOr<View> packedWeight(const CpuTarget &target, LoweringContext &context, mlir::Value weight,
                                   mlir::Type accumulate, llvm::ArrayRef<ContractionDim> batch,
                                   llvm::ArrayRef<ContractionDim> n, llvm::ArrayRef<ContractionDim> k,
                                   const View &view, bool pairs = false, int64_t first = 0);

/// How Winograd's algorithm would compute the convolution, where it is faster than the contraction.
std::optional<WinogradShape> winogradOf(const CpuTarget &target, mlir::Operation *op,
                                        const ContractionOperands &operands, LoweringContext &context);
/// Its instructions. A weight that is computed, or changes, is transformed by a kernel of its own. `output`
/// transforms the products and holds the epilogue; `outputAccesses` are all but the products.
mlir::LogicalResult lowerWinograd(const CpuTarget &target, LoweringContext &context, ConvOp op,
                                  const WinogradShape &shape, const ContractionOperands &operands,
                                  const CachedKernel &output, llvm::ArrayRef<Access> outputAccesses,
                                  unsigned writes, llvm::ArrayRef<mlir::Value> scalars,
                                  llvm::ArrayRef<int64_t> alsoWritten);

/// How Winograd's algorithm would compute the convolution if it is the gradient of a weight of 3 x 3 windows
/// and that is faster than the contraction.
std::optional<WinogradShape> winogradOfFilter(const CpuTarget &target, ConvOp op);
/// Its instructions; false where there are none, since the contraction is better or its operands lie
/// otherwise.
mlir::FailureOr<bool> lowerWinogradFilter(const CpuTarget &target, LoweringContext &context, ConvOp op);

/// Strides of a dense tensor N x C x spatial with the channels innermost.
llvm::SmallVector<int64_t> channelsLastStrides(llvm::ArrayRef<int64_t> shape);

} // namespace colossal::cpu

#endif // COLOSSAL_LIB_CODEGEN_CPU_LOWERING_LOWERINGS_H
