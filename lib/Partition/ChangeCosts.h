//===- ChangeCosts.h - what changes of layouts cost -------------------------===//
//
// Between two layouts of a tensor most factors stay as they are. What a move costs follows from those that
// change, from the sums that end or begin, and from the bytes of all the rest; tables of layouts have many
// pairs that agree in these. What happens to a dimension is cut into runs of factors that may be moved
// together; beyond a run it does not matter where its factors stand. Changes are numbered, sets of them too,
// and a set keeps the graph of placements in which it is searched, for any number of bytes.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_PARTITION_CHANGECOSTS_H
#define COLOSSAL_LIB_PARTITION_CHANGECOSTS_H

#include "colossal/Cost/PlacementSearch.h"
#include "dialects/Dist/Dist.h"
#include "llvm/ADT/DenseMap.h"

#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace colossal::dist {

class ChangeCosts {
public:
  /// `price` must outlive this. `axesAreAlike`: it depends on the sizes of axes only.
  ChangeCosts(MeshAttr mesh, const cost::PlacementCost &price, bool axesAreAlike);

  /// What one dimension contributes to the way between two layouts.
  struct Change {
    int64_t unchanged = 1;  ///< product of the local sizes of factors that stay as they are
    unsigned id = 0;        ///< of what happens to the others; 0 where there are none
    bool isForeign = false; ///< no common factors
  };
  /// Stays where it is.
  const Change &getChange(DimShardingAttr from, DimShardingAttr to);

  /// Sets of changes are built one by one, from the empty one. The sums come last.
  static constexpr unsigned kNothing = 0;
  unsigned add(unsigned set, unsigned change);
  /// Together with sums over the axes of the bits of `from`, of which those over `to` are left or made.
  unsigned addSums(unsigned set, uint32_t from, uint32_t to);
  /// The least cost of a set, where `bytes` stand at each element of what changes; infinity where it cannot
  /// be.
  double getCost(unsigned set, int64_t bytes);

private:
  struct ChangeSet {
    llvm::SmallVector<unsigned, 4> changes; ///< in the order in which they were added
    uint32_t from = 0, to = 0;              ///< sums that end, and that begin
    int likeness = -1;                      ///< the set that is searched for it; -1: not known yet
    std::unique_ptr<cost::PlacementGraph> graph;
    unsigned start = 0; ///< its node
  };
  class Renaming;

  unsigned getRun(const std::vector<int64_t> &words);
  unsigned getId(llvm::ArrayRef<unsigned> runs);
  unsigned getLikeness(unsigned set);
  /// `changes`, in their order, as a set.
  unsigned getSet(llvm::ArrayRef<unsigned> changes, uint32_t from, uint32_t to);
  /// `set`, which must be one of runs, with alike axes named in the order in which its runs, sorted by their
  /// shapes, speak of them: one for most of those that differ in names only.
  unsigned rename(unsigned set);
  unsigned rename(unsigned run, Renaming &names);
  void makeGraph(ChangeSet &set) const;
  double search(unsigned set, int64_t bytes);

  MeshAttr mesh;
  const cost::PlacementCost &price;
  cost::PlacementSearch placements;
  llvm::DenseMap<std::pair<DimShardingAttr, DimShardingAttr>, std::unique_ptr<Change>> changes;
  std::vector<ChangeSet> sets;
  llvm::DenseMap<uint64_t, unsigned> setOf, numberOfSums; ///< by a set and what is added to it; by sums
  llvm::DenseMap<std::pair<unsigned, int64_t>, double> costs;
  size_t keptNodes = 0; ///< of all graphs

  /// What happens to a run of factors, by id: of each its size, the number of axes before and these, the
  /// number after and these. Null of changes that are several runs.
  std::vector<const std::vector<int64_t> *> wordsOf{nullptr};
  std::map<std::vector<int64_t>, unsigned> idOfWords;
  std::vector<llvm::SmallVector<unsigned, 2>> runsOf = std::vector<llvm::SmallVector<unsigned, 2>>(1);
  std::map<std::vector<unsigned>, unsigned> idOfRuns;
  /// By axis the first that is like it: moves over either cost the same.
  llvm::SmallVector<unsigned, 16> firstAlike;
  bool hasAlikeAxes = false;
  /// Of a run, by id: a number of its words without the names of alike axes, and the axes in their order.
  struct Shape {
    unsigned number = 0;
    llvm::SmallVector<unsigned, 4> axes;
  };
  std::vector<Shape> shapes = std::vector<Shape>(1);
  std::map<std::vector<int64_t>, unsigned> numberOfShape;
  std::unordered_map<uint64_t, unsigned> renamedIds; ///< by run and the names of its axes, in 5 bits each
};

} // namespace colossal::dist

#endif // COLOSSAL_LIB_PARTITION_CHANGECOSTS_H
