// Loads, stores, conversions and index arithmetic that all kernel generators emit alike.
//
// Addresses are an !llvm.ptr and an offset in elements, an index of 64 or 32 bits. Values are scalars (width
// 1) or 1-D vectors. A mask is a vector of i1, or null for all lanes; lanes outside it are neither read nor
// written, and read as 0.
#ifndef COLOSSAL_CODEGEN_KERNEL_VECTORMEMORY_H
#define COLOSSAL_CODEGEN_KERNEL_VECTORMEMORY_H

#include "colossal/Codegen/Kernel/Instructions.h"
#include "mlir/IR/Builders.h"

namespace colossal::kernel {

/// Emits memory and index operations at a builder's insertion point.
class VectorMemory {
public:
  VectorMemory(mlir::OpBuilder &builder, mlir::Location loc, const Instructions &instructions,
               unsigned indexBits = 64)
      : b(builder), loc(loc), instructions(instructions), indexBits(indexBits) {}

  mlir::Type indexType() const;
  // Index arithmetic, with constants folded as it is emitted.
  mlir::Value constant(int64_t value);
  mlir::Value constants(llvm::ArrayRef<int64_t> values); ///< a vector
  mlir::Value add(mlir::Value lhs, mlir::Value rhs);
  mlir::Value addConstant(mlir::Value lhs, int64_t rhs);
  mlir::Value mulConstant(mlir::Value lhs, int64_t rhs);
  mlir::Value minConstant(mlir::Value lhs, int64_t rhs);
  mlir::Value min(mlir::Value lhs, mlir::Value rhs);
  /// Quotient and remainder of a non-negative value by a positive constant.
  std::pair<mlir::Value, mlir::Value> divRem(mlir::Value value, int64_t divisor);
  /// Decomposes a row-major linear index into one index per size.
  llvm::SmallVector<mlir::Value> delinearize(mlir::Value linear, llvm::ArrayRef<int64_t> sizes);
  /// Sum of indices times strides.
  mlir::Value linearize(llvm::ArrayRef<mlir::Value> indices, llvm::ArrayRef<int64_t> strides);

  /// pointer + offset elements of `element`.
  mlir::Value address(mlir::Value pointer, mlir::Type element, mlir::Value offset);
  mlir::Value address(mlir::Value pointer, mlir::Type element, int64_t offset);

  /// Lanes [0, count) set; `count` an index or constant.
  mlir::Value prefixMask(int64_t width, mlir::Value count);
  mlir::Value prefixMask(int64_t width, int64_t count);

  mlir::Value load(mlir::Value address, mlir::Type element, int64_t width, mlir::Value mask = nullptr);
  void store(mlir::Value value, mlir::Value address, mlir::Value mask = nullptr);
  /// Lane i at address + offsets[i] elements; offsets a vector of indices.
  mlir::Value gather(mlir::Value address, mlir::Type element, mlir::Value offsets,
                     mlir::Value mask = nullptr);
  void scatter(mlir::Value value, mlir::Value address, mlir::Value offsets, mlir::Value mask = nullptr);
  /// Reads the cache line into the second-level cache (`locality` 2) or the first (3), `forWriting`
  /// taking it from other processors, too.
  void prefetch(mlir::Value address, int locality, bool forWriting = false);

  /// `value` (scalar or vector) broadcast to `width` lanes; width 1 gives the scalar.
  mlir::Value splat(mlir::Value scalar, int64_t width);
  mlir::Value zero(mlir::Type element, int64_t width);
  /// A constant of the type or vector type; floats are rounded, integers truncated.
  mlir::Value constantLike(mlir::Type type, double value);
  static mlir::Type vectorOf(mlir::Type element, int64_t width);

  /// Converts between any two numeric types, element by element, as C++ static_cast does for values in range:
  /// f16 and bf16 by way of f32, rounded to nearest even. Works on targets without native conversions.
  /// `fromUnsigned` and `toUnsigned` say how integers of builtin (signless) type are meant; types ui8..ui64
  /// are read so by themselves.
  mlir::Value convert(mlir::Value value, mlir::Type toElement, bool fromUnsigned = false,
                      bool toUnsigned = false);

  /// Transposes a square tile held in registers: rows[i][j] becomes rows[j][i]. As many rows as lanes; a
  /// power of two.
  void transpose(llvm::MutableArrayRef<mlir::Value> rows);

private:
  mlir::Value withoutBfloat(mlir::Value value);
  mlir::Value bfloatFromFloat(mlir::Value value);
  mlir::Value floatFromBfloat(mlir::Value value);
  mlir::Value halfFromFloat(mlir::Value value);
  mlir::Value floatFromHalf(mlir::Value value);

  mlir::OpBuilder &b;
  mlir::Location loc;
  const Instructions &instructions;
  unsigned indexBits;
};

/// Whether a signless or unsigned builtin integer type is spelled unsigned; generators store ui8 as i8.
bool isUnsignedElement(mlir::Type type);
/// The type that arithmetic and memory ops use for an element: ui8, and types of less than a byte and floats
/// of one
/// -> i8, ui16 -> i16, ..., others unchanged.
mlir::Type storageType(mlir::Type type);
/// Bytes of an element in memory.
int64_t elementBytes(mlir::Type type);

} // namespace colossal::kernel

#endif // COLOSSAL_CODEGEN_KERNEL_VECTORMEMORY_H
