// Runs of mesh axes as groups.
#include "colossal/Cost/MeshGroups.h"

#include <algorithm>
#include <functional>

namespace colossal::cost {

std::vector<Group> groupsOf(const std::vector<std::int64_t> &sizes, std::vector<unsigned> axes) {
  std::sort(axes.begin(), axes.end(), std::greater<>());
  std::vector<Group> groups;
  std::int64_t ranks = 1, end = 0; // of the whole mesh; one past the last group's outermost stride
  for (std::int64_t size : sizes)
    ranks *= size;
  for (unsigned axis : axes) {
    if (sizes[axis] == 1)
      continue;
    std::int64_t stride = 1;
    for (std::size_t inner = axis + 1; inner < sizes.size(); ++inner)
      stride *= sizes[inner];
    if (!groups.empty() && stride == end) {
      groups.back().size *= static_cast<int>(sizes[axis]);
    } else {
      groups.push_back({static_cast<int>(sizes[axis]), static_cast<int>(stride), static_cast<int>(ranks)});
    }
    end = stride * sizes[axis];
  }
  return groups;
}

double secondsOver(const CostModel &model, Collective kind, double bytes, const std::vector<Group> &groups) {
  bool shrinks =
      kind == Collective::AllReduce || kind == Collective::AllGather || kind == Collective::ReduceScatter;
  double seconds = 0;
  for (const Group &group : groups) {
    seconds += model.seconds(kind, bytes, group);
    if (shrinks)
      bytes /= group.size;
  }
  return seconds;
}

} // namespace colossal::cost
