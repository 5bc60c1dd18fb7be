// The team of a GPU: the threads of a block compute a tile together, each an element at a time, so that
// neighbours touch neighbouring elements.
//
// A kernel is   .entry symbol(buffers..., [scratch], params..., tiles)   with a word of 64 bits each and as
// many threads as .maxntid says. Blocks take tiles in turn, whatever their number; a block's scratch begins
// at its number times the scratch's bytes, rounded up to 128.
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_BLOCKTEAM_H
#define COLOSSAL_LIB_CODEGEN_CUDA_BLOCKTEAM_H

#include "colossal/Codegen/Kernel/Team.h"

namespace colossal::nvidia {

/// Name of the entry point until the compiler gives it its symbol, and of the module's attribute that says
/// how many threads a block has.
constexpr llvm::StringLiteral entryName = "kernel", threadsName = "colossal.threads";
/// Name of the module's attribute that says how many blocks are to fit a multiprocessor; without it as many
/// as make 512 threads.
constexpr llvm::StringLiteral residentName = "colossal.resident_blocks";
/// Bytes to which arenas and the storages in them are aligned: what the driver aligns its own allocations to.
constexpr int64_t storageAlignment = 256;

class BlockTeam final : public kernel::Team {
public:
  /// `threads`: 1, or whole warps.
  explicit BlockTeam(int64_t threads);

  const kernel::Instructions &instructions() const override { return own; }
  int64_t members() const override { return threads; }
  Tail tail() const override { return Tail::Scalar; }
  /// What a thread reads at once, where generators find it aligned: as many as leave no thread without work.
  unsigned lanes(int64_t extent) const override {
    unsigned lanes = 1;
    while (lanes < maxLanes && extent % (2 * lanes) == 0 && extent / (2 * lanes) >= threads)
      lanes *= 2;
    return lanes;
  }
  unsigned indexBits(int64_t largest) const override { return largest < INT32_MAX ? 32 : 64; }
  /// A few elements for each thread: many blocks keep a GPU busy.
  int64_t tileElements() const override { return 512; }
  int64_t scratchLimit() const override { return 16 << 10; }
  const Team &alone() const override { return single ? *single : *this; }
  std::unique_ptr<kernel::Frame> open(mlir::MLIRContext &context, llvm::ArrayRef<kernel::BufferSpec> buffers,
                                      unsigned params, int64_t scratchBytes) const override;

private:
  static constexpr unsigned maxLanes = 8; // of 16 bits in 16 bytes
  const kernel::Instructions own{/*fma=*/true, /*halfConversions=*/true, /*bfloatConversion=*/true};
  const int64_t threads;
  std::unique_ptr<BlockTeam> single;
};

/// Loads the dialects that generators use into `context`.
void loadKernelDialects(mlir::MLIRContext &context);

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_BLOCKTEAM_H
