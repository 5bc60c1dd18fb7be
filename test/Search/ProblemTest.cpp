// Problems: text in both forms, messages that name the place, and the verifier's arithmetic.
#include "RandomProblems.h"
#include "colossal/Search/ProblemText.h"
#include "colossal/Search/Verifier.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdio>

using namespace colossal::search;

namespace {

const char *kContest = R"({"problem": {"name": "t",
  "nodes": {"intervals": [[0, 2], [1, 3], [0, 0]], "costs": [[3, 5], [1, 1000000000000000000], [0]],
            "usages": [[60, 0], [50, 50], [9]]},
  "edges": {"nodes": [[0, 1], [1, 2]], "costs": [[0, 1, 5, 7], [1e18, 2.0]]}, "usage_limit": 100}})";

TEST(ProblemText, ReadsTheContestForm) {
  ReadResult read = parseProblem(kContest);
  ASSERT_EQ(read.error, "");
  EXPECT_EQ(read.form, ProblemForm::Contest);
  const Problem &problem = read.problem;
  ASSERT_EQ(problem.nodes.size(), 3u);
  EXPECT_EQ(problem.nodes[1].candidates[1].cost, kForbidden);
  EXPECT_EQ(problem.nodes[0].candidates[0].memory, (std::vector<MemoryUse>{{0, 2, 60}}));
  EXPECT_TRUE(problem.nodes[2].candidates[0].memory.empty()) << "an empty interval holds nothing";
  EXPECT_EQ(*problem.edges[1].table, (CostTable{kForbidden, 2}));
  EXPECT_EQ(problem.memoryLimit, 100);
}

TEST(ProblemText, AContestIntervalOfOneStepHolds) {
  ReadResult read =
      parseProblem(R"({"problem": {"name": "t", "usage_limit": 100, "edges": {"nodes": [], "costs": []},
    "nodes": {"intervals": [[1, 2]], "costs": [[0]], "usages": [[7]]}}})");
  ASSERT_EQ(read.error, "");
  EXPECT_EQ(read.problem.nodes[0].candidates[0].memory, (std::vector<MemoryUse>{{1, 2, 7}}));
}

TEST(ProblemText, NativeFormIsReadAndPrintedBack) {
  ReadResult read = readProblem(std::string(SEARCH_TEST_DATA) + "/two-blocks.json");
  ASSERT_EQ(read.error, "");
  ReadResult again = parseProblem(printProblem(read.problem));
  ASSERT_EQ(again.error, "");
  EXPECT_EQ(printProblem(again.problem), printProblem(read.problem));
  EXPECT_EQ(again.problem.nodes[3].candidates[1].memory.size(), 2u);
  for (int seed = 0; seed < 50; ++seed) {
    Recipe recipe;
    recipe.classes = seed % 2 ? 50 : 0;
    Problem problem = randomProblem(recipe, seed);
    ASSERT_EQ(validate(problem), "");
    std::string text = printProblem(problem);
    ReadResult back = parseProblem(text);
    ASSERT_EQ(back.error, "") << text;
    EXPECT_EQ(printProblem(back.problem), text);
    Assignment zero(problem.nodes.size(), 0);
    EXPECT_TRUE(verify(problem, zero).cost == verify(back.problem, zero).cost);
  }
}

TEST(ProblemText, EqualTablesAreShared) {
  ReadResult read =
      parseProblem(R"({"nodes": [{"candidates": [{}, {}]}, {"candidates": [{}]}, {"candidates": [{}]}],
    "edges": [{"nodes": [0, 1], "table": [1, 2]}, {"nodes": [0, 2], "table": [1, 2]}]})");
  ASSERT_EQ(read.error, "");
  EXPECT_EQ(read.problem.edges[0].table, read.problem.edges[1].table);
}

