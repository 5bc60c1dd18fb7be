//===- Candidates.h - the layouts worth trying for one op -------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_CANDIDATES_H
#define COLOSSAL_LIB_LAYOUT_CANDIDATES_H

#include "colossal/Partition/Partition.h"

#include <vector>

namespace colossal::layout {

struct CandidateLimits {
  /// An uneven split may compute at most this share of padding.
  double padding = 0.34;
  /// Above this many, only the plainest are kept (keepPlainest; Candidates::isWhole tells).
  size_t most = 1024;
  /// Whether carried factors are tried: partial sums that go on through the op.
  bool carriesSums = false;
};

struct Candidates {
  std::vector<dist::Assignment> assignments; ///< the replicated one first
  bool isWhole = true;                       ///< whether these are all that there are
  bool isAsAsked = true;                     ///< whether they follow the recipe, where there is one
};

/// All ways to put each mesh axis onto one of the factors of `rule`, or none; axes that share a factor in
/// every order. A factor that is split has at least as many elements as ranks, and not more padding than
/// `limits` allow. Reduction factors of different kinds are not split together, since their partial results
/// have no common combination. A loop axis of the mesh is left out.
///
/// With k axes on f factors there are sum over j of C(k, j) f (f + 1) ... (f + j - 1) of them: 10 for (2, 2),
/// 193 for (3, 4), 1457 for (4, 4), before sizes rule any out. O(limits.most * f * k^2), whatever the mesh.
Candidates enumerateAssignments(const dist::FactorRule &rule, dist::MeshAttr mesh,
                                const CandidateLimits &limits = {});

/// Leaves at most `most`: the replicated one, and those that stray least from all axes on one factor in the
/// mesh's order, of these those on the largest factors, so that neighbours keep matching layouts.
void keepPlainest(Candidates &candidates, const dist::FactorRule &rule, dist::MeshAttr mesh, size_t most);

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_CANDIDATES_H
