// Cheapest collectives between placements against paths worked by hand, with bytes sent as their cost.
#include "colossal/Cost/PlacementSearch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

using namespace colossal::cost;

namespace {

/// A tensor of two places, 24 and 16 elements, on axes of 2, 4 and 2 ranks.
struct Search {
  static double sent(MoveKind kind, double bytes, const AxisList &axes) {
    const double sizes[] = {2, 4, 2};
    double ranks = 1;
    for (unsigned axis : axes)
      ranks *= sizes[axis];
    double part = bytes * (ranks - 1) / ranks;
    return !isCollective(kind) ? 1e-3 : kind == MoveKind::AllReduce ? 2 * part : part;
  }
  const PlacementCost cost = sent;

  /// The steps as "kind axes bytes", and their cost.
  std::pair<std::string, double> find(const Placement &from, const Placement &to) const {
    static const char *const names[] = {"gather", "reduce", "scatter", "exchange", "slice", "first", "turn"};
    PlacementGraph graph({{24, 0}, {16, 1}}, {2, 4, 2}, to);
    PlacementSearch search;
    double least = search.run(graph, graph.getNode(from), 1, cost);
    std::string text;
    for (const PlacementSearch::Step &step : search.getSteps(graph)) {
      text += (text.empty() ? "" : ", ") + std::string(names[static_cast<int>(step.kind)]) + " ";
      for (unsigned axis : step.axes)
        text += std::to_string(axis);
      text += " " + std::to_string(static_cast<int>(step.bytes));
    }
    return {text, least};
  }
};

/// "0:1 1:20": axis 1 on place 0, axis 2 and inside of it axis 0 on place 1; "p:1": a sum over axis 1.
Placement place(const std::string &text) {
  Placement placement;
  for (std::size_t i = 0; i < text.size(); i += text[i] == ' ') {
    char where = text[i];
    unsigned depth = 0;
    for (i += 2; i < text.size() && text[i] != ' '; ++i)
      if (unsigned axis = static_cast<unsigned>(text[i] - '0'); where == 'p')
        placement.setPartial(axis);
      else
        placement.put(axis, static_cast<unsigned>(where - '0'), depth++);
  }
  return placement;
}

using Found = std::pair<std::string, double>;

TEST(PlacementSearch, StepsAreThoseOfTheLiterature) {
  Search search;
  EXPECT_EQ(search.find(place("0:1"), place("0:1")), Found("", 0));
  EXPECT_EQ(search.find(place("0:1"), place("")), Found("gather 1 384", 288));
  EXPECT_EQ(search.find(place(""), place("0:1")), Found("slice 1 96", 1e-3));
  EXPECT_EQ(search.find(place("0:1"), place("1:1")), Found("exchange 1 96", 72));
  EXPECT_EQ(search.find(place("p:1"), place("1:1")), Found("scatter 1 384", 288));
  EXPECT_EQ(search.find(place("p:1"), place("")), Found("reduce 1 384", 576));
  // Sums over two axes end in one all-reduce of both.
  EXPECT_EQ(search.find(place("p:02"), place("")), Found("reduce 02 384", 576));
}

TEST(PlacementSearch, AnAxisLeavesAPlaceBeforeThoseOutsideOfIt) {
  Search search;
  // Axis 0 lies inside of axis 2, so it goes at once; axis 2 only once axis 0 has left.
  EXPECT_EQ(search.find(place("0:20"), place("0:2 1:0")).first, "exchange 0 96");
  auto [text, sent] = search.find(place("0:20"), place("0:0 1:2"));
  EXPECT_EQ(text, "gather 0 192, exchange 2 192, slice 0 96");
  EXPECT_DOUBLE_EQ(sent, 96 + 96 + 1e-3);
  // Another order of the same axes is another placement.
  EXPECT_GT(search.find(place("0:20"), place("0:02")).second, 0);
}

TEST(PlacementSearch, PartsRoundUpAxisByAxis) {
  PlacementCost cost = Search::sent;
  PlacementGraph graph({{5, 0}}, {2, 4, 2}, place(""));
  PlacementSearch search;
  EXPECT_DOUBLE_EQ(search.run(graph, graph.getNode(place("0:02")), 4, cost),
                   6 + 10); // 2, then 3, then all 5 elements of 4 bytes
}

TEST(PlacementSearch, ASumIsMadeOfAWholeValueOnly) {
  Search search;
  EXPECT_EQ(search.find(place(""), place("p:1")).first, "first 1 384");
  EXPECT_EQ(search.find(place("0:1"), place("p:1")).first, "gather 1 384, first 1 384");
}

/// Axes of two ranks each, and two dimensions that are as many places of two elements: axis i on place i of a
/// dimension, in a sum, or unused.
struct Digits {
  unsigned axes;

