// Merging of strided dimensions, block copies, and the pieces of an EXCHANGE.
#include "runtime/comm/Blocks.h"

#include "runtime/comm/Reduce.h"

#include <algorithm>

namespace colossal::runtime {

StridedBlock::StridedBlock(const std::vector<uint64_t> &sizes, const std::vector<uint64_t> &firstStrides,
                           const std::vector<uint64_t> &secondStrides) {
  for (uint64_t size : sizes)
    total *= size;
  if (total == 0)
    return;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1)
      continue;
    Dim dim = {sizes[d], firstStrides[d], secondStrides[d]};
    if (dims.empty() && dim.first == run && dim.second == run) {
      run *= dim.size;
    } else if (!dims.empty() && dim.first == dims.back().first * dims.back().size &&
               dim.second == dims.back().second * dims.back().size) {
      dims.back().size *= dim.size;
    } else {
      dims.push_back(dim);
    }
  }
  std::reverse(dims.begin(), dims.end());
}

std::vector<uint64_t> denseStrides(const std::vector<uint64_t> &sizes) {
  std::vector<uint64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;)
    strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

void copyBlock(const StridedBlock &block, const std::byte *first, std::byte *second, uint64_t elementBytes) {
  block.forRows(0, block.elements(), [&](uint64_t from, uint64_t to, uint64_t, uint64_t length) {
    std::memcpy(second + to * elementBytes, first + from * elementBytes, length * elementBytes);
  });
}

std::vector<WindowPiece> windowPieces(const CollectiveCall::Window &window, uint32_t receiver) {
  std::vector<WindowPiece> pieces;
  const int64_t begin = window.dstStart[receiver], end = begin + static_cast<int64_t>(window.dstExtent);
  const auto members = static_cast<int64_t>(window.srcStart.size());
  for (int64_t place = begin; place < end;) {
    // The first member that holds this place gives it, up to where an earlier member begins.
    int64_t holder = -1, stop = end;
    for (int64_t member = 0; member < members; ++member) {
      int64_t from = window.srcStart[member], until = from + window.srcValid[member];
      if (from <= place && place < until) {
        holder = member;
        stop = std::min(stop, until);
        break;
      }
      if (from > place && until > from)
        stop = std::min(stop, from);
    }
    pieces.push_back({holder, holder < 0 ? 0 : place - window.srcStart[holder], place - begin, stop - place});
    place = stop;
  }
  return pieces;
}

void fillWindow(const CollectiveCall::Window &window, ElementType type, std::byte *dst, int64_t place,
                int64_t length) {
  for (uint64_t outer = 0; outer < window.outer; ++outer)
    fillElements(type, window.fill,
                 dst + (outer * window.dstExtent + static_cast<uint64_t>(place)) * window.inner *
                           elementSize(type),
                 static_cast<uint64_t>(length) * window.inner);
}

} // namespace colossal::runtime
