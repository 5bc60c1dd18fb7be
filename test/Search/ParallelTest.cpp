// Every piece once, on no more threads than were asked for.
#include "colossal/Search/Parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

using namespace colossal::search;

TEST(ParallelFor, DoesEveryPieceOnce) {
  for (int threads : {0, 1, 2, 7})
    for (std::size_t count : {0, 1, 2, 100}) {
      std::vector<std::atomic<int>> times(count);
      parallelFor(count, threads, [&](std::size_t i) { ++times[i]; });
      for (const std::atomic<int> &one : times)
        EXPECT_EQ(one, 1);
    }
}

TEST(ParallelFor, TakesNoMoreThreadsThanWereAskedFor) {
  for (int threads : {1, 3}) {
    std::set<std::thread::id> seen;
    std::mutex mutex;
    parallelFor(1000, threads, [&](std::size_t) {
      std::lock_guard<std::mutex> lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
    EXPECT_LE(seen.size(), static_cast<std::size_t>(threads));
    if (threads == 1) {
      EXPECT_EQ(*seen.begin(), std::this_thread::get_id()) << "the caller's own";
    }
  }
}

TEST(ParallelFor, NestsAndWaits) {
  std::atomic<int> sum{0};
  parallelFor(5, 2, [&](std::size_t i) { parallelFor(i, 2, [&](std::size_t) { ++sum; }); });
  EXPECT_EQ(sum, 0 + 1 + 2 + 3 + 4);
}
