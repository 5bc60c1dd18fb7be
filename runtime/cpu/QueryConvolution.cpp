// Sizes for the compiler's memory plan.
#include "runtime/cpu/Convolution.h"

#include "colossal/Plan/Plan.pb.h"

#include <algorithm>

namespace colossal::runtime {

Status queryConvolution(const plan::Convolution &convolution, unsigned threads, uint64_t &packedBytes,
                        uint64_t &scratchBytes) {
  const ConvolutionDescriptor descriptor = describeConvolution(convolution);
  std::unique_ptr<ConvolutionRoutine> routine;
  COLOSSAL_RETURN_IF_ERROR(createConvolution(descriptor, threads, routine));
  // A narrower host blocks by 8 channels where this one does by 16, or pads less: 16 covers both.
  auto roundUp = [](int64_t value) { return (value + 15) / 16 * 16; };
  uint64_t padded = descriptor.type == 1 ? 4 : 2;
  padded *= static_cast<uint64_t>(roundUp(descriptor.weight[0]) * roundUp(descriptor.weight[1]));
  for (size_t d = 2; d < descriptor.weight.size(); ++d)
    padded *= static_cast<uint64_t>(descriptor.weight[d]);
  // Depthwise weights are blocked over groups, with one channel each.
  if (descriptor.weight[1] == 1)
    padded /= 16;
  packedBytes = std::max(routine->packedBytes(), padded);
  scratchBytes = routine->scratchBytes();
  return {};
}

} // namespace colossal::runtime
