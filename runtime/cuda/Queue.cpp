// Streams, events and host tasks.
#include "runtime/cuda/Queue.h"

#include "runtime/cuda/Routine.h"
#include "runtime/execute/Wait.h"

#include <chrono>

namespace colossal::runtime {

namespace {

cuda::DevicePointer addressOf(const void *pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Looks at `query` until it is no longer NotReady: often at first, then less so.
template <class Query>
Status pollUntilReady(CudaDevice &device, const char *symbol, bool endsWithRanks, Query query) {
  for (unsigned looks = 0;; ++looks) {
    const cuda::Result result = query();
    if (result != cuda::NotReady)
      return device.driver().check(result, symbol);
    if (endsWithRanks && device.abort().raised())
      return device.abort().status();
    if (looks < device.spins())
      relax();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(looks < device.spins() + 100 ? 20 : 200));
  }
}

} // namespace

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

CudaEvent::~CudaEvent() {
  if (device.makeCurrent().ok())
    (void)device.driver()->cuEventDestroy_v2(event);
}

bool CudaEvent::complete() const {
  // An event behind an error counts as complete: nobody waits for ever, and the queue tells of the error.
  return !device.makeCurrent().ok() || device.driver()->cuEventQuery(event) != cuda::NotReady;
}

Status CudaEvent::synchronize() {
  COLOSSAL_RETURN_IF_ERROR(device.makeCurrent());
  return pollUntilReady(device, "cuEventQuery", true, [&] { return device.driver()->cuEventQuery(event); });
}

//===----------------------------------------------------------------------===//
// Queues
//===----------------------------------------------------------------------===//

Status CudaQueue::create(CudaDevice &device, std::unique_ptr<Queue> &queue) {
  COLOSSAL_RETURN_IF_ERROR(device.makeCurrent());
  std::unique_ptr<CudaQueue> made(new CudaQueue(device));
  COLOSSAL_RETURN_IF_ERROR(device.allocatePinned(sizeof(std::atomic<uint32_t>), made->done));
  new (made->done->address()) std::atomic<uint32_t>(0);
  COLOSSAL_CUDA_CALL(device.driver(), cuStreamCreate, &made->stream, cuda::StreamNonBlocking);
  queue = std::move(made);
  return {};
}

CudaQueue::~CudaQueue() {
  if (device.makeCurrent().ok() && stream)
    (void)driver->cuStreamSynchronize(stream);
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
  for (const Stamp &stamp : stamps)
    (void)driver->cuEventDestroy_v2(stamp.event);
  for (cuda::Event event : unusedStamps)
    (void)driver->cuEventDestroy_v2(event);
  if (stream)
    (void)driver->cuStreamDestroy_v2(stream);
}

Status CudaQueue::refuseInRecording(const char *what) const {
  return recording ? Status(Code::Internal, std::string(what) + " cannot be recorded") : Status();
}

Status CudaQueue::launch(const KernelLaunch &launch) {
  return device.launch(launch, stream);
}

Status CudaQueue::call(Routine &routine, void *const *buffers, uint32_t count) {
  COLOSSAL_RETURN_IF_ERROR(device.makeCurrent());
  return static_cast<CudaRoutine &>(routine).enqueue(stream, buffers, count, recording);
}

Status CudaQueue::copy(void *destination, const void *source, uint64_t bytes) {
  COLOSSAL_RETURN_IF_ERROR(device.makeCurrent());
  if (bytes)
    COLOSSAL_CUDA_CALL(driver, cuMemcpyDtoDAsync_v2, addressOf(destination), addressOf(source), bytes,
                       stream);
  return {};
}

Status CudaQueue::fill(void *destination, std::byte value, uint64_t bytes) {
  COLOSSAL_RETURN_IF_ERROR(device.makeCurrent());
  if (bytes)
    COLOSSAL_CUDA_CALL(driver, cuMemsetD8Async, addressOf(destination), static_cast<unsigned char>(value),
                       bytes, stream);
  return {};
}

Status CudaQueue::upload(void *destination, const void *source, uint64_t bytes) {
  COLOSSAL_RETURN_IF_ERROR(refuseInRecording("an upload"));
  COLOSSAL_RETURN_IF_ERROR(device.makeCurrent());
  if (bytes)
    COLOSSAL_CUDA_CALL(driver, cuMemcpyHtoDAsync_v2, addressOf(destination), source, bytes, stream);
  return {};
}

Status CudaQueue::download(void *destination, const void *source, uint64_t bytes) {
  COLOSSAL_RETURN_IF_ERROR(refuseInRecording("a download"));
  COLOSSAL_RETURN_IF_ERROR(device.makeCurrent());
  if (bytes)
    COLOSSAL_CUDA_CALL(driver, cuMemcpyDtoHAsync_v2, destination, addressOf(source), bytes, stream);
  return {};
}

Status CudaQueue::mark(std::atomic<uint64_t> &word, uint64_t value) {
  if (recording)
    return {};
  COLOSSAL_RETURN_IF_ERROR(device.makeCurrent());
  cuda::DevicePointer address = 0;
  COLOSSAL_RETURN_IF_ERROR(device.deviceAddress(word, address));
  COLOSSAL_CUDA_CALL(driver, cuStreamWriteValue64_v2, stream, address, value, 0);
  return {};
}

Status CudaQueue::record(Event &event) {
  COLOSSAL_RETURN_IF_ERROR(device.makeCurrent());
  COLOSSAL_CUDA_CALL(driver, cuEventRecord, static_cast<CudaEvent &>(event).handle(), stream);
  return {};
}

Status CudaQueue::wait(Event &event) {
  COLOSSAL_RETURN_IF_ERROR(device.makeCurrent());
  COLOSSAL_CUDA_CALL(driver, cuStreamWaitEvent, stream, static_cast<CudaEvent &>(event).handle(), 0);
  return {};
}

Status CudaQueue::synchronize() {
  COLOSSAL_RETURN_IF_ERROR(device.makeCurrent());
  // Tasks end by themselves when ranks are ended, and with them the stream's waits: so this waits for the
  // work whatever happened, unless the GPU itself does not come back.
  Status status =
      pollUntilReady(device, "cuStreamQuery", false, [&] { return driver->cuStreamQuery(stream); });
  if (status.ok())
    status = readStamps();
  std::lock_guard<std::mutex> lock(mutex);
  if (!error.ok())
    return error;
  if (!status.ok() && !device.abort().raised())
    device.abort().raise(error = status);
  return status;
}

//===----------------------------------------------------------------------===//
// Host tasks
//===----------------------------------------------------------------------===//

Status CudaQueue::hostTask(std::function<Status()> task) {
  COLOSSAL_RETURN_IF_ERROR(refuseInRecording("a host task"));
  COLOSSAL_RETURN_IF_ERROR(device.makeCurrent());
  uint32_t ticket = 0;
  {
    std::lock_guard<std::mutex> lock(mutex);
    ticket = ++asked;
    tasks.push_back({ticket, std::move(task)});
    if (!thread.joinable())
      thread = std::thread([this] { work(); });
  }
  COLOSSAL_CUDA_CALL(
      driver, cuLaunchHostFunc, stream,
      [](void *argument) {
        auto &queue = *static_cast<CudaQueue *>(argument);
        {
          std::lock_guard<std::mutex> lock(queue.mutex);
          ++queue.reached;
        }
        queue.changed.notify_all();
      },
      this);
  cuda::DevicePointer word = 0;
  COLOSSAL_CUDA_CALL(driver, cuMemHostGetDevicePointer_v2, &word, done->address(), 0);
  COLOSSAL_CUDA_CALL(driver, cuStreamWaitValue32_v2, stream, word, ticket,
                     cuda::StreamWaitValueGreaterOrEqual);
  return {};
}

void CudaQueue::work() {
  auto &ended = *reinterpret_cast<std::atomic<uint32_t> *>(done->address());
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    changed.wait(lock, [&] {
      return stopping || (!tasks.empty() && static_cast<int32_t>(reached - tasks.front().ticket) >= 0);
    });
    if (tasks.empty() || static_cast<int32_t>(reached - tasks.front().ticket) < 0)
      return; // the stream has ended without coming here
    Task task = std::move(tasks.front());
    tasks.pop_front();
    const bool run = error.ok();
    lock.unlock();
    Status status = run ? task.run() : Status();
    lock.lock();
    if (!status.ok() && error.ok())
      device.abort().raise(error = std::move(status));
    ended.store(task.ticket, std::memory_order_release);
  }
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

Status CudaQueue::stamp(int64_t &at) {
  COLOSSAL_RETURN_IF_ERROR(refuseInRecording("a time"));
  COLOSSAL_RETURN_IF_ERROR(device.makeCurrent());
  cuda::Event event = nullptr;
  if (unusedStamps.empty()) {
    COLOSSAL_CUDA_CALL(driver, cuEventCreate, &event, cuda::EventDefault);
  } else {
    event = unusedStamps.back();
    unusedStamps.pop_back();
  }
  stamps.push_back({event, &at});
  COLOSSAL_CUDA_CALL(driver, cuEventRecord, event, stream);
  return {};
}

/// The GPU's clock is brought to the host's at an event that is recorded now and seen to complete.
Status CudaQueue::readStamps() {
  if (stamps.empty())
    return {};
  cuda::Event reference = nullptr;
  COLOSSAL_CUDA_CALL(driver, cuEventCreate, &reference, cuda::EventDefault);
  COLOSSAL_CUDA_CALL(driver, cuEventRecord, reference, stream);
  COLOSSAL_CUDA_CALL(driver, cuEventSynchronize, reference);
  const int64_t atReference = now();
  for (const Stamp &stamp : stamps) {
    float milliseconds = 0;
    COLOSSAL_CUDA_CALL(driver, cuEventElapsedTime, &milliseconds, stamp.event, reference);
    *stamp.at = atReference - static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
    unusedStamps.push_back(stamp.event);
  }
  stamps.clear();
  unusedStamps.push_back(reference);
  return {};
}

} // namespace colossal::runtime
