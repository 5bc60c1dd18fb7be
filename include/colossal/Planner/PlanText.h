// Training plans as JSON, format version 1 (docs/Search.md has every key):
//   { "format": "colossal-training-plan", "version": 1, "machine": "h100", "devices": 64, "global_batch":
//   512,
//     "training": "adamw", "precision": "bf16",
//     "mesh": {"pipeline": 2, "data": 8, "context": 1, "tensor": [4]}, "microbatch": 1, "schedule": "1f1b",
//     "chunks": 1, "zero": 1, "recompute": "none", "attention": "fused", "overlap_gradients": true,
//     "boundary": ["dim1"], "stages": [17, 17], "layouts": {"block": {"node_linear": "n"}} }
// "format", "version", "devices", "global_batch", "mesh" and "microbatch" must be there; "search" and the
// like are what a search found out, and are not read; "predicted" is compared with. Unknown keys, and keys
// that stand twice, are errors.
#ifndef COLOSSAL_PLANNER_PLANTEXT_H
#define COLOSSAL_PLANNER_PLANTEXT_H

#include "colossal/Planner/JointSearch.h"

#include <optional>
#include <string_view>

namespace colossal::planner {

struct PlanReadResult {
  TrainingPlan plan;
  std::string machine;                   ///< empty where the plan names none
  double sequence = 0;                   ///< tokens that the plan was made for; 0 where it does not say
  std::optional<PriceSummary> predicted; ///< when the plan was found; none where it does not say
  /// Names the place of the first thing that is wrong, as in "mesh.data: must be a whole number".
  std::string error;
};

/// Parses and checks what can be checked without the model; places of the boundary are looked up in `graph`.
PlanReadResult parsePlan(std::string_view text, const FactorGraph &graph);

/// The plan, and what the search says about it, as JSON. The same result gives the same bytes.
std::string printPlan(const SearchResult &result, PlanPricer &pricer, const std::string &machine);

/// The same of a search that found nothing that fits, of which `result.smallest` comes nearest: no plan, but
/// the task, and under "search" that plan with its prediction ("smallest"), "remedies" and what was
/// "useless".
std::string printMisfit(const SearchResult &result, PlanPricer &pricer, const std::string &machine);

/// A plan that was read, with the price that it has now as its prediction; what the text said of it then is
/// "stored_prediction".
std::string printPriced(const PlanReadResult &read, const PlanPrice &price, PlanPricer &pricer,
                        const std::string &machine);

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_PLANTEXT_H
