// Work, memory and time of transformers against closed formulas, and properties that any machine must have.
#include "colossal/Cost/Training.h"
#include "colossal/Cost/PlanGrid.h"
#include "colossal/Cost/PublishedModels.h"

#include <gtest/gtest.h>

using namespace colossal::cost;

namespace {

const CostModel &machine(const std::string &name = "a100-80-sxm") {
  static std::map<std::string, CostModel> models;
  auto found = models.find(name);
  if (found == models.end())
    found = models.emplace(name, CostModel(loadMachine(name).machine)).first;
  return found->second;
}

ModelDimensions gpt(double layers = 24, double hidden = 2048) {
  ModelDimensions model;
  model.layers = layers;
  model.hidden = hidden;
  model.vocabulary = 51200;
  return model;
}

TEST(Operations, ContractionsRunInWholeWavesOfTiles) {
  Machine simple;
  simple.device.peakFlops[DataType::F32] = simple.device.peakFlops[DataType::F16] = 1e12;
  simple.device.memoryBandwidth = 1e15;
  simple.device.computeUnits = 1;
  simple.levels = {Level{}};
  for (auto [name, value] :
       {std::pair{"gemm_efficiency", 1.0}, {"gemm_fill", 0.0}, {"streaming_efficiency", 1.0}})
    simple.fitted.set(name, value);
  simple.fitted.set("unaligned_efficiency", 0.25);
  CostModel model(simple);
  OperationCost ops(model, 0);
  auto time = [&](double m, double n, double k) {
    OpWork op = contraction(1, m, n, k, DataType::F16);
    op.launches = 0;
    return ops.seconds(op);
  };
  // A tile is never cut: 64 x 72 takes one of 64 x 128, which loads less for its size.
  EXPECT_NEAR(time(64, 72, 512) / time(64, 64, 512), 2 * (1 + 4.0 / 64 + 4.0 / 128) / (1 + 8.0 / 64), 1e-9);
  EXPECT_GE(time(1024, 1024, 512), 2.0 * 1024 * 1024 * 512 / 1e12) << "never above the peak";
  EXPECT_DOUBLE_EQ(time(64, 63, 512) / time(64, 64, 512), 4) << "an odd size has no wide loads";
}

TEST(Operations, AMasksDiagonalIsSlowerThanWholeBlocks) {
  CostModel model(loadMachine("h100").machine);
  OperationCost operations(model);
  OpWork whole;
  whole.kind = OpKind::FusedAttention;
  whole.type = DataType::BF16;
  whole.batch = 32;
  whole.m = whole.n = 16384;
  whole.k = 128;
  whole.launches = 0;
  OpWork causal = whole, ring = whole;
  causal.fraction = 0.5;
  ring.fraction = 1 - 0.5 / 8; // the last of eight ranks: seven whole blocks and its own
  double rate = whole.flops() / operations.seconds(whole);
  EXPECT_NEAR(causal.flops() / operations.seconds(causal), 335.0 / 370 * rate, 0.01 * rate);
  EXPECT_NEAR(operations.seconds(ring), 7.0 / 8 * operations.seconds(whole) + operations.seconds(causal) / 8,
              1e-9 * operations.seconds(whole));
}

/// Filling a tile's pipeline takes its time whatever the type: 8-bit products lose twice the work, and f32's
/// a fraction.
TEST(Operations, FillingATileTakesTheSameTimeInEveryType) {
  CostModel model(loadMachine("h100").machine);
  OperationCost operations(model);
  const Device &device = model.machine().device;
  auto lost = [&](DataType type) { // seconds beyond those of a product with endless k
    auto seconds = [&](double k) {
      OpWork op = contraction(1, 256 * 132, 4096, k, type);
      op.launches = 0;
      return operations.seconds(op);
    };
    return 2 * seconds(4096) - seconds(8192);
  };
  EXPECT_NEAR(lost(DataType::F8) / lost(DataType::BF16), 1, 1e-6);
  EXPECT_NEAR(lost(DataType::F32) / lost(DataType::BF16), 1, 1e-6);
  EXPECT_LT(device.flops(DataType::F32), device.flops(DataType::F8));
}

/// 8-bit products of 2,048 to 16,384 on an H100 as cuBLASLt was measured to run them on random numbers, hot
/// (Azure's AI benchmarking guide, ND H100 v5): 1011, 1217, 1290 and 1377 TFLOP/s.
TEST(Operations, SquareProductsInEightBitsAsMeasured) {
  CostModel model(loadMachine("h100").machine);
  OperationCost operations(model);
  for (auto [size, teraflops] :
       {std::pair{2048.0, 1011.3}, {4096, 1216.9}, {8192, 1290.1}, {16384, 1377.3}}) {
    OpWork op = contraction(1, size, size, size, DataType::F8);
    EXPECT_NEAR(op.flops() / operations.seconds(op) / 1e12 / teraflops, 1, 0.1) << size;
  }
}

TEST(Operations, GenerationsOfAttentionDiffer) {
  CostModel model(loadMachine("h100").machine);
  OperationCost operations(model);
  OpWork op;
  op.kind = OpKind::FusedAttention;
  op.type = DataType::BF16;
  op.batch = 32;
  op.m = op.n = 8192;
  op.k = 128;
  op.launches = 0;
  auto seconds = [&](AttentionKernel kernel) {
    op.attention = kernel;
    return operations.seconds(op);
  };
  double portable = seconds(AttentionKernel::Portable);
  EXPECT_NEAR(seconds(AttentionKernel::First) / portable, 1.8, 1e-9);
  EXPECT_NEAR(portable / seconds(AttentionKernel::Native), 0.5 / 0.3, 1e-9);
}

TEST(Machine, AtMostFifteenFittedConstants) {
  for (const std::string &name : machineNames()) {
    Machine file = loadMachine(name).machine;
    EXPECT_LE(file.fitted.stated().size() + file.fittedKeys.size(), 15u) << name;
  }
}

TEST(Operations, TheSlowerOfHostAndDeviceDecides) {
  OperationCost ops(machine(), 1e-3);
  OpList list;
  list.ops = {streaming(1e3, 5), streaming(1e3, 7)};
  EXPECT_DOUBLE_EQ(ops.seconds(list).total(), 12e-3);
  OperationCost fast(machine(), 0);
  EXPECT_DOUBLE_EQ(fast.seconds(list).total(), fast.seconds(list).compute);
}

TEST(Transformer, ParametersOfPublishedModels) {
  EXPECT_NEAR(publishedModel(Suite::Megatron, "175b")->parameters(), 174.6e9, 0.5e9);
  EXPECT_NEAR(publishedModel(Suite::Megatron, "gpt", 529.6)->parameters(), 529.6e9, 2e9);
  EXPECT_NEAR(publishedModel(Suite::Llama, "Llama3.1-8B")->parameters(), 8.03e9, 0.01e9);
  EXPECT_NEAR(publishedModel(Suite::Llama, "llama3.1-405b")->parameters(), 405.9e9, 0.5e9);
  EXPECT_EQ(publishedModel(Suite::Any, "gpt", 60), nullptr) << "nothing within 5 %";
}

/// 72 B s l h^2 (1 + s / (6 h) + V / (12 l h)): Narayanan et al., 2021, appendix, without recompute.
TEST(Transformer, FlopsOfAStep) {
  ModelDimensions model = *publishedModel(Suite::Megatron, "175b");
  double s = 2048, l = 96, h = 12288, v = 51200;
  EXPECT_NEAR(model.flopsPerStep(1536) / (72 * 1536 * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h))),
              1, 1e-9);
  // The lists of operations hold the same work.
  LayerLayout layout;
  double flops = 0;
  for (PieceWork work : {layerWork(model, layout)})
    for (const OpList &list : {work.forward, work.backward, work.weightGradient})
      for (const OpWork &op : list.ops)
        flops += op.flops();
  EXPECT_NEAR(flops / (72 * s * h * h * (1 + s / (6 * h))), 1, 1e-9);
}

