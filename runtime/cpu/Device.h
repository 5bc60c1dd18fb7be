// The CPU as a device. A queue is either immediate (work runs in the calls, on the caller and the rank's
// thread pool) or a thread of its own that works through a list; launches on any of them share one pool, one
// at a time.
#ifndef COLOSSAL_RUNTIME_CPU_DEVICE_H
#define COLOSSAL_RUNTIME_CPU_DEVICE_H

#include "runtime/cpu/Image.h"
#include "runtime/cpu/Library.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/device/Device.h"
#include "runtime/execute/Abort.h"

#include <mutex>

namespace colossal::runtime {

class CpuDevice : public Device {
public:
  /// `spins` as in ThreadPool. `abort` ends waits and outlives the device.
  CpuDevice(unsigned threads, unsigned spins, Abort &abort,
            std::shared_ptr<ImageCache> images = std::make_shared<ImageCache>());
  ~CpuDevice() override;

  bool hostReachesMemory() const override { return true; }
  Status allocate(uint64_t bytes, uint64_t alignment, std::unique_ptr<Allocation> &memory) override;
  Status allocatePinned(uint64_t bytes, std::unique_ptr<Allocation> &memory) override;
  Status chooseImage(const Images &images, int &chosen) const override;
  Status loadImage(plan::ByteView code, std::shared_ptr<Image> &image) override;
  Status createRoutine(const plan::LibraryCall &call, std::unique_ptr<Routine> &routine) override;
  std::unique_ptr<Queue> createQueue(bool asynchronous) override;
  std::unique_ptr<Event> createEvent() override;
  Status reserveTileScratch(uint64_t bytes) override;
  uint64_t scratchBytes() const override { return scratchStride * pool.threads(); }
  DeviceDescription describe() const override;

  /// Runs a launch on the pool and returns when it is done.
  Status run(const KernelLaunch &launch);
  Abort &abort() { return aborted; }
  unsigned spins() const { return spinCount; }

private:
  Abort &aborted;
  unsigned spinCount;
  std::shared_ptr<ImageCache> images;
  ThreadPool pool;
  ParallelRunner runner = nullptr; // instead of the pool, where library routines bring threads of their own
  void runTiles(int64_t tiles, ThreadPool::Body body, void *context);
  std::mutex busy; // launches of several queues take turns
  std::byte *scratch = nullptr;
  uint64_t scratchStride = 0;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CPU_DEVICE_H
