//===- CudaTarget.h - the target `cuda` -------------------------------------===//
//
// The neutral generators with the threads of a block as their team compute everything but contractions,
// convolutions and attention. Contractions, and convolutions as such, are the vendor's library's, or where it
// cannot a kernel's of their own; convolutions of groups with few channels have kernels. Where it is asked
// for convolutions that are no contractions, and attention, are left to cuDNN. Plans hold PTX, and a cubin
// where an assembler is.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_CUDATARGET_H
#define COLOSSAL_LIB_CODEGEN_CUDA_CUDATARGET_H

#include "BlockTeam.h"
#include "Chip.h"

#include "colossal/Codegen/Target.h"

namespace colossal::nvidia {

/// What plans leave to cuDNN, which has then to be there where they run.
struct CudnnUse {
  bool convolution = false, attention = false;

  /// As it stands behind '+' in a target's spelling: "cudnn-convolution", "cudnn-attention", "cudnn-all" or
  /// "". False of anything else.
  bool parse(llvm::StringRef text);
  std::string spelling() const;
};

class CudaTarget final : public codegen::Target {
public:
  /// For one generation of GPUs, or for several: then plans hold images for each.
  explicit CudaTarget(std::vector<Chip> chips, CudnnUse cudnn = {}) : chips(std::move(chips)), cudnn(cudnn) {}

  llvm::StringRef name() const override { return "cuda"; }
  std::string spelling() const override {
    return (chips.size() == 1 ? "cuda:" + chips[0].name : "cuda") + cudnn.spelling();
  }
  void prepare(mlir::func::FuncOp function) const override;
  /// What the library does on a contraction's result, and anything behind a convolution of groups.
  codegen::Epilogue epilogueOf(mlir::Operation *routine) const override;
  bool fitsEpilogue(mlir::Operation *routine, llvm::ArrayRef<mlir::Operation *> ops) const override;
  unsigned maxGroupSize() const override { return 48; }
  int64_t alignment() const override { return storageAlignment; }
  std::unique_ptr<codegen::MemoryOrders> createMemoryOrders() const override {
    return std::make_unique<codegen::MemoryOrders>();
  }
  bool sendsWaitForReceivers() const override { return true; } // NCCL's do
  /// As NCCL moves them.
  codegen::CollectiveBlocks collectiveBlocks() const override {
    return codegen::CollectiveBlocks::Contiguous;
  }
  void registerLowerings(schedule::LoweringTable &table) const override;
  const kernel::Team &team() const override { return block; }
  std::unique_ptr<codegen::ImageBuilder> createImages(mlir::MLIRContext &context,
                                                      unsigned threads) const override;

private:
  std::vector<Chip> chips;
  CudnnUse cudnn;
  BlockTeam block{128};
};

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_CUDATARGET_H
