//===- KernelCache.h - equal kernels are generated once ---------------------===//
//
// A model repeats itself: its kernels are asked for once per layer and differ per kind of layer only. What a
// kernel's code depends on is gathered as words before any code is made; equal words give the kernel that is
// there already. The KernelCompiler compares the code itself, and so finds what two different keys have in
// common.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_SCHEDULE_KERNELCACHE_H
#define COLOSSAL_SCHEDULE_KERNELCACHE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace colossal::schedule {

/// A sequence of words. Attributes, types and names enter by address, as the context stores each once: a key
/// holds as long as its context, and never reaches a plan.
class KernelKey {
public:
  enum class Kind { Loops, Copy, Fill, Tiles, OfTarget };
  explicit KernelKey(Kind kind) : words{static_cast<uint64_t>(kind)} {}
  /// A kind of kernel of the target's own, by its number.
  explicit KernelKey(unsigned ofTarget) : words{static_cast<uint64_t>(Kind::OfTarget), ofTarget} {}

  KernelKey &add(int64_t value);
  KernelKey &add(double value);
  KernelKey &add(mlir::Type type);
  KernelKey &add(mlir::Attribute attribute);
  KernelKey &add(llvm::ArrayRef<int64_t> values); ///< and how many they are
  /// The ops of a function of one block, without their locations.
  KernelKey &add(mlir::func::FuncOp function);
  /// An op without its operands: name, attributes, types of results.
  KernelKey &add(mlir::Operation *op);

  bool operator<(const KernelKey &other) const { return words < other.words; }

private:
  std::vector<uint64_t> words;
};

/// A kernel of the code image, and what a launch states about it.
struct CachedKernel {
  std::string symbol;
  int64_t tiles = 1, scratch = 0;
  unsigned buffers = 0, params = 0;
};

/// By key; none where it is known that no such kernel can be generated. Of kernels that were generated ahead
/// of their images (ImageBuilder::addAhead) the symbols are marks, for ImageBuilder::addAgain.
using KernelCache = std::map<KernelKey, std::optional<CachedKernel>>;

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_KERNELCACHE_H
