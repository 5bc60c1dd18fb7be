// Properties of solve(): bound <= optimum <= answer, any budget gives a valid answer, the same seed and work
// give the same answer, and what cannot be done is said.
#include "colossal/Search/Solver.h"
#include "RandomProblems.h"
#include "colossal/Search/ProblemText.h"
#include "colossal/Search/Verifier.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

using namespace colossal::search;

namespace {

Budget workBudget(std::uint64_t work, int threads = 1) {
  Budget budget;
  budget.work = work;
  budget.threads = threads;
  return budget;
}

void expectSound(const Problem &problem, const Solution &solution, const std::string &where) {
  Verdict verdict = verify(problem, solution.assignment);
  ASSERT_EQ(verdict.malformed, "") << where;
  EXPECT_TRUE(verdict.cost == solution.cost) << where;
  EXPECT_EQ(verdict.feasible(), solution.feasible) << where;
  EXPECT_EQ(verdict.peakBytes, solution.peakBytes) << where;
  EXPECT_EQ(solution.feasible, solution.message.empty()) << where;
  if (solution.feasible && solution.lowerBound) {
    EXPECT_TRUE(*solution.lowerBound <= solution.cost) << where;
  }
}

class SolverAgainstEnumeration : public ::testing::TestWithParam<Recipe> {};

TEST_P(SolverAgainstEnumeration, BoundOptimumAnswer) {
  int feasible = 0, optimal = 0;
  for (int seed = 1000; seed < 1200; ++seed) {
    Problem problem = randomProblem(GetParam(), seed);
    std::optional<Total> expected = enumerate(problem);
    Solution solution = solve(problem, workBudget(200));
    std::string where = "seed " + std::to_string(seed) + "\n" + printProblem(problem);
    expectSound(problem, solution, where);
    if (!expected) {
      EXPECT_FALSE(solution.feasible) << where;
      continue;
    }
    ++feasible;
    EXPECT_NE(solution.stop, StopReason::Infeasible) << where;
    if (solution.lowerBound) {
      EXPECT_TRUE(*solution.lowerBound <= *expected) << toString(*solution.lowerBound) << " " << where;
    }
    if (solution.stop == StopReason::Optimal) {
      EXPECT_TRUE(solution.cost == *expected) << where;
    }
    optimal += solution.feasible && solution.cost == *expected;
  }
  EXPECT_GT(feasible, 30);
  EXPECT_GE(optimal * 100, feasible * 97) << "local search misses too many optima of tiny problems";
}

INSTANTIATE_TEST_SUITE_P(Recipes, SolverAgainstEnumeration,
                         ::testing::Values(Recipe{6, 3, 8, 3, 10, 30, true, 20},
                                           Recipe{7, 3, 10, 2, 0, 0, true, 50},
                                           Recipe{7, 3, 14, 2, 0, 0, false, 1000},
                                           Recipe{6, 4, 9, 3, 10, 0, true, kMaxCost}));

TEST(Solver, AnyBudgetGivesAValidAnswer) {
  Problem problem = randomProblem({60, 6, 150, 3, 2, 10, true, 1000}, 7);
  for (std::uint64_t work : {1, 10, 100, 1000, 20000})
    expectSound(problem, solve(problem, workBudget(work)), "work " + std::to_string(work));
  for (double seconds : {1e-9, 0.01, 0.2}) {
    Budget budget;
    budget.seconds = seconds;
    budget.threads = 2;
    Solution solution = solve(problem, budget);
    expectSound(problem, solution, "seconds " + std::to_string(seconds));
    EXPECT_LT(solution.seconds, seconds + 1.0);
  }
}

TEST(Solver, WorkMakesTheAnswerIndependentOfThreads) {
  // Little work: local search alone. More: candidates are dropped and exact search begins.
  const std::pair<Recipe, std::uint64_t> cases[] = {{{80, 6, 200, 2, 2, 10, true, 100000}, 3000},
                                                    {{60, 6, 110, 3, 2, 10, true, 1000}, 40000},
                                                    {{60, 5, 90, 2, 0, 0, true, 20}, 40000}};
  for (const auto &[recipe, work] : cases)
    for (std::uint64_t seed : {11, 12}) {
      Problem problem = randomProblem(recipe, seed);
      Solution one = solve(problem, workBudget(work, 1));
      for (int threads : {2, 4, 5}) {
        Solution other = solve(problem, workBudget(work, threads));
        EXPECT_EQ(one.assignment, other.assignment) << threads;
        EXPECT_EQ(one.stop, other.stop) << threads;
        EXPECT_EQ(one.lowerBound.has_value(), other.lowerBound.has_value());
        EXPECT_TRUE(!one.lowerBound || *one.lowerBound == *other.lowerBound) << threads;
      }
    }
}

TEST(Solver, KeepsPairsThatFillTheMemoryLimit) {
  // The cheap candidates together take the last byte, with equal and with shifted times; at another step
  // there is less room.
  for (const char *begin : {"0", "1"}) {
    std::string text = R"({"memory_limit": 100, "nodes": [
      {"candidates": [{"cost": 9}, {"memory": [[0, 2, 60]]}]},
      {"candidates": [{"cost": 5}, {"memory": [[)" +
                       std::string(begin) + R"(, 3, 40]]}]},
      {"candidates": [{"memory": [[5, 6, 80]]}, {"cost": 1, "memory": [[5, 6, 80]]}]}],
      "edges": [{"nodes": [0, 1], "table": [1, 1, 1, 0]}, {"nodes": [1, 2], "table": [0, 1, 0, 1]}]})";
    Solution solution = solve(parseProblem(text).problem, workBudget(100));
    EXPECT_EQ(solution.stop, StopReason::Optimal);
    EXPECT_TRUE(solution.cost == 0);
    EXPECT_EQ(solution.assignment, (Assignment{1, 1, 0}));
  }
}

TEST(Solver, DropsWhatTheMemoryLimitForbids) {
  // The first node's second candidate never fits; without it the cheap pair of the others is left.
  Problem problem = parseProblem(R"({"memory_limit": 100, "nodes": [
    {"candidates": [{"cost": 9, "memory": [[0, 2, 50]]}, {"memory": [[0, 2, 80]]}]},
    {"candidates": [{"cost": 5, "memory": [[1, 3, 30]]}, {"memory": [[1, 3, 50]]}]}],
    "edges": [{"nodes": [0, 1], "table": [0, 3, 0, 0]}]})")
                        .problem;
  Solution solution = solve(problem, workBudget(100));
  EXPECT_EQ(solution.stop, StopReason::Optimal);
  EXPECT_TRUE(solution.cost == 12);
  EXPECT_EQ(solution.assignment, (Assignment{0, 1}));
}

