//===- FixedRemedies.h - what is fixed of a plan, and is too much -----------===//
//
// Asked where a search finds no plan with the parts that options fix. Nothing is guessed: each part is left
// out in turn, and searched without.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_COMPILER_FIXEDREMEDIES_H
#define COLOSSAL_LIB_COMPILER_FIXEDREMEDIES_H

#include "colossal/Compiler/PlanTraining.h"
#include "colossal/Planner/JointSearch.h"

namespace colossal {

/// Where the fixed parts leave no plan at all, whatever it takes: those without which there is one, to go on
/// a message.
std::string findContradiction(const PlanTrainingOptions &options, const factors::FactorGraph &graph,
                              planner::PlanPricer &pricer);

/// Where nothing fits: which of the fixed parts keeps it from fitting.
void findWhatIsTooTight(const PlanTrainingOptions &options, const factors::FactorGraph &graph,
                        planner::PlanPricer &pricer, planner::SearchResult &found);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_FIXEDREMEDIES_H
