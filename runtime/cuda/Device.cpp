// Contexts, memory, launches and recordings.
#include "runtime/cuda/Device.h"

#include "runtime/cuda/Queue.h"

#include <algorithm>

namespace colossal::runtime {

namespace {

// Of what launches with scratch may have together, whatever the GPU: enough that it is busy.
constexpr uint64_t scratchLimit = 256 << 20;
constexpr uint64_t blocksPerMultiprocessor = 4;
constexpr uint64_t maxGrid = (uint64_t(1) << 31) - 1;
constexpr uintptr_t pageBytes = 4096;

class DeviceMemory : public Allocation {
public:
  explicit DeviceMemory(const CudaDevice &device) : device(device) {}
  ~DeviceMemory() override {
    if (whole && device.makeCurrent().ok())
      (void)device.driver()->cuMemFree_v2(whole);
  }
  Status allocate(uint64_t wanted, uint64_t alignment) {
    // The driver aligns to 256 bytes at least.
    const uint64_t extra = alignment > 256 ? alignment : 0;
    COLOSSAL_CUDA_CALL(device.driver(), cuMemAlloc_v2, &whole, std::max<uint64_t>(wanted, 1) + extra);
    base = pointerOf<std::byte>(extra ? (whole + alignment - 1) / alignment * alignment : whole);
    size = wanted;
    return {};
  }

private:
  const CudaDevice &device;
  cuda::DevicePointer whole = 0;
};

class PinnedMemory : public Allocation {
public:
  explicit PinnedMemory(const CudaDevice &device) : device(device) {}
  ~PinnedMemory() override {
    if (base && device.makeCurrent().ok())
      (void)device.driver()->cuMemFreeHost(base);
  }
  Status allocate(uint64_t wanted) {
    void *made = nullptr;
    COLOSSAL_CUDA_CALL(device.driver(), cuMemHostAlloc, &made, std::max<uint64_t>(wanted, 1),
                       cuda::HostAllocPortable | cuda::HostAllocDeviceMap);
    base = static_cast<std::byte *>(made);
    size = wanted;
    return {};
  }

private:
  const CudaDevice &device;
};

class CudaRecording : public Recording {
public:
  CudaRecording(const CudaDevice &device, cuda::GraphExec graph) : device(device), graph(graph) {}
  ~CudaRecording() override {
    if (device.makeCurrent().ok())
      (void)device.driver()->cuGraphExecDestroy(graph);
  }
  const CudaDevice &device;
  cuda::GraphExec graph;
};

/// Pages of words that GPUs write to. Several devices of a process may ask for one page, which the driver
/// takes once.
struct RegisteredPages {
  std::mutex mutex;
  std::map<uintptr_t, unsigned> users;
};
RegisteredPages &registeredPages() {
  static RegisteredPages pages;
  return pages;
}

/// Events that live during a recording.
class TemporaryEvents {
public:
  explicit TemporaryEvents(const CudaLibrary &library) : library(library) {}
  ~TemporaryEvents() {
    for (cuda::Event event : events)
      (void)library->cuEventDestroy_v2(event);
  }
  Status add(cuda::Event &event) {
    COLOSSAL_CUDA_CALL(library, cuEventCreate, &event, cuda::EventDisableTiming);
    events.push_back(event);
    return {};
  }

private:
  const CudaLibrary &library;
  std::vector<cuda::Event> events;
};

} // namespace

Status CudaDevice::create(const CudaLibrary &library, const Gpu &gpu, const DeviceOptions &options,
                          Abort &abort, std::shared_ptr<CudaImageCache> images,
                          std::unique_ptr<Device> &device) {
  std::unique_ptr<CudaDevice> made(new CudaDevice(library, gpu, options, abort, std::move(images)));
  COLOSSAL_CUDA_CALL(library, cuDevicePrimaryCtxRetain, &made->context, gpu.ordinal);
  COLOSSAL_RETURN_IF_ERROR(made->makeCurrent());
  COLOSSAL_CUDA_CALL(library, cuEventCreate, &made->scratchFree, cuda::EventDisableTiming);
  device = std::move(made);
  return {};
}

CudaDevice::~CudaDevice() {
  if (!context || !makeCurrent().ok())
    return;
  scratch.reset();
  contractions.reset();
  if (scratchFree)
    (void)library->cuEventDestroy_v2(scratchFree);
  RegisteredPages &all = registeredPages();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto &[page, address] : pages)
    if (--all.users[page] == 0) {
      all.users.erase(page);
      (void)library->cuMemHostUnregister(pointerOf<void>(page));
    }
  (void)library->cuDevicePrimaryCtxRelease_v2(gpu.ordinal);
}

Status CudaDevice::makeCurrent() const {
  COLOSSAL_CUDA_CALL(library, cuCtxSetCurrent, context);
  return {};
}

