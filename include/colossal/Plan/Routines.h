// What the compiler must know about the device library's routines to plan memory: sizes of what only the
// library lays out. Implemented by the library ColossalCpuRoutines (runtime/cpu), which asks oneDNN on the
// compiling host.
#ifndef COLOSSAL_PLAN_ROUTINES_H
#define COLOSSAL_PLAN_ROUTINES_H

#include "colossal/Plan/Status.h"

#include <cstdint>

namespace colossal::plan {
class Convolution;
}

namespace colossal::runtime {

/// Bytes of the packed weight and of the scratchpad of a convolution on this host with `threads` threads. The
/// packed size also suffices for hosts with narrower vectors. A runtime with more threads adds scratch of its
/// own. Unsupported where the library has no such convolution (type, algorithm or activation).
plan::Status queryConvolution(const plan::Convolution &convolution, unsigned threads, uint64_t &packedBytes,
                              uint64_t &scratchBytes);

} // namespace colossal::runtime

#endif // COLOSSAL_PLAN_ROUTINES_H
