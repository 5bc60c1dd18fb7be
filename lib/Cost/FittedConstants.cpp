// The list of constants that are fitted.
#include "colossal/Cost/FittedConstants.h"

namespace colossal::cost {

const std::vector<FittedConstantInfo> &fittedConstants() {
  static const std::vector<FittedConstantInfo> table = {
      {"gemm_efficiency", "1", "part of the peak rate that large contractions sustain", 0.75, 0.01, 1},
      {"gemm_fill", "elements of k", "work a tile spends on filling its pipeline and on its epilogue", 192, 0,
       1e5},
      {"unaligned_efficiency", "1",
       "rate of contractions of which a size is no multiple of 4 bytes, against the others", 0.4, 0.01, 1},
      {"attention_efficiency", "1",
       "part of the peak rate that attention in one kernel reaches, forward and backward", 0.4, 0.01, 1},
      {"native_attention_efficiency", "1",
       "the same by a kernel written for the device; 0: as attention_efficiency", 0, 0, 1},
      {"streaming_efficiency", "1", "part of the memory bandwidth that memory-bound kernels reach", 0.85,
       0.01, 1},
      {"host_launch_seconds", "s", "time of the host to launch one kernel of a training framework", 1e-5, 0,
       1},
      {"straggler", "1", "slowdown of a synchronous step for each doubling of the number of nodes", 0, 0, 1},
      {"backward_launch", "1",
       "host time to launch a kernel of the backward pass, against one of the forward pass", 0.6, 0.01, 10},
      {"overlap_contention", "1",
       "part of the shorter of computing and communicating that does not hide behind the longer", 0.15, 0, 1},
      {"exposed_gradient", "1",
       "part of a gradient reduction in buckets that the backward pass does not hide", 0.1, 0, 1},
      {"sharded_parameter_bandwidth", "B/s",
       "what a device receives while parameters kept over many nodes are gathered; 0: as the network allows",
       0, 0, 1e15},
      {"reserved_bytes", "B", "device memory of contexts, communicators and fragments", 2e9, 0, 1e12},
  };
  return table;
}

double FittedConstants::operator[](std::string_view name) const {
  auto stated = values.find(std::string(name));
  if (stated != values.end())
    return stated->second;
  for (const FittedConstantInfo &info : fittedConstants())
    if (name == info.name)
      return info.fallback;
  return 0;
}

} // namespace colossal::cost
