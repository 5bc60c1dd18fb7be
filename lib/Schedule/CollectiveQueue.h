//===- CollectiveQueue.h - collectives beside independent work --------------===//
#ifndef COLOSSAL_LIB_SCHEDULE_COLLECTIVEQUEUE_H
#define COLOSSAL_LIB_SCHEDULE_COLLECTIVEQUEUE_H

#include "colossal/Schedule/Program.h"

namespace colossal::schedule {

/// The queue of collectives that are under way while kernels run.
constexpr unsigned kCollectiveQueue = 1;

/// Puts each collective that independent work can hide on the queue of collectives, and issues it earlier:
///
///   1. One that frees at least the memory that it takes (a reduction, an all-to-all), and one whose result
///   is
///      only read behind the list, as soon as its input is there.
///   2. Any other (a gather of a stored parameter), at most `ahead` uses ahead: before the last but `ahead`
///      of the instructions that first use what such a collective brings; so that no more lies ahead of its
///      use. `ahead` 0: where it stood.
///   3. What packs its operand goes with it, what unpacks its result goes to its first use.
///   4. Its operand, unless something else reads it, stays until the result is used or four more collectives
///      have been issued on the queue, whichever comes first: who takes the memory then waits for it.
///
/// A collective between whose issue and use stands less work than handing it over takes stays as it was, on
/// the queue of kernels. All ranks of a stage have one text, so that they issue collectives in one order.
///
///   launch g2; all_reduce g2;              launch g2
///   launch g1; all_reduce g1;        ->    queue 1: all_reduce g2      (waits for g2)
///   launch norm(g2, g1)                    launch g1
///                                          all_reduce g1              nothing to hide it behind
///                                          launch norm(g2, g1)         (waits for all_reduce g2)
///
/// Before: as lowered, in order, each chunk's instructions together, storages without places and loops of one
/// turn each. Instructions keep their order but for these. Returns whether any is on the queue now.
/// O(instructions * log(instructions)).
bool overlapCollectives(Program &program, int64_t ahead);

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_COLLECTIVEQUEUE_H
