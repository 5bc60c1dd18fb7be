// A step: the pieces of the model on their stages, the schedule over them, then gradients and the optimizer.
// Neighbour: Training.h has the contract.
#include "colossal/Cost/Training.h"

#include <algorithm>
#include <cmath>

namespace colossal::cost {

namespace {

/// Bytes that an optimizer in mixed precision moves for one parameter: gradient unscaled to f32 (2 + 4), Adam
/// (16 read, 12 written), the new 16-bit copy (2).
constexpr double kOptimizerTraffic = 36;

class Step {
public:
  Step(const CostModel &machine, const ModelDimensions &model, const TrainingLayout &layout)
      : machine(machine), model(model), layout(layout), ops(machine, layout.hostLaunchSeconds) {
    int devices = layout.devices();
    piece.tensor = layout.tensor;
    piece.context = layout.context;
    piece.microBatch = layout.microBatch;
    piece.sequenceParallel = layout.sequenceParallel && layout.tensor > 1;
    piece.recompute = layout.recompute;
    piece.type = layout.type;
    piece.contractionType = layout.float8 ? DataType::F8 : layout.type;
    piece.compiled = layout.compiled;
    piece.asyncTensor = layout.asyncTensor;
    piece.expertParallel = layout.expertParallel ? layout.data : 1;
    piece.tensorGroup = {layout.tensor, 1, devices};
    piece.contextGroup = {layout.context, layout.tensor, devices};
    piece.expertGroup = {layout.data, layout.tensor * layout.context, devices};
    dataGroup = {layout.data * layout.context, layout.tensor, devices};
  }

  LayerSeconds seconds(const PieceWork &work) const {
    LayerSeconds time;
    time.forward = ops.seconds(work.forward).total();
    // The host launches recompute, gradients of inputs and of weights in one go.
    ListTime recompute = ops.seconds(work.recompute), inputs = ops.seconds(work.backward),
             weights = ops.seconds(work.weightGradient);
    double compute = recompute.compute + inputs.compute + weights.compute;
    double launch = recompute.launch + inputs.launch + weights.launch;
    double stretch = compute > 0 ? std::max(1.0, launch / compute) : 1;
    time.backward = (recompute.compute + inputs.compute) * stretch + recompute.collective + inputs.collective;
    time.weightGradient = weights.compute * stretch;
    return time;
  }

  LayerSeconds layer() const { return seconds(layerWork(model, piece)); }

  StepPrediction predict() {
    StepPrediction result;
    result.error = check();
    if (!result.error.empty())
      return result;
    PipelineProblem problem;
    problem.schedule =
        layout.pipeline == 1 && layout.schedule != Schedule::GPipe ? Schedule::OneFOneB : layout.schedule;
    bool interleaves = problem.schedule == Schedule::Interleaved || problem.schedule == Schedule::ZeroBubbleV;
    problem.stages = layout.pipeline;
    problem.chunks = interleaves ? layout.chunks : 1;
    problem.microbatches = layout.microbatches();
    fill(problem);
    if (problem.stages > 1) {
      double bytes = 2 * layout.microBatch * model.sequence / layout.context * model.hidden;
      // Each tensor rank sends its part of what all of them hold.
      problem.transferSeconds =
          machine.seconds(Collective::Permute, bytes / layout.tensor,
                          Group{2, layout.tensor * layout.context * layout.data, layout.devices()});
      problem.transferBlocks = !splitsBackward(problem.schedule);
    }
    PipelineResult schedule = simulate(problem);
    if (!schedule.error.empty()) {
      result.error = schedule.error;
      return result;
    }
    result.pipeline = schedule.seconds;
    result.bubble = schedule.bubble;
    for (int s = 0; s < layout.pipeline; ++s) {
      double reduction = gradientSeconds(s, schedule.seconds), update = optimizerSeconds(s);
      double end = schedule.stageEnd[s] + reduction + update;
      if (end > result.seconds) {
        result.seconds = end;
        result.reduction = reduction;
        result.optimizer = update;
      }
      RankMemory memory = state(s);
      memory.activations = schedule.peakBytes[s];
      memory.transient = transient[s];
      result.peakBytes = std::max(result.peakBytes, memory.total());
      result.memory.push_back(memory);
    }
    result.seconds *= 1 + machine.machine().fitted["straggler"] * std::log2(std::max(1.0, nodes()));
    return result;
  }

private:
  std::string check() const {
    if (layout.tensor < 1 || layout.context < 1 || layout.data < 1 || layout.pipeline < 1)
      return "tp, cp, dp and pp must be at least 1";
    if (layout.microbatches() < 1)
      return "the global batch holds no microbatch of each data-parallel rank";
    if (layout.pipeline * std::max(1, layout.chunks) > model.layers + (layout.endsCountAsLayers ? 2 : 0))
      return "there are more stages than layers";
    if (!layout.stageLayers.empty() && layout.stageLayers.size() != static_cast<std::size_t>(layout.pipeline))
      return "the layers of each stage must be given for every stage";
    return "";
  }

