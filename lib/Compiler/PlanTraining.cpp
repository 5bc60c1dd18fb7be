//===- PlanTraining.cpp - from an ONNX file to a training plan --------------===//
#include "colossal/Compiler/PlanTraining.h"

#include "colossal/Compiler/Compiler.h"
#include "colossal/Cost/ByteSize.h"
#include "colossal/FactorGraph/Reader.h"
#include "colossal/Outline/OpNames.h"
#include "colossal/Output/OutputFile.h"
#include "colossal/Planner/PlanReport.h"
#include "colossal/Planner/PlanText.h"
#include "lib/Layout/Names.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

#include <array>
#include <fstream>
#include <set>
#include <sstream>

using namespace mlir;

namespace colossal {

namespace {

/// Two batches at which every size is told apart: what does not grow, and what grows with the batch.
constexpr int64_t kFewSequences = 2, kManySequences = 3;

/// Tokens of a sequence that are tried, by halves, where no option says.
constexpr int64_t kLongestAssumed = 2048, kShortestAssumed = 16;

/// Names of the dimensions that hold the batch: the first of each input, unless bound. `lengths` gets each
/// other dimension that is left open, and where it stands.
FailureOr<std::set<std::string>> findBatch(MLIRContext *context, const PlanTrainingOptions &options,
                                           const std::vector<ModelInput> &inputs, std::string &told,
                                           std::map<std::string, std::string> &lengths) {
  Location loc = UnknownLoc::get(context);
  std::set<std::string> batch;
  std::string fixed, bound;
  for (const ModelInput &input : inputs) {
    if (options.import.values.count(input.name))
      continue;
    if (auto shape = options.import.shapes.find(input.name); shape != options.import.shapes.end()) {
      bound = "--shape " + input.name;
      continue;
    }
    if (!input.hasShape)
      return emitError(loc) << "input '" << input.name
                            << "' has no shape: its batch cannot be found; export the model with shapes";
    for (auto [d, dim] : llvm::enumerate(input.shape)) {
      bool isBound = dim.size >= 0 || options.import.dims.count(dim.name);
      bool isBatch = options.batchDimension.empty() ? d == 0 : dim.name == options.batchDimension;
      if (isBatch && !isBound) {
        batch.insert(dim.name);
        if (told.empty())
          told = "dimension " + std::to_string(d) + " of '" + input.name + "'" +
                 (dim.isNamed ? " ('" + dim.name + "')" : "");
      } else if (d == 0 && dim.size >= 0) {
        fixed = "input '" + input.name + "' has a fixed first dimension of " + std::to_string(dim.size);
      } else if (d == 0 && isBound) {
        bound = "--dim " + dim.name;
      }
    }
  }
  if (batch.empty()) {
    if (!options.batchDimension.empty())
      return emitError(loc) << "--batch-dim '" << options.batchDimension
                            << "': no input has a dimension of that name that is left open";
    auto diagnostic = emitError(loc) << "no batch is left open for the search to choose microbatches: ";
    if (!bound.empty())
      return diagnostic << "leave out " << bound
                        << ", the first dimension is the batch (or name another with --batch-dim)";
    return diagnostic << (fixed.empty() ? "the model has no inputs" : fixed)
                      << "; export the model with a symbolic batch, or name its dimension with --batch-dim";
  }
  for (const ModelInput &input : inputs)
    for (auto [d, dim] : llvm::enumerate(input.shape)) {
      if (dim.size >= 0 || batch.count(dim.name) || lengths.count(dim.name) ||
          options.import.dims.count(dim.name) || options.import.shapes.count(input.name) ||
          options.import.values.count(input.name))
        continue;
      lengths[dim.name] = "dimension " + std::to_string(d) + " of input '" + input.name + "'";
    }
  return batch;
}

/// Imports the model with the longest of a few lengths that it takes for the dimensions of `lengths` (a table
/// of positions may end before), and says so.
FailureOr<OwningOpRef<ModuleOp>> importWithLengths(MLIRContext *context, ImportOptions &import,
                                                   const std::map<std::string, std::string> &lengths) {
  if (lengths.empty())
    return importOnnx(context, import);
  std::vector<Diagnostic> refused;
  for (int64_t length = kLongestAssumed; length >= kShortestAssumed; length /= 2) {
    for (const auto &[name, where] : lengths)
      import.dims[name] = length;
    std::vector<Diagnostic> told;
    FailureOr<OwningOpRef<ModuleOp>> module = failure();
    {
      ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
        told.push_back(std::move(diagnostic));
        return success();
      });
      module = importOnnx(context, import);
    }
    if (succeeded(module)) {
      for (const auto &[name, where] : lengths)
        emitWarning(UnknownLoc::get(context))
            << where << " is not bound: " << length << " assumed; --dim " << name << "=LENGTH gives another";
      for (Diagnostic &diagnostic : told)
        context->getDiagEngine().emit(std::move(diagnostic));
      return module;
    }
    if (refused.empty())
      refused = std::move(told);
  }
  for (Diagnostic &diagnostic : refused)
    context->getDiagEngine().emit(std::move(diagnostic));
  std::string names, options;
  for (const auto &[name, where] : lengths) {
    names += (names.empty() ? "" : ", ") + where;
    options += " --dim " + name + "=LENGTH";
  }
  return emitError(UnknownLoc::get(context))
         << names << (lengths.size() > 1 ? " are" : " is")
         << " not bound, and the model takes no length from " << kShortestAssumed << " to " << kLongestAssumed
         << " that was tried for " << (lengths.size() > 1 ? "all of them" : "it") << ": give" << options;
}

