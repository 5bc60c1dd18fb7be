// Threads for one call.
#include "Parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace colossal::planner {

void inParallel(int threads, std::size_t count, const std::function<void(std::size_t)> &work) {
  std::size_t wanted = threads > 0 ? static_cast<std::size_t>(threads) : std::thread::hardware_concurrency();
  std::atomic<std::size_t> next{0};
  auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++)
      work(i);
  };
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < std::min(wanted, count); ++t)
    others.emplace_back(run);
  run();
  for (std::thread &other : others)
    other.join();
}

} // namespace colossal::planner
