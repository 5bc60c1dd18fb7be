//===- PlannedSteps.cpp - training plans as options of a program ------------===//
#include "colossal/Compiler/PlannedSteps.h"

#include "FixedRemedies.h"
#include "GivenPlan.h"
#include "TrainingModel.h"
#include "colossal/Outline/OpNames.h"
#include "colossal/Outline/Origins.h"
#include "colossal/Planner/PlanReport.h"
#include "dialects/Colossal/Colossal.h"
#include "lib/Layout/Names.h"
#include "lib/Planner/KeptValues.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <set>

using namespace mlir;

namespace colossal {

namespace {

/// The name of a tensor axis of a program's mesh.
std::string nameTensorAxis(size_t number) {
  return number == 0 ? "model" : "model" + std::to_string(number + 1);
}

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

/// What stands in each stage, or in each chunk of one, as pins: `parts` has the units of each, in the model's
/// order.
std::vector<std::string> findStagePins(ArrayRef<int> parts, const ReadModel &model) {
  // Nodes of several units belong to none of them: what is made of them stands where it is needed.
  llvm::StringMap<size_t> partOf;
  std::vector<std::vector<StringRef>> names(parts.size());
  llvm::StringSet<> shared;
  size_t unit = 0;
  for (auto [part, units] : llvm::enumerate(parts))
    for (const size_t end = unit + static_cast<size_t>(units); unit < end; ++unit)
      for (int64_t id : model.reading.graph.ids[unit]) {
        const StringRef name = id < 0 ? "" : outline::getFirstName(model.reading.operations[id]->getLoc());
        if (name.empty())
          continue;
        auto [known, isNew] = partOf.try_emplace(name, part);
        if (isNew)
          names[part].push_back(known->getKey());
        else if (known->second != part)
          shared.insert(name);
      }
  constexpr size_t kLongest = 900; // an expression of a pin has at most 1,000 characters
  std::vector<std::string> pins;
  for (auto [part, own] : llvm::enumerate(names)) {
    std::string text;
    auto finish = [&, part = part] {
      if (!text.empty())
        pins.push_back("(" + text + ")=stage:" + std::to_string(part));
      text.clear();
    };
    for (StringRef name : own) {
      if (shared.contains(name))
        continue;
      const std::string escaped = outline::escapeName(name);
      if (text.size() + escaped.size() > kLongest)
        finish();
      text += (text.empty() ? "" : "|") + escaped;
    }
    finish();
  }
  return pins;
}

/// Whether `op` only moves elements of a parameter, which lie as they are stored.
bool isReadOf(Operation &op) {
  auto kernel = dyn_cast<KernelOpInterface>(&op);
  if (!kernel || kernel.getKernelKind() != KernelKind::Movement || op.getNumOperands() != 1)
    return false;
  Operation *maker = op.getOperand(0).getDefiningOp();
  return maker && (isa<ParameterOp>(maker) || isReadOf(*maker));
}

/// Pins of what no batch is in, as tables of positions and biases that are looked up: each rank has the
/// whole, and a gradient that is summed over the batch stays partial up to the parameter. Under other axes
/// than `data` that is split as what reads it, and there are none. Each is of what one node makes in one
/// shape, which may be none of the program any more: numbers of operations change with the precision and with
/// stages.
std::vector<std::string> findBatchlessPins(ReadModel &model) {
  func::FuncOp function = model.functions[0];
  llvm::DenseMap<Value, outline::Origin> origins = outline::findOrigins(function);
  llvm::DenseMap<Operation *, std::string> unique = outline::getUniqueNames(function);
  llvm::StringMap<Type> sizes; // at the other batch
  for (auto [op, name] : outline::getUniqueNames(model.functions[1]))
    if (op->getNumResults() > 0)
      sizes[name] = op->getResult(0).getType();
  // What is repeated for each sequence has a batch, and what that is made of may be split as it is.
  llvm::DenseSet<Operation *> batched;
  for (Operation &op : llvm::reverse(function.front().without_terminator())) {
    const bool isFixed = op.getNumResults() > 0 && !origins.lookup(op.getResult(0)).argument;
    if (isFixed && (sizes.lookup(unique[&op]) != op.getResult(0).getType() ||
                    llvm::any_of(op.getUsers(), [&](Operation *user) { return batched.contains(user); })))
      batched.insert(&op);
  }
  llvm::MapVector<StringRef, SmallVector<Operation *, 1>> nodes;
  for (Operation &op : function.front().without_terminator())
    if (StringRef name = outline::getFirstName(op.getLoc());
        !name.empty() && !isa<ParameterOp>(op) && op.getNumResults() > 0)
      nodes[name].push_back(&op);
  std::vector<std::string> pins;
  for (auto &[name, ops] : nodes) {
    bool isReached = true; // by a gradient, which goes on to parameters alone
    llvm::StringSet<> own;
    for (Operation *op : ops) {
      const outline::Origin origin = origins.lookup(op->getResult(0));
      const bool isBatchless = !origin.argument && !batched.contains(op);
      isReached &= isBatchless && origin.parameter;
      auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
      if (!type || !isBatchless || isReadOf(*op))
        continue;
      std::string pin = "?" + outline::escapeName(name) + "=replicated[";
      llvm::raw_string_ostream text(pin);
      llvm::interleave(type.getShape(), text, ",");
      text << "]";
      if (own.insert(pin).second)
        pins.push_back(std::move(pin));
    }
    if (isReached)
      pins.push_back("?" + outline::escapeName(outline::nameGradient(name)) + "(#\\d+)?=partial:data");
  }
  return pins;
}

/// Behind the pin of a slice: the dimensions it speaks of. What a node drops of them, when it takes one row,
/// is a reshape that has its name and other factors. And where several operations of a node are to be told
/// apart (`hasSizes`): their sizes, but for the batch. `other`: its result's type at another batch.
std::string describeShape(Operation &op, Type other, bool hasSizes) {
  if (!hasSizes && !isa<SliceOp>(op))
    return "";
  auto type = cast<RankedTensorType>(op.getResult(0).getType()),
       atOther = dyn_cast_or_null<RankedTensorType>(other);
  std::string text;
  for (int64_t d = 0; d < type.getRank(); ++d) {
    const bool isFixed = hasSizes && atOther && atOther.getRank() == type.getRank() &&
                         atOther.getDimSize(d) == type.getDimSize(d);
    text += (d ? "," : "") + (isFixed ? std::to_string(type.getDimSize(d)) : "-");
  }
  return "[" + text + "]";
}

/// A pin of the loss, which is no operation of the file, where tensor axes split it: what it computes for
/// each logit has their dimensions. `choice` has the factor that each of `axes` splits, or -1.
std::string nameLossLayout(const factors::Operation &loss, const planner::UnitLayout::value_type &choice,
                           ArrayRef<std::string> axes, bool hasData) {
  std::string text;
  bool splits = false;
  double classes = 1;
  int dims = 0;
  for (const factors::FactorPosition &place : loss.operands[0].places) {
    const factors::Factor &factor = loss.factors[place.factor];
    classes *= factor.role == "vocabulary" ? factor.size : 1;
    dims = std::max(dims, place.dim + 1);
    std::string on = hasData && factor.perSequence ? "data" : "";
    for (auto [a, axis] : llvm::enumerate(axes))
      if (choice[a] == place.factor) {
        splits = true;
        on += (on.empty() ? "" : "+") + axis;
      }
    int parts = 0, outside = 0; // of the dimension
    for (const factors::FactorPosition &other : loss.operands[0].places) {
      parts += other.dim == place.dim;
      outside += other.dim == place.dim && other.inner > place.inner;
    }
    if (!on.empty())
      text += (text.empty() ? "" : ",") + ("d" + std::to_string(place.dim)) +
              (parts > 1 ? "." + std::to_string(outside) : "") + ":" + on;
  }
  if (!splits)
    return "";
  std::string shape = "[";
  for (int d = 1; d < dims; ++d)
    shape += "-,";
  const std::string gradient = outline::escapeName(outline::nameGradient("")); // has it, too
  return "?" + outline::escapeName(loss.name) + "(" + gradient + ")?=" + text + shape +
         std::to_string(static_cast<int64_t>(classes)) + "]";
}

/// A plan's axes, as a unit's layout has them.
SmallVector<std::string> nameAxes(const planner::TrainingPlan &plan) {
  SmallVector<std::string> axes;
  if (plan.context > 1)
    axes.push_back("context");
  for (auto [t, size] : llvm::enumerate(plan.tensor))
    if (size > 1)
      axes.push_back(nameTensorAxis(t));
  return axes;
}

/// Pins of what stages hand each other: on either side it lies as it does between units, and ranks of a stage
/// bring together what they need more of. By the shapes that the stream, and what goes on beside it, has.
std::vector<std::string> findStreamPins(const planner::TrainingPlan &plan, ReadModel &model) {
  const SmallVector<std::string> axes = nameAxes(plan);
  if (axes.empty())
    return {};
  const factors::FactorGraph &graph = model.reading.graph;
  double ranks = plan.context;
  for (int size : plan.tensor)
    ranks *= size;
  std::optional<planner::PositionKey> beside = planner::findPlaceBesideStream(graph);
  if (beside && beside->size < ranks)
    beside.reset();
  const planner::Boundary besideStream(axes.size(), beside);
  std::set<std::string> layouts;
  for (auto [u, ids] : llvm::enumerate(graph.ids)) {
    const factors::UnitKind &kind = graph.kinds[graph.units[u]];
    for (auto [i, id] : llvm::enumerate(ids)) {
      const factors::Operation &op = kind.operations[i];
      if (id < 0 || op.results.empty() || !llvm::is_contained(kind.outputs, op.results[0].tensor))
        continue;
      auto type = dyn_cast<RankedTensorType>(model.reading.operations[id]->getResult(0).getType());
      if (!type || type.getRank() == 0)
        continue;
      SmallVector<std::string> dims(type.getRank(), "-");
      if (plan.data > 1)
        dims[0] = "data";
      const bool isStream = op.results[0].tensor == kind.outputs.front();
      const planner::Boundary &places = isStream ? plan.boundary : besideStream;
      for (auto [axis, place] : llvm::zip_equal(axes, ArrayRef(places).take_front(axes.size()))) {
        if (!place || place->dim >= type.getRank())
          continue;
        std::string &dim = dims[place->dim];
        const auto inner = static_cast<int64_t>(place->inner), size = static_cast<int64_t>(place->size);
        const bool isOutermost = size == 0 || size * inner >= type.getDimSize(place->dim);
        if (dim != "-") {
          dim += "+" + axis; // axes that share a place
          continue;
        }
        dim = (isOutermost ? "" : "-*" + std::to_string(size) + ":") + axis +
              (inner > 1 ? "*" + std::to_string(inner) : "");
      }
      layouts.insert(llvm::join(dims, ","));
    }
  }
  std::vector<std::string> pins;
  for (const std::string &layout : layouts)
    pins.push_back("?(send|recv)\\..*=[" + layout + "]");
  return pins;
}

/// The layouts of a plan as pins of the model's operations.
std::vector<std::string> findPins(const planner::TrainingPlan &plan, ArrayRef<planner::UnitLayout> layouts,
                                  ReadModel &model) {
  const factors::FactorGraph &graph = model.reading.graph;
  dist::RefinementAnalysis rules(model.functions[0]);
  const SmallVector<std::string> axes = nameAxes(plan);
  // Several operations may be made of one node, and have its name; a pin of factors holds for those that have
  // them. One that splits nothing holds for any, so where there are several it is of the name that tells them
  // apart, and goes before.
  llvm::DenseMap<Operation *, std::string> unique = outline::getUniqueNames(model.functions[0]);
  llvm::StringMap<unsigned> count, reductions;
  llvm::StringSet<> turns;
  for (Operation &op : model.functions[0].front()) {
    ++count[outline::getFirstName(op.getLoc())];
    if (isa<TransposeOp>(op))
      turns.insert(outline::getFirstName(op.getLoc()));
    if (isa<ReduceOp>(op))
      ++reductions[outline::getFirstName(op.getLoc())];
  }
  llvm::StringMap<Type> atOther; // batch, by unique name
  for (auto [op, name] : outline::getUniqueNames(model.functions[1]))
    if (op->getNumResults() > 0)
      atOther[name] = op->getResult(0).getType();
  std::vector<std::string> whole, split, reduced;
  for (auto [u, ids] : llvm::enumerate(graph.ids)) {
    const factors::UnitKind &kind = graph.kinds[graph.units[u]];
    const planner::UnitLayout &layout = layouts[graph.units[u]];
    for (auto [i, id] : llvm::enumerate(ids)) {
      const factors::Operation &operation = kind.operations[i];
      const StringRef name = id < 0 ? "" : outline::getFirstName(model.reading.operations[id]->getLoc());
      Operation *op = id < 0 ? nullptr : model.reading.operations[id];
      if (id < 0 && !axes.empty() && operation.name == "loss")
        if (std::string pin = nameLossLayout(operation, layout[i], axes, plan.data > 1); !pin.empty())
          split.push_back(std::move(pin));
      if (name.empty() || (operation.kind == factors::Operation::View && !isa<SliceOp>(op)))
        continue;
      const dist::RefinedRule &rule = rules.get(op);
      std::vector<std::string> names = layout::getFactorNames(rule);
      // Where the two batches are not cut alike the units have the factors as they are, whose outermost parts
      // are meant.
      if (rule.rule.factors.size() != operation.factors.size()) {
        std::vector<std::string> own;
        for (ArrayRef<unsigned> parts : rule.parts)
          own.push_back(names[parts.front()]);
        names = std::move(own);
      }
      std::vector<std::string> onFactor(names.size());
      auto add = [&](size_t factor, const std::string &axis) {
        onFactor[factor] += (onFactor[factor].empty() ? "" : "+") + axis;
      };
      if (plan.data > 1)
        for (auto [f, factor] : llvm::enumerate(operation.factors))
          if (factor.perSequence && factor.kind != factors::Factor::Whole) {
            add(f, "data");
            break;
          }
      for (auto [a, axis] : llvm::enumerate(axes))
        if (layout[i][a] >= 0)
          add(static_cast<size_t>(layout[i][a]), axis);
      std::string text;
      for (auto [factor, on] : llvm::zip_equal(names, onFactor))
        if (!on.empty())
          text += (text.empty() ? "" : ",") + factor + ":" + on;
      // A stage that has only some of a node's operations numbers these anew.
      const std::string pin = outline::escapeName(name) + "=" + text;
      if (text.empty())
        whole.push_back((count[name] > 1 && plan.pipeline > 1 ? "?" : "") +
                        outline::escapeName(count[name] > 1 ? StringRef(unique[op]) : name) + "=replicated");
      else if (isa<ReduceOp>(op) && reductions.lookup(name) > 1) {
        // Over classes and then over rows, as losses have them; a step may have others, as for statistics.
        split.push_back(pin);
        reduced.push_back("?" + pin + describeShape(*op, atOther.lookup(unique[op]), /*hasSizes=*/true));
      } else {
        // A node that turns what it reads has dimensions in another order behind that.
        const bool isBesideTurned = isa<ElementwiseOp>(op) && turns.contains(name);
        split.push_back(pin + describeShape(*op, atOther.lookup(unique[op]), isBesideTurned));
      }
    }
  }
  llvm::append_range(whole, split);
  llvm::append_range(whole, reduced);
  if (axes.empty())
    return whole;
  // The backward pass of what is split over tensor axes is, too.
  whole.insert(whole.begin(), ".*" + outline::escapeName(outline::nameGradient("")) + "=forward");
  return whole;
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
