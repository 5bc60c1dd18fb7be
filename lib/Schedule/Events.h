//===- Events.h - order between queues --------------------------------------===//
#ifndef COLOSSAL_LIB_SCHEDULE_EVENTS_H
#define COLOSSAL_LIB_SCHEDULE_EVENTS_H

#include "colossal/Schedule/Program.h"

namespace colossal::schedule {

/// Gives the instructions of a program, whose storages have their places, the events that order what touches
/// the same bytes on different queues, in the order of the instructions, and no more: nothing waits for what
/// it is known to come after. Also round a loop, where an event is that of the last time. O(instructions of
/// queue 0 * others).
void orderQueues(Program &program);

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_EVENTS_H