/// A model's units, and the ops that they lead back to.
struct ReadModel {
  OwningOpRef<ModuleOp> modules[2]; ///< at two batches
  func::FuncOp functions[2];
  factors::Reading reading;
};

FailureOr<ReadModel> readModel(MLIRContext *context, PlanTrainingOptions options) {
  FailureOr<std::vector<ModelInput>> inputs = listInputs(context, options.import.modelPath);
  if (failed(inputs))
    return failure();
  bindByPosition(*inputs, options.import.dims);
  std::string told;
  std::map<std::string, std::string> lengths; // by name: which input's dimension
  std::map<std::string, int64_t> chosen;
  FailureOr<std::set<std::string>> batch = findBatch(context, options, *inputs, told, lengths);
  if (failed(batch))
    return failure();
  ReadModel model;
  for (int i = 0; i < 2; ++i) {
    ImportOptions import = options.import;
    import.allowMissingWeights = true;
    import.dims.insert(chosen.begin(), chosen.end());
    for (const std::string &name : *batch)
      import.dims[name] = i == 0 ? kFewSequences : kManySequences;
    FailureOr<OwningOpRef<ModuleOp>> module =
        i == 0 ? importWithLengths(context, import, lengths) : importOnnx(context, import);
    if (failed(module))
      return failure();
    for (const auto &[name, where] : lengths)
      chosen[name] = import.dims[name];
    model.modules[i] = std::move(*module);
    model.functions[i] = *model.modules[i]->getOps<func::FuncOp>().begin();
  }
  if (options.progress)
    options.progress("units");
  std::optional<factors::Reading> read =
      factors::readFactorGraph(model.functions[0], kFewSequences, model.functions[1], kManySequences);
  if (!read)
    return failure();
  std::string path = options.import.modelPath;
  read->graph.name = path.substr(path.find_last_of('/') + 1);
  read->graph.batchDimension = told;
  model.reading = std::move(*read);
  return model;
}

FailureOr<factors::FactorGraph> readGraph(MLIRContext *context, const PlanTrainingOptions &options) {
  FailureOr<ReadModel> model = readModel(context, options);
  if (failed(model))
    return failure();
  return std::move(model->reading.graph);
}

/// A file's text, of at most 64 MiB; none with a diagnostic.
FailureOr<std::string> readText(MLIRContext *context, const std::string &path) {
  noteInput(path);
  std::ifstream file(path, std::ios::binary);
  constexpr std::streamoff kMost = 64 << 20;
  file.seekg(0, std::ios::end);
  if (!file || file.tellg() > kMost) {
    noteUnusableInput();
    return emitError(UnknownLoc::get(context))
           << "'" << path << "' cannot be read" << (file ? ": more than 64 MiB" : "");
  }
  file.seekg(0);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    noteUnusableInput();
    return emitError(UnknownLoc::get(context)) << "'" << path << "' cannot be read";
  }
  return text.str();
}

