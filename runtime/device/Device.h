// What a device is to the executor: queues on which work is enqueued, and events by which it is ordered.
//
// Every call enqueues and returns; work on one queue begins in order, and an event completes when all that
// was enqueued before it was recorded has ended. In CUDA's terms: Queue is cudaStream_t, Event is
// cudaEvent_t, `record` and `wait` are cudaEventRecord and cudaStreamWaitEvent. In MPI's: an event is the
// MPI_Request of what precedes it. An implementation may run work inside the call (its events are then
// complete when it returns), and may as well complete late: callers order by events only.
#ifndef COLOSSAL_RUNTIME_DEVICE_DEVICE_H
#define COLOSSAL_RUNTIME_DEVICE_DEVICE_H

#include "colossal/Plan/Status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

/// The signature of generated kernels: computes tiles [begin, end).
using KernelFunction = void (*)(void *const *buffers, const int64_t *params, int64_t begin, int64_t end);

/// A launch with every address and parameter known. The arrays need only live during the call that enqueues
/// it.
struct KernelLaunch {
  KernelFunction function = nullptr;
  void *const *buffers = nullptr;
  uint32_t bufferCount = 0; ///< without the scratch buffer, which the device appends
  const int64_t *params = nullptr;
  uint32_t paramCount = 0;
  uint64_t tiles = 0;
  uint64_t tileScratch = 0; ///< bytes of private scratch for each thread
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
  /// Copies `bytes` bytes; the regions do not overlap.
  virtual Status copy(void *destination, const void *source, uint64_t bytes) = 0;
  /// Runs `task` on a host thread when the work before it has ended; what follows waits for it. It touches
  /// host memory only and calls neither this queue nor its device (cuLaunchHostFunc): what a communicator
  /// does with host memory, timestamps.
  virtual Status hostTask(std::function<Status()> task) = 0;
  virtual Status record(Event &event) = 0;
  /// Work enqueued afterwards begins after `event`'s last record at this moment is complete.
  virtual Status wait(Event &event) = 0;
  /// Blocks the caller until all is done; returns the first error of the queue's work.
  virtual Status synchronize() = 0;
  /// Whether work runs inside the calls; a hint that arguments need not be kept.
  virtual bool immediate() const = 0;
};

/// One rank's device.
class Device {
public:
  virtual ~Device() = default;
  /// `asynchronous` asks for a queue that proceeds beside its caller; otherwise the device is free to choose.
  virtual std::unique_ptr<Queue> createQueue(bool asynchronous) = 0;
  virtual std::unique_ptr<Event> createEvent() = 0;
  /// Threads that share a launch's tiles.
  virtual unsigned threads() const = 0;
  /// Sets aside scratch for launches of up to `bytes` per thread; called at load, so that no run allocates.
  virtual Status reserveTileScratch(uint64_t bytes) = 0;
  /// Tells that a plan's library routines run on this device beside launches.
  virtual void shareThreadsWithLibrary() = 0;
  /// Bytes of memory that the device itself holds (tile scratch), for the account of memory.
  virtual uint64_t scratchBytes() const = 0;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_DEVICE_DEVICE_H
