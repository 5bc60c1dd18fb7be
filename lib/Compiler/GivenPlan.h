//===- GivenPlan.h - training plans that are given as files -----------------===//
#ifndef COLOSSAL_LIB_COMPILER_GIVENPLAN_H
#define COLOSSAL_LIB_COMPILER_GIVENPLAN_H

#include "colossal/Compiler/PlanTraining.h"
#include "colossal/Planner/PlanText.h"

namespace colossal {

/// A plan's file with its price.
struct GivenPlan {
  planner::PlanReadResult read;
  planner::PlanPrice price;
  std::vector<planner::UnitLayout> layouts; ///< by kind of unit
  std::string machine;                      ///< that it is priced on
  std::string report, json;
};

/// Reads the plan at `path` and prices it. Fails, with diagnostics, where it is no plan of this model, or
/// says something else than the options do.
mlir::FailureOr<GivenPlan> priceOne(mlir::MLIRContext *context, const PlanTrainingOptions &options,
                                    const factors::FactorGraph &graph, const std::string &path);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_GIVENPLAN_H
