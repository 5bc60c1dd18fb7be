// Bisection on the longest stage; whether a limit can be held is seen by filling stages from the end, where
// 1F1B keeps fewest microbatches.
#include "colossal/Cost/ChainCut.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace colossal::cost {

namespace {

/// Parts go to the last stage while they fit, then to the one before; a stage leaves one part to each that
/// comes before it. Empty if the first stage cannot take what is left.
std::vector<std::size_t> fill(const std::vector<ChainPart> &parts, int stages, int microbatches,
                              double memory, double limit) {
  std::vector<std::size_t> firsts(static_cast<std::size_t>(stages));
  std::size_t end = parts.size();
  for (int s = stages - 1; s >= 0; --s) {
    double seconds = 0, state = 0, kept = 0, transient = 0, held = std::min(stages - s, microbatches);
    std::size_t first = end;
    while (first > static_cast<std::size_t>(s)) {
      const ChainPart &part = parts[first - 1];
      seconds += part.seconds;
      state += part.stateBytes;
      kept += part.keptBytes;
      transient = std::max(transient, part.transientBytes);
      if (seconds > limit || state + held * kept + transient > memory)
        break;
      --first;
    }
    if (first == end)
      return {};
    firsts[static_cast<std::size_t>(s)] = end = first;
  }
  return end == 0 ? firsts : std::vector<std::size_t>();
}

} // namespace

std::vector<std::size_t> cutChain(const std::vector<ChainPart> &parts, int stages, int microbatches,
                                  double memoryBytes) {
  if (stages < 1 || parts.size() < static_cast<std::size_t>(stages))
    return {};
  double total = 0;
  for (const ChainPart &part : parts)
    total += part.seconds;
  for (double memory : {memoryBytes, std::numeric_limits<double>::infinity()}) {
    std::vector<std::size_t> best = fill(parts, stages, microbatches, memory, total * (1 + 1e-9));
    if (best.empty())
      continue;
    double low = 0, high = total;
    for (int i = 0; i < 40; ++i) {
      double middle = (low + high) / 2;
      std::vector<std::size_t> cut = fill(parts, stages, microbatches, memory, middle);
      if (cut.empty()) {
        low = middle;
      } else {
        high = middle;
        best = std::move(cut);
      }
    }
    return best;
  }
  return {};
}

} // namespace colossal::cost
