// The one reader of factor graphs: operations of the IR become factors, work and bytes, repeated blocks
// become one kind of unit.
#ifndef COLOSSAL_FACTORGRAPH_READER_H
#define COLOSSAL_FACTORGRAPH_READER_H

#include "colossal/FactorGraph/FactorGraph.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace mlir {
class Operation;
namespace func {
class FuncOp;
} // namespace func
} // namespace mlir

namespace colossal::factors {

/// A graph, and where it leads back to: `operations[id]`, of the first of the functions that were read.
struct Reading {
  FactorGraph graph;
  std::vector<mlir::Operation *> operations;
};

/// The same model imported for `fewBatch` and `manyBatch` sequences: what grows between the two grows with
/// the microbatch, the rest does not. None, with a diagnostic, where the two differ in more than sizes,
/// where a size grows in another way, or where no operation depends on both inputs and parameters.
///
/// A model whose first output is made by a contraction gets the mean cross-entropy over its last dimension as
/// its loss; other outputs are taken to be, or to lead to, the loss.
std::optional<Reading> readFactorGraph(mlir::func::FuncOp few, std::int64_t fewBatch, mlir::func::FuncOp many,
                                       std::int64_t manyBatch);

} // namespace colossal::factors

#endif // COLOSSAL_FACTORGRAPH_READER_H
