// Guided self-scheduling: each thread takes a share of what is left, so that chunks begin large (few visits
// to the shared word) and end with single tiles (threads finish together, also where one lost its core for a
// while). C. D. Polychronopoulos and D. J. Kuck, "Guided Self-Scheduling", IEEE Trans. Computers, 1987.
#include "runtime/cpu/ThreadPool.h"

#include <algorithm>

namespace colossal::runtime {

namespace {
/// A thread takes 1 / (threads * sharesPerThread) of the tiles that are left.
constexpr uint32_t sharesPerThread = 2;
constexpr unsigned sleepMilliseconds = 1000;
/// Tiles of one launch: more are launched in turns.
constexpr int64_t mostTiles = int64_t(1) << 31;
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
  const uint32_t shares = threads() * sharesPerThread;
  uint64_t seen = open.load(std::memory_order_acquire);
  while (const auto left = static_cast<uint32_t>(seen)) {
    const Body function = body.load(std::memory_order_relaxed);
    void *argument = context.load(std::memory_order_relaxed);
    const int64_t begin = end.load(std::memory_order_relaxed) - left;
    const uint32_t taken = std::max<uint32_t>(1, left / shares);
    // Of the same launch if this succeeds: the number of the launch is compared as well.
    if (!open.compare_exchange_weak(seen, seen - taken, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    function(argument, thread, begin, begin + taken);
    undone.subtract(taken);
    seen = open.load(std::memory_order_acquire);
  }
}

void ThreadPool::run(int64_t count, Body function, void *argument) {
  if (count <= 0)
    return;
  if (workers.empty() || count == 1) {
    function(argument, 0, 0, count);
    return;
  }
  body.store(function, std::memory_order_relaxed);
  context.store(argument, std::memory_order_relaxed);
  for (int64_t first = 0; first < count; first += mostTiles)
    launch(first, static_cast<uint32_t>(std::min(mostTiles, count - first)));
}

void ThreadPool::launch(int64_t first, uint32_t count) {
  end.store(first + count, std::memory_order_relaxed);
  undone.store(count);
  const uint64_t number = (open.load(std::memory_order_relaxed) >> 32) + 1;
  open.store(number << 32 | count, std::memory_order_release);
  generation.increment();
  share(0);
  Patience patience(spins);
  for (uint32_t left = undone.load(); left != 0; left = undone.load())
    patience.waitWhile(undone, left, sleepMilliseconds);
}

void ThreadPool::work(unsigned thread) {
  uint32_t seen = 0;
  for (;;) {
    uint32_t now = generation.load();
    Patience patience(spins);
    while (now == seen) {
      patience.waitWhile(generation, seen, sleepMilliseconds);
      now = generation.load();
    }
    seen = now;
    if (stopping.load())
      return;
    share(thread);
  }
}

} // namespace colossal::runtime
