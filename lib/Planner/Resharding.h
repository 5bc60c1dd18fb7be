// Moving one tensor from one placement to another over a few axes, in the cheapest order.
#ifndef COLOSSAL_PLANNER_RESHARDING_H
#define COLOSSAL_PLANNER_RESHARDING_H

#include "colossal/Planner/BlockPlanner.h"

#include <deque>
#include <vector>

namespace colossal::planner {

/// Per axis: whole, partial (a sum over the axis is outstanding), or the number of a place that the axis
/// splits.
using Code = std::int16_t;
constexpr Code kWhole = 0, kPartial = -1;
using Placement = std::array<Code, kMaxAxes>;

struct Move {
  double seconds = 0;
  std::vector<cost::CollectiveWork> collectives;
};

/// Finds moves on one set of axes, and remembers them.
///
/// An axis goes from its code to the wanted one directly (all-gather, all-reduce, reduce-scatter, all-to-all,
/// or a slice, which costs nothing), or by way of whole; axes move one after the other, in any order, each
/// over what the others leave on a rank. Dijkstra over the at most 3^axes states.
class Resharder {
public:
  Resharder(const cost::Pricing &pricing, const std::vector<TensorAxis> &axes)
      : pricing(pricing), axes(axes) {}

  /// `bytes`: of the whole tensor. Null where `to` is partial on an axis on which `from` is not.
  const Move *find(double bytes, const Placement &from, const Placement &to) const;
  /// Part of a tensor that a rank holds.
  double share(const Placement &placement) const;
  const std::vector<TensorAxis> &getAxes() const { return axes; }

private:
  std::optional<Move> search(double bytes, const Placement &from, const Placement &to) const;

  const cost::Pricing &pricing;
  std::vector<TensorAxis> axes;
  /// A search asks for the same few thousand moves millions of times: a table that is probed place after
  /// place, of moves that stay where they are.
  struct Entry {
    double bytes = -1;
    Placement from{}, to{};
    const Move *move = nullptr; ///< null: there is none
  };
  static std::size_t mix(double bytes, const Placement &from, const Placement &to);
  void grow() const;
  mutable std::vector<Entry> table;
  mutable std::size_t entries = 0;
  mutable std::deque<Move> moves;
};

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_RESHARDING_H
