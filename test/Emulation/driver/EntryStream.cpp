// Entry points: streams, events, and what is enqueued.
#include "Entry.h"

#include <cstring>

namespace colossal::cuda {

namespace {

Result checkStream(const Call &call, Stream stream) {
  if (!call)
    return call.refused;
  if (!call.gpu().streams.count(stream))
    return InvalidHandle;
  return stream->capture && stream->capture->invalid ? StreamCaptureInvalidated : Success;
}

Result checkEvent(const Call &call, Event event) {
  if (!call)
    return call.refused;
  return Machine::get().events.count(event) ? Success : InvalidHandle;
}

/// Makes a call that a capture cannot take break it.
Result refuseCapturing(Stream stream) {
  if (!stream->capture)
    return Success;
  stream->capture->invalid = true;
  return StreamCaptureUnsupported;
}

} // namespace

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

Result cuStreamCreate(Stream *stream, unsigned flags) {
  Call call("cuStreamCreate", Call::Context);
  if (!call)
    return call.refused;
  // Streams that the default stream orders are not modelled.
  if (flags != StreamNonBlocking)
    return NotSupported;
  Machine &machine = Machine::get();
  const unsigned actor = machine.actors++;
  *stream = new StreamHandle(call.gpu(), actor, machine.settings.seed * 1000 + actor);
  call.gpu().streams.insert(*stream);
  return Success;
}

Result cuStreamDestroy_v2(Stream stream) {
  Call call("cuStreamDestroy_v2", Call::Context | Call::EvenAfterErrors);
  if (!call)
    return call.refused;
  if (!call.gpu().streams.erase(stream))
    return InvalidHandle;
  // Its work goes on to the end; then it goes.
  stream->stopping = true;
  Machine::get().changed.notify_all();
  call.lock.unlock();
  delete stream;
  return Success;
}

Result cuStreamQuery(Stream stream) {
  Call call("cuStreamQuery", Call::Context);
  if (Result result = checkStream(call, stream); result != Success)
    return result;
  if (Result result = refuseCapturing(stream); result != Success)
    return result;
  if (!stream->idle())
    return NotReady;
  Machine::get().host.merge(stream->clock);
  return call.gpu().error;
}

Result cuStreamSynchronize(Stream stream) {
  Call call("cuStreamSynchronize", Call::Context);
  if (Result result = checkStream(call, stream); result != Success)
    return result;
  if (Result result = refuseCapturing(stream); result != Success)
    return result;
  Machine::get().changed.wait(call.lock, [&] { return stream->idle(); });
  Machine::get().host.merge(stream->clock);
  return call.gpu().error;
}

Result cuStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  Call call("cuStreamWaitEvent", Call::Context);
  if (Result result = checkStream(call, stream); result != Success)
    return result;
  if (Result result = checkEvent(call, event); result != Success)
    return result;
  if (flags != 0)
    return InvalidValue;
  if (event->capture) {
    // The stream joins the capture, or waits inside of it.
    if (!Machine::get().captures.count(event->capture))
      return CapturedEvent; // it ended: the event stands for nothing any more
    if (stream->capture && stream->capture != event->capture) {
      stream->capture->invalid = true;
      return StreamCaptureIsolation;
    }
    if (!stream->capture) {
      stream->capture = event->capture;
      stream->last.clear();
    }
    for (unsigned node : event->nodes)
      if (std::find(stream->last.begin(), stream->last.end(), node) == stream->last.end())
        stream->last.push_back(node);
    return Success;
  }
  if (event->recorded == 0)
    return Success;
  if (stream->capture) {
    stream->capture->invalid = true;
    return StreamCaptureIsolation;
  }
  stream->clock.merge(event->clock);
  stream->enqueueControl([event, serial = event->serial, record = event->recorded, gpu = &call.gpu()] {
    Machine &machine = Machine::get();
    std::unique_lock<std::mutex> guard(machine.mutex);
    machine.changed.wait(guard, [&] {
      return !machine.events.count(event) || event->serial != serial || event->completed >= record ||
             gpu->error != Success;
    });
    return Accesses();
  });
  return Success;
}

Result cuStreamWriteValue64_v2(Stream stream, DevicePointer address, uint64_t value, unsigned flags) {
  Call call("cuStreamWriteValue64_v2", Call::Context);
  if (Result result = checkStream(call, stream); result != Success)
    return result;
  auto *word = reinterpret_cast<std::atomic<std::uint64_t> *>(address);
  if (flags != 0 || address % 8 || !call.gpu().memory.isPinned(word, 8))
    return InvalidValue;
  stream->enqueue("a write of a word", [word, value] {
    word->store(value);
    return Accesses();
  });
  return Success;
}

