// What the columns of published tables mean, by who published them.
#include "RowReader.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

namespace colossal::cost {

/// params_B of another row of the same model and number of devices: planners are compared on one model.
std::optional<double> RowReader::parametersOfAlike() const {
  const Table &table = reader.table;
  int parameters = table.column("params_B"), model = table.column("model"), gpus = table.column("gpus");
  if (parameters < 0 || model < 0 || gpus < 0)
    return std::nullopt;
  for (const auto &other : table.rows)
    if (other[model] == table.rows[row][model] && other[gpus] == table.rows[row][gpus])
      if (double value = std::strtod(other[parameters].c_str(), nullptr); value > 0 && value <= 1e6)
        return value;
  return std::nullopt;
}

/// Fully sharded data parallelism with tensor, context and pipeline parallelism on top.
void RowReader::torchTitan(TrainingLayout &layout) {
  layout.tensor = count("tp", 1);
  layout.pipeline = count("pp", 1);
  layout.context = count("cp", 1);
  auto gpus = number("gpus", 1, 1 << 24);
  int others = product(layout);
  if (has("fsdp"))
    layout.data = count("fsdp", 1);
  else
    layout.data = gpus ? std::max(1, static_cast<int>(*gpus) / others) : count("dp", 1);
  product(layout);
  if (gpus && error.empty() && static_cast<double>(layout.data) * others != *gpus)
    fail("gpus", text("gpus") + " devices, but fsdp * tp * pp * cp is " +
                     shortNumber(static_cast<double>(layout.data) * others));
  std::string technique = lower(text("technique"));
  layout.zero = static_cast<int>(numberOr("zero", 3, 0, 3));
  layout.sequenceParallel = true;
  layout.bucketedGradients = true;
  layout.compiled = contains(technique, "compile");
  layout.float8 = contains(technique, "fp8");
  layout.asyncTensor = contains(technique, "asynctp");
  layout.parameterBytes = 4; // f32 shards, gathered in 16 bits
  layout.gradientBytes = 4;
  layout.optimizerBytes = 8;
  schedule(layout);
  if (layout.schedule == Schedule::Interleaved && !has("interleave")) {
    layout.chunks = 2;
    assume("interleave", "2");
  }
  double local = numberOr("local_batch", 1, 1, 1e9);
  // A pipeline cuts the batch into as many microbatches as it has stages.
  double whole = std::max(1.0, std::floor(local / layout.pipeline));
  layout.microBatch = numberOr("micro_batch", whole, 1, 1e9);
  layout.globalBatch =
      has("global_batch") ? number("global_batch", 1, 1e12).value_or(1) : local * layout.data;
}

/// Narayanan et al., 2021, table 2.
void RowReader::sc21(const ModelDimensions &model, TrainingLayout &layout) {
  int devices = count("gpus", 1), parallel = count("model_parallel_size", 1);
  std::string scheme = lower(text("scheme"));
  bool zero = contains(scheme, "zero");
  if (!zero && !contains(scheme, "ptd"))
    fail("scheme", "must name ZeRO-3 or PTD, is '" + text("scheme") + "'");
  layout.tensor = zero ? 1 : std::min(parallel, 8);
  layout.pipeline = zero ? 1 : parallel / layout.tensor;
  // One published row names more devices than whole pipelines of its size take: the next deeper one that
  // fits.
  int asked = layout.pipeline;
  while (layout.pipeline < model.layers && devices % (layout.tensor * layout.pipeline) != 0)
    ++layout.pipeline;
  if (layout.pipeline != asked)
    assume("model_parallel_size",
           std::to_string(layout.tensor * layout.pipeline) + " where gpus is no multiple of it");
  layout.data = std::max(1, devices / (layout.tensor * layout.pipeline));
  if (error.empty() && layout.devices() != devices)
    fail("gpus", text("gpus") + " devices are no multiple of " + std::to_string(layout.tensor * asked));
  layout.zero = zero ? 3 : 0;
  assume("tp", "min(model_parallel_size, 8)");
  schedule(layout);
  batches(layout);
}

/// Korthikanti et al., 2022, table 4: one layer of the model with 22 * 10^9 parameters unless columns say
/// otherwise.
void RowReader::layer(Configuration &out) {
  out.model = *publishedModel(Suite::Megatron, "22b");
  for (auto [column, value] : {std::pair{"hidden", "6144"}, {"heads", "64"}, {"seq", "2048"}})
    if (!has(column))
      assume(column, value);
  if (auto heads = number("heads", 1, 1e6))
    out.model.heads = *heads;
  if (auto sequence = number("seq", 1, 1e9))
    out.model.sequence = *sequence;
  out.layout.tensor = count("tp", 8);
  out.layout.microBatch = numberOr("micro_batch", 4, 1, 1e9);
  std::string setting = lower(text("setting"));
  out.layout.sequenceParallel = contains(setting, "sequence");
  out.layout.recompute = contains(setting, "no recompute") ? Recompute::None
                         : contains(setting, "full")       ? Recompute::Full
                         : contains(setting, "selective")  ? Recompute::Selective
                                                           : Recompute::None;
  if (!contains(setting, "baseline") && !contains(setting, "recompute") && !contains(setting, "sequence"))
    fail("setting",
         "must name baseline, sequence parallel, selective or full recompute, is '" + text("setting") + "'");
}

/// Zheng et al., 2022: rows name a model and who planned it, or Alpa's plan in words.
void RowReader::planned(Configuration &out) {
  std::string family = lower(text("model")), method = lower(text("method"));
  bool convolutional = isConvolutional();
  auto parameters = number("params_B", 0, 1e6, false);
  std::optional<double> known = parameters;
  if (parameters && *parameters <= 0) {
    known = parametersOfAlike();
    if (!known) {
      out.question = Question::Nothing;
      out.note = "rows without a model (params_B 0, and no row has it for the same model and gpus) are not "
                 "predicted";
      return;
    }
    assume("params_B", "that of a row with the same model and gpus");
  }
  if (convolutional) {
    network(out, known);
    precision(out.layout, DataType::F32);
  } else {
    model(out.model, Suite::Alpa, known);
    precision(out.layout, DataType::F16);
  }
  if (!has("precision"))
    recompute(out.layout.recompute, Recompute::Full);
  out.layout.expertParallel = out.model.experts > 0;
  out.layout.globalBatch = numberOr("global_batch", convolutional ? 1536 : 1024, 1, 1e12);
  // Alpa compiles a step; the others launch each operation from a program.
  bool eager = contains(method, "megatron") || contains(method, "deepspeed");
  out.layout.compiled = !eager;
  if (eager)
    out.layout.hostLaunchSeconds = 5e-5;
  // Parameters in f32 and two moments beside the 16-bit copy. Megatron-LM accumulates gradients in f32 and,
  // at the time, kept all state on every data-parallel rank; it cuts its pipeline between layers, Alpa
  // between operations.
  bool megatron = contains(method, "megatron");
  out.layout.optimizerBytes = 12;
  out.layout.gradientBytes = megatron ? 4 : 2;
  // Alpa reduces gradients once a step and so keeps them whole; DeepSpeed scatters them in every microbatch.
  out.choices.zero = megatron ? 0 : eager ? 2 : 1;
  out.layout.cutsInsideLayers = !eager;
  out.layout.bucketedGradients = true;
  if (convolutional)
    stateOfNetwork(out.layout);
  out.devices = static_cast<int>(numberOr("gpus", 1, 1, 65536));
  out.question = Question::BestStep;
  if (auto stages = number("stages", 1, 1 << 20)) {
    // Stages of unequal meshes are priced as equal ones if their number divides the devices.
    out.choices.stages = out.devices % static_cast<int>(*stages) == 0 ? static_cast<int>(*stages) : 0;
    if (out.choices.stages == 0)
      assume("stages", "free where they do not divide the devices");
    if (auto count = number("num_microbatches", 1, 1e9))
      out.choices.microbatches = static_cast<int>(*count);
  }
  out.choices.pipeline = !contains(method, "intra") && !contains(method, "deepspeed");
  bool inter = contains(method, "inter");
  out.choices.tensor = !inter && !contains(method, "ppdp");
  out.choices.data = !inter;
}

} // namespace colossal::cost
