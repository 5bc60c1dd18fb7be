// Jobs on rank threads by generation counter; the caller watches while it waits.
#include "runtime/execute/Crew.h"

#include <exception>
#include <new>

namespace colossal::runtime {

namespace {
using Clock = std::chrono::steady_clock;
// What ranks get to notice an abort before they count as stuck.
constexpr std::chrono::seconds grace(2);
} // namespace

Crew::Crew(std::vector<std::unique_ptr<Rank>> &ranks, Rank::Shared &shared, unsigned spins)
    : ranks(ranks), shared(shared), spins(spins) {
  for (size_t index = 0; index < ranks.size(); ++index)
    threads.emplace_back([this, index] { work(index); });
}

Crew::~Crew() {
  stopping.store(true);
  generation.increment();
  for (std::thread &thread : threads)
    thread.join();
}

void Crew::work(size_t index) {
  uint32_t seen = 0;
  for (;;) {
    while (!generation.waitWhile(seen, spins, 1000)) {
    }
    ++seen;
    if (stopping.load())
      return;
    Status status;
    try {
      status = (*job)(*ranks[index]);
    } catch (const std::bad_alloc &) {
      status = {Code::OutOfMemory, "out of memory"};
    } catch (const std::exception &error) {
      status = {Code::Internal, error.what()};
    }
    if (!status.ok())
      shared.abort.raise(std::move(status).withRank(static_cast<int>(ranks[index]->rank())));
    finished.increment();
  }
}

Status Crew::run(const std::function<Status(Rank &)> &work) {
  // Programs that end before anybody looks around are ended between them.
  if (interrupted.load())
    shared.abort.raise({Code::Interrupted, "interrupted"});
  if (shared.abort.raised())
    return shared.abort.status();
  job = &work;
  finished.store(0);
  generation.increment();
  const auto all = static_cast<uint32_t>(ranks.size());
  uint64_t progress = 0;
  Clock::time_point since = Clock::now(), abortedAt{};
  // A short spin catches small models; then the wait is a sleep that looks around now and then.
  for (uint32_t done = finished.load(); done != all; done = finished.load()) {
    if (finished.waitWhile(done, spins / 4, 20))
      continue;
    watch(progress, since);
    if (!shared.abort.raised())
      continue;
    if (abortedAt == Clock::time_point{})
      abortedAt = Clock::now();
    if (Clock::now() - abortedAt > grace) {
      stuck = true;
      return whoIsStuck(shared.abort.status());
    }
  }
  return shared.abort.raised() ? shared.abort.status() : Status();
}

Status Crew::whoIsStuck(Status status) const {
  std::string message = status.message();
  for (const std::unique_ptr<Rank> &rank : ranks)
    if (const plan::Instruction *instruction = rank->current())
      message += "; rank " + std::to_string(rank->rank()) + " does not come back from " +
                 locateInstruction(*shared.plan, instruction);
  return Status(status.code(), message).withRank(status.rank()).withInstruction(status.instruction());
}

void Crew::watch(uint64_t &progress, Clock::time_point &since) {
  if (interrupted.load())
    shared.abort.raise({Code::Interrupted, "interrupted"});
  uint64_t now = 0;
  for (const std::unique_ptr<Rank> &rank : ranks)
    now += rank->progress();
  if (now != progress) {
    progress = now;
    since = Clock::now();
  } else if (Clock::now() - since > shared.abort.timeout + std::chrono::milliseconds(500)) {
    // The ranks that wait for others gave up before this, so what is left hangs by itself.
    const std::string what = "no progress for " + std::to_string(shared.abort.timeout.count() / 1000) + " s";
    for (const std::unique_ptr<Rank> &rank : ranks)
      if (const plan::Instruction *instruction = rank->current())
        shared.abort.raise(Status(Code::Timeout, what)
                               .withRank(static_cast<int>(rank->rank()))
                               .withInstruction(locateInstruction(*shared.plan, instruction)));
    // Between instructions a rank waits for the others to begin or to end; those in other processes name
    // themselves.
    shared.abort.raise(Status(Code::Timeout, what + " while waiting for the other ranks between programs")
                           .withRank(static_cast<int>(ranks.front()->rank())));
  }
}

} // namespace colossal::runtime
