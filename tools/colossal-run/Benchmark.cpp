// Figures of many runs, as text and as JSON.
#include "Benchmark.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace colossal::runtime {

namespace {

template <class... Values>
std::string format(const char *pattern, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

} // namespace

double Benchmark::total() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

double Benchmark::percentile(double share) const {
  const auto place = static_cast<size_t>(share * static_cast<double>(seconds.size()));
  return seconds[std::min(place, seconds.size() - 1)];
}

unsigned defaultWarmUps(unsigned runs) {
  return std::min(5u, 1 + runs / 10);
}

unsigned recordedRuns(unsigned runs) {
  return std::min(5u, runs);
}

uint64_t batchOf(const colossal_session *session, size_t program) {
  uint64_t batch = 0;
  bool any = false;
  auto see = [&](size_t count, auto get) {
    for (size_t i = 0; i < count; ++i) {
      colossal_tensor tensor;
      if (get(session, program, i, &tensor) != COLOSSAL_OK)
        continue;
      const uint64_t first = tensor.rank == 0 ? 0 : tensor.shape[0];
      batch = any && batch != first ? 0 : first;
      any = true;
      if (batch == 0)
        return false;
    }
    return true;
  };
  const bool same = see(colossal_input_count(session, program), colossal_input) &&
                    see(colossal_output_count(session, program), colossal_output);
  return same ? batch : 0;
}

std::string benchmarkText(const Benchmark &benchmark) {
  std::string text = format("minimum %.3f ms, median %.3f ms, 90 %% within %.3f ms, 99 %% within %.3f ms\n",
                            benchmark.seconds.front() * 1e3, benchmark.percentile(0.5) * 1e3,
                            benchmark.percentile(0.9) * 1e3, benchmark.percentile(0.99) * 1e3);
  const double runs = static_cast<double>(benchmark.seconds.size()) / benchmark.total();
  text += format("%.6g runs a second", runs);
  if (benchmark.items)
    text += format(", %.6g items (of %llu a run)", runs * static_cast<double>(benchmark.items),
                   static_cast<unsigned long long>(benchmark.items));
  if (benchmark.overlaps)
    text += "; runs overlapped, each counts from the end of the one before";
  text += format("; loaded in %.3f s, %u runs to warm up\n", benchmark.loadSeconds, benchmark.warmUps);
  if (benchmark.operators.empty())
    return text;
  text += format("dearest operators in a run, average of the ranks and of %u recorded runs:\n"
                 "  measured ms  predicted ms  waiting ms  operator (kernel)\n",
                 benchmark.recorded);
  for (const colossal_profile_row &row : benchmark.operators) {
    const std::string predicted =
        row.predicted_seconds > 0 ? format("%12.4f", row.predicted_seconds * 1e3) : format("%12s", "-");
    text += format("  %11.4f  ", row.seconds * 1e3) + predicted +
            format("  %10.4f  ", row.waiting_seconds * 1e3) + row.name +
            (*row.kernel ? std::string(" (") + row.kernel + ")" : "") + "\n";
  }
  return text;
}

void addJson(const Benchmark &benchmark, nlohmann::json &report) {
  const double runs = static_cast<double>(benchmark.seconds.size()) / benchmark.total();
  report["load_s"] = benchmark.loadSeconds;
  report["warm_up_runs"] = benchmark.warmUps;
  report["runs_overlap"] = benchmark.overlaps;
  report["percentiles_s"] = {{"50", benchmark.percentile(0.5)},
                             {"90", benchmark.percentile(0.9)},
                             {"99", benchmark.percentile(0.99)}};
  report["runs_per_s"] = runs;
  if (benchmark.items) {
    report["items_per_run"] = benchmark.items;
    report["items_per_s"] = runs * static_cast<double>(benchmark.items);
  }
  if (benchmark.recorded == 0)
    return;
  nlohmann::json rows = nlohmann::json::array();
  for (const colossal_profile_row &row : benchmark.operators)
    rows.push_back({{"name", row.name},
                    {"kind", row.kind},
                    {"kernel", row.kernel},
                    {"executions", row.executions},
                    {"measured_s", row.seconds},
                    {"waiting_s", row.waiting_seconds},
                    {"predicted_s", row.predicted_seconds}});
  report["recorded_runs"] = benchmark.recorded;
  report["operators"] = rows;
}

nlohmann::json trafficJson(const std::vector<colossal_traffic_row> &rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const colossal_traffic_row &row : rows) {
    list.push_back({{"rank", row.rank},
                    {"axes", row.axes},
                    {"kind", row.kind},
                    {"sent_bytes", row.sent},
                    {"planned_bytes", row.planned}});
    if (row.stage >= 0)
      list.back()["stage"] = row.stage;
  }
  return list;
}

} // namespace colossal::runtime
