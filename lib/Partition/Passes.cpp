//===- Passes.cpp - the partition phase as a pass ---------------------------===//
#include "colossal/Partition/Partition.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/Stages.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace colossal::partition {
#define GEN_PASS_DEF_PARTITION
#define GEN_PASS_REGISTRATION
#include "colossal/Partition/Passes.h.inc"

namespace {
struct PartitionPass : colossal::partition::impl::PartitionBase<PartitionPass> {
  explicit PartitionPass(CostOf cost) : cost(std::move(cost)) {}

  void runOnOperation() override {
    for (ModuleOp stage : dist::getStages(getOperation()))
      if (failed(partitionStage(stage)))
        return signalPassFailure();
  }

  LogicalResult partitionStage(ModuleOp stage) {
    auto refinementOf = [&](func::FuncOp function) -> const dist::RefinementAnalysis & {
      return getAnalysisManager().nest(function).getAnalysis<dist::RefinementAnalysis, func::FuncOp>();
    };
    if (!cost)
      return partition(stage, nullptr, refinementOf);
    FailureOr<dist::CollectiveCost> collectives = cost(stage);
    if (failed(collectives))
      return failure();
    dist::Resharder resharder(dist::getMesh(stage), *collectives);
    return partition(stage, &resharder, refinementOf);
  }

  CostOf cost;
};
} // namespace

std::unique_ptr<Pass> createPartitionPass(CostOf cost) {
  return std::make_unique<PartitionPass>(std::move(cost));
}
void registerPasses() {
  registerPartitionPasses();
}

} // namespace colossal::partition
