//===- ElementEmitter.h - code for tensor elements, pulled by index ---------===//
//
// An op describes its results element by element: given the index of a result element, code that computes it from
// operand elements. Who implements this class decides what a load is (memory, the inlined element of a fused producer, a
// constant), whether values are scalars or vectors of consecutive elements, and what a reduction loop becomes. Kernel
// generation, fusion and constant folding are three implementations; ops know none of them.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_ELEMENTEMITTER_H
#define COLOSSAL_DIALECTS_COLOSSAL_ELEMENTEMITTER_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace colossal {

/// An index along one dimension for `lanes()` consecutive lanes: lane l stands at base + l * stride, or, if `vector` is
/// set, at vector[l] (vector<LANESxindex>). A scalar emitter has one lane; then only base counts.
struct Lane {
  mlir::Value base;   ///< index
  int64_t stride = 0; ///< 0: all lanes at the same place
  mlir::Value vector; ///< overrides base and stride

  bool isUniform() const { return !vector && stride == 0; }
};

class ElementEmitter {
public:
  virtual ~ElementEmitter() = default;
  virtual mlir::OpBuilder &builder() = 0;
  virtual mlir::Location loc() = 0;
  /// Lanes of a vector value; 1 in a scalar emitter.
  virtual unsigned lanes() const = 0;

  /// The element(s) of `tensor` at `index`, of its element type (booleans as i1). Where `mask` (i1, or vector of i1) is
  /// given and false, nothing is read and the value is `otherwise` (same shape as the result).
  virtual mlir::Value load(mlir::Value tensor, llvm::ArrayRef<Lane> index, mlir::Value mask = {},
                           mlir::Value otherwise = {}) = 0;
  /// A scalar SSA operand of the op (an index value such as an offset) as it is inside the kernel.
  virtual mlir::Value scalarOperand(mlir::Value value) = 0;

  /// A loop over [0, extent): `init` are the accumulators' first values, `body` gets the counter (index) and the
  /// accumulators and returns the next ones. The order of combination is the order of the counter.
  virtual llvm::SmallVector<mlir::Value>
  reduce(int64_t extent, mlir::ValueRange init,
         llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body) = 0;

  /// Index arithmetic on lanes; constants fold.
  virtual Lane constant(int64_t value) = 0;
  virtual Lane add(Lane a, Lane b) = 0;
  virtual Lane mul(Lane a, int64_t factor) = 0;
  virtual Lane floorDiv(Lane a, int64_t divisor) = 0; ///< a >= 0
  virtual Lane mod(Lane a, int64_t divisor) = 0;      ///< a >= 0
  /// A uniform lane from an index value.
  Lane uniform(mlir::Value index) { return Lane{index, 0, {}}; }
  /// A lane from a loaded integer value (scalar or vector of any integer type).
  virtual Lane fromValue(mlir::Value integer) = 0;
  /// The index as a value of an integer type (scalar if uniform, otherwise vector).
  virtual mlir::Value toValue(Lane lane, mlir::Type integerType) = 0;
  /// lane >= low && lane < high, as i1 or vector of i1.
  virtual mlir::Value inRange(Lane lane, int64_t low, int64_t high) = 0;
};

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_ELEMENTEMITTER_H
