//===- LyingOp.h - an op with a deliberately wrong rule ---------------------===//
//
// Stands for another op, computes what that one computes, and tells the partitioner something false about it
// through the same interface. A harness that does not see the lie proves nothing.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_TEST_PARTITION_LYINGOP_H
#define COLOSSAL_TEST_PARTITION_LYINGOP_H

#include "mlir/IR/Operation.h"

namespace colossal::test {

enum class Lie {
  None,
  AllWhole,         ///< nothing can be split (true of no op that the table names, yet never wrong)
  OneStage,         ///< what depends on a whole row is computed from a part of it
  WholeIsParallel,  ///< what depends on a whole row is called independent
  WrongReduction,   ///< sums are joined by max, others by sum
  NoPadding,        ///< anything may stand in the padding
  NoOffset,         ///< shards are not told where they begin
  ExchangedFactors, ///< the first operand's dimensions hold each other's factors, where sizes allow
};

/// Puts an op that lies in the place of `op` (which moves inside it).
void replaceByLyingOp(mlir::Operation *op, Lie lie);

} // namespace colossal::test

#endif // COLOSSAL_TEST_PARTITION_LYINGOP_H
