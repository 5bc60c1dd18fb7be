//===- PlannedSteps.cpp - training plans as options of a program ------------===//
#include "colossal/Compiler/PlannedSteps.h"

#include "FixedRemedies.h"
#include "GivenPlan.h"
#include "PlanPins.h"
#include "TrainingModel.h"
#include "colossal/Planner/PlanReport.h"
#include "dialects/Colossal/Colossal.h"
#include "lib/Planner/KeptValues.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;

namespace colossal {

namespace {

/// What of a plan no program has yet, by the name of its key; or "".
std::string findUncompiled(const planner::TrainingPlan &plan) {
  auto number = [](double value) { return std::to_string(static_cast<long long>(value)); };
  // Ranks pad their part of a batch as any dimension; a loop has turns of whole samples.
  if (plan.padding > 0 && std::fmod(plan.task.globalBatch, plan.microbatches()) != 0)
    return "padding is " + number(plan.padding) + ": " + number(plan.microbatches()) +
           " microbatches do not divide the global batch, and steps of uneven ones are not compiled; a "
           "number "
           "that divides " +
           number(plan.task.globalBatch) + " would do";
  if (!plan.fusedAttention)
    return "attention is unfused: programs store no scores; --attention fused plans what is compiled";
  return "";
}

/// The ops whose results a plan keeps by value.
std::vector<std::string> nameKept(const planner::KeptOperations &kept, ReadModel &model) {
  std::vector<std::string> chosen;
  const factors::FactorGraph &graph = model.reading.graph;
  const llvm::DenseMap<Operation *, std::string> names = nameOps(model.functions[0]);
  for (auto [unit, ids] : llvm::enumerate(graph.ids))
    for (auto [i, id] : llvm::enumerate(ids))
      if (id >= 0 && kept[graph.units[unit]][i])
        chosen.push_back(names.lookup(model.reading.operations[id]));
  return chosen;
}

/// The ops with which the segments of a plan's forward pass begin.
std::vector<std::string> nameSegments(ArrayRef<int> segments, ReadModel &model) {
  const llvm::DenseMap<Operation *, std::string> names = nameOps(model.functions[0]);
  std::vector<std::string> begins;
  for (int id : segments)
    begins.push_back(id < 0 ? "" : names.lookup(model.reading.operations[id]));
  return begins;
}

/// The step of a plan that is priced, with the layouts by kind of unit and the units of each chunk.
PlannedStep makeStep(const planner::TrainingPlan &plan, const planner::PlanPrice &price,
                     ArrayRef<planner::UnitLayout> layouts, StringRef machine, ReadModel &model) {
  PlannedStep step;
  step.plan = plan;
  auto addAxis = [&](const std::string &name, int size) {
    if (size > 1)
      step.mesh += (step.mesh.empty() ? "" : ",") + name + "=" + std::to_string(size);
  };
  addAxis("stage", plan.pipeline);
  addAxis("data", plan.data);
  addAxis("context", plan.context);
  for (auto [t, size] : llvm::enumerate(plan.tensor))
    addAxis(nameTensorAxis(t), size);
  if (step.mesh.empty())
    step.mesh = "1";
  step.pins = findPins(plan, layouts, model);
  if (plan.data > 1 && plan.context == 1 && llvm::all_of(plan.tensor, [](int size) { return size == 1; }))
    llvm::append_range(step.pins, findBatchlessPins(model));
  if (plan.pipeline > 1) {
    llvm::append_range(step.pins, findStreamPins(plan, model));
    llvm::append_range(step.pins, findStagePins(price.parts, model));
  }
  if (plan.schedule == cost::Schedule::ZeroBubble1p || plan.schedule == cost::Schedule::ZeroBubble2p)
    step.passes = price.passes;
  if (plan.kept)
    step.kept = nameKept(*plan.kept, model);
  if (plan.recompute != planner::Recompute::None)
    step.segments = nameSegments(price.segments, model);
  step.seconds = price.seconds;
  step.bytes = price.peakBytes;
  step.memory = price.memory;
  step.bytesByCollective = price.bytesByCollective;
  step.machine = machine.str();
  return step;
}

/// The task as a program of `options.target` does it.
planner::TrainingTask makeCompiledTask(MLIRContext *context, const PlanTrainingOptions &options) {
  planner::TrainingTask task = options.task;
  task.scoresInMemory = true;
  Type element = Float32Type::get(context);
  if (task.precision == "bf16")
    element = BFloat16Type::get(context);
  else if (task.precision == "f16")
    element = Float16Type::get(context);
  task.addsInPlace = options.target && options.target->addsProductsInPlace();
  if (options.target)
    task.copiedBytes = [target = options.target, element](double rows, double columns, double depth) {
      return static_cast<double>(target->copiedBytes(
          element, static_cast<int64_t>(rows), static_cast<int64_t>(columns), static_cast<int64_t>(depth)));
    };
  if (options.target)
    task.convolutionBytes = [target = options.target, element](double batch, double inputChannels,
                                                               double outputChannels, double height,
                                                               double width) {
      const codegen::ConvolutionBytes bytes = target->convolutionBytes(
          element, static_cast<int64_t>(batch), static_cast<int64_t>(inputChannels),
          static_cast<int64_t>(outputChannels), static_cast<int64_t>(height), static_cast<int64_t>(width));
      return std::pair(static_cast<double>(bytes.ofInput), static_cast<double>(bytes.ofWeights));
    };
  return task;
}

} // namespace

FailureOr<PlannedStep> readPlannedStep(MLIRContext *context, const PlanTrainingOptions &options) {
  FailureOr<ReadModel> model = readModel(context, options);
  if (failed(model))
    return failure();
  PlanTrainingOptions compiled = options;
  compiled.task = makeCompiledTask(context, options);
  FailureOr<GivenPlan> given = priceOne(context, compiled, model->reading.graph, options.pricePath);
  if (failed(given))
    return failure();
  if (std::string wrong = findUncompiled(given->read.plan); !wrong.empty())
    return emitError(UnknownLoc::get(context)) << options.pricePath << ": " << wrong;
  return makeStep(given->read.plan, given->price, given->layouts, given->machine, *model);
}

FailureOr<std::vector<std::vector<std::string>>> findKept(MLIRContext *context,
                                                          const PlanTrainingOptions &options) {
  FailureOr<ReadModel> model = readModel(context, options);
  if (failed(model))
    return failure();
  const factors::FactorGraph &graph = model->reading.graph;
  const planner::TrainingTask task = makeCompiledTask(context, options);
  cost::CostModel machine(options.machine);
  planner::PlanPricer pricer(graph, machine, task);
  std::vector<std::vector<std::string>> choices;
  for (const auto &kept :
       planner::findKeptChoices(graph, pricer.blocks(), pricer.types(), planner::kCompiledKeptChoices))
    choices.push_back(nameKept(*kept, *model));
  return choices;
}

void applyPlan(const PlannedStep &step, CompileOptions &options) {
  const planner::TrainingPlan &plan = step.plan;
  options.devices = 0;
  options.mesh = step.mesh;
  options.microbatches = plan.microbatches();
  options.chunks = plan.pipeline > 1 ? plan.chunks : 0;
  options.pipelineSchedule.reset();
  if (plan.pipeline > 1)
    options.pipelineSchedule = plan.schedule;
  options.pipelinePasses = step.passes;
  options.training->globalBatch = static_cast<int64_t>(plan.task.globalBatch);
  // Where no ranks share state, any stage is stage 0.
  options.training->zero = plan.data * plan.context > 1 ? plan.zero : 0;
  options.training->recompute =
      plan.kept ? Recompute::ByValue : parseRecompute(planner::toString(plan.recompute));
  options.training->kept = step.kept;
  options.training->segments.reset();
  if (plan.recompute != planner::Recompute::None)
    options.training->segments = step.segments;
  options.layout.pins.insert(options.layout.pins.begin(), step.pins.begin(), step.pins.end());
}

std::string describe(const PlannedStep &step) {
  const planner::TrainingPlan &plan = step.plan;
  std::string text = "mesh " + step.mesh;
  if (plan.idle > 0)
    text += " (" + std::to_string(plan.idle) + " of " + std::to_string(plan.task.devices) + " devices idle)";
  if (plan.microbatches() > 1)
    text += " in " + std::to_string(plan.microbatches()) + " microbatches";
  if (plan.pipeline > 1)
    text += std::string(" by ") + cost::toString(plan.schedule);
  if (plan.chunks > 1)
    text += " in " + std::to_string(plan.chunks) + " chunks of a stage";
  if (plan.zero > 0 && plan.data * plan.context > 1)
    text += ", ZeRO " + std::to_string(plan.zero);
  if (plan.recompute != planner::Recompute::None)
    text += std::string(", recompute ") + planner::toString(plan.recompute);
  return text + llvm::formatv(", predicted {0:F2} ms a step and {1:F2} MiB a rank on {2}", 1e3 * step.seconds,
                              step.bytes / (1 << 20), step.machine)
                    .str();
}

namespace {

/// Puts first what takes as long as the fastest, as far as times are known, and clearly less memory: the same
/// plan that keeps less of the forward pass. `steps` are sorted by time.
void preferLeaner(std::vector<PlannedStep> &steps) {
  constexpr double kAsFast = 1 + 1.0 / 256, kClearlyLess = 1 - 1.0 / 64;
  const planner::TrainingPlan &fastest = steps.front().plan;
  auto best = steps.begin();
  for (auto step = steps.begin(); step != steps.end() && step->seconds <= steps.front().seconds * kAsFast;
       ++step) {
    const planner::TrainingPlan &plan = step->plan;
    if (planner::isOnOneMesh(plan, fastest) && plan.zero == fastest.zero &&
        plan.schedule == fastest.schedule && plan.microbatches() == fastest.microbatches() &&
        step->bytes < best->bytes * kClearlyLess)
      best = step;
  }
  std::rotate(steps.begin(), best, best + 1);
}

} // namespace

struct StepPlanner::Parts {
  MLIRContext *context;
  PlanTrainingOptions options;
  ReadModel model;
  bool takesStatistics = false;
};

StepPlanner::StepPlanner(std::unique_ptr<Parts> parts) : parts(std::move(parts)) {}
StepPlanner::StepPlanner(StepPlanner &&) noexcept = default;
StepPlanner::~StepPlanner() = default;

FailureOr<StepPlanner> StepPlanner::create(MLIRContext *context, const PlanTrainingOptions &options) {
  FailureOr<ReadModel> model = readModel(context, options);
  if (failed(model))
    return failure();
  return StepPlanner(std::make_unique<Parts>(Parts{context, options, std::move(*model)}));
}

void StepPlanner::setTakesStatistics() {
  parts->takesStatistics = true;
}

FailureOr<PlannedSteps> StepPlanner::find(double memoryBytes, bool explains) {
  const PlanTrainingOptions &options = parts->options;
  const factors::FactorGraph &graph = parts->model.reading.graph;
  Location loc = UnknownLoc::get(parts->context);
  PlanTrainingOptions compiled = options;
  planner::TrainingTask &task = compiled.task = makeCompiledTask(parts->context, options);
  task.memoryBytes = memoryBytes;
  const cost::CostModel machine(options.machine);
  planner::PlanPricer pricer(graph, machine, task);
  for (const std::string &wrong :
       {planner::checkTask(pricer, task), planner::checkModel(options.fixed, options.space, graph)})
    if (!wrong.empty())
      return emitError(loc) << wrong;
  planner::SearchResult found;
  if (parts->takesStatistics && options.keepsStatistics && options.space.microbatches == 0) {
    planner::SearchSpace whole = options.space;
    whole.microbatches = 1;
    found = planner::searchPlans(pricer, task, whole, options.progress);
  }
  if (!found.best)
    found = planner::searchPlans(pricer, task, options.space, options.progress);
  if (!found.error.empty()) {
    const std::string fixed = options.fixed.text();
    return emitError(loc) << found.error
                          << (fixed.empty() ? "" : ": " + fixed + findContradiction(compiled, graph, pricer));
  }
  PlannedSteps result;
  if (!found.best) {
    if (explains)
      findWhatIsTooTight(compiled, graph, pricer, found);
    result.report = planner::printReport(found, pricer);
    return result;
  }
  auto add = [&](const planner::PricedPlan &priced) {
    planner::PlanPrice price = priced.price;
    if (priced.plan.pipeline > 1 ||
        priced.plan.recompute != planner::Recompute::None) // with passes and segments
      price = pricer.price(priced.plan, /*detailed=*/true);
    result.steps.push_back(
        makeStep(priced.plan, price, pricer.cell(priced.plan).layouts, options.machine.name, parts->model));
  };
  add(*found.best);
  for (const planner::PricedPlan &other : found.runnersUp)
    add(other);
  llvm::stable_sort(result.steps,
                    [](const PlannedStep &a, const PlannedStep &b) { return a.seconds < b.seconds; });
  preferLeaner(result.steps);
  return result;
}

} // namespace colossal
