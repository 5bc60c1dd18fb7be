//===- Passes.cpp - the partition phase as a pass ---------------------------===//
#include "colossal/Partition/Partition.h"

#include "dialects/Colossal/Colossal.h"
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
    if (!cost) {
      if (failed(partition(getOperation())))
        signalPassFailure();
      return;
    }
    FailureOr<dist::CollectiveCost> collectives = cost(getOperation());
    if (failed(collectives))
      return signalPassFailure();
    dist::Resharder resharder(dist::getMesh(getOperation()), *collectives);
    if (failed(partition(getOperation(), &resharder)))
      signalPassFailure();
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
