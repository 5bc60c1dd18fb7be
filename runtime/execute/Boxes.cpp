// Boxes resolved, and copies between whole tensors and shards.
#include "runtime/execute/Boxes.h"

namespace colossal::runtime {

Status ResolvedBox::resolve(const plan::Box &box, const plan::MeshPosition &position, const int64_t *values,
                            ResolvedBox &resolved) {
  std::vector<uint64_t> global, local, start;
  resolved = ResolvedBox();
  for (const plan::BoxDim &dim : box.dims()) {
    int64_t from, count;
    COLOSSAL_RETURN_IF_ERROR(plan::evaluateExpr(dim.start(), position, values, from));
    COLOSSAL_RETURN_IF_ERROR(plan::evaluateExpr(dim.valid(), position, values, count));
    global.push_back(dim.global());
    local.push_back(dim.local());
    start.push_back(count > 0 ? static_cast<uint64_t>(from) : 0);
    resolved.valid.push_back(static_cast<uint64_t>(count));
    resolved.localElements *= dim.local();
  }
  resolved.globalStrides = denseStrides(global);
  resolved.localStrides = denseStrides(local);
  for (size_t d = 0; d < start.size(); ++d)
    resolved.offset += start[d] * resolved.globalStrides[d];
  return {};
}

uint64_t ResolvedBox::validBefore(uint64_t element) const {
  if (element >= localElements)
    return validElements();
  std::vector<uint64_t> inner = denseStrides(valid); // valid elements in one index of each dimension
  uint64_t before = 0;
  for (size_t d = 0; d < valid.size(); ++d) {
    const uint64_t index = element / localStrides[d];
    if (index >= valid[d])
      return before + valid[d] * inner[d];
    before += index * inner[d];
    element %= localStrides[d];
  }
  return before;
}

void ResolvedBox::toShard(const std::byte *tensor, std::byte *shard, ShardPart part,
                          uint64_t elementBytes) const {
  if (padded())
    std::memset(shard, 0, (part.end - part.begin) * elementBytes);
  forRows(part, [&](uint64_t from, uint64_t to, uint64_t, uint64_t length) {
    std::memcpy(shard + to * elementBytes, tensor + from * elementBytes, length * elementBytes);
  });
}

void ResolvedBox::fromShard(const std::byte *shard, ShardPart part, std::byte *tensor,
                            uint64_t elementBytes) const {
  forRows(part, [&](uint64_t to, uint64_t from, uint64_t, uint64_t length) {
    std::memcpy(tensor + to * elementBytes, shard + from * elementBytes, length * elementBytes);
  });
}

void ResolvedBox::pack(const std::byte *shard, ShardPart part, std::byte *packed,
                       uint64_t elementBytes) const {
  forRows(part, [&](uint64_t, uint64_t from, uint64_t at, uint64_t length) {
    std::memcpy(packed + at * elementBytes, shard + from * elementBytes, length * elementBytes);
  });
}

void ResolvedBox::unpack(const std::string &packed, std::byte *tensor, uint64_t elementBytes) const {
  copyBlock(StridedBlock(valid, denseStrides(valid), globalStrides),
            reinterpret_cast<const std::byte *>(packed.data()), tensor + offset * elementBytes, elementBytes);
}

} // namespace colossal::runtime
