//===- ContiguousTarget.h - the CPU, sending only runs of bytes -------------===//
//
// A target as the CPU is, but for collectives, which take no strides: as of devices whose communicators move
// contiguous blocks only. Its plans run on the CPU.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_TEST_PARTITION_CONTIGUOUSTARGET_H
#define COLOSSAL_TEST_PARTITION_CONTIGUOUSTARGET_H

#include "colossal/Codegen/Targets.h"

namespace colossal::test {

class ContiguousTarget final : public codegen::Target {
public:
  llvm::StringRef name() const override { return cpu->name(); }
  std::string spelling() const override { return cpu->spelling(); }
  void prepare(mlir::func::FuncOp function) const override { cpu->prepare(function); }
  codegen::Epilogue epilogueOf(mlir::Operation *routine) const override { return cpu->epilogueOf(routine); }
  bool fitsEpilogue(mlir::Operation *routine, llvm::ArrayRef<mlir::Operation *> ops) const override {
    return cpu->fitsEpilogue(routine, ops);
  }
  unsigned maxGroupSize() const override { return cpu->maxGroupSize(); }
  int64_t alignment() const override { return cpu->alignment(); }
  std::unique_ptr<codegen::MemoryOrders> createMemoryOrders() const override {
    return cpu->createMemoryOrders();
  }
  codegen::CollectiveBlocks collectiveBlocks() const override {
    return codegen::CollectiveBlocks::Contiguous;
  }
  void registerLowerings(schedule::LoweringTable &table) const override { cpu->registerLowerings(table); }
  const kernel::Team &team() const override { return cpu->team(); }
  std::unique_ptr<codegen::ImageBuilder> createImages(mlir::MLIRContext &context,
                                                      unsigned threads) const override {
    return cpu->createImages(context, threads);
  }

private:
  std::shared_ptr<const codegen::Target> cpu = llvm::cantFail(codegen::createTarget("cpu"));
};

} // namespace colossal::test

#endif // COLOSSAL_TEST_PARTITION_CONTIGUOUSTARGET_H
