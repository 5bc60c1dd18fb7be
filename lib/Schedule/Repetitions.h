//===- Repetitions.h - what a sequence of words does again and again --------===//
#ifndef COLOSSAL_LIB_SCHEDULE_REPETITIONS_H
#define COLOSSAL_LIB_SCHEDULE_REPETITIONS_H

#include "llvm/ADT/ArrayRef.h"

#include <cstddef>
#include <vector>

namespace colossal::schedule {

/// Equal parts of a sequence: words [start, start + length) for each start.
struct Repetition {
  size_t length = 0;
  std::vector<size_t> starts; ///< ascending, at least two
};

/// Words that `count` parts of `length` words save, where each becomes one word and their text is kept once.
inline int64_t countSaved(size_t length, size_t count) {
  return static_cast<int64_t>((count - 1) * length) - static_cast<int64_t>(count);
}

/// Parts that stand several times, none of which overlap, and each repetition of which saves at least `least`
/// words: first what follows itself, as many words first as repeat others and of these the shortest part (not
/// two layers as one), then what else in the sequence is equal to such a part. Parts that are equal but for
/// where they begin belong to one repetition. Words below `unique` equal none. O(words * min(words, 4096))
/// comparisons for each repetition.
std::vector<Repetition> findRepetitions(llvm::ArrayRef<unsigned> words, unsigned unique, int64_t least);

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_REPETITIONS_H