  double nodes() const {
    double inside = machine.machine().levels.front().units;
    return layout.devices() / inside;
  }

  /// Layers of each chunk in the model's order.
  std::vector<double> layersOfChunks(int stages, int chunks) const {
    if (chunks == 1 && !layout.stageLayers.empty())
      return layout.stageLayers;
    int parts = stages * chunks;
    double total = model.layers + (layout.endsCountAsLayers ? 2 : 0);
    std::vector<double> layers(parts);
    double each = std::floor(total / parts), rest = total - each * parts;
    for (int i = 0; i < parts; ++i)
      layers[i] = each + (i < rest ? 1 : 0);
    if (layout.endsCountAsLayers) {
      layers.front() -= 1;
      layers.back() -= 1;
    }
    return layers;
  }

  void fill(PipelineProblem &problem) {
    LayerSeconds layer = this->layer(), head = seconds(headWork(model, piece)),
                 embedding = seconds(embeddingWork(model, piece));
    std::vector<double> layers = layersOfChunks(problem.stages, problem.chunks);
    double gather = parameterGatherSeconds();
    double kept = layerActivationBytes(model, piece);
    double tokens = layout.microBatch * model.sequence / layout.context;
    stageLayers.assign(problem.stages, 0);
    transient.assign(problem.stages, 0);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      ChunkWork work;
      bool first = i == 0, last = i + 1 == layers.size();
      // Parameters kept over ranks are gathered while the layer before computes, forward and backward.
      double forward = std::max(layer.forward, gather);
      double backward = std::max(layer.backward + layer.weightGradient, 2 * gather) - layer.weightGradient;
      work.forward = layers[i] * forward + (first ? embedding.forward : 0) + (last ? head.forward : 0);
      work.backward = layers[i] * backward + (first ? embedding.backward : 0) + (last ? head.backward : 0);
      work.weightGradient = layers[i] * layer.weightGradient + (last ? head.weightGradient : 0);
      work.activationBytes = layers[i] * kept;
      // Inputs of the four contractions stay for their weights' gradients.
      work.weightGradientBytes = std::min(work.activationBytes, layers[i] * weightGradientBytes());
      int stage = stageOf(static_cast<int>(i), problem);
      stageLayers[stage] += layers[i];
      double peak =
          layers[i] > 0 && layout.recompute == Recompute::Full ? layerTransientBytes(model, piece) : 0;
      if (last) // logits in 16 bits and in f32, with their gradient
        peak = std::max(peak, tokens * model.vocabulary / layout.tensor * (layout.compiled ? 6 : 10));
      work.transientBytes = 0;
      transient[stage] = std::max(transient[stage], peak);
      problem.work.push_back(work);
    }
  }

  int stageOf(int part, const PipelineProblem &problem) const {
    if (problem.schedule == Schedule::ZeroBubbleV && part >= problem.stages)
      return 2 * problem.stages - 1 - part;
    return part % problem.stages;
  }

  double weightGradientBytes() const {
    double sbh = layout.microBatch * model.sequence / layout.context * model.hidden;
    double gate = model.feedForwardWidth() / model.hidden;
    return sbh * (2 + 2 + 2.0 / layout.tensor + 2 * gate / layout.tensor);
  }

  double stageParameters(int stage) const {
    double count = stageLayers[stage] * model.sharedLayerParameters() / layout.tensor;
    if (model.experts > 0)
      count += stageLayers[stage] * (model.layerParameters() - model.sharedLayerParameters()) /
               layout.tensor / piece.expertParallel;
    if (stage == 0)
      count += model.embeddingParameters() / layout.tensor;
    if (stage == layout.pipeline - 1 && (layout.pipeline > 1 || !model.tiedEmbedding))
      count += model.vocabulary * model.hidden / layout.tensor;
    return count;
  }

