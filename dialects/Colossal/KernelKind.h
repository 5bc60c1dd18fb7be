//===- KernelKind.h - what an op is to the kernels that compute it ----------===//
//
// Ops say here how they may stand in a kernel together with others, so that whoever groups ops or generates
// kernels switches over no names. Nothing of it changes a result.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_KERNELKIND_H
#define COLOSSAL_DIALECTS_COLOSSAL_KERNELKIND_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>

namespace colossal {

enum class KernelKind {
  Source,      ///< computes nothing: a constant or a parameter
  Movement,    ///< the operand in another shape or order, which strides can mostly say
  Element,     ///< element by element, each pulled by its index
  Row,         ///< statistics of rows, then their elements
  Tile,        ///< elements that depend on one another: the op emits whole tiles (TileEmitter.h)
  Padding,     ///< a border of zeros around the operand, which is computed into its place (kRoomAttrName)
  Contraction, ///< the rest are routines: a kernel or a library call of their own
  Convolution,
  Attention
};

/// On a pad: its result is a storage of its own with the border filled, and room inside for the operand,
/// which producers write there at once.
constexpr llvm::StringLiteral kRoomAttrName = "schedule.room";

/// What of the first operand's elements a result holds, if it holds nothing else.
enum class Forwarding {
  None, ///< it is computed
  Some, ///< some of them
  All   ///< each, at least once
};

/// The dimensions over which an op's row statistics run: those of `shape`, the shape of its first operand,
/// where `reduced` holds.
struct RowSpace {
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<bool> reduced;
};

/// Where the elements of a tensor lie, in elements: that of index i at offset + sum of i[d] * strides[d].
struct ElementPlaces {
  int64_t offset = 0;
  llvm::SmallVector<int64_t> strides;
};

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_KERNELKIND_H
