// The thread pool: each tile once, whatever the counts; launches one after another without a pause; and
// what a thread that is held up has not taken goes to the others.
#include "runtime/cpu/ThreadPool.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

using namespace colossal::runtime;

namespace {

constexpr unsigned spins = 200;

/// How often each tile of a launch was computed, and by whom.
struct Visits {
  explicit Visits(int64_t tiles)
      : tiles(tiles), counts(new std::atomic<uint32_t>[static_cast<size_t>(tiles)]()) {}

  static void body(void *context, unsigned thread, int64_t begin, int64_t end) {
    auto &self = *static_cast<Visits *>(context);
    if (thread >= self.threads || begin < 0 || begin >= end || end > self.tiles) {
      self.wrong.store(true);
      return;
    }
    for (int64_t tile = begin; tile < end; ++tile)
      self.counts[static_cast<size_t>(tile)].fetch_add(1);
  }

  bool eachOnce() const {
    for (int64_t tile = 0; tile < tiles; ++tile)
      if (counts[static_cast<size_t>(tile)].load() != 1)
        return false;
    return !wrong.load();
  }

  int64_t tiles;
  unsigned threads = 64;
  std::unique_ptr<std::atomic<uint32_t>[]> counts;
  std::atomic<bool> wrong{false};
};

TEST(ThreadPool, ComputesEachTileOnce) {
  for (unsigned threads : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(threads, spins);
    ASSERT_EQ(pool.threads(), threads);
    for (int64_t tiles : {0, 1, 2, 3, 7, 16, 1000, 100001}) {
      Visits visits(tiles);
      visits.threads = threads;
      pool.run(tiles, Visits::body, &visits);
      EXPECT_TRUE(visits.eachOnce()) << tiles << " tiles on " << threads << " threads";
    }
  }
}

/// Launches follow each other while workers are still leaving the one before.
TEST(ThreadPool, KeepsLaunchesApart) {
  ThreadPool pool(4, spins);
  std::mt19937 random(7);
  for (int launch = 0; launch < 20000; ++launch) {
    Visits visits(2 + static_cast<int64_t>(random() % 20));
    visits.threads = 4;
    pool.run(visits.tiles, Visits::body, &visits);
    ASSERT_TRUE(visits.eachOnce()) << "launch " << launch;
  }
}

/// One thread stays in its first tiles until all others are done: the rest must take everything else.
TEST(ThreadPool, TakesOverWhatAHeldUpThreadLeft) {
  struct Held {
    std::atomic<bool> taken{false};
    std::atomic<int64_t> done{0};
    int64_t tiles;
  } held;
  held.tiles = 512;
  ThreadPool pool(2, spins);
  pool.run(
      held.tiles,
      [](void *context, unsigned, int64_t begin, int64_t end) {
        auto &held = *static_cast<Held *>(context);
        const bool first = !held.taken.exchange(true);
        while (first && held.done.load() + (end - begin) < held.tiles)
          std::this_thread::yield();
        held.done.fetch_add(end - begin);
      },
      &held);
  EXPECT_EQ(held.done.load(), held.tiles);
}

} // namespace
