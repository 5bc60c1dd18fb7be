// The first passes of the dual, before anything is searched, on cores without a memory limit: grids of equal
// columns, as layers are, whose optimum is found column by column.
#include "Portfolio.h"
#include "Reduction.h"
#include "colossal/Search/Verifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

using namespace colossal::search;

namespace {

constexpr int kRows = 4, kColumns = 10, kCandidates = 4;

/// Nodes of a grid, column by column; one table between rows and one between columns. Where tables grow with
/// the distance of two candidates (`isSmooth`), the bound of the dual is the optimum; where they are random,
/// it seldom is.
Problem makeGrid(bool isSmooth, unsigned seed) {
  std::mt19937 random(seed);
  auto makeTable = [&] {
    CostTable table;
    for (int a = 0; a < kCandidates; ++a)
      for (int b = 0; b < kCandidates; ++b)
        table.push_back(isSmooth ? 20 * std::abs(a - b) : static_cast<Cost>(random() % 1000));
    return std::make_shared<const CostTable>(std::move(table));
  };
  Problem problem;
  for (int i = 0; i < kRows * kColumns; ++i) {
    Node node;
    for (int k = 0; k < kCandidates; ++k)
      node.candidates.push_back({static_cast<Cost>(random() % 100), {}});
    problem.nodes.push_back(std::move(node));
  }
  auto rows = makeTable(), columns = makeTable();
  for (int c = 0; c < kColumns; ++c)
    for (int r = 0; r < kRows; ++r) {
      if (r + 1 < kRows)
        problem.addEdge(c * kRows + r, c * kRows + r + 1, rows);
      if (c + 1 < kColumns)
        problem.addEdge(c * kRows + r, (c + 1) * kRows + r, columns);
    }
  return problem;
}

/// By all choices of a column, given the best of those before it.
Total findOptimum(const Problem &problem) {
  int states = 1;
  for (int r = 0; r < kRows; ++r)
    states *= kCandidates;
  auto choiceOf = [](int state, int row) {
    for (int r = 0; r < row; ++r)
      state /= kCandidates;
    return state % kCandidates;
  };
  const CostTable &rows = *problem.edges[0].table, &columns = *problem.edges[1].table;
  std::vector<Cost> best(states, 0);
  for (int c = 0; c < kColumns; ++c) {
    std::vector<Cost> next(states, kMaxCost);
    for (int s = 0; s < states; ++s) {
      Cost own = 0;
      for (int r = 0; r < kRows; ++r) {
        own += problem.nodes[c * kRows + r].candidates[choiceOf(s, r)].cost;
        if (r + 1 < kRows)
          own += rows[choiceOf(s, r) * kCandidates + choiceOf(s, r + 1)];
      }
      for (int before = 0; before < states; ++before) {
        Cost cost = best[before] + own;
        for (int r = 0; r < kRows && c > 0; ++r)
          cost += columns[choiceOf(before, r) * kCandidates + choiceOf(s, r)];
        next[s] = std::min(next[s], cost);
        if (c == 0)
          break;
      }
    }
    best = std::move(next);
  }
  return *std::min_element(best.begin(), best.end());
}

struct Rounds {
  Total cost = 0;
  std::optional<__int128> bound;
  std::vector<int> answer;
  std::uint64_t work = 0;
};

/// None where the rules alone solve it.
std::optional<Rounds> run(const Problem &problem, int rounds, int threads) {
  Reduction::Options options;
  options.stop = [] { return false; };
  Reduction reduction(problem, options);
  if (reduction.core().nodes == 0)
    return std::nullopt;
  Budget budget;
  budget.threads = threads;
  Portfolio portfolio(reduction.core(), budget, options.stop);
  for (int round = 0; round < rounds; ++round)
    portfolio.round(2'000'000, std::nullopt);
  Verdict verdict = verify(problem, reduction.expand(portfolio.best()));
  EXPECT_EQ(verdict.malformed, "");
  return Rounds{verdict.cost, portfolio.exactBound(), portfolio.best(), portfolio.work()};
}

TEST(Portfolio, FirstPassesDecodeTheOptimumWhereTheBoundIsTight) {
  int tried = 0, closed = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Problem problem = makeGrid(true, seed);
    const std::optional<Rounds> first = run(problem, 1, 1);
    if (!first)
      continue;
    const Total optimum = findOptimum(problem);
    ASSERT_TRUE(first->bound);
    EXPECT_TRUE(*first->bound <= optimum) << "seed " << seed;
    EXPECT_TRUE(first->cost >= optimum) << "seed " << seed;
    ++tried;
    closed += first->cost == optimum;
    // Whoever goes on all the same finds the same.
    const Rounds more = *run(problem, 3, 1);
    EXPECT_TRUE(more.cost == optimum) << "seed " << seed;
    EXPECT_GT(more.work, first->work) << "seed " << seed;
  }
  EXPECT_GE(tried, 10);
  EXPECT_GE(4 * closed, 3 * tried) << closed << " of " << tried;
}

TEST(Portfolio, SearchesGoOnFromWhatTheFirstPassesLeaveOpen) {
  int tried = 0, found = 0;
  for (unsigned seed = 0; seed < 8; ++seed) {
    const Problem problem = makeGrid(false, seed);
    const std::optional<Rounds> first = run(problem, 1, 1);
    if (!first)
      continue;
    const Rounds many = *run(problem, 6, 1);
    const Total optimum = findOptimum(problem);
    ASSERT_TRUE(first->bound && many.bound);
    EXPECT_TRUE(*first->bound <= optimum && *many.bound <= optimum) << "seed " << seed;
    EXPECT_TRUE(optimum <= many.cost && many.cost <= first->cost) << "seed " << seed;
    ++tried;
    found += many.cost == optimum;
    EXPECT_EQ(many.answer, run(problem, 6, 3)->answer) << "seed " << seed << ": it depends on the threads";
  }
  EXPECT_GE(tried, 5);
  EXPECT_GE(found, tried - 2) << "of " << tried;
}

} // namespace
