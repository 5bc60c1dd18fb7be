// The errors found, as printed by test/Benchmark/cost_reference.py. Neighbour: Evidence.h.
#include "colossal/Cost/Evidence.h"

#include <sstream>

namespace colossal::cost {

namespace {

constexpr Evidence kSingle{"vtrain_a100_single", 276, false, 5.8, 4.5, "a100", 1, 8, 1024, 2048, 1024, 1024};
constexpr Evidence kMulti{"vtrain_a100_multi", 26, true, 6.3, 2.4, "a100", 64, 512, 3072, 12288, 2048, 2048};
constexpr Evidence kAllReduce{
    "vtrain_measured_allreduce_lut", 154, true, 3.4, 2.2, "", 2, 8, 0, 1e18, 0, 1e18};
constexpr Evidence kZeroBubble{
    "zero_bubble_throughput", 48, true, 15, 17, "a100", 8, 32, 2304, 6144, 1024, 1024, 4.9, 4.2};
constexpr Evidence kLayer{
    "korthikanti2022_layer_times_22B", 5, true, 1.7, 1.4, "a100", 8, 8, 6144, 6144, 2048, 2048};
constexpr Evidence kMemory{
    "korthikanti2022_memory", 8, false, 0.14, 0.1, "", 8, 512, 6144, 25600, 2048, 2048};
constexpr Evidence kSc21{
    "megatron_sc21_table2", 13, true, 3.7, 2.6, "a100", 384, 2240, 12288, 20480, 2048, 2048};
constexpr Evidence kTitan{
    "torchtitan_llama31_h100", 18, true, 4.9, 3.0, "h100", 8, 512, 4096, 16384, 8192, 262144, 10, 6.1};
constexpr Evidence kAlpa{"alpa_e2e_v100", 77, true, 156, 12, "v100", 1, 64, 768, 8192, 1024, 1024};

bool isFor(const Evidence &evidence, const Machine &machine) {
  return machine.name.compare(0, std::string(evidence.device).size(), evidence.device) == 0;
}

/// Whether the table has steps of this kind: recompute, attention, schedule, where state lies.
bool hasKind(const Evidence &evidence, const Configuration &row) {
  if (row.question != Question::Step)
    return true;
  bool fused = row.model.fusedAttention, full = row.layout.recompute == Recompute::Full;
  Schedule schedule = row.layout.schedule;
  bool alternates =
      schedule == Schedule::OneFOneB || schedule == Schedule::Interleaved || row.layout.pipeline == 1;
  if (&evidence == &kTitan)
    return fused && row.layout.zero >= 3;
  if (&evidence == &kZeroBubble)
    return !fused && row.layout.recompute == Recompute::None && row.layout.zero <= 1;
  if (&evidence == &kSc21)
    return !fused && full && alternates && (row.layout.zero == 0 || row.layout.zero >= 3);
  return !fused && full && row.layout.zero == 0 &&
         (schedule == Schedule::OneFOneB || row.layout.pipeline == 1);
}

bool inside(const Evidence &evidence, const Configuration &row) {
  if (!hasKind(evidence, row))
    return false;
  if (row.devices < evidence.devicesLow || row.devices > evidence.devicesHigh)
    return false;
  if (row.question == Question::AllReduce)
    return row.bytes >= 1048576 && row.bytes <= 1073741824;
  if (row.network)
    return row.question == Question::BestStep;
  return row.model.hidden >= evidence.hiddenLow && row.model.hidden <= evidence.hiddenHigh &&
         row.model.sequence >= evidence.sequenceLow && row.model.sequence <= evidence.sequenceHigh;
}

} // namespace

const Evidence *evidenceFor(const Configuration &row, const Machine &machine) {
  switch (row.question) {
  case Question::Nothing: return nullptr;
  case Question::AllReduce: return &kAllReduce;
  case Question::Layer: return &kLayer;
  case Question::StageMemory: return &kMemory;
  case Question::BestStep: return &kAlpa;
  case Question::Step: break;
  }
  if (row.network)
    return &kAlpa;
  if (machine.name.compare(0, 2, "h1") == 0 || machine.name.compare(0, 2, "h2") == 0)
    return &kTitan;
  if (row.layout.zero >= 3)
    return &kSc21;
  if (splitsBackward(row.layout.schedule) || row.layout.recompute == Recompute::None)
    return &kZeroBubble;
  if (row.devices <= 8)
    return &kSingle;
  return row.devices > kMulti.devicesHigh && inside(kSc21, row) ? &kSc21 : &kMulti;
}

std::string describe(const Evidence *evidence, const Configuration &row, const Machine &machine,
                     bool memory) {
  if (!evidence)
    return describe(evidence, row);
  const char *outside = "extrapolated: ";
  std::string text = describe(evidence, row);
  if (!isFor(*evidence, machine) && inside(*evidence, row))
    text = outside + text;
  if (!memory)
    return text;
  const Evidence &held = evidence->memoryMeanPercent > 0 ? *evidence : kZeroBubble;
  std::ostringstream out;
  out << text << "; memory: " << (inside(held, row) && isFor(held, machine) ? "" : outside) << "mean error "
      << held.memoryMeanPercent << " %, median " << held.memoryMedianPercent << " % on " << held.rows
      << " measured rows of " << held.table;
  return out.str();
}

std::string describe(const Evidence *evidence, const Configuration &row) {
  if (!evidence)
    return "no published rows are like it";
  std::ostringstream out;
  out << (inside(*evidence, row) ? "" : "extrapolated: ") << "mean error " << evidence->meanPercent
      << " %, median " << evidence->medianPercent << " % on " << evidence->rows
      << (evidence->measured ? " measured" : " simulated") << " rows of " << evidence->table;
  return out.str();
}

} // namespace colossal::cost
