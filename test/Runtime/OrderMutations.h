// Plans whose order is not proven any more: one thing that orders instructions, or lets messages meet, is
// otherwise.
#ifndef COLOSSAL_TEST_RUNTIME_ORDER_MUTATIONS_H
#define COLOSSAL_TEST_RUNTIME_ORDER_MUTATIONS_H

#include "colossal/Plan/Container.h"

#include <array>
#include <functional>
#include <string>

namespace colossal::runtime {

enum class OrderChange { Wait, Signal, Peer };
constexpr size_t orderChangeCount = 3;
/// "wait taken away", ...
const char *describe(OrderChange change);

using Body = google::protobuf::RepeatedPtrField<plan::Instruction>;

/// Calls visit(body, index) for all of the plan's instructions: those of stages, functions, repeats and
/// predicates, too.
void forEachInstruction(plan::Plan &plan, const std::function<void(Body &, int)> &visit);

/// Calls visit(change, where, altered) once for each change, with one change at a time:
/// - each wait of each instruction taken away;
/// - each signal given by an instruction before, the last one of the same queue and body that has none;
/// - each send to, and each receive from, the rank after the right one (of a turn without a message: rank 0).
/// Where events are no more than is needed, each of these plans is wrong.
void forEachOrderChange(
    const plan::Plan &plan,
    const std::function<void(OrderChange, const std::string &, const plan::Plan &)> &visit);

} // namespace colossal::runtime

#endif // COLOSSAL_TEST_RUNTIME_ORDER_MUTATIONS_H
