// The team of a CPU: each tile is one thread's, with vectors of the widest registers and masks for what is
// left.
#ifndef COLOSSAL_CODEGEN_CPU_SINGLETHREAD_H
#define COLOSSAL_CODEGEN_CPU_SINGLETHREAD_H

#include "colossal/Codegen/CPU/Processor.h"
#include "colossal/Codegen/Kernel/Team.h"

namespace colossal::cpu {

class SingleThread final : public kernel::Team {
public:
  explicit SingleThread(const Processor &processor) : processor(processor) {}

  const Instructions &instructions() const override { return processor; }
  int64_t members() const override { return 1; }
  Tail tail() const override { return Tail::Masked; }
  /// As many as f32 has; other types take more registers, or part of one.
  unsigned lanes(int64_t extent) const override;
  /// 64: addresses have as many, and narrower ones would be extended.
  unsigned indexBits(int64_t) const override { return 64; }
  int64_t tileElements() const override { return 16384; }
  int64_t scratchLimit() const override { return 96 << 10; }
  const Team &alone() const override { return *this; }
  std::unique_ptr<kernel::Frame> open(mlir::MLIRContext &context, llvm::ArrayRef<BufferSpec> buffers,
                                      unsigned params, int64_t scratchBytes) const override;

private:
  const Processor &processor;
};

} // namespace colossal::cpu

#endif // COLOSSAL_CODEGEN_CPU_SINGLETHREAD_H
