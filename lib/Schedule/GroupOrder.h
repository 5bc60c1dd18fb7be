//===- GroupOrder.h - an order in which groups can run, while they are made --===//
//
// Groups and who needs whom, with a place for each group such that it stands behind all that it needs. A
// question whether one group needs another then only walks what stands between the two; a new need that the
// places contradict renumbers just the groups between them (D. J. Pearce, P. H. J. Kelly: A Dynamic
// Topological Sort Algorithm for Directed Acyclic Graphs, JEA 11, 2006). `Grouping` asks before it adds, so
// that no cycle arises.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_SCHEDULE_GROUPORDER_H
#define COLOSSAL_SCHEDULE_GROUPORDER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

namespace colossal::schedule {

class GroupOrder {
public:
  /// A new group, which needs none so far: it stands in front of all others. Groups are numbered from 0.
  unsigned add();
  /// Whether `group` needs one of `others`, directly or through further ones; it does not need itself.
  bool needsAny(unsigned group, llvm::ArrayRef<unsigned> others) const;
  /// From now on `group` needs `other`. Requires that `other` is another group and does not need `group`.
  void require(unsigned group, unsigned other);

private:
  struct Node {
    int64_t place;                      ///< behind all that it needs
    llvm::SmallVector<unsigned> needed; ///< directly
    llvm::SmallVector<unsigned> neededBy;
  };
  /// `start` and all that it comes to over `edges` within the places [low, high].
  std::vector<unsigned> reach(unsigned start, llvm::SmallVector<unsigned> Node::*edges, int64_t low,
                              int64_t high) const;

  std::vector<Node> nodes;
  mutable std::vector<unsigned> walkOf; ///< by node, the last call of reach() that came to it
  mutable unsigned walk = 0;            ///< the number of that call
  int64_t front = 0;                    ///< the place of the next group
};

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_GROUPORDER_H
