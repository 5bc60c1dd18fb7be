//===- GroupOrderTest.cpp - needs between groups, against a plain closure -----===//
#include "GroupOrder.h"

#include "gtest/gtest.h"

#include <random>

using namespace colossal::schedule;

namespace {

// Groups are added and needs asked and added as fusion does it, in any order; a matrix that is closed after
// each need says what is true.
TEST(GroupOrder, AnswersAsTheClosureOfAllNeeds) {
  std::mt19937 random(7);
  unsigned yes = 0, no = 0;
  for (int round = 0; round < 40; ++round) {
    GroupOrder order;
    std::vector<std::vector<bool>> needs;
    for (int step = 0; step < 300; ++step) {
      if (needs.size() < 2 || random() % 8 == 0) {
        EXPECT_EQ(order.add(), needs.size());
        for (auto &row : needs)
          row.push_back(false);
        needs.emplace_back(needs.size() + 1, false);
        continue;
      }
      unsigned count = needs.size(), a = random() % count, b = random() % count, c = random() % count;
      EXPECT_EQ(order.needsAny(a, {b, c}), needs[a][b] || needs[a][c]) << round << " " << step;
      (needs[a][b] ? yes : no)++;
      if (a == b || needs[b][a])
        continue;
      order.require(a, b);
      for (unsigned from = 0; from < count; ++from)
        if (from == a || needs[from][a])
          for (unsigned to = 0; to < count; ++to)
            if (to == b || needs[b][to])
              needs[from][to] = true;
    }
  }
  EXPECT_GT(yes, 1000u);
  EXPECT_GT(no, 1000u);
}

} // namespace
