// What is built on the dual: bounds in whole numbers, candidates dropped by them, and exact search, each
// against enumeration.
#include "Dual.h"
#include "Branching.h"
#include "MiniBuckets.h"
#include "RandomProblems.h"
#include "Reduction.h"
#include "colossal/Search/Verifier.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace colossal::search;

namespace {

const auto kGoOn = [] { return false; };

class DualOnRandomProblems : public ::testing::TestWithParam<Recipe> {};

TEST_P(DualOnRandomProblems, BoundsHoldAndFixingKeepsEveryOptimum) {
  int tried = 0, fixed = 0;
  for (int seed = 0; seed < 150; ++seed) {
    Problem problem = randomProblem(GetParam(), 9000 + seed);
    const std::vector<Assignment> optima = findOptima(problem);
    if (optima.empty())
      continue;
    Total optimum = verify(problem, optima.front()).cost;
    Reduction::Options options;
    options.none = true;
    Reduction reduction(problem, options);
    ASSERT_FALSE(reduction.infeasible());
    const Core &core = reduction.core();
    DualAscent dual(core);
    for (int step = 0; step < 3; ++step) {
      dual.run(step * 300, static_cast<double>(optimum), kGoOn);
      ExactDual exact = dual.exact();
      ASSERT_TRUE(exact.bound());
      EXPECT_TRUE(*exact.bound() <= optimum) << toString(*exact.bound()) << " > " << toString(optimum);
      std::vector<char> keep(core.cost.size(), 1);
      fixed += exact.fix(optimum, keep);
      EXPECT_TRUE(*exact.bound() <= optimum);
      ++tried;
      // Nodes of the problem come first in the core, in their order.
      for (const Assignment &answer : optima)
        for (std::size_t i = 0; i < answer.size(); ++i)
          EXPECT_TRUE(keep[core.first[i] + answer[i]]) << "seed " << seed << " node " << i;
    }
  }
  EXPECT_GT(tried, 60);
  EXPECT_GT(fixed, tried / 2) << "nothing was dropped, so nothing was shown";
}

/// Where memory is free and no bucket is divided, elimination is exact; with small tables it is a bound
/// between the dual's and the optimum. What it drops is in no optimum, and as much as can be where it is
/// exact.
TEST_P(DualOnRandomProblems, MiniBucketsBoundAndWithoutMemoryAreExact) {
  Recipe recipe = GetParam();
  int exact = 0, divided = 0, rose = 0, dropped = 0;
  for (int seed = 0; seed < 200; ++seed) {
    recipe.memory = seed % 2;
    Problem problem = randomProblem(recipe, 9800 + seed);
    const std::vector<Assignment> optima = findOptima(problem);
    if (optima.empty())
      continue;
    Total optimum = verify(problem, optima.front()).cost,
          upper = optimum + std::vector<Total>{0, 1, 5000}[seed % 3];
    Reduction::Options options;
    options.none = true;
    Reduction reduction(problem, options);
    ASSERT_FALSE(reduction.infeasible());
    const Core &core = reduction.core();
    DualAscent dual(core);
    dual.run(200 * (seed % 3), static_cast<double>(optimum), kGoOn);
    for (std::uint64_t entries : {1, 1'000'000}) {
      std::vector<char> keep(core.cost.size(), 1);
      ExactDual known = dual.exact();
      known.fix(upper, keep);
      ASSERT_TRUE(known.bound());
      MiniBuckets buckets(core, known, keep, upper, entries, kGoOn);
      ASSERT_TRUE(buckets.bound()) << "seed " << seed;
      EXPECT_TRUE(*buckets.bound() >= *known.bound());
      EXPECT_TRUE(*buckets.bound() <= optimum) << "seed " << seed;
      divided += !buckets.exact();
      rose += *buckets.bound() > *known.bound();
      dropped += buckets.fix(keep);
      for (const Assignment &answer : optima)
        for (std::size_t i = 0; i < answer.size(); ++i)
          EXPECT_TRUE(keep[core.first[i] + answer[i]]) << "seed " << seed << " node " << i;
      if (recipe.memory || !buckets.exact())
        continue;
      ++exact;
      EXPECT_TRUE(*buckets.bound() == optimum) << "seed " << seed;
      std::vector<int> x = buckets.decode();
      EXPECT_TRUE(verify(problem, reduction.expand(x)).cost == optimum) << "seed " << seed;
      if (upper > optimum)
        continue;
      // Each candidate that is left is in some optimum.
      std::vector<char> needed(core.cost.size(), 0);
      for (const Assignment &answer : optima)
        for (std::size_t i = 0; i < answer.size(); ++i)
          needed[core.first[i] + answer[i]] = 1;
      for (int c = 0; c < core.first[static_cast<int>(problem.nodes.size())]; ++c)
        EXPECT_EQ(keep[c], needed[c]) << "seed " << seed << " candidate " << c;
    }
  }
  EXPECT_GT(exact, 40);
  EXPECT_GT(divided, 20);
  EXPECT_GT(rose, 20);
  EXPECT_GT(dropped, 20);
}

/// Costs that do not fit 32 bits are counted in larger units, rounded down.
TEST(MiniBuckets, RoundsLargeCostsDown) {
  for (int seed = 0; seed < 60; ++seed) {
    Problem problem = randomProblem({7, 3, 12, 2, 5, 0, seed % 2 == 0, 2'000'000'000'000}, 500 + seed);
    const std::vector<Assignment> optima = findOptima(problem);
    if (optima.empty())
      continue;
    Total optimum = verify(problem, optima.front()).cost;
    Reduction::Options options;
    options.none = true;
    Reduction reduction(problem, options);
    DualAscent dual(reduction.core());
    std::vector<char> keep(reduction.core().cost.size(), 1);
    ExactDual known = dual.exact();
    ASSERT_TRUE(known.bound());
    MiniBuckets buckets(reduction.core(), known, keep, 2 * optimum, 10'000, kGoOn);
    ASSERT_TRUE(buckets.bound());
    EXPECT_TRUE(*buckets.bound() <= optimum);
    if (buckets.exact() && seed % 2) {
      EXPECT_TRUE(*buckets.bound() > optimum - optimum / 100'000);
    }
  }
}

TEST_P(DualOnRandomProblems, ExactSearchFindsTheOptimumAndProvesIt) {
  int feasible = 0, branched = 0;
  for (int seed = 0; seed < 100; ++seed) {
    Problem problem = randomProblem(GetParam(), 9500 + seed);
    const std::vector<Assignment> optima = findOptima(problem);
    Reduction::Options options;
    options.none = true;
    Reduction reduction(problem, options);
    if (reduction.infeasible())
      continue;
    DualAscent dual(reduction.core());
    dual.run(100, 1e9, kGoOn);
    std::optional<__int128> bound = dual.exact().bound();
    ASSERT_TRUE(bound);
    Branching search(reduction.core(), dual, *bound);
    __int128 upper = 1'000'000'000'000;
    Assignment found;
    for (int round = 0; search.bound() && round < 5000; ++round) {
      int count = search.pick(3);
      branched += count > 1;
      for (int slot = 0; slot < count; ++slot)
        search.process(slot, 300, upper, kGoOn);
      search.merge();
      if (search.answer().empty())
        continue;
      found = reduction.expand(search.answer());
      Verdict verdict = verify(problem, found);
      ASSERT_TRUE(verdict.feasible());
      ASSERT_TRUE(verdict.cost <= upper);
      upper = verdict.cost - 1;
    }
    EXPECT_FALSE(search.bound()) << "seed " << seed << ": the tree did not end";
    ASSERT_EQ(found.empty(), optima.empty()) << seed;
    if (optima.empty())
      continue;
    ++feasible;
    EXPECT_TRUE(verify(problem, found).cost == verify(problem, optima.front()).cost) << seed;
  }
  EXPECT_GT(feasible, 20);
  EXPECT_GE(branched, 3) << "solved without a split, so nothing was shown";
}

INSTANTIATE_TEST_SUITE_P(Recipes, DualOnRandomProblems,
                         ::testing::Values(Recipe{6, 3, 8, 3, 10, 30, true, 20},
                                           Recipe{8, 4, 14, 2, 3, 0, true, 100},
                                           Recipe{9, 3, 18, 2, 0, 0, true, 1000}));

} // namespace
