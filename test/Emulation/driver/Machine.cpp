#include "Machine.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace colossal::cuda {

namespace {

thread_local ContextHandle *currentContext = nullptr;
thread_local bool runsHostFunction = false;

} // namespace

void setCurrentContext(cuda::Context context) {
  currentContext = context;
}

//===----------------------------------------------------------------------===//
// Machine
//===----------------------------------------------------------------------===//

Machine &Machine::get() {
  // Never destroyed: streams that nobody destroyed go on until the process ends.
  static auto &machine = *new Machine;
  return machine;
}

Machine::Machine() {
  for (int number = 0; number < settings.gpus; ++number)
    gpus.push_back(std::make_unique<Gpu>(number, settings));
  std::thread([this] {
    runsHostFunction = true;
    std::unique_lock<std::mutex> guard(hostMutex);
    for (;;) {
      hostChanged.wait(guard, [&] { return !hostCalls.empty(); });
      HostCall &call = *hostCalls.front();
      hostCalls.pop_front();
      guard.unlock();
      call.function(call.argument);
      guard.lock();
      call.done = true;
      hostChanged.notify_all();
    }
  }).detach();
}

void Machine::runHostFunction(HostFunction function, void *argument) {
  HostCall call{function, argument};
  std::unique_lock<std::mutex> guard(hostMutex);
  hostCalls.push_back(&call);
  hostChanged.notify_all();
  hostChanged.wait(guard, [&] { return call.done; });
}

bool Machine::inHostFunction() {
  return runsHostFunction;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

Call::Call(const char *symbol, unsigned needs) {
  Machine &machine = Machine::get();
  lock = std::unique_lock<std::mutex>(machine.mutex);
  if (auto failures = machine.settings.failures.find(symbol); failures != machine.settings.failures.end())
    if (auto failure = failures->second.find(++machine.calls[symbol]); failure != failures->second.end()) {
      refused = failure->second;
      return;
    }
  if (Machine::inHostFunction()) {
    refused = NotPermitted;
    return;
  }
  if (needs != Nothing && !machine.initialized) {
    refused = NotInitialized;
    return;
  }
  if (needs & OutsideCapture)
    for (const std::shared_ptr<Capture> &capture : machine.captures)
      if (capture->mode == CaptureModeGlobal ||
          (capture->mode == CaptureModeThreadLocal && capture->thread == std::this_thread::get_id())) {
        capture->invalid = true;
        refused = StreamCaptureUnsupported;
        return;
      }
  if (!(needs & Context))
    return;
  if (!currentContext || !currentContext->gpu->retained) {
    refused = InvalidContext;
    return;
  }
  current = currentContext->gpu;
  if (!(needs & EvenAfterErrors))
    refused = current->error;
}

//===----------------------------------------------------------------------===//
// GPUs
//===----------------------------------------------------------------------===//

void Gpu::fail(Result code, const std::string &why) {
  if (error == Success)
    error = code;
  std::fprintf(stderr, "emulated GPU %d: %s\n", number, why.c_str());
  Machine::get().changed.notify_all();
}

void Gpu::use(const Accesses &accesses, unsigned actor, const Clock &clock, const std::string &what) {
  if (accesses.empty() || !Machine::get().settings.checks)
    return;
  if (std::string problem = order.touch(accesses, actor, clock, what); !problem.empty())
    fail(LaunchFailed, problem);
}

Accesses runLaunch(Gpu &gpu, const std::shared_ptr<ptx::Module> &module, ptx::Launch launch) {
  Machine &machine = Machine::get();
  std::vector<std::shared_ptr<const Memory::Allocation>> kept;
  {
    std::lock_guard<std::mutex> guard(machine.mutex);
    kept = gpu.memory.list(launch.buffers);
  }
  launch.checkGlobalRaces = launch.reportTouched = machine.settings.checks;
  launch.threads = machine.settings.threads;
  const ptx::Report report = module->run(launch);
  machine.instructions += report.laneInstructions;
  if (!report.clean()) {
    std::ostringstream words;
    words << report.error;
    Result code = report.error.empty() ? LaunchFailed : InvalidValue;
    for (const ptx::Fault &fault : report.faults) {
      words << fault;
      if (fault.kind == ptx::FaultKind::OutOfBounds)
        code = IllegalAddress;
      else if (fault.kind == ptx::FaultKind::Misaligned && code != IllegalAddress)
        code = MisalignedAddress;
    }
    std::lock_guard<std::mutex> guard(machine.mutex);
    gpu.fail(code, words.str());
  }
  Accesses accesses;
  for (const ptx::Touched &touched : report.touched)
    accesses.push_back({touched.begin, touched.end, touched.written});
  return accesses;
}

Accesses runNodes(Gpu &gpu, const std::vector<Node> &nodes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<unsigned> ready, missing(nodes.size());
  std::vector<std::vector<unsigned>> next(nodes.size());
  std::vector<Clock> clocks(nodes.size());
  for (unsigned node = 0; node < nodes.size(); ++node) {
    for (unsigned before : nodes[node].after) {
      clocks[node].merge(clocks[before]);
      next[before].push_back(node);
      ++missing[node];
    }
    clocks[node].set(node, 1);
    if (!missing[node])
      ready.push_back(node);
  }
  Order order;
  Accesses all;
  while (!ready.empty()) {
    const std::size_t pick = random() % ready.size();
    const unsigned node = ready[pick];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(pick));
    const Accesses accesses = nodes[node].run();
    if (Machine::get().settings.checks)
      if (std::string problem = order.touch(accesses, node, clocks[node], nodes[node].what);
          !problem.empty()) {
        std::lock_guard<std::mutex> guard(Machine::get().mutex);
        gpu.fail(LaunchFailed, "in a graph, " + problem);
      }
    all.insert(all.end(), accesses.begin(), accesses.end());
    for (unsigned after : next[node])
      if (--missing[after] == 0)
        ready.push_back(after);
  }
  return all;
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

StreamHandle::StreamHandle(Gpu &gpu, unsigned actor, std::uint64_t seed)
    : gpu(gpu), actor(actor), random(seed), thread([this] { loop(); }) {}

StreamHandle::~StreamHandle() {
  thread.join();
}

void StreamHandle::enqueue(std::string what, Work work) {
  if (!capture)
    return add(std::move(what), std::move(work));
  capture->nodes.push_back({std::move(what), std::move(work), last});
  last = {static_cast<unsigned>(capture->nodes.size() - 1)};
}

void StreamHandle::enqueueControl(Work work) {
  add("", std::move(work));
}

void StreamHandle::add(std::string what, Work work) {
  clock.merge(Machine::get().host);
  clock.set(actor, clock.of(actor) + 1);
  items.push_back({std::move(what), std::move(work), clock});
  ++pending;
  Machine::get().changed.notify_all();
}

void StreamHandle::loop() {
  Machine &machine = Machine::get();
  std::unique_lock<std::mutex> guard(machine.mutex);
  for (;;) {
    machine.changed.wait(guard, [&] { return stopping || !items.empty(); });
    if (items.empty())
      return;
    Item item = std::move(items.front());
    items.pop_front();
    begun = item.clock;
    const bool broken = gpu.error != Success;
    const unsigned chance = random() % 16;
    guard.unlock();
    if (chance < 2 && !broken)
      std::this_thread::sleep_for(std::chrono::microseconds(chance ? 20 : 200));
    const Accesses accesses = broken ? Accesses() : item.run();
    guard.lock();
    gpu.use(accesses, actor, item.clock, item.what);
    --pending;
    machine.changed.notify_all();
  }
}

} // namespace colossal::cuda
