//===- MeetingOrder.h - messages where sends wait for their receivers -------===//
#ifndef COLOSSAL_LIB_SCHEDULE_MEETINGORDER_H
#define COLOSSAL_LIB_SCHEDULE_MEETINGORDER_H

#include "colossal/Schedule/Program.h"

namespace colossal::schedule {

/// Whether the program's messages have places in one order of all stages' messages (Instruction::order).
bool hasMeetings(const Program &program);

/// Puts messages where their `passes` and `order` say (colossal/Step/MessageOrder.h), before and in the loop,
/// whose rounds make as many turns as in doubleBuffer, with memory of their own for what goes between stages.
/// Where a message belongs to a pass of the round before or of the next, it is left out of the first or the
/// last round if there is no such turn; what is still to be sent after the last round stands behind the loop.
///
/// With 5 turns, a stage between two others, which receives two passes ahead and sends at once, has r0 before
/// a loop of 2 rounds over {r1 c0 s0 r2 c1 s1}, and c4 s4 behind it: `r`, `c` and `s` as in doubleBuffer. One
/// that sends to a stage two further on a pass later, `f`, and has no receives: a loop over {f-1 c0 s0 f0 c1
/// s1} without f-1 in the first round, and f3 c4 s4 f4 behind it.
void orderMeetings(Program &program);

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_MEETINGORDER_H
