// The cost model against formulas worked by hand on a machine with round numbers.
#include "colossal/Cost/CostModel.h"

#include <gtest/gtest.h>

using namespace colossal::cost;

namespace {

/// Two nodes of four devices: 100 B/s and 1 s inside, 40 B/s a node and 10 s between.
Machine roundMachine() {
  Machine machine;
  machine.device.peakFlops[DataType::F32] = 1000;
  machine.device.peakFlops[DataType::F16] = 4000;
  machine.device.memoryBandwidth = 100;
  machine.device.launchSeconds = 0.5;
  machine.device.computeEfficiency = 0.5;
  machine.levels = {{"inside", 4, 1, 100, 0}, {"between", 2, 10, 40, 0}};
  return machine;
}

TEST(CostModel, RooflineTakesTheSlowerSide) {
  CostModel model(roundMachine());
  EXPECT_DOUBLE_EQ(model.seconds(Work{1000, 100, DataType::F32, 1}), 2.5);
  EXPECT_DOUBLE_EQ(model.seconds(Work{1000, 100, DataType::F16, 0}), 1.0);
  EXPECT_DOUBLE_EQ(model.seconds(Work{1000, 0, DataType::BF16, 0}), 2.0) << "no rate of its own: that of f32";
}

TEST(CostModel, CollectivesInsideOneLevel) {
  CostModel model(roundMachine());
  Group four{4, 1, 8};
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllGather, 400, four), 2 * 1 + 3.0);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::ReduceScatter, 400, four), 5.0);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllReduce, 400, four), 10.0);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllToAll, 400, four), 3 * 1 + 3.0);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllReduce, 400, Group{1, 1, 8}), 0);
}

TEST(CostModel, OuterLevelsMoveWhatInnerOnesScattered) {
  CostModel model(roundMachine());
  // Inside: 2 * (2 + 3); between: 100 bytes a device at a quarter of 40 B/s, 2 * (10 + 50 / 10).
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllReduce, 400, Group{8, 1, 8}), 10 + 30);
  // One member a node: the whole tensor crosses, and four groups share the node's link.
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllReduce, 400, Group{2, 4, 8}), 2 * (10 + 200 / 10.0));
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllReduce, 400, Group{2, 4, 2}), 2 * (10 + 200 / 20.0));
}

TEST(CostModel, SharedMediaAreSharedByAllThatAreActive) {
  Machine machine = roundMachine();
  machine.levels[0].sharedBandwidth = 100;
  CostModel model(machine);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllGather, 400, Group{4, 1, 4}), 2 + 300 / 25.0);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllGather, 400, Group{2, 1, 2}), 1 + 200 / 50.0);
}

TEST(CostModel, VolumesAreTheClosedFormulas) {
  EXPECT_DOUBLE_EQ(CostModel::bytesMoved(Collective::AllReduce, 800, 8), 1400);
  EXPECT_DOUBLE_EQ(CostModel::bytesMoved(Collective::AllToAll, 800, 8), 700);
  EXPECT_DOUBLE_EQ(CostModel::bytesMoved(Collective::Permute, 800, 8), 800);
  EXPECT_DOUBLE_EQ(CostModel::bytesMoved(Collective::AllGather, 800, 1), 0);
}

} // namespace
