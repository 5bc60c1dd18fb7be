// Passes of the partition phase.
#ifndef COLOSSAL_PARTITION_PASSES_TD
#define COLOSSAL_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

def Partition : Pass<"colossal-partition", "::mlir::ModuleOp"> {
  let summary = "Turn global tensors with layouts into local tensors with explicit collectives";
  let description = [{
    Reads the module's `dist.mesh`, each op's `dist.assignment` (absent: replicated everywhere) and the `dist.sharding` of
    function arguments and results (absent: replicated). The contract of the result is in Partition.h. Among sequences of
    collectives that do the same it takes the fastest on the machine that the pipeline is for, else the one that sends least.
  }];
  let constructor = "::colossal::partition::createPartitionPass({})";
  let dependentDialects = ["::mlir::shard::ShardDialect", "::mlir::arith::ArithDialect",
                           "::colossal::dist::DistDialect"];
}

#endif // COLOSSAL_PARTITION_PASSES_TD
