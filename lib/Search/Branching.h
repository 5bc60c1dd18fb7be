// Exact search on what remains small: best-first branch and bound over a core. A leaf is a part of the
// answers, given by the candidates that each node may still take; it is reduced, its dual goes on from its
// parent's, and unless its bound rules out answers worth having it is split at the node whose memory the
// dual's decoded answers disagree about most: those that are paid for a little, and those that are paid for
// much. Leaves of a round are independent tasks, so the tree depends on the work and never on the number of
// threads.
#ifndef COLOSSAL_SEARCH_BRANCHING_H
#define COLOSSAL_SEARCH_BRANCHING_H

#include "Dual.h"
#include "Neighborhood.h"
#include "Reduction.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace colossal::search {

class Branching {
public:
  /// `dual` has run on `core`; both must outlive the search. `bound` is a bound of the core.
  Branching(const Core &core, const DualAscent &dual, __int128 bound);

  /// Every answer that costs less than this has been ruled out, or is held by `answer`; none: all have been.
  std::optional<__int128> bound() const;

  /// Chooses up to `count` leaves to look at next; returns how many.
  int pick(int count);
  /// Looks at leaf `slot` of those picked, about `work` units: may be called from several threads. Answers of
  /// the core that cost more than `upper` are of no interest.
  void process(int slot, std::uint64_t work, __int128 upper, const std::function<bool()> &stop);
  /// Takes up what the picked leaves came to.
  void merge();

  /// An answer of the core met in the last round that costs at most `upper` and fits; may be empty.
  const std::vector<int> &answer() const { return found; }
  std::uint64_t work() const { return spent; }
  std::size_t leaves() const { return open.size(); }

private:
  struct Leaf {
    std::shared_ptr<Leaf> parent; ///< null: the core itself
    std::vector<char> keep;       ///< by candidate of the parent's core
    __int128 bound = 0;
    int depth = 0;
    // Known once it has been looked at; freed when its children have been.
    std::unique_ptr<Reduction> reduction;
    std::unique_ptr<DualAscent> dual;
    int waiting = 0;
    std::size_t bytes = 0;
  };
  struct Slot {
    std::shared_ptr<Leaf> leaf;
    std::vector<std::shared_ptr<Leaf>> children;
    std::vector<int> answer;
    double answerCost = 0;
    std::uint64_t spent = 0;
  };

  const Core &getParentCore(const Leaf &leaf) const {
    return leaf.parent ? leaf.parent->reduction->core() : core;
  }
  bool reduce(Slot &slot, __int128 upper, const std::function<bool()> &stop) const;
  void ascend(Slot &slot, std::uint64_t work, __int128 upper, const std::function<bool()> &stop) const;
  bool offer(Slot &slot, const NeighborhoodSearch &search, __int128 upper) const;
  static std::size_t sizeOf(const Core &sub, const Core &from, const DualAscent &dual);
  void release(Leaf &leaf);
  void addChild(Slot &slot, std::vector<char> keep, __int128 bound) const;
  void split(Slot &slot, const std::vector<char> &keep, __int128 bound) const;
  std::vector<int> toCore(const Leaf &leaf, std::vector<int> x) const;

  const Core &core;
  const DualAscent &rootDual;
  std::vector<std::shared_ptr<Leaf>> open;
  std::vector<Slot> slots;
  std::vector<int> found;
  std::uint64_t spent = 0;
  std::size_t held = 0; ///< bytes of the leaves whose children are open
};

} // namespace colossal::search

#endif // COLOSSAL_SEARCH_BRANCHING_H
