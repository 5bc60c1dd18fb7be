// A shard's box, resolved for one rank: which elements of a global tensor lie where in the rank's dense
// storage.
#ifndef COLOSSAL_RUNTIME_EXECUTE_BOXES_H
#define COLOSSAL_RUNTIME_EXECUTE_BOXES_H

#include "runtime/comm/Blocks.h"

#include "colossal/Plan/Expr.h"

namespace colossal::runtime {

/// Elements [begin, end) of a shard's storage: what is at hand of it where it comes in pieces.
struct ShardPart {
  uint64_t begin, end;
};

class ResolvedBox {
public:
  /// The box must have been validated.
  static Status resolve(const plan::Box &box, const plan::MeshPosition &position, const int64_t *values,
                        ResolvedBox &resolved);

  uint64_t validElements() const { return block().elements(); }
  /// Whether the shard has storage beyond its valid elements.
  bool padded() const { return validElements() != localElements; }
  uint64_t localBytes(uint64_t elementBytes) const { return localElements * elementBytes; }

  /// Calls row(first element in the whole tensor, first element in `part`, place among the valid elements,
  /// number of elements) for the valid elements of a part of the shard.
  template <class Row>
  void forRows(ShardPart part, Row row) const {
    block().forRows(validBefore(part.begin), validBefore(part.end),
                    [&](uint64_t from, uint64_t to, uint64_t at, uint64_t length) {
                      row(offset + from, to - part.begin, at, length);
                    });
  }

  /// Copies the valid elements of `tensor` (whole) to a part of the shard that lies at `shard`, and zeroes
  /// its padding.
  void toShard(const std::byte *tensor, std::byte *shard, ShardPart part, uint64_t elementBytes) const;
  void fromShard(const std::byte *shard, ShardPart part, std::byte *tensor, uint64_t elementBytes) const;
  /// The valid elements of the shard without the padding, row-major, validElements() in all; `packed` is
  /// where the first of them goes.
  void pack(const std::byte *shard, ShardPart part, std::byte *packed, uint64_t elementBytes) const;
  void unpack(const std::string &packed, std::byte *tensor, uint64_t elementBytes) const;

  bool sameElements(const ResolvedBox &other) const {
    return offset == other.offset && valid == other.valid && globalStrides == other.globalStrides;
  }

private:
  /// Valid elements: first is the element in the whole tensor, less `offset`, second the element in the
  /// shard.
  StridedBlock block() const { return StridedBlock(valid, globalStrides, localStrides); }
  /// How many valid elements lie before an element of the storage.
  uint64_t validBefore(uint64_t element) const;

  std::vector<uint64_t> valid, globalStrides, localStrides;
  uint64_t offset = 0, localElements = 1;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_BOXES_H
