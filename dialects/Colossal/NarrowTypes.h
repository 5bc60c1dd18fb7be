//===- NarrowTypes.h - element types that are stored, not computed with -----===//
//
// Integers of two and four bits, and floats of four and eight. They are stored, moved and converted;
// arithmetic is done in wider types. In memory, and as values of element code, an element is a byte (i8):
// integers sign-extended or zero-extended, floats by their bits, which are the low ones. Strings (si64) are
// stored and moved, too, and compared for equality: as a 64-bit digest of their text.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_NARROWTYPES_H
#define COLOSSAL_DIALECTS_COLOSSAL_NARROWTYPES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace colossal {

class ElementEmitter;

/// i2, i4, ui2, ui4.
bool isNarrowInteger(mlir::Type element);
/// f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ, f8E8M0FNU, f4E2M1FN.
bool isNarrowFloat(mlir::Type element);
bool isNarrow(mlir::Type element);
/// si64.
bool isString(mlir::Type element);
/// Attribute of a module that holds strings: their texts, ascending.
inline constexpr llvm::StringLiteral kTextsAttr = "colossal.texts";
/// Whether ops compute with elements of that type, and do not only move them.
inline bool isComputable(mlir::Type element) {
  return !isNarrow(element) && !isString(element);
}

/// The type that values of elements have in element code: i8 for narrow types, signless for integers.
mlir::Type carrierOf(mlir::Type element);
/// An element of a dense attribute of narrow type as it lies in memory.
uint8_t carrierBits(const llvm::APInt &value, mlir::Type element);
inline uint8_t carrierBits(const llvm::APFloat &value, mlir::Type element) {
  return carrierBits(value.bitcastToAPInt(), element);
}
/// The bits of a narrow float that is nearest to `value`, saturated.
uint8_t narrowBits(double value, mlir::Type element);

/// How a value is rounded to a narrow float: ONNX's attributes of Cast.
struct Narrowing {
  /// What is too great, infinities included, becomes the greatest finite value; otherwise infinity where the
  /// type has it, or NaN. f4E2M1FN always saturates.
  bool saturate = true;
  /// f8E8M0FNU only; the others round to nearest, ties to even.
  enum Powers { Up, Down, Nearest } powers = Up;
};

/// f32 values of bytes that hold elements of the narrow float type `from`; exact.
mlir::Value widenFloat(ElementEmitter &emitter, mlir::Value byte, mlir::Type from);
/// Bytes of the narrow float type `to` from f32 values.
mlir::Value narrowFloat(ElementEmitter &emitter, mlir::Value real, mlir::Type to, Narrowing how = {});
/// i8 values brought to the range of the narrow integer type `to`, modulo 2^width.
mlir::Value wrapInteger(ElementEmitter &emitter, mlir::Value byte, mlir::Type to);
/// The bits of values of element type `from` seen as `to`, of the same width (i1 counts as a byte).
mlir::Value bitcastElement(ElementEmitter &emitter, mlir::Value value, mlir::Type from, mlir::Type to);
/// Whether `bitcastElement` has a meaning for the two types.
bool canBitcast(mlir::Type from, mlir::Type to);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_NARROWTYPES_H