TEST(ProblemText, GzipIsReadAndATruncatedFileRefused) {
  std::string path = ::testing::TempDir() + "/contest-" + std::to_string(::getpid()) + ".json.gz";
  gzFile out = gzopen(path.c_str(), "wb");
  gzputs(out, kContest);
  gzclose(out);
  EXPECT_EQ(readProblem(path).error, "");
  std::FILE *file = std::fopen(path.c_str(), "rb");
  char bytes[4096];
  std::size_t size = std::fread(bytes, 1, sizeof bytes, file);
  std::fclose(file);
  file = std::fopen(path.c_str(), "wb");
  std::fwrite(bytes, 1, size / 2, file);
  std::fclose(file);
  EXPECT_NE(readProblem(path).error, "");
  std::remove(path.c_str());
  EXPECT_NE(readProblem(path + ".missing").error.find("cannot be opened"), std::string::npos);
}

TEST(ProblemText, EveryPrefixAndEveryFlippedByteIsRefusedOrRead) {
  std::string text = kContest;
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_NE(parseProblem(text.substr(0, size)).error, "") << size;
  for (std::size_t at = 0; at < text.size(); ++at)
    for (char c : {'[', '"', '9', '-', '\0', ','}) {
      std::string broken = text;
      broken[at] = c;
      ReadResult read = parseProblem(broken);
      if (read.error.empty()) {
        EXPECT_EQ(validate(read.problem), "");
      }
    }
}

struct Mistake {
  const char *text, *message;
};

TEST(ProblemText, MistakesAreNamedWithTheirPlace) {
  const Mistake mistakes[] = {
      {R"({"nodes": [{"candidates": []}]})", "nodes[0]: has no candidates"},
      {R"({"nodes": [{"name": "w", "candidates": [{"cost": 2000000000000000000}]}]})",
       "nodes[0] ('w').candidates[0]: cost 2000000000000000000 is outside +-10^18"},
      {R"({"nodes": [{"candidates": [{"memory": [[0, 1, -4]]}]}]})",
       "nodes[0].candidates[0]: -4 bytes is negative"},
      {R"({"nodes": [{"candidates": [{}, {}]}], "edges": [{"nodes": [0], "table": [1]}]})",
       "edges[0]: table has 1 costs, its nodes have 2 candidates"},
      {R"({"nodes": [{"candidates": [{}]}], "edges": [{"nodes": [0, 1], "table": [1]}]})",
       "edges[0].nodes[1]: node 1 does not exist, there are 1"},
      {R"({"nodes": [{"candidates": [{}]}], "edges": [{"nodes": [0, 0], "table": [1]}]})",
       "edges[0].nodes[1]: node 0 stands twice"},
      {R"({"nodes": [{"candidates": [{}, {}]}], "edges": [{"nodes": [0], "table": [1], "classes": [[0]]}]})",
       "edges[0].classes[0]: tells the classes of 1 candidates, the node has 2"},
      {R"({"nodes": [{"candidates": [{}, {}, {}]}], "edges": [{"nodes": [0], "table": [1, 2, 3], "classes": [[0, 2, 2]]}]})",
       "edges[0].classes[0]: class 1 has no candidate"},
      {R"({"nodes": [{"candidates": [{}, {}]}], "edges": [{"nodes": [0], "table": [1, 2], "classes": [[0, 0]]}]})",
       "edges[0]: table has 2 costs, its nodes have 1 classes"},
      {R"({"memory_limit": -1, "nodes": []})", "memory_limit: -1 is outside 0..2^52"},
      {R"({"nodes": [{"candidates": [{"prize": 1}]}]})",
       "byte 36, in nodes.candidates.prize: unknown key 'prize'"},
      {R"({"nodes": [{"candidates": [{"cost": 1.5}]}]})",
       "byte 36, in nodes.candidates.cost: expected a whole number, found '1.5'"},
      {R"({"nodes": [)", "byte 11, in nodes: expected '{', found the end of the text"},
      {R"({})", "the problem has no nodes: there is nothing to choose"},
      {R"({"nodes": []})", "the problem has no nodes: there is nothing to choose"},
      {R"({"nodes": [{"candidates": [{"memory": [[4, 1, 4]]}]}]})",
       "byte 48, in nodes.candidates.memory: memory from step 4 to 1 ends before it begins"},
      {R"({"nodes": [{"candidates": [{}]}], "nodes": []})", "byte 41: key 'nodes' stands twice"},
      {R"({"nodes": [{"candidates": [{}]}]} {})", "byte 34: text after the end"},
      {R"({"problem": {}})", "byte 14, in problem: the problem has no 'nodes'"},
      {R"({"problem": {"nodes": {"costs": [[1]]}}})", "byte 39, in problem: the problem has no 'edges'"},
      {R"({"problem": {"nodes": {}, "edges": {}}})", "byte 38, in problem: problem.nodes has no 'costs'"},
      {R"({"problem": {"nodes": {"costs": []}, "edges": {}}})",
       "the problem has no nodes: there is nothing to choose"},
      {R"({"problem": {"nodes": {"costs": [[NaN]]}, "edges": {}}})",
       "byte 34, in problem.nodes.costs: expected a whole number"},
      {R"({"problem": {"nodes": {"costs": [[1]], "usages": [[1]]}, "edges": {}}})",
       "byte 69, in problem: problem.nodes has no 'intervals'"},
      {R"({"problem": {"nodes": {"costs": [[1]], "usages": [[1]], "intervals": []}, "edges": {}}})",
       "byte 86, in problem: problem.nodes has 1 costs and 0 intervals"},
      {R"({"problem": {"nodes": {"costs": [[1]], "usages": [[1]], "intervals": [[3, 2]]}, "edges": {}}})",
       "byte 76, in problem.nodes.intervals: interval 0 is from 3 to 2: it ends before it begins"},
      {R"({"problem": {"nodes": {"costs": [[1]]}, "edges": {"costs": [[1]]}}})",
       "byte 66, in problem: problem.edges has 0 nodes and 1 costs"},
      {R"({"problem": {"nodes": {"costs": [[1]]}, "edges": {}, "other": NaN}})",
       "byte 62, in problem.other: expected a value"}};
  for (const Mistake &mistake : mistakes)
    EXPECT_EQ(parseProblem(mistake.text).error, mistake.message) << mistake.text;
}

