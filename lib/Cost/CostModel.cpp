// Collectives.
#include "colossal/Cost/CostModel.h"

#include "colossal/Plan/Volume.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>

namespace colossal::cost {

const char *toString(Collective kind) {
  switch (kind) {
  case Collective::AllReduce: return "all-reduce";
  case Collective::AllGather: return "all-gather";
  case Collective::ReduceScatter: return "reduce-scatter";
  case Collective::AllToAll: return "all-to-all";
  case Collective::Broadcast: return "broadcast";
  case Collective::Permute: return "permute";
  }
  return "";
}

struct CostModel::GraphCache {
  std::mutex mutex;
  std::map<std::array<int, 4>, GraphBandwidth> known; // by level, size, stride, active units
};

CostModel::CostModel(Machine machine)
    : description(std::move(machine)), graphs(std::make_shared<GraphCache>()) {}

double CostModel::bytesMoved(Collective kind, double bytes, int size) {
  using plan::meanSentBytes, plan::Pattern;
  switch (kind) {
  case Collective::AllReduce: return meanSentBytes(Pattern::AllReduce, bytes, size);
  case Collective::AllGather: return meanSentBytes(Pattern::AllGather, bytes, size);
  case Collective::ReduceScatter: return meanSentBytes(Pattern::ReduceScatter, bytes, size);
  case Collective::AllToAll: return meanSentBytes(Pattern::AllToAll, bytes, size);
  case Collective::Broadcast: // through a pipeline, each passes on what it gets
  case Collective::Permute: return size > 1 ? bytes : 0;
  }
  return 0;
}

GraphBandwidth CostModel::graphBandwidth(std::size_t index, int size, int stride, int active) const {
  const Level &level = description.levels[index];
  std::array<int, 4> key{static_cast<int>(index), size, stride, active};
  std::lock_guard<std::mutex> lock(graphs->mutex);
  auto [entry, isNew] = graphs->known.try_emplace(key);
  if (!isNew)
    return entry->second;
  GraphBandwidth worst;
  for (int g = 0; g < std::max(1, active / size); ++g) {
    std::vector<int> members;
    for (int m = 0; m < size; ++m)
      members.push_back(g / stride * size * stride + g % stride + m * stride);
    if (members.back() >= level.units && g > 0)
      break;
    for (int &member : members)
      member %= level.units;
    GraphBandwidth own = measureGraph(level.links, level.units, members);
    if (g == 0 || own.ring < worst.ring)
      worst.ring = own.ring, worst.rings = own.rings;
    worst.allToAll = g == 0 ? own.allToAll : std::min(worst.allToAll, own.allToAll);
    worst.neighbour = g == 0 ? own.neighbour : std::min(worst.neighbour, own.neighbour);
  }
  return entry->second = worst;
}

double CostModel::seconds(Collective kind, double bytes, const Group &group) const {
  if (group.size <= 1)
    return 0;
  double total = 0, below = 0;
  std::int64_t unit = 1;    // devices in one unit of the level at hand
  std::int64_t reached = 1; // members of the group inside one such unit
  std::int64_t stride = std::max(1, group.stride);
  std::int64_t span = (group.size - 1) * stride + 1;
  for (std::size_t k = 0; k < description.levels.size() && reached < group.size; ++k) {
    const Level &level = description.levels[k];
    std::int64_t whole = unit * level.units;
    // Where units are no whole number of groups, some groups lie across two of them, and all wait for those.
    std::int64_t block = group.size * stride;
    bool straddles = whole >= span && whole % block != 0 && group.active > whole;
    bool last = k + 1 == description.levels.size() || (whole >= span && !straddles);
    std::int64_t inside =
        last ? group.size : std::max<std::int64_t>(1, (straddles ? std::gcd(whole, block) : whole) / stride);
    inside = std::max(reached, std::min<std::int64_t>(inside, group.size));
    std::int64_t n = (inside + reached - 1) / reached;
    std::int64_t active = std::max(1, group.active);
    below = std::max(below, level.startSeconds);
    if (n > 1) {
      // A collective is launched once, wherever it goes: on its first level it takes no less than further
      // inside.
      double start = total > 0 ? level.startSeconds : below;
      // What a device gets of its unit's bandwidth, and of the medium that all units share.
      double unitBandwidth = level.bandwidth;
      double steps = std::ceil(std::log2(static_cast<double>(n)));
      int rings = 1;
      if (!level.links.empty() && n <= level.units) {
        int apart =
            static_cast<int>(std::min<std::int64_t>(std::max<std::int64_t>(1, stride / unit), level.units));
        int units = static_cast<int>(std::min<std::int64_t>(std::max(n, active / unit), level.units));
        GraphBandwidth graph = graphBandwidth(k, static_cast<int>(n), apart, units);
        rings = std::max(1, graph.rings);
        unitBandwidth = kind == Collective::AllToAll  ? graph.allToAll
                        : kind == Collective::Permute ? graph.neighbour
                                                      : graph.ring;
        steps = static_cast<double>(n - 1);
      }
      double share =
          unitBandwidth / static_cast<double>(std::max<std::int64_t>(std::min(active, unit), level.adapters));
      if (level.sharedBandwidth > 0)
        share = std::min(share, level.sharedBandwidth / static_cast<double>(std::min(active, whole)));
      double others = static_cast<double>(n - 1) / static_cast<double>(n);
      // What the levels below have left to move per device; exchanges do not shrink there.
      bool scatters =
          kind != Collective::AllToAll && kind != Collective::Permute && kind != Collective::Broadcast;
      double part = scatters ? bytes / static_cast<double>(reached) : bytes;
      double factor =
          part / static_cast<double>(n * rings) < level.smallStepBytes ? level.smallStepFactor : 1;
      double pass = level.localBandwidth > 0 ? part / level.localBandwidth : 0;
      switch (kind) {
      case Collective::AllReduce:
        total += start + 2 * (steps * level.latencySeconds + part * others * factor / share) + pass;
        break;
      case Collective::AllGather:
      case Collective::ReduceScatter:
        total += start + steps * level.latencySeconds + part * others * factor / share + pass / 2;
        break;
      case Collective::AllToAll:
        total += start + static_cast<double>(n - 1) * level.latencySeconds + part * others * factor / share;
        break;
      case Collective::Broadcast:
        total += start + steps * level.latencySeconds + part * factor / share;
        break;
      case Collective::Permute: total = below + level.latencySeconds + part * factor / share; break;
      }
    }
    reached = inside;
    unit = whole;
  }
  return total;
}

} // namespace colossal::cost
