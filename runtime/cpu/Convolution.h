// Convolution by oneDNN: the weight packed in the library's own layout, scratch from the caller, bias,
// residual and activation fused. Compiler and runtime both ask here, so that what is planned is what is
// needed.
#ifndef COLOSSAL_RUNTIME_CPU_CONVOLUTION_H
#define COLOSSAL_RUNTIME_CPU_CONVOLUTION_H

#include "colossal/Plan/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace colossal::plan {
class Convolution;
} // namespace colossal::plan

namespace colossal::runtime {

using plan::Code;
using plan::Status;

/// Plan.proto's Convolution without Protobuf, so that plug-ins need none.
struct ConvolutionDescriptor {
  int type = 0; ///< plan::DataType
  std::vector<int64_t> input, weight, output, inputStrides, outputStrides;
  std::vector<int64_t> strides, dilations, padsBegin, padsEnd;
  int64_t group = 1;
  bool bias = false, residual = false, transposed = false;
  std::string activation, algorithm;
  std::vector<float> activationArgs;
};
ConvolutionDescriptor describeConvolution(const plan::Convolution &convolution);

/// A convolution prepared for a number of threads. Not for several threads at once.
class ConvolutionRoutine {
public:
  virtual ~ConvolutionRoutine() = default;
  virtual uint64_t packedBytes() const = 0;
  virtual uint64_t scratchBytes() const = 0;
  /// Packs a dense weight ([O, C/group, ...], transposed [C, O/group, ...]).
  virtual Status pack(const void *weight, void *packed) = 0;
  /// `bias` is null if there is none; `scratch` has scratchBytes(), aligned to 64.
  virtual Status run(const void *input, const void *packed, const void *bias, void *scratch,
                     void *output) = 0;
};

/// Unsupported where the library has no such convolution (type, algorithm or activation).
Status createConvolution(const ConvolutionDescriptor &descriptor, unsigned threads,
                         std::unique_ptr<ConvolutionRoutine> &routine);

/// Runs body(context, thread, begin, end) over chunks of [0, tiles) on the library's threads, so that
/// launches and library calls of one rank share them.
void runOnLibraryThreads(unsigned threads, int64_t tiles, void (*body)(void *, unsigned, int64_t, int64_t),
                         void *context);

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CPU_CONVOLUTION_H
