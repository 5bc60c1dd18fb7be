// Moving one tensor from one placement to another over a few axes, at the least cost.
#ifndef COLOSSAL_PLANNER_RESHARDING_H
#define COLOSSAL_PLANNER_RESHARDING_H

#include "colossal/Cost/PlacementSearch.h"
#include "colossal/Planner/BlockPlanner.h"

#include <array>
#include <cstdint>
#include <deque>
#include <tuple>
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

/// Moves on one set of axes, found by cost::PlacementSearch and remembered. Axes on one place follow each
/// other in the mesh's order; a slice costs nothing.
class Resharder {
public:
  Resharder(const cost::Pricing &pricing, const std::vector<TensorAxis> &axes)
      : pricing(pricing), axes(axes) {}

  /// `bytes`: of the whole tensor. Null where `to` is partial on an axis on which `from` is not. `isEven`:
  /// each axis divides what it splits, and so leaves a place also from between others.
  const Move *find(double bytes, const Placement &from, const Placement &to, bool isEven = true) const;
  /// Part of a tensor that a rank holds.
  double share(const Placement &placement) const;
  const std::vector<TensorAxis> &getAxes() const { return axes; }

private:
  std::optional<Move> search(double bytes, const Placement &from, const Placement &to, bool isEven) const;
  /// The sizes of the digits, outermost first, of a place of which each axis that either placement has on it
  /// splits one; empty where there are none.
  std::vector<std::int64_t> findDigits(Code code, const Placement &from, const Placement &to) const;
  /// What a move is made of: a collective for each group of axes that lie next to each other, innermost
  /// first.
  struct Works {
    std::array<cost::CollectiveWork, std::tuple_size_v<Placement>> all;
    std::size_t count = 0;
    const cost::CollectiveWork *begin() const { return all.data(); }
    const cost::CollectiveWork *end() const { return all.data() + count; }
  };
  Works getWork(cost::MoveKind kind, double bytes, const cost::AxisList &over) const;

  const cost::Pricing &pricing;
  std::vector<TensorAxis> axes;
  /// A search asks for the same few thousand moves millions of times: a table that is probed place after
  /// place, of moves that stay where they are.
  struct Asked {
    double bytes = -1;
    std::uint64_t from = 0, to = 0; ///< packed; the first bit of `from`: whether it is even
  };
  struct Entry {
    Asked asked;
    const Move *move = nullptr; ///< null: there is none
  };
  static_assert(sizeof(Placement) < sizeof(std::uint64_t),
                "a placement is packed into one number, with a bit");
  static std::uint64_t pack(const Placement &placement);
  static std::size_t mix(const Asked &asked);
  void grow() const;
  mutable std::vector<Entry> table;
  mutable std::size_t entries = 0;
  mutable std::deque<Move> moves;
};

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_RESHARDING_H
