// The names by which a plan that trains is known: its programs, and the inputs and outputs of a step that are
// not the model's. docs/PlanFormat.md says what they hold.
#ifndef COLOSSAL_PLAN_TRAINING_H
#define COLOSSAL_PLAN_TRAINING_H

namespace colossal::plan {

constexpr const char *stepProgram = "step";
constexpr const char *evaluateProgram = "evaluate";
constexpr const char *saveProgram = "save";
constexpr const char *restoreProgram = "restore";

/// Inputs.
constexpr const char *stepValuesInput = "colossal.step_values";
/// Outputs, one float each.
constexpr const char *lossOutput = "colossal.loss";
constexpr const char *gradientNormOutput = "colossal.grad_norm";
/// Output of a step or an evaluation that may be there: over how many elements the loss is a mean.
constexpr const char *countedOutput = "colossal.counted";

} // namespace colossal::plan

#endif // COLOSSAL_PLAN_TRAINING_H
