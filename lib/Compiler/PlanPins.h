//===- PlanPins.h - a training plan's layouts as pins --------------------------===//
#ifndef COLOSSAL_LIB_COMPILER_PLANPINS_H
#define COLOSSAL_LIB_COMPILER_PLANPINS_H

#include "TrainingModel.h"

#include "colossal/Planner/TrainingPlan.h"

#include <string>
#include <vector>

namespace colossal {

/// The name of a tensor axis of a program's mesh.
std::string nameTensorAxis(size_t number);

/// The layouts of a plan as pins of the model's operations.
std::vector<std::string> findPins(const planner::TrainingPlan &plan,
                                  llvm::ArrayRef<planner::UnitLayout> layouts, ReadModel &model);

/// What stands in each stage, or in each chunk of one, as pins: `parts` has the units of each, in the model's
/// order.
std::vector<std::string> findStagePins(llvm::ArrayRef<int> parts, const ReadModel &model);

/// Pins of what no batch is in, as tables of positions and biases that are looked up: each rank has the
/// whole, and a gradient that is summed over the batch stays partial up to the parameter. Under other axes
/// than `data` that is split as what reads it, and there are none. Each is of what one node makes in one
/// shape, which may be none of the program any more: numbers of operations change with the precision and with
/// stages.
std::vector<std::string> findBatchlessPins(ReadModel &model);

/// Pins of what stages hand each other: on either side it lies as it does between units, and ranks of a stage
/// bring together what they need more of. By the shapes that the stream, and what goes on beside it, has:
/// states that stages hand each other have others.
std::vector<std::string> findStreamPins(const planner::TrainingPlan &plan, ReadModel &model);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_PLANPINS_H
