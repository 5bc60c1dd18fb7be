// A stream as a queue, and events.
//
// Host tasks may take long and wait for other ranks, while the driver runs host functions one after another:
// a task runs on a thread of its queue's own. A host function tells it that the stream has come so far, and
// the stream waits for a word that the thread writes.
#ifndef COLOSSAL_RUNTIME_CUDA_QUEUE_H
#define COLOSSAL_RUNTIME_CUDA_QUEUE_H

#include "runtime/cuda/Device.h"

#include <condition_variable>
#include <deque>
#include <thread>

namespace colossal::runtime {

class CudaEvent : public Event {
public:
  CudaEvent(CudaDevice &device, cuda::Event handle) : device(device), event(handle) {}
  ~CudaEvent() override;
  bool complete() const override;
  Status synchronize() override;
  cuda::Event handle() const { return event; }

private:
  CudaDevice &device;
  cuda::Event event;
};

class CudaQueue : public Queue {
public:
  static Status create(CudaDevice &device, std::unique_ptr<Queue> &queue);
  ~CudaQueue() override;

  Status launch(const KernelLaunch &launch) override;
  Status call(Routine &routine, void *const *buffers, uint32_t count) override;
  Status copy(void *destination, const void *source, uint64_t bytes) override;
  Status fill(void *destination, std::byte value, uint64_t bytes) override;
  Status upload(void *destination, const void *source, uint64_t bytes) override;
  Status download(void *destination, const void *source, uint64_t bytes) override;
  Status hostTask(std::function<Status()> task) override;
  Status mark(std::atomic<uint64_t> &word, uint64_t value) override;
  Status stamp(int64_t &at) override;
  Status record(Event &event) override;
  Status wait(Event &event) override;
  Status synchronize() override;
  bool immediate() const override { return false; }

  cuda::Stream handle() const { return stream; }
  /// While its work is recorded marks are left out, and what a recording cannot hold is refused.
  void setRecording(bool on) { recording = on; }

private:
  explicit CudaQueue(CudaDevice &device) : device(device), driver(device.driver()) {}
  Status refuseInRecording(const char *what) const;
  void work();
  Status readStamps();

  CudaDevice &device;
  const CudaLibrary &driver;
  cuda::Stream stream = nullptr;
  bool recording = false;

  // Host tasks. Tickets count them; `done` lies in pinned memory and has the last one that ended.
  struct Task {
    uint32_t ticket;
    std::function<Status()> run;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> tasks;
  uint32_t asked = 0, reached = 0;
  bool stopping = false;
  Status error;
  std::unique_ptr<Allocation> done;
  std::thread thread;

  struct Stamp {
    cuda::Event event;
    int64_t *at;
  };
  std::vector<Stamp> stamps; // to be read when the work has ended
  std::vector<cuda::Event> unusedStamps;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_QUEUE_H
