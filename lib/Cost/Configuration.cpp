// Cells into configurations. Every cell that is used is checked, and the message names line and column; every
// value that is assumed is written down.
#include "colossal/Cost/Configuration.h"

#include "RowReader.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

namespace colossal::cost {

namespace {

/// Columns of which one at least describes what a row asks.
bool describesSomething(const Table &table) {
  for (const char *name : {"hidden",
                           "layers",
                           "params_B",
                           "tp",
                           "dp",
                           "pp",
                           "gpus",
                           "global_batch",
                           "model",
                           "depth",
                           "base_channels",
                           "setting",
                           "scheme",
                           "model_parallel_size",
                           "fsdp",
                           "technique",
                           "pp_gpus",
                           "kind",
                           "method",
                           "plan"})
    if (table.column(name) >= 0)
      return true;
  return table.column("size_B") >= 0 && table.column("n_gpus") >= 0;
}

} // namespace

bool RowReader::isConvolutional() const {
  return contains(lower(text("model")), "resnet") || has("base_channels") || has("depth");
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
  std::string name = textOr("model");
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
      fail("params_B", "no published " + (name.empty() ? "model" : "'" + name + "'") + " has " +
                           text("params_B") + " * 10^9 parameters; give layers and hidden");
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
  if (const std::string *sequence = defaultOf("seq"); sequence && !has("seq")) {
    model.sequence = std::strtod(sequence->c_str(), nullptr);
    assume("seq", *sequence);
  }
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
    if (kind != "materialized" && kind != "fused" && kind != "flash1")
      fail("attention", "must be materialized, fused or flash1, is '" + text("attention") + "'");
    model.fusedAttention = kind != "materialized";
  }
  if (has("gated")) {
    model.gated = flag("gated", false);
    model.tiedEmbedding = !model.gated;
  }
  if (model.heads > model.hidden)
    fail("heads", "more heads than elements of width");
}

void RowReader::recompute(Recompute &value, Recompute fallback) {
  std::string text = lower(textOr("recompute"));
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
    fail("recompute", "must be none, selective or full, is '" + this->text("recompute") + "'");
  }
}

