// Queues and events of the CPU. An event is a counter pair: records asked for and records completed.
#include "runtime/cpu/Device.h"

#include "runtime/cpu/Memory.h"
#include "runtime/cpu/Target.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>

namespace colossal::runtime {

namespace {

constexpr unsigned maxBuffers = 256; // of one launch, scratch included; the validator enforces it

class CpuEvent : public Event {
public:
  explicit CpuEvent(CpuDevice &device) : device(device) {}
  /// Whoever saw the event complete may destroy it, while the thread that completed it still looks for
  /// sleepers.
  ~CpuEvent() override {
    while (left.load(std::memory_order_acquire) != entered.load(std::memory_order_acquire))
      relax();
  }
  bool complete() const override { return done.load() == asked; }
  Status synchronize() override { return waitFor(asked); }

  uint32_t ask() { return ++asked; }
  void finish() {
    entered.fetch_add(1, std::memory_order_relaxed); // seen by all who see `done`
    done.increment();
    left.fetch_add(1, std::memory_order_release);
  }
  uint32_t lastAsked() const { return asked; }
  Status waitFor(uint32_t record) {
    Patience patience(device.spins());
    for (uint32_t seen = done.load(); static_cast<int32_t>(seen - record) < 0; seen = done.load()) {
      patience.waitWhile(done, seen, 20);
      if (device.abort().raised())
        return device.abort().status();
    }
    return {};
  }

private:
  CpuDevice &device;
  uint32_t asked = 0; // by the thread that enqueues
  WaitWord done;
  std::atomic<uint32_t> entered{0}, left{0};
};

class ImmediateQueue : public Queue {
public:
  explicit ImmediateQueue(CpuDevice &device) : device(device) {}
  Status launch(const KernelLaunch &launch) override { return device.run(launch); }
  Status call(Routine &routine, void *const *buffers, uint32_t) override {
    return static_cast<CpuRoutine &>(routine).run(buffers);
  }
  Status copy(void *destination, const void *source, uint64_t bytes) override {
    std::memcpy(destination, source, bytes);
    return {};
  }
  Status fill(void *destination, std::byte value, uint64_t bytes) override {
    std::memset(destination, static_cast<int>(value), bytes);
    return {};
  }
  Status upload(void *destination, const void *source, uint64_t bytes) override {
    return copy(destination, source, bytes);
  }
  Status download(void *destination, const void *source, uint64_t bytes) override {
    return copy(destination, source, bytes);
  }
  Status hostTask(std::function<Status()> task) override { return task(); }
  Status mark(std::atomic<uint64_t> &word, uint64_t value) override {
    word.store(value, std::memory_order_relaxed);
    return {};
  }
  Status record(Event &event) override {
    auto &own = static_cast<CpuEvent &>(event);
    own.ask();
    own.finish();
    return {};
  }
  Status wait(Event &event) override { return event.synchronize(); }
  Status synchronize() override { return {}; }
  bool immediate() const override { return true; }

private:
  CpuDevice &device;
};

class ThreadQueue : public Queue {
public:
  explicit ThreadQueue(CpuDevice &device) : device(device), thread([this] { work(); }) {}
  ~ThreadQueue() override {
    {
      std::lock_guard<std::mutex> lock(mutex);
      stopping = true;
    }
    submitted.increment();
    thread.join();
  }

