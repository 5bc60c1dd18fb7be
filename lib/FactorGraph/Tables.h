// Tables of a program, as searches see them: what it computes when it is loaded, and where units read that.
#ifndef COLOSSAL_LIB_FACTORGRAPH_TABLES_H
#define COLOSSAL_LIB_FACTORGRAPH_TABLES_H

#include "UnitCut.h"

#include "colossal/FactorGraph/FactorGraph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace colossal::factors {

/// A model's function, imported at a batch.
struct AtBatch {
  mlir::func::FuncOp function;
  int64_t batch;
};

/// Fills in the tables of `graph`, and where its kinds read them: of constants and of parameters that are not
/// `isTrained`. `few` and `many` are the same model; `cut` is of `few`, and `graph` has its kinds.
void addTables(AtBatch few, AtBatch many, const UnitCut &cut,
               llvm::function_ref<bool(llvm::StringRef parameter)> isTrained, FactorGraph &graph);

} // namespace colossal::factors

#endif // COLOSSAL_LIB_FACTORGRAPH_TABLES_H
