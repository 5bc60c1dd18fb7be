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

const Move *Resharder::find(double bytes, const Placement &from, const Placement &to, bool isEven) const {
  static const Move nothing;
  Asked asked{bytes, pack(from), pack(to)};
  if (asked.from == asked.to)
    return &nothing;
  asked.from |= std::uint64_t{isEven} << 63;
  if (2 * entries >= table.size())
    grow();
  const std::size_t mask = table.size() - 1;
  std::size_t at = mix(asked) & mask;
  for (; table[at].asked.bytes >= 0; at = (at + 1) & mask)
    if (table[at].asked.bytes == bytes && table[at].asked.from == asked.from &&
        table[at].asked.to == asked.to)
      return table[at].move;
  const Move *move = nullptr;
  if (std::optional<Move> found = search(bytes, from, to, isEven))
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

std::vector<std::int64_t> Resharder::findDigits(Code code, const Placement &from, const Placement &to) const {
  std::int64_t all = 1;
  for (const TensorAxis &axis : axes)
    all *= axis.size;
  std::vector<std::int64_t> ends; // what lies outside of the end of each digit
  for (const Placement *placement : {&from, &to}) {
    std::int64_t outer = 1;
    for (std::size_t a = 0; a < axes.size(); ++a)
      if ((*placement)[a] == code)
        ends.push_back(outer *= axes[a].size);
  }
  ends.push_back(all);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<std::int64_t> digits;
  std::int64_t before = 1;
  for (std::int64_t end : ends) {
    if (end % before != 0)
      return {};
    digits.push_back(end / before);
    before = end;
  }
  for (const Placement *placement : {&from, &to}) {
    std::size_t digit = 0;
    for (std::size_t a = 0; a < axes.size(); ++a)
      if ((*placement)[a] == code && axes[a].size != digits[digit++])
        return {};
  }
  return digits;
}

std::optional<Move> Resharder::search(double bytes, const Placement &from, const Placement &to,
                                      bool isEven) const {
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
  struct Split {
    Code code = kWhole;
    unsigned place = 0; // the first of its digits, or the only one
    bool hasDigits = false;
  };
  std::vector<Split> splits;
  std::vector<cost::PlacementGraph::Place> places;
  auto findSplit = [&](Code code) -> const Split & {
    auto at =
        std::find_if(splits.begin(), splits.end(), [&](const Split &split) { return split.code == code; });
    if (at != splits.end())
      return *at;
    std::vector<std::int64_t> digits;
    if (isEven)
      digits = findDigits(code, from, to);
    splits.push_back({code, static_cast<unsigned>(places.size()), !digits.empty()});
    if (digits.empty())
      digits = {all};
    for (std::int64_t digit : digits)
      places.push_back({digit, static_cast<unsigned>(splits.size())}); // dimensions of their own
    bytes /= static_cast<double>(all);
    return splits.back();
  };
  auto encode = [&](const Placement &placement) {
    cost::Placement encoded;
    for (std::size_t a = 0; a < count; ++a) {
      const Code code = placement[a];
      if (code == kPartial)
        encoded.setPartial(static_cast<unsigned>(a));
      if (code <= kWhole)
        continue;
      const Split &split = findSplit(code);
      const auto depth = static_cast<unsigned>(
          std::count(placement.begin(), placement.begin() + static_cast<std::ptrdiff_t>(a), code));
      encoded.put(static_cast<unsigned>(a), split.place + (split.hasDigits ? depth : 0),
                  split.hasDigits ? 0 : depth);
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