TEST(Verifier, CountsCostForbiddenChoicesAndThePeak) {
  Problem problem = parseProblem(kContest).problem;
  Verdict good = verify(problem, {1, 0, 0});
  EXPECT_EQ(good.malformed, "");
  EXPECT_TRUE(good.cost == 5 + 1 + 5);
  EXPECT_EQ(good.forbidden, 1) << "edge 1 forbids candidate 0 of node 1";
  Verdict full = verify(problem, {0, 1, 0});
  EXPECT_EQ(full.peakBytes, 110);
  EXPECT_EQ(full.peakStep, 1);
  EXPECT_EQ(full.excessBytes, 10);
  EXPECT_FALSE(full.feasible());
  EXPECT_NE(verify(problem, {0, 1}).malformed, "");
  EXPECT_NE(verify(problem, {0, 2, 0}).malformed, "");
}

TEST(Verifier, TotalsHoldMoreThanSixtyFourBits) {
  Problem problem;
  for (int i = 0; i < 40; ++i)
    problem.nodes.push_back({"", {{kMaxCost, {}}}});
  ASSERT_EQ(validate(problem), "");
  EXPECT_EQ(toString(verify(problem, Assignment(40, 0)).cost), "40000000000000000000");
  EXPECT_EQ(toString(-static_cast<Total>(kMaxCost) * 40), "-40000000000000000000");
}

TEST(Problem, SecondsBecomePicoseconds) {
  EXPECT_EQ(costFromSeconds(1.5e-6), 1'500'000);
  EXPECT_EQ(costFromSeconds(-1), 0);
  EXPECT_EQ(costFromSeconds(1e30), kMaxCost);
  EXPECT_DOUBLE_EQ(secondsFromCost(1'500'000), 1.5e-6);
}

} // namespace