void RowReader::precision(TrainingLayout &layout, DataType fallback) {
  layout.type = fallback;
  std::string text = lower(textOr("precision"));
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

namespace {

/// What a framework does by itself, where no column says otherwise.
struct Framework {
  const char *name;
  bool compiled;        ///< pointwise work fused
  bool overlaps;        ///< collectives and transfers run in pieces beside computing
  bool nativeAttention; ///< attention by the vendor's kernel for the device
};
/// Megatron-LM since its core, and NeMo which is made of it; before, it launched as the eager ones.
constexpr Framework kFrameworks[] = {
    {"eager", false, false, false}, {"compiled", true, false, false}, {"megatron", true, true, true}};

} // namespace

void RowReader::framework(Configuration &out) {
  if (lower(text("attention")) == "flash1")
    out.layout.attention = AttentionKernel::First;
  if (!has("framework")) {
    assume("framework", out.framework);
    return;
  }
  std::string name = lower(text("framework")), known;
  for (const Framework &framework : kFrameworks) {
    known += (known.empty() ? "" : ", ") + std::string(framework.name);
    if (name != framework.name)
      continue;
    TrainingLayout &layout = out.layout;
    out.framework = framework.name;
    layout.compiled |= framework.compiled;
    if (framework.nativeAttention && !has("attention") && !out.model.fusedAttention) {
      assume("attention", "fused by the vendor's kernel, with framework " + out.framework);
      out.model.fusedAttention = true;
    }
    if (framework.nativeAttention && layout.attention == AttentionKernel::Portable)
      layout.attention = AttentionKernel::Native;
    layout.balancedContext |= framework.overlaps;
    layout.asyncTensor |= framework.overlaps;
    layout.asyncPipeline |= framework.overlaps;
    if (!has("bucketed"))
      layout.bucketedGradients |= framework.overlaps;
    return;
  }
  fail("framework", "must be one of " + known + ", is '" + text("framework") + "'");
}

void RowReader::schedule(const ModelDimensions &model, TrainingLayout &layout) {
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
  if (const std::string *chunks = defaultOf("interleave");
      chunks && layout.schedule == Schedule::Interleaved && !has("interleave")) {
    // A number, or as many chunks as there are layers on a stage.
    double number = std::strtod(chunks->c_str(), nullptr);
    layout.chunks = number > 0 ? static_cast<int>(number)
                               : std::max(2, static_cast<int>((model.layers + 2) / layout.pipeline));
    assume("interleave", *chunks);
  }
}

void RowReader::batches(TrainingLayout &layout) {
  if (!has("micro_batch") && defaultOf("micro_batch") && *defaultOf("micro_batch") == "local_batch / pp") {
    double local = numberOr("local_batch", 1, 1, 1e9);
    layout.microBatch = std::max(1.0, std::floor(local / layout.pipeline));
    assume("micro_batch", "local_batch / pp");
  } else {
    layout.microBatch = numberOr("micro_batch", 1, 1, 1e9);
  }
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

/// model_parallel_size is tp * pp: tp within a node, the rest stages. One published row names more devices
/// than whole pipelines of its size take: the next deeper one that fits.
void RowReader::splitModelParallelRanks(const ModelDimensions &model, TrainingLayout &layout) {
  int parallel = count("model_parallel_size", 1);
  layout.tensor = std::min(parallel, 8);
  layout.pipeline = std::max(1, parallel / layout.tensor);
  assume("tp", "min(model_parallel_size, 8)");
  auto gpus = number("gpus", 1, 1 << 24);
  if (!gpus)
    return;
  int asked = layout.pipeline, devices = static_cast<int>(*gpus);
  while (layout.pipeline < model.layers && devices % (layout.tensor * layout.pipeline) != 0)
    ++layout.pipeline;
  if (layout.pipeline != asked)
    assume("model_parallel_size",
           std::to_string(layout.tensor * layout.pipeline) + " where gpus is no multiple of it");
}

/// Bytes that a parameter keeps on a device.
void RowReader::state(TrainingLayout &layout) {
  std::string kind = lower(textOr("state"));
  if (kind == "f32") { // shards in f32, gathered in 16 bits
    layout.parameterBytes = layout.gradientBytes = 4;
    layout.optimizerBytes = 8;
  } else if (!kind.empty() && kind != "mixed") {
    fail("state", "must be mixed or f32, is '" + text("state") + "'");
  }
}

void RowReader::layout(const ModelDimensions &model, TrainingLayout &layout) {
  if (has("model_parallel_size") && !has("tp") && !has("pp")) {
    splitModelParallelRanks(model, layout);
  } else {
    layout.pipeline = count("pp", 1);
    layout.tensor = count("tp", 1);
  }
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
  layout.asyncTensor = has("async_tensor") && flag("async_tensor", false);
  std::string balance = lower(textOr("balance"));
  layout.endsCountAsLayers = balance == "ends";
  if (!balance.empty() && balance != "ends" && balance != "layers")
    fail("balance", "must be layers or ends, is '" + text("balance") + "'");
  schedule(model, layout);
  batches(layout);
  if (error.empty() && !isConvolutional() && layout.tensor > model.heads)
    fail("tp", std::to_string(layout.tensor) + " tensor-parallel ranks, but " + shortNumber(model.heads) +
                   " heads");
  if (error.empty() && std::fmod(layout.globalBatch, layout.microBatch * layout.data) != 0)
    assume("global_batch", "rounded up to whole microbatches where it is no multiple of micro_batch * dp");
  if (error.empty() && static_cast<double>(layout.pipeline) * layout.chunks >
                           model.layers + (layout.endsCountAsLayers ? 2 : 0))
    fail(has("model_parallel_size") && !has("pp") ? "model_parallel_size" : "pp", "more stages than layers");
}

ConfigurationReader::ConfigurationReader(const Table &table) : table(table) {
  std::string unknown;
  auto isKnown = [](const std::string &name) {
    return std::any_of(knownColumns().begin(), knownColumns().end(),
                       [&](const ColumnInfo &info) { return name == info.name; });
  };
  for (const std::string &column : table.columns)
    if (!isKnown(column)) {
      unknown += (unknown.empty() ? "'" : ", '") + column + "'";
      if (isKnown(lower(column)))
        unknown += " (did you mean '" + lower(column) + "'?)";
    }
  if (!unknown.empty())
    problem = "unknown column " + unknown + "; colossal-cost predict --help lists those that are known";
  described = describesSomething(table);
}

bool ConfigurationReader::asksForMemory() const {
  return table.column("mem_GiB") >= 0 || table.column("peak_mem_GB") >= 0;
}

namespace {

std::optional<Question> questionNamed(const std::string &name) {
  for (auto [known, question] : {std::pair{"step", Question::Step},
                                 {"best_step", Question::BestStep},
                                 {"all_reduce", Question::AllReduce},
                                 {"layer", Question::Layer},
                                 {"stage_memory", Question::StageMemory}})
    if (name == known)
      return question;
  return std::nullopt;
}

} // namespace

Configuration ConfigurationReader::read(std::size_t index) {
  Configuration out;
  if (!described)
    return out;
  RowReader row(*this, index);
  out.device = lower(row.text("gpu"));
  std::string asked = row.has("question")         ? row.text("question")
                      : row.defaultOf("question") ? *row.defaultOf("question")
                                                  : "step";
  std::optional<Question> question = questionNamed(lower(asked));
  if (!question)
    row.fail("question", "must be step, best_step, all_reduce, layer or stage_memory, is '" + asked + "'");
  out.question = question.value_or(Question::Step);
  switch (out.question) {
  case Question::Nothing: break;
  case Question::AllReduce:
    if (!row.has("n_gpus") || !row.has("size_B"))
      row.fail(row.has("n_gpus") ? "size_B" : "n_gpus", "is empty");
    out.devices = row.count("n_gpus", 1);
    out.bytes = row.number("size_B", 0, 1e18).value_or(0);
    out.error = row.error;
    return out;
  case Question::BestStep:
    row.planned(out);
    out.error = row.error;
    return out;
  case Question::StageMemory:
    row.model(out.model, Suite::Any);
    row.layout(out.model, out.layout);
    out.percent = lower(row.text("unit")) == "percent";
    break;
  case Question::Layer:
  case Question::Step:
    if (row.isConvolutional()) {
      row.network(out, row.number("params_B", 1e-6, 1e6, false));
      row.precision(out.layout, DataType::F32);
      row.stateOfNetwork(out.layout);
      out.model.layers = 1e9; // whoever has too many stages is told by the network's blocks
    } else {
      out.model.vocabulary = 50257; // of GPT-2
      row.model(out.model, Suite::Any);
      row.precision(out.layout, DataType::F16);
      row.state(out.layout);
    }
    row.recompute(out.layout.recompute, Recompute::Full);
    row.layout(out.model, out.layout);
    row.framework(out);
    break;
  }
  out.devices = out.layout.devices();
  out.error = row.error;
  return out;
}

} // namespace colossal::cost
