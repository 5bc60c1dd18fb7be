// Reads and writes plans.
#include "colossal/Planner/PlanText.h"

#include "KeptValues.h"
#include "UnitLayouts.h"
#include "colossal/Cost/CheckedJson.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

namespace colossal::planner {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

/// Reads members of an object and remembers the first thing that is wrong, with its place.
class Reader {
public:
  std::string error;

  void fail(const std::string &place, const std::string &what) {
    if (error.empty())
      error = (place.empty() ? "plan" : place) + ": " + what;
  }
  bool object(const json &value, const std::string &place, std::initializer_list<const char *> keys) {
    if (!value.is_object()) {
      fail(place, "must be an object");
      return false;
    }
    for (const auto &item : value.items())
      if (std::none_of(keys.begin(), keys.end(), [&](const char *key) { return item.key() == key; }))
        fail(place, "unknown key '" + item.key() + "'");
    return error.empty();
  }
  const json *find(const json &value, const std::string &place, const char *key, bool needed) {
    auto found = value.find(key);
    if (found != value.end())
      return &*found;
    if (needed)
      fail(place, std::string("'") + key + "' is missing");
    return nullptr;
  }
  static std::string join(const std::string &place, const std::string &key) {
    return place.empty() ? key : place + "." + key;
  }

  int whole(const json &value, const std::string &place, double low, double high) {
    if (!value.is_number() || value.get<double>() != std::floor(value.get<double>())) {
      fail(place, "must be a whole number");
      return 0;
    }
    double number = value.get<double>();
    if (number < low || number > high) {
      fail(place, "must be " + std::to_string(static_cast<long long>(low)) + " to " +
                      std::to_string(static_cast<long long>(high)));
      return 0;
    }
    return static_cast<int>(number);
  }
  void whole(const json &value, const std::string &place, const char *key, double low, double high,
             bool needed, int &out) {
    if (const json *entry = find(value, place, key, needed))
      out = whole(*entry, join(place, key), low, high);
  }
  void text(const json &value, const char *key, bool needed, std::string &out) {
    const json *entry = find(value, "", key, needed);
    if (entry && !entry->is_string())
      fail(key, "must be a string");
    else if (entry)
      out = entry->get<std::string>();
  }
  void flag(const json &value, const char *key, bool &out) {
    const json *entry = find(value, "", key, false);
    if (entry && !entry->is_boolean())
      fail(key, "must be true or false");
    else if (entry)
      out = entry->get<bool>();
  }
};

constexpr int kMost = 1 << 20;

void readMesh(Reader &reader, const json &value, TrainingPlan &plan) {
  const json *mesh = reader.find(value, "", "mesh", true);
  if (!mesh || !reader.object(*mesh, "mesh", {"pipeline", "data", "context", "tensor"}))
    return;
  reader.whole(*mesh, "mesh", "pipeline", 1, kMost, false, plan.pipeline);
  reader.whole(*mesh, "mesh", "data", 1, kMost, false, plan.data);
  reader.whole(*mesh, "mesh", "context", 1, kMost, false, plan.context);
  const json *tensor = reader.find(*mesh, "mesh", "tensor", false);
  if (!tensor) {
    plan.tensor = {1};
  } else if (tensor->is_array()) {
    if (tensor->size() > kMaxAxes)
      reader.fail("mesh.tensor", "at most " + std::to_string(kMaxAxes) + " axes are supported");
    for (std::size_t i = 0; i < tensor->size() && reader.error.empty(); ++i)
      plan.tensor.push_back(reader.whole((*tensor)[i], "mesh.tensor[" + std::to_string(i) + "]", 1, kMost));
  } else {
    plan.tensor = {reader.whole(*tensor, "mesh.tensor", 1, kMost)};
  }
}

void readBoundary(Reader &reader, const json &value, const FactorGraph &graph, TrainingPlan &plan) {
  std::size_t axes = tensorAxes(plan).size();
  plan.boundary.assign(axes, std::nullopt);
  const json *boundary = reader.find(value, "", "boundary", false);
  if (!boundary)
    return;
  if (!boundary->is_array() || boundary->size() != axes) {
    reader.fail("boundary", "must be a list with a place for each of the " + std::to_string(axes) +
                                " context and tensor axes above 1");
    return;
  }
  std::vector<std::unique_ptr<KindInfo>> kinds;
  for (const UnitKind &kind : graph.kinds)
    kinds.push_back(std::make_unique<KindInfo>(kind));
  const std::vector<PositionKey> places = findBoundaryPlaces(kinds);
  for (std::size_t a = 0; a < axes; ++a) {
    std::string place = "boundary[" + std::to_string(a) + "]",
                text = (*boundary)[a].is_string() ? (*boundary)[a].get<std::string>() : "";
    if (text == "whole")
      continue;
    for (const PositionKey &key : places)
      if (text == "dim" + std::to_string(key.dim) && !plan.boundary[a])
        plan.boundary[a] = key;
    if (!plan.boundary[a])
      reader.fail(place,
                  "must be \"whole\" or a dimension of the units' boundary after the batch, as in \"dim1\"");
  }
}

void readKept(Reader &reader, const json &value, const FactorGraph &graph, TrainingPlan &plan) {
  static const json nothing = json::object();
  const json *kept = reader.find(value, "", "kept", false);
  const bool isByValue = plan.recompute == Recompute::ByValue;
  if (!kept)
    kept = &nothing;
  if (!isByValue && *kept == nothing)
    return;
  if (!isByValue)
    return reader.fail("kept", "only recompute by-value keeps chosen values");
  if (!kept->is_object())
    return reader.fail("kept", "must be an object, with a list of operations for each kind of unit");
  std::map<std::string, std::vector<std::string>> names;
  for (const auto &kind : kept->items()) {
    if (!kind.value().is_array())
      return reader.fail("kept." + kind.key(), "must be a list of operations");
    std::vector<std::string> &own = names[kind.key()];
    for (const json &operation : kind.value()) {
      if (!operation.is_string())
        return reader.fail("kept." + kind.key(), "must name operations");
      own.push_back(operation.get<std::string>());
    }
  }
  std::string wrong;
  plan.kept = std::make_shared<const KeptOperations>(planner::readKept(graph, names, wrong));
  if (!wrong.empty())
    reader.fail("kept", wrong);
}

void readLayouts(Reader &reader, const json &value, TrainingPlan &plan) {
  const json *layouts = reader.find(value, "", "layouts", false);
  if (!layouts)
    return;
  if (!layouts->is_object())
    return reader.fail("layouts", "must be an object");
  for (const auto &kind : layouts->items()) {
    if (!kind.value().is_object())
      return reader.fail("layouts." + kind.key(), "must be an object");
    auto &operations = plan.layouts[kind.key()];
    for (const auto &operation : kind.value().items()) {
      if (!operation.value().is_string())
        return reader.fail("layouts." + kind.key() + "." + operation.key(),
                           "must be a string of factors, as in \"n\" or \"n,-\"");
      operations[operation.key()] = operation.value().get<std::string>();
    }
  }
}

} // namespace

