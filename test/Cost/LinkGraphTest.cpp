// Rings found in link graphs, against counts worked by hand.
#include "colossal/Cost/CostModel.h"

#include <gtest/gtest.h>

using namespace colossal::cost;

namespace {

/// Two squares of four devices with their diagonals, joined edge to edge: six links a device.
LinkGraph hybridCubeMesh() {
  LinkGraph graph;
  graph.edges = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
                 {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
  graph.bandwidth = 10;
  graph.forwardFactor = 1.25;
  return graph;
}

std::vector<int> first(int count) {
  std::vector<int> members;
  for (int m = 0; m < count; ++m)
    members.push_back(m);
  return members;
}

TEST(LinkGraph, HybridCubeMeshHasTheRingsOfItsLinks) {
  LinkGraph graph = hybridCubeMesh();
  // Of five devices the fifth has links to one other only: rings enter and leave it over that pair.
  const int rings[] = {1, 2, 4, 2, 2, 4, 6};
  for (int count = 2; count <= 8; ++count) {
    GraphBandwidth got = measureGraph(graph, 8, first(count));
    EXPECT_EQ(got.rings, rings[count - 2]) << count << " devices";
    EXPECT_DOUBLE_EQ(got.ring, count == 5 ? 2 * 10 / 1.25 : 10.0 * rings[count - 2]) << count << " devices";
  }
}

TEST(LinkGraph, PairsDifferByTheirLinks) {
  LinkGraph graph = hybridCubeMesh();
  EXPECT_DOUBLE_EQ(measureGraph(graph, 8, {0, 3}).ring, 20);
  EXPECT_DOUBLE_EQ(measureGraph(graph, 8, {0, 1}).ring, 10);
  EXPECT_DOUBLE_EQ(measureGraph(graph, 8, {0, 7}).ring, 2 * 10 / 1.25)
      << "through 3 or 4: one double and one single link"
      << " or two double ones";
}

TEST(LinkGraph, SwitchesGiveEveryDeviceAllItsLinks) {
  LinkGraph graph;
  graph.switches = 1;
  graph.bandwidth = 10;
  for (int device = 0; device < 8; ++device)
    graph.edges.push_back({device, 8, 3});
  for (int count = 2; count <= 8; ++count) {
    GraphBandwidth got = measureGraph(graph, 8, first(count));
    EXPECT_DOUBLE_EQ(got.ring, 30) << count;
    EXPECT_DOUBLE_EQ(got.allToAll, 30) << count;
  }
}

TEST(LinkGraph, ExchangesAreAsSlowAsTheNarrowestWay) {
  LinkGraph ring;
  ring.bandwidth = 10;
  ring.edges = {{0, 1, 1}, {1, 2, 1}, {2, 3, 1}, {3, 0, 1}};
  GraphBandwidth got = measureGraph(ring, 4, first(4));
  EXPECT_EQ(got.rings, 2) << "one cycle, both ways round";
  EXPECT_DOUBLE_EQ(got.allToAll, 30) << "opposite corners meet over a third device, as fast as a link here";
}

TEST(LinkGraph, MistakesNameTheirPlace) {
  LinkGraph graph;
  graph.edges = {{0, 1, 1}, {2, 3, 1}};
  EXPECT_EQ(checkGraph(graph, 4, "levels[0].links"),
            "levels[0].links.pairs: units 0 and 2 are connected neither by links, nor by a switch, nor "
            "through one other "
            "unit");
  graph.edges = {{0, 4, 1}};
  EXPECT_EQ(checkGraph(graph, 4, "links"),
            "links.pairs[0]: there is no node 4; there are 4 units and 0 switches");
  graph.edges = {{1, 1, 1}};
  EXPECT_EQ(checkGraph(graph, 4, "links"), "links.pairs[0]: links a node with itself");
}

/// The machine file's constants against published measurements (nccl-tests, out of place; times in
/// microseconds): the far ends and the middle of what the rings explain. The whole table is a benchmark's.
TEST(LinkGraph, ReadyMachinesGivePublishedAllReduceTimes) {
  struct Row {
    const char *machine;
    int devices;
    double mebibytes, microseconds;
  };
  const Row rows[] = {
      {"v100-dgx1", 2, 1024, 47610}, {"v100-dgx1", 3, 64, 2003.9},   {"v100-dgx1", 4, 256, 4714},
      {"v100-dgx1", 5, 64, 2953.3},  {"v100-dgx1", 6, 64, 2471.4},   {"v100-dgx1", 7, 128, 2674.7},
      {"v100-dgx1", 8, 32, 479.3},   {"v100-dgx1", 8, 1024, 13969},  {"a100-80-sxm", 2, 256, 1455.8},
      {"a100-80-sxm", 4, 64, 543.8}, {"a100-80-sxm", 8, 256, 2162.3}};
  for (const Row &row : rows) {
    CostModel model(loadMachine(row.machine).machine);
    double got =
        model.seconds(Collective::AllReduce, row.mebibytes * (1 << 20), Group{row.devices, 1, row.devices});
    EXPECT_NEAR(got * 1e6 / row.microseconds, 1, 0.06)
        << row.machine << " " << row.devices << " " << row.mebibytes;
  }
}

TEST(LinkGraph, GroupsFindTheirOwnLinks) {
  CostModel model(loadMachine("v100-dgx1").machine);
  // Groups {0,4} {1,5} have double links, {2,6} {3,7} single ones: with all eight active the slowest counts.
  double two = model.seconds(Collective::AllReduce, 1e9, Group{2, 4, 2});
  double all = model.seconds(Collective::AllReduce, 1e9, Group{2, 4, 8});
  EXPECT_GT(all, 1.8 * two);
}

} // namespace
