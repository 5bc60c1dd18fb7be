// Cuts against all cuts there are, and the rules one by one.
#include "colossal/Step/StageCut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace colossal::step;

namespace {

CutProblem makeChain(const std::vector<double> &seconds, int stages) {
  CutProblem problem;
  problem.stages = stages;
  for (double one : seconds) {
    problem.units.push_back({one, {static_cast<unsigned>(problem.weightBytes.size())}});
    problem.weightBytes.push_back(1);
  }
  problem.crossingBytes.assign(seconds.size() + 1, 8);
  problem.crossingBytes.front() = problem.crossingBytes.back() = 0;
  problem.crossingSeconds.assign(seconds.size() + 1, 0);
  problem.unevenness = 100;
  return problem;
}

double worst(const std::vector<double> &values) {
  return *std::max_element(values.begin(), values.end());
}

/// The slowest stage of the best cut, found by trying all.
double tryAll(const CutProblem &problem, std::size_t begin, int stages, double limit) {
  const std::size_t count = problem.units.size();
  double least = 1e30;
  auto ofStage = [&](std::size_t from, std::size_t to) {
    double seconds = from ? problem.crossingSeconds[from] : 0;
    std::vector<bool> held(problem.weightBytes.size());
    for (std::size_t u = from; u < to; ++u) {
      seconds += problem.units[u].seconds;
      for (unsigned weight : problem.units[u].weights)
        held[weight] = true;
    }
    double bytes = 0;
    for (std::size_t w = 0; w < held.size(); ++w)
      bytes += held[w] ? problem.weightBytes[w] : 0;
    return bytes <= limit ? seconds : 1e30;
  };
  if (stages == 1)
    return ofStage(begin, count);
  for (std::size_t end = begin + 1; end + static_cast<std::size_t>(stages) - 1 <= count; ++end)
    least = std::min(least, std::max(ofStage(begin, end), tryAll(problem, end, stages - 1, limit)));
  return least;
}

} // namespace

TEST(StageCut, BalancesTime) {
  StageCut cut = cutStages(makeChain({1, 1, 1, 1, 4}, 2));
  EXPECT_EQ(cut.firsts, (std::vector<std::size_t>{0, 4}));
  EXPECT_EQ(cut.seconds, (std::vector<double>{4, 4}));
}

TEST(StageCut, IsTheBestOfAllCuts) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::size_t count = 3 + random() % 8;
    const int stages = 2 + static_cast<int>(random() % 2);
    std::vector<double> seconds(count);
    for (double &one : seconds)
      one = 1 + static_cast<double>(random() % 20);
    CutProblem problem = makeChain(seconds, stages);
    problem.unevenness = 1.0 + static_cast<double>(random() % 3) / 2;
    for (CutUnit &unit : problem.units) // some weights are read several times
      unit.weights = {static_cast<unsigned>(random() % count), static_cast<unsigned>(random() % count)};
    for (std::size_t i = 1; i < count; ++i)
      problem.crossingSeconds[i] = static_cast<double>(random() % 3);
    StageCut cut = cutStages(problem);
    ASSERT_EQ(cut.firsts.size(), static_cast<std::size_t>(stages));
    const double even = std::accumulate(problem.weightBytes.begin(), problem.weightBytes.end(), 0.0) *
                        problem.unevenness / stages;
    const double limit = std::max(even, worst(cut.weightBytes));
    EXPECT_LE(worst(cut.seconds), tryAll(problem, 0, stages, limit) * 1.1 + 1e-9);
    // No cut holds less where this one holds more than it should.
    if (worst(cut.weightBytes) > even) {
      EXPECT_GE(tryAll(problem, 0, stages, worst(cut.weightBytes) - 0.5), 1e30);
    }
  }
}

TEST(StageCut, KeepsWeightsEven) {
  // All of the weights in the last quarter of the time.
  CutProblem problem = makeChain({4, 4, 4, 1, 1, 1, 1}, 2);
  for (std::size_t u = 0; u < 3; ++u)
    problem.weightBytes[u] = 0;
  EXPECT_EQ(cutStages(problem).firsts[1], 2u);
  problem.unevenness = 1.2;
  StageCut cut = cutStages(problem);
  EXPECT_EQ(cut.firsts[1], 5u);
  EXPECT_EQ(worst(cut.seconds), 14);
  EXPECT_EQ(cut.slowestAnywhere, 14);
  EXPECT_EQ(cut.slowestUnlimited, 8) << "what the limit costs";
}

TEST(StageCut, CountsATiedWeightInBothStages) {
  // An embedding of 40 that is the head as well, as a copy of its own, and six layers of 10.
  CutProblem problem = makeChain({0, 1, 1, 1, 1, 1, 1, 3}, 2);
  problem.weightBytes = {40, 10, 10, 10, 10, 10, 10, 40};
  problem.unevenness = 1.2;
  StageCut cut = cutStages(problem);
  EXPECT_EQ(cut.firsts[1], 5u);
  EXPECT_EQ(cut.weightBytes, (std::vector<double>{80, 60}));
}

TEST(StageCut, PrefersNarrowPlaces) {
  CutProblem problem = makeChain({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 2);
  problem.crossingBytes.assign(problem.units.size() + 1, 32);
  problem.crossingBytes[12] = 8;
  EXPECT_EQ(cutStages(problem).firsts[1], 12u);
  EXPECT_EQ(cutStages(problem).slowestAnywhere, 11);
  // But not at any price.
  problem.crossingBytes[12] = 32;
  problem.crossingBytes[18] = 8;
  EXPECT_EQ(cutStages(problem).firsts[1], 11u);
}

TEST(StageCut, KeepsToPins) {
  CutProblem problem = makeChain({1, 1, 1, 1, 1, 1}, 3);
  problem.units[4].least = problem.units[5].least = 2;
  for (std::size_t u = 0; u < 4; ++u)
    problem.units[u].greatest = 1;
  StageCut cut = cutStages(problem);
  EXPECT_EQ(cut.firsts, (std::vector<std::size_t>{0, 2, 4}));
  for (CutUnit &unit : problem.units)
    unit.greatest = 1;
  EXPECT_TRUE(cutStages(problem).firsts.empty());
}

TEST(StageCut, HasNoneForFewUnits) {
  EXPECT_TRUE(cutStages(makeChain({1, 1}, 3)).firsts.empty());
}

TEST(StageCut, LongChainsAreCut) {
  StageCut cut = cutStages(makeChain(std::vector<double>(3000, 1.0), 8));
  ASSERT_EQ(cut.firsts.size(), 8u);
  EXPECT_LE(worst(cut.seconds), 400);
}

TEST(StageCut, OthersFollow) {
  CutProblem problem = makeChain({1, 1, 1, 1}, 2);
  problem.weightBytes = {0, 100, 100, 0};
  EXPECT_EQ(followCut(problem, {0, 0, 1, 1}), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(followCut(problem, {-1, 0, 1, -1}).at(2), 1);
  // What is wanted against the order is left where the fewest weights lie elsewhere.
  EXPECT_EQ(followCut(problem, {1, 0, 1, 0}), (std::vector<int>{0, 0, 1, 1}));
  problem.units[2].greatest = 0;
  problem.units[3].least = 1;
  problem.units[0].greatest = problem.units[1].greatest = 0;
  EXPECT_EQ(followCut(problem, {0, 0, 1, 1}), (std::vector<int>{0, 0, 0, 1}));
}
