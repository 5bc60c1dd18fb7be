//===- Repetitions.cpp - what a sequence of words does again and again ------===//
#include "Repetitions.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace colossal::schedule;

/// Longer parts are not looked for: time grows with it, and no model's layer is near it.
static constexpr size_t kLongest = 4096;

namespace {
/// `count` parts of `length` words, one behind the other.
struct Run {
  size_t begin = 0, length = 0, count = 0;
  Repetition toRepetition() const {
    Repetition repetition{length, {}};
    for (size_t i = 0; i < count; ++i)
      repetition.starts.push_back(begin + i * length);
    return repetition;
  }
};

class Finder {
public:
  Finder(llvm::ArrayRef<unsigned> words, unsigned unique, int64_t least)
      : words(words), unique(unique), least(least) {}

  std::vector<Repetition> run() {
    collect(0, words.size());
    for (Repetition &repetition : found)
      addOthers(repetition);
    return std::move(found);
  }

private:
  bool areEqual(size_t a, size_t b) const { return words[a] == words[b] && words[a] >= unique; }
  bool areEqual(size_t a, size_t b, size_t length) const {
    for (size_t i = 0; i < length; ++i)
      if (!areEqual(a + i, b + i))
        return false;
    return true;
  }

  Run findBest(size_t begin, size_t end) const {
    Run best;
    size_t shared = 0; // words that are left to the first part by the others
    for (size_t length = 1; length <= std::min((end - begin) / 2, kLongest); ++length) {
      if (shared >= end - begin - length) // at least one part is left
        break;
      // A run of equal words that is long enough holds a multiple of the length: only there runs are looked
      // for.
      for (size_t at = begin; at + length < end; at += length) {
        if (!areEqual(at, at + length))
          continue;
        size_t from = at, to = at + 1; // the run is [from, to)
        while (from > begin && areEqual(from - 1, from - 1 + length))
          --from;
        while (to + length < end && areEqual(to, to + length))
          ++to;
        at += (to - 1 - at) / length * length; // the last that lies in it
        if (to - from < length)
          continue;
        const size_t count = (to - from) / length + 1;
        // Calls do not count here: layers are not called two at a time to save some.
        if ((count - 1) * length > shared && countSaved(length, count) >= least) {
          best = {from, length, count};
          shared = (count - 1) * length;
        }
      }
    }
    return best;
  }

  /// Parts of a known repetition that begin elsewhere in the run: where, in the first part of the run.
  bool join(const Run &run, size_t &begin, size_t &count) {
    for (Repetition &known : found) {
      if (known.length != run.length)
        continue;
      for (size_t shift = 0; shift < run.length; ++shift) {
        count = run.count - (shift ? 1 : 0);
        begin = run.begin + shift;
        if (count == 0 || !areEqual(known.starts.front(), begin, run.length))
          continue;
        for (size_t i = 0; i < count; ++i)
          known.starts.push_back(begin + i * run.length);
        llvm::sort(known.starts);
        return true;
      }
    }
    return false;
  }

  void collect(size_t begin, size_t end) {
    if (begin >= end)
      return;
    Run run = findBest(begin, end);
    if (run.count == 0)
      return;
    size_t first = run.begin, count = run.count;
    if (!join(run, first, count)) {
      first = run.begin;
      count = run.count;
      found.push_back(run.toRepetition());
    }
    collect(begin, first);
    collect(first + count * run.length, end);
  }

  void addOthers(Repetition &repetition) {
    std::vector<std::pair<size_t, size_t>> taken; // by all repetitions
    for (const Repetition &known : found)
      for (size_t start : known.starts)
        taken.push_back({start, start + known.length});
    llvm::sort(taken);
    taken.push_back({words.size(), words.size()});
    const size_t text = repetition.starts.front(), length = repetition.length;
    std::vector<size_t> added;
    size_t at = 0;
    for (auto [begin, end] : taken) {
      while (at + length <= begin)
        if (areEqual(text, at, length)) {
          added.push_back(at);
          at += length;
        } else {
          ++at;
        }
      at = end;
    }
    repetition.starts.insert(repetition.starts.end(), added.begin(), added.end());
    llvm::sort(repetition.starts);
  }

  llvm::ArrayRef<unsigned> words;
  unsigned unique;
  int64_t least;
  std::vector<Repetition> found;
};
} // namespace

std::vector<Repetition> colossal::schedule::findRepetitions(llvm::ArrayRef<unsigned> words, unsigned unique,
                                                            int64_t least) {
  return Finder(words, unique, least).run();
}
