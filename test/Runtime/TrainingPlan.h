// A plan that trains, without the compiler: a linear model by gradient descent with momentum, on any mesh.
#ifndef COLOSSAL_TEST_RUNTIME_TRAININGPLAN_H
#define COLOSSAL_TEST_RUNTIME_TRAININGPLAN_H

#include "PlanBuilder.h"

namespace colossal::runtime {

/// y[4] = x[4,6] w[6], loss = mean of (y - target)^2, step values lr, momentum, weight_decay, clip. `ids`
/// i64[4] from 0 to 9, or -100, is read and not used. Axis a splits the samples, axis b the weights. w and
/// its momentum persist; w begins as the file `weights` beside the plan, of 6 floats, which
/// writeTrainingWeights makes: 1 to 6.
PlanBuilder trainingPlan(uint32_t a, uint32_t b, const std::string &weights = "w.bin");
void writeTrainingWeights(const std::string &file);

} // namespace colossal::runtime

#endif // COLOSSAL_TEST_RUNTIME_TRAININGPLAN_H