  Status launch(const KernelLaunch &launch) override {
    std::vector<void *> buffers(launch.buffers, launch.buffers + launch.bufferCount);
    std::vector<int64_t> params(launch.params, launch.params + launch.paramCount);
    KernelLaunch copy = launch;
    return hostTask([this, copy, buffers = std::move(buffers), params = std::move(params)]() mutable {
      copy.buffers = buffers.data();
      copy.params = params.data();
      return device.run(copy);
    });
  }
  Status call(Routine &routine, void *const *buffers, uint32_t count) override {
    return hostTask([&routine, kept = std::vector<void *>(buffers, buffers + count)] {
      return static_cast<CpuRoutine &>(routine).run(kept.data());
    });
  }
  Status copy(void *destination, const void *source, uint64_t bytes) override {
    return hostTask([=] {
      std::memcpy(destination, source, bytes);
      return Status();
    });
  }
  Status fill(void *destination, std::byte value, uint64_t bytes) override {
    return hostTask([=] {
      std::memset(destination, static_cast<int>(value), bytes);
      return Status();
    });
  }
  Status upload(void *destination, const void *source, uint64_t bytes) override {
    return copy(destination, source, bytes);
  }
  Status download(void *destination, const void *source, uint64_t bytes) override {
    return copy(destination, source, bytes);
  }
  Status hostTask(std::function<Status()> task) override {
    {
      std::lock_guard<std::mutex> lock(mutex);
      tasks.push_back(std::move(task));
      ++pending;
    }
    submitted.increment();
    return {};
  }
  Status mark(std::atomic<uint64_t> &word, uint64_t value) override {
    return hostTask([&word, value] {
      word.store(value, std::memory_order_relaxed);
      return Status();
    });
  }
  Status record(Event &event) override {
    auto &own = static_cast<CpuEvent &>(event);
    own.ask();
    {
      std::lock_guard<std::mutex> lock(mutex);
      // Events complete even behind an error, so that nobody waits for ever; the error is in synchronize().
      tasks.push_back([&own] {
        own.finish();
        return Status();
      });
      always.push_back(tasks.size());
      ++pending;
    }
    submitted.increment();
    return {};
  }
  Status wait(Event &event) override {
    auto &own = static_cast<CpuEvent &>(event);
    return hostTask([&own, record = own.lastAsked()] { return own.waitFor(record); });
  }
  Status synchronize() override {
    for (Patience patience(device.spins());;) {
      uint32_t seen = completed.load();
      {
        std::lock_guard<std::mutex> lock(mutex);
        if (pending == 0)
          return error;
      }
      patience.waitWhile(completed, seen, 20);
    }
  }
  bool immediate() const override { return false; }

private:
  void work() {
    for (Patience patience(device.spins());;) {
      uint32_t seen = submitted.load();
      std::function<Status()> task;
      bool run = true;
      {
        std::lock_guard<std::mutex> lock(mutex);
        if (!tasks.empty()) {
          task = std::move(tasks.front());
          tasks.pop_front();
          bool isRecord = !always.empty() && always.front() == 1;
          for (size_t &at : always)
            --at;
          if (isRecord)
            always.pop_front();
          run = isRecord || error.ok();
        } else if (stopping) {
          return;
        }
      }
      if (!task) {
        patience.waitWhile(submitted, seen, 100);
        continue;
      }
      patience = Patience(device.spins());
      Status status = run ? task() : Status();
      {
        std::lock_guard<std::mutex> lock(mutex);
        --pending;
        if (!status.ok() && error.ok()) {
          error = status;
          device.abort().raise(status);
        }
      }
      completed.increment();
    }
  }

