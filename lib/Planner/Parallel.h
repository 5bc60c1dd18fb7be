// Independent pieces of work on a few threads. Which thread does a piece decides nothing: each writes to a
// place of its own, and the caller puts the pieces together in their order.
#ifndef COLOSSAL_PLANNER_PARALLEL_H
#define COLOSSAL_PLANNER_PARALLEL_H

#include <cstddef>
#include <functional>

namespace colossal::planner {

/// Calls `work` with 0 .. count-1, in any order, on at most `threads` threads (0: as many as there are
/// cores).
void inParallel(int threads, std::size_t count, const std::function<void(std::size_t)> &work);

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_PARALLEL_H
