// In which parts a program makes the gradients of attention: what makes them of ordinary ops, and what
// foresees their memory, agree by this.
#ifndef COLOSSAL_FACTORGRAPH_ATTENTIONPARTS_H
#define COLOSSAL_FACTORGRAPH_ATTENTIONPARTS_H

#include <algorithm>
#include <cmath>

namespace colossal::factors {

/// Queries of each head that are worked on at a time, of `queries` on a rank that have `scores` (elements)
/// with their keys in all heads together. Parts are small enough for little memory, and so few that the
/// program stays short. Under a causal mask more of them leave out more of what is hidden: with many, half of
/// it.
inline double attentionPartRows(double queries, double scores, bool causal) {
  constexpr double kMostScores = 1 << 23, kMostParts = 16, kCausalRows = 128, kCausalParts = 8;
  double parts = std::clamp(std::ceil(scores / kMostScores), 1.0, kMostParts);
  if (causal)
    parts = std::max(parts, std::min(std::floor(queries / kCausalRows), kCausalParts));
  return std::max(1.0, std::ceil(queries / parts));
}

} // namespace colossal::factors

#endif // COLOSSAL_FACTORGRAPH_ATTENTIONPARTS_H
