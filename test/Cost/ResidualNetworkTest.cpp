// Residual networks against their published sizes, and properties of their steps on any machine.
#include "colossal/Cost/ResidualNetwork.h"
#include "colossal/Cost/PlanGrid.h"

#include <gtest/gtest.h>

using namespace colossal::cost;

namespace {

ResidualNetwork named(const char *name) {
  ResidualNetwork network;
  EXPECT_TRUE(publishedNetwork(name, network)) << name;
  return network;
}

const CostModel &machine() {
  static CostModel model(loadMachine("v100-p3.16xlarge").machine);
  return model;
}

TrainingLayout layout(double batch, double microBatch) {
  TrainingLayout layout;
  layout.globalBatch = batch;
  layout.microBatch = microBatch;
  layout.type = DataType::F32;
  layout.recompute = Recompute::Full;
  layout.parameterBytes = layout.gradientBytes = layout.optimizerBytes = 4;
  return layout;
}

TEST(ResidualNetwork, ParametersArePublishedOnes) {
  // Counts of the reference implementations.
  EXPECT_EQ(named("resnet-18").parameters(), 11689512);
  EXPECT_EQ(named("resnet-34").parameters(), 21797672);
  EXPECT_EQ(named("resnet-50").parameters(), 25557032);
  EXPECT_EQ(named("resnet-101").parameters(), 44549160);
  EXPECT_EQ(named("resnet-152").parameters(), 60192808);
  // Zheng et al., 2022.
  EXPECT_NEAR(named("250m").parameters() / 1e9, 0.2541, 0.0002);
  EXPECT_NEAR(named("4b").parameters() / 1e9, 4.0009, 0.0005);
  EXPECT_NEAR(named("6.8b").parameters() / 1e9, 6.7277, 0.0005);
  ResidualNetwork found;
  EXPECT_TRUE(publishedNetwork(1.965, found));
  EXPECT_EQ(found.baseChannels, 448);
  EXPECT_FALSE(publishedNetwork(0.1, found));
  EXPECT_FALSE(publishedNetwork("resnet-51", found));
}

TEST(ResidualNetwork, WorkIsThatOfItsConvolutions) {
  EXPECT_NEAR(named("resnet-50").flopsPerStep(1) / 6, 4.09e9, 0.01e9); // multiplications of a forward pass
  EXPECT_NEAR(named("resnet-18").flopsPerStep(1) / 6, 1.81e9, 0.01e9);
  EXPECT_DOUBLE_EQ(named("resnet-50").flopsPerStep(7), 7 * named("resnet-50").flopsPerStep(1));
  ResidualNetwork wrong;
  wrong.depth = 51;
  EXPECT_NE(checkNetwork(wrong), "");
  EXPECT_NE(predictStep(machine(), wrong, layout(8, 8)).error, "");
}

TEST(ResidualNetwork, AStepTakesNoLessThanItsProductsAtThePeak) {
  ResidualNetwork network = named("250m");
  for (double micro : {1.0, 8.0, 64.0}) {
    StepPrediction step = predictStep(machine(), network, layout(64, micro));
    ASSERT_EQ(step.error, "");
    EXPECT_GT(step.seconds, network.flopsPerStep(64) * 4 / 3 * 0.95 / 15.7e12) << "no gradient of the image";
    EXPECT_LT(step.seconds, 20 * network.flopsPerStep(64) / 15.7e12);
  }
  EXPECT_GT(predictStep(machine(), network, layout(64, 1)).seconds,
            predictStep(machine(), network, layout(64, 64)).seconds)
      << "small microbatches waste tiles and add gradients up more often";
}

TEST(ResidualNetwork, LateLayersAreSplitByChannelsWhereTheyDoNotFit) {
  ResidualNetwork network = named("2b"); // 24 GB of state
  TrainingLayout data = layout(512, 8), tensor = data;
  data.data = 8;
  tensor.tensor = 8;
  tensor.microBatch = 64;
  double memory = 15e9;
  StepPrediction whole = predictStep(machine(), network, data),
                 split = predictStep(machine(), network, tensor);
  EXPECT_GT(whole.peakBytes, memory);
  EXPECT_LT(split.peakBytes, memory);
  EXPECT_LT(split.seconds, 1.2 * whole.seconds);
}

TEST(ResidualNetwork, StagesHoldAllBlocksAndState) {
  ResidualNetwork network = named("1b");
  TrainingLayout four = layout(256, 8);
  four.pipeline = 4;
  StepPrediction step = predictStep(machine(), network, four);
  ASSERT_EQ(step.error, "");
  ASSERT_EQ(step.memory.size(), 4u);
  double parameters = 0;
  for (const StageMemory &memory : step.memory)
    parameters += memory.parameters;
  EXPECT_DOUBLE_EQ(parameters, 4 * network.parameters());
  EXPECT_GT(step.bubble, 0);
  four.pipeline = 40;
  EXPECT_EQ(predictStep(machine(), network, four).error, "there are more stages than blocks");
  four.pipeline = 1;
  four.context = 2;
  EXPECT_NE(predictStep(machine(), network, four).error, "");
}

TEST(PlanGrid, PlansNetworksThatFit) {
  PlanResult best = bestUniformPlan(machine(), named("4b"), layout(1536, 1), 16, {});
  ASSERT_EQ(best.error, "");
  EXPECT_TRUE(best.fits);
  PlanChoices pipelineOnly;
  pipelineOnly.tensor = pipelineOnly.data = false;
  PlanResult pipeline = bestUniformPlan(machine(), named("4b"), layout(1536, 1), 16, pipelineOnly);
  ASSERT_EQ(pipeline.error, "");
  EXPECT_EQ(pipeline.layout.pipeline, 16);
  EXPECT_GT(pipeline.step.seconds, best.step.seconds);
}

} // namespace
