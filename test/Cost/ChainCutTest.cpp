// Cuts of a chain into stages, against all cuts of small chains.
#include "colossal/Cost/ChainCut.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace colossal::cost;

namespace {

struct Judged {
  double seconds = 0;
  bool fits = true;
};

Judged judge(const std::vector<ChainPart> &parts, const std::vector<std::size_t> &firsts, int microbatches,
             double memory) {
  Judged result;
  for (std::size_t s = 0; s < firsts.size(); ++s) {
    double seconds = 0, bytes = 0, transient = 0;
    double held = std::min<double>(static_cast<double>(firsts.size() - s), microbatches);
    for (std::size_t i = firsts[s]; i < (s + 1 < firsts.size() ? firsts[s + 1] : parts.size()); ++i) {
      seconds += parts[i].seconds;
      bytes += parts[i].stateBytes + held * parts[i].keptBytes;
      transient = std::max(transient, parts[i].transientBytes);
    }
    result.seconds = std::max(result.seconds, seconds);
    result.fits &= bytes + transient <= memory;
  }
  return result;
}

TEST(ChainCut, IsTheBestOfAllCuts) {
  std::mt19937 random(7);
  auto below = [&](int n) { return static_cast<double>(random() % static_cast<unsigned>(n)); };
  int fitting = 0, cramped = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<ChainPart> parts(4 + random() % 5);
    for (ChainPart &part : parts)
      part = {1 + below(9), below(20), below(4), below(5)};
    int stages = 1 + static_cast<int>(random() % 4), microbatches = 1 + static_cast<int>(random() % 4);
    double memory = 20 + below(60), best = std::numeric_limits<double>::infinity(), any = best;
    for (unsigned mask = 0; mask < 1u << (parts.size() - 1); ++mask) {
      std::vector<std::size_t> firsts{0};
      for (std::size_t i = 1; i < parts.size(); ++i)
        if (mask >> (i - 1) & 1)
          firsts.push_back(i);
      if (firsts.size() != static_cast<std::size_t>(stages))
        continue;
      Judged cut = judge(parts, firsts, microbatches, memory);
      any = std::min(any, cut.seconds);
      if (cut.fits)
        best = std::min(best, cut.seconds);
    }
    std::vector<std::size_t> found = cutChain(parts, stages, microbatches, memory);
    ASSERT_EQ(found.size(), static_cast<std::size_t>(stages));
    ASSERT_EQ(found.front(), 0u);
    ASSERT_TRUE(std::is_sorted(found.begin(), found.end()));
    Judged cut = judge(parts, found, microbatches, memory);
    bool possible = best < std::numeric_limits<double>::infinity();
    EXPECT_EQ(cut.fits, possible);
    EXPECT_NEAR(cut.seconds, possible ? best : any, 1e-6);
    ++(possible ? fitting : cramped);
  }
  EXPECT_GT(fitting, 50);
  EXPECT_GT(cramped, 20);
}

TEST(ChainCut, FewerPartsThanStagesHaveNone) {
  EXPECT_TRUE(cutChain({{1, 0, 0, 0}}, 2, 1, 1).empty());
  EXPECT_TRUE(cutChain({}, 1, 1, 1).empty());
}

} // namespace
