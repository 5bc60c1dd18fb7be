//===- QueryConvolution.h - sizes of what only the library lays out ---------===//
//
// The one place where the compiler asks the CPU's library, on the compiling host, what the runtime will ask
// it where the plan runs.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_CODEGEN_CPU_LOWERING_QUERYCONVOLUTION_H
#define COLOSSAL_LIB_CODEGEN_CPU_LOWERING_QUERYCONVOLUTION_H

#include <cstdint>
#include <optional>

namespace colossal::plan {
class Convolution;
}

namespace colossal::cpu {

struct ConvolutionSizes {
  uint64_t packedBytes = 0, scratchBytes = 0;
};

/// Bytes of the packed weight and of the scratchpad of a convolution on this host with `threads` threads. The
/// packed size also suffices for hosts with narrower vectors. A runtime with more threads adds scratch of its
/// own. Nothing where the library has no such convolution (type, algorithm or activation).
std::optional<ConvolutionSizes> queryConvolution(const plan::Convolution &convolution, unsigned threads);

} // namespace colossal::cpu

#endif // COLOSSAL_LIB_CODEGEN_CPU_LOWERING_QUERYCONVOLUTION_H
