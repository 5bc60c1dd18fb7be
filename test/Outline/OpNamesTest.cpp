//===- OpNamesTest.cpp - pins of layers in one line ----------------------------===//
#include "colossal/Outline/OpNames.h"

#include "gtest/gtest.h"

using namespace colossal::outline;

namespace {

TEST(EscapeName, MatchesTheNameAndNothingElse) {
  EXPECT_EQ(escapeName("h.0/Mul"), "h\\.0/Mul");
  EXPECT_EQ(escapeName("..(a)$"), "\\.\\.\\(a\\)\\$");
  EXPECT_EQ(escapeName(""), "");
  std::string error;
  for (const std::string name : {"h.0/Mul", "..(a)$", "\\", "a"}) {
    std::optional<NamePattern> pattern = NamePattern::parse(escapeName(name), error);
    ASSERT_TRUE(pattern) << error;
    EXPECT_TRUE(pattern->matches({name}));
    EXPECT_FALSE(pattern->matches({name + "x"}));
  }
  std::string text = "x=";
  appendEscaped("a.b", text);
  EXPECT_EQ(text, "x=a\\.b");
}

TEST(JoinPins, LayersOfOneLayoutAreOneLine) {
  EXPECT_EQ(joinPins("/h\\.0/MatMul=n:x\n"
                     "/h\\.0/Add_1=replicated\n"
                     "/h\\.1/MatMul=n:x\n"
                     "/h\\.1/Add_1=d0:x\n"
                     "head=replicated\n"
                     "/h\\.10/MatMul=n:x\n"),
            "/h\\.\\d+/MatMul=n:x\n"
            "/h\\.0/Add_1=replicated\n"
            "/h\\.1/Add_1=d0:x\n"
            "head=replicated\n");
}

TEST(JoinPins, WhatIsNumberedInALayerIsToldApart) {
  EXPECT_EQ(joinPins("/h\\.0/Add=d0:x\n"
                     "/h\\.0/Add_1=d1:x\n"
                     "/h\\.0/Add_2=d0:x\n"
                     "/h\\.1/Add=d0:x\n"
                     "/h\\.1/Add_1=d1:x\n"
                     "/h\\.1/Add_2=d0:x\n"
                     "/h\\.2/Add_1=d1:x\n"
                     "/h\\.2/Add_2=replicated\n"),
            "/h\\.\\d+/Add=d0:x\n"
            "/h\\.\\d+/Add_1=d1:x\n"
            "/h\\.(0|1)/Add_2=d0:x\n"
            "/h\\.2/Add_2=replicated\n");
}

TEST(JoinPins, WhatIsNumberedThroughTheModelIsListed) {
  EXPECT_EQ(joinPins("MatMul_17=[8,4]\nMatMul_18=[4,8]\nMatMul_27=[8,4]\nMatMul_28=[4,8]\nMatMul_39=[8]\n"),
            "MatMul_(17|27)=[8,4]\nMatMul_(18|28)=[4,8]\nMatMul_39=[8]\n");
}

// Nor is "x" one of the names that "x1" stands for when its number is left open.
TEST(JoinPins, ANameWithoutANumberIsNoneOfThoseWithOne) {
  EXPECT_EQ(joinPins("x=[8]\nx1=[8]\nx2=[4]\n"), "x=[8]\nx1=[8]\nx2=[4]\n");
  EXPECT_EQ(joinPins("x=[8]\nx1=[8]\nx2=[8]\n"), "x=[8]\nx\\d+=[8]\n");
}

TEST(JoinPins, AnExpressionMatchesWhatItWasMadeOf) {
  std::string joined = joinPins("a\\[1\\]=b=x=replicated\na\\[22\\]=b=x=replicated\n"), error;
  ASSERT_EQ(joined, "a\\[\\d+\\]=b=x=replicated\n");
  auto pattern = NamePattern::parse(joined.substr(0, joined.rfind('=')), error);
  ASSERT_TRUE(pattern) << error;
  EXPECT_TRUE(pattern->matches({"a[1]=b=x"}));
  EXPECT_TRUE(pattern->matches({"a[22]=b=x"}));
  EXPECT_FALSE(pattern->matches({"a[]=b=x"}));
  EXPECT_FALSE(pattern->matches({"a[2]=b=x2"}));
}

} // namespace
