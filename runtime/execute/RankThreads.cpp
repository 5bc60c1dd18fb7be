// Jobs on rank threads by generation counter; the caller watches while it waits.
#include "runtime/execute/RankThreads.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <sstream>

namespace colossal::runtime {

namespace {
using Clock = std::chrono::steady_clock;
// What ranks get to notice an abort before they count as stuck.
constexpr std::chrono::seconds grace(2);
} // namespace

RankThreads::RankThreads(std::vector<std::unique_ptr<Rank>> &ranks, Rank::Shared &shared, unsigned spins)
    : ranks(ranks), shared(shared), spins(spins) {
  for (size_t index = 0; index < ranks.size(); ++index)
    threads.emplace_back([this, index] { work(index); });
}

RankThreads::~RankThreads() {
  stopping.store(true);
  generation.increment();
  for (std::thread &thread : threads)
    thread.join();
}

void RankThreads::work(size_t index) {
  uint32_t seen = 0;
  for (;;) {
    Patience patience(spins);
    while (!patience.waitWhile(generation, seen, 1000)) {
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

Status RankThreads::run(const std::function<Status(Rank &)> &work) {
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
  Patience patience(spins / 4);
  for (uint32_t done = finished.load(); done != all; done = finished.load()) {
    if (patience.waitWhile(finished, done, 20))
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

namespace {

/// Whether an instruction only ends when other ranks do their part. Between instructions a rank waits for the
/// others to begin or to end.
bool waitsForOthers(const plan::Instruction *instruction) {
  return !instruction || instruction->has_collective() || instruction->has_recv();
}

/// What a process answers when others ask: whether it waits, how far it is, and where.
struct Doing {
  bool waits = false;
  uint64_t progress = 0;
  std::string where;

  std::string text() const { return (waits ? "waits " : "works ") + std::to_string(progress) + ' ' + where; }
  static Doing parse(const std::string &text) {
    Doing doing;
    doing.waits = text.rfind("waits ", 0) == 0;
    char *end = nullptr;
    doing.progress = std::strtoull(text.c_str() + std::min<size_t>(6, text.size()), &end, 10);
    doing.where = *end ? end + 1 : end;
    return doing;
  }
};

Doing doingOf(const Rank &rank, const plan::Plan &plan) {
  const plan::Instruction *instruction = rank.current();
  return {waitsForOthers(instruction), rank.progress(),
          instruction ? locateInstruction(plan, instruction) : "between programs"};
}

std::string list(const std::vector<size_t> &ranks) {
  std::string names = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i)
    names += (i ? ", " : "") + std::to_string(ranks[i]);
  return names;
}

} // namespace

Status RankThreads::whoIsStuck(const Status &status) const {
  std::string message = status.message();
  for (const std::unique_ptr<Rank> &rank : ranks)
    if (const plan::Instruction *instruction = rank->current()) {
      const std::string name = std::to_string(rank->rank()),
                        place = locateInstruction(*shared.plan, instruction);
      // Under MPI a wait cannot be called off, and says nothing about the one who waits.
      message += waitsForOthers(instruction) ? "; rank " + name + " waits in " + place
                                             : "; rank " + name + " does not come back from " + place;
    }
  return Status(status.code(), message).withRank(status.rank()).withInstruction(status.instruction());
}

void RankThreads::watch(uint64_t &progress, Clock::time_point &since) {
  if (interrupted.load())
    shared.abort.raise({Code::Interrupted, "interrupted"});
  uint64_t now = 0;
  for (const std::unique_ptr<Rank> &rank : ranks)
    now += rank->progress();
  const Clock::time_point at = Clock::now();
  if (now != progress) {
    progress = now;
    since = at;
  }
  // Others are asked in the last seconds before giving up, so that their answers are fresh then.
  constexpr std::chrono::milliseconds pause(400), early(5000);
  // The rank that may wait the least: one that computes gives up before those that wait for it.
  double predicted = 0;
  Clock::duration limit = Deadline::longest;
  for (const std::unique_ptr<Rank> &rank : ranks) {
    double seconds = 0;
    if (const Clock::duration allowed = rank->allowed(seconds); allowed < limit)
      limit = allowed, predicted = seconds;
  }
  const auto idle = at - since;
  const bool ask = idle > limit - std::min<Clock::duration>(limit / 2, early) && at - asked > pause;
  if (ask)
    asked = at;
  ranks.front()->control().answer(doingOf(*ranks.front(), *shared.plan).text(), ask);
  // The ranks that wait for others in this process gave up before this, so what is left hangs by itself.
  if (idle > limit + std::chrono::milliseconds(500))
    shared.abort.raise(standstill(std::chrono::duration_cast<std::chrono::milliseconds>(limit), predicted));
}

Status RankThreads::standstill(std::chrono::milliseconds idle, double predicted) const {
  std::ostringstream text;
  text << "no progress for " << idle.count() / 1000 << " s";
  if (shared.deadline.followsPrediction() && predicted > 0)
    text << " (" << predicted << " s are predicted; --timeout says what is allowed)";
  const std::string what = text.str();
  const auto fresh = std::min(idle, std::chrono::milliseconds(2000));
  if (std::vector<std::string> answers = ranks.front()->control().answers(fresh); !answers.empty())
    return standstillAmong(answers, what);
  // As among processes: one that works holds up those that wait; of equals the one that has come least far.
  const Rank *behind = nullptr;
  for (const std::unique_ptr<Rank> &rank : ranks)
    if (rank->current() && (!behind || std::pair(waitsForOthers(rank->current()), rank->progress()) <
                                           std::pair(waitsForOthers(behind->current()), behind->progress())))
      behind = rank.get();
  if (behind)
    return Status(Code::Timeout, what)
        .withRank(static_cast<int>(behind->rank()))
        .withInstruction(locateInstruction(*shared.plan, behind->current()));
  return Status(Code::Timeout, what + " while waiting for the other ranks between programs")
      .withRank(static_cast<int>(ranks.front()->rank()));
}

Status RankThreads::standstillAmong(const std::vector<std::string> &answers, const std::string &what) const {
  const size_t self = ranks.front()->rank();
  const Doing own = doingOf(*ranks.front(), *shared.plan);
  std::vector<size_t> silent;
  const Doing *behind = &own;
  size_t whose = self;
  std::vector<Doing> others(answers.size());
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    if (rank == self)
      continue;
    if (answers[rank].empty()) {
      silent.push_back(rank);
      continue;
    }
    others[rank] = Doing::parse(answers[rank]);
    // One that works holds up those that wait; of equals the one that has come the least far.
    if (std::pair(others[rank].waits, others[rank].progress) < std::pair(behind->waits, behind->progress))
      behind = &others[rank], whose = rank;
  }
  if (!silent.empty())
    return Status(Code::Timeout,
                  what + ": " + list(silent) + (silent.size() == 1 ? " does" : " do") +
                      " not answer: the process is stopped or dead, or does not take part in the run")
        .withRank(static_cast<int>(self));
  if (whose == self)
    return Status(Code::Timeout, what).withRank(static_cast<int>(self)).withInstruction(own.where);
  return Status(Code::Timeout, what + ": " + list({whose}) +
                                   (behind->waits ? " waits in " : " is still in ") + behind->where)
      .withRank(static_cast<int>(self));
}

} // namespace colossal::runtime
