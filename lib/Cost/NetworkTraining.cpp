// A training step of a residual network: its blocks on stages, the schedule over them, gradients and the
// optimizer.
#include "colossal/Cost/ChainCut.h"
#include "colossal/Cost/ResidualNetwork.h"

#include <algorithm>
#include <cmath>

namespace colossal::cost {

namespace {

/// Momentum: parameter, gradient and moment read, parameter and moment written, in f32.
constexpr double kMomentumTraffic = 20;

class NetworkStep {
public:
  NetworkStep(const CostModel &machine, const ResidualNetwork &network, const TrainingLayout &layout)
      : machine(machine), layout(layout), ops(machine, layout.hostLaunchSeconds),
        blocks(networkBlocks(network)), element(layout.type == DataType::F32 ? 4 : 2) {}

  /// Blocks of resolutions below `from` split images over the tensor axis, the others channels.
  StepPrediction predict(int from) {
    StepPrediction result;
    channelsFrom = from;
    std::vector<ChainPart> parts;
    std::vector<ChunkWork> passes;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      passes.push_back(work(i));
      const ChunkWork &pass = passes.back();
      parts.push_back({pass.forward + pass.backward + pass.weightGradient, stateOf(i).total(),
                       pass.activationBytes, pass.transientBytes});
    }
    double memory = static_cast<double>(machine.machine().device.memoryBytes) -
                    machine.machine().fitted["reserved_bytes"];
    std::vector<std::size_t> firsts = cutChain(parts, layout.pipeline, layout.microbatches(), memory);
    if (firsts.empty()) {
      result.error = "there are more stages than blocks";
      return result;
    }
    PipelineProblem problem;
    problem.schedule =
        layout.pipeline == 1 && layout.schedule != Schedule::GPipe ? Schedule::OneFOneB : layout.schedule;
    problem.stages = layout.pipeline;
    problem.microbatches = layout.microbatches();
    problem.transferBlocks = !splitsBackward(problem.schedule);
    std::vector<double> handed;
    for (std::size_t s = 0; s < firsts.size(); ++s) {
      ChunkWork stage;
      for (std::size_t i = firsts[s]; i < end(firsts, s); ++i) {
        stage.forward += passes[i].forward;
        stage.backward += passes[i].backward;
        stage.weightGradient += passes[i].weightGradient;
        stage.activationBytes += passes[i].activationBytes;
      }
      problem.work.push_back(stage);
      handed.push_back(element * layout.microBatch * blocks[end(firsts, s) - 1].outputElements /
                       layout.tensor);
    }
    if (layout.pipeline > 1) {
      double launch = problem.transferBlocks ? machine.machine().fitted["host_launch_seconds"] : 0;
      for (int s = 0; s < layout.pipeline; ++s)
        problem.hopSeconds.push_back(
            hopSeconds(machine, handed[static_cast<std::size_t>(s)], s, layout.pipeline, layout.devices()) +
            launch);
    }
    PipelineResult schedule = simulate(problem);
    if (!schedule.error.empty()) {
      result.error = schedule.error;
      return result;
    }
    result.pipeline = schedule.steadySeconds;
    result.bubble = schedule.bubble;
    for (std::size_t s = 0; s < firsts.size(); ++s) {
      double reduction = 0, update = 0;
      StageMemory memory;
      for (std::size_t i = firsts[s]; i < end(firsts, s); ++i) {
        StageMemory own = stateOf(i);
        memory.parameters += own.parameters;
        memory.gradients += own.gradients;
        memory.optimizer += own.optimizer;
        memory.transient = std::max(memory.transient, passes[i].transientBytes);
      }
      reductionAndUpdate(firsts[s], end(firsts, s), schedule.seconds, reduction, update);
      memory.activations = schedule.peakBytes[s];
      double ends = schedule.stageEnd[s] - (schedule.seconds - schedule.steadySeconds) + reduction + update;
      if (ends > result.seconds) {
        result.seconds = ends;
        result.reduction = reduction;
        result.optimizer = update;
      }
      result.peakBytes = std::max(result.peakBytes, memory.total());
      result.memory.push_back(memory);
    }
    double nodes = static_cast<double>(layout.devices()) / machine.machine().levels.front().units;
    result.seconds *= 1 + machine.machine().fitted["straggler"] * std::log2(std::max(1.0, nodes));
    return result;
  }

private:
  std::size_t end(const std::vector<std::size_t> &firsts, std::size_t stage) const {
    return stage + 1 < firsts.size() ? firsts[stage + 1] : blocks.size();
  }
  bool splitsChannels(std::size_t i) const {
    return layout.tensor > 1 && blocks[i].resolution >= channelsFrom;
  }
  double split(std::size_t i) const { return splitsChannels(i) ? layout.tensor : 1; }
  /// Ranks that hold the same parameters.
  Group replicas(bool channels) const {
    return channels ? Group{layout.data, layout.tensor, layout.devices()}
                    : Group{layout.data * layout.tensor, 1, layout.devices()};
  }

