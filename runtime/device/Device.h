// What a device is to the executor: memory, code, queues on which work is enqueued, and events by which it is
// ordered.
//
// Every call of a queue enqueues and returns; work on one queue begins in order, and an event completes when
// all that was enqueued before it was recorded has ended. In CUDA's terms: Queue is CUstream, Event is
// CUevent, `record` and `wait` are cuEventRecord and cuStreamWaitEvent, Image is CUmodule, Kernel is
// CUfunction. An implementation may run work inside the call (its events are then complete when it returns),
// and may as well complete late: callers order by events only.
//
// Addresses of a device's memory are pointers that the host computes with and never follows; HostAccess is
// how it writes and reads what lies there.
#ifndef COLOSSAL_RUNTIME_DEVICE_DEVICE_H
#define COLOSSAL_RUNTIME_DEVICE_DEVICE_H

#include "colossal/Plan/Container.h"
#include "colossal/Plan/Plan.pb.h"
#include "colossal/Plan/Status.h"
#include "runtime/device/Images.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

/// A kernel of a loaded image, as its device knows it: a function's address on the CPU.
using Kernel = void *;

/// A launch with every address and parameter known. The arrays need only live during the call that enqueues
/// it.
struct KernelLaunch {
  Kernel kernel = nullptr;
  void *const *buffers = nullptr;
  uint32_t bufferCount = 0; ///< without the scratch buffer, which the device appends
  const int64_t *params = nullptr;
  uint32_t paramCount = 0;
  uint64_t tiles = 0;
  uint64_t tileScratch = 0; ///< bytes of private scratch for each thread
};

/// Memory that is given back when this goes. What lies in it at first is undefined.
class Allocation {
public:
  virtual ~Allocation() = default;
  Allocation(const Allocation &) = delete;
  Allocation &operator=(const Allocation &) = delete;
  std::byte *address() const { return base; }
  uint64_t bytes() const { return size; }
  /// Bytes of it that are backed by memory now; never more than its size, rounded up to pages.
  virtual uint64_t residentBytes() const { return size; }

protected:
  Allocation() = default;
  std::byte *base = nullptr;
  uint64_t size = 0;
};

/// Machine code, loaded.
class Image {
public:
  virtual ~Image() = default;
  /// The kernel of this name; it lives as long as the image.
  virtual Status find(const std::string &symbol, Kernel &kernel) = 0;
};

/// A routine of the device's library with its descriptor resolved.
class Routine {
public:
  virtual ~Routine() = default;
  /// Bytes that the routine holds beside its buffers, for the account of memory.
  virtual uint64_t privateBytes() const { return 0; }
};

/// Work of several queues, recorded to be enqueued again as a whole.
class Recording {
public:
  virtual ~Recording() = default;
};

/// What a device is, for reports.
struct DeviceDescription {
  std::string name; ///< "cpu", "cuda:0 NVIDIA H100 80GB HBM3 (sm_90)"
  bool emulated = false;
  /// Instructions of the device's code, a thread each, that were executed for it by emulation since the
  /// process began, by all devices.
  uint64_t emulatedInstructions = 0;
};

/// Names that a profiler shows over what the calling thread hands to a device between `begin` and `end`. They
/// nest, and each thread has its own.
class NamedRanges {
public:
  virtual ~NamedRanges() = default;
  virtual void begin(const std::string &name) = 0;
  virtual void end() = 0;
};

/// A point in a queue's work.
class Event {
public:
  virtual ~Event() = default;
  /// Whether all work before the last record has ended; true if it was never recorded.
  virtual bool complete() const = 0;
  /// Blocks the calling thread until complete, or until the run is aborted.
  virtual Status synchronize() = 0;
};

