// Fork and join over chunks of tiles. A generation counter starts the workers, a second one joins them.
#include "runtime/cpu/ThreadPool.h"

#include <algorithm>

namespace colossal::runtime {

namespace {
// Chunks per thread: a thread that lost its core for a moment leaves the rest to the others.
constexpr int64_t chunksPerThread = 4;
constexpr unsigned sleepMilliseconds = 1000;
} // namespace

ThreadPool::ThreadPool(unsigned threads, unsigned spins) : spins(spins) {
  for (unsigned thread = 1; thread < threads; ++thread)
    workers.emplace_back([this, thread] { work(thread); });
}

ThreadPool::~ThreadPool() {
  stopping.store(true);
  generation.increment();
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::share(unsigned thread) {
  for (;;) {
    int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
    if (begin >= tiles)
      return;
    body(context, thread, begin, std::min(begin + chunk, tiles));
  }
}

void ThreadPool::run(int64_t count, Body function, void *argument) {
  if (count <= 0)
    return;
  if (workers.empty() || count == 1) {
    function(argument, 0, 0, count);
    return;
  }
  body = function;
  context = argument;
  tiles = count;
  chunk = std::max<int64_t>(1, count / (static_cast<int64_t>(threads()) * chunksPerThread));
  next.store(0, std::memory_order_relaxed);
  finished.store(0);
  generation.increment();
  share(0);
  const auto all = static_cast<uint32_t>(workers.size());
  for (uint32_t done = finished.load(); done != all; done = finished.load())
    finished.waitWhile(done, spins, sleepMilliseconds);
}

void ThreadPool::work(unsigned thread) {
  uint32_t seen = 0;
  for (;;) {
    while (!generation.waitWhile(seen, spins, sleepMilliseconds)) {
    }
    // Every generation is joined by every worker, so none can be skipped.
    ++seen;
    if (stopping.load())
      return;
    share(thread);
    finished.increment();
  }
}

} // namespace colossal::runtime
