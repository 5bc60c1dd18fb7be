// The left side of a contraction, copied as the register tiles read it: into a thread's scratch while tiles
// are computed, or by a kernel of its own before.
#ifndef COLOSSAL_LIB_CODEGEN_CPU_ROWPACKER_H
#define COLOSSAL_LIB_CODEGEN_CPU_ROWPACKER_H

#include "ContractionBlocking.h"
#include "Scope.h"

namespace colossal::cpu {

class RowPacker : protected ContractionBlocking {
public:
  RowPacker(const Processor &processor, const ContractionSpec &spec)
      : ContractionBlocking(processor, spec), processor(processor), spec(spec), acc(spec.accumulate) {}

  /// The kernel that copies all rows.
  GeneratedKernel generateCopy(mlir::MLIRContext &context);

protected:
  /// Rows of A from m0 on.
  struct RowBlock {
    mlir::Value m0, rowCount;
    mlir::Value aMatrix; ///< address of the batch's matrix
    mlir::Value aSlot;   ///< by tile: the first of the block's rows in the copy
  };

  /// Copies the block's rows for a range of k, to `aScratch`.
  void emitPackA(Scope &scope, const RowBlock &block, const KRange &range);

  /// Calls `body` for the register tiles of the block: their first rows, and how many rows they are.
  void emitTilesOfRows(Scope &scope, const RowBlock &block,
                       llvm::function_ref<void(Scope &, mlir::Value row, int64_t count)> body);

  KRange wholeRange(VectorMemory &memory) {
    return {memory.constant(0), memory.constant(outerK), memory.constant(0), memory.constant(innerK)};
  }
  /// How many k's a range has.
  mlir::Value countRange(Scope &scope, const KRange &range) {
    return scope.mul(scope.sub(range.outerEnd, range.outerBegin),
                     scope.sub(range.innerEnd, range.innerBegin));
  }
  mlir::Value rowOffset(VectorMemory &memory, mlir::Value m) {
    return memory.linearize(memory.delinearize(m, sizesOf(aDims)), stridesOf(aDims, &ContractionDim::a));
  }
  mlir::Value outerOffset(VectorMemory &memory, mlir::Value outer, int64_t ContractionDim::*operand) {
    llvm::ArrayRef<ContractionDim> dims = llvm::ArrayRef<ContractionDim>(kDims).drop_back();
    return memory.linearize(memory.delinearize(outer, sizesOf(dims)), stridesOf(dims, operand));
  }
  /// Elements between rows of a packed block.
  mlir::Value packedPosition(Scope &scope, const KRange &range, mlir::Value outer, mlir::Value inner) {
    mlir::Value extent = scope.sub(range.innerEnd, range.innerBegin);
    mlir::Value position = scope.mul(scope.sub(outer, range.outerBegin), extent);
    return scope.memory.add(position, scope.sub(inner, range.innerBegin));
  }

  const Processor &processor;
  const ContractionSpec &spec;
  mlir::Type acc;
  mlir::Value aScratch;

private:
  void emitPackAByDepth(Scope &scope, const RowBlock &block, const KRange &range);
  void emitPackAByTile(Scope &scope, const RowBlock &block, const KRange &range, const KRange &whole);
};

} // namespace colossal::cpu

#endif // COLOSSAL_LIB_CODEGEN_CPU_ROWPACKER_H
