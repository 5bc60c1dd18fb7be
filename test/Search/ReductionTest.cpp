// The reductions keep the optimum: what enumeration finds before them, enumeration of the core finds after
// them.
#include "Reduction.h"
#include "RandomProblems.h"
#include "colossal/Search/ProblemText.h"
#include "colossal/Search/Verifier.h"

#include <gtest/gtest.h>

using namespace colossal::search;

namespace {

struct CoreOptimum {
  std::optional<double> cost;
  std::vector<int> x;
};

CoreOptimum enumerateCore(const Core &core) {
  CoreOptimum best;
  std::vector<int> x(core.nodes, 0);
  while (true) {
    std::vector<double> held(core.steps(), 0);
    for (int i = 0; i < core.nodes; ++i)
      for (auto p = core.pieceFirst[core.first[i] + x[i]]; p < core.pieceFirst[core.first[i] + x[i] + 1]; ++p)
        for (int t = core.pieces[p].begin; t < core.pieces[p].end; ++t)
          held[t] += core.pieces[p].bytes;
    bool fits = true;
    for (int t = 0; t < core.steps(); ++t)
      fits &= held[t] <= core.capacity[t];
    SplitCost total = core.totalCost(x);
    if (fits && total.forbidden == 0 && (!best.cost || total.cost < *best.cost)) {
      best.cost = total.cost;
      best.x = x;
    }
    int i = 0;
    for (; i < core.nodes; ++i) {
      if (++x[i] < core.candidates(i))
        break;
      x[i] = 0;
    }
    if (i == core.nodes)
      return best;
  }
}

class ReductionKeepsTheOptimum : public ::testing::TestWithParam<Recipe> {};

TEST_P(ReductionKeepsTheOptimum, OnRandomProblems) {
  int feasible = 0;
  for (int seed = 0; seed < 400; ++seed) {
    Problem problem = randomProblem(GetParam(), seed);
    ASSERT_EQ(validate(problem), "");
    std::optional<Total> expected = enumerate(problem);
    feasible += expected.has_value();
    Reduction reduction(problem, {});
    if (reduction.infeasible()) {
      EXPECT_FALSE(expected) << seed << ": " << *reduction.infeasible() << "\n" << printProblem(problem);
      continue;
    }
    CoreOptimum found = enumerateCore(reduction.core());
    ASSERT_EQ(found.cost.has_value(), expected.has_value()) << seed << "\n" << printProblem(problem);
    if (!expected)
      continue;
    Verdict verdict = verify(problem, reduction.expand(found.x));
    EXPECT_TRUE(verdict.feasible()) << seed << "\n" << printProblem(problem);
    EXPECT_TRUE(verdict.cost == *expected)
        << seed << ": " << toString(verdict.cost) << " is not " << toString(*expected) << "\n"
        << printProblem(problem);
    EXPECT_EQ(*found.cost, static_cast<double>(verdict.cost));
  }
  EXPECT_GT(feasible, 40) << "the recipe makes too few feasible problems to show anything";
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, ReductionKeepsTheOptimum,
    ::testing::Values(Recipe{5, 3, 6, 3, 10, 30, true, 20}, Recipe{7, 3, 8, 2, 5, 60, true, 20},
                      Recipe{6, 4, 9, 2, 0, 0, true, 5}, Recipe{6, 3, 7, 4, 10, 20, false, 20},
                      Recipe{7, 3, 12, 2, 0, 0, false, 1000}, Recipe{6, 4, 8, 2, 10, 30, true, 20, 60},
                      Recipe{6, 4, 9, 3, 5, 20, false, 20, 80}, Recipe{5, 5, 8, 2, 0, 0, false, 1000, 80}));

TEST(Reduction, ChainsWithoutMemoryVanish) {
  Problem problem;
  auto table = std::make_shared<CostTable>(CostTable{0, 3, 2, 1, 4, 0, 5, 1, 2});
  for (int i = 0; i < 200; ++i) {
    problem.nodes.push_back({"", {{1, {}}, {0, {}}, {2, {}}}});
    if (i > 0)
      problem.addEdge(i - 1, i, table);
    if (i > 1)
      problem.addEdge(i - 2, i, table);
  }
  Reduction reduction(problem, {});
  EXPECT_EQ(reduction.core().nodes, 0) << "a graph of treewidth two";
}

// What one edge cannot tell apart, several may; and a node whose neighbours have thousands of candidates but
// few classes costs what its classes cost.
TEST(Reduction, NodesOfManyCandidatesAndFewClassesVanish) {
  constexpr std::int32_t kSide = 60;
  Problem problem;
  auto table = std::make_shared<CostTable>();
  for (int k = 0; k < kSide * kSide; ++k)
    table->push_back(k * 7919 % 101);
  auto rows = std::make_shared<Classes>(), columns = std::make_shared<Classes>();
  rows->count = columns->count = kSide;
  for (int k = 0; k < kSide * kSide; ++k) {
    rows->of.push_back(k / kSide);
    columns->of.push_back(k % kSide);
  }
  for (int i = 0; i < 12; ++i) {
    Node &node = problem.nodes.emplace_back();
    for (int k = 0; k < kSide * kSide; ++k)
      node.candidates.push_back({k * 104729 % 1009, {}});
    if (i > 0)
      problem.addEdge(i - 1, i, table, columns, rows);
  }
  ASSERT_EQ(validate(problem), "");
  Reduction reduction(problem, {});
  ASSERT_EQ(reduction.core().nodes, 0);
  // Dynamic programming over candidates, not classes.
  std::vector<Cost> best;
  for (const Candidate &candidate : problem.nodes[0].candidates)
    best.push_back(candidate.cost);
  for (int i = 1; i < 12; ++i) {
    std::vector<Cost> next;
    for (int k = 0; k < kSide * kSide; ++k) {
      Cost low = kMaxCost;
      for (int l = 0; l < kSide * kSide; ++l)
        low = std::min(low, best[l] + (*table)[(l % kSide) * kSide + k / kSide]);
      next.push_back(low + problem.nodes[i].candidates[k].cost);
    }
    best = next;
  }
  Verdict verdict = verify(problem, reduction.expand({}));
  EXPECT_EQ(static_cast<Cost>(verdict.cost), *std::min_element(best.begin(), best.end()));
}

} // namespace
