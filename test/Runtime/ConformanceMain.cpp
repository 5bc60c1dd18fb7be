// Runs the conformance suite:  communicator-conformance local|late|any:SEED|mpi|nccl|nccl:ordered
// AXISxAXIS... [DEVICE] `late` and `any` are local on a queue of its own, so that every call returns before
// its transfer is complete; see TestCommunicators.h.
#include "Conformance.h"
#include "TestCommunicators.h"

#include "runtime/comm/Open.h"
#include "runtime/comm/StagedTransfers.h"
#include "runtime/device/Registry.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace colossal::runtime;

int main(int argc, char **argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: %s local|late|any:SEED|mpi|nccl|nccl:ordered AXISxAXIS... [DEVICE]\n",
                 argv[0]);
    return 2;
  }
  const std::string kind = argv[1], kindOfDevice = argc == 4 ? argv[3] : "cpu";
  const bool ordered = kind == "nccl:ordered";
  const bool wraps = !ordered && kind != "mpi" && kind != "nccl" && wrapTransfers(kind);
  std::vector<uint32_t> axes;
  uint32_t ranks = 1;
  for (const char *at = argv[2]; *at;) {
    char *end;
    axes.push_back(static_cast<uint32_t>(std::strtoul(at, &end, 10)));
    ranks *= axes.back();
    at = *end ? end + 1 : end;
  }
  Abort abort;
  abort.timeout = std::chrono::seconds(60);
  std::unique_ptr<Driver> driver;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Communicator> handles; // they use the devices to their ends
  Status status = openDriver(kindOfDevice, driver);
  if (status.ok())
    status = openCommunicators(wraps ? "local" : ordered ? "nccl" : kind, ranks, 50, abort, handles, ordered);
  for (size_t i = 0; status.ok() && i < handles.size(); ++i) {
    devices.emplace_back();
    status = driver->createDevice({1, 50, false}, abort, devices.back());
  }
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.describe().c_str());
    return 5;
  }
  std::vector<std::string> problems(handles.size());
  std::vector<uint64_t> checks(handles.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < handles.size(); ++i)
    threads.emplace_back([&, i] {
      Device &device = *devices[i];
      std::unique_ptr<Queue> queue = device.createQueue(wraps);
      handles[i].transfers = reachDevice(std::move(handles[i].transfers), device);
      if (Status attached = handles[i].transfers->attach(device, {queue.get()}); !attached.ok())
        problems[i] = attached.describe();
      else
        problems[i] = runConformance(handles[i], device, *queue, axes, checks[i]);
      if (!problems[i].empty())
        abort.raise({Code::RankFailed, problems[i]});
    });
  for (std::thread &thread : threads)
    thread.join();
  bool failed = false;
  for (const std::string &problem : problems)
    if (!problem.empty()) {
      std::fprintf(stderr, "%s\n", problem.c_str());
      failed = true;
    }
  if (failed) {
    handles[0].control->abort(1);
    return 1;
  }
  if (handles[0].control->rank() == 0)
    std::printf("%s %s on %s: %llu collectives on each rank agree with their definitions\n", argv[1], argv[2],
                kindOfDevice.c_str(), static_cast<unsigned long long>(checks[0]));
  return 0;
}