  PlacementGraph makeGraph(const Placement &to, unsigned mostFree) const {
    std::vector<PlacementGraph::Place> places;
    for (unsigned place = 0; place < 2 * axes; ++place)
      places.push_back({2, place / axes});
    return {places, std::vector<std::int64_t>(axes, 2), to, mostFree};
  }
  /// By axis: 0 or 1, a dimension; 2, unused; 3, a sum.
  Placement place(const std::vector<unsigned> &where) const {
    Placement placement;
    for (unsigned axis = 0; axis < axes; ++axis)
      if (where[axis] < 2)
        placement.put(axis, where[axis] * axes + axis, 0);
      else if (where[axis] == 3)
        placement.setPartial(axis);
    return placement;
  }
  /// A start, and bytes sent.
  static double price(MoveKind kind, double bytes, const AxisList &axes) {
    double ranks = std::exp2(axes.size()), part = bytes * (ranks - 1) / ranks;
    if (!isCollective(kind))
      return 0.1 + 0.01 * bytes;
    return 1 + static_cast<double>(axes.size()) + (kind == MoveKind::AllReduce ? 2 * part : part);
  }
};

// Sums over several axes that split neighbouring places of one dimension go there by one collective.
TEST(PlacementSearch, SumsAreScatteredToARunOfDigits) {
  const PlacementCost price = Digits::price;
  Digits digits{3};
  auto find = [&](const std::vector<unsigned> &to) {
    PlacementGraph graph = digits.makeGraph(digits.place(to), Placement::kMaxAxes);
    PlacementSearch search;
    search.run(graph, graph.getNode(digits.place({3, 3, 3})), 1, price);
    std::string text;
    for (const PlacementSearch::Step &step : search.getSteps(graph)) {
      text += text.empty() ? "" : ", ";
      text += step.kind == MoveKind::ReduceScatter ? "scatter " : "other ";
      for (unsigned axis : step.axes)
        text += std::to_string(axis);
      text +=
          " of " + std::to_string(static_cast<int>(step.bytes)) + " from place " + std::to_string(step.to);
    }
    return text;
  };
  EXPECT_EQ(find({0, 0, 0}), "scatter 012 of 64 from place 0");
  EXPECT_EQ(find({1, 0, 0}), "scatter 0 of 64 from place 3, scatter 12 of 32 from place 1");
}

// Each axis of many is on its way, on the one place or on the other: too many placements to look at.
TEST(PlacementSearch, ManyAxesMoveInOneOrder) {
  const PlacementCost price = Digits::price;
  Digits digits{16};
  PlacementGraph graph = digits.makeGraph(digits.place(std::vector<unsigned>(16, 1)), 3);
  PlacementSearch search;
  const double cost = search.run(graph, graph.getNode(digits.place(std::vector<unsigned>(16, 0))), 64, price);
  EXPECT_EQ(search.getSteps(graph).size(), 16u);
  EXPECT_LT(graph.countNodes(), 100u);
  AxisList one;
  one.add(0);
  EXPECT_DOUBLE_EQ(cost, 16 * Digits::price(MoveKind::AllToAll, 64 * 65536, one));
}

// What the one order finds can be reached, and is close to the best of all.
TEST(PlacementSearch, TheOneOrderIsCloseToTheBest) {
  const PlacementCost price = Digits::price;
  Digits digits{5};
  std::mt19937 random(3);
  double sum = 0, sumOfBest = 0;
  for (int i = 0; i < 400; ++i) {
    std::vector<unsigned> from, to;
    for (unsigned axis = 0; axis < digits.axes; ++axis) {
      from.push_back(random() % 4);
      to.push_back(random() % 4);
    }
    const double bytes = i % 2 ? 1 : 100;
    PlacementSearch search;
    PlacementGraph all = digits.makeGraph(digits.place(to), Placement::kMaxAxes),
                   few = digits.makeGraph(digits.place(to), 2);
    const double best = search.run(all, all.getNode(digits.place(from)), bytes, price),
                 found = search.run(few, few.getNode(digits.place(from)), bytes, price);
    ASSERT_TRUE(std::isfinite(best));
    EXPECT_GE(found, best * (1 - 1e-12));
    EXPECT_LE(found, best * 1.25);
    sum += found;
    sumOfBest += best;
  }
  EXPECT_LE(sum, 1.01 * sumOfBest);
}

} // namespace