/// A plan's file with its price.
struct GivenPlan {
  planner::PlanReadResult read;
  planner::PlanPrice price;
  std::vector<planner::UnitLayout> layouts; ///< by kind of unit
  std::string machine;                      ///< that it is priced on
  std::string report, json;
};

FailureOr<GivenPlan> priceOne(MLIRContext *context, const PlanTrainingOptions &options,
                              const factors::FactorGraph &graph, const std::string &path) {
  Location loc = UnknownLoc::get(context);
  FailureOr<std::string> text = readText(context, path);
  if (failed(text))
    return failure();
  GivenPlan given{planner::parsePlan(*text, graph), {}, {}, "", "", ""};
  planner::PlanReadResult &read = given.read;
  if (!read.error.empty())
    return emitError(loc) << path << ": " << read.error;
  const PlanTrainingOptions::Asked &asked = options.asked;
  const planner::TrainingTask &task = read.plan.task;
  auto number = [](double value) { return std::to_string(static_cast<long long>(value)); };
  auto asText = [&](double value) { return value > 0 ? number(value) : std::string(); };
  const std::array<std::string, 4> pairs[] = {
      {"--devices", asText(asked.devices), "devices", number(task.devices)},
      {"--global-batch", asText(asked.globalBatch), "global_batch", number(task.globalBatch)},
      {"--machine", read.machine.empty() ? "" : asked.machine, "machine", read.machine},
      {"--training", asked.optimizer, "training", task.optimizer},
      {"--precision", asked.precision, "precision", task.precision},
      {"--attention", asked.attention, "attention", read.plan.fusedAttention ? "fused" : "unfused"}};
  for (const auto &[option, wanted, key, stated] : pairs)
    if (!wanted.empty() && wanted != stated)
      return emitError(loc) << option << ": is " << wanted << ", but " << key << " in " << path << " is "
                            << stated << ": change the plan, or leave " << option << " out";
  if (read.sequence > 0 && graph.sequence > 0 && read.sequence != graph.sequence)
    emitWarning(loc) << path << ": the plan was made for " << number(read.sequence)
                     << " tokens a sequence and is priced for " << number(graph.sequence)
                     << "; --dim binds the length";
  // The plan's machine is known when the plan was read, which is its door.
  cost::Machine machine = options.machine;
  if (!read.machine.empty()) {
    cost::MachineResult stated = cost::loadMachine(read.machine);
    if (!stated.error.empty())
      return emitError(loc) << path << ": machine: " << stated.error;
    machine = std::move(stated.machine);
  }
  if (read.plan.task.devices > machine.devices())
    return emitError(loc) << path << ": devices: machine '" << machine.name << "' has " << machine.devices();
  if (read.plan.task.memoryBytes <= 0)
    read.plan.task.memoryBytes = options.task.memoryBytes;
  cost::CostModel model(machine);
  planner::PlanPricer pricer(graph, model, read.plan.task);
  given.price = pricer.price(read.plan, true);
  if (!given.price.error.empty())
    return emitError(loc) << path << ": " << given.price.error;
  given.layouts = pricer.cell(read.plan).layouts;
  given.machine = machine.name;
  given.report = planner::printPrice(read.plan, given.price, pricer);
  if (read.predicted)
    given.report += "difference to the prediction that " + path + " holds:\n" +
                    planner::printDifference(*read.predicted, planner::PriceSummary(given.price));
  given.json = planner::printPriced(read, given.price, pricer,
                                    read.machine.empty() ? options.machineName : read.machine);
  return given;
}

LogicalResult priceGiven(MLIRContext *context, const PlanTrainingOptions &options,
                         const factors::FactorGraph &graph, PlanTrainingResult &result) {
  FailureOr<GivenPlan> one = priceOne(context, options, graph, options.pricePath);
  if (failed(one))
    return failure();
  result.found = one->price.fits();
  result.report = std::move(one->report);
  result.json = std::move(one->json);
  if (options.otherPricePath.empty())
    return success();
  FailureOr<GivenPlan> other = priceOne(context, options, graph, options.otherPricePath);
  if (failed(other))
    return failure();
  result.found &= other->price.fits();
  result.json = "{\"plans\": [\n" + result.json + ",\n" + other->json + "]}\n";
  result.report =
      options.pricePath + ":\n" + result.report + "\n" + options.otherPricePath + ":\n" + other->report +
      "\ndifference from " + options.pricePath + " to " + options.otherPricePath + ":\n" +
      planner::printDifference(one->read.plan, other->read.plan) +
      planner::printDifference(planner::PriceSummary(one->price), planner::PriceSummary(other->price));
  return success();
}

