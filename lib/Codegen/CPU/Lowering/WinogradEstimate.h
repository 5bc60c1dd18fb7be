//===- WinogradEstimate.h - what decides between algorithms -----------------===//
#ifndef COLOSSAL_LIB_CODEGEN_CPU_LOWERING_WINOGRADESTIMATE_H
#define COLOSSAL_LIB_CODEGEN_CPU_LOWERING_WINOGRADESTIMATE_H

#include "colossal/Codegen/CPU/Processor.h"
#include "colossal/Codegen/CPU/WinogradKernel.h"

#include <algorithm>

namespace colossal::cpu {

/// Cycles of one core, as far as they decide between algorithms. Weights come from memory, each once.
struct WinogradEstimate {
  explicit WinogradEstimate(const Processor &processor) : flopsPerCycle(4.0 * processor.lanes(32)) {}

  double flopsPerCycle;
  static constexpr double memoryBytesPerCycle = 5, cacheBytesPerCycle = 20;
  /// What a transform costs is a little uncertain; so a gain must be clear.
  static constexpr double clearly = 0.85;
  /// Products of `count` matrices: rows x depth with depth x columns.
  double contraction(int64_t count, int64_t rows, int64_t depth, int64_t columns) const {
    double products = 2.0 * count * rows * depth * columns / flopsPerCycle;
    return std::max(products, 4.0 * count * depth * columns / memoryBytesPerCycle);
  }
  /// Elements that are read or written between kernels.
  double traffic(int64_t elements) const { return 4.0 * elements / cacheBytesPerCycle; }
  /// Elements of all weights, or of their gradients, between kernels.
  double weights(int64_t elements) const { return 4.0 * elements / memoryBytesPerCycle; }
};

/// The algorithm for a convolution of these sizes, whose `m` is found, or nothing where none is faster.
/// `isLoaded`: its weights are transformed when the plan is loaded, and read as those of a model.
std::optional<WinogradShape> chooseWinograd(const Processor &processor, WinogradShape shape, bool isLoaded);
/// The same for the gradient of the weights of such a convolution.
std::optional<WinogradShape> chooseWinogradFilter(const Processor &processor, WinogradShape shape);

} // namespace colossal::cpu

#endif // COLOSSAL_LIB_CODEGEN_CPU_LOWERING_WINOGRADESTIMATE_H