/// What the search noted about the model: a plan of another one has other units, even if their number is the
/// same.
static void readModel(Reader &reader, const json &value, const FactorGraph &graph, PlanReadResult &result) {
  const json *model = reader.find(value, "", "model", false);
  if (!model || !model->is_object())
    return;
  auto number = [&](const char *key) {
    auto at = model->find(key);
    return at != model->end() && at->is_number() ? at->get<double>() : 0;
  };
  double parameters = number("parameters");
  if (parameters > 0 && std::abs(parameters / graph.parameters() - 1) > 1e-6) {
    std::ostringstream text;
    text << "the plan was made for " << parameters / 1e9 << " billion parameters, this model has "
         << graph.parameters() / 1e9 << ": give its own model, or leave this key out";
    reader.fail("model", text.str());
  }
  result.sequence = number("sequence");
}

/// What a plan that was priced says of the prediction that it was priced beside.
static constexpr const char *kStoredPrediction = "stored_prediction";

/// By the keys that a prediction has for them.
static std::array<std::pair<const char *, double *>, 7> figuresOf(PriceSummary &summary) {
  return {{{"seconds", &summary.seconds},
           {"pipeline_seconds", &summary.pipeline},
           {"bubble", &summary.bubble},
           {"collective_seconds", &summary.collective},
           {"gradient_reduction_seconds", &summary.reduction},
           {"optimizer_seconds", &summary.optimizer},
           {"peak_bytes", &summary.peakBytes}}};
}

