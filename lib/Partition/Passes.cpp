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
  void runOnOperation() override {
    if (failed(partition(getOperation())))
      signalPassFailure();
  }
};
} // namespace

std::unique_ptr<Pass> createPartitionPass() {
  return std::make_unique<PartitionPass>();
}
void registerPasses() {
  registerPartitionPasses();
}

} // namespace colossal::partition
