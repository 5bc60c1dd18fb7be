// Images of a plan on a GPU: cubins for one generation, PTX that the driver compiles.
#ifndef COLOSSAL_RUNTIME_CUDA_IMAGE_H
#define COLOSSAL_RUNTIME_CUDA_IMAGE_H

#include "runtime/cuda/Gpu.h"
#include "runtime/device/Device.h"

#include <map>
#include <mutex>

namespace colossal::runtime {

/// What a Kernel points to.
struct CudaKernel {
  cuda::Function function = nullptr;
  /// Threads that compute a tile together: the most that a block of it may have (.maxntid), which generated
  /// kernels state so.
  unsigned threads = 0;
};

/// The image for `gpu`: a cubin of its generation for its capability or the highest below it, else the newest
/// PTX that it can compile. What stands in for a driver executes PTX only.
Status chooseCudaImage(const Images &images, const Gpu &gpu, int &chosen);

/// Ranks of one process that share a GPU load the same bytes; the first brings them in. The calling thread
/// has the GPU's context.
class CudaImageCache {
public:
  Status load(const CudaLibrary &library, const Gpu &gpu, plan::ByteView code, std::shared_ptr<Image> &image);

private:
  std::mutex mutex;
  std::map<std::pair<int, const std::byte *>, std::weak_ptr<Image>> loaded; // by GPU and the code's place
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_IMAGE_H
