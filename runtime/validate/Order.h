// Proves of a program that what touches the same bytes is ordered, and that its messages meet.
//
// The order of a rank's instructions is that of their queue, and of events. Every instruction gets a clock:
// how far each queue has come for certain when it begins. One happens before another if the other's clock has
// reached it. What is kept of each byte is who touched it last on each queue, so that one walk in the order
// of the text looks at every pair that matters.
//
// Repeats are walked turn by turn where that is cheap. Of a longer one three turns are walked: what is true
// of the first two and of the second and third is true of all neighbours, since all turns have the same text,
// and turns further apart must be ordered as a whole, or share no bytes. What cannot be shown so is refused.
#ifndef COLOSSAL_RUNTIME_VALIDATE_ORDER_H
#define COLOSSAL_RUNTIME_VALIDATE_ORDER_H

#include "runtime/validate/Environment.h"

#include <array>

namespace colossal::runtime {

/// How far queues have come: the number of their instructions that have ended.
using Clock = std::array<uint64_t, plan::queueCount>;

/// Whether conflicting accesses of one rank to the same bytes are ordered. The program has passed the other
/// checks. `spend` is asked for the work that it takes.
Status checkOrder(const plan::StageView &stage, int program, const plan::MeshPosition &position,
                  const std::function<Status(uint64_t)> &spend);

/// The axes of the stage's mesh on which it depends which bytes its ranks touch, and when.
std::vector<bool> orderAxes(const plan::StageView &stage, int program);

/// One message or collective of a rank.
struct Meeting {
  const plan::Instruction *instruction = nullptr;
  uint32_t queue = 0;
  uint32_t peer = 0;
  /// How many meetings of each queue must have ended before it begins, if whatever the first queue waits for
  /// stops its rank.
  Clock needs = {};
};

/// A rank's messages and collectives in the order of its text.
Status listMeetings(const plan::StageView &stage, int program, const plan::MeshPosition &position,
                    const std::function<Status(uint64_t)> &spend, std::vector<Meeting> &meetings);

/// Whether every message that the ranks of all stages send is received, by one that expects its length, and
/// all come to their end. `inOrder`: tags do not tell messages apart, as with NCCL, and no message waits in
/// memory but those of a rank to itself.
Status checkMeetings(const std::vector<plan::StageView> &stages, int program, bool inOrder,
                     const std::function<Status(uint64_t)> &spend);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_VALIDATE_ORDER_H