Result cuStreamWaitValue32_v2(Stream stream, DevicePointer address, uint32_t value, unsigned flags) {
  Call call("cuStreamWaitValue32_v2", Call::Context);
  if (Result result = checkStream(call, stream); result != Success)
    return result;
  auto *word = reinterpret_cast<std::atomic<std::uint32_t> *>(address);
  if (flags != StreamWaitValueGreaterOrEqual || address % 4 || !call.gpu().memory.isPinned(word, 4))
    return InvalidValue;
  stream->enqueue("a wait for a word", [word, value, gpu = &call.gpu()] {
    while (static_cast<std::int32_t>(word->load() - value) < 0) {
      {
        std::lock_guard<std::mutex> guard(Machine::get().mutex);
        if (gpu->error != Success)
          break;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return Accesses();
  });
  return Success;
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

Result cuEventCreate(Event *event, unsigned flags) {
  Call call("cuEventCreate", Call::Context);
  if (!call)
    return call.refused;
  *event = new EventHandle;
  (*event)->timed = !(flags & EventDisableTiming);
  (*event)->serial = ++Machine::get().eventsMade;
  Machine::get().events.insert(*event);
  return Success;
}

Result cuEventDestroy_v2(Event event) {
  Call call("cuEventDestroy_v2", Call::Context | Call::EvenAfterErrors);
  if (Result result = checkEvent(call, event); result != Success)
    return result;
  Machine &machine = Machine::get();
  // A record that is under way still writes to it.
  machine.changed.wait(call.lock,
                       [&] { return event->completed >= event->recorded || call.gpu().error != Success; });
  machine.events.erase(event);
  machine.changed.notify_all();
  delete event;
  return Success;
}

Result cuEventRecord(Event event, Stream stream) {
  Call call("cuEventRecord", Call::Context);
  if (Result result = checkStream(call, stream); result != Success)
    return result;
  if (Result result = checkEvent(call, event); result != Success)
    return result;
  event->capture = stream->capture;
  if (event->capture) {
    event->nodes = stream->last;
    return Success;
  }
  stream->enqueueControl([event, record = ++event->recorded] {
    std::lock_guard<std::mutex> guard(Machine::get().mutex);
    if (!Machine::get().events.count(event))
      return Accesses();
    event->completed = std::max(event->completed, record);
    event->at = std::chrono::steady_clock::now();
    return Accesses();
  });
  event->clock = stream->clock;
  return Success;
}

Result cuEventQuery(Event event) {
  Call call("cuEventQuery", Call::Context | Call::OutsideCapture);
  if (Result result = checkEvent(call, event); result != Success)
    return result;
  if (event->capture)
    return CapturedEvent;
  if (event->completed < event->recorded)
    return NotReady;
  Machine::get().host.merge(event->clock);
  return Success;
}

Result cuEventSynchronize(Event event) {
  Call call("cuEventSynchronize", Call::Context | Call::OutsideCapture);
  if (Result result = checkEvent(call, event); result != Success)
    return result;
  if (event->capture)
    return CapturedEvent;
  Gpu &gpu = call.gpu();
  Machine::get().changed.wait(call.lock,
                              [&] { return event->completed >= event->recorded || gpu.error != Success; });
  Machine::get().host.merge(event->clock);
  return gpu.error;
}

Result cuEventElapsedTime(float *milliseconds, Event start, Event end) {
  Call call("cuEventElapsedTime", Call::Context);
  for (Event event : {start, end})
    if (Result result = checkEvent(call, event); result != Success)
      return result;
    else if (!event->timed || event->recorded == 0 || event->capture)
      return InvalidHandle;
  if (start->completed < start->recorded || end->completed < end->recorded)
    return NotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(end->at - start->at).count();
  return Success;
}

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

Result cuMemcpyHtoDAsync_v2(DevicePointer destination, const void *source, size_t bytes, Stream stream) {
  Call call("cuMemcpyHtoDAsync_v2", Call::Context);
  if (Result result = checkStream(call, stream); result != Success)
    return result;
  std::byte *to = call.gpu().memory.find(destination, bytes);
  // A driver takes memory that is not pinned and waits; what asks for that has made a mistake.
  if (!to || !call.gpu().memory.isPinned(source, bytes))
    return InvalidValue;
  stream->enqueue("an upload", [=] {
    std::memcpy(to, source, bytes); // what the source holds when the stream gets here
    return Accesses{{destination, destination + bytes, true}};
  });
  return Success;
}

Result cuMemcpyDtoHAsync_v2(void *destination, DevicePointer source, size_t bytes, Stream stream) {
  Call call("cuMemcpyDtoHAsync_v2", Call::Context);
  if (Result result = checkStream(call, stream); result != Success)
    return result;
  const std::byte *from = call.gpu().memory.find(source, bytes);
  if (!from || !call.gpu().memory.isPinned(destination, bytes))
    return InvalidValue;
  stream->enqueue("a download", [=] {
    std::memcpy(destination, from, bytes);
    return Accesses{{source, source + bytes, false}};
  });
  return Success;
}

Result cuMemcpyDtoDAsync_v2(DevicePointer destination, DevicePointer source, size_t bytes, Stream stream) {
  Call call("cuMemcpyDtoDAsync_v2", Call::Context);
  if (Result result = checkStream(call, stream); result != Success)
    return result;
  std::byte *to = call.gpu().memory.find(destination, bytes);
  const std::byte *from = call.gpu().memory.find(source, bytes);
  if (!to || !from)
    return InvalidValue;
  stream->enqueue("a copy", [=] {
    std::memmove(to, from, bytes);
    return Accesses{{source, source + bytes, false}, {destination, destination + bytes, true}};
  });
  return Success;
}

Result cuMemsetD8Async(DevicePointer destination, unsigned char value, size_t bytes, Stream stream) {
  Call call("cuMemsetD8Async", Call::Context);
  if (Result result = checkStream(call, stream); result != Success)
    return result;
  std::byte *to = call.gpu().memory.find(destination, bytes);
  if (!to)
    return InvalidValue;
  stream->enqueue("a fill", [=] {
    std::memset(to, value, bytes);
    return Accesses{{destination, destination + bytes, true}};
  });
  return Success;
}

Result cuLaunchHostFunc(Stream stream, HostFunction function, void *argument) {
  Call call("cuLaunchHostFunc", Call::Context);
  if (Result result = checkStream(call, stream); result != Success)
    return result;
  if (!function)
    return InvalidValue;
  stream->enqueue("a host function", [function, argument, stream] {
    Machine &machine = Machine::get();
    {
      // Whoever it tells knows of the stream's work so far.
      std::lock_guard<std::mutex> guard(machine.mutex);
      machine.host.merge(stream->begun);
    }
    machine.runHostFunction(function, argument);
    return Accesses();
  });
  return Success;
}

Result cuLaunchKernel(Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                      unsigned blockY, unsigned blockZ, unsigned sharedBytes, Stream stream,
                      void **parameters, void **extra) {
  Call call("cuLaunchKernel", Call::Context);
  if (Result result = checkStream(call, stream); result != Success)
    return result;
  if (!function)
    return InvalidHandle;
  const ptx::Kernel &kernel = *function->kernel;
  if (extra || (!kernel.parameters.empty() && !parameters))
    return InvalidValue;
  ptx::Launch launch;
  launch.kernel = kernel.name;
  launch.grid = {gridX, gridY, gridZ};
  launch.block = {blockX, blockY, blockZ};
  launch.dynamicShared = sharedBytes;
  const std::uint64_t threads = launch.block.count();
  if (launch.grid.count() == 0 || threads == 0 || gridX > 0x7fffffffu || gridY > 65535 || gridZ > 65535)
    return InvalidValue;
  if (threads > 1024 || (kernel.maximalThreads && threads > *kernel.maximalThreads) ||
      sharedBytes + kernel.staticShared > 48 * 1024)
    return InvalidValue;
  // Parameters are taken now: what they point to may go.
  launch.parameters.resize(kernel.parameterBytes);
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i)
    std::memcpy(launch.parameters.data() + kernel.parameters[i].offset, parameters[i],
                kernel.parameters[i].size);
  launch.seed = Machine::get().settings.seed;
  stream->enqueue("kernel " + kernel.name,
                  [gpu = &call.gpu(), module = function->module, launch = std::move(launch)] {
                    return runLaunch(*gpu, module, launch);
                  });
  return Success;
}

Result colossalEmulatedEnqueue(Stream stream, const char *what, EmulatedUse *uses, size_t count,
                               EmulatedWork work, void *argument) {
  Call call("colossalEmulatedEnqueue", Call::Context);
  if (Result result = checkStream(call, stream); result != Success)
    return result;
  for (size_t i = 0; i < count; ++i)
    if (!(uses[i].data = call.gpu().memory.find(uses[i].begin, uses[i].bytes)))
      return InvalidValue;
  stream->enqueue(what, [own = std::vector<EmulatedUse>(uses, uses + count), work, argument] {
    work(argument, own.data());
    Accesses accesses;
    for (const EmulatedUse &use : own)
      accesses.push_back({use.begin, use.begin + use.bytes, use.write});
    return accesses;
  });
  return Success;
}

} // namespace colossal::cuda
