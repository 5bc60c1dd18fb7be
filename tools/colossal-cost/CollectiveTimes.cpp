// Rank threads that run one collective over and over.
#include "CollectiveTimes.h"

#include "runtime/comm/Local.h"
#include "runtime/cpu/Device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace colossal::tool {

using namespace colossal::runtime;

namespace {
// As Session decides: spinning pays while every thread has a core.
constexpr unsigned kSpinsWithCore = 20000, kSpinsWithout = 20;
/// Calls are timed in windows of this many; enough windows that some meet a quiet moment.
constexpr int kWindow = 8;
constexpr double kSeconds = 0.05;
constexpr int kLeastWindows = 12;
/// Threads are made anew so many times: where another program holds a core, ranks may sit on one core for
/// long.
constexpr int kLeastAttempts = 5, kMostAttempts = 20;
constexpr double kAgreement = 1.1;

CollectiveCall makeCall(TimedCollective kind, std::size_t elements, unsigned ranks, const std::byte *src,
                        std::byte *dst) {
  CollectiveCall call;
  call.type = ElementType::F32;
  call.src = src;
  call.dst = dst;
  std::size_t part = std::max<std::size_t>(1, elements / ranks);
  switch (kind) {
  case TimedCollective::AllReduce:
    call.kind = CollectiveKind::AllReduce;
    call.reduction = Reduction::Sum;
    call.sizes = {elements};
    break;
  case TimedCollective::AllGather:
    call.kind = CollectiveKind::AllGather;
    call.sizes = {part};
    call.dstPeerStride = part;
    break;
  case TimedCollective::ReduceScatter:
    call.kind = CollectiveKind::ReduceScatter;
    call.reduction = Reduction::Sum;
    call.sizes = {part};
    call.srcPeerStride = part;
    break;
  }
  call.srcStrides = call.dstStrides = {1};
  return call;
}

} // namespace

static double timeOnce(TimedCollective kind, std::size_t bytes, unsigned ranks, unsigned cores,
                       std::string &error) {
  Abort abort;
  unsigned spins = ranks <= cores ? kSpinsWithCore : kSpinsWithout;
  std::vector<Communicator> communicators = createLocalCommunicators(ranks, spins, abort);
  std::size_t elements = std::max<std::size_t>(ranks, bytes / 4);
  std::vector<double> windows; // seconds per call, by rank 0
  std::atomic<bool> enough{false};
  Status failed;
  std::mutex mutex;
  auto work = [&](unsigned rank) {
    CpuDevice device(1, spins, abort);
    std::unique_ptr<Queue> queue = device.createQueue(false);
    std::vector<float> src(elements + ranks, 1.0f), dst(elements + ranks);
    std::vector<std::uint32_t> everyone(ranks);
    for (unsigned r = 0; r < ranks; ++r)
      everyone[r] = r;
    std::shared_ptr<Group> group;
    Status status = communicators[rank].transfers->createGroup(everyone, 0, group);
    auto call = std::make_shared<CollectiveCall>(makeCall(kind, elements, ranks,
                                                          reinterpret_cast<std::byte *>(src.data()),
                                                          reinterpret_cast<std::byte *>(dst.data())));
    call->group = group.get();
    // All ranks make as many calls: rank 0 decides before a window whether it is the last.
    auto first = std::chrono::steady_clock::now();
    for (bool last = false; status.ok() && !last;) {
      if (rank == 0) {
        double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - first).count();
        enough.store(windows.size() >= kLeastWindows && spent > kSeconds);
      }
      status = communicators[rank].control->barrier();
      last = enough.load();
      // Nobody may decide anew before all have read.
      if (status.ok())
        status = communicators[rank].control->barrier();
      auto begin = std::chrono::steady_clock::now();
      for (int c = 0; status.ok() && c < kWindow; ++c)
        status = communicators[rank].transfers->collective(call, *queue);
      if (rank == 0)
        windows.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
                          kWindow);
    }
    if (!status.ok()) {
      abort.raise(status);
      std::lock_guard<std::mutex> lock(mutex);
      failed = status;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < ranks; ++rank)
    threads.emplace_back(work, rank);
  for (std::thread &thread : threads)
    thread.join();
  if (!failed.ok() && error.empty())
    error = "a collective fails: " + failed.message();
  if (windows.empty())
    return 0;
  // Where every rank has a core, what else runs only adds; where ranks take turns, the usual turn is meant.
  std::sort(windows.begin(), windows.end());
  return windows[ranks <= cores ? windows.size() / 20 : windows.size() / 4];
}

double timeCollective(TimedCollective kind, std::size_t bytes, unsigned ranks, unsigned cores,
                      std::string &error) {
  // Until the two best attempts agree: one alone may have been lucky, and all may have met another program.
  std::vector<double> best;
  for (int attempt = 0; attempt < kMostAttempts && error.empty(); ++attempt) {
    best.push_back(timeOnce(kind, bytes, ranks, cores, error));
    std::sort(best.begin(), best.end());
    if (attempt + 1 >= kLeastAttempts && best[1] < kAgreement * best[0])
      break;
  }
  return best.empty() ? 0 : best.front();
}

} // namespace colossal::tool
