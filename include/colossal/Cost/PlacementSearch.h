// The cheapest collectives that bring a tensor from one layout over the axes of a mesh to another: what all
// searches over layouts, and the partitioner, ask. Dijkstra's algorithm over placements of the axes on the
// factors that both layouts can be seen as. Which placements lie between two and what leads from one to the
// next is the same whatever the bytes, so that a graph of them serves any number of searches. No IR.
#ifndef COLOSSAL_COST_PLACEMENTSEARCH_H
#define COLOSSAL_COST_PLACEMENTSEARCH_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace colossal::cost {

/// Slice, KeepFirst and LoopSlice move nothing between ranks. KeepFirst makes a whole value the addend of a
/// partial sum: kept on the ranks whose coordinates on the axes are 0, zero elsewhere. LoopSlice takes the
/// part that a turn of the mesh's loop works on, which is a view; no search finds it.
enum class MoveKind { AllGather, AllReduce, ReduceScatter, AllToAll, Slice, KeepFirst, LoopSlice };
/// Do ranks send anything in it?
inline bool isCollective(MoveKind kind) {
  return kind != MoveKind::Slice && kind != MoveKind::KeepFirst && kind != MoveKind::LoopSlice;
}
/// Is it the result whose bytes make the cost of a move? That of an all-gather, and of what moves nothing
/// between ranks; of others it is the input.
inline bool countsResult(MoveKind kind) {
  return kind == MoveKind::AllGather || !isCollective(kind);
}

/// Where each axis is, one word an axis: on no factor, in the partial sums, or on a place (a factor, numbered
/// over all dimensions) behind `depth` other axes. Of fixed size, so that it is copied and compared in a few
/// instructions.
class Placement {
public:
  static constexpr unsigned kMaxAxes = 32;
  static constexpr std::uint16_t kUnused = 0xffff, kPartial = 0xfffe, kMaxDepth = kMaxAxes;

  Placement() { words.fill(kUnused); }
  void put(unsigned axis, unsigned place, unsigned depth) {
    words[axis] = static_cast<std::uint16_t>(place * kMaxDepth + depth);
  }
  void setPartial(unsigned axis) { words[axis] = kPartial; }
  void drop(unsigned axis) { words[axis] = kUnused; }
  bool isUnused(unsigned axis) const { return words[axis] == kUnused; }
  bool isPartial(unsigned axis) const { return words[axis] == kPartial; }
  bool isOnFactor(unsigned axis) const { return words[axis] < kPartial; }
  unsigned placeOf(unsigned axis) const { return words[axis] / kMaxDepth; }
  unsigned depthOf(unsigned axis) const { return words[axis] % kMaxDepth; }
  std::size_t hash(unsigned axes) const {
    std::uint64_t value = 0;
    for (unsigned axis = 0; axis < axes; ++axis)
      value = (value ^ words[axis]) * 0x9e3779b97f4a7c15;
    return value >> 32;
  }
  bool isAlike(const Placement &other, unsigned axis) const { return words[axis] == other.words[axis]; }
  friend bool operator==(const Placement &a, const Placement &b) { return a.words == b.words; }

private:
  std::array<std::uint16_t, kMaxAxes> words;
};

/// A few axes, in order.
class AxisList {
public:
  void add(unsigned axis) { axes[count++] = static_cast<std::uint8_t>(axis); }
  std::size_t size() const { return count; }
  unsigned operator[](std::size_t i) const { return axes[i]; }
  const std::uint8_t *begin() const { return axes.data(); }
  const std::uint8_t *end() const { return axes.data() + count; }

private:
  std::array<std::uint8_t, Placement::kMaxAxes> axes{};
  std::uint8_t count = 0;
};

/// Seconds (or any other unit) of a move over the group of `axes`; `bytes` of one rank's tensor, which of the
/// two countsResult() says.
using PlacementCost = std::function<double(MoveKind kind, double bytes, const AxisList &axes)>;

