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

def LossParts : Pass<"colossal-loss-parts", "::mlir::ModuleOp"> {
  let summary = "Compute the loss of a training step for some rows at a time";
  let description = [{
    Looks in a partitioned step for a product whose result is large and of which each row is used for itself until products
    read it again: logits, of which a loss and its gradient are made. Where a rank's part of it is larger than
    `factors::lossParts` has it (64 MiB, and 1,024 rows), all of that is done part by part, and what is a sum over rows is added
    up. No more than a part's logits are ever in memory. No product is computed twice.
  }];
  let constructor = "::colossal::partition::createLossPartsPass()";
  let dependentDialects = ["::mlir::shard::ShardDialect", "::colossal::dist::DistDialect"];
}

#endif // COLOSSAL_PARTITION_PASSES_TD
