// Names for profilers by NVTX: the part of its loader that a process needs to let a tool attach.
//
// Without a tool nothing is opened and nothing is called: `attached` reads one environment variable, once.
#ifndef COLOSSAL_RUNTIME_CUDA_NVTX_RANGES_H
#define COLOSSAL_RUNTIME_CUDA_NVTX_RANGES_H

#include "runtime/cuda/nvtx/Abi.h"
#include "runtime/device/Device.h"

namespace colossal::runtime {

/// Ranges of the domain "colossal".
class NvtxRanges : public NamedRanges {
public:
  /// The tool that NVTX_INJECTION64_PATH names, opened at the first call; null where there is none, or where
  /// it does not attach. Never closed.
  static NvtxRanges *attached();

  void begin(const std::string &name) override;
  void end() override;

private:
  nvtx::Domain domain = nullptr;
  nvtx::DomainRangePushExFunction push = nullptr;
  nvtx::DomainRangePopFunction pop = nullptr;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_NVTX_RANGES_H
