// Which of a machine's own errors a row is described by.
#include "colossal/Cost/Evidence.h"

#include <algorithm>
#include <sstream>

namespace colossal::cost {

namespace {

const char *nameOf(Question question) {
  switch (question) {
  case Question::Nothing: return "";
  case Question::Step: return "step";
  case Question::BestStep: return "best_step";
  case Question::AllReduce: return "all_reduce";
  case Question::Layer: return "layer";
  case Question::StageMemory: return "stage_memory";
  }
  return "";
}

/// How often the row lies outside of what the entry's rows are.
int countDifferences(const Evidence &evidence, const Configuration &row) {
  int different = 0;
  auto range = [&](const char *name, double value) {
    auto found = evidence.ranges.find(name);
    if (found != evidence.ranges.end())
      different += value < found->second.first || value > found->second.second;
  };
  auto kind = [&](const char *name, const std::string &value) {
    auto found = evidence.kinds.find(name);
    if (found != evidence.kinds.end())
      different += std::find(found->second.begin(), found->second.end(), value) == found->second.end();
  };
  range("devices", row.devices);
  if (row.question == Question::AllReduce)
    range("bytes", row.bytes);
  if (row.question != Question::Step && row.question != Question::Layer && row.question != Question::BestStep)
    return different;
  kind("network", row.network ? "residual" : "transformer");
  if (row.network)
    return different;
  range("hidden", row.model.hidden);
  range("sequence", row.model.sequence);
  if (row.question != Question::Step)
    return different;
  kind("recompute", row.layout.recompute == Recompute::Full        ? "full"
                    : row.layout.recompute == Recompute::Selective ? "selective"
                                                                   : "none");
  kind("attention", !row.model.fusedAttention                        ? "materialized"
                    : row.layout.attention == AttentionKernel::First ? "flash1"
                                                                     : "fused");
  kind("zero", std::to_string(row.layout.zero));
  kind("framework", row.framework);
  if (row.layout.pipeline > 1)
    kind("schedule", toString(row.layout.schedule));
  return different;
}

std::string errorOf(const Evidence &evidence, double mean, double median) {
  std::ostringstream out;
  out.precision(3);
  out << (evidence.inSample ? "in-sample mean error " : "mean error ") << mean << " %, median " << median
      << " % on " << evidence.rows << (evidence.measured ? " measured" : " simulated") << " rows of "
      << evidence.table;
  return out.str();
}

const Evidence *find(const Machine &machine, const char *question) {
  for (const Evidence &entry : machine.evidence)
    if (entry.question == question)
      return &entry;
  return nullptr;
}

} // namespace

const Evidence *evidenceFor(const Configuration &row, const Machine &machine) {
  const Evidence *best = nullptr;
  int least = 0;
  for (const Evidence &entry : machine.evidence) {
    if (entry.question != nameOf(row.question))
      continue;
    int different = countDifferences(entry, row);
    if (!best || different < least) {
      best = &entry;
      least = different;
    }
  }
  return best;
}

std::string describe(const Evidence *evidence, const Configuration &row, const Machine &machine,
                     bool memory) {
  if (!evidence)
    return "no rows like it were measured on '" + machine.name + "', so its error is not known";
  const char *outside = countDifferences(*evidence, row) > 0 ? "extrapolated: " : "";
  std::string text = outside + errorOf(*evidence, evidence->meanPercent, evidence->medianPercent);
  if (!memory)
    return text;
  const Evidence *held = evidence->memoryMeanPercent > 0 ? evidence : nullptr;
  for (const Evidence &entry : machine.evidence)
    if (!held && entry.memoryMeanPercent > 0)
      held = &entry;
  if (!held)
    return text + "; memory: not measured on '" + machine.name + "'";
  return text + "; memory: " + (countDifferences(*held, row) > 0 ? "extrapolated: " : "") +
         errorOf(*held, held->memoryMeanPercent, held->memoryMedianPercent);
}

std::string describePlanEvidence(const Machine &machine, std::int64_t ranks) {
  if (const Evidence *plans = find(machine, "plan")) {
    auto devices = plans->ranges.find("devices");
    bool outside = devices != plans->ranges.end() && static_cast<double>(ranks) > devices->second.second;
    return (outside ? "extrapolated: " : "") + errorOf(*plans, plans->meanPercent, plans->medianPercent);
  }
  if (const Evidence *kernels = find(machine, "kernel"))
    return "of single kernels " + errorOf(*kernels, kernels->meanPercent, kernels->medianPercent) +
           "; of whole plans not measured";
  return "not known: nothing was measured on a machine like '" + machine.name +
         "'; colossal-cost calibrate measures the one at hand";
}

} // namespace colossal::cost
