//===- FixedRemedies.cpp - what is fixed of a plan, and is too much ---------===//
#include "FixedRemedies.h"

#include "colossal/Cost/ByteSize.h"

namespace colossal {

/// The plan of least memory with other parts fixed than those that were asked for; none if there is none.
static std::optional<planner::PricedPlan> findSmallestWith(const planner::FixedParts &parts,
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

std::string findContradiction(const PlanTrainingOptions &options, const factors::FactorGraph &graph,
                              planner::PlanPricer &pricer) {
  std::string text;
  for (const auto &[left, others] : options.fixed.withoutEach())
    if (findSmallestWith(others, options, graph, pricer))
      text += (text.empty() ? "; there are plans without " : ", or without ") + left;
  return text;
}

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

} // namespace colossal