/// The placements on the ways to one of them, and the steps between, which are made as searches come by.
///
/// Each step gathers, reduces, or brings one axis to where the target wants it:
///  1. all-gather takes the innermost axis off a place (or the axes of adjacent, fully split places of one
///     dimension at once);
///  2. slice puts an unused axis onto the place where the target has it next;
///  3. all-to-all does both for one axis;
///  4. all-reduce ends a partial axis (or all of them), reduce-scatter leaves it on a place as slice would
///     (or several on adjacent places that they split fully, at once);
///  5. keep-first makes an unused axis a partial one, where the target is a partial sum.
///
/// Of n axes that change there are up to 3^n placements between two. While more than `mostFree` axes are not
/// where they shall be, only the plain next step is made: what leaves fewer bytes comes first (slices, then
/// reduce-scatters), then what moves an axis at once, what makes way for it, all-reduces, and all-gathers
/// last.
class PlacementGraph {
public:
  struct Place {
    std::int64_t size = 1;
    unsigned dim = 0; ///< places of one dimension are neighbours, outermost first
  };
  struct Step {
    MoveKind kind = MoveKind::Slice;
    AxisList axes;
    std::uint16_t from = 0; ///< the place that gives its last axis
    std::uint16_t to = 0;   ///< the place that takes the axis
    std::uint16_t last = 0; ///< of several that do, next to each other: in all-gathers and reduce-scatters
  };
  struct Edge {
    unsigned to = 0; ///< a node
    Step step;
    /// Of one rank's tensor: what is priced of it, as countsResult() says.
    double elements = 0;
  };
  static constexpr unsigned kGoal = 0; ///< its node

  /// Each axis rounds up what it leaves of a place, outer ones first.
  PlacementGraph(std::vector<Place> places, std::vector<std::int64_t> axisSizes, const Placement &goal,
                 unsigned mostFree = Placement::kMaxAxes);
  /// The node of a placement, numbered as they are met.
  unsigned getNode(const Placement &placement);
  std::size_t countNodes() const { return nodes.size(); }
  /// The numbers of the edges that lead on from a node: the first, and one past the last.
  std::pair<unsigned, unsigned> getEdges(unsigned node);
  /// Valid until edges of another node are asked for.
  const Edge &getEdge(unsigned number) const { return edges[number]; }

private:
  /// The axes on each place of a placement, outermost first.
  class PlacedAxes {
  public:
    PlacedAxes(std::size_t places, unsigned axes) : width(axes), counts(places), lists(places * axes) {}
    void read(const Placement &placement);
    unsigned count(std::size_t place) const { return counts[place]; }
    unsigned get(std::size_t place, unsigned depth) const { return lists[place * width + depth]; }
    unsigned last(std::size_t place) const { return get(place, counts[place] - 1); }

  private:
    unsigned width;
    std::vector<std::uint8_t> counts, lists;
  };
  struct Node {
    Placement placement;
    double elements;         ///< of one rank's tensor
    int first = -1, end = 0; ///< of its edges; -1: not made yet
  };

  std::vector<Place> places;
  std::vector<std::int64_t> axisSizes;
  unsigned axes;
  Placement goal;
  unsigned mostFree;
  /// The plainest of the steps that add() was given since it began to be asked for.
  struct Plain {
    std::pair<int, double> rank;
    Placement next;
    Step step;
  };
  bool asksForPlain = false;
  std::optional<Plain> plain;
  PlacedAxes wanted, placed; ///< of the goal, and of the placement that is expanded
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<int> slots;               ///< of `nodes` by hash, -1 where free; at least half are
  unsigned current = 0;                 ///< the node that is expanded
  std::vector<std::int64_t> localSizes; ///< scratch of countElements

  double countElements(const Placement &placement);
  /// Does `place`, of the placement that is expanded, hold the first axes that the goal has there? All: with
  /// `isWhole`.
  bool beginsAsWanted(std::size_t place, bool isWhole) const;
  /// The axis that the target has next on `place`, or -1.
  int getNextAxis(std::size_t place) const;
  /// Of all axes.
  unsigned countMisplaced(const Placement &here) const;
  /// Of a step from the placement that is expanded: what comes first is less.
  std::pair<int, double> getRank(const Step &step) const;
  void expandSums(const Placement &here);
  void expandPlace(const Placement &here, unsigned place);
  void add(const Placement &next, const Step &step);
  void gather(const Placement &here, unsigned first, unsigned last);
};

/// Searches in such graphs, one after the other, with memory that it keeps.
class PlacementSearch {
public:
  struct Step : PlacementGraph::Step {
    double bytes = 0; ///< as in PlacementCost
  };
  /// The cost of the cheapest path from a node to the goal; infinity where there is none. `elementBytes`:
  /// what stands at each element of the places.
  double run(PlacementGraph &graph, unsigned from, double elementBytes, const PlacementCost &cost);
  /// The path that the last run() has found in this graph, in order.
  std::vector<Step> getSteps(const PlacementGraph &graph) const;

private:
  struct Visit {
    unsigned node;
    int previous;  ///< index of the visit it came from
    unsigned edge; ///< by which it came
    double bytes;  ///< that were priced
  };
  std::vector<Visit> visits;
  std::vector<double> best;                  ///< by node the least cost known
  std::vector<std::pair<double, int>> queue; ///< a heap of costs and visits, the least first
  int last = -1;                             ///< the visit that reaches the goal
};

} // namespace colossal::cost

#endif // COLOSSAL_COST_PLACEMENTSEARCH_H
