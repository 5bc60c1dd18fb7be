//===- CompilePlanned.cpp - the best plan that a program fits ---------------===//
//
// The joint search knows units of a model, and a program is known when it is compiled: what it takes may be
// more. So plans are compiled in the order of their predicted times, until one fits.
//
//===----------------------------------------------------------------------===//
#include "colossal/Compiler/PlannedSteps.h"

#include "PlanPhase.h"
#include "Trials.h"
#include "colossal/Cost/ByteSize.h"
#include "dialects/Colossal/Colossal.h"

#include <chrono>
#include <set>

using namespace mlir;

namespace colossal {

namespace {

/// Searches with less and less memory, where programs take more than was foreseen.
constexpr int kMostSearches = 6;
/// Of what the plans of a search may take, so that the next one finds others.
constexpr double kMargin = 0.99;
/// The layout search counts more than programs take, as much as this of --memory at most: what was foreseen
/// of a plan is nearer, so that it is laid out as in more memory first, and within the limit where that was
/// too much.
constexpr uint64_t kRoom = 2;

class Attempts {
public:
  Attempts(const Imported &imported, const CompileOptions &options, Phase last)
      : imported(imported), options(options), last(last) {}

  /// Compiles a step; success where its program fits. What it needs, or why it is refused, is put into it.
  LogicalResult compile(PlannedStep &step, CompileResult &result);
  void addPhases(CompileResult &result) const {
    result.phases.insert(result.phases.begin(), phases.begin(), phases.end());
  }

private:
  const Imported &imported;
  const CompileOptions &options;
  const Phase last;
  std::vector<PhaseTime> phases; ///< of steps that do not fit
};

} // namespace

LogicalResult Attempts::compile(PlannedStep &step, CompileResult &result) {
  MLIRContext *context = imported.module.get().getContext();
  std::vector<Diagnostic> said;
  LogicalResult done = success();
  CompileOptions of = options;
  applyPlan(step, of);
  const uint64_t limit = options.layout.memoryBytes;
  {
    ScopedDiagnosticHandler hold(context, [&](Diagnostic &diagnostic) {
      said.push_back(std::move(diagnostic));
      return success();
    });
    FailureOr<CompileOptions> complete = completeTraining(context, of);
    done = failure(failed(complete));
    auto attempt = [&] { return compileWithin(imported, *complete, last, [] { return false; }, result); };
    if (succeeded(complete) && limit > 0 && last == Phase::Plan) {
      complete->layout.memoryBytes = kRoom * limit;
      done = attempt();
      complete->layout.memoryBytes = limit;
      const bool isTooLarge =
          failed(done) ? result.layout.neededBytes > 0 : measureMemory(result.plan, of).total() > limit;
      if (isTooLarge) {
        llvm::append_range(phases, result.phases);
        result = CompileResult();
        said.clear();
        done = attempt();
      }
    } else if (succeeded(complete)) {
      done = attempt();
    }
  }
  if (failed(done))
    step.neededBytes = result.layout.neededBytes;
  else if (limit > 0 && last == Phase::Plan)
    if (uint64_t needed = measureMemory(result.plan, of).total(); needed > limit)
      step.neededBytes = needed;
  if (succeeded(done) && step.neededBytes == 0) {
    for (Diagnostic &diagnostic : said)
      context->getDiagEngine().emit(std::move(diagnostic));
    return success();
  }
  if (step.neededBytes == 0)
    for (const Diagnostic &diagnostic : said)
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error && step.refusal.empty()) {
        OnnxNames names = getOnnxNames(diagnostic.getLocation());
        step.refusal =
            (names.nodes.empty() ? "" : ("node '" + names.nodes.front() + "': ").str()) + diagnostic.str();
      }
  llvm::append_range(phases, result.phases);
  result = CompileResult();
  return failure();
}

