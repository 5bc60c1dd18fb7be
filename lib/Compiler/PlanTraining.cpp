//===- PlanTraining.cpp - from an ONNX file to a training plan --------------===//
#include "colossal/Compiler/PlanTraining.h"

#include "FixedRemedies.h"
#include "GivenPlan.h"
#include "TrainingModel.h"
#include "colossal/Planner/PlanReport.h"
#include "colossal/Planner/PlanText.h"

using namespace mlir;

namespace colossal {

namespace {

FailureOr<factors::FactorGraph> readGraph(MLIRContext *context, const PlanTrainingOptions &options) {
  FailureOr<ReadModel> model = readModel(context, options);
  if (failed(model))
    return failure();
  return std::move(model->reading.graph);
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

} // namespace

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
