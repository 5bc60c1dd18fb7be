// Kernels on a host's cores, against the formulas worked by hand on a host with round numbers.
#include "colossal/Cost/HostCost.h"

#include <gtest/gtest.h>

using namespace colossal::cost;

namespace {

Level level(const std::string &name, int units) {
  Level made;
  made.name = name;
  made.units = units;
  return made;
}

/// Four cores of 1000 FLOP/s and 100 B/s each, 200 B/s together.
Machine roundHost() {
  Machine machine;
  machine.levels.push_back(level("shared-memory", 16));
  machine.device.memoryBytes = 4800;
  machine.device.peakFlops[DataType::F32] = 1000;
  machine.device.memoryBandwidth = 100;
  machine.device.launchSeconds = 0.5;
  Host &host = machine.host.emplace();
  host.cores = 4;
  host.memoryBandwidth = 200;
  host.cacheBandwidth = 1000;
  host.cacheBytes = 4000;
  host.forkSeconds = 2;
  host.contractionFill = 10;
  host.deepContraction = 100;
  host.deepFactor = 3;
  host.exposedMemory = 0.5;
  return machine;
}

OpWork quiet(OpWork op) {
  op.launches = 0;
  return op;
}

TEST(HostCost, RanksShareCoresAsTheRuntimeSharesThem) {
  EXPECT_EQ(HostCost(roundHost(), 1).threads(), 4);
  EXPECT_EQ(HostCost(roundHost(), 2).threads(), 2);
  EXPECT_EQ(HostCost(roundHost(), 3).threads(), 1);
  EXPECT_EQ(HostCost(roundHost(), 9).threads(), 1);
  // 2 * 8 * 10 * (90 + 10) operations against 3600 bytes of weights.
  OpWork op = quiet(contraction(1, 8, 10, 90, DataType::F32));
  EXPECT_DOUBLE_EQ(HostCost(roundHost(), 1).seconds(op), 18 + 0.5 * 4) << "all memory and all cores";
  EXPECT_DOUBLE_EQ(HostCost(roundHost(), 4).seconds(op), 72 + 0.5 * 16) << "a quarter of each";
  EXPECT_DOUBLE_EQ(HostCost(roundHost(), 8).seconds(op), 144 + 0.5 * 32)
      << "two ranks take turns on each core";
  EXPECT_DOUBLE_EQ(HostCost(roundHost(), 8, 4).seconds(op), HostCost(roundHost(), 4).seconds(op))
      << "unless half of them wait";
  EXPECT_EQ(HostCost(roundHost(), 2, 1).threads(), 2) << "who waits keeps its threads";
}

TEST(HostCost, AMeshOverSeveralHostsSharesEachOfThem) {
  Machine machine = roundHost();
  EXPECT_EQ(machine.memoryOfRank(1), 4800);
  EXPECT_EQ(machine.memoryOfRank(16), 300);
  machine.levels = {level("shared-memory", 2), level("ethernet", 8)};
  EXPECT_EQ(machine.ranksOnHost(1), 1);
  EXPECT_EQ(machine.ranksOnHost(16), 2);
  EXPECT_EQ(machine.memoryOfRank(16), 2400) << "half of its own host's";
  EXPECT_EQ(HostCost(machine, 16).threads(), 2) << "and half of its cores";
  OpWork op = quiet(contraction(1, 8, 10, 90, DataType::F32));
  EXPECT_DOUBLE_EQ(HostCost(machine, 16).seconds(op), HostCost(machine, 2).seconds(op));
  machine.levels.clear();
  EXPECT_EQ(HostCost(machine, 4).threads(), 1) << "a host whose network is not measured yet";
  machine.host.reset();
  EXPECT_EQ(machine.memoryOfRank(16), 4800) << "a device of its own";
}

TEST(HostCost, ShapesCount) {
  HostCost model(roundHost(), 4);
  auto computing = [&](double m, double n, double k) {
    return model.seconds(quiet(contraction(1, m, n, k, DataType::F32)));
  };
  EXPECT_DOUBLE_EQ(computing(9, 10, 90), computing(16, 10, 90)) << "whole tiles of eight rows";
  EXPECT_DOUBLE_EQ(computing(1, 10, 90), 72 + 0.5 * 2)
      << "one row: 3600 B of weights at 50 B/s, 2 s of computing";
  // Beyond k = 100 each multiply takes three times as long: 110 counts as 130.
  EXPECT_DOUBLE_EQ(computing(8, 10, 110), 88 + 0.5 * 22.4);
  EXPECT_GT(computing(8, 200, 90), 20 * computing(8, 10, 90)) << "6400 bytes of result leave the cache";
}

TEST(HostCost, StreamingStaysInTheCacheWhileItFits) {
  HostCost model(roundHost(), 4);
  EXPECT_DOUBLE_EQ(model.seconds(streaming(4000, 0)), 4);
  EXPECT_DOUBLE_EQ(model.seconds(streaming(8000, 0)), 160);
  EXPECT_DOUBLE_EQ(model.seconds(streaming(4000, 1)), 4.5) << "one thread: a launch";
  EXPECT_DOUBLE_EQ(HostCost(roundHost(), 2).seconds(streaming(4000, 1)), 4) << "two threads: a fork";
}

TEST(HostCost, CoresMaySlowEachOther) {
  Machine machine = roundHost();
  machine.host->parallelEfficiency = 0.4;
  OpWork op = quiet(streaming(4000));
  EXPECT_DOUBLE_EQ(HostCost(machine, 4).seconds(op), 10);
}

TEST(HostCost, FewTilesLeaveThreadsIdle) {
  HostCost model(roundHost(), 2); // two threads
  double even = model.seconds(quiet(streaming(4000)));
  EXPECT_DOUBLE_EQ(model.seconds(quiet(streaming(4000)), 1), 2 * even);
  EXPECT_DOUBLE_EQ(model.seconds(quiet(streaming(4000)), 2), even);
  EXPECT_DOUBLE_EQ(model.seconds(quiet(streaming(4000)), 3), 4.0 / 3 * even) << "one has two of three";
  EXPECT_DOUBLE_EQ(model.seconds(streaming(4000), 1) - 2 * even, 0.5) << "one tile needs no fork";
}

TEST(HostCost, OperationsFollowAProductAndHideBehindBytes) {
  Machine machine = roundHost();
  machine.host->elementSeconds = 0.01;
  HostCost model(machine, 4);
  OpWork product = quiet(contraction(1, 8, 10, 90, DataType::F32)), bytes = quiet(streaming(4000));
  EXPECT_DOUBLE_EQ(model.kernelSeconds(product, 100), model.seconds(product) + 1);
  EXPECT_DOUBLE_EQ(model.kernelSeconds(bytes, 100), 4) << "4 s of bytes, 1 s of operations";
  EXPECT_DOUBLE_EQ(model.kernelSeconds(bytes, 1000), 10);
}

} // namespace
