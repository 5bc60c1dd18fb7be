// Groups of several mesh axes, by the links that they cross.
#include "colossal/Cost/MeshGroups.h"

#include <gtest/gtest.h>

using namespace colossal::cost;

namespace {

TEST(MeshGroups, AxesNextToEachOtherAreOneGroup) {
  const std::vector<std::int64_t> mesh{4, 2, 8};
  auto print = [&](std::vector<unsigned> axes) {
    std::string text;
    for (const Group &group : groupsOf(mesh, axes))
      text += std::to_string(group.size) + "/" + std::to_string(group.stride) + "/" +
              std::to_string(group.active) + " ";
    return text;
  };
  EXPECT_EQ(print({2}), "8/1/64 ");
  EXPECT_EQ(print({1, 2}), "16/1/64 ");
  EXPECT_EQ(print({2, 1, 0}), "64/1/64 ");
  EXPECT_EQ(print({0, 2}), "8/1/64 4/16/64 ");
  EXPECT_EQ(print({0}), "4/16/64 ");
  EXPECT_EQ(groupsOf({2, 1, 2}, {0, 2}).size(), 1u) << "an axis of one rank parts nothing";
  EXPECT_TRUE(groupsOf({2, 1, 2}, {1}).empty());
}

TEST(MeshGroups, AGroupOfDistantAxesPaysForTheDistantLinks) {
  // Nodes of 8: a mesh of 4 x 2 x 8, or of 4 x 2 x 4 with two rows a node.
  CostModel model(loadMachine("a100-80-sxm").machine);
  double bytes = 1 << 28;
  auto seconds = [&](std::vector<std::int64_t> mesh, std::vector<unsigned> axes) {
    return secondsOver(model, Collective::AllReduce, bytes, groupsOf(mesh, axes));
  };
  double inside = model.seconds(Collective::AllReduce, bytes, {8, 1, 64});
  double across = model.seconds(Collective::AllReduce, bytes / 8, {4, 16, 64});
  EXPECT_DOUBLE_EQ(seconds({4, 2, 8}, {0, 2}), inside + across);
  // As many ranks that lie as one run of 32 cross the nodes' links with an eighth of the bytes as well.
  EXPECT_NEAR(seconds({4, 2, 8}, {0, 2}), seconds({2, 4, 8}, {1, 2}), 0.1 * inside);
  // Taken for a run of its innermost axis, it would seem to lie in one node for the most part.
  EXPECT_GT(seconds({4, 4, 2}, {0, 2}), 1.5 * model.seconds(Collective::AllReduce, bytes, {8, 1, 32}));
}

} // namespace
