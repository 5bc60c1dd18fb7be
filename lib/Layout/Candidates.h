//===- Candidates.h - the layouts worth trying for one op -------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_CANDIDATES_H
#define COLOSSAL_LIB_LAYOUT_CANDIDATES_H

#include "colossal/Partition/Partition.h"

#include <vector>

namespace colossal::layout {

struct CandidateLimits {
  /// An uneven split may compute at most this share of padding.
  double padding = 0.34;
  /// Above this many, assignments are dropped that leave more axes unused than need be.
  size_t count = 160;
  /// Above this many still, those are kept that put the axes on the fewest factors, and then on the largest
  /// ones: neighbours choose among the same dimensions, and so keep matching layouts.
  size_t most = 256;
  /// Whether carried factors are tried: partial sums that go on through the op.
  bool carriesSums = false;
};

/// All ways to put each mesh axis onto one of the factors of `rule`, or none: the replicated one first. A
/// factor that is split has at least as many elements as ranks, and not more padding than `limits` allow.
/// Reduction factors of different kinds are not split together, since their partial results have no common
/// combination.
std::vector<dist::Assignment> enumerateAssignments(const dist::FactorRule &rule, dist::MeshAttr mesh,
                                                   const CandidateLimits &limits = {});

/// The share of an op's work that one rank does: the product of local over global sizes of its split factors.
double getLocalShare(const dist::FactorRule &rule, const dist::Assignment &assignment, dist::MeshAttr mesh);

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_CANDIDATES_H
