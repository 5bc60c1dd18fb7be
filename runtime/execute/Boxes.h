// A shard's box, resolved for one rank: which elements of a global tensor lie where in the rank's dense
// storage.
#ifndef COLOSSAL_RUNTIME_EXECUTE_BOXES_H
#define COLOSSAL_RUNTIME_EXECUTE_BOXES_H

#include "runtime/comm/Blocks.h"

#include "colossal/Plan/Expr.h"

namespace colossal::runtime {

class ResolvedBox {
public:
  /// The box must have been validated.
  static Status resolve(const plan::Box &box, const std::vector<int64_t> &coordinates,
                        const std::vector<int64_t> &counters, ResolvedBox &resolved);

  uint64_t validElements() const { return block().elements(); }
  /// Valid elements, walked by row: first is the element in the whole tensor, second the element in the
  /// shard.
  StridedBlock block() const { return StridedBlock(valid, globalStrides, localStrides); }
  uint64_t globalOffset() const { return offset; }
  /// Whether the shard has storage beyond its valid elements.
  bool padded() const { return validElements() != localElements; }
  uint64_t localBytes(uint64_t elementBytes) const { return localElements * elementBytes; }

  /// Copies the valid elements of `tensor` (whole) to `shard`, and zeroes the padding.
  void toShard(const std::byte *tensor, std::byte *shard, uint64_t elementBytes) const;
  void fromShard(const std::byte *shard, std::byte *tensor, uint64_t elementBytes) const;
  /// The valid elements of the shard without the padding, row-major.
  std::string pack(const std::byte *shard, uint64_t elementBytes) const;
  void unpack(const std::string &packed, std::byte *tensor, uint64_t elementBytes) const;

  bool sameElements(const ResolvedBox &other) const {
    return offset == other.offset && valid == other.valid && globalStrides == other.globalStrides;
  }

private:
  std::vector<uint64_t> valid, globalStrides, localStrides;
  uint64_t offset = 0, localElements = 1;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_BOXES_H
