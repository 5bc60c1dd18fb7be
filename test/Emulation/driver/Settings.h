// What the emulated GPUs of a process are, from its environment.
#ifndef COLOSSAL_EMULATION_DRIVER_SETTINGS_H
#define COLOSSAL_EMULATION_DRIVER_SETTINGS_H

#include "runtime/cuda/Abi.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace colossal::cuda {

struct Settings {
  int gpus = 1;                              ///< COLOSSAL_EMULATED_GPUS
  int capability = 90;                       ///< COLOSSAL_EMULATED_GPU_ARCHITECTURE=sm_90
  std::size_t memory = std::size_t(8) << 30; ///< COLOSSAL_EMULATED_GPU_MEMORY, bytes
  std::uint64_t seed = 1;                    ///< COLOSSAL_EMULATED_GPU_SEED: of delays and orders
  bool checks = true;   ///< COLOSSAL_EMULATED_GPU_CHECKS=0: no races, no order between streams
  unsigned threads = 1; ///< COLOSSAL_EMULATED_GPU_THREADS: hosts' that execute a launch
  /// COLOSSAL_EMULATED_GPU_FAIL=cuMemAlloc_v2@3=2,...: the third call returns error 2 and does nothing.
  std::map<std::string, std::map<unsigned, Result>> failures;

  static Settings read();
};

} // namespace colossal::cuda

#endif
