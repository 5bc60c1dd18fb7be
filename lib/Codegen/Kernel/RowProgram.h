//===- RowProgram.h - statistics of rows inside a kernel --------------------===//
//
// Emits the loops over one row (or one vector of rows) that a group's reductions, softmaxes and
// normalizations need, and binds code to their results so that what is pulled afterwards reads registers.
// Vectors along the row are dealt out to the members of the team, whose partial statistics are combined.
//
// Held in registers, a row has no loops: each member meets its few vectors one after the other, in one
// region, so that what is asked for again is there already. Where the row ends before the last member's
// vector, that member computes with the row's last one, counts it in nothing, and stores nothing.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_CODEGEN_KERNEL_ROWPROGRAM_H
#define COLOSSAL_CODEGEN_KERNEL_ROWPROGRAM_H

#include "colossal/Codegen/Kernel/LoopEmitter.h"
#include "colossal/Codegen/Kernel/Team.h"

namespace colossal::kernel {

class RowProgram final : public RowEmitter {
public:
  /// `lane` is the dimension of `space` along which vectors run.
  /// `held`: the row stays in registers; vectors divide it, and its other dimensions have one element.
  RowProgram(LoopEmitter &emitter, const Team &team, Frame &frame, RowSpace space, unsigned lane, bool held);

  bool alongRow() const { return space.reduced[lane]; }
  /// Opens a row: indices of the kept dimensions (others unset).
  void beginRow(llvm::ArrayRef<Lane> index);
  /// The values that `tensor` takes in a row are kept in `view` when first computed, and read from there
  /// afterwards.
  void keepIn(mlir::Value tensor, TensorView view) { rooms[tensor] = {std::move(view), false}; }
  /// Runs `body` at every element of the row, with vectors along the row if that is where they run.
  void forEach(llvm::function_ref<void(llvm::ArrayRef<Lane>)> body);
  /// Index of a reduced result, where the row's own position is known.
  llvm::SmallVector<Lane> rowIndex(llvm::ArrayRef<int64_t> resultShape) const;

  ElementEmitter &elements() override { return e; }
  int64_t rowSize() const override;
  /// A scalar along the row, a vector across rows.
  Element fold(ReduceKind kind, mlir::Type type, Term term) override;
  Element expNonPositive(Element x) override;
  void bindStatistic(mlir::Value result, Element value) override;
  void bindElements(mlir::Value result, Code code) override;
  bool hasRoom(mlir::Value result) const override { return held || rooms.contains(result); }
  void keep(Element element, mlir::Value result, llvm::ArrayRef<Lane> index) override;
  std::optional<Element> kept(mlir::Value result, llvm::ArrayRef<Lane> index) override;

private:
  /// Loops over the row; `body` maps (index, accumulators) to accumulators, in `ways` independent groups.
  llvm::SmallVector<mlir::Value> loop(
      unsigned ways, llvm::ArrayRef<mlir::Value> init,
      llvm::function_ref<llvm::SmallVector<mlir::Value>(unsigned way, llvm::ArrayRef<Lane>, mlir::ValueRange)>
          body);
  llvm::SmallVector<mlir::Value>
  walkHeld(llvm::SmallVector<mlir::Value> carried,
           llvm::function_ref<llvm::SmallVector<mlir::Value>(int64_t number, llvm::ArrayRef<Lane>,
                                                             mlir::ValueRange)>
               step);
  Element horizontal(ReduceKind kind, Element vector);
  /// `base` moved to the vector of this member, where vectors of all members lie next to each other.
  mlir::Value ofMember(mlir::Value base);
  bool isHere(llvm::ArrayRef<Lane> index, bool reducedToo) const;
  void failElsewhere(mlir::Value result);
  void finishLoop();

  struct Room {
    TensorView view;
    bool full; ///< all values of this row lie there
  };
  LoopEmitter &e;
  const Team &team;
  Frame &frame;
  RowSpace space;
  unsigned lane;
  const bool held;
  /// Of a held row: the vectors of a member, and whether they are its own; null: they always are.
  llvm::SmallVector<std::pair<Lane, mlir::Value>> places;
  mlir::Value exists; ///< of the vector that is computed with; null: it does
  std::map<std::pair<void *, void *>, mlir::Value> heldValues; ///< by tensor and place
  llvm::SmallVector<Lane> row;                                 // kept dimensions' indices
  llvm::SmallVector<Lane> current;                             // the element that a loop is at
  llvm::DenseMap<mlir::Value, Room> rooms;
  llvm::SmallVector<mlir::Value> filling;
};

} // namespace colossal::kernel

#endif // COLOSSAL_CODEGEN_KERNEL_ROWPROGRAM_H
