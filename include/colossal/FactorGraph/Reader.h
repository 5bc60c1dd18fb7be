// The one reader of factor graphs: operations of the IR become factors, work and bytes. For the joint search
// repeated blocks become one kind of unit; for the layout search a function is one unit.
#ifndef COLOSSAL_FACTORGRAPH_READER_H
#define COLOSSAL_FACTORGRAPH_READER_H

#include "colossal/FactorGraph/FactorGraph.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mlir {
class Operation;
namespace func {
class FuncOp;
} // namespace func
} // namespace mlir
namespace colossal::dist {
struct FactorRule;
class RefinementAnalysis;
} // namespace colossal::dist

namespace colossal::factors {

/// A graph, and where it leads back to: `operations[id]`, of the first of the functions that were read.
struct Reading {
  FactorGraph graph;
  std::vector<mlir::Operation *> operations;
};

/// What a loss is computed of.
struct LossOutput {
  unsigned number = 0;    ///< of the model's outputs
  bool hasClasses = true; ///< the output has a number for each class: its gradient is written over it
};

/// The same model imported for `fewBatch` and `manyBatch` sequences: what grows between the two grows with
/// the microbatch, the rest does not. None, with a diagnostic, where the two differ in more than sizes,
/// where a size grows in another way, or where no operation depends on both inputs and parameters.
///
/// A model whose first output is made by a contraction gets the mean cross-entropy over its last dimension as
/// its loss; other outputs are taken to be, or to lead to, the loss. Parameters named in `frozen` stay as
/// they are: they have no gradients, nor has what is made of nothing else that is trained, and units of which
/// other parameters are frozen are of other kinds. With `loss` neither has what does not lead to that output.
std::optional<Reading> readFactorGraph(mlir::func::FuncOp few, std::int64_t fewBatch, mlir::func::FuncOp many,
                                       std::int64_t manyBatch, const std::set<std::string> &frozen = {},
                                       const std::optional<LossOutput> &loss = {});

/// `function` as it stands: all of its operations but parameters in one unit, with their sizes, work and
/// bytes; its arguments are the unit's inputs, what it returns are the outputs. Only what does no work at all
/// is taken for a view. `isRepeated`: is a part of this operation done in each turn of a loop? `parameters`
/// numbers those of one name, over all functions that are read.
Reading readProgram(mlir::func::FuncOp function, const dist::RefinementAnalysis &rules,
                    const std::function<bool(mlir::Operation *)> &isRepeated,
                    std::map<std::string, int> &parameters);

/// One operation of it. Its tensors are numbered operands first, in their order, then results.
Operation readOperation(mlir::Operation *op, const dist::FactorRule &rule);

} // namespace colossal::factors

#endif // COLOSSAL_FACTORGRAPH_READER_H
