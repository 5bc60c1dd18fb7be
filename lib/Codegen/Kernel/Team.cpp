// Sizes that decide the width of indices.
#include "colossal/Codegen/Kernel/Team.h"

using namespace colossal::kernel;

int64_t colossal::kernel::largestOffset(llvm::ArrayRef<BufferSpec> buffers) {
  int64_t largest = 0;
  for (const BufferSpec &buffer : buffers) {
    int64_t offset = 0, elements = 1;
    for (auto [d, size] : llvm::enumerate(buffer.shape)) {
      elements *= size;
      if (!buffer.strides.empty())
        offset += std::max<int64_t>(size - 1, 0) * std::abs(buffer.strides[d]);
    }
    largest = std::max({largest, offset, elements});
  }
  return largest;
}
