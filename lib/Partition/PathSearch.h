//===- PathSearch.h - the cheapest moves between two layouts ----------------===//
//
// Dijkstra's algorithm over placements of mesh axes on the common factors of two layouts. A state is a few
// words and a step does not allocate; only what is on the path becomes moves, which carry all that emission
// needs.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_PARTITION_PATHSEARCH_H
#define COLOSSAL_LIB_PARTITION_PATHSEARCH_H

#include "colossal/Partition/Resharding.h"

#include <array>
#include <queue>
#include <vector>

namespace colossal::dist {

/// A factor of a dimension, and the axes that split it, outermost first.
struct ShardedFactor {
  int64_t size;
  llvm::SmallVector<unsigned, 2> axes;
  bool operator==(const ShardedFactor &other) const { return size == other.size && axes == other.axes; }
};
using Dim = llvm::SmallVector<ShardedFactor, 4>; ///< outermost first

/// A layout while axes move: the factors stay, their axes change.
struct State {
  llvm::SmallVector<Dim, 4> dims;
  llvm::SmallVector<unsigned, 2> partial;
};

/// Where each axis is, one word an axis: on no factor, in the partial sums, or on a factor (numbered over all
/// dimensions) behind `depth` other axes. Of fixed size, so that it is copied and compared in a few
/// instructions.
class Placement {
public:
  static constexpr unsigned kMaxAxes = 32;
  static constexpr uint16_t kUnused = 0xffff, kPartial = 0xfffe, kMaxDepth = kMaxAxes;

  Placement() { words.fill(kUnused); }
  void put(unsigned axis, unsigned place, unsigned depth) { words[axis] = place * kMaxDepth + depth; }
  void setPartial(unsigned axis) { words[axis] = kPartial; }
  void drop(unsigned axis) { words[axis] = kUnused; }
  bool isUnused(unsigned axis) const { return words[axis] == kUnused; }
  bool isPartial(unsigned axis) const { return words[axis] == kPartial; }
  bool isOnFactor(unsigned axis) const { return words[axis] < kPartial; }
  unsigned placeOf(unsigned axis) const { return words[axis] / kMaxDepth; }
  unsigned depthOf(unsigned axis) const { return words[axis] % kMaxDepth; }
  size_t hash(unsigned axes) const {
    uint64_t value = 0;
    for (unsigned axis = 0; axis < axes; ++axis)
      value = (value ^ words[axis]) * 0x9e3779b97f4a7c15;
    return value >> 32;
  }
  bool operator==(const Placement &other) const { return words == other.words; }

private:
  std::array<uint16_t, kMaxAxes> words;
};

/// The axes on each place of a placement, outermost first.
class PlacedAxes {
public:
  PlacedAxes(unsigned places, unsigned axes) : width(axes), counts(places), lists(places * axes) {}
  void read(const Placement &placement) {
    llvm::fill(counts, 0);
    for (unsigned axis = 0; axis < width; ++axis)
      if (placement.isOnFactor(axis)) {
        unsigned place = placement.placeOf(axis);
        lists[place * width + placement.depthOf(axis)] = axis;
        ++counts[place];
      }
  }
  llvm::ArrayRef<uint8_t> operator[](unsigned place) const {
    return llvm::ArrayRef(lists).slice(place * width, counts[place]);
  }

private:
  unsigned width;
  llvm::SmallVector<uint8_t, 16> counts;
  llvm::SmallVector<uint8_t, 64> lists;
};

/// One step between placements: what a Move is made of, once it is on the path.
struct Transition {
  MoveKind kind = MoveKind::Slice;
  llvm::SmallVector<unsigned, 2> axes;
  unsigned from = 0, last = 0; ///< all-gather: places that give their last axis; all-to-all: `from`
  unsigned to = 0;             ///< the place that takes the axis
};

/// One search between layouts of common factors. While it walks, a state is a Placement; nothing is allocated
/// per step.
class PathSearch {
public:
  PathSearch(MeshAttr mesh, const CollectiveCost &cost, const State &to, ReductionKind reduction,
             double elementBytes);
  std::optional<ReshardPath> run(const State &from);
  /// The cost of the path alone; infinity where there is none.
  double runForCost(const State &from);

private:
  struct Visit {
    Placement placement;
    double cost, bytes;
    int previous; ///< index of the visit it came from
    Transition step;
  };

  MeshAttr mesh;
  const CollectiveCost &cost;
  State to;
  ReductionKind reduction;
  double elementBytes; ///< or more, where factors that do not change are left out of the states
  llvm::SmallVector<std::pair<unsigned, unsigned>> places; ///< dimension and factor of each place
  llvm::SmallVector<int64_t> sizes;                        ///< of each place
  llvm::SmallVector<int64_t, 4> axisSizes;
  unsigned axes;
  Placement goal;
  PlacedAxes wanted, placed; ///< of the goal, and of the placement that is expanded
  std::vector<Visit> visits;
  std::vector<std::pair<Placement, double>> best; ///< the least cost known of each placement
  std::vector<int> slots;                         ///< of `best` by hash, -1 where free; at least half are
  std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>> queue;
  int current = -1;

  /// The index of the visit that reaches the goal, or -1.
  int walk(const State &from);
  double &getBest(const Placement &placement);
  Placement encode(const State &state) const;
  double getBytes(const Placement &placement) const;
  /// Does `place`, of the placement that is expanded, hold the same axes as in the goal?
  bool isAsWanted(unsigned place) const { return placed[place] == wanted[place]; }
  /// The axis that the target has next on `place`, or -1.
  int getNextAxis(unsigned place) const;
  void expand();
  void push(const Placement &next, Transition step);
  void gather(unsigned first, unsigned last);

  // The path as moves.
  llvm::SmallVector<int64_t, 4> getShape(const State &state) const;
  Move apply(State &state, const Transition &step) const;
  int64_t localSize(const ShardedFactor &place) const { return getLocalSize(place.size, place.axes, mesh); }
};

} // namespace colossal::dist

#endif // COLOSSAL_LIB_PARTITION_PATHSEARCH_H
