//===- HostTensor.h - small tensors evaluated at compile time ---------------===//
//
// Values of constants, and evaluation of colossal ops on them. Shape arithmetic runs here, so that result
// types can be static. Integers and booleans are int64 (ui64 by its bits), floats are double, rounded to
// their type after every op.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_HOSTTENSOR_H
#define COLOSSAL_LIB_IMPORT_HOSTTENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <optional>
#include <vector>

namespace colossal {

/// A dense tensor in row-major order. Exactly one of `ints` and `floats` is used, by element type. A splat of
/// any size has one entry and `splat` set.
struct HostTensor {
  mlir::RankedTensorType type;
  bool splat = false;
  std::vector<int64_t> ints;
  std::vector<double> floats;

  HostTensor() = default;
  explicit HostTensor(mlir::RankedTensorType type, bool splat = false);

  bool isFloat() const { return mlir::isa<mlir::FloatType>(type.getElementType()); }
  int64_t count() const { return type.getNumElements(); }
  int64_t getInt(int64_t i) const { return isFloat() ? int64_t(floats[splat ? 0 : i]) : ints[splat ? 0 : i]; }
  double getFloat(int64_t i) const;
  /// Stores with rounding (floats) or wrapping (integers) to the element type.
  void setFloat(int64_t i, double value);
  void setInt(int64_t i, int64_t value);
  mlir::DenseElementsAttr toAttr() const;
  /// One entry per element.
  HostTensor expanded() const;

  static std::optional<HostTensor> fromAttr(mlir::ElementsAttr attr);
};

/// Rounds to a float type.
double roundToType(double value, mlir::Type type);
/// Wraps to an integer type: sign-extended (signless; i1 is 0 or 1) or zero-extended (unsigned).
int64_t wrapToType(int64_t value, mlir::Type type);

/// What `op` gives for constant operands; nullopt where it is not evaluated here (or a result would exceed
/// `limit` elements and is no splat).
std::optional<std::vector<HostTensor>> evaluateOp(mlir::Operation *op, llvm::ArrayRef<HostTensor> operands,
                                                  int64_t limit);

/// Contents of a parameter, or nullopt where they cannot be had.
using ParameterReader = llvm::function_ref<std::optional<HostTensor>(mlir::Operation *)>;

/// The value of `value` if it depends on constants only (and on parameters, where a reader is given), by
/// evaluating the ops that it comes from.
std::optional<HostTensor> evaluate(mlir::Value value, ParameterReader reader = nullptr,
                                   int64_t limit = 1 << 16);

} // namespace colossal

#endif // COLOSSAL_LIB_IMPORT_HOSTTENSOR_H
