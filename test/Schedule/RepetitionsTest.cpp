//===- RepetitionsTest.cpp - equal parts of sequences --------------------------===//
#include "Repetitions.h"

#include "gtest/gtest.h"

#include <random>
#include <string>

using namespace colossal::schedule;

namespace {

std::vector<Repetition> find(const std::string &text, int64_t least) {
  std::vector<unsigned> words;
  for (char c : text)
    words.push_back(c == '.' ? 0 : static_cast<unsigned>(c));
  return findRepetitions(words, 1, least);
}

using Starts = std::vector<size_t>;

TEST(Repetitions, LayersAreOne) {
  std::vector<Repetition> found = find("xyabcdeabcdeabcdez", 4);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].length, 5u);
  EXPECT_EQ(found[0].starts, (Starts{2, 7, 12}));
}

TEST(Repetitions, LayersAreNotCalledInPairs) {
  for (size_t layers : {7, 16, 64}) {
    std::string text;
    for (size_t i = 0; i < layers; ++i)
      text += "abcde";
    std::vector<Repetition> found = find(text, 4);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].length, 5u);
    EXPECT_EQ(found[0].starts.size(), layers);
  }
}

TEST(Repetitions, ALayerOfItsOwnLeavesTheOthersOne) {
  // The second run could begin anywhere in a layer; what is left of it before is no part of another.
  std::vector<Repetition> found = find("abcdeabcdeabcdeXdeabcdeabcde", 4);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].starts, (Starts{0, 5, 10, 18, 23}));
}

TEST(Repetitions, ASinglePartElsewhereIsFound) {
  std::vector<Repetition> found = find("abcdeX.abcdeabcdeabcde", 4);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].starts, (Starts{0, 7, 12, 17}));
}

TEST(Repetitions, WhatSavesTooLittleStays) {
  EXPECT_TRUE(find("abab", 1).empty());
  EXPECT_TRUE(find("abcabc", 2).empty());
  EXPECT_EQ(find("abcabc", 1).size(), 1u);
}

TEST(Repetitions, BarriersEqualNothing) {
  EXPECT_TRUE(find("abc.abc.abc.abc.", 1).empty());
  EXPECT_TRUE(find("........", 1).empty());
}

TEST(Repetitions, PartsAreEqualAndApart) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<unsigned> words, layer;
    for (unsigned i = 0; i < 3 + random() % 8; ++i)
      layer.push_back(random() % 6);
    for (unsigned i = 0; i < 12; ++i) {
      words.insert(words.end(), layer.begin(), layer.end());
      if (random() % 4 == 0)
        words.push_back(random() % 6);
    }
    std::vector<bool> taken(words.size());
    for (const Repetition &repetition : findRepetitions(words, 1, 3)) {
      EXPECT_GE(countSaved(repetition.length, repetition.starts.size()), 3);
      for (size_t start : repetition.starts)
        for (size_t i = 0; i < repetition.length; ++i) {
          ASSERT_LT(start + i, words.size());
          EXPECT_FALSE(taken[start + i]);
          taken[start + i] = true;
          EXPECT_EQ(words[start + i], words[repetition.starts.front() + i]);
          EXPECT_NE(words[start + i], 0u);
        }
    }
  }
}

} // namespace