class Queue {
public:
  virtual ~Queue() = default;
  virtual Status launch(const KernelLaunch &launch) = 0;
  /// Runs a routine on the buffers of Plan.proto's LibraryCall, in that order; the array need only live
  /// during this call.
  virtual Status call(Routine &routine, void *const *buffers, uint32_t count) = 0;
  /// Copies `bytes` bytes within the device's memory; the regions do not overlap.
  virtual Status copy(void *destination, const void *source, uint64_t bytes) = 0;
  virtual Status fill(void *destination, std::byte value, uint64_t bytes) = 0;
  /// Between pinned host memory and the device's. The host leaves its side alone until an event recorded
  /// afterwards is complete. Where the host reaches the device's memory its side need not be pinned.
  virtual Status upload(void *destination, const void *source, uint64_t bytes) = 0;
  virtual Status download(void *destination, const void *source, uint64_t bytes) = 0;
  /// Runs `task` on a host thread when the work before it has ended; what follows waits for it. It touches
  /// host memory only and calls neither this queue nor its device (cuLaunchHostFunc): what a communicator
  /// does with host memory, timestamps.
  virtual Status hostTask(std::function<Status()> task) = 0;
  /// Stores `value` in host memory when the queue gets here (cuStreamWriteValue64), so that a watchdog sees
  /// how far the work is and not only how much was enqueued. `word` outlives the queue's work.
  virtual Status mark(std::atomic<uint64_t> &word, uint64_t value) = 0;
  /// Stores when the queue got here, in nanoseconds of std::chrono::steady_clock; known when the queue was
  /// synchronized, and until then `at` stays where it is.
  virtual Status stamp(int64_t &at) {
    return hostTask([&at] {
      at = std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
               .count();
      return Status();
    });
  }
  virtual Status record(Event &event) = 0;
  /// Work enqueued afterwards begins after `event`'s last record at this moment is complete.
  virtual Status wait(Event &event) = 0;
  /// Blocks the caller until all is done; returns the first error of the queue's work.
  virtual Status synchronize() = 0;
  /// Whether work runs inside the calls; a hint that arguments need not be kept.
  virtual bool immediate() const = 0;
};

/// One rank's device. Calls that make things come from one thread at a time; queues and events are used by
/// the rank's thread and, between runs, by whoever collects its results.
class Device {
public:
  virtual ~Device() = default;
  /// Whether the host may read and write at addresses of this device's memory.
  virtual bool hostReachesMemory() const = 0;
  /// `alignment` is a power of two.
  virtual Status allocate(uint64_t bytes, uint64_t alignment, std::unique_ptr<Allocation> &memory) = 0;
  /// Host memory for `upload` and `download`.
  virtual Status allocatePinned(uint64_t bytes, std::unique_ptr<Allocation> &memory) = 0;
  /// The place in `images`, those of one module of a validated plan, of the one that suits this device best;
  /// noImageFits where it can load none.
  virtual Status chooseImage(const Images &images, int &chosen) const = 0;
  /// `code` is an image that was chosen, and outlives what is loaded. Devices of one driver may share it.
  virtual Status loadImage(plan::ByteView code, std::shared_ptr<Image> &image) = 0;
  /// Prepares a validated call.
  virtual Status createRoutine(const plan::LibraryCall &call, std::unique_ptr<Routine> &routine) = 0;
  /// `asynchronous` asks for a queue that proceeds beside its caller; otherwise the device is free to choose.
  virtual std::unique_ptr<Queue> createQueue(bool asynchronous) = 0;
  virtual std::unique_ptr<Event> createEvent() = 0;
  /// Sets aside scratch for launches of up to `bytes` per thread; called at load, so that no run allocates.
  virtual Status reserveTileScratch(uint64_t bytes) = 0;
  /// Bytes of memory that the device itself holds (tile scratch), for the account of memory.
  virtual uint64_t scratchBytes() const = 0;
  virtual DeviceDescription describe() const = 0;
  /// Null where no profiler listens, so that names cost nothing then. Lives as long as the process.
  virtual NamedRanges *namedRanges() const { return nullptr; }

  /// Whether work can be recorded, and is faster when it is replayed.
  virtual bool records() const { return false; }
  /// Calls `enqueue`; what it enqueues on `queues` is not run but recorded. It waits for nothing, and
  /// enqueues launches, routines, copies, fills, and waits for events that it recorded itself; of marks none
  /// are kept.
  virtual Status record(const std::vector<Queue *> &queues, const std::function<Status()> &enqueue,
                        std::unique_ptr<Recording> &recording) {
    (void)queues, (void)enqueue, (void)recording;
    return {Code::Internal, "the device records nothing"};
  }
  /// All of a recording as work of `queue`.
  virtual Status replay(Recording &recording, Queue &queue) {
    (void)recording, (void)queue;
    return {Code::Internal, "the device records nothing"};
  }
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_DEVICE_DEVICE_H
