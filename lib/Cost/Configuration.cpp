// Cells into configurations. Every cell that is used is checked, and the message names line and column; every
// value that is assumed is written down. Neighbours: Configuration.h, Columns.cpp has the names.
#include "colossal/Cost/Configuration.h"

#include "colossal/Cost/PublishedModels.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <sstream>

namespace colossal::cost {

namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool contains(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

std::string shortNumber(double x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

Origin originOf(const Table &table) {
  auto has = [&](const char *name) { return table.column(name) >= 0; };
  if (has("size_B") && has("n_gpus"))
    return Origin::Collectives;
  if (has("setting") && !has("hidden"))
    return Origin::LayerTimes;
  if (has("scheme") || has("model_parallel_size"))
    return Origin::Sc21;
  if (has("fsdp") || has("technique"))
    return Origin::TorchTitan;
  if (has("pp_gpus") || (has("num_microbatches") && has("schedule") && !has("hidden")))
    return Origin::ZeroBubble;
  if (has("kind"))
    return Origin::Korthikanti;
  if (has("method") || has("plan"))
    return Origin::Alpa;
  for (const char *name : {"hidden", "layers", "params_B", "tp", "dp", "pp", "gpus", "global_batch", "model",
                           "depth", "base_channels"})
    if (has(name))
      return Origin::General;
  return Origin::None;
}

} // namespace

/// One row: cells by column name, with checks and defaults.
class RowReader {
public:
  RowReader(ConfigurationReader &reader, std::size_t row) : reader(reader), row(row) {}

  std::string error;

  const std::string *cell(const char *column) const {
    int index = reader.table.column(column);
    if (index < 0)
      return nullptr;
    const std::string &text = reader.table.rows[row][index];
    return text.find_first_not_of(" \t") == std::string::npos ? nullptr : &text;
  }
  bool has(const char *column) const { return cell(column) != nullptr; }
  std::string text(const char *column) const {
    const std::string *found = cell(column);
    return found ? *found : "";
  }
  void fail(const char *column, const std::string &what) {
    if (error.empty())
      error = "line " + std::to_string(reader.table.lines[row]) + ": column '" + column + "': " + what;
  }
  void assume(const char *column, const std::string &value) { reader.assumed.emplace(column, value); }

  /// The cell's number, if there is one.
  std::optional<double> number(const char *column, double low, double high, bool whole = true) {
    const std::string *found = cell(column);
    if (!found)
      return std::nullopt;
    char *end = nullptr;
    double value = std::strtod(found->c_str(), &end);
    while (*end == ' ' || *end == '\t')
      ++end;
    if (*end != '\0' || end == found->c_str()) {
      fail(column, "'" + *found + "' is not a number");
      return std::nullopt;
    }
    if (!(value >= low && value <= high) || (whole && value != std::floor(value))) {
      fail(column, std::string("must be ") + (whole ? "a whole number " : "") + "from " + shortNumber(low) +
                       " to " + shortNumber(high) + ", is " + *found);
      return std::nullopt;
    }
    return value;
  }
  double numberOr(const char *column, double fallback, double low, double high, bool whole = true) {
    if (auto value = number(column, low, high, whole))
      return *value;
    if (!has(column))
      assume(column, shortNumber(fallback));
    return fallback;
  }
  int count(const char *column, int fallback) {
    return static_cast<int>(numberOr(column, fallback, 1, 1 << 24));
  }
  bool flag(const char *column, bool fallback) { return numberOr(column, fallback ? 1 : 0, 0, 1) != 0; }

  bool isConvolutional() const;
  std::optional<double> parametersOfAlike() const;
  void network(Configuration &out, std::optional<double> parametersB);
  void stateOfNetwork(TrainingLayout &layout);
  void model(ModelDimensions &model, Suite suite, std::optional<double> parametersB = std::nullopt);
  void layout(const ModelDimensions &model, TrainingLayout &layout);
  void torchTitan(TrainingLayout &layout);
  void sc21(const ModelDimensions &model, TrainingLayout &layout);
  void recompute(Recompute &value, Recompute fallback);
  void precision(TrainingLayout &layout, DataType fallback);
  void schedule(TrainingLayout &layout);
  void layer(Configuration &out);
  void planned(Configuration &out);

private:
  void batches(TrainingLayout &layout);
  /// Product of the ranks' numbers, at most 2^24; otherwise the row is refused and all are set to 1.
  int product(TrainingLayout &layout) {
    double all = static_cast<double>(layout.tensor) * layout.context * layout.pipeline * layout.data;
    if (all > 1 << 24) {
      fail("tp", "more than 2^24 devices");
      layout.tensor = layout.context = layout.pipeline = layout.data = 1;
    }
    return layout.devices();
  }

  ConfigurationReader &reader;
  std::size_t row;
};

bool RowReader::isConvolutional() const {
  return contains(lower(text("model")), "resnet") || has("base_channels") || has("depth");
}

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

/// Momentum in f32; with 16-bit types, a copy of the parameters in f32 too.
void RowReader::stateOfNetwork(TrainingLayout &layout) {
  bool wide = layout.type == DataType::F32;
  layout.parameterBytes = layout.gradientBytes = wide ? 4 : 2;
  layout.optimizerBytes = wide ? 4 : 8;
}

/// By name, by size or by parameters, or its dimensions; some tables have those in the columns of
/// transformers, as "base_ch=160,width=2" and "img224".
void RowReader::network(Configuration &out, std::optional<double> parametersB) {
  ResidualNetwork network;
  std::string name = lower(has("size") ? text("size") : text("model"));
  std::string packed = lower(text("hidden")), image = lower(text("seq"));
  bool known = publishedNetwork(name, network);
  auto embedded = [&](const char *column, const std::string &text, const char *key, double &value) {
    std::size_t at = text.find(key);
    if (at == std::string::npos)
      return false;
    const char *begin = text.c_str() + at + std::string(key).size();
    char *end = nullptr;
    value = std::strtod(begin, &end);
    if (end == begin)
      fail(column, std::string("no number behind '") + key + "' in '" + text + "'");
    return true;
  };
  bool channels = embedded("hidden", packed, "base_ch=", network.baseChannels);
  if (has("hidden") && !channels)
    fail("hidden", "of a convolutional network must read like base_ch=160,width=2; or use base_channels and "
                   "width_factor");
  embedded("hidden", packed, "width=", network.widthFactor);
  if (has("seq") && !embedded("seq", image, "img", network.image))
    fail("seq", "of a convolutional network must read like img224; or use the column image");
  auto set = [&](const char *column, double &value, double low, double high, bool whole, bool given) {
    if (auto cell = number(column, low, high, whole))
      value = *cell;
    else if (!known && !given)
      assume(column, shortNumber(value));
  };
  if (!known && !channels && !has("base_channels") && parametersB) {
    known = publishedNetwork(*parametersB, network);
    if (!known)
      fail("params_B", "no published residual network has " + shortNumber(*parametersB) +
                           " * 10^9 parameters; give depth, base_channels and width_factor");
  } else if (!known && !channels && !has("base_channels") && !has("depth") && !has("layers")) {
    fail("model",
         "'" + text("model") + "' is not known; give depth, base_channels and width_factor, or resnet-50");
  }
  double depth = network.depth;
  set(has("layers") && !has("depth") ? "layers" : "depth", depth, 1, 1e4, true, false);
  network.depth = static_cast<int>(depth);
  set("base_channels", network.baseChannels, 1, 1e6, true, channels);
  set("width_factor", network.widthFactor, 1e-3, 1e4, false, contains(packed, "width="));
  set("image", network.image, 32, 1e5, true, has("seq"));
  set("classes", network.classes, 1, 1e9, true, false);
  if (std::string wrong = checkNetwork(network); !wrong.empty() && error.empty())
    fail(has("depth") ? "depth" : has("layers") ? "layers" : "model", wrong);
  out.network = network;
}

void RowReader::model(ModelDimensions &model, Suite suite, std::optional<double> parametersB) {
  bool dimensions = has("hidden") && has("layers");
  const ModelDimensions *known = nullptr;
  std::string name = text("model");
  if (has("size"))
    name += " " + text("size");
  if (!name.empty())
    known = publishedModel(suite, name);
  if (!known && !name.empty() && suite != Suite::Any)
    known = publishedModel(Suite::Any, name);
  if (!known && !dimensions && has("params_B")) {
    if (auto parameters = parametersB ? parametersB : number("params_B", 1e-6, 1e6, false))
      known = publishedModel(suite, name.empty() ? "gpt" : lower(name), *parameters);
    if (!known && error.empty())
      fail("params_B",
           "no published model has " + text("params_B") + " * 10^9 parameters; give layers and hidden");
  }
  if (!known && !dimensions && !name.empty())
    fail("model", "'" + name + "' is not known; give layers and hidden, or one of " + publishedModelNames());
  if (known)
    model = *known;
  auto set = [&](const char *column, double &value, double high) {
    if (auto given = number(column, 1, high))
      value = *given;
    else if (!known && !has(column))
      assume(column, shortNumber(value));
  };
  set("layers", model.layers, 1e5);
  set("hidden", model.hidden, 1e7);
  if (!known && !has("heads"))
    model.heads = std::max(1.0, std::floor(model.hidden / 128));
  set("heads", model.heads, 1e6);
  set("seq", model.sequence, 1e9);
  set("vocab", model.vocabulary, 1e9);
  if (auto heads = number("kv_heads", 1, 1e6))
    model.keyValueHeads = *heads;
  if (auto width = number("ffn", 1, 1e8))
    model.feedForward = *width;
  if (auto experts = number("experts", 1, 1e6))
    model.experts = *experts;
  if (has("attention")) {
    std::string kind = lower(text("attention"));
    if (kind != "materialized" && kind != "fused")
      fail("attention", "must be materialized or fused, is '" + text("attention") + "'");
    model.fusedAttention = kind == "fused";
  }
  if (model.heads > model.hidden)
    fail("heads", "more heads than elements of width");
}

void RowReader::recompute(Recompute &value, Recompute fallback) {
  const char *column = has("recompute") ? "recompute" : "act_ckpt";
  std::string text = lower(this->text(column));
  if (text.empty()) {
    value = fallback;
    if (!has("precision"))
      assume("recompute", fallback == Recompute::None   ? "none"
                          : fallback == Recompute::Full ? "full"
                                                        : "selective");
  } else if (text == "none" || text == "0" || text == "no") {
    value = Recompute::None;
  } else if (text == "selective") {
    value = Recompute::Selective;
  } else if (text == "full" || text == "1" || text == "yes") {
    value = Recompute::Full;
  } else {
    fail(column, "must be none, selective or full, is '" + this->text(column) + "'");
  }
}

void RowReader::precision(TrainingLayout &layout, DataType fallback) {
  layout.type = fallback;
  std::string text = lower(this->text("precision"));
  if (text.empty()) {
    assume("precision", toString(fallback));
    return;
  }
  std::string type = text.substr(0, text.find('+'));
  if (contains(text, "+remat"))
    layout.recompute = Recompute::Full;
  if (type == "fp32" || type == "f32")
    layout.type = DataType::F32;
  else if (type == "fp16" || type == "f16")
    layout.type = DataType::F16;
  else if (type == "bf16")
    layout.type = DataType::BF16;
  else if (type == "fp8" || type == "f8")
    layout.type = DataType::BF16, layout.float8 = true;
  else
    fail("precision", "must be fp32, fp16, bf16 or fp8, is '" + this->text("precision") + "'");
}

void RowReader::schedule(TrainingLayout &layout) {
  if (!has("schedule")) {
    layout.schedule = Schedule::OneFOneB;
    if (layout.pipeline > 1)
      assume("schedule", "1f1b");
  } else if (!parseSchedule(text("schedule"), layout.schedule)) {
    fail("schedule", "must be one of " + scheduleNames() + ", is '" + text("schedule") + "'");
  }
  if (auto chunks = number("interleave", 1, 1e5))
    layout.chunks = static_cast<int>(*chunks);
  if (layout.schedule == Schedule::OneFOneB && layout.chunks > 1)
    layout.schedule = Schedule::Interleaved;
  if (layout.schedule == Schedule::ZeroBubbleV)
    layout.chunks = 2;
}

void RowReader::batches(TrainingLayout &layout) {
  layout.microBatch = numberOr("micro_batch", 1, 1, 1e9);
  if (auto given = number("global_batch", 1, 1e12))
    layout.globalBatch = *given;
  else if (auto count = number("num_microbatches", 1, 1e9))
    layout.globalBatch = *count * layout.microBatch * layout.data;
  else if (auto local = number("local_batch", 1, 1e9))
    layout.globalBatch = *local * layout.data;
  else
    assume("global_batch", shortNumber(layout.globalBatch = layout.microBatch * layout.data));
  if (error.empty() && layout.globalBatch < layout.microBatch * layout.data)
    fail("global_batch", shortNumber(layout.globalBatch) + " sequences do not give each of " +
                             std::to_string(layout.data) + " data-parallel ranks a microbatch of " +
                             shortNumber(layout.microBatch));
}

void RowReader::layout(const ModelDimensions &model, TrainingLayout &layout) {
  if (auto stages = number("pp_gpus", 1, 1 << 20))
    layout.pipeline = static_cast<int>(*stages);
  else
    layout.pipeline = count("pp", 1);
  layout.tensor = count("tp", 1);
  layout.context = count("cp", 1);
  auto gpus = number("gpus", 1, 1 << 24);
  int others = product(layout);
  if (gpus && !has("dp")) {
    layout.data = static_cast<int>(*gpus) / others;
    assume("dp", "gpus / (tp * cp * pp)");
  } else {
    layout.data = count("dp", 1);
  }
  product(layout);
  if (gpus && error.empty() && static_cast<double>(layout.data) * others != *gpus)
    fail("gpus", text("gpus") + " devices, but tp * cp * dp * pp is " +
                     shortNumber(static_cast<double>(layout.data) * others));
  layout.zero = static_cast<int>(numberOr("zero", 0, 0, 3));
  layout.sequenceParallel = flag("sequence_parallel", false);
  layout.bucketedGradients = flag("bucketed", false);
  schedule(layout);
  batches(layout);
  if (error.empty() && static_cast<double>(layout.pipeline) * layout.chunks >
                           model.layers + (layout.endsCountAsLayers ? 2 : 0))
    fail(has("pp_gpus") ? "pp_gpus" : "pp", "more stages than layers");
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
  auto parameters = number("params_B", -1e-9, 1e6, false);
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

ConfigurationReader::ConfigurationReader(const Table &table) : table(table) {
  std::string unknown;
  for (const std::string &column : table.columns) {
    bool known = std::any_of(knownColumns().begin(), knownColumns().end(),
                             [&](const ColumnInfo &info) { return column == info.name; });
    if (!known)
      unknown += (unknown.empty() ? "'" : ", '") + column + "'";
  }
  if (!unknown.empty())
    problem = "unknown column " + unknown;
  source = originOf(table);
}

bool ConfigurationReader::asksForMemory() const {
  return table.column("mem_GiB") >= 0 || table.column("peak_mem_GB") >= 0 || source == Origin::Korthikanti;
}

Configuration ConfigurationReader::read(std::size_t index) {
  Configuration out;
  RowReader row(*this, index);
  out.device = lower(row.text("gpu"));
  out.question = Question::Step;
  switch (source) {
  case Origin::None:
    out.question = Question::Nothing;
    return out;
  case Origin::Collectives:
    out.question = Question::AllReduce;
    if (!row.has("n_gpus") || !row.has("size_B"))
      row.fail(row.has("n_gpus") ? "size_B" : "n_gpus", "is empty");
    out.devices = row.count("n_gpus", 1);
    out.bytes = row.number("size_B", 0, 1e18).value_or(0);
    break;
  case Origin::LayerTimes:
    out.question = Question::Layer;
    row.layer(out);
    break;
  case Origin::Korthikanti:
    out.question = Question::StageMemory;
    row.model(out.model, Suite::Megatron);
    if (!row.has("seq"))
      row.assume("seq", std::to_string(static_cast<int>(out.model.sequence = 2048)));
    row.layout(out.model, out.layout);
    out.percent = contains(lower(row.text("kind")), "pct");
    break;
  case Origin::ZeroBubble:
    row.model(out.model, Suite::ZeroBubble);
    out.layout.endsCountAsLayers = true;
    row.precision(out.layout, DataType::F16);
    row.recompute(out.layout.recompute, Recompute::None);
    row.layout(out.model, out.layout);
    if (out.layout.schedule == Schedule::Interleaved && !row.has("interleave")) {
      // As many chunks as there are layers on a stage.
      out.layout.chunks = std::max(2, static_cast<int>((out.model.layers + 2) / out.layout.pipeline));
      row.assume("interleave", "layers of a stage");
    }
    break;
  case Origin::Sc21:
    row.model(out.model, Suite::Megatron);
    row.precision(out.layout, DataType::F16);
    row.recompute(out.layout.recompute, Recompute::Full);
    row.sc21(out.model, out.layout);
    break;
  case Origin::TorchTitan:
    row.model(out.model, Suite::Llama);
    row.precision(out.layout, DataType::BF16);
    row.recompute(out.layout.recompute, Recompute::None);
    row.torchTitan(out.layout);
    break;
  case Origin::Alpa:
    row.planned(out);
    break;
  case Origin::General:
    if (row.isConvolutional()) {
      row.network(out, row.number("params_B", 1e-6, 1e6, false));
      row.precision(out.layout, DataType::F32);
      row.stateOfNetwork(out.layout);
      out.model.layers = 1e9; // whoever has too many stages is told by the network's blocks
    } else {
      out.model.vocabulary = 50257; // of GPT-2
      row.model(out.model, Suite::Any);
      row.precision(out.layout, DataType::F16);
    }
    row.recompute(out.layout.recompute, Recompute::Full);
    row.layout(out.model, out.layout);
    break;
  }
  if (source != Origin::Collectives && source != Origin::Alpa)
    out.devices = out.layout.devices();
  out.error = row.error;
  return out;
}

} // namespace colossal::cost
