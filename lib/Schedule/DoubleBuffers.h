//===- DoubleBuffers.h - messages of one turn beside the work of another ----===//
#ifndef COLOSSAL_LIB_SCHEDULE_DOUBLEBUFFERS_H
#define COLOSSAL_LIB_SCHEDULE_DOUBLEBUFFERS_H

#include "colossal/Schedule/Program.h"

namespace colossal::schedule {

/// Where turns of a program's loop send or receive, lets a round make two turns, of which each has its own
/// memory for what goes between stages; an odd turn that is left stands behind the loop. So a turn computes
/// while what the one before has made is sent. What a turn needs is received while the one before computes:
/// first for turn 0, before the loop. What that one then sends waits for it on the queue of messages: no
/// longer than this turn itself would, and the last turn, for which nothing waits, not at all.
///
/// Where the stage has several chunks, a round makes as many turns as there are stages, first all of the
/// first chunk, then all of the next: so what a chunk makes has come through the other stages when the next
/// one needs it. Turns that are left go through the chunks in the same way, behind the loop. A chunk that
/// waits for this stage or a later one (Program::chunkWaits) receives when its turn begins, as what this
/// stage has still to send may be what it waits for; and so do all of the turns that are left, which are too
/// few for what is received ahead of time to have been sent.
///
/// Before: the program's instructions are in order, and storages have no places. With 5 turns, `r` receives,
/// `c` computes and `s` sends, a loop over {r c s} becomes r0, a loop of 2 rounds over {r1 c0 s0 r0' c1 s1},
/// and c0 s0 behind it. Of 2 stages with 2 chunks each and 4 turns, stage 1 has r0 before a loop of 2 rounds
/// over {r1 c0 s0 R0 c1 s1 R1 C0 S0 r0' C1 S1}, in capitals what its second chunk does.
void doubleBuffer(Program &program);

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_DOUBLEBUFFERS_H
