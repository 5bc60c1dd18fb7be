//===- Loop.h - layouts over a loop axis ------------------------------------===//
//
// A tensor of which each turn of a loop works on a part: its sharding has the loop axis of the mesh on one
// factor, before all others there. So a turn's part is cut further by the axes that ranks lie along, as a
// whole tensor would be.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_DIST_LOOP_H
#define COLOSSAL_DIALECTS_DIST_LOOP_H

#include "dialects/Dist/Dist.h"

#include <optional>

namespace colossal::dist {

/// `mesh` without its loop axis: the axes that ranks lie along.
MeshAttr getRankMesh(MeshAttr mesh);

/// Where the loop axis stands in a sharding: on the factor of `size` of dimension `dim`, of which there are
/// `outer` each in that dimension: factors before it, multiplied.
struct LoopPlace {
  unsigned dim = 0;
  int64_t outer = 1, size = 1;
};
std::optional<LoopPlace> findLoop(ShardingAttr sharding, MeshAttr mesh);

/// Argument attribute of a function that is a part of a cut one: where the batch stands in a tensor
/// (dimension, outer, size). Refinement keeps to it, as what another part does to the tensor is not seen.
inline constexpr llvm::StringLiteral kLoopPlaceAttrName = "dist.loop_place";
mlir::Attribute toAttribute(mlir::MLIRContext *context, LoopPlace place);
/// The place that an argument's attributes name; `attributes` may be null.
std::optional<LoopPlace> getLoopPlace(mlir::DictionaryAttr attributes);

/// A turn's part as a tensor of its own, without the loop axis: `[8:(2,0)]` with a loop of 4 turns along axis
/// 2 is `[2:(0)]`. What has no loop axis stays.
ShardingAttr getTurnSharding(ShardingAttr sharding, MeshAttr mesh);

/// The layout without the loop axis: `[8:(2,0)]` is `[8:(0)]`.
ShardingAttr dropLoop(ShardingAttr sharding, MeshAttr mesh);

/// `sharding`, which has no loop axis, with that axis at `place`. Null where a factor with axes would have to
/// be cut in two.
ShardingAttr addLoop(ShardingAttr sharding, LoopPlace place, MeshAttr mesh);

/// Whether what a rank has of all turns' parts lies as one box of the tensor, with room for padding: not
/// where the parts are uneven and cut further.
bool isBox(ShardingAttr sharding, MeshAttr mesh);

} // namespace colossal::dist

#endif // COLOSSAL_DIALECTS_DIST_LOOP_H
