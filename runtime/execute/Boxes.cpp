// Boxes resolved, and copies between whole tensors and shards.
#include "runtime/execute/Boxes.h"

namespace colossal::runtime {

Status ResolvedBox::resolve(const plan::Box &box, const std::vector<int64_t> &coordinates,
                            const std::vector<int64_t> &counters, ResolvedBox &resolved) {
  std::vector<uint64_t> global, local, start;
  resolved = ResolvedBox();
  for (const plan::BoxDim &dim : box.dims()) {
    int64_t from, count;
    COLOSSAL_RETURN_IF_ERROR(plan::evaluateExpr(dim.start(), coordinates, counters, from));
    COLOSSAL_RETURN_IF_ERROR(plan::evaluateExpr(dim.valid(), coordinates, counters, count));
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

void ResolvedBox::toShard(const std::byte *tensor, std::byte *shard, uint64_t elementBytes) const {
  if (padded())
    std::memset(shard, 0, localBytes(elementBytes));
  copyBlock(block(), tensor + offset * elementBytes, shard, elementBytes);
}

void ResolvedBox::fromShard(const std::byte *shard, std::byte *tensor, uint64_t elementBytes) const {
  copyBlock(StridedBlock(valid, localStrides, globalStrides), shard, tensor + offset * elementBytes,
            elementBytes);
}

std::string ResolvedBox::pack(const std::byte *shard, uint64_t elementBytes) const {
  std::string packed(validElements() * elementBytes, '\0');
  copyBlock(StridedBlock(valid, localStrides, denseStrides(valid)), shard,
            reinterpret_cast<std::byte *>(packed.data()), elementBytes);
  return packed;
}

void ResolvedBox::unpack(const std::string &packed, std::byte *tensor, uint64_t elementBytes) const {
  copyBlock(StridedBlock(valid, denseStrides(valid), globalStrides),
            reinterpret_cast<const std::byte *>(packed.data()), tensor + offset * elementBytes, elementBytes);
}

} // namespace colossal::runtime