/// Says why none of the steps that were tried is taken.
static LogicalResult refuseAll(MLIRContext *context, ArrayRef<PlannedStep> tried, uint64_t limit,
                               int64_t devices) {
  const std::string &first = tried.front().refusal;
  if (!first.empty() && llvm::all_of(tried, [&](const PlannedStep &step) { return step.refusal == first; }))
    return emitError(UnknownLoc::get(context)) << first; // which is no matter of plans
  const PlannedStep *least = nullptr;
  for (const PlannedStep &step : tried)
    if (step.neededBytes > 0 && (!least || step.neededBytes < least->neededBytes))
      least = &step;
  InFlightDiagnostic diagnostic = emitError(UnknownLoc::get(context));
  if (least)
    diagnostic << "no plan for " << devices << " devices that was compiled fits (" << tried.size()
               << " tried): a device has " << limit << " bytes, and the program of " << describe(*least)
               << ", which needs the least, takes " << least->neededBytes
               << "; more --memory or --devices, or a smaller --global-batch, would do";
  else
    diagnostic << "no program can be compiled of any of the " << tried.size() << " plans for " << devices
               << " devices that were found; of the fastest, " << describe(tried.front()) << ": " << first;
  return diagnostic;
}

LogicalResult compilePlanned(MLIRContext *context, const CompileOptions &options, StepPlanner &planner,
                             Phase last, CompileResult &result, std::vector<PlannedStep> &tried) {
  const int64_t devices = options.devices;
  CompileOptions ofModel = options;
  ofModel.mesh = "1";
  ofModel.microbatches = 0;
  ofModel.chunks = 0;
  ofModel.pipelineSchedule.reset();
  FailureOr<CompileOptions> complete = completeTraining(context, ofModel);
  if (failed(complete)) {
    result.contradicts = true;
    return failure();
  }
  FailureOr<Imported> imported = importModel(context, *complete, last);
  if (failed(imported))
    return failure();
  if (imported->module->walk([](BatchNormalizeOp) { return WalkResult::interrupt(); }).wasInterrupted())
    planner.setTakesStatistics();
  Attempts attempts(*imported, options, last);
  const uint64_t limit = options.layout.memoryBytes;
  std::set<std::pair<std::string, std::vector<std::string>>> known;
  auto memory = static_cast<double>(limit);
  double before = memory; // of the search before, whose plans were no programs that fit
  for (int search = 0; search < kMostSearches; ++search) {
    auto begin = std::chrono::steady_clock::now();
    if (options.progress)
      options.progress(search == 0 ? "joint search"
                                   : "joint search within " + cost::roundUpBytes(memory).text +
                                         ", as the programs take more than was foreseen");
    FailureOr<PlannedSteps> found = planner.find(memory, /*explains=*/tried.empty());
    if (failed(found)) {
      result.contradicts = true;
      return failure();
    }
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (found->steps.empty()) {
      if (!tried.empty()) { // too little for any plan
        memory = (memory + before) / 2;
        continue;
      }
      return emitError(UnknownLoc::get(context)) << "no plan for " << devices << " devices fits:\n"
                                                 << found->report;
    }
    double excess = 0; // of programs over what was foreseen of them; of these the least
    double largest = 0;
    bool refused = false;
    for (PlannedStep &step : found->steps) {
      largest = std::max(largest, step.bytes);
      if (excess > 0 && step.bytes + excess > static_cast<double>(limit))
        continue; // which the others say needs too much
      if (!known.insert({describe(step), step.pins}).second)
        continue;
      if (options.progress)
        options.progress(describe(step));
      LogicalResult done = attempts.compile(step, result);
      tried.push_back(step);
      if (succeeded(done)) {
        attempts.addPhases(result);
        result.phases.insert(result.phases.begin(),
                             {imported->time, {"joint search", taken.count(), imported->time.operations}});
        result.remains.push_back(std::make_shared<Imported>(std::move(*imported)));
        return success();
      }
      if (step.neededBytes > 0) {
        const double more = std::max(static_cast<double>(step.neededBytes) - step.bytes, 1.0);
        excess = excess > 0 ? std::min(excess, more) : more;
      } else {
        refused = true;
      }
      if (options.progress)
        options.progress(step.neededBytes > 0
                             ? "its program needs " + std::to_string(step.neededBytes) +
                                   " bytes of a device, which does not fit; the next best"
                             : "its program is refused (" + step.refusal + "); the next best");
    }
    if ((refused && excess == 0) || limit == 0)
      break;
    before = memory;
    // Of plans that are all known, none of which fits, the next search finds one less.
    memory = std::min(kMargin * memory, excess > 0 ? static_cast<double>(limit) - excess : kMargin * largest);
    memory = std::max(memory, 1.0); // 0 would be all that the machine has
  }
  return refuseAll(context, tried, limit, devices);
}

} // namespace colossal