  CpuDevice &device;
  std::mutex mutex;
  std::deque<std::function<Status()>> tasks;
  std::deque<size_t> always; // 1-based places of records in `tasks`
  size_t pending = 0;
  Status error;
  bool stopping = false;
  WaitWord submitted, completed;
  std::thread thread; // last: it uses the others
};

struct LaunchContext {
  const KernelLaunch *launch;
  std::byte *scratch;
  uint64_t stride;
};

} // namespace

CpuDevice::CpuDevice(unsigned threads, unsigned spins, Abort &abort, std::shared_ptr<ImageCache> images)
    : aborted(abort), spinCount(spins), images(std::move(images)), pool(threads, spins) {}

CpuDevice::~CpuDevice() {
  std::free(scratch);
}

Status CpuDevice::allocate(uint64_t bytes, uint64_t alignment, std::unique_ptr<Allocation> &memory) {
  return allocateCpuMemory(bytes, alignment, memory);
}

Status CpuDevice::allocatePinned(uint64_t bytes, std::unique_ptr<Allocation> &memory) {
  return allocateCpuMemory(bytes, 64, memory);
}

Status CpuDevice::chooseImage(const Images &images, int &chosen) const {
  for (chosen = 0; chosen < images.size(); ++chosen)
    if (images[chosen].format() == plan::Image::ELF && images[chosen].architecture() == hostArchitecture())
      return {};
  return noImageFits(images, "this host runs ELF for " + std::string(hostArchitecture()));
}

Status CpuDevice::loadImage(plan::ByteView code, std::shared_ptr<Image> &image) {
  return images->load(code, image);
}

Status CpuDevice::createRoutine(const plan::LibraryCall &call, std::unique_ptr<Routine> &routine) {
  if (call.routine() != "convolution" && call.routine() != "convolution.pack")
    return {Code::Unsupported, "the device 'cpu' has no library routine '" + call.routine() + "'"};
  COLOSSAL_RETURN_IF_ERROR(createCpuRoutine(call, pool.threads(), routine));
  // From now on the library's threads compute launches, too.
  runner = libraryThreads();
  return {};
}

std::unique_ptr<Queue> CpuDevice::createQueue(bool asynchronous) {
  if (asynchronous)
    return std::make_unique<ThreadQueue>(*this);
  return std::make_unique<ImmediateQueue>(*this);
}

std::unique_ptr<Event> CpuDevice::createEvent() {
  return std::make_unique<CpuEvent>(*this);
}

Status CpuDevice::reserveTileScratch(uint64_t bytes) {
  uint64_t stride = (bytes + 127) / 128 * 128; // two cache lines: the prefetcher fetches pairs
  if (stride <= scratchStride)
    return {};
  void *grown = std::aligned_alloc(128, stride * pool.threads());
  if (!grown)
    return {Code::OutOfMemory,
            "cannot allocate " + std::to_string(stride * pool.threads()) + " bytes of tile scratch"};
  std::free(scratch);
  scratch = static_cast<std::byte *>(grown);
  scratchStride = stride;
  return {};
}

DeviceDescription CpuDevice::describe() const {
  const unsigned threads = pool.threads();
  return {"cpu (" + std::to_string(threads) + (threads == 1 ? " thread)" : " threads)")};
}

void CpuDevice::runTiles(int64_t tiles, ThreadPool::Body body, void *context) {
  if (runner)
    runner(pool.threads(), tiles, body, context);
  else
    pool.run(tiles, body, context);
}

Status CpuDevice::run(const KernelLaunch &launch) {
  std::lock_guard<std::mutex> lock(busy);
  if (launch.tileScratch == 0) {
    runTiles(
        static_cast<int64_t>(launch.tiles),
        [](void *context, unsigned, int64_t begin, int64_t end) {
          const auto &launch = *static_cast<const KernelLaunch *>(context);
          reinterpret_cast<KernelFunction>(launch.kernel)(launch.buffers, launch.params, begin, end);
        },
        const_cast<KernelLaunch *>(&launch));
    return {};
  }
  if (launch.tileScratch > scratchStride || launch.bufferCount >= maxBuffers)
    return {Code::Internal, "a launch's scratch was not reserved"};
  LaunchContext context = {&launch, scratch, scratchStride};
  runTiles(
      static_cast<int64_t>(launch.tiles),
      [](void *argument, unsigned thread, int64_t begin, int64_t end) {
        const auto &context = *static_cast<const LaunchContext *>(argument);
        const KernelLaunch &launch = *context.launch;
        void *buffers[maxBuffers];
        std::copy(launch.buffers, launch.buffers + launch.bufferCount, buffers);
        buffers[launch.bufferCount] = context.scratch + thread * context.stride;
        reinterpret_cast<KernelFunction>(launch.kernel)(buffers, launch.params, begin, end);
      },
      &context);
  return {};
}

} // namespace colossal::runtime
