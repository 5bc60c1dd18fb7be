//===- MessageSlots.h - room for messages that wait for their receivers -----===//
//
// A send ends when its message lies in a slot of its rank, so that the rank goes on before the receiver comes
// to it. Slots are many, and each has room for any message that is to lie in one. What is sent once a step,
// behind all microbatches, can be far longer than what passes hand on (the gradient and the new value of a
// tied embedding), and nothing is gained when its sender goes on: such a message takes no slot but waits
// where it was made until it is received.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_STEP_MESSAGESLOTS_H
#define COLOSSAL_LIB_STEP_MESSAGESLOTS_H

#include "colossal/Step/MessageOrder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace colossal::step {

/// Finds the room that all programs of a module need.
class MessageSlots {
public:
  struct Room {
    int64_t slots = 1;
    int64_t bytes = 0; ///< of each; longer messages wait to be received. 0: the longest has room
  };

  /// A program whose stages have a loop of `turns`, or none.
  void add(llvm::ArrayRef<Flight> flights, int64_t stages, int64_t chunks, int64_t turns);
  /// A program whose functions, one of each stage, may have passes in an order.
  void add(llvm::ArrayRef<Flight> flights, const dist::Pipeline &pipeline,
           llvm::ArrayRef<mlir::func::FuncOp> functions);
  /// Room with which the ranks of every program come to their ends.
  Room find() const;

private:
  /// A message that a stage sends or receives; which one it is, and how long.
  struct Meeting {
    size_t message;
    int64_t sender; ///< stage
    int64_t bytes;
    bool isReceive;
  };
  /// What each stage sends and receives, in its order.
  using Meetings = std::vector<std::vector<Meeting>>;

  static bool comesToItsEnd(const Meetings &meetings, const Room &room);

  int64_t slots = 1;             ///< that passes need
  int64_t mostSlots = 1;         ///< with which every message has room
  int64_t bytes = 0;             ///< the longest message but for those of the levels
  int64_t mostBytes = 0;         ///< the longest
  std::vector<Meetings> ordered; ///< by program, of those with levels
};

} // namespace colossal::step

#endif // COLOSSAL_LIB_STEP_MESSAGESLOTS_H
