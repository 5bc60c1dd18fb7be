// A rank's threads: the caller and N-1 workers share the tiles of one launch at a time.
//
// Invariant: tiles are independent, so any split gives the same bits. Workers spin briefly after a launch, because the
// next one is usually microseconds away, and then sleep.
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
  void work(unsigned thread);
  void share(unsigned thread);

  unsigned spins;
  std::vector<std::thread> workers;
  // The current launch; written before `generation` changes, read after.
  Body body = nullptr;
  void *context = nullptr;
  int64_t tiles = 0, chunk = 1;
  alignas(64) std::atomic<int64_t> next{0};
  alignas(64) WaitWord generation;
  alignas(64) WaitWord finished; // workers done with the current generation
  std::atomic<bool> stopping{false};
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CPU_THREADPOOL_H
