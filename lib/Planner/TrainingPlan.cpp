// Checks of a plan against its task and model.
#include "colossal/Planner/TrainingPlan.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace colossal::planner {

/// A plan that nobody has checked may ask for more ranks than an int counts.
static int product(std::initializer_list<int> factors, const std::vector<int> &more = {}) {
  double all = 1;
  for (int factor : factors)
    all *= factor;
  for (int factor : more)
    all *= factor;
  return static_cast<int>(std::min(all, static_cast<double>(std::numeric_limits<int>::max())));
}

int TrainingPlan::tensorSize() const {
  return product({}, tensor);
}

int TrainingPlan::ranks() const {
  return product({pipeline, data, context}, tensor);
}

int TrainingPlan::stageOf(int chunk) const {
  if (schedule == cost::Schedule::ZeroBubbleV && chunk >= pipeline)
    return 2 * pipeline - 1 - chunk;
  return chunk % pipeline;
}

int TrainingPlan::microbatches() const {
  double each = (task.globalBatch + padding) / data / microbatch;
  return each >= 1 && each < 1e7 ? static_cast<int>(std::lround(each)) : 0;
}

std::vector<TensorAxis> tensorAxes(const TrainingPlan &plan) {
  std::vector<TensorAxis> axes;
  int stride = plan.tensorSize();
  if (plan.context > 1)
    axes.push_back({plan.context, {plan.context, stride, plan.ranks()}, true});
  for (int size : plan.tensor) {
    stride /= size;
    if (size > 1)
      axes.push_back({size, {size, stride, plan.ranks()}});
  }
  return axes;
}

