// A GPU as a rank's device: its primary context, memory, images and queues.
#ifndef COLOSSAL_RUNTIME_CUDA_DEVICE_H
#define COLOSSAL_RUNTIME_CUDA_DEVICE_H

#include "runtime/cuda/Image.h"
#include "runtime/cuda/cublaslt/Contractions.h"
#include "runtime/cuda/cudnn/Graphs.h"
#include "runtime/cuda/nvtx/Ranges.h"
#include "runtime/device/Registry.h"

namespace colossal::runtime {

class CudaQueue;

class CudaDevice : public Device {
public:
  /// `abort` and `library` outlive the device.
  static Status create(const CudaLibrary &library, const Gpu &gpu, const DeviceOptions &options, Abort &abort,
                       std::shared_ptr<CudaImageCache> images, std::unique_ptr<Device> &device);
  ~CudaDevice() override;

  bool hostReachesMemory() const override { return false; }
  Status allocate(uint64_t bytes, uint64_t alignment, std::unique_ptr<Allocation> &memory) override;
  Status allocatePinned(uint64_t bytes, std::unique_ptr<Allocation> &memory) override;
  Status chooseImage(const Images &images, int &chosen) const override;
  Status loadImage(plan::ByteView code, std::shared_ptr<Image> &image) override;
  Status createRoutine(const plan::LibraryCall &call, std::unique_ptr<Routine> &routine) override;
  std::unique_ptr<Queue> createQueue(bool asynchronous) override;
  std::unique_ptr<Event> createEvent() override;
  Status reserveTileScratch(uint64_t bytes) override;
  uint64_t scratchBytes() const override { return scratch ? scratch->bytes() : 0; }
  DeviceDescription describe() const override;
  NamedRanges *namedRanges() const override { return NvtxRanges::attached(); }
  bool records() const override { return true; }
  Status record(const std::vector<Queue *> &queues, const std::function<Status()> &enqueue,
                std::unique_ptr<Recording> &recording) override;
  Status replay(Recording &recording, Queue &queue) override;

  const CudaLibrary &driver() const { return library; }
  Abort &abort() { return aborted; }
  unsigned spins() const { return spinCount; }
  /// Gives the calling thread the GPU's context; every call of the driver comes after it.
  Status makeCurrent() const;
  /// A launch as work of `queue`, whose stream is given.
  Status launch(const KernelLaunch &launch, cuda::Stream stream);
  /// Where the GPU writes a word of host memory; its page is made known to the driver at the first time.
  Status deviceAddress(std::atomic<uint64_t> &word, cuda::DevicePointer &address);

private:
  CudaDevice(const CudaLibrary &library, const Gpu &gpu, const DeviceOptions &options, Abort &abort,
             std::shared_ptr<CudaImageCache> images)
      : library(library), gpu(gpu), aborted(abort), spinCount(options.spins), images(std::move(images)) {}
  /// Launches with scratch take turns, whatever their streams.
  Status waitForScratch(cuda::Stream stream);

  const CudaLibrary &library;
  const Gpu gpu;
  Abort &aborted;
  unsigned spinCount;
  std::shared_ptr<CudaImageCache> images;
  cuda::Context context = nullptr;
  std::map<uintptr_t, cuda::DevicePointer> pages; // of words, by host address
  std::unique_ptr<Contractions> contractions;     // once a routine asked for them; routines end before
  std::unique_ptr<CudnnGraphs> graphs;            // likewise
  std::unique_ptr<Allocation> scratch;
  uint64_t scratchStride = 0, scratchBlocks = 0;
  cuda::Event scratchFree = nullptr;
  cuda::Stream scratchUser = nullptr; // the stream of the last launch with scratch
  std::vector<void *> arguments;      // of the launch being enqueued: addresses of `values`
  std::vector<uint64_t> values;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_DEVICE_H
