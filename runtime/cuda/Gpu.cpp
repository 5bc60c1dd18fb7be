// Attributes of a GPU.
#include "runtime/cuda/Gpu.h"

namespace colossal::runtime {

std::string Gpu::describe() const {
  return "cuda:" + std::to_string(number) + " " + name + " (" + architecture() +
         (emulated ? ", emulated)" : ")");
}

Status describeGpu(const CudaLibrary &library, int number, Gpu &gpu) {
  gpu.number = number;
  gpu.emulated = library.emulated();
  COLOSSAL_CUDA_CALL(library, cuDeviceGet, &gpu.ordinal, number);
  char name[256] = {};
  COLOSSAL_CUDA_CALL(library, cuDeviceGetName, name, static_cast<int>(sizeof name - 1), gpu.ordinal);
  gpu.name = name;
  size_t bytes = 0;
  COLOSSAL_CUDA_CALL(library, cuDeviceTotalMem_v2, &bytes, gpu.ordinal);
  gpu.memory = bytes;
  COLOSSAL_CUDA_CALL(library, cuDeviceGetAttribute, &gpu.major, cuda::AttributeComputeCapabilityMajor,
                     gpu.ordinal);
  COLOSSAL_CUDA_CALL(library, cuDeviceGetAttribute, &gpu.minor, cuda::AttributeComputeCapabilityMinor,
                     gpu.ordinal);
  COLOSSAL_CUDA_CALL(library, cuDeviceGetAttribute, &gpu.multiprocessors, cuda::AttributeMultiprocessorCount,
                     gpu.ordinal);
  int writes = 0;
  COLOSSAL_CUDA_CALL(library, cuDeviceGetAttribute, &writes, cuda::AttributeCanUse64BitStreamMemoryOperations,
                     gpu.ordinal);
  if (!writes)
    return {Code::Unsupported,
            gpu.describe() +
                " cannot write 64-bit words from a stream, by which the runtime sees how far its "
                "work is"};
  return {};
}

} // namespace colossal::runtime
