//===- CpuTarget.h - the target `cpu` ---------------------------------------===//
#ifndef COLOSSAL_LIB_CODEGEN_CPU_LOWERING_CPUTARGET_H
#define COLOSSAL_LIB_CODEGEN_CPU_LOWERING_CPUTARGET_H

#include "colossal/Codegen/CPU/Processor.h"
#include "colossal/Codegen/CPU/SingleThread.h"
#include "colossal/Codegen/Target.h"

namespace colossal::cpu {

class CpuTarget final : public codegen::Target {
public:
  /// `named`: the processor's name as it was given; empty for this host.
  CpuTarget(Processor processor, llvm::StringRef named)
      : machine(std::move(processor)), thread(machine), given(named) {}

  const Processor &processor() const { return machine; }

  llvm::StringRef name() const override { return "cpu"; }
  std::string spelling() const override { return given.empty() ? "cpu" : "cpu:" + given; }
  void prepare(mlir::func::FuncOp function) const override;
  codegen::Epilogue epilogueOf(mlir::Operation *routine) const override;
  bool fitsEpilogue(mlir::Operation *routine, llvm::ArrayRef<mlir::Operation *> ops) const override;
  /// More cost registers and compile time, and save nothing.
  unsigned maxGroupSize() const override { return 48; }
  /// A line of the caches.
  int64_t alignment() const override { return 64; }
  bool addsProductsInPlace() const override { return true; }
  codegen::ConvolutionBytes convolutionBytes(mlir::Type element, int64_t batch, int64_t inputChannels,
                                             int64_t outputChannels, int64_t height,
                                             int64_t width) const override;
  int64_t copiedBytes(mlir::Type element, int64_t rows, int64_t columns, int64_t depth) const override;
  std::unique_ptr<codegen::MemoryOrders> createMemoryOrders() const override;
  codegen::CollectiveBlocks collectiveBlocks() const override { return codegen::CollectiveBlocks::Strided; }
  void registerLowerings(schedule::LoweringTable &table) const override;
  const kernel::Team &team() const override { return thread; }
  std::unique_ptr<codegen::ImageBuilder> createImages(mlir::MLIRContext &context,
                                                      unsigned threads) const override;

private:
  Processor machine;
  SingleThread thread;
  std::string given;
};

} // namespace colossal::cpu

#endif // COLOSSAL_LIB_CODEGEN_CPU_LOWERING_CPUTARGET_H