TEST(Solver, MemoryThatRulesOutEveryAllowedChoiceIsNotCalledForbidden) {
  // Each candidate fits alone, and beside the least of the other; the allowed pairs do not.
  Problem problem = parseProblem(R"({"memory_limit": 100, "nodes": [
    {"candidates": [{"memory": [[0, 2, 20]]}, {"memory": [[0, 2, 70]]}]},
    {"candidates": [{"memory": [[1, 3, 20]]}, {"memory": [[1, 3, 60]]}]}],
    "edges": [{"nodes": [0, 1], "table": [null, null, null, 0]}]})")
                        .problem;
  Solution solution = solve(problem, workBudget(100));
  EXPECT_FALSE(solution.feasible);
  EXPECT_EQ(solution.stop, StopReason::Infeasible);
  EXPECT_EQ(solution.forbidden, 0)
      << "an allowed answer that does not fit comes before one that is not allowed";
  EXPECT_EQ(solution.peakBytes, 130);
  EXPECT_NE(solution.message.find("memory limit of 100"), std::string::npos) << solution.message;
}

TEST(Solver, EqualBlocksAreFast) {
  // 96 blocks of 20 nodes, 24 candidates each, a residual edge around each half.
  Problem problem;
  std::vector<std::shared_ptr<const CostTable>> tables;
  std::uint64_t state = 1;
  for (int t = 0; t < 8; ++t) {
    auto table = std::make_shared<CostTable>();
    for (int k = 0; k < 24 * 24; ++k)
      table->push_back(
          static_cast<Cost>((state = state * 6364136223846793005ULL + 1442695040888963407ULL) >> 45));
    tables.push_back(table);
  }
  for (int i = 0; i < 96 * 20; ++i) {
    Node &node = problem.nodes.emplace_back();
    for (int k = 0; k < 24; ++k)
      node.candidates.push_back({(i % 20 * 7 + k * 13) % 31 * 1000, {}});
    if (i > 0)
      problem.addEdge(i - 1, i, tables[i % 20 % 8]);
    if (i >= 10 && i % 10 == 0)
      problem.addEdge(i - 10, i, tables[i % 20 / 10]);
  }
  auto start = std::chrono::steady_clock::now();
  Solution solution = solve(problem, Budget{});
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(solution.stop, StopReason::Optimal);
  EXPECT_LT(seconds, 10.0) << "0.2 s on a quiet machine";
}

