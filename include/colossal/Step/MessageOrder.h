//===- MessageOrder.h - one order for the messages of all stages ------------===//
//
// Where a send waits for its receiver, as with NCCL, and ranks send and receive one message after the other,
// ranks wait for one another in a circle unless all of them have their messages in one common order. This
// finds one in which stages still work at the same time and receive ahead of time.
//
// A stage does passes, each a turn of one of its chunks, one after the other: first all turns of a round with
// the first chunk, then with the next. Time is counted in passes: in the slot u all stages do one pass each,
// of those that have anything to do, in the order of the stages; so one pass after the other, and what one
// sends in its slot the next stage may use in the next slot. A message stands between two passes of this
// sequence, behind that of its sender and before that of its receiver. Each stage does its passes and
// messages in this common order, so that the first message that is not done finds both of its ranks ready for
// it.
//
// Between the sender's pass and the receiver's lie `d` slots. Memory is what bounds how far a message may be
// from either pass: a stage has two copies of what it receives, and two of what it sends or, where it has
// chunks, one for each turn of a round.
//
//  - To the stage that follows, d = 1: right behind the sender's pass, and so in the receiver's order before
//    the pass before that which needs it. What is received comes while that pass is computed.
//  - All others: as many passes before the receiver's as its memory allows, and so many behind the sender's
//  as
//    are left, where one slot ends and the next begins; there what later parts send comes first.
//  - What has to be unpacked into memory that not all ranks receive into comes right before its pass.
//  - Without chunks d is 3 at most. Where a value passes over more stages, some of them share a slot: they
//    work one after the other in the order of messages, and so ask for less ahead of time.
//
// What all turns share, and what programs without turns send, goes by sender, receiver and number, each stage
// receiving it before its first pass that comes after the sender's.
//
// The passes of a training step (dialects/Dist/Pipeline.h) stand one after the other, and so can its
// messages: all passes of all stages have an order in which they can be done, whatever the schedule, and each
// message stands in it right behind the pass that makes it. Of this one sequence every stage keeps what is
// its own. What has to be unpacked into memory that not all ranks receive into stands right before the pass
// that needs it. With two stages that alternate, `f` and `b` for forward and backward passes of turns and `>`
// and `<` for what these send:
//
//   stage 0    f0 f0> f1    f1>    b0< b0 f2 f2> ...
//   stage 1       f0>    f0 f1> b0 b0<       f2> f1 b1 ...
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_STEP_MESSAGEORDER_H
#define COLOSSAL_STEP_MESSAGEORDER_H

#include "dialects/Dist/Pipeline.h"
#include "dialects/Dist/Stages.h"

namespace colossal::step {

/// One value on its way from a part of the model to a later one: message k of the one side is message k of
/// the other.
struct Flight {
  int64_t from, to; ///< parts
  bool isInLoop;    ///< in each turn of the loop, or once before it
  llvm::MutableArrayRef<dist::Message> sends, receives;
  unsigned result = 0;      ///< of the sender's function that it is
  int64_t elementBytes = 1; ///< of the value
};

/// Gives every message of a program its `passes` and `order`. Of the messages between ranks of one stage none
/// may make a rank both sender and receiver of a circle (splitAscending).
void orderMessages(llvm::MutableArrayRef<Flight> flights, int64_t stages, int64_t chunks);

/// A pass of a stage.
struct StagePass {
  int64_t stage, chunk, turn;
};

/// Numbers the messages of a training program, each among those of its stage (`order`), and returns what each
/// stage does, one thing after the other, for its dist.passes: a pass as its chunk and its turn, as without
/// messages; a message as -1 less its order, and the turn; what is done once, before all turns or behind
/// them, with the turn -1. `passes`: of all stages, in an order in which they can do them; none where the
/// program has one turn.
std::vector<llvm::SmallVector<int64_t>> placeMessages(llvm::MutableArrayRef<Flight> flights,
                                                      const dist::Pipeline &pipeline,
                                                      llvm::ArrayRef<StagePass> passes);

/// The messages of a transfer within one stage, those to ranks with greater numbers or the same, and those to
/// smaller ones, apart: ranks that do one after the other come to an end, as the last of them only receives.
void splitAscending(llvm::SmallVector<dist::Message> &sends, llvm::SmallVector<dist::Message> &receives,
                    int64_t firstRank);

} // namespace colossal::step

#endif // COLOSSAL_STEP_MESSAGEORDER_H