/// The name of a tensor axis of a program's mesh.
std::string nameTensorAxis(size_t number) {
  return number == 0 ? "model" : "model" + std::to_string(number + 1);
}

/// What of a plan no program has yet, by the name of its key; or "".
std::string findUncompiled(const planner::TrainingPlan &plan) {
  auto number = [](double value) { return std::to_string(static_cast<long long>(value)); };
  if (plan.padding > 0)
    return "padding is " + number(plan.padding) +
           ": training steps whose batch the data ranks do not divide are not compiled; another "
           "--global-batch "
           "needs none";
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
  std::vector<std::string> pins;
  for (auto [part, own] : llvm::enumerate(names)) {
    std::string text;
    for (StringRef name : own)
      if (!shared.contains(name))
        text += (text.empty() ? "" : "|") + outline::escapeName(name);
    if (!text.empty())
      pins.push_back("(" + text + ")=stage:" + std::to_string(part));
  }
  return pins;
}

/// The layouts of a plan as pins of the model's operations.
std::vector<std::string> findPins(const planner::TrainingPlan &plan, ArrayRef<planner::UnitLayout> layouts,
                                  ReadModel &model) {
  const factors::FactorGraph &graph = model.reading.graph;
  dist::RefinementAnalysis rules(model.functions[0]);
  std::vector<std::string> axes; // as a unit's layout has them
  if (plan.context > 1)
    axes.push_back("context");
  for (auto [t, size] : llvm::enumerate(plan.tensor))
    if (size > 1)
      axes.push_back(nameTensorAxis(t));
  // Several operations may be made of one node, and have its name; a pin of factors holds for those that have
  // them. One that splits nothing holds for any, also for the cast of a weight that the node reads, so where
  // there are several it is of the name that tells them apart, and goes before.
  llvm::DenseMap<Operation *, std::string> unique = outline::getUniqueNames(model.functions[0]);
  llvm::StringMap<unsigned> count;
  for (Operation &op : model.functions[0].front())
    ++count[outline::getFirstName(op.getLoc())];
  std::vector<std::string> whole, split;
  for (auto [u, ids] : llvm::enumerate(graph.ids)) {
    const factors::UnitKind &kind = graph.kinds[graph.units[u]];
    const planner::UnitLayout &layout = layouts[graph.units[u]];
    for (auto [i, id] : llvm::enumerate(ids)) {
      const factors::Operation &operation = kind.operations[i];
      const StringRef name = id < 0 ? "" : outline::getFirstName(model.reading.operations[id]->getLoc());
      if (name.empty() || operation.kind == factors::Operation::View)
        continue;
      Operation *op = model.reading.operations[id];
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
      if (text.empty())
        whole.push_back(outline::escapeName(count[name] > 1 ? StringRef(unique[op]) : name) + "=replicated");
      else
        split.push_back(outline::escapeName(name) + "=" + text);
    }
  }
  llvm::append_range(whole, split);
  return whole;
}

/// The plan of least memory with other parts fixed than those that were asked for; none if there is none.
std::optional<planner::PricedPlan> findSmallestWith(const planner::FixedParts &parts,
                                                    const PlanTrainingOptions &options,
                                                    const factors::FactorGraph &graph,
                                                    planner::PlanPricer &pricer) {
  planner::TrainingTask task = options.task;
  planner::SearchSpace space;
  space.fusedAttention = options.space.fusedAttention;
  if (!planner::fixParts(parts, task, space).empty() || !planner::checkModel(parts, space, graph).empty())
    return std::nullopt;
  return planner::findSmallest(pricer, task, space);
}

