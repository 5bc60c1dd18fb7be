// The threads that carry a process's ranks, and the watch over them: a rank that fails or stops making
// progress ends all in bounded time.
#ifndef COLOSSAL_RUNTIME_EXECUTE_RANKTHREADS_H
#define COLOSSAL_RUNTIME_EXECUTE_RANKTHREADS_H

#include "runtime/execute/Rank.h"
#include "runtime/execute/Wait.h"

#include <functional>
#include <thread>

namespace colossal::runtime {

class RankThreads {
public:
  /// `spins`: how long threads wait awake between jobs.
  RankThreads(std::vector<std::unique_ptr<Rank>> &ranks, Rank::Shared &shared, unsigned spins);
  /// Joins the threads. Must not be called when `lost`.
  ~RankThreads();

  /// Runs `job` on every rank's thread and returns when all are done, or when the run was given up. Then
  /// `lost` tells whether a rank's thread is still stuck: neither these threads nor what it uses may be
  /// destroyed.
  Status run(const std::function<Status(Rank &)> &job);
  bool lost() const { return stuck; }
  void interrupt() { interrupted.store(true); }

private:
  void work(size_t index);
  Status whoIsStuck(const Status &status) const;
  void watch(uint64_t &progress, std::chrono::steady_clock::time_point &since);
  /// Without progress for `idle`, longer than is allowed where `predicted` seconds are: why, and by whose
  /// fault.
  Status standstill(std::chrono::milliseconds idle, double predicted) const;
  /// The same where ranks live in other processes: who does not answer, or works while others wait.
  Status standstillAmong(const std::vector<std::string> &answers, const std::string &what) const;

  std::vector<std::unique_ptr<Rank>> &ranks;
  Rank::Shared &shared;
  unsigned spins;
  const std::function<Status(Rank &)> *job = nullptr;
  WaitWord generation, finished;
  std::atomic<bool> stopping{false}, interrupted{false};
  bool stuck = false;
  std::chrono::steady_clock::time_point asked{};
  std::vector<std::thread> threads;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_RANKTHREADS_H