  RankMemory state(int stage) const {
    double count = stageParameters(stage), ranks = layout.data * layout.context;
    RankMemory memory;
    memory.parameters = count * layout.parameterBytes / (layout.zero >= 3 ? ranks : 1);
    memory.gradients = count * layout.gradientBytes / (layout.zero >= 2 ? ranks : 1);
    memory.optimizer = count * layout.optimizerBytes / (layout.zero >= 1 ? ranks : 1);
    if (layout.zero >= 3) // two layers whole at a time, and their gradients before they are scattered
      memory.parameters += 2 * model.layerParameters() / layout.tensor * (layout.parameterBytes + 2);
    return memory;
  }

  /// To bring one layer's parameters together, or to scatter its gradients.
  double parameterGatherSeconds() const {
    if (layout.zero < 3 || dataGroup.size <= 1)
      return 0;
    double bytes = 2 * model.layerParameters() / layout.tensor;
    double seconds = machine.seconds(Collective::AllGather, bytes, dataGroup);
    double limit = machine.machine().fitted["sharded_parameter_bandwidth"];
    if (limit > 0 && nodes() > 1)
      seconds =
          std::max(seconds, CostModel::bytesMoved(Collective::AllGather, bytes, dataGroup.size) / limit);
    return seconds;
  }

  double gradientSeconds(int stage, double pipelineSeconds) const {
    double seconds = 0;
    double bytes = 2 * stageParameters(stage);
    if (layout.zero < 3 && dataGroup.size > 1) {
      // Reduce-scatter and, after the update, all-gather of parameters move as much as an all-reduce.
      seconds = machine.seconds(Collective::AllReduce, bytes, dataGroup);
      if (layout.bucketedGradients) {
        double beside = pipelineSeconds / layout.microbatches() * 0.6; // the last backward pass
        double exposed = std::max(seconds - beside, seconds * machine.machine().fitted["exposed_gradient"]);
        seconds = std::min(seconds, exposed);
      }
    }
    if (model.tiedEmbedding && layout.pipeline > 1 && (stage == 0 || stage == layout.pipeline - 1))
      seconds += machine.seconds(
          Collective::AllReduce, 2 * model.vocabulary * model.hidden / layout.tensor,
          Group{2, layout.devices() / layout.pipeline * (layout.pipeline - 1), layout.devices()});
    return seconds;
  }

  double optimizerSeconds(int stage) const {
    double count = stageParameters(stage);
    if (layout.zero >= 1)
      count /= layout.data * layout.context;
    return ops.seconds(streaming(count * kOptimizerTraffic, 20));
  }

  const CostModel &machine;
  const ModelDimensions &model;
  const TrainingLayout &layout;
  OperationCost ops;
  LayerLayout piece;
  Group dataGroup;
  std::vector<double> stageLayers, transient;
};

} // namespace

int TrainingLayout::microbatches() const {
  double each = globalBatch / data / microBatch;
  return each > 1e7 ? 0 : static_cast<int>(std::ceil(each - 1e-9));
}

StepPrediction predictStep(const CostModel &machine, const ModelDimensions &model,
                           const TrainingLayout &layout) {
  return Step(machine, model, layout).predict();
}

LayerSeconds predictLayer(const CostModel &machine, const ModelDimensions &model,
                          const TrainingLayout &layout) {
  return Step(machine, model, layout).layer();
}

double firstStageStateBytes(const ModelDimensions &model, const TrainingLayout &layout) {
  double count = model.layers / layout.pipeline * model.layerParameters() + model.embeddingParameters();
  return count / layout.tensor * (layout.parameterBytes + layout.gradientBytes + layout.optimizerBytes);
}

double firstStageActivationBytes(const ModelDimensions &model, const TrainingLayout &layout) {
  LayerLayout piece;
  piece.tensor = layout.tensor;
  piece.context = layout.context;
  piece.microBatch = layout.microBatch;
  piece.sequenceParallel = layout.sequenceParallel;
  piece.recompute = layout.recompute;
  double p = layout.pipeline, v = layout.chunks;
  double factor = p > 1 && v > 1 ? 1 + (p - 1) / (p * v) : 1;
  return model.layers * factor * layerActivationBytes(model, piece);
}

} // namespace colossal::cost
