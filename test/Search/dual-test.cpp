// What is built on the dual: bounds in whole numbers, candidates dropped by them, and exact search, each
// against enumeration.
#include "Branching.h"
#include "Dual.h"
#include "Reduction.h"
#include "colossal/Search/Verifier.h"
#include "random-problems.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace colossal::search;

namespace {

const auto kGoOn = [] { return false; };

/// The cheapest answer that fits, as an assignment; empty where there is none.
Assignment cheapest(const Problem &problem, std::vector<Assignment> *all = nullptr) {
  Assignment x(problem.nodes.size(), 0), best;
  std::optional<Total> cost;
  while (true) {
    Verdict verdict = verify(problem, x);
    if (verdict.feasible()) {
      if (all && cost && verdict.cost == *cost)
        all->push_back(x);
      if (!cost || verdict.cost < *cost) {
        cost = verdict.cost;
        best = x;
        if (all)
          *all = {x};
      }
    }
    std::size_t i = 0;
    for (; i < x.size(); ++i) {
      if (++x[i] < static_cast<std::int32_t>(problem.nodes[i].candidates.size()))
        break;
      x[i] = 0;
    }
    if (i == x.size())
      return best;
  }
}

class DualOnRandomProblems : public ::testing::TestWithParam<Recipe> {};

TEST_P(DualOnRandomProblems, BoundsHoldAndFixingKeepsEveryOptimum) {
  int tried = 0, fixed = 0;
  for (int seed = 0; seed < 150; ++seed) {
    Problem problem = randomProblem(GetParam(), 9000 + seed);
    std::vector<Assignment> optima;
    Assignment best = cheapest(problem, &optima);
    if (best.empty())
      continue;
    Total optimum = verify(problem, best).cost;
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

TEST_P(DualOnRandomProblems, ExactSearchFindsTheOptimumAndProvesIt) {
  int feasible = 0, branched = 0;
  for (int seed = 0; seed < 100; ++seed) {
    Problem problem = randomProblem(GetParam(), 9500 + seed);
    Assignment best = cheapest(problem);
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
    ASSERT_EQ(found.empty(), best.empty()) << seed;
    if (best.empty())
      continue;
    ++feasible;
    EXPECT_TRUE(verify(problem, found).cost == verify(problem, best).cost) << seed;
  }
  EXPECT_GT(feasible, 20);
  EXPECT_GE(branched, 3) << "solved without a split, so nothing was shown";
}

INSTANTIATE_TEST_SUITE_P(Recipes, DualOnRandomProblems,
                         ::testing::Values(Recipe{6, 3, 8, 3, 10, 30, true, 20},
                                           Recipe{8, 4, 14, 2, 3, 0, true, 100},
                                           Recipe{9, 3, 18, 2, 0, 0, true, 1000}));

} // namespace
