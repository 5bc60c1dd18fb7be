// What both kernels of grouped convolutions have in common: buffers, indices, and how sums are stored.
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_GROUPEDBLOCK_H
#define COLOSSAL_LIB_CODEGEN_CUDA_GROUPEDBLOCK_H

#include "GroupedConvolution.h"

#include "colossal/Codegen/Kernel/VectorMath.h"
#include "colossal/Codegen/Kernel/VectorMemory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace colossal::nvidia {

class GroupedBlock {
protected:
  using Value = mlir::Value;

  /// Of 128 threads. What it points at outlives it.
  GroupedBlock(mlir::MLIRContext &context, const BlockTeam &team, const GroupedSpec &spec);

  static constexpr int64_t threads = 128;
  enum Buffer : unsigned { Input, Weight, Bias };
  enum Dimension : unsigned { Image, Channel, Row, Column };

  /// The kernel, `tile` being what computes the tile of that number.
  kernel::GeneratedKernel emit(int64_t tiles, llvm::function_ref<void(Value)> tile);

  Value toIndex(Value word);
  Value compare(mlir::arith::CmpIPredicate predicate, Value left, Value right) {
    return mlir::arith::CmpIOp::create(b, loc, predicate, left, right);
  }
  Value below(Value index, int64_t end) {
    return compare(mlir::arith::CmpIPredicate::slt, index, memory.constant(end));
  }
  /// 0 <= index < end.
  Value inside(Value index, int64_t end) {
    return compare(mlir::arith::CmpIPredicate::ult, index, memory.constant(end));
  }
  Value both(Value one, Value other) { return mlir::arith::AndIOp::create(b, loc, one, other); }
  Value select(Value condition, Value yes, Value no) {
    return mlir::arith::SelectOp::create(b, loc, condition, yes, no);
  }
  void when(Value condition, llvm::function_ref<void()> body);
  using Body = llvm::function_ref<llvm::SmallVector<Value>(Value, mlir::ValueRange)>;
  /// `body` for 0 ... count - 1, or once without a loop.
  llvm::SmallVector<Value> loop(int64_t count, mlir::ValueRange carried, Body body);
  /// The element of a buffer, in the type that is added up in.
  Value load(unsigned buffer, Value offset);
  /// The same where `exists`, else 0.
  Value loadWhere(Value exists, unsigned buffer, Value offset);
  Value biasOf(Value channel);
  /// Stores sums, as many as are lanes.
  void store(llvm::ArrayRef<Value> sums, Value image, Value channel, Value row, Value column);

  const GroupedSpec &spec;
  llvm::SmallVector<kernel::BufferSpec> buffers;
  std::unique_ptr<kernel::Frame> frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  const unsigned indexBits;
  kernel::VectorMemory memory;
  kernel::VectorMath math;
  mlir::Type accumulate;
  Value thread; // of the block

private:
  llvm::SmallVector<kernel::BufferSpec> describe() const;
  void stateAlignment(unsigned buffer, int64_t bytes);
};

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_GROUPEDBLOCK_H
