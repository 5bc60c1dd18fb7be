//===- Layout.cpp - which mesh axes split what ------------------------------===//
//
// The search phase from end to end: pins, problem, solver, and the answer written back.
//
//===----------------------------------------------------------------------===//
#include "colossal/Layout/Layout.h"
#include "colossal/Layout/Device.h"

#include "Model.h"
#include "Report.h"
#include "colossal/Search/Solver.h"
#include "dialects/Dist/Loop.h"
#include "dialects/Dist/Stages.h"

#include <algorithm>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

/// Work of one search, in thousands of table entries: repeatable, and some seconds on the largest models.
/// Problems whose tables are large get a number of passes over them.
static uint64_t getWork(const search::Problem &problem) {
  constexpr uint64_t kLeast = 40'000, kMost = 200'000, kPasses = 20;
  uint64_t entries = 0;
  for (const search::Edge &edge : problem.edges)
    entries += edge.table->size();
  return std::clamp(entries * kPasses / 1000, kLeast, kMost);
}

/// Less of the cost than that is no difference: a bound is a sum of roundings, and to close it exactly takes
/// as long again.
static constexpr double kGap = 1e-7;

/// Share of a device's memory that is left to what the search does not see: workspace, alignment, packed
/// edges.
static constexpr int64_t kReserveDivisor = 16;

/// The least memory of a device of which at least `planned` bytes are left to the search.
static uint64_t memoryFor(int64_t planned) {
  auto bytes = static_cast<uint64_t>(planned);
  uint64_t memory = bytes + bytes / (kReserveDivisor - 1);
  while (memory - memory / kReserveDivisor < bytes)
    ++memory;
  return memory;
}

static LogicalResult explainMisfit(ModuleOp module, const Model &model, const search::Solution &solution,
                                   uint64_t memory, LayoutReport &report) {
  if (solution.forbidden > 0)
    return emitError(module.getLoc())
           << "no layout brings every value to where it is used: " << solution.message;
  int64_t limit = *model.problem.memoryLimit;
  report.givenBytes = memory;
  report.neededBytes = memoryFor(solution.peakBytes);
  InFlightDiagnostic diagnostic = emitError(module.getLoc())
                                  << "the model does not fit: " << printBytes(memory)
                                  << " per device are given, of which " << printBytes(limit)
                                  << " can be planned, and the best layout found needs "
                                  << printBytes(solution.peakBytes) << ", "
                                  << printBytes(solution.peakBytes - limit) << " too much";
  diagnostic.attachNote(module.getLoc()) << describeMemory(model, solution.assignment);
  return diagnostic;
}

/// Bytes of all tensors of the module, each counted once and whole.
static double countAllBytes(ModuleOp module) {
  double bytes = 0;
  module.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        bytes += static_cast<double>(tensor.getNumElements()) * getElementBytes(tensor.getElementType());
    if (auto function = dyn_cast<func::FuncOp>(op))
      for (Type type : function.getArgumentTypes())
        if (auto tensor = dyn_cast<RankedTensorType>(type))
          bytes += static_cast<double>(tensor.getNumElements()) * getElementBytes(tensor.getElementType());
  });
  return bytes;
}

StringRef layout::getDevice(ModuleOp module) {
  for (; module; module = module->getParentOfType<ModuleOp>())
    if (auto device = module->getAttrOfType<StringAttr>(kDeviceAttrName))
      return device.getValue();
  return "cpu";
}

std::string layout::describeForeignTimes(const cost::Machine &machine, StringRef device) {
  if (machine.target == device)
    return "";
  return "times are predicted for machine '" + machine.name + "'; the program in this file is for " +
         (device == "cpu" ? "this CPU" : "the device '" + device.str() + "'");
}

std::string layout::describeForeignTimes(const cost::Machine &machine) {
  return describeForeignTimes(machine, "cpu");
}

static FailureOr<Costs> makeCosts(ModuleOp module, const LayoutOptions &options) {
  const int64_t ranks = getNumRanks(module);
  if (ranks > options.machine.devices())
    return emitError(module.getLoc())
           << "the mesh has " << ranks << " ranks, machine '" << options.machine.name << "' "
           << options.machine.devices() << " devices";
  return Costs(options.machine, getMesh(module), ranks);
}

/// The recipe that is asked for, if any.
static FailureOr<std::optional<Recipe>> makeRecipe(ModuleOp module, const LayoutOptions &options) {
  if (options.recipe.empty())
    return std::optional<Recipe>();
  std::string error;
  std::optional<Recipe> recipe = Recipe::make(options.recipe, getMesh(module), error);
  if (!recipe)
    return emitError(module.getLoc()) << error;
  return recipe;
}

namespace {
/// Of a pin, over all stages: whether it means something, and why not where it might have.
struct PinUse {
  bool isUsed = false;
  std::string conflict;
};
} // namespace

/// Fails, with a diagnostic for each, where pins mean nothing anywhere.
static LogicalResult checkPinsUsed(ModuleOp module, const LayoutOptions &options, ArrayRef<PinUse> uses) {
  bool isMet = true;
  for (auto [text, use] : llvm::zip_equal(options.pins, uses))
    if (!use.isUsed) {
      isMet = false;
      InFlightDiagnostic error = emitError(module.getLoc());
      if (use.conflict.empty())
        error << "pin '" << text << "' matches no op or tensor that can be laid out so";
      else
        error << use.conflict;
    }
  return success(isMet);
}

