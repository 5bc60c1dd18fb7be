// Cheapest moves between placements.
#include "Resharding.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace colossal::planner {

double Resharder::share(const Placement &placement) const {
  double part = 1;
  for (std::size_t a = 0; a < axes.size(); ++a)
    if (placement[a] > 0)
      part /= axes[a].size;
  return part;
}

std::uint64_t Resharder::pack(const Placement &placement) {
  std::uint64_t packed = 0;
  for (Code code : placement)
    packed = packed << 16 | static_cast<std::uint16_t>(code);
  return packed;
}

std::size_t Resharder::mix(const Asked &asked) {
  std::uint64_t bits;
  std::memcpy(&bits, &asked.bytes, sizeof bits);
  std::uint64_t mixed =
      bits * 0xff51afd7ed558ccdull + asked.from * 0x9e3779b97f4a7c15ull + asked.to * 0xc2b2ae3d27d4eb4full;
  mixed ^= mixed >> 32;
  mixed *= 0xff51afd7ed558ccdull;
  return mixed ^ mixed >> 32;
}

void Resharder::grow() const {
  std::vector<Entry> before(std::max<std::size_t>(256, 2 * table.size()));
  before.swap(table);
  const std::size_t mask = table.size() - 1;
  for (const Entry &entry : before)
    if (entry.asked.bytes >= 0) {
      std::size_t at = mix(entry.asked) & mask;
      while (table[at].asked.bytes >= 0)
        at = (at + 1) & mask;
      table[at] = entry;
    }
}

const Move *Resharder::find(double bytes, const Placement &from, const Placement &to) const {
  static const Move nothing;
  const Asked asked{bytes, pack(from), pack(to)};
  if (asked.from == asked.to)
    return &nothing;
  if (2 * entries >= table.size())
    grow();
  const std::size_t mask = table.size() - 1;
  std::size_t at = mix(asked) & mask;
  for (; table[at].asked.bytes >= 0; at = (at + 1) & mask)
    if (table[at].asked.bytes == bytes && table[at].asked.from == asked.from &&
        table[at].asked.to == asked.to)
      return table[at].move;
  const Move *move = nullptr;
  if (std::optional<Move> found = search(bytes, from, to))
    move = &moves.emplace_back(std::move(*found));
  table[at] = {asked, move};
  ++entries;
  return move;
}

Resharder::Works Resharder::getWork(cost::MoveKind kind, double bytes, const cost::AxisList &over) const {
  Works works; // searches ask for millions: not a list on the heap
  auto add = [&](cost::Collective collective, bool shrinks) {
    for (std::size_t axis = axes.size(); axis-- > 0;) {
      if (std::find(over.begin(), over.end(), axis) == over.end())
        continue;
      const cost::Group &group = axes[axis].group;
      cost::CollectiveWork *before = works.count ? &works.all[works.count - 1] : nullptr;
      if (before && before->group.stride * before->group.size == group.stride)
        before->group.size *= group.size;
      else
        works.all[works.count++] = {collective, 0, group, 1};
    }
    for (std::size_t i = 0; i < works.count; ++i) {
      works.all[i].bytes = bytes;
      bytes /= shrinks ? works.all[i].group.size : 1;
    }
  };
  switch (kind) {
  case cost::MoveKind::AllGather: add(cost::Collective::AllGather, true); break;
  case cost::MoveKind::AllReduce: add(cost::Collective::AllReduce, true); break;
  case cost::MoveKind::ReduceScatter: add(cost::Collective::ReduceScatter, true); break;
  case cost::MoveKind::AllToAll: add(cost::Collective::AllToAll, false); break;
  case cost::MoveKind::Slice:
  case cost::MoveKind::KeepFirst:
  case cost::MoveKind::LoopSlice: break;
  }
  return works;
}

std::optional<Move> Resharder::search(double bytes, const Placement &from, const Placement &to) const {
  const std::size_t count = axes.size();
  for (std::size_t a = 0; a < count; ++a)
    if (to[a] == kPartial && from[a] != kPartial)
      return std::nullopt;
  // Each place is as large as all axes together, so that any of them divide it.
  std::vector<std::int64_t> sizes;
  std::int64_t all = 1;
  for (const TensorAxis &axis : axes) {
    sizes.push_back(axis.size);
    all *= axis.size;
  }
  std::vector<Code> codes;
  std::vector<cost::PlacementGraph::Place> places;
  auto encode = [&](const Placement &placement) {
    cost::Placement encoded;
    for (std::size_t a = 0; a < count; ++a) {
      const Code code = placement[a];
      if (code == kPartial)
        encoded.setPartial(static_cast<unsigned>(a));
      if (code <= kWhole)
        continue;
      auto at = static_cast<std::size_t>(std::find(codes.begin(), codes.end(), code) - codes.begin());
      if (at == codes.size()) {
        codes.push_back(code);
        places.push_back({all, static_cast<unsigned>(at)}); // dimensions of their own
        bytes /= static_cast<double>(all);
      }
      auto depth = std::count(placement.begin(), placement.begin() + static_cast<std::ptrdiff_t>(a), code);
      encoded.put(static_cast<unsigned>(a), static_cast<unsigned>(at), static_cast<unsigned>(depth));
    }
    return encoded;
  };
  const cost::Placement start = encode(from), goal = encode(to);
  const cost::PlacementCost price = [this](cost::MoveKind kind, double local, const cost::AxisList &over) {
    double seconds = 0;
    for (const cost::CollectiveWork &work : getWork(kind, local, over))
      seconds += pricing.seconds(work);
    return seconds;
  };
  cost::PlacementGraph graph(std::move(places), std::move(sizes), goal);
  cost::PlacementSearch search;
  Move move;
  move.seconds = search.run(graph, graph.getNode(start), bytes, price);
  if (std::isinf(move.seconds))
    return std::nullopt;
  for (const cost::PlacementSearch::Step &step : search.getSteps(graph))
    for (const cost::CollectiveWork &work : getWork(step.kind, step.bytes, step.axes))
      move.collectives.push_back(work);
  return move;
}

} // namespace colossal::planner
