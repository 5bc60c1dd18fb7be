// Independent pieces of work on a few threads. Which thread does a piece decides nothing: each writes to a
// place of its own, and the caller puts the pieces together in their order.
#ifndef COLOSSAL_SEARCH_PARALLEL_H
#define COLOSSAL_SEARCH_PARALLEL_H

#include <cstddef>
#include <functional>

namespace colossal::search {

/// Calls `task` with 0 .. count-1, each once and whole on one thread, in any order, on at most `threads` (0:
/// as many as there are cores) of which the caller's is one. Returns when all are done. Where the system
/// gives fewer threads, those do it all. Tasks do not throw.
void parallelFor(std::size_t count, int threads, const std::function<void(std::size_t)> &task);

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_PARALLEL_H
