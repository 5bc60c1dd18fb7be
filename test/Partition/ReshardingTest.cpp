//===- ReshardingTest.cpp - costs of many pairs of layouts ------------------===//
//
// The search asks for costs alone, which a Resharder finds by leaving out what does not change and by sharing
// what is left; they must be those of the paths that the partitioner takes, which are those of their moves.
//
//===----------------------------------------------------------------------===//
#include "Layouts.h"

#include "colossal/Partition/Resharding.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::test;

namespace {

/// A layout of a tensor of 12 x 6 x 8: dimensions seen as products of factors, axes on any of them or
/// partial.
ShardingAttr drawLayout(MeshAttr mesh, std::mt19937 &random) {
  static const std::vector<std::vector<std::vector<int64_t>>> views = {
      {{12}, {3, 4}, {2, 6}, {2, 3, 2}, {4, 3}}, {{6}, {2, 3}, {3, 2}}, {{8}, {2, 4}, {2, 2, 2}}};
  std::vector<std::vector<std::pair<int64_t, SmallVector<unsigned>>>> dims;
  for (const auto &choices : views) {
    dims.emplace_back();
    for (int64_t size : choices[random() % choices.size()])
      dims.back().push_back({size, {}});
  }
  SmallVector<unsigned> partial;
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis) {
    unsigned where = random() % 5;
    if (where < 3) {
      auto &dim = dims[where];
      dim[random() % dim.size()].second.push_back(axis);
    } else if (where == 3 && random() % 2) {
      partial.push_back(axis);
    }
  }
  SmallVector<DimShardingAttr> attrs;
  for (const auto &dim : dims) {
    SmallVector<std::pair<int64_t, ArrayRef<unsigned>>> parts;
    for (const auto &[size, axes] : dim)
      parts.push_back({size, axes});
    attrs.push_back(makeDimSharding(mesh.getContext(), parts));
  }
  return ShardingAttr::get(mesh.getContext(), attrs, partial, ReductionKind::Sum);
}

TEST_F(Harness, CostsAreThoseOfThePaths) {
  std::mt19937 random(5);
  for (const auto &sizes :
       std::vector<std::vector<int64_t>>{{2}, {3}, {2, 3}, {2, 4}, {2, 2, 2}, {3, 2, 2}, {2, 2, 2, 2, 2}}) {
    MeshAttr mesh = makeMesh(context, sizes);
    std::vector<ShardingAttr> layouts;
    for (int i = 0; i < 60; ++i)
      layouts.push_back(drawLayout(mesh, random));
    // Bytes that no two collectives share, so that another path shows; by the axes' places, or their sizes.
    for (bool axesAreAlike : {false, true}) {
      auto cost = [&](MoveKind kind, double bytes, ArrayRef<unsigned> axes) {
        double seconds = 3.0 + static_cast<int>(kind);
        for (unsigned axis : axes)
          seconds += 0.37 * (axesAreAlike ? mesh.getAxisSize(axis) : axis);
        return seconds + bytes * (kind == MoveKind::Slice ? 0.01 : 0.1 + 0.013 * axes.size());
      };
      Resharder resharder(mesh, cost, axesAreAlike);
      unsigned reachable = 0;
      for (ShardingAttr from : layouts)
        for (ShardingAttr to : layouts) {
          const ReshardPath *path = resharder.find(from, to, 4);
          double found = resharder.getCost(from, to, 4);
          std::string text;
          llvm::raw_string_ostream(text) << from << " to " << to << " on " << mesh;
          if (!path) {
            EXPECT_TRUE(std::isinf(found)) << text;
            continue;
          }
          ++reachable;
          EXPECT_NEAR(found, path->cost, 1e-9 * (1 + path->cost)) << text;
          // And those of the moves, each of whose bytes are those of what it gives, or of what it takes.
          double total = 0;
          for (const Move &move : path->moves) {
            bool isOfResult = move.kind == MoveKind::AllGather || move.kind == MoveKind::Slice ||
                              move.kind == MoveKind::KeepFirst;
            double bytes = 4;
            for (int64_t size : isOfResult ? move.result : move.exposed)
              bytes *= size;
            EXPECT_EQ(move.bytes, bytes) << stringify(move.kind).str() << " from " << text;
            total += cost(move.kind, bytes, move.axes);
          }
          EXPECT_NEAR(total, path->cost, 1e-9 * (1 + total)) << text;
        }
      EXPECT_GT(reachable, layouts.size() * layouts.size() / 3);
    }
  }
}

