// A small cipher as a permutation.
#include "runtime/training/SampleOrder.h"

namespace colossal::runtime {

static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t permute(uint64_t index, uint64_t count, uint64_t seed, uint64_t epoch) {
  constexpr unsigned rounds = 8;
  unsigned bits = 0;
  while (bits < 32 && (uint64_t(1) << (2 * bits)) < count)
    ++bits;
  const uint64_t mask = (uint64_t(1) << bits) - 1, base = mix(mix(seed) + epoch);
  do {
    uint64_t left = index >> bits, right = index & mask;
    for (unsigned round = 0; round < rounds; ++round) {
      const uint64_t next = left ^ (mix(right + mix(base + round)) & mask);
      left = right;
      right = next;
    }
    index = left << bits | right;
  } while (index >= count);
  return index;
}

} // namespace colossal::runtime
