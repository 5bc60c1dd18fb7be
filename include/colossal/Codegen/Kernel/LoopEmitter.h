//===- LoopEmitter.h - element code inside a kernel -------------------------===//
//
// The ElementEmitter of kernels: loads come from buffers where a tensor lies in memory and from the op that
// makes it otherwise, so that pulling one element of a fusion group's result emits the whole group. Within
// one region equal requests give one value.
//
// Indices inside are integers of 32 or 64 bits, as the kernel's offsets allow; what comes from ops and goes
// to them is i64.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_CODEGEN_KERNEL_LOOPEMITTER_H
#define COLOSSAL_CODEGEN_KERNEL_LOOPEMITTER_H

#include "colossal/Codegen/Kernel/VectorMath.h"
#include "colossal/Codegen/Kernel/VectorMemory.h"
#include "dialects/Colossal/Colossal.h"
#include "llvm/ADT/DenseMap.h"

#include <map>
#include <string>
#include <vector>

namespace colossal::kernel {

/// A tensor in memory: `pointer` addresses its element [0, ..., 0]; strides are of elements.
struct TensorView {
  mlir::Value pointer;
  mlir::Type element; ///< the tensor's element type (i1 is stored as a byte)
  llvm::SmallVector<int64_t> strides;
};

class LoopEmitter final : public ElementEmitter {
public:
  /// Code that stands for a tensor's elements.
  using Code = std::function<mlir::Value(llvm::ArrayRef<Lane>)>;

  LoopEmitter(mlir::OpBuilder &builder, mlir::Location loc, const Instructions &instructions, unsigned width,
              unsigned indexBits = 64);

  void bindMemory(mlir::Value tensor, TensorView view) { memory[tensor] = std::move(view); }
  void bindCode(mlir::Value tensor, Code code) { codes[tensor] = std::move(code); }
  /// An index value of the group as an i64 of the kernel.
  void bindScalar(mlir::Value value, mlir::Value param) { scalars[value] = param; }

  /// The first thing that could not be emitted, or "".
  const std::string &error() const { return problem; }
  void fail(llvm::StringRef what) {
    if (problem.empty())
      problem = what.str();
  }

  /// Requests made between these two live in a region of their own.
  void enterRegion() { scopes.emplace_back(); }
  void leaveRegion() { scopes.pop_back(); }
  /// From now on vectors have `lanes` lanes, 1 for scalars; between regions only.
  void setLanes(unsigned lanes) { width = lanes; }
  /// An i64 as an index of the kernel, and back.
  mlir::Value toIndex(mlir::Value word);
  mlir::Value toWord(mlir::Value index);
  /// Lanes that exist; null: all.
  void setMask(mlir::Value mask) { active = mask; }
  mlir::Value mask() const { return active; }

  void store(mlir::Value value, const TensorView &view, llvm::ArrayRef<Lane> index);
  mlir::Value read(const TensorView &view, llvm::ArrayRef<Lane> index);
  /// Emits the op behind `tensor` even if code is bound to it.
  mlir::Value compute(mlir::Value tensor, llvm::ArrayRef<Lane> index);
  mlir::Value widen(mlir::Value value); ///< to a vector
  VectorMath &vectorMath() { return maths; }
  VectorMemory &vectorMemory() { return accesses; }

  mlir::OpBuilder &builder() override { return b; }
  mlir::Location loc() override { return location; }
  unsigned lanes() const override { return width; }
  mlir::Value load(mlir::Value tensor, llvm::ArrayRef<Lane> index, mlir::Value mask = {},
                   mlir::Value otherwise = {}) override;
  mlir::Value scalarOperand(mlir::Value value) override;
  llvm::SmallVector<mlir::Value>
  reduce(int64_t extent, mlir::ValueRange init,
         llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body) override;
  mlir::Value choose(mlir::Value condition, Thunk then, Thunk otherwise) override;
  Lane constant(int64_t value) override;
  Lane add(Lane a, Lane b) override;
  Lane mul(Lane a, int64_t factor) override;
  Lane floorDiv(Lane a, int64_t divisor) override;
  Lane mod(Lane a, int64_t divisor) override;
  Lane fromValue(mlir::Value integer) override;
  mlir::Value toValue(Lane lane, mlir::Type integerType) override;
  mlir::Value inRange(Lane lane, int64_t low, int64_t high) override;
  mlir::Value math(MathFunction function, mlir::Value x) override;
  mlir::Value pow(mlir::Value base, mlir::Value exponent) override { return maths.pow(base, exponent); }
  mlir::Value maximum(mlir::Value a, mlir::Value b) override { return maths.maximum(a, b); }
  mlir::Value minimum(mlir::Value a, mlir::Value b) override { return maths.minimum(a, b); }
  void unify(llvm::MutableArrayRef<mlir::Value> values) override;

protected:
  mlir::Value convertNumber(mlir::Value value, mlir::Type from, mlir::Type to) override;
  mlir::Value scalarNumber(mlir::Type element, double value) override;

private:
  using Key = std::vector<const void *>;
  mlir::Value remember(Key key, llvm::function_ref<mlir::Value()> make);
  mlir::Value pull(mlir::Value tensor, llvm::ArrayRef<Lane> index);
  mlir::Value laneVector(Lane lane); ///< vector of indices
  Lane toIndex(Lane lane);
  bool sameBlock(const Lane &lane, int64_t divisor) const;

  mlir::OpBuilder &b;
  mlir::Location location;
  VectorMath maths;
  VectorMemory accesses;
  unsigned width;
  mlir::Value active;
  llvm::DenseMap<mlir::Value, TensorView> memory;
  llvm::DenseMap<mlir::Value, Code> codes;
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;
  std::vector<std::map<Key, mlir::Value>> scopes;
  std::string problem;
};

} // namespace colossal::kernel

#endif // COLOSSAL_CODEGEN_KERNEL_LOOPEMITTER_H
