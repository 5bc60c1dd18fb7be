// Parts of a training plan that a user fixes; the search finds the others.
#ifndef COLOSSAL_PLANNER_FIXEDPARTS_H
#define COLOSSAL_PLANNER_FIXEDPARTS_H

#include "colossal/Planner/JointSearch.h"

#include <string>

namespace colossal::planner {

/// As they are typed; empty, 0, or below 0 for `zero`: not fixed.
struct FixedParts {
  /// Axes by name, "model=8,stage=2" (of data, model, context, stage; the others are searched), or sizes
  /// whose roles are searched, "8x8".
  std::string mesh;
  std::string schedule, recompute;
  int zero = -1, microbatches = 0, chunks = 0;

  /// The options that fix them, "--mesh model=8,stage=2 --zero 1"; empty where nothing is fixed.
  std::string text() const;
  /// The same parts but one, with the option that is left out.
  std::vector<std::pair<std::string, FixedParts>> withoutEach() const;
};

/// Narrows `space` to plans with these parts. Where the task does not say how many devices there are, a mesh
/// of sizes does. Empty, or which options contradict each other, and what would do instead.
std::string fixParts(const FixedParts &parts, TrainingTask &task, SearchSpace &space);

/// Ranks of a mesh that training plans can have: of sizes, or of axes that are named by their roles. 0 where
/// it is another.
int countRanks(const std::string &mesh);

/// Empty, or why no plan for this model can have the parts.
std::string checkModel(const FixedParts &parts, const SearchSpace &space, const FactorGraph &graph);

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_FIXEDPARTS_H
