// A training plan as data: how a model's units, the devices of a machine and a global batch are brought
// together.
#ifndef COLOSSAL_PLANNER_TRAININGPLAN_H
#define COLOSSAL_PLANNER_TRAININGPLAN_H

#include "colossal/Cost/PipelineSchedule.h"
#include "colossal/Planner/BlockPlanner.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace colossal::planner {

/// What a plan is for; the search does not change it.
struct TrainingTask {
  int devices = 1;
  double globalBatch = 1; ///< sequences in a step
  std::string optimizer = "adamw";
  std::string precision = "bf16";
  /// Bytes of a device that the plan may use; 0: what the machine has, without what its runtime reserves.
  double memoryBytes = 0;
  /// The backward pass of an attention has parts of its scores in memory, as steps have that are compiled:
  /// each layer's, while it computes their gradients.
  bool scoresInMemory = false;
  /// Of steps that are compiled: bytes of the copy that a product of `rows` x `depth` by `depth` x `columns`
  /// elements of activations has of its left side, where that lies transposed. Null: there are no copies.
  std::function<double(double rows, double columns, double depth)> copiedBytes;
  /// Of steps that are compiled: codegen::Target::convolutionBytes, of the input and of the weights. Null:
  /// none.
  std::function<std::pair<double, double>(double batch, double inputChannels, double outputChannels,
                                          double height, double width)>
      convolutionBytes;
  /// Of steps that are compiled: a microbatch's part of a weight's gradient is added up where it is made
  /// (codegen::Target::addsProductsInPlace).
  bool addsInPlace = false;
};

/// Ranks are numbered tensor axes first (the last one fastest), then context, data, pipeline.
struct TrainingPlan {
  TrainingTask task;
  int pipeline = 1, data = 1, context = 1;
  int idle = 0; ///< devices of the task that the plan leaves out
  std::vector<int>
      tensor; ///< sizes of the tensor axes, outermost first; two for 2D layouts; none or {1}: unsplit
  double microbatch = 1; ///< sequences
  /// Sequences that are computed beside the global batch and count for nothing, where ranks and microbatches
  /// do not divide it.
  double padding = 0;
  cost::Schedule schedule = cost::Schedule::OneFOneB;
  int chunks = 1; ///< of a stage; above 1 for interleaved, 2 for zb-v
  /// 0: all state on every rank; 1: the optimizer's over the data and context axes; 2: gradients too; 3:
  /// parameters too.
  int zero = 0;
  Recompute recompute = Recompute::None;
  std::shared_ptr<const KeptOperations> kept; ///< by value: what is kept; else null
  bool fusedAttention = true;
  /// Gradients are reduced beside the last backward pass, as they come.
  bool overlapGradients = true;
  /// What the solver's layouts weigh: 0 time alone; 1 time, and parameters as if a rank that keeps all of a
  /// unit's had to compute all of it; 2 parameters before time. Not part of the text: that names the layouts.
  int lean = 0;
  Boundary boundary; ///< of the context axis, if above 1, and the tensor axes
  /// Units of each chunk in the model's order; empty: balanced.
  std::vector<int> parts;
  /// By kind of unit: operation to factors, one for each axis ("n,-"); what is not named follows by the
  /// solver.
  std::map<std::string, std::map<std::string, std::string>> layouts;

  int tensorSize() const;
  int stageOf(int chunk) const; ///< by the chunk's place in the model's order
  int ranks() const;            ///< pipeline x data x context x tensor
  int microbatches() const;     ///< of a rank, in a step; 0 where they are none or too many
};

/// The axes that units are laid out over, outermost first: context if above 1, then the tensor axes above 1.
std::vector<TensorAxis> tensorAxes(const TrainingPlan &plan);

/// Empty, or the first place that makes no sense, as in "mesh.data: 3 does not divide the global batch of
/// 512".
std::string validate(const TrainingPlan &plan, const FactorGraph &graph);

} // namespace colossal::planner

#endif // COLOSSAL_PLANNER_TRAININGPLAN_H
