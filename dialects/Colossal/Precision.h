//===- Precision.h - which types an op may be computed in -------------------===//
//
// What setting the precision of a model (lib/Precision) must know of its ops: what may be read and written in
// 16 bits, and what has to stay in f32. Precision.cpp holds one table of all ops; what is not in it stays in
// f32.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_COLOSSAL_PRECISION_H
#define COLOSSAL_DIALECTS_COLOSSAL_PRECISION_H

#include "mlir/IR/Operation.h"

namespace colossal {

enum class PrecisionRole {
  Product, ///< reads and writes 16 bits, and sums in f32
  Moves,   ///< gives elements of its operands, the greatest of some, or zeros: as they come
  Follows, ///< computes each result in f32 and may read and write 16 bits, where its operands have them
  Wide     ///< in f32, with casts around it
};
PrecisionRole getPrecisionRole(mlir::Operation *op);

/// Whether the operand is read as it is, in whichever float type, whatever the others have: a mask, a table,
/// a scale.
bool isReadAsItIs(mlir::OpOperand &operand);

/// Whether an error in the operand would be one in a result of quite another size, so that it and what it is
/// computed from positions with must not be rounded to 16 bits: angles, masks, tables of cosines.
bool isSensitive(mlir::OpOperand &operand);

/// Whether `op`, which may be null, is a cast from 16 bits to f32, or back.
bool isWidening(mlir::Operation *op);
bool isNarrowing(mlir::Operation *op);

} // namespace colossal

#endif // COLOSSAL_DIALECTS_COLOSSAL_PRECISION_H