/// What the plan was predicted to take; left out where a figure is missing.
static void readPrediction(const json &value, PlanReadResult &result) {
  auto predicted = value.find("predicted");
  if (predicted == value.end() || !predicted->is_object())
    return;
  PriceSummary summary;
  for (auto [key, figure] : figuresOf(summary)) {
    auto at = predicted->find(key);
    if (at == predicted->end() || !at->is_number())
      return;
    *figure = at->get<double>();
  }
  result.predicted = summary;
}

PlanReadResult parsePlan(std::string_view text, const FactorGraph &graph) {
  PlanReadResult result;
  Reader reader;
  TrainingPlan &plan = result.plan;
  json value = json::parse(text.begin(), text.end(), nullptr, false);
  if (cost::JsonFlaw flaw = cost::findJsonFlaw(text); !flaw.what.empty()) {
    reader.fail(flaw.place, flaw.what);
  } else if (reader.object(value, "",
                           {"format",  "version",      "model",      "machine",           "devices",
                            "idle",    "memory_bytes", "training",   "precision",         "global_batch",
                            "padding", "mesh",         "microbatch", "schedule",          "chunks",
                            "zero",    "recompute",    "attention",  "overlap_gradients", "boundary",
                            "kept",    "stages",       "layouts",    "predicted",         kStoredPrediction,
                            "search",  "code"})) {
    std::string format, name, recompute = "none", attention = "fused";
    int version = 0, batch = 0, padding = 0, microbatch = 0;
    reader.text(value, "format", true, format);
    if (reader.error.empty() && format != "colossal-training-plan")
      reader.fail("format", "must be \"colossal-training-plan\"");
    reader.whole(value, "", "version", 0, kMost, true, version);
    if (reader.error.empty() && version != 1)
      reader.fail("version", "this program reads version 1, not " + std::to_string(version));
    readModel(reader, value, graph, result);
    readPrediction(value, result);
    reader.text(value, "machine", false, result.machine);
    reader.whole(value, "", "devices", 1, kMost, true, plan.task.devices);
    reader.whole(value, "", "idle", 0, kMost, false, plan.idle);
    reader.whole(value, "", "global_batch", 1, 1e9, true, batch);
    reader.whole(value, "", "padding", 0, 1e9, false, padding);
    reader.text(value, "training", false, plan.task.optimizer);
    reader.text(value, "precision", false, plan.task.precision);
    if (const json *memory = reader.find(value, "", "memory_bytes", false)) {
      if (!memory->is_number() || !(memory->get<double>() > 0))
        reader.fail("memory_bytes", "must be a number above 0");
      else
        plan.task.memoryBytes = memory->get<double>();
    }
    readMesh(reader, value, plan);
    reader.whole(value, "", "microbatch", 1, 1e9, true, microbatch);
    plan.task.globalBatch = batch;
    plan.padding = padding;
    plan.microbatch = microbatch;
    name = cost::toString(plan.schedule);
    reader.text(value, "schedule", false, name);
    if (reader.error.empty() && !cost::parseSchedule(name, plan.schedule))
      reader.fail("schedule", "'" + name + "' is not one of " + cost::scheduleNames());
    plan.chunks =
        plan.schedule == cost::Schedule::Interleaved || plan.schedule == cost::Schedule::ZeroBubbleV ? 2 : 1;
    reader.whole(value, "", "chunks", 1, kMost, false, plan.chunks);
    reader.whole(value, "", "zero", 0, 3, false, plan.zero);
    reader.text(value, "recompute", false, recompute);
    plan.recompute = recompute == "full"        ? Recompute::Full
                     : recompute == "selective" ? Recompute::Selective
                     : recompute == "by-value"  ? Recompute::ByValue
                                                : Recompute::None;
    if (recompute != toString(plan.recompute))
      reader.fail("recompute", "'" + recompute + "' is not none, selective, full or by-value");
    readKept(reader, value, graph, plan);
    reader.text(value, "attention", false, attention);
    plan.fusedAttention = attention == "fused";
    if (!plan.fusedAttention && attention != "unfused")
      reader.fail("attention", "'" + attention + "' is not fused or unfused");
    reader.flag(value, "overlap_gradients", plan.overlapGradients);
    if (reader.error.empty())
      readBoundary(reader, value, graph, plan);
    if (const json *stages = reader.find(value, "", "stages", false)) {
      if (!stages->is_array() || stages->size() > kMost)
        reader.fail("stages", "must be a list of units for each chunk");
      else
        for (std::size_t i = 0; i < stages->size() && reader.error.empty(); ++i)
          plan.parts.push_back(reader.whole((*stages)[i], "stages[" + std::to_string(i) + "]", 1, kMost));
    }
    readLayouts(reader, value, plan);
  }
  result.error = reader.error;
  if (result.error.empty())
    result.error = validate(plan, graph);
  return result;
}

