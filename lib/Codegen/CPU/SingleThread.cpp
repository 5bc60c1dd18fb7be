// Frames of the CPU's kernel ABI.
#include "colossal/Codegen/CPU/SingleThread.h"
#include "colossal/Codegen/CPU/KernelFunction.h"
#include "llvm/Support/MathExtras.h"

namespace colossal::cpu {

unsigned SingleThread::lanes(int64_t extent) const {
  return std::min<int64_t>(processor.vectorBytes() / 4, llvm::PowerOf2Ceil(extent));
}

std::unique_ptr<kernel::Frame> SingleThread::open(mlir::MLIRContext &context,
                                                  llvm::ArrayRef<BufferSpec> buffers, unsigned params,
                                                  int64_t scratchBytes) const {
  return std::make_unique<KernelFunction>(context, buffers, params, scratchBytes);
}

} // namespace colossal::cpu
