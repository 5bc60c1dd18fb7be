// The cost model against formulas worked by hand on a machine with round numbers.
#include "colossal/Cost/Pricing.h"

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
  auto addLevel = [&](const char *name, int units, double latency, double bandwidth) {
    Level &level = machine.levels.emplace_back();
    level.name = name;
    level.units = units;
    level.latencySeconds = latency;
    level.bandwidth = bandwidth;
  };
  addLevel("inside", 4, 1, 100);
  addLevel("between", 2, 10, 40);
  return machine;
}

TEST(Pricing, WhatWasFittedTakesThePlaceOfWhatIsDescribed) {
  Machine machine = roundMachine();
  machine.device.computeUnits = 16;
  auto seconds = [&](const OpWork &op) { return makePricing(machine, 2)->kernelSeconds(op); };
  EXPECT_DOUBLE_EQ(seconds(streaming(100, 0)), 1.0);
  EXPECT_DOUBLE_EQ(seconds(streaming(100, 1)), 1.5);
  double product = seconds(contraction(1, 4096, 4096, 4096, DataType::F16));
  machine.fitted.set("gemm_efficiency", 0.25);
  EXPECT_NEAR(seconds(contraction(1, 4096, 4096, 4096, DataType::F16)), 2 * product, 1e-3 * product);
  machine.fitted.set("streaming_efficiency", 0.5);
  EXPECT_DOUBLE_EQ(seconds(streaming(100, 0)), 100 / machine.device.memoryBandwidth / 0.5);
}

TEST(Pricing, RanksThatShareAHostAreSlowerThanOnDevicesOfTheirOwn) {
  Machine machine = loadMachine("cpu").machine;
  machine.host = Host();
  machine.host->cores = 4;
  machine.host->memoryBandwidth = machine.host->cacheBandwidth = 2e10;
  machine.host->elementSeconds = 1e-10;
  OpWork product = contraction(1, 1024, 1024, 1024, DataType::F32);
  double alone = makePricing(machine, 1)->kernelSeconds(product);
  EXPECT_GT(makePricing(machine, 8)->kernelSeconds(product), 2 * alone);
  EXPECT_GT(makePricing(machine, 1)->fusedSeconds(1e6, 0), 0) << "a host computes what it fuses";
  machine.host.reset();
  EXPECT_DOUBLE_EQ(makePricing(machine, 1)->kernelSeconds(product),
                   makePricing(machine, 64)->kernelSeconds(product));
  EXPECT_EQ(makePricing(machine, 1)->fusedSeconds(1e6, 0), 0) << "a device waits for what it writes";
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

TEST(CostModel, OneDeviceSendsThroughOneAdapter) {
  Machine machine = roundMachine();
  double bandwidth = machine.levels[1].bandwidth;
  int node = machine.levels[0].units;
  Group one{2, node, 1}, all{2, node, 2 * node};
  double shared = CostModel(machine).seconds(Collective::Permute, 4000, all);
  double alone = CostModel(machine).seconds(Collective::Permute, 4000, one);
  machine.levels[1].adapters = 2;
  CostModel model(machine);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::Permute, 4000, one), alone + 4000 / bandwidth);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::Permute, 4000, all), shared);
}

TEST(CostModel, GroupsThatLieAcrossTwoNodesArePricedThere) {
  CostModel model(roundMachine());
  // Three of four devices: the second group has one device here and two there. With three devices in all
  // there is none.
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllGather, 300, Group{3, 1, 3}), 2 * 1 + 2.0);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllGather, 300, Group{3, 1, 6}), 2 * 10 + 200.0 / 10);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllGather, 200, Group{2, 2, 8}), 1 + 1.0) << "0 and 2, 1 and 3";
}

TEST(CostModel, WhatGoesFurtherIsNeverCheaper) {
  Machine machine = roundMachine();
  machine.levels[0].startSeconds = 50;
  CostModel model(machine);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::Permute, 10, Group{2, 1, 8}), 50 + 1 + 0.1);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::Permute, 10, Group{2, 4, 8}), 50 + 10 + 1.0);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllReduce, 8, Group{8, 1, 8}),
                   50 + 2 * (2 * 1 + 6 / 100.0) + 2 * (10 + 1 / 10.0))
      << "launched once";
  for (const std::string &name : machineNames()) {
    CostModel ready(loadMachine(name).machine);
    const std::vector<Level> &levels = ready.machine().levels;
    if (levels.size() < 2)
      continue;
    int node = levels[0].units, active = 4 * node;
    for (Collective kind :
         {Collective::AllReduce, Collective::AllGather, Collective::AllToAll, Collective::Permute})
      for (double bytes = 1; bytes < 1e10; bytes *= 3)
        EXPECT_LE(ready.seconds(kind, bytes, Group{2, 1, active}),
                  ready.seconds(kind, bytes, Group{2, node, active}))
            << name << ", " << toString(kind) << " of " << bytes << " B";
  }
}

TEST(CostModel, SharedMediaAreSharedByAllThatAreActive) {
  Machine machine = roundMachine();
  machine.levels[0].sharedBandwidth = 100;
  CostModel model(machine);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllGather, 400, Group{4, 1, 4}), 2 + 300 / 25.0);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllGather, 400, Group{2, 1, 2}), 1 + 200 / 50.0);
}

TEST(CostModel, LevelsWithLinksGoRoundTheirRings) {
  Machine machine = roundMachine();
  Level &inside = machine.levels[0];
  inside.links.edges = {{0, 1, 1}, {1, 2, 1}, {2, 3, 1}, {3, 0, 1}};
  inside.links.bandwidth = 50;
  inside.startSeconds = 7;
  inside.localBandwidth = 200;
  CostModel model(machine);
  // Two rings of 50 B/s, three steps of a second each way, and 400 bytes passed over at 200 B/s.
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllReduce, 400, Group{4, 1, 4}),
                   7 + 2 * (3 * 1 + 300 / 100.0) + 2);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::AllGather, 400, Group{4, 1, 4}), 7 + 3 * 1 + 300 / 100.0 + 1);
  EXPECT_DOUBLE_EQ(model.seconds(Collective::Permute, 400, Group{4, 1, 4}), 7 + 1 + 400 / 50.0);
  inside.smallStepBytes = 51;
  inside.smallStepFactor = 3;
  // A step carries 400 / (4 devices * 2 rings) = 50 bytes.
  EXPECT_DOUBLE_EQ(CostModel(machine).seconds(Collective::AllReduce, 400, Group{4, 1, 4}),
                   7 + 2 * (3 + 9) + 2);
}

TEST(CostModel, VolumesAreTheClosedFormulas) {
  EXPECT_DOUBLE_EQ(CostModel::bytesMoved(Collective::AllReduce, 800, 8), 1400);
  EXPECT_DOUBLE_EQ(CostModel::bytesMoved(Collective::AllToAll, 800, 8), 700);
  EXPECT_DOUBLE_EQ(CostModel::bytesMoved(Collective::Permute, 800, 8), 800);
  EXPECT_DOUBLE_EQ(CostModel::bytesMoved(Collective::AllGather, 800, 1), 0);
}

} // namespace