/// Korthikanti et al., 2022, equations 1 to 6, for the model of 22 * 10^9 parameters.
TEST(Transformer, ActivationsByTheClosedFormulas) {
  ModelDimensions model = *publishedModel(Suite::Megatron, "22b");
  LayerLayout layout;
  layout.tensor = 8;
  layout.microBatch = 4;
  double s = 2048, b = 4, h = 6144, a = 64, t = 8, sbh = s * b * h;
  EXPECT_DOUBLE_EQ(layerActivationBytes(model, layout), sbh * (10 + 24 / t + 5 * a * s / (h * t)));
  layout.sequenceParallel = true;
  EXPECT_DOUBLE_EQ(layerActivationBytes(model, layout), sbh / t * (34 + 5 * a * s / h));
  layout.recompute = Recompute::Selective;
  EXPECT_DOUBLE_EQ(layerActivationBytes(model, layout), 34 * sbh / t);
  layout.sequenceParallel = false;
  layout.recompute = Recompute::Full;
  EXPECT_DOUBLE_EQ(layerActivationBytes(model, layout), 2 * sbh);
}

TEST(Training, MoreStagesHoldMoreInFlightAndZeroHoldsLess) {
  TrainingLayout layout;
  layout.data = 4;
  layout.pipeline = 4;
  layout.globalBatch = 64;
  StepPrediction plain = predictStep(machine(), gpt(), layout);
  ASSERT_EQ(plain.error, "");
  ASSERT_EQ(plain.memory.size(), 4u);
  EXPECT_GT(plain.memory[0].activations, plain.memory[3].activations);
  double previous = plain.peakBytes;
  for (int stage : {1, 2, 3}) {
    layout.zero = stage;
    double bytes = predictStep(machine(), gpt(), layout).peakBytes;
    if (stage < 3) {
      EXPECT_LT(bytes, previous) << "ZeRO " << stage;
    }
    previous = bytes;
  }
  layout.zero = 1;
  StepPrediction sharded = predictStep(machine(), gpt(), layout);
  EXPECT_DOUBLE_EQ(sharded.memory[1].optimizer * 4, plain.memory[1].optimizer);
  EXPECT_DOUBLE_EQ(sharded.memory[1].gradients, plain.memory[1].gradients);
}

