//===- QueryConvolution.cpp - sizes of what only the library lays out -------===//
#include "QueryConvolution.h"

#include "colossal/Plan/Plan.pb.h"
#include "runtime/cpu/Convolution.h"

#include <algorithm>

using namespace colossal;

std::optional<cpu::ConvolutionSizes> cpu::queryConvolution(const plan::Convolution &convolution,
                                                           unsigned threads) {
  const runtime::ConvolutionDescriptor descriptor = runtime::describeConvolution(convolution);
  std::unique_ptr<runtime::ConvolutionRoutine> routine;
  if (!runtime::createConvolution(descriptor, threads, routine).ok())
    return std::nullopt;
  // A narrower host blocks by 8 channels where this one does by 16, or pads less: 16 covers both.
  auto roundUp = [](int64_t value) { return (value + 15) / 16 * 16; };
  uint64_t padded = descriptor.type == 1 ? 4 : 2;
  padded *= static_cast<uint64_t>(roundUp(descriptor.weight[0]) * roundUp(descriptor.weight[1]));
  for (size_t d = 2; d < descriptor.weight.size(); ++d)
    padded *= static_cast<uint64_t>(descriptor.weight[d]);
  // Depthwise weights are blocked over groups, with one channel each.
  if (descriptor.weight[1] == 1)
    padded /= 16;
  return ConvolutionSizes{std::max(routine->packedBytes(), padded), routine->scratchBytes()};
}