DeviceDescription CudaDevice::describe() const {
  return {gpu.describe(), gpu.emulated, library.instructions()};
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Status CudaDevice::allocate(uint64_t bytes, uint64_t alignment, std::unique_ptr<Allocation> &memory) {
  COLOSSAL_RETURN_IF_ERROR(makeCurrent());
  auto made = std::make_unique<DeviceMemory>(*this);
  if (Status status = made->allocate(bytes, alignment); !status.ok()) {
    size_t free = 0, total = 0;
    if (library->cuMemGetInfo_v2(&free, &total) != cuda::Success)
      return status;
    return {status.code(), status.message() + "; " + gpu.describe() + " has " + std::to_string(total) +
                               " bytes, of which " + std::to_string(free) + " are free"};
  }
  memory = std::move(made);
  return {};
}

Status CudaDevice::allocatePinned(uint64_t bytes, std::unique_ptr<Allocation> &memory) {
  COLOSSAL_RETURN_IF_ERROR(makeCurrent());
  auto made = std::make_unique<PinnedMemory>(*this);
  COLOSSAL_RETURN_IF_ERROR(made->allocate(bytes));
  memory = std::move(made);
  return {};
}

Status CudaDevice::deviceAddress(std::atomic<uint64_t> &word, cuda::DevicePointer &address) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(&word), page = at / pageBytes * pageBytes;
  auto known = pages.find(page);
  if (known == pages.end()) {
    RegisteredPages &all = registeredPages();
    std::lock_guard<std::mutex> lock(all.mutex);
    if (all.users[page] == 0) {
      const cuda::Result result = library->cuMemHostRegister_v2(
          pointerOf<void>(page), pageBytes, cuda::HostRegisterPortable | cuda::HostRegisterDeviceMap);
      if (result != cuda::Success) {
        all.users.erase(page);
        return library.check(result, "cuMemHostRegister_v2");
      }
    }
    ++all.users[page];
    cuda::DevicePointer mapped = 0;
    const cuda::Result result = library->cuMemHostGetDevicePointer_v2(&mapped, pointerOf<void>(page), 0);
    known = pages.emplace(page, mapped).first;
    COLOSSAL_RETURN_IF_ERROR(library.check(result, "cuMemHostGetDevicePointer_v2"));
  }
  address = known->second + (at - page);
  return {};
}

