// A rank's threads: the caller and N-1 workers share the tiles of one launch at a time.
//
// Invariant: tiles are independent, so any split gives the same bits. A launch waits for tiles, never for
// workers: one that has no core when a launch begins takes no part in it, and costs it nothing. Workers spin
// briefly after a launch, because the next one is usually microseconds away, and then sleep.
#ifndef COLOSSAL_RUNTIME_CPU_THREADPOOL_H
#define COLOSSAL_RUNTIME_CPU_THREADPOOL_H

#include "runtime/execute/Wait.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace colossal::runtime {

class ThreadPool {
public:
  /// Computes tiles [begin, end) on thread `thread` of the pool, 0 being the caller.
  using Body = void (*)(void *context, unsigned thread, int64_t begin, int64_t end);

  /// `spins`: how long a waiting thread spins before it sleeps; small where threads outnumber cores.
  ThreadPool(unsigned threads, unsigned spins);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  unsigned threads() const { return static_cast<unsigned>(workers.size()) + 1; }

  /// Splits tiles [0, tiles) over the threads in chunks and returns when all are done. Not reentrant.
  void run(int64_t tiles, Body body, void *context);

private:
  void launch(int64_t first, uint32_t count);
  void work(unsigned thread);
  void share(unsigned thread);

  unsigned spins;
  std::vector<std::thread> workers;
  // The current launch, written while none is open. A worker may read them late, but then finds in `open`
  // that nothing of what it read about is left.
  std::atomic<Body> body{nullptr};
  std::atomic<void *> context{nullptr};
  std::atomic<int64_t> end{0}; // tiles [end - left, end) are to be taken
  /// The launch's number in the upper half, the tiles that nobody took yet in the lower: taking some compares
  /// both, so that a worker never takes from a launch that it did not read about.
  alignas(64) std::atomic<uint64_t> open{0};
  alignas(64) WaitWord generation; // changes with each launch; workers sleep on it
  alignas(64) WaitWord undone;     // tiles of the launch that are not computed yet; the caller sleeps on it
  std::atomic<bool> stopping{false};
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CPU_THREADPOOL_H