  StageMemory stateOf(std::size_t i) const {
    double count = blocks[i].parameters / split(i), ranks = replicas(splitsChannels(i)).size;
    StageMemory memory;
    memory.parameters = count * layout.parameterBytes / (layout.zero >= 3 ? ranks : 1);
    memory.gradients = count * layout.gradientBytes / (layout.zero >= 2 ? ranks : 1);
    memory.optimizer = count * layout.optimizerBytes / (layout.zero >= 1 ? ranks : 1);
    return memory;
  }

  /// One block's passes over one microbatch.
  ChunkWork work(std::size_t i) const {
    const NetworkBlock &block = blocks[i];
    bool channels = splitsChannels(i);
    double t = split(i), whole = layout.microBatch;
    double images = channels ? whole : std::max(1.0, whole / layout.tensor);
    OpList forward, inputs, weights;
    for (const Convolution &c : block.convolutions) {
      double window = c.window * c.window;
      double read = images * c.in * c.inPixels, written = images * c.out * c.outPixels / t;
      double bytes = element * (read + written + c.parameters() / t);
      auto product = [&](OpList &list, double m, double n, double k) {
        list.ops.push_back(contraction(1, m, n, k, layout.type));
        list.ops.back().bytes = bytes;
      };
      product(forward, images * c.outPixels, std::ceil(c.out / t), c.in * window);
      if (i > 0) // an image has no gradient
        product(inputs, images * c.outPixels, c.in * window, std::ceil(c.out / t));
      product(weights, c.in * window, std::ceil(c.out / t), images * c.outPixels);
    }
    // Statistics are read once more than values; a rectifier and the sum with the input are fused into the
    // passes.
    double normalized = element * images * block.normalizedElements / t;
    forward.ops.push_back(streaming(3 * normalized, static_cast<double>(2 * block.convolutions.size())));
    inputs.ops.push_back(streaming(5 * normalized, static_cast<double>(2 * block.convolutions.size())));
    if (layout.microbatches() > 1) // gradients are added up
      weights.ops.push_back(streaming(3 * layout.gradientBytes * block.parameters / t));
    if (channels) {
      Group group{layout.tensor, 1, layout.devices()};
      for (OpList *list : {&forward, &inputs}) {
        if (block.gatheredElements > 0)
          list->collectives.push_back(
              {Collective::AllGather, element * whole * block.gatheredElements, group, 1});
        list->collectives.push_back(
            {Collective::AllReduce, element * whole * block.outputElements, group, 1});
      }
      if (i > 0 && !splitsChannels(i - 1)) { // from a part of the images to all of them
        forward.collectives.push_back(
            {Collective::AllGather, element * whole * block.inputElements, group, 1});
        inputs.collectives.push_back(
            {Collective::ReduceScatter, element * whole * block.inputElements, group, 1});
      }
    }
    bool again = layout.recompute == Recompute::Full;
    double input = element * images * block.inputElements;
    // Outputs of convolutions, and of their normalizations.
    double inside = 2 * normalized;
    ChunkWork pass;
    pass.forward = ops.seconds(forward).total();
    pass.backward = ops.seconds(inputs).total() + (again ? pass.forward : 0);
    pass.weightGradient = ops.seconds(weights).total();
    if (layout.zero >= 2 && replicas(channels).size > 1) {
      double bytes = layout.gradientBytes * block.parameters / t;
      double scatter = machine.seconds(Collective::ReduceScatter, bytes, replicas(channels));
      double gather = layout.zero >= 3 ? machine.seconds(Collective::AllGather,
                                                         element * block.parameters / t, replicas(channels))
                                       : 0;
      auto beside = [&](double compute, double communication) {
        return std::max(compute, communication) +
               machine.machine().fitted["overlap_contention"] * std::min(compute, communication);
      };
      pass.forward = beside(pass.forward, gather);
      pass.backward = beside(pass.backward + pass.weightGradient, gather + scatter) - pass.weightGradient;
    }
    pass.activationBytes = again ? input : input + inside;
    pass.transientBytes = again ? inside + normalized : normalized;
    return pass;
  }

