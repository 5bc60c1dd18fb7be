// In which segments a backward pass makes the forward pass again: what copies ops into a backward pass, and
// what foresees its memory, agree by this.
#ifndef COLOSSAL_FACTORGRAPH_RECOMPUTESEGMENTS_H
#define COLOSSAL_FACTORGRAPH_RECOMPUTESEGMENTS_H

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace colossal::factors {

/// A value of the forward pass that is kept for the backward pass only where a cut between segments makes it.
struct ForwardValue {
  unsigned begin = 0, end = 0; ///< the op that makes it, and the last forward op that uses it
  double bytes = 0;
  bool isRead = false; ///< by the backward pass
};

/// Cuts a forward pass of ops 0 to `count` - 1. The pass may be cut wherever less is alive than a little
/// before and behind; the cuts taken are those with which the bytes kept between segments and the most that
/// the backward pass reads of one segment are least together.
class RecomputeSegments {
public:
  RecomputeSegments(unsigned count, const std::vector<ForwardValue> &values)
      : count(count), needed(count + 1, 0) {
    for (const ForwardValue &value : values)
      if (value.isRead)
        needed[value.begin + 1] += value.bytes;
    for (unsigned i = 1; i <= count; ++i)
      needed[i] += needed[i - 1];
    findPlaces(values);
  }

  /// The numbers of the ops that begin a segment, in order, without 0.
  std::vector<unsigned> choose() const {
    // What one segment may need, from all in one down to the least that works.
    constexpr double kStep = 0.84;
    double least = std::numeric_limits<double>::infinity(), kept = 0;
    std::vector<unsigned> cuts, chosen;
    for (double most = needed.back(); cutWithin(most, chosen, kept) && most > 0; most *= kStep) {
      double largest = 0;
      unsigned begin = 0;
      for (std::size_t i = 0; i <= chosen.size(); ++i) {
        unsigned end = i < chosen.size() ? chosen[i] : count;
        largest = std::max(largest, needed[end] - needed[begin]);
        begin = end;
      }
      if (kept + largest < least) {
        least = kept + largest;
        cuts = chosen;
      }
      most = std::min(most, largest);
    }
    return cuts;
  }

  /// Whether a value is still there when the backward pass reads it: it goes on into another segment, or is
  /// made in the last one, whose backward pass comes at once.
  static bool isKept(const std::vector<unsigned> &cuts, unsigned begin, unsigned end) {
    auto cut = std::upper_bound(cuts.begin(), cuts.end(), begin);
    return cut == cuts.end() || end >= *cut;
  }

private:
  /// Cuts stand where no more goes on than a little before and behind.
  void findPlaces(const std::vector<ForwardValue> &values) {
    std::vector<double> across(count + 1, 0);
    for (const ForwardValue &value : values)
      if (value.end > value.begin) {
        across[value.begin + 1] += value.bytes;
        across[std::min(value.end + 1, count)] -= value.bytes;
      }
    for (unsigned i = 1; i <= count; ++i)
      across[i] += across[i - 1];
    places = {0};
    for (unsigned i = 1; i < count; ++i)
      if (across[i] <= across[i - 1] && (i + 1 == count || across[i] <= across[i + 1]))
        places.push_back(i);
    places.push_back(count);
    goingOn.resize(places.size() - 1);
    for (const ForwardValue &value : values) {
      auto behind = std::upper_bound(places.begin(), places.end(), value.begin);
      if (behind != places.end() && value.end >= *behind)
        goingOn[static_cast<std::size_t>(behind - places.begin()) - 1].push_back(
            {static_cast<std::size_t>(std::upper_bound(behind, places.end(), value.end) - places.begin()),
             value.bytes});
    }
  }

  /// The cuts with which no segment needs more than `most` bytes and the least is kept between them; false
  /// where some segment needs more. `kept`: those bytes.
  bool cutWithin(double most, std::vector<unsigned> &chosen, double &kept) const {
    const std::size_t number = places.size();
    constexpr double kNever = std::numeric_limits<double>::infinity();
    std::vector<double> best(number, kNever);
    std::vector<std::size_t> from(number, 0);
    best[0] = 0;
    std::vector<double> ends(number); // of what the segment made: bytes that are gone at each place
    for (std::size_t i = 0; i + 1 < number; ++i) {
      if (best[i] == kNever)
        continue;
      std::fill(ends.begin() + static_cast<std::ptrdiff_t>(i), ends.end(), 0);
      double across = 0;
      for (std::size_t j = i + 1; j < number && needed[places[j]] - needed[places[i]] <= most; ++j) {
        for (auto [end, bytes] : goingOn[j - 1]) {
          across += bytes;
          if (end < number)
            ends[end] += bytes;
        }
        across -= ends[j];
        const double total = best[i] + (j + 1 == number ? 0 : across);
        if (total < best[j]) {
          best[j] = total;
          from[j] = i;
        }
      }
    }
    kept = best.back();
    if (kept == kNever)
      return false;
    chosen.clear();
    for (std::size_t j = from.back(); j > 0; j = from[j])
      chosen.push_back(places[j]);
    std::reverse(chosen.begin(), chosen.end());
    return true;
  }

  unsigned count;
  std::vector<double> needed;   ///< by op: bytes that the backward pass reads of those before it
  std::vector<unsigned> places; ///< where a cut may be: before the op of that number; 0 and the end included
  /// By place but the last, of the values that are made from there on up to the next place and go on behind
  /// it: the first place before which they end, the number of places for none, and their bytes.
  std::vector<std::vector<std::pair<std::size_t, double>>> goingOn;
};

} // namespace colossal::factors

#endif // COLOSSAL_FACTORGRAPH_RECOMPUTESEGMENTS_H