/// Where the fixed parts leave no plan at all, whatever it takes: those without which there is one, to go on
/// a message.
std::string findContradiction(const PlanTrainingOptions &options, const factors::FactorGraph &graph,
                              planner::PlanPricer &pricer) {
  std::string text;
  for (const auto &[left, others] : options.fixed.withoutEach())
    if (findSmallestWith(others, options, graph, pricer))
      text += (text.empty() ? "; there are plans without " : ", or without ") + left;
  return text;
}

/// Where nothing fits: which of the fixed parts keeps it from fitting.
void findWhatIsTooTight(const PlanTrainingOptions &options, const factors::FactorGraph &graph,
                        planner::PlanPricer &pricer, planner::SearchResult &found) {
  auto tryWith = [&](const planner::FixedParts &parts, const std::string &without) {
    std::optional<planner::PricedPlan> plan = findSmallestWith(parts, options, graph, pricer);
    if (!plan || !plan->price.fits())
      return false;
    found.remedies.push_back("without " + without + ": a rank then needs " +
                             cost::roundUpBytes(plan->price.peakBytes).text + " of " +
                             cost::roundUpBytes(plan->price.limitBytes).text);
    return true;
  };
  bool helps = false;
  auto parts = options.fixed.withoutEach();
  for (const auto &[left, others] : parts)
    helps |= tryWith(others, left);
  if (parts.size() > 1 && !helps)
    tryWith({}, options.fixed.text());
}

} // namespace

FailureOr<PlannedStep> readPlannedStep(MLIRContext *context, const PlanTrainingOptions &options) {
  FailureOr<ReadModel> model = readModel(context, options);
  if (failed(model))
    return failure();
  FailureOr<GivenPlan> given = priceOne(context, options, model->reading.graph, options.pricePath);
  if (failed(given))
    return failure();
  PlannedStep step;
  step.plan = given->read.plan;
  if (std::string wrong = findUncompiled(step.plan); !wrong.empty())
    return emitError(UnknownLoc::get(context)) << options.pricePath << ": " << wrong;
  auto addAxis = [&](const std::string &name, int size) {
    if (size > 1)
      step.mesh += (step.mesh.empty() ? "" : ",") + name + "=" + std::to_string(size);
  };
  addAxis("stage", step.plan.pipeline);
  addAxis("data", step.plan.data);
  addAxis("context", step.plan.context);
  for (auto [t, size] : llvm::enumerate(step.plan.tensor))
    addAxis(nameTensorAxis(t), size);
  if (step.mesh.empty())
    step.mesh = "1";
  step.pins = findPins(step.plan, given->layouts, *model);
  if (step.plan.pipeline > 1)
    llvm::append_range(step.pins, findStagePins(given->price.parts, *model));
  step.seconds = given->price.seconds;
  step.bytes = given->price.peakBytes;
  step.machine = given->machine;
  return step;
}

LogicalResult planTraining(MLIRContext *context, const PlanTrainingOptions &options,
                           PlanTrainingResult &result) {
  Location loc = UnknownLoc::get(context);
  if (options.progress)
    options.progress("import");
  FailureOr<factors::FactorGraph> graph = readGraph(context, options);
  if (failed(graph))
    return failure();
  if (!options.pricePath.empty())
    return priceGiven(context, options, *graph, result);
  cost::CostModel model(options.machine);
  planner::PlanPricer pricer(*graph, model, options.task);
  for (const std::string &wrong :
       {planner::checkTask(pricer, options.task), planner::checkModel(options.fixed, options.space, *graph)})
    if (!wrong.empty()) {
      result.contradicts = true;
      return emitError(loc) << wrong;
    }
  planner::SearchResult found = planner::searchPlans(pricer, options.task, options.space, options.progress);
  if (!found.error.empty()) {
    std::string fixed = options.fixed.text();
    if (fixed.empty())
      return emitError(loc) << found.error;
    result.contradicts = true;
    return emitError(loc) << found.error << ": " << fixed << findContradiction(options, *graph, pricer);
  }
  found.fixed = options.fixed.text();
  if (!found.best)
    findWhatIsTooTight(options, *graph, pricer, found);
  result.found = found.best.has_value();
  result.json = found.best ? planner::printPlan(found, pricer, options.machineName)
                           : planner::printMisfit(found, pricer, options.machineName);
  result.report = planner::printReport(found, pricer);
  return success();
}

} // namespace colossal