  /// Of the blocks of one stage; those whose parameters lie on the same ranks together.
  void reductionAndUpdate(std::size_t first, std::size_t last, double pipelineSeconds, double &reduction,
                          double &update) const {
    double count = 0;
    for (bool channels : {false, true}) {
      double own = 0;
      for (std::size_t i = first; i < last; ++i)
        if (splitsChannels(i) == channels)
          own += blocks[i].parameters / split(i);
      Group group = replicas(channels);
      count += own / (layout.zero >= 1 ? group.size : 1);
      if (own > 0 && layout.zero < 3)
        reduction += machine.seconds(layout.zero == 2 ? Collective::AllGather : Collective::AllReduce,
                                     layout.gradientBytes * own, group);
    }
    if (layout.bucketedGradients && layout.zero < 2)
      reduction = std::max(reduction - pipelineSeconds / layout.microbatches() * 0.6,
                           reduction * machine.machine().fitted["exposed_gradient"]);
    update = ops.seconds(streaming(count * kMomentumTraffic, 20));
  }

  const CostModel &machine;
  const TrainingLayout &layout;
  OperationCost ops;
  std::vector<NetworkBlock> blocks;
  double element;
  int channelsFrom = 4;
};

} // namespace

StepPrediction predictStep(const CostModel &machine, const ResidualNetwork &network,
                           const TrainingLayout &layout) {
  StepPrediction best;
  best.error = checkNetwork(network);
  if (!best.error.empty())
    return best;
  if (layout.tensor < 1 || layout.data < 1 || layout.pipeline < 1)
    best.error = "tp, dp and pp must be at least 1";
  else if (layout.context > 1)
    best.error = "a convolutional network has no sequence to split over cp";
  else if (layout.chunks > 1)
    best.error = "a convolutional network is priced with one chunk a stage";
  else if (layout.microbatches() < 1)
    best.error = "the global batch holds no microbatch of each data-parallel rank, or more than 10^7";
  if (!best.error.empty())
    return best;
  double memory =
      static_cast<double>(machine.machine().device.memoryBytes) - machine.machine().fitted["reserved_bytes"];
  NetworkStep step(machine, network, layout);
  best.error = "no split";
  for (int from = layout.tensor > 1 ? 0 : 4; from <= 4; ++from) {
    StepPrediction found = step.predict(from);
    if (!found.error.empty())
      return found;
    bool fits = found.peakBytes <= memory, fitted = best.error.empty() && best.peakBytes <= memory;
    if (!best.error.empty() || (fits && !fitted) ||
        (fits == fitted && (fits ? found.seconds < best.seconds : found.peakBytes < best.peakBytes)))
      best = found;
  }
  return best;
}

} // namespace colossal::cost