TEST(Solver, SaysByHowMuchNothingFits) {
  Problem problem = parseProblem(R"({"memory_limit": 100, "nodes": [
    {"candidates": [{"memory": [[0, 2, 80]]}, {"cost": 5, "memory": [[0, 2, 60]]}]},
    {"candidates": [{"memory": [[1, 3, 90]]}, {"cost": 5, "memory": [[1, 3, 50]]}]}]})")
                        .problem;
  Solution solution = solve(problem, workBudget(100));
  EXPECT_FALSE(solution.feasible);
  EXPECT_EQ(solution.stop, StopReason::Infeasible);
  EXPECT_EQ(solution.peakBytes, 110);
  EXPECT_EQ(solution.message.find(
                "no assignment fits the memory limit of 100 bytes; the smallest peak found is 110"),
            0u)
      << solution.message;
}

TEST(Solver, SaysWhatIsForbiddenAndRefusesBadProblems) {
  Problem problem = parseProblem(R"({"nodes": [{"candidates": [{}, {}]}, {"candidates": [{"cost": 3}]}],
    "edges": [{"nodes": [0, 1], "table": [null, null]}]})")
                        .problem;
  Solution solution = solve(problem, workBudget(100));
  EXPECT_FALSE(solution.feasible);
  EXPECT_EQ(solution.forbidden, 1);
  EXPECT_EQ(solution.stop, StopReason::Infeasible);
  problem.edges[0].nodes[1] = 5;
  Solution refused = solve(problem, workBudget(100));
  EXPECT_TRUE(refused.assignment.empty());
  EXPECT_EQ(refused.message, "edges[0].nodes[1]: node 5 does not exist, there are 2");
}

