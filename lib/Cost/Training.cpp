// A transformer's pieces as units, and the units of each stage as published runs cut them; StepCost.h makes a
// step of them.
#include "colossal/Cost/Training.h"

#include "colossal/Cost/ChainCut.h"

#include <algorithm>
#include <cmath>

namespace colossal::cost {

namespace {

class StepModel {
public:
  StepModel(const CostModel &machine, const ModelDimensions &model, const TrainingLayout &layout)
      : machine(machine), model(model), layout(layout), ops(machine, layout.hostLaunchSeconds),
        step(machine, stateTypes(layout)) {
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
    StepShape shape = this->shape();
    std::vector<UnitCost> kinds = {unit(embeddingWork(model, piece)), unit(layerWork(model, piece)),
                                   unit(headWork(model, piece))};
    fillState(kinds);
    std::vector<double> layers = layersOfChunks(shape, kinds);
    if (layers.empty()) {
      result.error = "there are more stages than contractions to cut between";
      return result;
    }
    // Units of each chunk: its layers, the embedding before the first and the head behind the last.
    std::vector<int> units, parts;
    std::vector<double> amounts;
    auto add = [&](int kind, double amount) {
      units.push_back(kind);
      amounts.push_back(amount);
      ++parts.back();
    };
    for (std::size_t c = 0; c < layers.size(); ++c) {
      parts.push_back(0);
      if (c == 0)
        add(kEmbedding, 1);
      add(kLayer, layers[c]);
      if (c + 1 == layers.size())
        add(kHead, 1);
    }
    UnitOrder order{kinds, units, parts, &amounts};
    PipelineProblem problem = step.problem(shape, order);
    PipelineResult schedule = simulate(problem);
    if (!schedule.error.empty()) {
      result.error = schedule.error;
      return result;
    }
    StepPrice price = step.price(shape, problem, schedule, step.stages(shape, order));
    result.seconds = price.seconds;
    result.pipeline = price.pipeline;
    result.reduction = price.reduction;
    result.optimizer = price.optimizer;
    result.bubble = price.bubble;
    result.memory = std::move(price.memory);
    result.peakBytes = price.peakBytes;
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

  static constexpr int kEmbedding = 0, kLayer = 1, kHead = 2;

  static StateTypes stateTypes(const TrainingLayout &layout) {
    StateTypes types;
    types.parameter = layout.parameterBytes;
    types.gradient = layout.gradientBytes;
    types.optimizer = layout.optimizerBytes;
    return types; // reduced and gathered in 16 bits
  }

  StepShape shape() const {
    StepShape shape;
    shape.pipeline = layout.pipeline;
    shape.data = layout.data;
    shape.context = layout.context;
    shape.tensor = layout.tensor;
    shape.microbatches = layout.microbatches();
    shape.schedule =
        layout.pipeline == 1 && layout.schedule != Schedule::GPipe ? Schedule::OneFOneB : layout.schedule;
    bool interleaves = shape.schedule == Schedule::Interleaved || shape.schedule == Schedule::ZeroBubbleV;
    shape.chunks = interleaves ? layout.chunks : 1;
    shape.zero = layout.zero;
    shape.overlapGradients = layout.bucketedGradients;
    shape.reducesOverContext = true;
    shape.keepsGathered = true;
    shape.transfersBeside = layout.asyncPipeline;
    shape.transferLaunch = machine.machine().fitted["host_launch_seconds"];
    shape.commonEnd = false;
    return shape;
  }

  /// A piece as a unit, without what it keeps and holds.
  UnitCost unit(const PieceWork &work) const {
    UnitCost cost;
    LayerSeconds time = seconds(work);
    cost.forward = time.forward;
    cost.backward = time.backward;
    cost.weightGradient = time.weightGradient;
    cost.forwardCollective = collectiveSeconds(work.forward);
    cost.collective =
        cost.forwardCollective + collectiveSeconds(work.recompute) + collectiveSeconds(work.backward);
    // Each tensor rank hands on its part of what all of them hold.
    cost.outputBytes = 2 * layout.microBatch * model.sequence / layout.context * model.hidden / layout.tensor;
    return cost;
  }

  /// What the three kinds of unit keep for the backward pass and hold.
  void fillState(std::vector<UnitCost> &kinds) const {
    UnitCost &embedding = kinds[kEmbedding], &layer = kinds[kLayer], &head = kinds[kHead];
    layer.savedBytes = layerActivationBytes(model, piece);
    // Inputs of the four contractions stay for their weights' gradients.
    layer.weightSavedBytes = std::min(layer.savedBytes, weightGradientBytes());
    if (layout.recompute == Recompute::Full)
      layer.transientBytes = layerTransientBytes(model, piece);
    // Logits in 16 bits, in f32, their softmax, and gradients of both.
    head.transientBytes = layout.microBatch * model.sequence / layout.context * model.vocabulary /
                          layout.tensor * (layout.compiled ? 14 : 16);
    layer.parameters = model.sharedLayerParameters() / layout.tensor;
    if (model.experts > 0)
      layer.parameters +=
          (model.layerParameters() - model.sharedLayerParameters()) / layout.tensor / piece.expertParallel;
    embedding.parameters = model.embeddingParameters() / layout.tensor;
    head.parameters = model.vocabulary * model.hidden / layout.tensor;
    layer.readAgain = layer.parameters;
    head.readAgain = head.parameters;
    if (model.tiedEmbedding)
      embedding.shared[0] = head.shared[0] = head.parameters;
  }

  /// Layers of each chunk in the model's order, as published runs cut them; empty where that cannot be.
  std::vector<double> layersOfChunks(const StepShape &shape, const std::vector<UnitCost> &kinds) const {
    if (layout.cutsInsideLayers && shape.pipeline > 1)
      return cutLayers(kinds);
    if (shape.chunks == 1 && !layout.stageLayers.empty())
      return layout.stageLayers;
    int parts = shape.pipeline * shape.chunks;
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
  std::vector<double> cutLayers(const std::vector<UnitCost> &kinds) const {
    auto all = [&](int kind) {
      return kinds[kind].forward + kinds[kind].backward + kinds[kind].weightGradient;
    };
    std::vector<double> inside = layerParts();
    if (inside.empty() || model.layers * static_cast<double>(inside.size()) > 1e6)
      return {};
    std::vector<ChainPart> parts;
    std::vector<double> share;
    for (int l = 0; l < static_cast<int>(model.layers); ++l)
      for (double part : inside) {
        parts.push_back({part * all(kLayer), 0, 0, 0});
        share.push_back(part);
      }
    parts.front().seconds += all(kEmbedding);
    parts.back().seconds += all(kHead);
    std::vector<std::size_t> firsts = cutChain(parts, layout.pipeline, layout.microbatches(), 1);
    std::vector<double> layers(firsts.size());
    for (std::size_t s = 0; s < firsts.size(); ++s)
      for (std::size_t i = firsts[s]; i < (s + 1 < firsts.size() ? firsts[s + 1] : parts.size()); ++i)
        layers[s] += share[i];
    return layers;
  }

  double weightGradientBytes() const {
    double sbh = layout.microBatch * model.sequence / layout.context * model.hidden;
    double gate = model.feedForwardWidth() / model.hidden;
    return sbh * (2 + 2 + 2.0 / layout.tensor + 2 * gate / layout.tensor);
  }

  const CostModel &machine;
  const ModelDimensions &model;
  const TrainingLayout &layout;
  OperationCost ops;
  LayerLayout piece;
  StepCost step;
};

} // namespace

int TrainingLayout::microbatches() const {
  double each = globalBatch / data / microBatch;
  return each > 1e7 ? 0 : static_cast<int>(std::ceil(each - 1e-9));
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
