// Roofline and collectives. Neighbour: CostModel.h has the formulas.
#include "colossal/Cost/CostModel.h"

#include <algorithm>
#include <cmath>

namespace colossal::cost {

const char *toString(Collective kind) {
  switch (kind) {
  case Collective::AllReduce:
    return "all-reduce";
  case Collective::AllGather:
    return "all-gather";
  case Collective::ReduceScatter:
    return "reduce-scatter";
  case Collective::AllToAll:
    return "all-to-all";
  case Collective::Broadcast:
    return "broadcast";
  case Collective::Permute:
    return "permute";
  }
  return "";
}

double CostModel::seconds(const Work &work) const {
  const Device &device = description.device;
  double compute = work.flops / (device.flops(work.type) * device.computeEfficiency);
  double memory = work.bytes / (device.memoryBandwidth * device.memoryEfficiency);
  return std::max(compute, memory) + work.launches * device.launchSeconds;
}

double CostModel::bytesMoved(Collective kind, double bytes, int size) {
  if (size <= 1)
    return 0;
  double part = bytes * (size - 1) / size;
  switch (kind) {
  case Collective::AllReduce:
    return 2 * part;
  case Collective::AllGather:
  case Collective::ReduceScatter:
  case Collective::AllToAll:
    return part;
  case Collective::Broadcast:
  case Collective::Permute:
    return bytes;
  }
  return 0;
}

double CostModel::seconds(Collective kind, double bytes, const Group &group) const {
  if (group.size <= 1)
    return 0;
  double total = 0;
  std::int64_t unit = 1;    // devices in one unit of the level at hand
  std::int64_t reached = 1; // members of the group inside one such unit
  std::int64_t span = static_cast<std::int64_t>(group.size - 1) * group.stride + 1;
  for (std::size_t k = 0; k < description.levels.size() && reached < group.size; ++k) {
    const Level &level = description.levels[k];
    std::int64_t whole = unit * level.units;
    bool last = k + 1 == description.levels.size() || whole >= span;
    std::int64_t inside = last ? group.size : std::max<std::int64_t>(1, whole / group.stride);
    inside = std::max(reached, std::min<std::int64_t>(inside, group.size));
    std::int64_t n = (inside + reached - 1) / reached;
    std::int64_t active = std::max(1, group.active);
    if (n > 1) {
      // What a device gets of its unit's bandwidth, and of the medium that all units share.
      double share = level.bandwidth / static_cast<double>(std::min(active, unit));
      if (level.sharedBandwidth > 0)
        share = std::min(share, level.sharedBandwidth / static_cast<double>(std::min(active, whole)));
      double steps = std::ceil(std::log2(static_cast<double>(n)));
      double part =
          bytes / static_cast<double>(reached); // what the levels below have left to move per device
      double moved = part * static_cast<double>(n - 1) / static_cast<double>(n) / share;
      switch (kind) {
      case Collective::AllReduce:
        total += 2 * (steps * level.latencySeconds + moved);
        break;
      case Collective::AllGather:
      case Collective::ReduceScatter:
        total += steps * level.latencySeconds + moved;
        break;
      case Collective::AllToAll:
        // Each device sends to every unit directly; the bytes do not shrink inside the levels below.
        total += static_cast<double>(n - 1) * level.latencySeconds +
                 bytes * static_cast<double>(n - 1) / static_cast<double>(n) / share;
        break;
      case Collective::Broadcast:
        total += steps * level.latencySeconds + bytes / share;
        break;
      case Collective::Permute:
        total = level.latencySeconds + bytes / share;
        break;
      }
    }
    reached = inside;
    unit = whole;
  }
  return total;
}

} // namespace colossal::cost
