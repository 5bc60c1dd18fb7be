// Threads for one call.
#include "colossal/Search/Parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace colossal::search {

void parallelFor(std::size_t count, int threads, const std::function<void(std::size_t)> &task) {
  const std::size_t wanted =
      threads > 0 ? static_cast<std::size_t>(threads) : std::thread::hardware_concurrency();
  std::atomic<std::size_t> next{0};
  auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++)
      task(i);
  };
  std::vector<std::thread> others;
  auto start = [&] {
    try {
      others.emplace_back(work);
      return true;
    } catch (const std::system_error &) {
      return false; // a limit of the system's; the answer is the same with fewer
    }
  };
  for (std::size_t t = 1; t < std::min(wanted, count) && start(); ++t) {
  }
  work();
  for (std::thread &other : others)
    other.join();
}

} // namespace colossal::search
