// The tensor cores of a GPU, as a warp uses them: products of small matrices whose elements its lanes hold,
// and the ways of matrices from memory to shared memory and from there to the lanes.
//
// Of lane l, the group is l / 4 and the place in it l % 4. A register is a word of 32 bits: two elements of
// 16 bits next to one another along k, the lower first, or one of tf32. With p elements in a word, of D = A B
// + C:
//   A, register r of 4:  row    group + 8 (r % 2),  k = 4 p (r / 2) + p place + 0 ... p - 1
//   B, register r of 2:  column group,              k = 4 p r       + p place + 0 ... p - 1
//   C and D, value v of 4 (f32):  row group + 8 (v / 2), column 2 place + v % 2
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_TENSORCORES_H
#define COLOSSAL_LIB_CODEGEN_CUDA_TENSORCORES_H

#include "mlir/IR/Builders.h"

namespace colossal::nvidia {

/// Whether products of f32 may be rounded to tf32, as the precision of the op's model says.
bool roundsToTf32(mlir::Operation *op);

class TensorCores {
public:
  static constexpr int64_t rows = 16, columns = 8, lanes = 32;

  /// `element`: f16 or bf16; f32 is multiplied as tf32.
  TensorCores(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type element)
      : b(builder), loc(loc), element(element) {}

  /// Elements in a word, and the extent of k.
  int64_t perWord() const { return element.isF32() ? 1 : 2; }
  int64_t depth() const { return 8 * perWord(); }
  /// Words of A: 4, of B: 2; C and the result: four f32 each.
  llvm::SmallVector<mlir::Value, 4> multiply(llvm::ArrayRef<mlir::Value> a, llvm::ArrayRef<mlir::Value> b,
                                             llvm::ArrayRef<mlir::Value> c);
  /// A word of f32 values, as many as are in one, each rounded to nearest.
  mlir::Value pack(llvm::ArrayRef<mlir::Value> values);
  /// A word as it lies in memory as one of operands: f32 is rounded to tf32.
  mlir::Value toOperand(mlir::Value word);

  /// `count` (1, 2 or 4) matrices of eight rows of 16 bytes; lane 8 m + r has the address of row r of matrix
  /// m, in shared memory, a multiple of 16. Lane l gets of each the word `place` of row `group`;
  /// `transposed`, of elements of 16 bits, those of rows 2 place and the next, of column `group`.
  llvm::SmallVector<mlir::Value, 4> loadMatrices(mlir::Value address, unsigned count, bool transposed);

  /// Begins to copy `bytes` (4, 8 or 16, to which both addresses are aligned) from global to shared memory;
  /// where `exists` is false nothing is read, and zeros are written.
  void copy(mlir::Value to, mlir::Value from, int64_t bytes, mlir::Value exists);
  /// Closes the group of the copies that the thread has begun.
  void closeGroup();
  /// Waits for the thread's copies, but for those of its newest `groups` groups.
  void waitForGroups(int64_t groups);

private:
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type element;
};

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_TENSORCORES_H
