// Winograd's minimal filtering F(m x m, 3 x 3) around a batched contraction: 3 x 3 windows of stride 1 with
// (m + 2)^2 / m^2 multiplications per output instead of 9 (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2015, section 4).
//
// With t = m + 2 and d a t x t piece of the input, the m x m outputs are A' [ (G g G') * (B' d B) ] A. The
// product * of elements, summed over channels, is a contraction for each of the t^2 places: that of
// ContractionKernel.h. Here are the two sides of it, and the matrix that transforms the weights.
//
// All is f32. Tensors of pieces are [place][piece][channel], places `pitch` elements apart.
#ifndef COLOSSAL_CODEGEN_CPU_WINOGRADKERNEL_H
#define COLOSSAL_CODEGEN_CPU_WINOGRADKERNEL_H

#include "colossal/Codegen/CPU/ContractionKernel.h"
#include <array>

namespace colossal::cpu {

/// A convolution with 3 x 3 windows, stride 1, as pieces of m x m outputs.
struct WinogradShape {
  int64_t m = 4; ///< 2 or 4
  int64_t batch = 1, inputChannels = 1, outputChannels = 1;
  int64_t height = 1, width = 1; ///< of the output; the input has 2 more of each, its padding included

  int64_t places() const { return (m + 2) * (m + 2); }
  int64_t rows() const { return (height + m - 1) / m; }   ///< of pieces
  int64_t columns() const { return (width + m - 1) / m; } ///< of pieces
  int64_t pieces() const { return batch * rows() * columns(); }
  /// Elements between places; not a power of two, so that places do not meet in one set of a cache.
  int64_t pitch(int64_t channels) const { return pieces() * channels + 16; }
};

/// G x G as a matrix of places() x 9, row-major: the transformed weight of a place is a row times the window.
std::vector<float> winogradWeightMatrix(int64_t m);

/// Buffers: the input, with `strides` of batch, height and width (channels lie next to each other); the
/// pieces.
GeneratedKernel generateWinogradInput(mlir::MLIRContext &context, const Processor &processor,
                                      const WinogradShape &shape, const std::array<int64_t, 3> &strides);

/// Where weights lie that are transformed when they are used: element 0, and strides of out channels, in
/// channels, height and width, in elements.
struct WinogradWeights {
  int64_t first = 0;
  std::array<int64_t, 4> strides;
};

/// Elements from a place's weights to the next one's, each packed as a right side (packedElements).
int64_t winogradWeightPitch(mlir::MLIRContext &context, const Processor &processor,
                            const WinogradShape &shape);

/// Buffers: the weights; the transformed ones of each place, packed.
GeneratedKernel generateWinogradWeights(mlir::MLIRContext &context, const Processor &processor,
                                        const WinogradShape &shape, const WinogradWeights &weights);

// The gradient of the weights g of such a convolution is its transpose, of which the sums over pieces are
// again a contraction for each place: with y the outputs' gradient, G' [ (B' d B) * (A y A') ] G. The left
// side of the product is what the input kernel makes; here are the right one, and what follows.

/// Buffers: the outputs' gradient, with `strides` of batch, height and width (channels lie next to each
/// other); its pieces, with shape.outputChannels.
GeneratedKernel generateWinogradGradient(mlir::MLIRContext &context, const Processor &processor,
                                         const WinogradShape &shape, const std::array<int64_t, 3> &strides);

/// Elements between places of the products, [out channel][in channel] each.
inline int64_t winogradFilterPitch(const WinogradShape &shape) {
  return shape.outputChannels * shape.inputChannels + 16;
}

/// Buffers: the products; the weights' gradient.
GeneratedKernel generateWinogradFilter(mlir::MLIRContext &context, const Processor &processor,
                                       const WinogradShape &shape, const WinogradWeights &weights);

/// What is written of the outputs. The epilogue is called with no batch dimension, the m dimensions batch,
/// height and width, and one n dimension, the channels.
struct WinogradOutput {
  mlir::Type type;                ///< of the output
  std::array<int64_t, 4> strides; ///< of batch, height, width, channels
  Epilogue epilogue;              ///< null: the sums themselves
  llvm::SmallVector<BufferSpec> extraInputs, extraOutputs;
  bool noalias = true; ///< false: the output may share memory with an extra input of the same layout
  unsigned params = 0;
};

/// Buffers: the products, extra inputs, the output, extra outputs.
GeneratedKernel generateWinogradOutput(mlir::MLIRContext &context, const Processor &processor,
                                       const WinogradShape &shape, const WinogradOutput &output);

} // namespace colossal::cpu

#endif // COLOSSAL_CODEGEN_CPU_WINOGRADKERNEL_H
