//===- SplitFusedContractions.h - one contraction for each unequal part ----===//
#ifndef COLOSSAL_LIB_LAYOUT_SPLITFUSEDCONTRACTIONS_H
#define COLOSSAL_LIB_LAYOUT_SPLITFUSEDCONTRACTIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace colossal::layout {

/// Cuts contractions with weights whose columns are read in parts of different sizes only, as an attention's
/// queries, keys and values are where keys have fewer heads:
///
///   %y = contract %x, %w : 64 columns            %wq = slice %w [0, 0] : 32 columns
///   %z = add %y, %bias                     ->    %bq = slice %bias [0]
///   %q = slice %z [0, 0] : 32 columns            %yq = contract %x, %wq
///   %k = slice %z [0, 32] : 16 columns           %q = add %yq, %bq
///   %v = slice %z [0, 48] : 16 columns           ...
///
/// Between the contraction and its parts there may be elementwise ops whose other operands do not depend on
/// inputs, and movements that keep the columns a dimension. What is read otherwise, or in equal parts, stays.
/// With `readsParts` a part of a parameter that has no other reader is a parameter, dist::ParameterPart, in
/// place of a slice; also behind casts and transpositions. O(ops + uses).
void splitFusedContractions(mlir::func::FuncOp function, bool readsParts);

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_SPLITFUSEDCONTRACTIONS_H