TEST(Training, RecomputeTradesTimeForMemory) {
  TrainingLayout layout;
  layout.microBatch = 4;
  layout.globalBatch = 8;
  StepPrediction none = predictStep(machine(), gpt(), layout);
  layout.recompute = Recompute::Selective;
  StepPrediction selective = predictStep(machine(), gpt(), layout);
  layout.recompute = Recompute::Full;
  StepPrediction full = predictStep(machine(), gpt(), layout);
  EXPECT_LT(none.seconds, selective.seconds);
  EXPECT_LT(selective.seconds, full.seconds);
  EXPECT_GT(none.memory[0].activations, selective.memory[0].activations);
  EXPECT_GT(selective.memory[0].activations, full.memory[0].activations);
}

TEST(Training, NoFasterThanThePeakAndNoSlowerThanItsParts) {
  TrainingLayout layout;
  layout.tensor = 2;
  layout.data = 2;
  layout.pipeline = 2;
  layout.globalBatch = 32;
  layout.microBatch = 2;
  ModelDimensions model = gpt();
  StepPrediction step = predictStep(machine(), model, layout);
  EXPECT_GT(step.seconds, model.flopsPerStep(32) / 8 / 312e12);
  EXPECT_GE(step.seconds, step.pipeline);
  EXPECT_GE(step.seconds, step.reduction + step.optimizer);
}

TEST(Training, WhatMakesNoSenseIsSaid) {
  TrainingLayout layout;
  layout.pipeline = 48;
  EXPECT_EQ(predictStep(machine(), gpt(), layout).error, "there are more stages than layers");
  layout.pipeline = 1;
  layout.data = 0;
  EXPECT_EQ(predictStep(machine(), gpt(), layout).error, "tp, cp, dp and pp must be at least 1");
}

