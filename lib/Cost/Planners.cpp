// Rows that name a planner in place of a layout: what it may choose, and what its runtime costs.
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

/// Zheng et al., 2022: rows name a model and who planned it, or Alpa's plan in words.
void RowReader::planned(Configuration &out) {
  std::string method = lower(text("method"));
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
  // Alpa compiles a step; the others launch each operation from a program, unless the framework is named.
  bool eager = contains(method, "megatron") || contains(method, "deepspeed");
  if (has("framework")) {
    framework(out);
  } else {
    out.layout.compiled = !eager;
    if (eager)
      out.layout.hostLaunchSeconds = 5e-5;
  }
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
