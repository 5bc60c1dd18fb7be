//===- ParameterPart.h - parameters that are a box of a tensor of the model -===//
//
// Attribute of an op that is a parameter, of which the file, offset, bytes and data are those of a larger
// tensor of the model: each rank reads its box of this part, and nobody all of the tensor.
//
//   colossal.parameter "w[:,64:96]" {dist.part_of = {name = "w", shape = array<i64: 64, 128>,
//                                                    starts = array<i64: 0, 64>}, ...} : tensor<64x32xf32>
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_DIST_PARAMETERPART_H
#define COLOSSAL_DIALECTS_DIST_PARAMETERPART_H

#include "dialects/Dist/Dist.h"

#include <optional>

namespace colossal::dist {

inline constexpr llvm::StringLiteral kPartOfAttrName = "dist.part_of";

struct ParameterPart {
  mlir::StringAttr name;          ///< of the tensor
  llvm::ArrayRef<int64_t> shape;  ///< of the tensor
  mlir::DenseI64ArrayAttr starts; ///< the part's first element
};
/// None where `parameter` is all of its tensor.
std::optional<ParameterPart> getParameterPart(mlir::Operation *parameter);
void setParameterPart(mlir::Operation *parameter, mlir::StringAttr name, llvm::ArrayRef<int64_t> shape,
                      llvm::ArrayRef<int64_t> starts);

/// Of a part that takes a dimension of `size` elements from `start` on, laid out as `dim` says: how many of
/// its outermost factors are one run in every rank's share, so that this is a strided box of the dimension:
/// what the others make of it divides start and size. None where it is none.
///
///   64 of 128 from 0 on, as [2:x, 4:y, 8]     1: steps of 32 of the dimension
///   16 of 80 from 48 on, as [2:x, 8]          1: steps of 8
///   48 of 80 from 0 on, as [2:x, 3:y, 8]      2: x has one of two, so that x and y have 8 of 48
///   48 of 80 from 0 on, as [2, 3:y, 8]        none: steps of 24, of which 80 has no whole number
std::optional<unsigned> countJoinedFactors(DimShardingAttr dim, int64_t start, int64_t size, MeshAttr mesh);
/// Whether each rank's share of the part is a strided box of the tensor.
bool isBox(ShardingAttr sharding, const ParameterPart &part, MeshAttr mesh);

} // namespace colossal::dist

#endif // COLOSSAL_DIALECTS_DIST_PARAMETERPART_H