TEST(Training, CutsInsideLayersBalanceStages) {
  ModelDimensions model = gpt(8, 2048); // the head is worth about two layers
  TrainingLayout layout;
  layout.pipeline = 8;
  layout.globalBatch = 256;
  double between = predictStep(machine(), model, layout).seconds;
  layout.cutsInsideLayers = true;
  double inside = predictStep(machine(), model, layout).seconds;
  EXPECT_LT(inside, 0.9 * between);
  layout.pipeline = 16; // half a layer each
  EXPECT_EQ(predictStep(machine(), model, layout).error, "");
  layout.pipeline = 64;
  EXPECT_EQ(predictStep(machine(), model, layout).error,
            "there are more stages than contractions to cut between");
  layout.pipeline = 4;
  layout.chunks = 2;
  EXPECT_NE(predictStep(machine(), model, layout).error, "");
}

TEST(Training, KeptGradientsAreScatteredInEveryMicrobatch) {
  TrainingLayout layout;
  layout.data = 8;
  layout.bucketedGradients = true;
  double extra[2];
  for (int i = 0; i < 2; ++i) {
    layout.globalBatch = i == 0 ? 8 : 64;
    layout.zero = 1;
    double whole = predictStep(machine(), gpt(), layout).seconds;
    layout.zero = 2;
    extra[i] = predictStep(machine(), gpt(), layout).seconds - whole;
  }
  EXPECT_GT(extra[1], extra[0]) << "eight microbatches against one";
}

TEST(PlanGrid, FindsAPlanThatFitsAndIsNoWorseThanOneByHand) {
  TrainingLayout base;
  base.globalBatch = 64;
  base.recompute = Recompute::Full;
  ModelDimensions model = gpt(32, 4096);
  PlanResult best = bestUniformPlan(machine(), model, base, 16, {});
  ASSERT_EQ(best.error, "");
  EXPECT_TRUE(best.fits);
  EXPECT_EQ(best.layout.devices(), 16);
  TrainingLayout hand = base;
  hand.tensor = 8;
  hand.pipeline = 2;
  EXPECT_LE(best.step.seconds, predictStep(machine(), model, hand).seconds);
  PlanChoices none;
  none.tensor = none.data = none.pipeline = false;
  EXPECT_NE(bestUniformPlan(machine(), model, base, 16, none).error, "");
}

TEST(LaunchQueue, TakesNoLessThanLaunchingOrComputingAndMoreWhereTheyAlternate) {
  CostModel model(loadMachine("a100-80-sxm").machine);
  OperationCost cost(model, 1e-4);
  OpWork small = streaming(0), large = streaming(2e9); // a launch, and about a millisecond
  double launch = 1e-4, busy = cost.seconds(large);
  ASSERT_GT(busy, 5 * launch);
  auto queued = [&](std::vector<OpWork> ops) {
    LaunchQueue queue = cost.queue();
    queue.run(ops);
    return queue.seconds();
  };
  EXPECT_DOUBLE_EQ(queued({large, large}), launch + 2 * busy);
  EXPECT_DOUBLE_EQ(queued({small, small}), 2 * launch + cost.seconds(small));
  // Small kernels behind a large one are launched while it runs; in front of it they are waited for.
  EXPECT_DOUBLE_EQ(queued({large, small, small}), launch + busy + 2 * cost.seconds(small));
  EXPECT_DOUBLE_EQ(queued({small, small, large}), 3 * launch + busy);
}

TEST(Training, SoftmaxIsFusedForMultiplesOfFourHeads) {
  ModelDimensions model;
  LayerLayout layout;
  layout.tensor = 8; // two of sixteen heads
  double launches[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    layout.microBatch = i + 1;
    for (const OpWork &op : layerWork(model, layout).forward.ops)
      launches[i] += op.launches;
  }
  EXPECT_EQ(launches[0] - launches[1], 7);
}

} // namespace
