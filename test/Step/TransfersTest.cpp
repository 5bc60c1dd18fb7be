// Transfers between layouts, played through: every element that a receiver holds comes once, with its value.
#include "colossal/Step/Transfers.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::step;

namespace {

class Transfers : public ::testing::Test {
protected:
  Transfers() { context.loadDialect<DistDialect>(); }

  MeshAttr mesh(ArrayRef<int64_t> sizes) {
    SmallVector<MeshAxisAttr> axes;
    for (auto [i, size] : llvm::enumerate(sizes))
      axes.push_back(MeshAxisAttr::get(&context, StringAttr::get(&context, "a" + std::to_string(i)), size));
    return MeshAttr::get(&context, axes);
  }
  using Parts = std::vector<std::pair<int64_t, std::vector<unsigned>>>;
  ShardingAttr sharding(const std::vector<Parts> &dims) {
    SmallVector<DimShardingAttr> attrs;
    for (const Parts &parts : dims) {
      SmallVector<std::pair<int64_t, ArrayRef<unsigned>>> list;
      for (const auto &[size, axes] : parts)
        list.push_back({size, axes});
      attrs.push_back(makeDimSharding(&context, list));
    }
    return ShardingAttr::get(&context, attrs, {}, ReductionKind::Sum);
  }

  MLIRContext context;
};

/// The tensor's element in each place of a rank's shard, by plain arithmetic; -1 in padding.
std::vector<int64_t> fill(const StageLayout &layout, int64_t rank) {
  std::vector<int64_t> coordinates(layout.mesh.getNumAxes());
  for (unsigned axis = layout.mesh.getNumAxes(); axis-- > 0; rank /= layout.mesh.getAxisSize(axis))
    coordinates[axis] = rank % layout.mesh.getAxisSize(axis);
  std::vector<int64_t> shard{0};
  for (DimShardingAttr dim : layout.sharding.getDims())
    for (FactorShardAttr factor : dim.getFactors()) {
      int64_t chunk = factor.getSize(), start = 0, end = factor.getSize();
      for (unsigned axis : factor.getAxes()) {
        chunk = (chunk + layout.mesh.getAxisSize(axis) - 1) / layout.mesh.getAxisSize(axis);
        start += coordinates[axis] * chunk;
        end = std::min(end, start + chunk);
      }
      std::vector<int64_t> next;
      for (int64_t outer : shard)
        for (int64_t i = 0; i < chunk; ++i)
          next.push_back(outer < 0 || start + i >= end ? -1 : outer * factor.getSize() + start + i);
      shard = std::move(next);
    }
  return shard;
}

void walk(const Piece &piece, size_t dim, int64_t offset, std::vector<int64_t> &places) {
  if (dim == piece.sizes.size())
    return places.push_back(offset);
  for (int64_t i = 0; i < piece.sizes[dim]; ++i)
    walk(piece, dim + 1, offset + i * piece.strides[dim], places);
}

std::vector<int64_t> placesOf(const Message &message) {
  std::vector<int64_t> places;
  for (const Piece &piece : message.pieces)
    walk(piece, 0, piece.offset, places);
  return places;
}

/// The number of messages that one rank sends or receives at most.
int64_t play(const StageLayout &from, const StageLayout &to) {
  StageTransfer transfer = planTransfer(from, to, 7);
  EXPECT_EQ(transfer.sends.size(), transfer.receives.size());
  std::map<int64_t, std::vector<int64_t>> shards;
  std::map<int64_t, int64_t> counts;
  for (int64_t r = 0; r < to.mesh.getNumRanks(); ++r)
    shards[r].assign(fill(to, r).size(), -1);
  for (size_t m = 0; m < transfer.sends.size(); ++m) {
    const Message &send = transfer.sends[m], &receive = transfer.receives[m];
    std::vector<int64_t> sources = placesOf(send), targets = placesOf(receive);
    EXPECT_EQ(sources.size(), targets.size());
    EXPECT_EQ(send.tag, 7);
    for (int64_t s = 0; s < from.mesh.getNumRanks(); ++s) {
      if (send.peers[s] < 0)
        continue;
      int64_t r = send.peers[s] - to.firstRank;
      EXPECT_EQ(receive.peers[r], from.firstRank + s) << "both sides name each other";
      std::vector<int64_t> shard = fill(from, s);
      for (size_t i = 0; i < sources.size(); ++i) {
        EXPECT_EQ(shards[r].at(targets[i]), -1) << "an element comes twice";
        shards[r].at(targets[i]) = shard.at(sources[i]);
      }
      ++counts[s];
      ++counts[1000 + r];
    }
    // Nobody expects what nobody sends.
    EXPECT_EQ(llvm::count_if(send.peers, [](int64_t p) { return p >= 0; }),
              llvm::count_if(receive.peers, [](int64_t p) { return p >= 0; }));
  }
  int64_t most = 0;
  for (auto &[rank, count] : counts)
    most = std::max(most, count);
  for (int64_t r = 0; r < to.mesh.getNumRanks(); ++r)
    EXPECT_EQ(shards[r], fill(to, r));
  return most;
}

} // namespace

