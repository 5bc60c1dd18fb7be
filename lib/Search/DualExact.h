// The dual in whole numbers: from the messages and prices of a floating-point ascent, a bound that is valid
// in exact arithmetic, and from that bound and an answer's cost, candidates that no better answer can have
// (reduced-cost fixing).
//
// State: a whole number W[j->i](k) per half edge and candidate, and node costs
//   theta_i(k) = floor(cost and memory at the prices) + sum_j W[j->i](k).
// Whatever W is, every answer that fits the memory limit costs at least
//   offset - ceil(price * capacity) + sum_i min theta_i + sum_ij min (T_ij - W[j->i] - W[i->j]).
#ifndef COLOSSAL_SEARCH_DUALEXACT_H
#define COLOSSAL_SEARCH_DUALEXACT_H

#include "Core.h"

#include <cstdint>
#include <optional>

namespace colossal::search {

class ExactDual {
public:
  /// `messages` by half edge as in DualAscent; of node i's theta each lower neighbour's edge receives
  /// `share[i]`.
  ExactDual(const Core &core, const std::vector<double> &messages, const std::vector<double> &price,
            const std::vector<double> &share);

  /// None where numbers are too large for exact doubles (2^51).
  std::optional<__int128> bound() const { return exact ? std::optional<__int128>(total) : std::nullopt; }

  /// Clears keep[first[i] + k] where every answer with candidate k at node i costs more than `upper`. One
  /// pass forward and one backward; the bound rises on the way. O(table entries). Returns how many were
  /// cleared.
  int fix(__int128 upper, std::vector<char> &keep);

  /// What is left at node i's candidate, or at a pair of the edge whose half edge `h` leads from i to a
  /// smaller node; and what of it the bound has taken (h < 0: of the node).
  double nodeCost(int i, int k) const { return theta[core.first[i] + k]; }
  double edgeCost(int i, int h, int k, int l) const {
    const Core::Half &half = core.halves[h];
    return half.from[static_cast<std::size_t>(l) * core.candidates(i) + k] - W[messageFirst[h] + k] -
           W[messageFirst[half.reverse] + l];
  }
  double taken(int i, int h) const { return h < 0 ? lowest(i) : edgeLow[h]; }

private:
  void chargeMemory(const std::vector<double> &price);
  void giveToLower(const std::vector<double> &share);
  int fixNode(int i, __int128 upper, std::vector<char> &keep, bool forward);
  double lowest(int i) const;

  const Core &core;
  bool exact = true;
  __int128 total = 0;
  std::vector<std::int64_t> messageFirst;
  std::vector<double> W, theta, edgeLow; ///< edgeLow by half edge, at the end with the larger node
  std::vector<double> in, out;
};

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_DUALEXACT_H