FailureOr<CollectiveCost> layout::getCollectiveCost(ModuleOp module, const LayoutOptions &options) {
  FailureOr<Costs> costs = makeCosts(module, options);
  if (failed(costs))
    return failure();
  FailureOr<std::optional<Recipe>> recipe = makeRecipe(module, options);
  if (failed(recipe))
    return failure();
  return CollectiveCost(
      [costs = *costs, recipe = std::move(*recipe)](MoveKind kind, double bytes, ArrayRef<unsigned> axes) {
        return costs.getMoveSeconds(kind, bytes, axes) * (recipe ? recipe->weigh(kind) : 1);
      });
}

/// Searches one stage, or a module without stages. `uses`: by pin, of what it means here.
static LogicalResult searchStage(ModuleOp module, const LayoutOptions &options, RefinementOf refinementOf,
                                 std::vector<PinUse> &uses, LayoutReport &report) {
  MeshAttr mesh = getMesh(module);
  Pins pins;
  for (const std::string &text : options.pins) {
    std::string error;
    std::optional<Pin> pin = parsePin(text, getRankMesh(mesh), error);
    if (!pin)
      return emitError(module.getLoc()) << error;
    pins.add(std::move(*pin));
  }
  FailureOr<std::optional<Recipe>> recipe = makeRecipe(module, options);
  if (failed(recipe))
    return failure();
  FailureOr<Costs> costs = makeCosts(module, options);
  if (failed(costs))
    return failure();
  uint64_t memory = options.memoryBytes ? options.memoryBytes : costs->getMemoryBytes();
  int64_t limit = static_cast<int64_t>(memory - memory / kReserveDivisor);
  if (*recipe)
    (*recipe)->takeMarks(module);
  // Where all tensors at once fit on each device, no memory need be counted.
  bool isTight = countAllBytes(module) > static_cast<double>(limit);
  Model model(module, mesh, *costs, isTight ? std::optional(limit) : std::nullopt, std::move(*recipe),
              options.foreseeStorage);
  if (failed(model.build(refinementOf, pins)))
    return failure();
  for (auto [pin, use] : llvm::zip_equal(pins.getAll(), uses)) {
    use.isUsed |= pin.isUsed || pin.isOptional;
    if (!pin.conflict.empty())
      use.conflict = pin.conflict;
  }
  if (getStage(module) == std::nullopt && failed(checkPinsUsed(module, options, uses)))
    return failure();
  search::Budget budget;
  budget.work = getWork(model.problem);
  budget.gap = kGap;
  search::Solution solution = search::solve(model.problem, budget);
  // In far too little memory the answers found may break other rules as well: then one that breaks none tells
  // what it needs.
  if (!solution.feasible && solution.forbidden > 0 && isTight) {
    model.problem.memoryLimit.reset();
    if (search::Solution roomy = search::solve(model.problem, budget); roomy.feasible) {
      solution = std::move(roomy);
      solution.feasible = false;
    }
    model.problem.memoryLimit = limit;
  }
  if (!solution.feasible)
    return solution.assignment.empty() ? LogicalResult(emitError(module.getLoc()) << solution.message)
                                       : explainMisfit(module, model, solution, memory, report);
  model.apply(solution.assignment);
  describe(model, solution, report, options.explains);
  return success();
}

/// Adds what was found for a stage. What a rank sends and how far from the best a layout may be is that of
/// the worst stage.
static void addStage(const LayoutReport &stage, const std::string &heading, LayoutReport &report) {
  report.pins += stage.pins;
  report.summary += heading + stage.summary;
  report.explanation += heading + stage.explanation;
  report.predictedSeconds += stage.predictedSeconds;
  for (const auto &[name, seconds] : stage.predictedByFunction)
    report.predictedByFunction[name] += seconds;
  report.predictedByStage.push_back(stage.predictedByFunction);
  llvm::append_range(report.chosen, stage.chosen);
  for (const auto &[kind, use] : stage.collectives)
    if (CollectiveUse &known = report.collectives[kind]; use.bytes > known.bytes)
      known = use;
  if (stage.gap)
    report.gap = std::max(report.gap.value_or(0), *stage.gap);
}

static void emit(ModuleOp module, std::vector<Diagnostic> &diagnostics) {
  for (Diagnostic &diagnostic : diagnostics)
    module.getContext()->getDiagEngine().emit(std::move(diagnostic));
}

LogicalResult layout::searchLayouts(ModuleOp module, const LayoutOptions &options, RefinementOf refinementOf,
                                    LayoutReport &report) {
  SmallVector<ModuleOp> stages = getStages(module);
  std::vector<PinUse> uses(options.pins.size());
  if (stages.front() == module)
    return searchStage(module, options, refinementOf, uses, report);
  // Of stages that do not fit, the one that needs most says what the model needs.
  std::vector<Diagnostic> complaint;
  for (auto [s, stage] : llvm::enumerate(stages)) {
    LayoutReport own;
    std::vector<Diagnostic> said;
    LogicalResult done = success();
    {
      ScopedDiagnosticHandler hold(module.getContext(), [&](Diagnostic &diagnostic) {
        said.push_back(std::move(diagnostic));
        return success();
      });
      done = searchStage(stage, options, refinementOf, uses, own);
    }
    if (failed(done) && own.neededBytes > 0) {
      if (own.neededBytes > report.neededBytes)
        complaint = std::move(said);
      report.givenBytes = own.givenBytes;
      report.neededBytes = std::max(report.neededBytes, own.neededBytes);
      continue;
    }
    emit(module, said);
    if (failed(done)) {
      report.neededBytes = 0; // more of it would not do
      return failure();
    }
    addStage(own, "stage " + std::to_string(s) + ":\n", report);
  }
  if (report.neededBytes > 0) {
    emit(module, complaint);
    return failure();
  }
  return checkPinsUsed(module, options, uses);
}
