//===- PlanTraining.cpp - from an ONNX file to a training plan --------------===//
#include "colossal/Compiler/PlanTraining.h"

#include "GivenPlan.h"
#include "TrainingModel.h"
#include "colossal/Cost/ByteSize.h"
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
