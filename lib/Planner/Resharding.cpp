// Cheapest moves between placements.
#include "Resharding.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace colossal::planner {

double Resharder::share(const Placement &placement) const {
  double part = 1;
  for (std::size_t a = 0; a < axes.size(); ++a)
    if (placement[a] > 0)
      part /= axes[a].size;
  return part;
}

std::size_t Resharder::mix(double bytes, const Placement &from, const Placement &to) {
  auto pack = [](const Placement &placement) {
    std::uint64_t packed = 0;
    for (Code code : placement)
      packed = packed << 16 | static_cast<std::uint16_t>(code);
    return packed;
  };
  std::uint64_t bits;
  std::memcpy(&bits, &bytes, sizeof bits);
  std::uint64_t mixed =
      bits * 0xff51afd7ed558ccdull + pack(from) * 0x9e3779b97f4a7c15ull + pack(to) * 0xc2b2ae3d27d4eb4full;
  mixed ^= mixed >> 32;
  mixed *= 0xff51afd7ed558ccdull;
  return mixed ^ mixed >> 32;
}

void Resharder::grow() const {
  std::vector<Entry> before(std::max<std::size_t>(256, 2 * table.size()));
  before.swap(table);
  const std::size_t mask = table.size() - 1;
  for (const Entry &entry : before)
    if (entry.bytes >= 0) {
      std::size_t at = mix(entry.bytes, entry.from, entry.to) & mask;
      while (table[at].bytes >= 0)
        at = (at + 1) & mask;
      table[at] = entry;
    }
}

const Move *Resharder::find(double bytes, const Placement &from, const Placement &to) const {
  static const Move nothing;
  if (from == to)
    return &nothing;
  if (2 * entries >= table.size())
    grow();
  const std::size_t mask = table.size() - 1;
  std::size_t at = mix(bytes, from, to) & mask;
  for (; table[at].bytes >= 0; at = (at + 1) & mask)
    if (table[at].bytes == bytes && table[at].from == from && table[at].to == to)
      return table[at].move;
  const Move *move = nullptr;
  if (std::optional<Move> found = search(bytes, from, to))
    move = &moves.emplace_back(std::move(*found));
  table[at] = {bytes, from, to, move};
  ++entries;
  return move;
}

std::optional<Move> Resharder::search(double bytes, const Placement &from, const Placement &to) const {
  const int count = static_cast<int>(axes.size());
  for (int a = 0; a < count; ++a)
    if (to[a] == kPartial && from[a] != kPartial)
      return std::nullopt;
  // States count in base 3: each axis has its old code, is whole, or has its new code.
  int states = 1;
  for (int a = 0; a < count; ++a)
    states *= 3;
  auto decode = [&](int state) {
    Placement placement{};
    for (int a = 0; a < count; ++a, state /= 3)
      placement[a] = state % 3 == 0 ? from[a] : state % 3 == 1 ? kWhole : to[a];
    return placement;
  };
  std::vector<double> seconds(states, std::numeric_limits<double>::infinity());
  std::vector<int> before(states, -1);
  std::vector<std::optional<cost::CollectiveWork>> step(states);
  std::vector<bool> done(states, false);
  seconds[0] = 0;
  for (;;) {
    int state = -1;
    for (int s = 0; s < states; ++s)
      if (!done[s] && seconds[s] < std::numeric_limits<double>::infinity() &&
          (state < 0 || seconds[s] < seconds[state]))
        state = s;
    if (state < 0)
      return std::nullopt;
    done[state] = true;
    Placement at = decode(state);
    if (at == to) {
      Move move;
      move.seconds = seconds[state];
      for (int s = state; before[s] >= 0; s = before[s])
        if (step[s])
          move.collectives.insert(move.collectives.begin(), *step[s]);
      return move;
    }
    double local = bytes * share(at);
    int weight = 1;
    for (int a = 0; a < count; ++a, weight *= 3) {
      int digit = state / weight % 3;
      for (int target = digit + 1; target < 3; ++target) {
        Code next = target == 1 ? kWhole : to[a];
        int reached = state + (target - digit) * weight;
        std::optional<cost::CollectiveWork> work;
        if (next == at[a] || (at[a] == kWhole && next > 0))
          work = std::nullopt;
        else if (next == kPartial)
          continue;
        else if (at[a] == kPartial)
          work = {next == kWhole ? cost::Collective::AllReduce : cost::Collective::ReduceScatter, local,
                  axes[a].group, 1};
        else if (next == kWhole)
          work = {cost::Collective::AllGather, local * axes[a].size, axes[a].group, 1};
        else
          work = {cost::Collective::AllToAll, local, axes[a].group, 1};
        double total = seconds[state] + (work ? pricing.seconds(*work) : 0);
        if (total < seconds[reached]) {
          seconds[reached] = total;
          before[reached] = state;
          step[reached] = work;
        }
      }
    }
  }
}

} // namespace colossal::planner