namespace {

std::string number(double value) {
  return std::to_string(static_cast<long long>(value));
}

// Each is empty, or what is wrong, with the key of a plan's text in front. Later ones rely on what earlier
// ones have found right.

std::string checkAsked(const TrainingTask &task) {
  if (task.devices < 1 || task.devices > 1 << 20)
    return "devices: must be 1 to 2^20, is " + number(task.devices);
  if (!(task.globalBatch >= 1) || task.globalBatch > 1e9 || task.globalBatch != std::floor(task.globalBatch))
    return "global_batch: must be a whole number of at least 1";
  if (!trainingTypes(task.precision))
    return "precision: '" + task.precision + "' is not bf16, f16, tf32 or f32";
  if (!optimizerSlots(task.optimizer))
    return "training: '" + task.optimizer + "' is not sgd, adam, adamw, adafactor, lamb, lars or lion";
  return "";
}

std::string checkMesh(const TrainingPlan &plan) {
  const TrainingTask &task = plan.task;
  for (auto [name, value] :
       {std::pair{"mesh.pipeline", plan.pipeline}, {"mesh.data", plan.data}, {"mesh.context", plan.context}})
    if (value < 1 || value > task.devices)
      return std::string(name) + ": must be 1 to " + number(task.devices) + ", is " + number(value);
  double tensor = 1;
  for (int size : plan.tensor) {
    if (size < 1 || size > task.devices)
      return "mesh.tensor: must be 1 to " + number(task.devices) + ", is " + number(size);
    tensor *= size;
  }
  double ranks = tensor * plan.pipeline * plan.data * plan.context;
  if (plan.idle < 0 || plan.idle >= task.devices)
    return "idle: must be 0 to " + number(task.devices - 1) + ", is " + number(plan.idle);
  if (ranks + plan.idle != task.devices)
    return "mesh: pipeline x data x context x tensor is " + number(ranks) + ", there are " +
           number(task.devices) + " devices" +
           (plan.idle > 0          ? " of which " + number(plan.idle) + " are idle"
            : ranks < task.devices ? " (\"idle\": " + number(task.devices - ranks) + " leaves the others out)"
                                   : "");
  if (tensorAxes(plan).size() > kMaxAxes)
    return "mesh: at most " + number(kMaxAxes) + " context and tensor axes are supported";
  return "";
}

std::string checkBatch(const TrainingPlan &plan) {
  const TrainingTask &task = plan.task;
  if (!(plan.padding >= 0) || plan.padding > 1e9 || plan.padding != std::floor(plan.padding))
    return "padding: must be a whole number of sequences from 0 to 10^9";
  double sequences = task.globalBatch + plan.padding;
  std::string padded = plan.padding > 0 ? " with " + number(plan.padding) + " of padding" : "";
  if (std::fmod(sequences, plan.data) != 0)
    return "mesh.data: " + number(plan.data) + " does not divide the global batch of " +
           number(task.globalBatch) + padded + " (\"padding\": " +
           number(std::ceil(task.globalBatch / plan.data) * plan.data - task.globalBatch) + " would do)";
  if (!(plan.microbatch >= 1) || std::fmod(sequences / plan.data, plan.microbatch) != 0)
    return "microbatch: must divide the " + number(sequences / plan.data) + " sequences of a data rank" +
           padded;
  if (plan.microbatches() < 1)
    return "microbatch: there are no microbatches, or more than 10^7";
  return "";
}

std::string checkSchedule(const TrainingPlan &plan, const FactorGraph &graph) {
  if (plan.zero < 0 || plan.zero > 3)
    return "zero: must be 0 to 3, is " + number(plan.zero);
  bool many = plan.schedule == cost::Schedule::Interleaved;
  if (many                                           ? plan.chunks < 2
      : plan.schedule == cost::Schedule::ZeroBubbleV ? plan.chunks != 2
                                                     : plan.chunks != 1)
    return std::string("chunks: ") +
           (many                                           ? "interleaved takes at least 2"
            : plan.schedule == cost::Schedule::ZeroBubbleV ? "zb-v takes 2"
                                                           : "this schedule takes 1") +
           ", is " + number(plan.chunks);
  if (plan.pipeline == 1 && plan.schedule != cost::Schedule::OneFOneB &&
      plan.schedule != cost::Schedule::GPipe)
    return std::string("schedule: ") + cost::toString(plan.schedule) + " needs more than one stage";
  if (static_cast<double>(plan.pipeline) * plan.chunks > static_cast<double>(graph.units.size()))
    return "mesh.pipeline: " + number(plan.pipeline) + " stages of " + number(plan.chunks) +
           " chunks are more than the model's " + number(graph.units.size()) + " units";
  if (many && plan.microbatches() % plan.pipeline != 0)
    return "schedule: interleaved needs a number of microbatches that the " + number(plan.pipeline) +
           " stages divide, there are " + number(plan.microbatches());
  return "";
}

std::string checkUnits(const TrainingPlan &plan, const FactorGraph &graph) {
  std::size_t axes = tensorAxes(plan).size();
  if (plan.boundary.size() != axes)
    return "boundary: must name a place for each of the " + number(axes) + " context and tensor axes above 1";
  if (!plan.parts.empty()) {
    if (plan.parts.size() != static_cast<std::size_t>(plan.pipeline) * plan.chunks)
      return "stages: must give the units of each of the " + number(plan.pipeline * plan.chunks) + " chunks";
    double sum = 0;
    for (int part : plan.parts) {
      if (part < 1)
        return "stages: each chunk needs at least one unit";
      sum += part;
    }
    if (sum != static_cast<double>(graph.units.size()))
      return "stages: the chunks have " + number(sum) + " units, the model has " + number(graph.units.size());
  }
  if ((plan.recompute == Recompute::ByValue) != (plan.kept != nullptr))
    return "kept: recompute by-value, and no other, says which results are kept";
  for (const auto &[kind, operations] : plan.layouts) {
    bool known = false;
    for (const UnitKind &one : graph.kinds)
      known |= one.name == kind;
    if (!known)
      return "layouts: the model has no unit '" + kind + "'";
  }
  return "";
}

} // namespace

std::string validate(const TrainingPlan &plan, const FactorGraph &graph) {
  std::string wrong = checkAsked(plan.task);
  if (wrong.empty())
    wrong = checkMesh(plan);
  if (wrong.empty())
    wrong = checkBatch(plan);
  if (wrong.empty())
    wrong = checkSchedule(plan, graph);
  if (wrong.empty())
    wrong = checkUnits(plan, graph);
  return wrong;
}

} // namespace colossal::planner