/// The keys of a plan that the search chooses.
static ordered_json describe(const TrainingPlan &plan, PlanPricer &pricer) {
  ordered_json out;
  if (plan.idle > 0)
    out["idle"] = plan.idle;
  if (plan.padding > 0)
    out["padding"] = static_cast<long long>(plan.padding);
  out["mesh"] = {
      {"pipeline", plan.pipeline}, {"data", plan.data}, {"context", plan.context}, {"tensor", plan.tensor}};
  out["microbatch"] = static_cast<long long>(plan.microbatch);
  out["schedule"] = cost::toString(plan.schedule);
  out["chunks"] = plan.chunks;
  out["zero"] = plan.zero;
  out["recompute"] = toString(plan.recompute);
  if (plan.kept)
    out["kept"] = nameKept(pricer.graph(), *plan.kept);
  out["attention"] = plan.fusedAttention ? "fused" : "unfused";
  out["overlap_gradients"] = plan.overlapGradients;
  out["boundary"] = ordered_json::array();
  for (const auto &place : plan.boundary)
    out["boundary"].push_back(place ? "dim" + std::to_string(place->dim) : std::string("whole"));
  out["stages"] = plan.parts;
  const Cell &cell = pricer.cell(plan);
  for (std::size_t k = 0; k < cell.layouts.size(); ++k) {
    UnitQuery query;
    query.kind = static_cast<int>(k);
    query.axes = tensorAxes(plan);
    for (const auto &[name, line] : pricer.blocks().describe(query, cell.layouts[k]))
      out["layouts"][pricer.graph().kinds[k].name][name] = line;
  }
  return out;
}

static ordered_json describe(const PlanPrice &price) {
  ordered_json out;
  out["seconds"] = price.seconds;
  out["pipeline_seconds"] = price.pipeline;
  out["bubble"] = price.bubble;
  out["collective_seconds"] = price.collective;
  out["gradient_reduction_seconds"] = price.reduction;
  out["optimizer_seconds"] = price.optimizer;
  out["flops"] = price.flops;
  out["peak_bytes"] = price.peakBytes;
  out["limit_bytes"] = price.limitBytes;
  for (const StageMemory &memory : price.memory)
    out["memory"].push_back({{"parameters", memory.parameters},
                             {"gradients", memory.gradients},
                             {"optimizer", memory.optimizer},
                             {"activations", memory.activations},
                             {"transient", memory.transient},
                             {"io", memory.io}});
  if (!price.curve.empty()) {
    out["memory_curve"]["stage"] = price.curveStage;
    for (const MemoryPoint &point : price.curve)
      out["memory_curve"]["points"].push_back({point.seconds, point.bytes});
  }
  for (const auto &[name, bytes] : price.bytesByCollective)
    out["bytes_by_collective"][name] = bytes;
  for (const Communication &one : price.communication)
    out["communication"].push_back({{"name", one.name},
                                    {"bytes", one.bytes},
                                    {"seconds", one.seconds},
                                    {"exposed_seconds", one.exposed}});
  return out;
}