// A table shares what its pairs have in common, and graphs of placements whatever the bytes; a path is
// searched by itself.
TEST_F(Harness, TablesAreThoseOfThePaths) {
  std::mt19937 random(11);
  for (const auto &sizes : std::vector<std::vector<int64_t>>{{2, 3}, {2, 2, 2}, {3, 2, 2}, {2, 2, 2, 2}}) {
    MeshAttr mesh = makeMesh(context, sizes);
    auto cost = [&](MoveKind kind, double bytes, ArrayRef<unsigned> axes) {
      double seconds = 2.0 + static_cast<int>(kind);
      for (unsigned axis : axes)
        seconds += 0.61 * mesh.getAxisSize(axis);
      return seconds + bytes * (isCollective(kind) ? 0.05 + 0.011 * axes.size() : 0.004);
    };
    for (bool axesAreAlike : {false, true}) {
      Resharder tables(mesh, cost, axesAreAlike), paths(mesh, cost);
      for (unsigned elementBytes : {1u, 4u, 40u}) {
        // Some of the columns in the rows' order, with all of one dimension's layouts between them.
        std::vector<ShardingAttr> froms, tos;
        for (int i = 0; i < 40; ++i) {
          froms.push_back(drawLayout(mesh, random));
          tos.push_back(i % 3 ? drawLayout(mesh, random) : froms.back());
        }
        std::vector<double> costs = tables.getCosts(froms, tos, elementBytes);
        for (size_t row = 0; row < froms.size(); ++row)
          for (size_t column = 0; column < tos.size(); ++column) {
            const ReshardPath *path = paths.find(froms[row], tos[column], elementBytes);
            const double found = costs[row * tos.size() + column];
            std::string text;
            llvm::raw_string_ostream(text)
                << froms[row] << " to " << tos[column] << " on " << mesh << ", " << elementBytes << " bytes";
            ASSERT_EQ(path != nullptr, std::isfinite(found)) << text;
            if (path) {
              EXPECT_NEAR(found, path->cost, 1e-9 * (1 + path->cost)) << text;
            }
          }
      }
    }
  }
}

TEST_F(Harness, PairsThatDifferInNamesOfAlikeAxesAreSearchedOnce) {
  MeshAttr mesh = makeMesh(context, {2, 2, 2, 2, 2, 2});
  std::set<unsigned> asked;
  Resharder resharder(
      mesh,
      [&](MoveKind kind, double bytes, ArrayRef<unsigned> axes) {
        asked.insert(axes.begin(), axes.end());
        return bytes * static_cast<double>(axes.size()) * (1 + static_cast<int>(kind));
      },
      true);
  auto split = [&](unsigned rows, unsigned columns) {
    auto dim = [&](const unsigned &axis) { return makeDimSharding(&context, {{64, ArrayRef(axis)}}); };
    return ShardingAttr::get(&context, {dim(rows), dim(columns)}, {}, ReductionKind::Sum);
  };
  std::vector<ShardingAttr> layouts;
  for (unsigned a = 0; a < 6; ++a)
    for (unsigned b = 0; b < 6; ++b)
      if (a != b)
        layouts.push_back(split(a, b));
  std::vector<double> costs = resharder.getCosts(layouts, layouts, 4);
  // Two layouts speak of four axes at most.
  EXPECT_LE(asked.size(), 4u);
  for (size_t i = 0; i < layouts.size(); ++i)
    for (size_t j = 0; j < layouts.size(); ++j)
      EXPECT_DOUBLE_EQ(costs[i * layouts.size() + j], costs[j * layouts.size() + i]);
}

