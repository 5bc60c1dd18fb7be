// What kernels of attention have in common: a block takes some queries of one head, and walks the keys that
// some query of them sees in tiles.
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_ATTENTIONBLOCK_H
#define COLOSSAL_LIB_CODEGEN_CUDA_ATTENTIONBLOCK_H

#include "Attention.h"

#include "colossal/Codegen/Kernel/VectorMath.h"
#include "colossal/Codegen/Kernel/VectorMemory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <limits>

namespace colossal::nvidia {

/// Whether scores can be masked by what the spec has.
bool readsMask(const AttentionSpec &spec);

class AttentionBlock {
protected:
  using Value = mlir::Value;

  /// Of 128 threads, and so many queries. What it points at outlives it.
  AttentionBlock(mlir::MLIRContext &context, const BlockTeam &team, const AttentionSpec &spec, int64_t rows);

  static constexpr int64_t threads = 128;
  enum Buffer : unsigned { Query, Key, ValueBuffer, Mask };
  unsigned resultBuffer() const { return spec.maskType ? 4 : 3; }
  unsigned statisticsBuffer() const { return resultBuffer() + 1; }

  /// The kernel, `tile` being what computes the queries that openTile has set.
  kernel::GeneratedKernel emit(llvm::function_ref<void()> tile);

  Value sharedArray(llvm::StringRef name, mlir::Type element, int64_t elements);
  Value toIndex(Value word);
  Value compare(mlir::arith::CmpIPredicate predicate, Value left, Value right) {
    return mlir::arith::CmpIOp::create(b, loc, predicate, left, right);
  }
  Value below(Value index, Value end) { return compare(mlir::arith::CmpIPredicate::slt, index, end); }
  Value both(Value one, Value other) { return mlir::arith::AndIOp::create(b, loc, one, other); }
  Value select(Value condition, Value yes, Value no) {
    return mlir::arith::SelectOp::create(b, loc, condition, yes, no);
  }
  Value number(double value) { return memory.constantLike(f32, value); }
  Value lowest() { return number(-std::numeric_limits<double>::infinity()); }
  Value add(Value x, Value y) { return mlir::arith::AddFOp::create(b, loc, x, y); }
  Value multiply(Value x, Value y) { return mlir::arith::MulFOp::create(b, loc, x, y); }
  void barrier();
  using Body = llvm::function_ref<llvm::SmallVector<Value>(Value, mlir::ValueRange)>;
  llvm::SmallVector<Value> loop(Value begin, Value end, int64_t step, mlir::ValueRange carried, Body body);
  /// The values of `yes` where the condition holds, else `no`; `yes` is not evaluated there.
  llvm::SmallVector<Value> guarded(Value condition, mlir::ValueRange no,
                                   llvm::function_ref<llvm::SmallVector<Value>()> yes);
  void when(Value condition, llvm::function_ref<void()> body);
  Value load(unsigned buffer, mlir::Type type, Value offset) {
    return memory.load(memory.address(frame->pointer(buffer), type, offset), type, 1);
  }
  /// What `merge` makes of the values of `lanes` neighbouring threads, a power of two; all have it.
  Value ofLanes(Value value, int64_t lanes, llvm::function_ref<Value(Value, Value)> merge);

  /// The first key that none of the queries up to `query` sees.
  Value endOf(Value query);
  /// From the product of a query and a key, its score, as a multiple of `unit`: scale, softcap, mask; what is
  /// not visible is -inf.
  Value scoreOf(Value product, Value query, Value key, double unit);
  /// Statistics are the natural logarithm of the sum of exponentials.
  void writeStatistics(Value query, Value statistic);

  const AttentionSpec &spec;
  const int64_t rows;
  llvm::SmallVector<kernel::BufferSpec> buffers;
  std::unique_ptr<kernel::Frame> frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  kernel::VectorMemory memory;
  kernel::VectorMath math;
  mlir::Type f32;
  Value thread; // of the block
  // Of the block's tile: where its matrices begin, its first query, and the end of the keys that it looks at.
  Value queryBase, keyBase, valueBase, maskBase, outBase, statisticBase, firstQuery, end;

private:
  llvm::SmallVector<kernel::BufferSpec> describe() const;
  void openTile(Value number);
};

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_ATTENTIONBLOCK_H
