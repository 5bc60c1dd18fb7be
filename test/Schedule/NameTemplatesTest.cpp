//===- NameTemplatesTest.cpp - names of places come back from one text --------===//
#include "NameTemplates.h"

#include "colossal/Plan/Names.h"
#include "gtest/gtest.h"

using colossal::schedule::NameTemplates;

namespace {

/// The texts of names by instruction and place; checks that every place gets its own back.
std::vector<std::string> makeTexts(const std::vector<std::vector<std::string>> &names, size_t &gaps) {
  const size_t places = names.front().size();
  NameTemplates templates(places);
  std::vector<std::string> texts;
  for (const std::vector<std::string> &of : names)
    texts.push_back(templates.add(std::vector<llvm::StringRef>(of.begin(), of.end())));
  for (size_t place = 0; place < places; ++place) {
    google::protobuf::RepeatedPtrField<std::string> filling;
    for (const std::string &name : templates.getNames(place))
      *filling.Add() = name;
    gaps = filling.size();
    for (size_t i = 0; i < names.size(); ++i)
      EXPECT_EQ(colossal::plan::fillNames(texts[i], filling), names[i][place]) << texts[i];
  }
  return texts;
}

TEST(NameTemplates, LayersDifferByTheirNumber) {
  size_t gaps = 0;
  EXPECT_EQ(makeTexts({{"/h.0/attn/MatMul", "/h.1/attn/MatMul", "/h.10/attn/MatMul"},
                       {"/h.0/mlp/MatMul_1", "/h.1/mlp/MatMul_1", "/h.10/mlp/MatMul_1"},
                       {"mask", "mask", "mask"},
                       {"/h.1/ln", "/h.2/ln", "/h.11/ln"}}, // of the layer after it
                      gaps),
            (std::vector<std::string>{"/h.{0}/attn/MatMul", "/h.{0}/mlp/MatMul_1", "mask", "/h.{0+1}/ln"}));
  EXPECT_EQ(gaps, 1u);
}

TEST(NameTemplates, NumbersThroughTheWholeModelShareAGap) {
  size_t gaps = 0;
  EXPECT_EQ(makeTexts({{"MatMul_112", "MatMul_160", "MatMul_208"}, {"Add_90", "Add_138", "Add_186"}}, gaps),
            (std::vector<std::string>{"MatMul_{0}", "Add_{0-22}"}));
  EXPECT_EQ(gaps, 1u);
}

TEST(NameTemplates, WhatFollowsNoRuleIsAGapOfItsOwn) {
  size_t gaps = 0;
  EXPECT_EQ(makeTexts({{"first", "second/1", ""},         // nothing in common
                       {"a007", "a008", "a009"},          // printed otherwise than numbers are
                       {"{0}", "{0}", "{0}"},             // looks like a gap
                       {"x9999999999999999", "x1", "x2"}, // longer than numbers are
                       {"first", "second/1", ""},         // known
                       {"é1ü", "é2ü", "é3ü"}},            // bytes beyond ASCII stay together
                      gaps),
            (std::vector<std::string>{"{0}", "a{1}", "{2}", "x{3}", "{0}", "é{4}ü"}));
  EXPECT_EQ(gaps, 5u);
}

TEST(NameTemplates, NamesWhoseFirstHasNoNumberShareTheirEnds) {
  size_t gaps = 0;
  EXPECT_EQ(makeTexts({{"node_norm", "node_norm_2", "node_norm_14"},
                       {"norm.out", "norm_2.out", "norm_14.out"},
                       {"äé", "äê", "ä"}}, // é and ê share a byte, as é and ã would at their end
                      gaps),
            (std::vector<std::string>{"node_norm{0}", "norm{0}.out", "ä{1}"}));
  EXPECT_EQ(gaps, 2u);
}

TEST(NameTemplates, WhatCannotBeFilledStays) {
  google::protobuf::RepeatedPtrField<std::string> names;
  *names.Add() = "7";
  *names.Add() = "x";
  auto fill = [&](const char *text) { return colossal::plan::fillNames(text, names); };
  EXPECT_EQ(fill("{0}{1}"), "7x");
  EXPECT_EQ(fill("{0+3},{0-9}"), "10,-2");
  for (const char *text :
       {"{2}", "{}", "{1+1}", "{0+}", "{+1}", "{0", "}0{", "{ 0}", "{0+9223372036854775807}", "{-0}"})
    EXPECT_EQ(fill(text), text);
  EXPECT_EQ(fill("{{0}}"), "{7}");
}

TEST(NameTemplates, NumbersOfStagesThatShareATextGrowEach) {
  google::protobuf::RepeatedPtrField<std::string> names;
  *names.Add() = "{3,16}";
  *names.Add() = "{a,b}";
  EXPECT_EQ(colossal::plan::fillNames("/h.{0}/up, /h.{0+2}/ln, {0-16}, {1+1}", names),
            "/h.{3,16}/up, /h.{5,18}/ln, {-13,0}, {1+1}");
}

} // namespace