// What turns make, as sums over two ranks, is added up whole and then reduced once, or, where turns scatter,
// reduced in each and added up as the piece that is left; the cost is that of the path.
TEST_F(Harness, SumsOverTurnsAreReducedOnceOrInEachTurn) {
  constexpr int64_t turns = 4;
  auto axis = [&](StringRef name, int64_t size, bool isLoop) {
    return MeshAxisAttr::get(&context, StringAttr::get(&context, name), size, isLoop);
  };
  MeshAttr mesh = MeshAttr::get(&context, {axis("x", 2, false), axis("turn", turns, true)});
  ShardingAttr whole = ShardingAttr::getReplicated(&context, {8, 6});
  SmallVector<DimShardingAttr> split(whole.getDims());
  split[0] = makeDimSharding(&context, {{8, {0}}});
  ShardingAttr from = ShardingAttr::get(&context, whole.getDims(), {0, 1}, ReductionKind::Sum),
               piece = ShardingAttr::get(&context, split, {}, ReductionKind::Sum);
  for (bool scatters : {false, true})
    for (ShardingAttr to : {piece, whole}) {
      Resharder resharder(mesh);
      resharder.setScattersInTurns(scatters);
      const ReshardPath *path = resharder.find(from, to, 4);
      ASSERT_TRUE(path);
      ASSERT_EQ(path->moves.size(), 2u);
      const bool isInTurns = scatters && to == piece;
      const Move &sum = path->moves[isInTurns ? 1 : 0], &reduction = path->moves[isInTurns ? 0 : 1];
      EXPECT_EQ(sum.kind, MoveKind::AllReduce);
      EXPECT_EQ(sum.axes.front(), 1u);
      EXPECT_EQ(sum.times, turns);
      EXPECT_EQ(sum.result[0], isInTurns ? 4 : 8);
      EXPECT_EQ(reduction.kind, to == piece ? MoveKind::ReduceScatter : MoveKind::AllReduce);
      EXPECT_EQ(reduction.times, isInTurns ? turns : 1);
      EXPECT_DOUBLE_EQ(resharder.getCost(from, to, 4), path->cost);
      EXPECT_DOUBLE_EQ(resharder.getCosts({from}, {to}, 4).front(), path->cost);
    }
}

// A turn takes its rows of what ranks share inside of each row, and nothing is exchanged; where they share
// the rows themselves, these are brought together first.
TEST_F(Harness, TurnsSliceWhatRanksShareInsideOfThem) {
  constexpr int64_t turns = 4;
  auto axis = [&](StringRef name, int64_t size, bool isLoop) {
    return MeshAxisAttr::get(&context, StringAttr::get(&context, name), size, isLoop);
  };
  MeshAttr mesh = MeshAttr::get(&context, {axis("x", 2, false), axis("turn", turns, true)});
  auto layout = [&](ArrayRef<unsigned> rows, ArrayRef<unsigned> inside) {
    SmallVector<DimShardingAttr> dims{makeDimSharding(&context, {{8, rows}, {6, inside}}),
                                      makeDimSharding(&context, {{5, {}}})};
    return ShardingAttr::get(&context, dims, {}, ReductionKind::Sum);
  };
  Resharder resharder(mesh);
  const ShardingAttr to = layout({1}, {0});
  const ReshardPath *path = resharder.find(layout({}, {0}), to, 4);
  ASSERT_TRUE(path);
  ASSERT_EQ(path->moves.size(), 1u);
  EXPECT_EQ(path->moves[0].kind, MoveKind::LoopSlice);
  EXPECT_EQ(path->moves[0].times, turns);
  EXPECT_EQ(path->moves[0].exposed, (SmallVector<int64_t>{8, 3, 5}));
  EXPECT_EQ(path->moves[0].result, (SmallVector<int64_t>{2 * 3, 5}));
  EXPECT_DOUBLE_EQ(resharder.getCost(layout({}, {0}), to, 4), path->cost);
  const ReshardPath *gathered = resharder.find(layout({0}, {}), to, 4);
  ASSERT_TRUE(gathered);
  EXPECT_EQ(gathered->moves.front().kind, MoveKind::AllGather);
  EXPECT_GT(gathered->cost, path->cost);
}

// A whole value is a sum of itself and zeros; there is no such start for a greatest or a least value.
TEST_F(Harness, OnlySumsAreMadeOfWholes) {
  MeshAttr mesh = makeMesh(context, {2, 2});
  auto layout = [&](ArrayRef<unsigned> partial, ReductionKind kind) {
    ShardingAttr whole = ShardingAttr::getReplicated(&context, {8, 6});
    return ShardingAttr::get(&context, whole.getDims(), partial, kind);
  };
  Resharder resharder(mesh);
  ShardingAttr whole = layout({}, ReductionKind::Sum);
  for (ReductionKind kind : {ReductionKind::Sum, ReductionKind::Max, ReductionKind::Min}) {
    bool isSum = kind == ReductionKind::Sum;
    ShardingAttr one = layout({0}, kind), both = layout({0, 1}, kind);
    for (auto [from, to, possible] :
         {std::tuple(whole, one, isSum), {one, both, isSum}, {one, whole, true}, {both, one, true}}) {
      EXPECT_EQ(resharder.find(from, to, 4) != nullptr, possible) << stringifyReductionKind(kind).str();
      EXPECT_EQ(std::isfinite(resharder.getCost(from, to, 4)), possible)
          << stringifyReductionKind(kind).str();
    }
  }
}

} // namespace
