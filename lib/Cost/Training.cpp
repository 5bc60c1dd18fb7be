// A step: the pieces of the model on their stages, the schedule over them, then gradients and the optimizer.
#include "colossal/Cost/Training.h"

#include "colossal/Cost/ChainCut.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace colossal::cost {

namespace {

/// Bytes that an optimizer in mixed precision moves for one parameter: gradient unscaled to f32 (2 + 4), Adam
/// (16 read, 12 written), the new 16-bit copy (2).
constexpr double kOptimizerTraffic = 36;

class StepModel {
public:
  StepModel(const CostModel &machine, const ModelDimensions &model, const TrainingLayout &layout)
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
    piece.balancedContext = layout.balancedContext;
    piece.attention = layout.attention;
    piece.expertParallel = layout.expertParallel ? layout.data : 1;
    piece.tensorGroup = {layout.tensor, 1, devices};
    piece.contextGroup = {layout.context, layout.tensor, devices};
    piece.expertGroup = {layout.data, layout.tensor * layout.context, devices};
    dataGroup = {layout.data * layout.context, layout.tensor, devices};
  }

  LayerSeconds seconds(const PieceWork &work) const {
    LayerSeconds time;
    LaunchQueue forward = ops.queue();
    forward.run(work.forward.ops);
    time.forward = forward.seconds() + collectiveSeconds(work.forward);
    // Recompute is a forward pass; gradients of inputs and of weights are launched together, last first, by
    // an engine that does not interpret a program.
    LaunchQueue again = ops.queue();
    again.run(work.recompute.ops);
    LaunchQueue gradients = ops.queue(machine.machine().fitted["backward_launch"]);
    gradients.run(interleaved(work.backward.ops, work.weightGradient.ops));
    double inputs = ops.seconds(work.backward).compute, weights = ops.seconds(work.weightGradient).compute;
    double stretch = inputs + weights > 0 ? gradients.seconds() / (inputs + weights) : 1;
    time.backward = again.seconds() + collectiveSeconds(work.recompute) + inputs * stretch +
                    collectiveSeconds(work.backward);
    time.weightGradient = weights * stretch;
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
    if (problem.work.empty()) {
      result.error = "there are more stages than contractions to cut between";
      return result;
    }
    if (problem.stages > 1) {
      problem.transferBlocks = !splitsBackward(problem.schedule) && !layout.asyncPipeline;
      fillHops(problem);
    }
    PipelineResult schedule = simulate(problem);
    if (!schedule.error.empty()) {
      result.error = schedule.error;
      return result;
    }
    result.pipeline = schedule.steadySeconds;
    result.bubble = schedule.bubble;
    for (int s = 0; s < layout.pipeline; ++s) {
      double reduction = gradientSeconds(s, schedule.seconds), update = optimizerSeconds(s);
      // Where steps follow each other without a common end, what counts is from step to step.
      double end = schedule.stageEnd[s] - (schedule.seconds - schedule.steadySeconds) + reduction + update;
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
  double collectiveSeconds(const OpList &list) const { return ops.seconds(list).collective; }

  /// Operations of a backward pass in their order: the last of the forward pass first, and the gradient of a
  /// contraction's weights behind that of its input.
  static std::vector<OpWork> interleaved(const std::vector<OpWork> &inputs,
                                         const std::vector<OpWork> &weights) {
    std::vector<OpWork> order;
    auto weight = weights.rbegin();
    for (auto op = inputs.rbegin(); op != inputs.rend(); ++op) {
      order.push_back(*op);
      if (op->kind == OpKind::Contraction && weight != weights.rend() && op->m == weight->k)
        order.push_back(*weight++);
    }
    order.insert(order.end(), weight, weights.rend());
    return order;
  }

  std::string check() const {
    if (layout.tensor < 1 || layout.context < 1 || layout.data < 1 || layout.pipeline < 1)
      return "tp, cp, dp and pp must be at least 1";
    if (layout.globalBatch / layout.data / layout.microBatch > 1e7)
      return "more than 10^7 microbatches";
    if (layout.microbatches() < 1)
      return "the global batch holds no microbatch of each data-parallel rank";
    if (!layout.cutsInsideLayers && static_cast<double>(layout.pipeline) * layout.chunks >
                                        model.layers + (layout.endsCountAsLayers ? 2 : 0))
      return "there are more stages than layers";
    if (layout.cutsInsideLayers && layout.chunks > 1)
      return "stages of several chunks are cut between layers only";
    if (!layout.stageLayers.empty() && layout.stageLayers.size() != static_cast<std::size_t>(layout.pipeline))
      return "the layers of each stage must be given for every stage";
    return "";
  }

  void fillHops(PipelineProblem &problem) const {
    // Each tensor rank sends its part of what all of them hold.
    double bytes = 2 * layout.microBatch * model.sequence / layout.context * model.hidden / layout.tensor;
    // A device that waits for a transfer waits for its launch as well.
    double launch = problem.transferBlocks ? machine.machine().fitted["host_launch_seconds"] : 0;
    for (int s = 0; s < layout.pipeline; ++s)
      problem.hopSeconds.push_back(hopSeconds(machine, bytes, s, layout.pipeline, layout.devices()) + launch);
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

  /// Where stages may begin inside a layer: behind each contraction with weights, as parts of its forward
  /// pass.
  std::vector<double> layerParts() const {
    std::vector<double> parts;
    double all = 0, since = 0;
    for (const OpWork &op : layerWork(model, piece).forward.ops) {
      double seconds = ops.seconds(op);
      all += seconds;
      since += seconds;
      if (op.kind == OpKind::Contraction && op.batch == 1) {
        parts.push_back(since);
        since = 0;
      }
    }
    if (!parts.empty())
      parts.back() += since;
    for (double &part : parts)
      part /= all;
    return parts;
  }

  /// Layers of each stage where stages are cut between operations. State is taken to lie evenly in a layer.
  std::vector<double> cutLayers(const LayerSeconds &layer, const LayerSeconds &head,
                                const LayerSeconds &embedding) const {
    auto all = [](const LayerSeconds &time) { return time.forward + time.backward + time.weightGradient; };
    std::vector<double> inside = layerParts();
    if (inside.empty() || model.layers * static_cast<double>(inside.size()) > 1e6)
      return {};
    std::vector<ChainPart> parts;
    std::vector<double> share;
    for (int l = 0; l < static_cast<int>(model.layers); ++l)
      for (double part : inside) {
        parts.push_back({part * all(layer), 0, 0, 0});
        share.push_back(part);
      }
    parts.front().seconds += all(embedding);
    parts.back().seconds += all(head);
    std::vector<std::size_t> firsts = cutChain(parts, layout.pipeline, layout.microbatches(), 1);
    std::vector<double> layers(firsts.size());
    for (std::size_t s = 0; s < firsts.size(); ++s)
      for (std::size_t i = firsts[s]; i < (s + 1 < firsts.size() ? firsts[s + 1] : parts.size()); ++i)
        layers[s] += share[i];
    return layers;
  }

  void fill(PipelineProblem &problem) {
    LayerSeconds layer = this->layer(), head = seconds(headWork(model, piece)),
                 embedding = seconds(embeddingWork(model, piece));
    std::vector<double> layers = layout.cutsInsideLayers && problem.stages > 1
                                     ? cutLayers(layer, head, embedding)
                                     : layersOfChunks(problem.stages, problem.chunks);
    if (layers.empty())
      return;
    // With a pipeline, parameters stay whole between microbatches. Gradients that are kept over ranks are
    // scattered in every microbatch.
    double gather = parameterGatherSeconds() / (layout.pipeline > 1 ? layout.microbatches() : 1);
    double scatter = layout.zero == 2 ? gradientScatterSeconds() : layout.zero >= 3 ? gather : 0;
    double kept = layerActivationBytes(model, piece);
    double tokens = layout.microBatch * model.sequence / layout.context;
    stageLayers.assign(problem.stages, 0);
    transient.assign(problem.stages, 0);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      ChunkWork work;
      bool first = i == 0, last = i + 1 == layers.size();
      // Parameters kept over ranks are gathered while the layer before computes, forward and backward.
      double forward = beside(layer.forward, gather);
      double backward =
          beside(layer.backward + layer.weightGradient, gather + scatter) - layer.weightGradient;
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
      if (last) // logits in 16 bits, in f32, their softmax, and gradients of both
        peak = std::max(peak, tokens * model.vocabulary / layout.tensor * (layout.compiled ? 14 : 16));
      work.transientBytes = 0;
      transient[stage] = std::max(transient[stage], peak);
      problem.work.push_back(work);
    }
  }

  /// Computing and communicating at once: the longer of the two, and part of the other, since they share the
  /// device.
  double beside(double compute, double communication) const {
    return std::max(compute, communication) +
           machine.machine().fitted["overlap_contention"] * std::min(compute, communication);
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
    // Whole in 16 bits: two layers at a time; with a pipeline, all of the stage's between its microbatches,
    // and their gradients in f32.
    if (layout.zero >= 3 && layout.pipeline > 1) {
      memory.parameters += 2 * count;
      memory.gradients += 4 * count;
    } else if (layout.zero >= 3) {
      memory.parameters += 2 * 2 * model.layerParameters() / layout.tensor;
      memory.gradients += 2 * 2 * model.layerParameters() / layout.tensor;
    }
    return memory;
  }

  double gradientScatterSeconds() const {
    return machine.seconds(Collective::ReduceScatter, 2 * model.layerParameters() / layout.tensor, dataGroup);
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
      seconds =
          machine.seconds(layout.zero == 2 ? Collective::AllGather : Collective::AllReduce, bytes, dataGroup);
      if (layout.bucketedGradients && layout.zero < 2) {
        // Beside the last backward pass, but for the buckets that come last.
        double beside = pipelineSeconds / layout.microbatches() * 0.6;
        seconds = std::max(seconds - beside, seconds * machine.machine().fitted["exposed_gradient"]);
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

double hopSeconds(const CostModel &machine, double bytes, int stage, int stages, int devices) {
  int apart = devices / stages, node = machine.machine().levels.front().units;
  std::int64_t from = static_cast<std::int64_t>(stage) * apart / node;
  std::int64_t to = static_cast<std::int64_t>((stage + 1) % stages) * apart / node;
  if (from == to)
    return machine.seconds(Collective::Permute, bytes, Group{2, 1, devices});
  return machine.seconds(Collective::Permute, bytes, Group{2, std::max(node, apart), apart});
}

StepPrediction predictStep(const CostModel &machine, const ModelDimensions &model,
                           const TrainingLayout &layout) {
  return StepModel(machine, model, layout).predict();
}

LayerSeconds predictLayer(const CostModel &machine, const ModelDimensions &model,
                          const TrainingLayout &layout) {
  return StepModel(machine, model, layout).layer();
}

double firstStageStateBytes(const ModelDimensions &model, const TrainingLayout &layout) {
  double count = model.layers / layout.pipeline * model.layerParameters();
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
