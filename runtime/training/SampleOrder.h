// Which sample is the n-th of a run. A function of its arguments only, so that any mesh, and a run that is
// resumed, sees the same.
#ifndef COLOSSAL_RUNTIME_TRAINING_SAMPLEORDER_H
#define COLOSSAL_RUNTIME_TRAINING_SAMPLEORDER_H

#include <cstdint>
#include <optional>

namespace colossal::runtime {

/// A permutation of [0, count) for each seed and epoch, computed element by element.
///
/// A Feistel network of 8 rounds over 2k bits, the least k with 4^k >= count: (left, right) becomes (right,
/// left ^ F) with F = the low k bits of mix(right + key), key = mix(mix(mix(seed) + epoch) + round), and mix
/// the finalizer of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
/// What falls outside [0, count) goes through the network again until it falls inside (Black, Rogaway:
/// Ciphers with arbitrary finite domains, 2002).
uint64_t permute(uint64_t index, uint64_t count, uint64_t seed, uint64_t epoch);

/// Epoch after epoch, in order or shuffled.
struct SampleOrder {
  uint64_t count = 0; ///< samples there are; 0: any number, as of a constant
  std::optional<uint64_t> seed;

  /// Of the run's sample `number`, from 0 on: which it is of those there are.
  uint64_t sample(uint64_t number) const {
    if (count == 0)
      return 0;
    const uint64_t position = number % count;
    return seed ? permute(position, count, *seed, number / count) : position;
  }
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_TRAINING_SAMPLEORDER_H