/// What stands before a plan's choices: the model and what was asked for.
static ordered_json describe(const TrainingTask &task, PlanPricer &pricer, const std::string &machine) {
  ordered_json out;
  out["format"] = "colossal-training-plan";
  out["version"] = 1;
  out["model"] = {{"name", pricer.graph().name},
                  {"parameters", pricer.graph().parameters()},
                  {"sequence", pricer.graph().sequence},
                  {"units", pricer.graph().units.size()}};
  out["machine"] = machine;
  out["devices"] = task.devices;
  if (task.memoryBytes > 0)
    out["memory_bytes"] = task.memoryBytes;
  out["training"] = task.optimizer;
  out["precision"] = task.precision;
  out["global_batch"] = static_cast<long long>(task.globalBatch);
  return out;
}

/// A whole plan with what it is predicted to take.
static ordered_json describe(const TrainingPlan &plan, const PlanPrice &price, PlanPricer &pricer,
                             const std::string &machine) {
  ordered_json out = describe(plan.task, pricer, machine);
  ordered_json choices = describe(plan, pricer);
  for (const auto &item : choices.items())
    out[item.key()] = item.value();
  out["predicted"] = describe(price);
  return out;
}

static std::string print(const ordered_json &value) {
  return value.dump(1) + "\n";
}

std::string printPlan(const SearchResult &result, PlanPricer &pricer, const std::string &machine) {
  if (!result.best)
    return "";
  ordered_json out = describe(result.best->plan, result.best->price, pricer, machine);
  out["search"]["bound_seconds"] = result.bound;
  out["search"]["relaxed_seconds"] = result.relaxed;
  out["search"]["roofline_seconds"] = result.roofline;
  out["search"]["gap"] = result.gap();
  out["search"]["plans"] = result.plans;
  out["search"]["simulated"] = result.simulated;
  out["search"]["complete"] = result.complete;
  for (const PricedPlan &other : result.runnersUp) {
    ordered_json one = describe(other.plan, pricer);
    if (!one.contains("kept"))
      one["kept"] = ordered_json::object();
    for (const char *key : {"idle", "padding"}) // put over the best plan's keys, it is a whole plan
      if (!one.contains(key))
        one[key] = 0;
    if (!one.contains("layouts"))
      one["layouts"] = ordered_json::object();
    one["seconds"] = other.price.seconds;
    one["peak_bytes"] = other.price.peakBytes;
    one["reason"] = other.reason;
    out["search"]["runners_up"].push_back(one);
  }
  return print(out);
}

std::string printMisfit(const SearchResult &result, PlanPricer &pricer, const std::string &machine) {
  const PricedPlan &smallest = *result.smallest;
  ordered_json out = describe(smallest.plan.task, pricer, machine);
  ordered_json least = describe(smallest.plan, pricer);
  least["predicted"] = describe(smallest.price);
  out["search"] = {
      {"fits", false}, {"smallest", least}, {"remedies", result.remedies}, {"useless", result.useless}};
  return print(out);
}

std::string printPriced(const PlanReadResult &read, const PlanPrice &price, PlanPricer &pricer,
                        const std::string &machine) {
  TrainingPlan plan = read.plan;
  plan.parts = price.parts;
  ordered_json out = describe(plan, price, pricer, machine);
  if (read.predicted) {
    PriceSummary stored = *read.predicted;
    for (auto [key, figure] : figuresOf(stored))
      out[kStoredPrediction][key] = *figure;
  }
  return print(out);
}

} // namespace colossal::planner
