//===- ArenaAllocatorTest.cpp - places of buffers -------------------------------===//
//
// Apart where they are alive together, and where a look at all pairs of them puts them, or closer together.
//
//===----------------------------------------------------------------------===//
#include "ArenaAllocator.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <numeric>
#include <random>

using colossal::schedule::allocate;
using colossal::schedule::ArenaPlan;
using colossal::schedule::Lifetime;

namespace {

constexpr uint64_t kAlignment = 64;

uint64_t align(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool meet(const Lifetime &a, const Lifetime &b) {
  return a.first <= b.last && b.first <= a.last;
}

/// The algorithm's own words: the largest first, each in the smallest gap that fits it.
std::vector<uint64_t> placeByPairs(const std::vector<Lifetime> &lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return align(lifetimes[a].bytes) != align(lifetimes[b].bytes)
               ? align(lifetimes[a].bytes) > align(lifetimes[b].bytes)
               : lifetimes[a].first < lifetimes[b].first;
  });
  std::vector<uint64_t> offsets(lifetimes.size());
  std::vector<size_t> placed;
  for (size_t item : order) {
    const uint64_t need = align(lifetimes[item].bytes);
    uint64_t end = 0, best = 0, least = UINT64_MAX;
    std::sort(placed.begin(), placed.end(), [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
    for (size_t other : placed) {
      if (!meet(lifetimes[item], lifetimes[other]))
        continue;
      if (offsets[other] >= end + need && offsets[other] - end < least) {
        best = end;
        least = offsets[other] - end;
      }
      end = std::max(end, offsets[other] + align(lifetimes[other].bytes));
    }
    offsets[item] = least == UINT64_MAX ? end : best;
    placed.push_back(item);
  }
  return offsets;
}

TEST(ArenaAllocator, PlacesAsByAllPairs) {
  std::mt19937 random(7);
  int smaller = 0, close = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lifetimes(1 + random() % 60);
    for (Lifetime &life : lifetimes) {
      life.bytes = 1 + random() % 1000;
      life.first = static_cast<int64_t>(random() % 40);
      // Most live for moments, some all along.
      life.last = life.first + static_cast<int64_t>(random() % (random() % 8 ? 4 : 60));
    }
    ArenaPlan plan = allocate(lifetimes, kAlignment);
    const std::vector<uint64_t> byPairs = placeByPairs(lifetimes);
    uint64_t bytes = 0;
    for (size_t i = 0; i < lifetimes.size(); ++i)
      bytes = std::max(bytes, byPairs[i] + align(lifetimes[i].bytes));
    if (bytes <= plan.bound + plan.bound / 256) { // close enough: nothing else is tried
      EXPECT_EQ(plan.offsets, byPairs) << "round " << round;
    }
    EXPECT_LE(plan.bytes, bytes) << "round " << round;
    EXPECT_GE(plan.bytes, plan.bound);
    smaller += plan.bytes < bytes;
    close += plan.bytes <= plan.bound + plan.bound / 256;
    for (size_t a = 0; a < lifetimes.size(); ++a)
      for (size_t b = 0; b < a; ++b)
        EXPECT_TRUE(!meet(lifetimes[a], lifetimes[b]) ||
                    plan.offsets[a] + lifetimes[a].bytes <= plan.offsets[b] ||
                    plan.offsets[b] + lifetimes[b].bytes <= plan.offsets[a])
            << "round " << round << ": " << a << " and " << b;
  }
  EXPECT_GE(smaller, 50); // of 200
  EXPECT_GE(close, 190);  // of 200
}

TEST(ArenaAllocator, TakesNothingForNothing) {
  EXPECT_EQ(allocate({}).bytes, 0u);
}

} // namespace