TEST_F(Transfers, EqualLayoutsAreOneMessageEach) {
  for (const auto &layout : {sharding({{{4, {0}}}, {{6, {}}}}), sharding({{{4, {}}}, {{6, {1}}}}),
                             sharding({{{4, {0, 1}}}, {{6, {}}}}), sharding({{{4, {}}}, {{6, {}}}})}) {
    StageLayout from{layout, mesh({2, 2}), 0}, to{layout, mesh({2, 2}), 4};
    StageTransfer transfer = planTransfer(from, to, 7);
    ASSERT_EQ(transfer.sends.size(), 1u);
    EXPECT_EQ(transfer.sends[0].peers, (SmallVector<int64_t>{4, 5, 6, 7}));
    ASSERT_EQ(transfer.sends[0].pieces.size(), 1u);
    EXPECT_TRUE(transfer.sends[0].pieces[0].isRun());
    play(from, to);
  }
}

TEST_F(Transfers, MoreRanksTakeParts) {
  StageLayout from{sharding({{{8, {0}}}}), mesh({2}), 0}, to{sharding({{{8, {0}}}}), mesh({4}), 2};
  StageTransfer transfer = planTransfer(from, to, 7);
  ASSERT_EQ(transfer.sends.size(), 2u);
  EXPECT_EQ(transfer.sends[0].peers, (SmallVector<int64_t>{2, 4}));
  EXPECT_EQ(transfer.sends[1].peers, (SmallVector<int64_t>{3, 5}));
  EXPECT_EQ(play(from, to), 2);
  EXPECT_EQ(play(to, from), 2);
}

TEST_F(Transfers, ReplicasShareTheWork) {
  // All of 4 ranks hold it all, and 4 others ask for all of it.
  StageLayout from{sharding({{{8, {}}}}), mesh({4}), 0}, to{sharding({{{8, {}}}}), mesh({4}), 4};
  EXPECT_EQ(play(from, to), 1);
  StageLayout few{sharding({{{8, {}}}}), mesh({2}), 0};
  EXPECT_EQ(play(few, to), 2);
}

TEST_F(Transfers, FactorsInsideOfDimensions) {
  // Heads of a fused projection, 3 x 12 x 64, by heads; the other side by the outermost factor, or whole.
  StageLayout heads{sharding({{{5, {}}}, {{3, {}}, {12, {0}}, {64, {}}}}), mesh({4}), 0};
  StageLayout outer{sharding({{{5, {}}}, {{2304, {0}}}}), mesh({4}), 4};
  StageLayout whole{sharding({{{5, {}}}, {{2304, {}}}}), mesh({2}), 4};
  play(heads, outer);
  play(outer, heads);
  EXPECT_EQ(play(heads, whole), 4);
  play(whole, {heads.sharding, heads.mesh, 2});
}

TEST_F(Transfers, UnevenPartsAndPadding) {
  StageLayout three{sharding({{{7, {0}}}, {{5, {}}}}), mesh({3}), 0},
      four{sharding({{{7, {}}}, {{5, {0}}}}), mesh({4}), 3};
  play(three, four);
  play(four, {three.sharding, three.mesh, 4});
  // Ranks that hold nothing.
  StageLayout many{sharding({{{2, {0}}}, {{5, {}}}}), mesh({4}), 0};
  play(many, {sharding({{{2, {}}}, {{5, {0}}}}), mesh({2}), 4});
}

TEST_F(Transfers, AnyTwoLayouts) {
  std::mt19937 random(3);
  const std::vector<std::vector<int64_t>> meshes = {{1}, {2}, {3}, {2, 2}, {2, 3}, {2, 2, 2}, {4, 2}};
  const std::vector<std::vector<int64_t>> dims = {{6}, {2, 3}, {3, 4}, {12}, {5}, {2, 2, 2}};
  auto draw = [&](const std::vector<size_t> &shape, MeshAttr of) {
    std::vector<unsigned> axes(of.getNumAxes());
    std::iota(axes.begin(), axes.end(), 0);
    std::shuffle(axes.begin(), axes.end(), random);
    std::vector<Parts> parts;
    for (size_t d : shape) {
      parts.emplace_back();
      for (int64_t size : dims[d])
        parts.back().push_back({size, {}});
    }
    for (unsigned axis : axes)
      if (random() % 3) {
        Parts &dim = parts[random() % parts.size()];
        dim[random() % dim.size()].second.push_back(axis);
      }
    return sharding(parts);
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<size_t> shape{random() % dims.size(), random() % dims.size()};
    MeshAttr a = mesh(meshes[random() % meshes.size()]), b = mesh(meshes[random() % meshes.size()]);
    play({draw(shape, a), a, 0}, {draw(shape, b), b, a.getNumRanks()});
    if (HasFailure())
      FAIL() << "round " << round;
  }
}