#ifdef CBC_PROGRAM
/// The optimum by CBC: one binary per candidate, one per allowed pair of candidates of an edge.
std::optional<double> solveByCbc(const Problem &problem) {
  std::string path = ::testing::TempDir() + "/colossal-oracle-" + std::to_string(::getpid()) + ".lp",
              answer = path + ".sol";
  {
    std::ofstream lp(path);
    lp << "Minimize\n obj: 0 one";
    auto term = [&](Cost cost, const std::string &name) {
      if (cost != kForbidden)
        lp << (cost < 0 ? " - " : " + ") << std::abs(cost) << " " << name << "\n";
    };
    auto x = [](std::size_t i, std::size_t k) { return "x" + std::to_string(i) + "_" + std::to_string(k); };
    auto y = [](std::size_t e, std::size_t k) { return "y" + std::to_string(e) + "_" + std::to_string(k); };
    for (std::size_t i = 0; i < problem.nodes.size(); ++i)
      for (std::size_t k = 0; k < problem.nodes[i].candidates.size(); ++k)
        term(problem.nodes[i].candidates[k].cost, x(i, k));
    for (std::size_t e = 0; e < problem.edges.size(); ++e)
      for (std::size_t k = 0; k < problem.edges[e].table->size(); ++k)
        term((*problem.edges[e].table)[k], y(e, k));
    lp << "Subject To\n one = 1\n";
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      for (std::size_t k = 0; k < problem.nodes[i].candidates.size(); ++k)
        lp << (k ? " + " : " ") << x(i, k);
      lp << " = 1\n";
      for (std::size_t k = 0; k < problem.nodes[i].candidates.size(); ++k)
        if (problem.nodes[i].candidates[k].cost == kForbidden)
          lp << " " << x(i, k) << " = 0\n";
    }
    for (std::size_t e = 0; e < problem.edges.size(); ++e) {
      const Edge &edge = problem.edges[e];
      std::size_t stride = edge.table->size();
      for (std::int32_t node : edge.nodes) {
        std::size_t count = problem.nodes[node].candidates.size();
        stride /= count;
        for (std::size_t c = 0; c < count; ++c) {
          for (std::size_t k = 0; k < edge.table->size(); ++k)
            if ((k / stride) % count == c && (*edge.table)[k] != kForbidden)
              lp << " + " << y(e, k) << "\n";
          lp << " - " << x(node, c) << " = 0\n";
        }
      }
    }
    for (std::int64_t t = 0; problem.memoryLimit && t < 16; ++t) {
      lp << " 0 one\n";
      for (std::size_t i = 0; i < problem.nodes.size(); ++i)
        for (std::size_t k = 0; k < problem.nodes[i].candidates.size(); ++k) {
          std::int64_t bytes = 0;
          for (const MemoryUse &use : problem.nodes[i].candidates[k].memory)
            bytes += use.begin <= t && t < use.end ? use.bytes : 0;
          if (bytes > 0)
            lp << " + " << bytes << " " << x(i, k) << "\n";
        }
      lp << " <= " << *problem.memoryLimit << "\n";
    }
    lp << "Binaries\n";
    for (std::size_t i = 0; i < problem.nodes.size(); ++i)
      for (std::size_t k = 0; k < problem.nodes[i].candidates.size(); ++k)
        lp << " " << x(i, k) << "\n";
    lp << "End\n";
  }
  std::string command = std::string(CBC_PROGRAM) + " " + path + " ratio 0 allow 0 solve solution " + answer +
                        " > /dev/null 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::ifstream in(answer);
  std::string line;
  std::getline(in, line);
  std::remove(path.c_str());
  std::remove(answer.c_str());
  if (line.rfind("Optimal", 0) != 0)
    return std::nullopt;
  return std::stod(line.substr(line.rfind(' ')));
}

TEST(Solver, AgreesWithAnIntegerProgram) {
  int feasible = 0, equal = 0;
  for (int seed = 0; seed < 12; ++seed) {
    Problem problem = randomProblem({18, 4, 26, 2, 3, 10, true, 100}, 500 + seed);
    std::optional<double> expected = solveByCbc(problem);
    Solution solution = solve(problem, workBudget(2000));
    expectSound(problem, solution, std::to_string(seed));
    if (!expected) {
      EXPECT_FALSE(solution.feasible) << seed;
      continue;
    }
    ++feasible;
    EXPECT_GE(static_cast<double>(solution.cost) + 1e-6, solution.feasible ? *expected : -1e9) << seed;
    if (solution.lowerBound) {
      EXPECT_LE(static_cast<double>(*solution.lowerBound), *expected + 1e-6) << seed;
    }
    equal += solution.feasible && std::abs(static_cast<double>(solution.cost) - *expected) < 1e-6;
  }
  EXPECT_GT(feasible, 3);
  EXPECT_GE(equal, feasible - 1);
}
#endif

} // namespace
