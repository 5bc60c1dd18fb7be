// Time and memory of a training step: a transformer, a layout over devices and a machine go in.
// Transformer.h has the work of its pieces, which become units that StepCost.h prices, Configuration.h reads
// both descriptions from a table's row.
#ifndef COLOSSAL_COST_TRAINING_H
#define COLOSSAL_COST_TRAINING_H

#include "colossal/Cost/StepCost.h"
#include "colossal/Cost/Transformer.h"

#include <string>
#include <vector>

namespace colossal::cost {

/// Ranks are numbered tensor first, then context, data, pipeline: `tensor` is inside a node where it fits.
struct TrainingLayout {
  int tensor = 1, context = 1, data = 1, pipeline = 1;
  double globalBatch = 1, microBatch = 1; ///< sequences
  Schedule schedule = Schedule::OneFOneB;
  int chunks = 1; ///< of layers on a stage
  Recompute recompute = Recompute::None;
  bool sequenceParallel = false;
  /// 0: all state on every rank; 1: optimizer state over the data axis; 2: gradients too, scattered in every
  /// microbatch; 3: parameters too, gathered at each use.
  int zero = 0;
  /// Gradients are reduced in buckets beside the backward pass; otherwise all at once after it.
  bool bucketedGradients = false;
  DataType type = DataType::F16;
  bool float8 = false;   ///< contractions in f8
  bool compiled = false; ///< pointwise work fused
  bool asyncTensor = false;
  bool balancedContext = false;                          ///< as in LayerLayout
  AttentionKernel attention = AttentionKernel::Portable; ///< as in LayerLayout
  /// Transfers between stages run beside the stages' work.
  bool asyncPipeline = false;
  bool expertParallel = false; ///< experts over the data axis
  /// Bytes a parameter: its 16-bit copy and gradient, and what the optimizer keeps.
  double parameterBytes = 2, gradientBytes = 4, optimizerBytes = 12;
  /// Embedding and head count as one layer each when stages are balanced (the zero-bubble measurements).
  bool endsCountAsLayers = false;
  /// Stages are cut between operations, so that a layer may lie on two, in place of between layers.
  bool cutsInsideLayers = false;
  /// Layers of each stage; empty: as even as they go, the larger parts first.
  std::vector<double> stageLayers;
  /// Seconds of the host for a kernel's launch; below 0: the machine's constant.
  double hostLaunchSeconds = -1;

  int devices() const { return tensor * context * data * pipeline; }
  int microbatches() const;
};

struct StepPrediction {
  double seconds = 0;
  /// Where they go, on the stage that ends last.
  double pipeline = 0;  ///< forward and backward passes with their waits
  double reduction = 0; ///< gradients, as far as nothing hides it
  double optimizer = 0;
  double bubble = 0; ///< part of the pipeline's time
  /// Of each stage, at its peak.
  std::vector<StageMemory> memory;
  /// The largest total, without what the runtime reserves.
  double peakBytes = 0;
  /// Why the layout makes no sense; the rest is empty then.
  std::string error;
};

/// The step's time and memory. O(layers + stages * microbatches).
StepPrediction predictStep(const CostModel &machine, const ModelDimensions &model,
                           const TrainingLayout &layout);

/// One layer's forward pass, and its backward pass with recompute, in seconds.
struct LayerSeconds {
  double forward = 0, backward = 0, weightGradient = 0;
};
LayerSeconds predictLayer(const CostModel &machine, const ModelDimensions &model,
                          const TrainingLayout &layout);

/// Activations of the first stage in 1F1B: layers (or 1 + (p-1)/(p v) of them with v chunks) times
/// layerActivationBytes (Korthikanti et al., 2022, section 4.2).
double firstStageActivationBytes(const ModelDimensions &model, const TrainingLayout &layout);
/// Parameters, gradients and optimizer state of a stage's layers, without embedding and head: 18 bytes for
/// each of about 12 l h^2 / (t p) parameters.
double firstStageStateBytes(const ModelDimensions &model, const TrainingLayout &layout);

} // namespace colossal::cost

#endif // COLOSSAL_COST_TRAINING_H
