// The cheapest collectives that bring a tensor from one layout over the axes of a mesh to another: what all
// searches over layouts, and the partitioner, ask. Dijkstra's algorithm over placements of the axes on the
// factors that both layouts can be seen as. A state is a few words and a step does not allocate. No IR.
#ifndef COLOSSAL_COST_PLACEMENTSEARCH_H
#define COLOSSAL_COST_PLACEMENTSEARCH_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
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

/// One search towards one placement.
///
/// Each step gathers, reduces, or brings one axis to where the target wants it:
///  1. all-gather takes the innermost axis off a place (or the axes of adjacent, fully split places of one
///     dimension at once);
///  2. slice puts an unused axis onto the place where the target has it next;
///  3. all-to-all does both for one axis;
///  4. all-reduce ends a partial axis (or all of them), reduce-scatter leaves it on a place as slice would;
///  5. keep-first makes an unused axis a partial one, where the target is a partial sum.
class PlacementSearch {
public:
  struct Place {
    std::int64_t size = 1;
    unsigned dim = 0; ///< places of one dimension are neighbours, outermost first
  };
  struct Step {
    MoveKind kind = MoveKind::Slice;
    AxisList axes;
    unsigned from = 0, last = 0; ///< all-gather: places that give their last axis; all-to-all: `from`
    unsigned to = 0;             ///< the place that takes the axis
    double bytes = 0;            ///< as in PlacementCost
  };

  /// `elementBytes`: what stands at each element of the places. `cost` must outlive this. Each axis rounds up
  /// what it leaves of a place, outer ones first.
  PlacementSearch(std::vector<Place> places, std::vector<std::int64_t> axisSizes, const Placement &goal,
                  double elementBytes, const PlacementCost &cost);
  /// The cost of the cheapest path; infinity where there is none. To be called once.
  double run(const Placement &from);
  /// The path that run() has found, in order.
  std::vector<Step> getSteps() const;

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
  struct Visit {
    Placement placement;
    double cost, bytes;
    int previous; ///< index of the visit it came from
    Step step;
  };

  const std::vector<Place> places;
  const std::vector<std::int64_t> axisSizes;
  const unsigned axes;
  const Placement goal;
  const double elementBytes;
  const PlacementCost &cost;
  PlacedAxes wanted, placed; ///< of the goal, and of the placement that is expanded
  std::vector<Visit> visits;
  std::vector<std::pair<Placement, double>> best; ///< the least cost known of each placement
  std::vector<int> slots;                         ///< of `best` by hash, -1 where free; at least half are
  std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>> queue;
  int current = -1;
  int last = -1; ///< the visit that reaches the goal

  double &getBest(const Placement &placement);
  double getBytes(const Placement &placement);
  /// Does `place`, of the placement that is expanded, hold the first axes that the goal has there? All: with
  /// `isWhole`.
  bool beginsAsWanted(std::size_t place, bool isWhole) const;
  /// The axis that the target has next on `place`, or -1.
  int getNextAxis(std::size_t place) const;
  void expand();
  void expandSums(const Placement &here);
  void expandPlace(const Placement &here, unsigned place);
  void push(const Placement &next, Step step);
  void gather(unsigned first, unsigned last);
  std::vector<std::int64_t> localSizes; ///< scratch of getBytes
};

} // namespace colossal::cost

#endif // COLOSSAL_COST_PLACEMENTSEARCH_H
