// What many runs of one program tell: percentiles, throughput, and where the time goes, against what was
// predicted.
#ifndef COLOSSAL_TOOLS_COLOSSAL_RUN_BENCHMARK_H
#define COLOSSAL_TOOLS_COLOSSAL_RUN_BENCHMARK_H

#include "runtime/include/colossal-runtime.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace colossal::runtime {

struct Benchmark {
  unsigned warmUps = 0;
  std::vector<double>
      seconds; ///< of each run, sorted; where runs overlap, from the end of the run before to its own
  bool overlaps = false;  ///< a rank began with the next run when it had ended one
  double loadSeconds = 0; ///< to open the plan: code, memory, weights
  uint64_t items = 0;     ///< of a run's batch; 0 where inputs and outputs have none in common
  unsigned recorded = 0;  ///< runs that `operators` are of
  std::vector<colossal_profile_row> operators; ///< the dearest; texts belong to the session

  double total() const;
  /// The time that `share` of the runs did not exceed; share 0.5 is the median.
  double percentile(double share) const;
};

/// Runs, warm-ups and recorded runs where --benchmark gives no other number.
unsigned defaultWarmUps(unsigned runs);
unsigned recordedRuns(unsigned runs);

/// The first dimension of all inputs and outputs of a program, if they have one and the same.
uint64_t batchOf(const colossal_session *session, size_t program);

/// "minimum 1.2 ms, ..." and the table of operators.
std::string benchmarkText(const Benchmark &benchmark);
/// Puts its keys into the report.
void addJson(const Benchmark &benchmark, nlohmann::json &report);
nlohmann::json trafficJson(const std::vector<colossal_traffic_row> &rows);

} // namespace colossal::runtime

#endif // COLOSSAL_TOOLS_COLOSSAL_RUN_BENCHMARK_H