Status CudaDevice::reserveTileScratch(uint64_t bytes) {
  const uint64_t stride = (bytes + 127) / 128 * 128; // as generated kernels round
  if (stride <= scratchStride)
    return {};
  const uint64_t blocks = std::clamp<uint64_t>(
      scratchLimit / stride, 1, blocksPerMultiprocessor * static_cast<uint64_t>(gpu.multiprocessors));
  scratch.reset();
  if (Status status = allocate(stride * blocks, 256, scratch); !status.ok())
    return {status.code(), "cannot allocate " + std::to_string(stride * blocks) +
                               " bytes of tile scratch: " + status.message()};
  scratchStride = stride;
  scratchBlocks = blocks;
  return {};
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

Status CudaDevice::chooseImage(const Images &all, int &chosen) const {
  return chooseCudaImage(all, gpu, chosen);
}

Status CudaDevice::loadImage(plan::ByteView code, std::shared_ptr<Image> &image) {
  COLOSSAL_RETURN_IF_ERROR(makeCurrent());
  return images->load(library, gpu, code, image);
}

Status CudaDevice::createRoutine(const plan::LibraryCall &call, std::unique_ptr<Routine> &routine) {
  COLOSSAL_RETURN_IF_ERROR(makeCurrent());
  if (call.routine() == "convolution.unpacked" || call.routine() == "attention") {
    if (!graphs)
      COLOSSAL_RETURN_IF_ERROR(CudnnGraphs::create(library, gpu, graphs));
    return graphs->createRoutine(call, routine);
  }
  if (call.routine() != "contraction")
    return {Code::Unsupported, "the device 'cuda' has no library routine '" + call.routine() + "'"};
  if (!contractions)
    COLOSSAL_RETURN_IF_ERROR(Contractions::create(library, gpu, contractions));
  return contractions->createRoutine(call, routine);
}

Status CudaDevice::waitForScratch(cuda::Stream stream) {
  if (scratchUser && scratchUser != stream)
    COLOSSAL_CUDA_CALL(library, cuStreamWaitEvent, stream, scratchFree, 0);
  return {};
}

Status CudaDevice::launch(const KernelLaunch &launch, cuda::Stream stream) {
  if (launch.tiles == 0)
    return {};
  COLOSSAL_RETURN_IF_ERROR(makeCurrent());
  const bool hasScratch = launch.tileScratch != 0;
  if (hasScratch && launch.tileScratch > scratchStride)
    return {Code::Internal, "a launch's scratch was not reserved"};
  // Buffers, scratch, parameters, and how many tiles there are: a word each.
  values.clear();
  for (uint32_t i = 0; i < launch.bufferCount; ++i)
    values.push_back(reinterpret_cast<uintptr_t>(launch.buffers[i]));
  if (hasScratch)
    values.push_back(reinterpret_cast<uintptr_t>(scratch->address()));
  for (uint32_t i = 0; i < launch.paramCount; ++i)
    values.push_back(static_cast<uint64_t>(launch.params[i]));
  values.push_back(launch.tiles);
  arguments.clear();
  for (uint64_t &value : values)
    arguments.push_back(&value);
  const auto &kernel = *static_cast<const CudaKernel *>(launch.kernel);
  const uint64_t grid = std::min(launch.tiles, hasScratch ? scratchBlocks : maxGrid);
  if (hasScratch)
    COLOSSAL_RETURN_IF_ERROR(waitForScratch(stream));
  COLOSSAL_CUDA_CALL(library, cuLaunchKernel, kernel.function, static_cast<unsigned>(grid), 1, 1,
                     kernel.threads, 1, 1, 0, stream, arguments.data(), nullptr);
  if (hasScratch) {
    COLOSSAL_CUDA_CALL(library, cuEventRecord, scratchFree, stream);
    scratchUser = stream;
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Queues and recordings
//===----------------------------------------------------------------------===//

std::unique_ptr<Queue> CudaDevice::createQueue(bool) {
  std::unique_ptr<Queue> queue;
  if (Status status = CudaQueue::create(*this, queue); !status.ok())
    aborted.raise(std::move(status));
  return queue;
}

std::unique_ptr<Event> CudaDevice::createEvent() {
  cuda::Event event = nullptr;
  Status status = makeCurrent();
  if (status.ok())
    status = library.check(library->cuEventCreate(&event, cuda::EventDisableTiming), "cuEventCreate");
  if (!status.ok())
    aborted.raise(std::move(status));
  return std::make_unique<CudaEvent>(*this, event);
}

Status CudaDevice::record(const std::vector<Queue *> &queues, const std::function<Status()> &enqueue,
                          std::unique_ptr<Recording> &recording) {
  COLOSSAL_RETURN_IF_ERROR(makeCurrent());
  const cuda::Stream origin = static_cast<CudaQueue *>(queues[0])->handle();
  TemporaryEvents events(library);
  cuda::Event fork = nullptr;
  COLOSSAL_RETURN_IF_ERROR(events.add(fork));
  std::vector<cuda::Event> joins(queues.size());
  for (cuda::Event &join : joins)
    COLOSSAL_RETURN_IF_ERROR(events.add(join));
  // A recording knows nothing of what was enqueued before it: its first launch with scratch waits for none.
  scratchUser = nullptr;
  COLOSSAL_CUDA_CALL(library, cuStreamBeginCapture_v2, origin, cuda::CaptureModeThreadLocal);
  auto fill = [&]() -> Status {
    COLOSSAL_CUDA_CALL(library, cuEventRecord, fork, origin);
    for (size_t i = 1; i < queues.size(); ++i)
      COLOSSAL_CUDA_CALL(library, cuStreamWaitEvent, static_cast<CudaQueue *>(queues[i])->handle(), fork, 0);
    COLOSSAL_RETURN_IF_ERROR(enqueue());
    for (size_t i = 1; i < queues.size(); ++i) {
      COLOSSAL_CUDA_CALL(library, cuEventRecord, joins[i], static_cast<CudaQueue *>(queues[i])->handle());
      COLOSSAL_CUDA_CALL(library, cuStreamWaitEvent, origin, joins[i], 0);
    }
    return {};
  };
  for (Queue *queue : queues)
    static_cast<CudaQueue *>(queue)->setRecording(true);
  Status status = fill();
  for (Queue *queue : queues)
    static_cast<CudaQueue *>(queue)->setRecording(false);
  scratchUser = nullptr;
  cuda::Graph graph = nullptr;
  Status ended = library.check(library->cuStreamEndCapture(origin, &graph), "cuStreamEndCapture");
  COLOSSAL_RETURN_IF_ERROR(status);
  COLOSSAL_RETURN_IF_ERROR(ended);
  cuda::GraphExec executable = nullptr;
  status = library.check(library->cuGraphInstantiateWithFlags(&executable, graph, 0),
                         "cuGraphInstantiateWithFlags");
  (void)library->cuGraphDestroy(graph);
  COLOSSAL_RETURN_IF_ERROR(status);
  recording = std::make_unique<CudaRecording>(*this, executable);
  return {};
}

Status CudaDevice::replay(Recording &recording, Queue &queue) {
  COLOSSAL_RETURN_IF_ERROR(makeCurrent());
  COLOSSAL_CUDA_CALL(library, cuGraphLaunch, static_cast<CudaRecording &>(recording).graph,
                     static_cast<CudaQueue &>(queue).handle());
  return {};
}

} // namespace colossal::runtime
