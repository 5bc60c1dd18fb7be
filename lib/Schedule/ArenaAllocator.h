//===- ArenaAllocator.h - lifetimes to offsets ------------------------------===//
//
// Offline memory planning: all lifetimes are known, so that buffers get fixed offsets in one arena. No IR.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_SCHEDULE_ARENAALLOCATOR_H
#define COLOSSAL_LIB_SCHEDULE_ARENAALLOCATOR_H

#include <cstdint>
#include <vector>

namespace colossal::schedule {

/// A buffer that is alive at the steps first..last, both included.
struct Lifetime {
  uint64_t bytes = 0;
  int64_t first = 0, last = 0;
};

struct ArenaPlan {
  std::vector<uint64_t> offsets; ///< one per lifetime
  uint64_t bytes = 0;            ///< size of the arena
  uint64_t bound = 0;            ///< most bytes alive at one step: no plan is smaller
};

/// Places buffers so that those alive together do not overlap; offsets are multiples of `alignment` (a power
/// of two). Greedy by size, best fit among the gaps (Pisarchyk and Lee, "Efficient Memory Management for Deep
/// Neural Net Inference", 2020, section 5.2); where that leaves the bound by more than 0.4 %, greedy in five
/// more orders as well, of which the smallest arena counts, and then in orders that have what ended above the
/// bound come earlier and earlier. Deterministic. Near O(n log^2 n), as buffers that lie side by side are
/// looked at as one, for the chains of an inference and for what a training step keeps; O(n^2) at worst.
ArenaPlan allocate(const std::vector<Lifetime> &lifetimes, uint64_t alignment = 64);

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_ARENAALLOCATOR_H
