// Bisection for the slowest chunk, dynamic programming for the others.
#include "ChunkBalance.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace colossal::planner {

std::vector<int> balanceChunks(const std::vector<double> &prefix, int parts) {
  int count = static_cast<int>(prefix.size()) - 1;
  // The least slowest chunk: chunks are filled up to a limit, and must not become too many. Where they do,
  // any limit below the least sum that went beyond it gives the same chunks.
  double ideal = prefix[count] / parts, low = ideal, slowest = prefix[count];
  while (low < slowest) {
    double limit = (low + slowest) / 2, largest = 0, beyond = slowest;
    if (limit >= slowest)
      break;
    int used = 1;
    for (int begin = 0, end = 1; end <= count && used <= parts; ++end) {
      double sum = prefix[end] - prefix[begin];
      if (sum <= limit) {
        largest = std::max(largest, sum);
        continue;
      }
      beyond = std::min(beyond, sum);
      used = end - 1 == begin ? parts + 1 : used + 1;
      begin = --end;
    }
    if (used <= parts)
      slowest = largest;
    else if (beyond <= low)
      break;
    else
      low = beyond;
  }
  slowest *= 1 + 1e-12; // sums over other ways
  // Of the cuts that keep to it the least sum of squares: dynamic programming over (chunks, units). What is
  // before and behind a cut must fit into the chunks there.
  const double never = std::numeric_limits<double>::infinity();
  std::vector<double> before(count + 1, never), now(count + 1, never);
  std::vector<int> from(static_cast<std::size_t>(parts + 1) * (count + 1), 0);
  before[0] = 0;
  for (int c = 1; c <= parts; ++c) {
    std::fill(now.begin(), now.end(), never);
    double least = prefix[count] - (parts - c) * slowest;
    int first = static_cast<int>(std::lower_bound(prefix.begin(), prefix.end(), least) - prefix.begin());
    for (int end = std::max(c, first); end <= count - (parts - c) && prefix[end] <= c * slowest; ++end)
      for (int begin = end - 1; begin >= c - 1 && prefix[end] - prefix[begin] <= slowest; --begin) {
        double uneven = prefix[end] - prefix[begin] - ideal, value = before[begin] + uneven * uneven;
        if (value < now[end]) {
          now[end] = value;
          from[static_cast<std::size_t>(c) * (count + 1) + end] = begin;
        }
      }
    std::swap(before, now);
  }
  std::vector<int> sizes(parts);
  for (int c = parts, end = count; c > 0; --c) {
    int begin = from[static_cast<std::size_t>(c) * (count + 1) + end];
    sizes[c - 1] = end - begin;
    end = begin;
  }
  return sizes;
}

} // namespace colossal::planner
