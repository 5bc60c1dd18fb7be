// A search's answer, or a price, in words.
#ifndef COLOSSAL_PLANNER_PLANREPORT_H
#define COLOSSAL_PLANNER_PLANREPORT_H

#include "colossal/Planner/JointSearch.h"

namespace colossal::planner {

/// The found plan with its bound, memory, runners-up, and what the code generator can emit of it; or why
/// there is none.
std::string printReport(const SearchResult &result, PlanPricer &pricer);
/// A plan given by hand.
std::string printPrice(const TrainingPlan &plan, const PlanPrice &price, PlanPricer &pricer);
/// What differs of two predictions, line by line; "none" where nothing does.
std::string printDifference(const PriceSummary &before, const PriceSummary &after);
/// What differs of two plans but their stages, line by line; empty where nothing does.
std::string printDifference(const TrainingPlan &before, const TrainingPlan &after);
/// The error of the cost model on published rows like this plan, "extrapolated" where there are none.
std::string printEvidence(const TrainingPlan &plan, PlanPricer &pricer);

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_PLANREPORT_H
