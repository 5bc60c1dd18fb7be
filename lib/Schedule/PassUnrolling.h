//===- PassUnrolling.h - the passes of a stage, one after the other ----------===//
#ifndef COLOSSAL_LIB_SCHEDULE_PASSUNROLLING_H
#define COLOSSAL_LIB_SCHEDULE_PASSUNROLLING_H

#include "colossal/Schedule/Program.h"

namespace colossal::schedule {

/// Puts the passes of a program's loop, each a chunk and a turn, one behind the other, in the place of turns
/// that are left behind a loop; `order` is that of dist.passes. What one chunk makes of a microbatch and
/// another needs lies in as many copies as there are microbatches between the two at any time; what is sent
/// or received stays for one more pass, so that the next computes meanwhile. All else that a pass makes is
/// gone when it ends.
///
/// Where `order` has messages (step::placeMessages), they stand where it says, of what is done before and
/// behind the passes as well; a stage whose passes are {f0 f1 b0 b1} may so have {f0 s0 f1 s1 r0 b0 r1 b1},
/// where it receives and sends as its neighbours do.
void unrollPasses(Program &program, llvm::ArrayRef<int64_t> order);

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_PASSUNROLLING_H
