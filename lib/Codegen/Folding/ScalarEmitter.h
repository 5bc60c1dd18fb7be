//===- ScalarEmitter.h - element code for one element at a time -------------===//
//
// The ElementEmitter of the folder. Element code creates arith ops in blocks of this class's own; what that
// dialect cannot say (a read of a tensor, a loop, a choice, a function) is a cast op that stands for an
// Instruction. `finish` turns all of it into a ScalarProgram.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_CODEGEN_FOLDING_SCALAREMITTER_H
#define COLOSSAL_CODEGEN_FOLDING_SCALAREMITTER_H

#include "ScalarProgram.h"
#include "dialects/Colossal/ElementEmitter.h"

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

#include <memory>

namespace colossal {

/// Signless or not, as the program sees it.
NumberType numberTypeOf(mlir::Type element);

class ScalarEmitter final : public ElementEmitter {
public:
  /// `operands` are the values of the op's operands, null where unknown.
  ScalarEmitter(mlir::Operation *op, llvm::ArrayRef<mlir::Attribute> operands, unsigned rank);
  ~ScalarEmitter() override;

  llvm::ArrayRef<Lane> index() const { return entryIndex; }
  /// The program whose element is `element`, or failure where the code holds something that cannot be
  /// interpreted.
  mlir::FailureOr<ScalarProgram> finish(mlir::Value element);

  mlir::OpBuilder &builder() override { return b; }
  mlir::Location loc() override { return op->getLoc(); }
  unsigned lanes() const override { return 1; }
  mlir::Value load(mlir::Value tensor, llvm::ArrayRef<Lane> index, mlir::Value mask,
                   mlir::Value otherwise) override;
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
  mlir::Value pow(mlir::Value base, mlir::Value exponent) override;
  mlir::Value maximum(mlir::Value a, mlir::Value b) override;
  mlir::Value minimum(mlir::Value a, mlir::Value b) override;
  void unify(llvm::MutableArrayRef<mlir::Value> values) override {}

protected:
  mlir::Value convertNumber(mlir::Value value, mlir::Type from, mlir::Type to) override;
  mlir::Value scalarNumber(mlir::Type element, double value) override;

private:
  mlir::Block *newBlock();
  /// Runs `emit` with the insertion point in `block`.
  void inBlock(mlir::Block *block, llvm::function_ref<void()> emit);
  /// An op that stands for `instruction`.
  llvm::SmallVector<mlir::Value> place(Instruction instruction, mlir::TypeRange results,
                                       mlir::ValueRange operands);
  mlir::Value constantCell(mlir::Type carrier, Cell cell);
  mlir::Value index64(int64_t value);
  Lane binary(Opcode opcode, Lane a, Lane b);
  unsigned slotOf(mlir::Value value);
  mlir::LogicalResult translate(mlir::Operation &op, Instruction &instruction);

  mlir::Operation *op;
  llvm::ArrayRef<mlir::Attribute> operands;
  mlir::OpBuilder b;
  std::vector<std::unique_ptr<mlir::Block>> blocks;      ///< by the program's numbers
  std::vector<llvm::SmallVector<mlir::Value>> yields;    ///< by block
  llvm::DenseMap<mlir::Operation *, Instruction> placed; ///< what cast ops stand for
  llvm::DenseMap<int64_t, mlir::Value> indexConstants;
  llvm::DenseMap<mlir::Value, unsigned> slots;
  llvm::SmallVector<Lane> entryIndex;
  ScalarProgram program;
  bool isComplete = true; ///< no scalar operand was unknown
};

} // namespace colossal

#endif // COLOSSAL_CODEGEN_FOLDING_SCALAREMITTER_H
