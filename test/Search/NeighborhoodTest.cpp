// Local search: what it says of its answer is what the answer costs, forbidden choices and all, and no step
// makes it worse.
#include "Neighborhood.h"
#include "RandomProblems.h"
#include "Reduction.h"
#include "colossal/Search/Verifier.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace colossal::search;

namespace {

/// The merit of an answer, added up here: allowed costs in whole numbers, forbidden choices counted.
Merit meritOf(const Core &core, const std::vector<int> &x) {
  std::int64_t forbidden = 0, cost = static_cast<std::int64_t>(core.offset);
  auto add = [&](double entry) {
    isBig(entry) ? void(++forbidden) : void(cost += static_cast<std::int64_t>(entry));
  };
  std::vector<double> held(core.steps(), 0);
  for (int i = 0; i < core.nodes; ++i) {
    const int candidate = core.first[i] + x[i];
    add(core.cost[candidate]);
    for (int h = core.halfFirst[i]; h < core.halfFirst[i + 1]; ++h)
      if (const Core::Half &half = core.halves[h]; half.other < i)
        add(half.from[x[half.other] * core.candidates(i) + x[i]]);
    for (auto p = core.pieceFirst[candidate]; p < core.pieceFirst[candidate + 1]; ++p)
      for (int t = core.pieces[p].begin; t < core.pieces[p].end; ++t)
        held[t] += core.pieces[p].bytes;
  }
  double excess = 0;
  for (int t = 0; t < core.steps(); ++t)
    excess += std::max(0.0, held[t] - core.capacity[t]);
  return {excess, {forbidden, static_cast<double>(cost)}};
}

TEST(Neighborhood, KnowsWhatItsAnswerCosts) {
  const auto goOn = [] { return false; };
  int manyForbidden = 0, memory = 0, excess = 0;
  for (int seed = 0; seed < 60; ++seed) {
    Recipe recipe;
    recipe.nodes = 60;
    recipe.candidates = 5;
    recipe.edges = 120;
    recipe.widest = 2;
    recipe.forbidden = 40;
    recipe.followers = 10;
    recipe.memory = seed % 2;
    recipe.largest = 1'000'000'000; // beside 10^24 for a forbidden choice, a double rounds these away
    Problem problem = randomProblem(recipe, 500 + seed);
    if (recipe.memory) // so little that answers are over it
      problem.memoryLimit = verify(problem, Assignment(recipe.nodes, 0)).peakBytes * 3 / 4;
    Reduction::Options options;
    options.none = true;
    Reduction reduction(problem, options);
    if (reduction.infeasible())
      continue;
    const Core &core = reduction.core();
    NeighborhoodSearch first(core, 1), second(core, 2);
    Random random(seed);
    std::vector<int> start(core.nodes);
    for (int i = 0; i < core.nodes; ++i)
      start[i] = random.below(core.candidates(i));
    first.assign(start);
    ASSERT_EQ(first.merit(), meritOf(core, first.current()));
    manyForbidden += first.merit().total.forbidden > 20;
    memory += core.steps() > 0;
    excess += first.merit().excess > 0;
    for (int round = 0; round < 20; ++round) {
      const Merit before = first.merit();
      first.improve(3000, goOn);
      second.improve(3000, goOn);
      ASSERT_EQ(first.merit(), meritOf(core, first.current())) << "seed " << seed << ", round " << round;
      ASSERT_FALSE(before < first.merit());
      const Merit improved = first.merit();
      first.absorb(second.current());
      ASSERT_EQ(first.merit(), meritOf(core, first.current())) << "seed " << seed << ", round " << round;
      ASSERT_FALSE(improved < first.merit());
    }
  }
  EXPECT_GT(manyForbidden, 20);
  EXPECT_GT(memory, 10);
  EXPECT_GT(excess, 5);
}

} // namespace
