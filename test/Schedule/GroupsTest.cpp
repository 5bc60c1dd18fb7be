//===- GroupsTest.cpp - which ops one kernel computes -----------------------===//
#include "Groups.h"
#include "ParsedFunction.h"
#include "colossal/Codegen/Targets.h"
#include "colossal/Schedule/Views.h"

#include "gtest/gtest.h"

#include <set>

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;
using namespace colossal::test;

namespace {

/// Groups the function's ops; checks that each op which is computed stands in one group, and that groups come
/// after what they read. Returns the groups as sets of names, in order.
std::vector<std::set<std::string>> getGroups(const ParsedFunction &function, bool fuse = true) {
  auto target = llvm::cantFail(codegen::createTarget("cpu"));
  Grouping grouping(function.ops, *target, fuse);
  std::map<Operation *, unsigned> seen; // and the place of its group
  std::vector<std::set<std::string>> names;
  for (FusionGroup *group : grouping.order()) {
    names.emplace_back();
    for (Operation *op : group->ops) {
      EXPECT_TRUE(seen.insert({op, names.size()}).second) << "in two groups";
      names.back().insert(cast<NameLoc>(op->getLoc()).getName().str());
    }
  }
  for (Operation *op : function.ops) {
    EXPECT_EQ(seen.count(op), classify(op) == OpClass::None ? 0u : 1u) << op->getName().getStringRef().str();
    if (!seen.count(op))
      continue;
    auto check = [&](auto self, Operation *reader) -> void {
      for (Value operand : reader->getOperands())
        if (Operation *def = operand.getDefiningOp()) {
          if (seen.count(def))
            EXPECT_LE(seen[def], seen[op]) << "read before it is computed";
          else
            self(self, def);
        }
    };
    check(check, op);
  }
  return names;
}

using Names = std::vector<std::set<std::string>>;

TEST(Groups, ContractionTakesItsEpilogue) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<8x16xf32>, %w: tensor<16x32xf32>, %b: tensor<32xf32>, %r: tensor<8x32xf32>) -> tensor<8x32xf32> {
    %0 = colossal.contract %a [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32> loc("product")
    %1 = colossal.elementwise add(%0, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32> loc("bias")
    %2 = colossal.elementwise relu(%1) : (tensor<8x32xf32>) -> tensor<8x32xf32> loc("relu")
    %3 = colossal.elementwise add(%2, %r) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32> loc("residual")
    return %3 : tensor<8x32xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function), (Names{{"product", "bias", "relu", "residual"}}));
  EXPECT_EQ(getGroups(function, false), (Names{{"product"}, {"bias"}, {"relu"}, {"residual"}}));
}

TEST(Groups, TwoContractionsAreTwoKernels) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<8x16xf32>, %w: tensor<16x32xf32>, %v: tensor<32x16xf32>) -> tensor<8x16xf32> {
    %0 = colossal.contract %a [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32> loc("up")
    %1 = colossal.elementwise relu(%0) : (tensor<8x32xf32>) -> tensor<8x32xf32> loc("relu")
    %2 = colossal.contract %1 [0, 1], %v [1, 2] -> [0, 2] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32> loc("down")
    return %2 : tensor<8x16xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function), (Names{{"up", "relu"}, {"down"}}));
}

TEST(Groups, SumThatIsKeptIsAnEpilogueRatherThanARow) {
  // The square of the sum is read for a norm, and the sum itself later: as the epilogue of the product it is
  // stored once and read once, beside the norm it would be stored and what it is made of, too.
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<8x16xf32>, %w: tensor<16x32xf32>, %r: tensor<8x32xf32>) -> (tensor<8x32xf32>, tensor<8x1xf32>) {
    %0 = colossal.contract %a [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32> loc("product")
    %1 = colossal.elementwise add(%0, %r) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32> loc("sum")
    %2 = colossal.elementwise mul(%1, %1) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32> loc("square")
    %3 = colossal.reduce sum %2 over [1] {keepdims = true} : tensor<8x32xf32> -> tensor<8x1xf32> loc("norm")
    return %1, %3 : tensor<8x32xf32>, tensor<8x1xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function), (Names{{"product", "sum"}, {"square", "norm"}}));
}

TEST(Groups, RowsTakeWhatFeedsThem) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<8x16xf32>, %b: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %0 = colossal.elementwise mul(%a, %b) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> loc("scale")
    %1 = colossal.softmax %0 {axis = 1 : i64} : tensor<8x16xf32> loc("softmax")
    return %1 : tensor<8x16xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function), (Names{{"scale", "softmax"}}));
}

// What is looked up at computed places lies in memory, and is computed once and before.
TEST(Groups, LookupReadsFromMemory) {
  ParsedFunction function(R"mlir(func.func @f(%a: tensor<9x4xf32>, %i: tensor<5xi64>) -> tensor<5x4xf32> {
    %0 = colossal.elementwise exp(%a) : (tensor<9x4xf32>) -> tensor<9x4xf32> loc("exp")
    %1 = colossal.gather %0[%i] {axis = 0 : i64} : tensor<9x4xf32>, tensor<5xi64> -> tensor<5x4xf32> loc("gather")
    %2 = colossal.elementwise relu(%1) : (tensor<5x4xf32>) -> tensor<5x4xf32> loc("relu")
    return %2 : tensor<5x4xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function), (Names{{"exp"}, {"gather", "relu"}}));
}

// A value with a reader on each side of a contraction: one kernel for all would have to run before and after
// it.
TEST(Groups, MakeNoCycle) {
  ParsedFunction function(R"mlir(func.func @f(%a: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = colossal.elementwise relu(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("relu")
    %1 = colossal.contract %0 [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("product")
    %2 = colossal.elementwise exp(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("exp")
    %3 = colossal.contract %2 [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("second")
    %4 = colossal.elementwise add(%0, %3) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("residual")
    return %4 : tensor<8x8xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function), (Names{{"relu"}, {"product", "exp"}, {"second", "residual"}}));
}

// An op with a long loop for each element does not go where it would be computed again and again.
TEST(Groups, LoopsAreNotRepeated) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<8x16xf32>, %b: tensor<4x8x16xf32>) -> tensor<4x8x16xf32> {
    %0 = colossal.cumulate %a {axis = 1 : i64, exclusive = false, reverse = false} : tensor<8x16xf32> loc("cumulate")
    %1 = colossal.elementwise add(%0, %b) : (tensor<8x16xf32>, tensor<4x8x16xf32>) -> tensor<4x8x16xf32> loc("add")
    return %1 : tensor<4x8x16xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function), (Names{{"cumulate"}, {"add"}}));
}

// A kernel that stores a value for others runs where the last of what it reads is made, not where the value
// could be: the product before that frees what it reads.
TEST(Groups, KernelsWaitForTheLastThatTheyRead) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>) {
    %0 = colossal.elementwise exp(%a) : (tensor<16x16xf32>) -> tensor<16x16xf32> loc("kept")
    %1 = colossal.contract %a [1, 0], %b [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("weight")
    %2 = colossal.contract %b [0, 1], %b [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("again")
    %3 = colossal.elementwise mul(%0, %2) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("gradient")
    %4 = colossal.contract %0 [0, 1], %b [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("reader")
    return %1, %2, %3, %4 : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function), (Names{{"weight"}, {"again"}, {"kept", "gradient"}, {"reader"}}));
}

/// The gradient of a tied table: what the head makes of it, and what the rows that were looked up make, which
/// `rows` is.
std::string addGradients(const std::string &rows) {
  return R"mlir(func.func @f(%h: tensor<256x16xf32>, %d: tensor<64x16xf32>, %e: tensor<8x16xf32>, %i: tensor<8xi64>, %j: tensor<8x1xi64>) -> tensor<64x16xf32> {
    %0 = colossal.elementwise exp(%h) : (tensor<256x16xf32>) -> tensor<256x16xf32> loc("input")
    %1 = colossal.contract %0 [0, 1], %0 [2, 1] -> [0, 2] : (tensor<256x16xf32>, tensor<256x16xf32>) -> tensor<256x256xf32> loc("logits")
    %2 = colossal.slice %1 [0, 0] by [1, 1] : tensor<256x256xf32> -> tensor<256x64xf32>
    %3 = colossal.contract %2 [0, 1], %0 [0, 2] -> [1, 2] : (tensor<256x64xf32>, tensor<256x16xf32>) -> tensor<64x16xf32> loc("head")
    %4 = )mlir" +
         rows + R"mlir( -> tensor<64x16xf32> loc("rows")
    %5 = colossal.elementwise add(%3, %4) : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32> loc("sum")
    return %5 : tensor<64x16xf32>
  })mlir";
}

TEST(Groups, ContractionDoesNotKeepMoreThanItGivesForALaterSummand) {
  ParsedFunction function(addGradients(
      "colossal.scatter_nd add %d[%j], %e : tensor<64x16xf32>, tensor<8x1xi64>, tensor<8x16xf32>"));
  ASSERT_TRUE(function.isValid());
  const Names apart = getGroups(function);
  EXPECT_TRUE(llvm::is_contained(apart, std::set<std::string>{"head"}));
  EXPECT_TRUE(llvm::is_contained(apart, std::set<std::string>{"sum"}));
}

// Sums of few rows are added to the product where that lies.
TEST(Groups, SumsOfRowsAreAddedToTheProduct) {
  ParsedFunction function(
      addGradients("colossal.segment_sum %e by %i {axis = 0 : i64} : tensor<8x16xf32>, tensor<8xi64>"));
  ASSERT_TRUE(function.isValid());
  const Names made = getGroups(function);
  EXPECT_TRUE(llvm::is_contained(made, std::set<std::string>{"head"}));
  EXPECT_TRUE(llvm::is_contained(made, std::set<std::string>{"rows", "sum"}));
}

// What makes little of much runs right behind what makes that.
TEST(Groups, WhatSumsUpRunsAtOnce) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<256x256xf32>, %b: tensor<256x256xf32>) -> (tensor<256x256xf32>, tensor<1x1xf32>) {
    %0 = colossal.contract %a [0, 1], %b [1, 2] -> [0, 2] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("gradient")
    %1 = colossal.contract %b [0, 1], %a [1, 2] -> [0, 2] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("next")
    %2 = colossal.elementwise mul(%1, %0) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("update")
    %3 = colossal.reduce sum_square %0 over [0, 1] {keepdims = true} : tensor<256x256xf32> -> tensor<1x1xf32> loc("norm")
    return %2, %3 : tensor<256x256xf32>, tensor<1x1xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function), (Names{{"gradient"}, {"norm"}, {"next", "update"}}));
}

// Sums of tensors that have nothing to do with each other are kernels of their own, however they are added
// up: one would wait for both. What is made of one tensor is one kernel's.
TEST(Groups, StatisticsOfOtherTensorsAreMadeApart) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<256x512xf32>, %b: tensor<256x512xf32>) -> tensor<1x512xf32> {
    %0 = colossal.elementwise exp(%a) : (tensor<256x512xf32>) -> tensor<256x512xf32> loc("first")
    %1 = colossal.reduce sum %0 over [0] {keepdims = true} : tensor<256x512xf32> -> tensor<1x512xf32> loc("its sum")
    %2 = colossal.elementwise exp(%b) : (tensor<256x512xf32>) -> tensor<256x512xf32> loc("second")
    %4 = colossal.elementwise mul(%2, %b) : (tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<256x512xf32> loc("slope")
    %3 = colossal.reduce sum %2 over [0] {keepdims = true} : tensor<256x512xf32> -> tensor<1x512xf32> loc("sum")
    %5 = colossal.reduce sum %4 over [0] {keepdims = true} : tensor<256x512xf32> -> tensor<1x512xf32> loc("slopes")
    %6 = colossal.elementwise add(%1, %3) : (tensor<1x512xf32>, tensor<1x512xf32>) -> tensor<1x512xf32> loc("two")
    %7 = colossal.elementwise add(%6, %5) : (tensor<1x512xf32>, tensor<1x512xf32>) -> tensor<1x512xf32> loc("three")
    return %7 : tensor<1x512xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function),
            (Names{{"first", "its sum"}, {"second", "sum", "slope", "slopes", "two", "three"}}));
}

// A narrow sum is what the product's kernel stores, though what follows makes statistics of it.
TEST(Groups, NarrowSumsAreEpiloguesBeforeStatistics) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<8x16xbf16>, %w: tensor<16x32xbf16>, %b: tensor<32xf32>) -> (tensor<8x1xf32>, tensor<8x32xbf16>) {
    %0 = colossal.contract %a [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x16xbf16>, tensor<16x32xbf16>) -> tensor<8x32xbf16> loc("product")
    %1 = colossal.elementwise cast(%0) : (tensor<8x32xbf16>) -> tensor<8x32xf32> loc("wide")
    %2 = colossal.elementwise add(%1, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32> loc("bias")
    %3 = colossal.elementwise cast(%2) : (tensor<8x32xf32>) -> tensor<8x32xbf16> loc("narrow")
    %4 = colossal.elementwise cast(%3) : (tensor<8x32xbf16>) -> tensor<8x32xf32> loc("again")
    %5 = colossal.reduce max %4 over [1] {keepdims = true} : tensor<8x32xf32> -> tensor<8x1xf32> loc("most")
    return %5, %3 : tensor<8x1xf32>, tensor<8x32xbf16>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function), (Names{{"product", "wide", "bias", "narrow"}, {"again", "most"}}));
}

// Where a norm is made of a sum of products, the sum grows with each of them: the norm's kernel does not wait
// for all.
TEST(Groups, SumsOfProductsAreMadeWhereTheProductsAre) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>, %c: tensor<16x16xf32>) -> tensor<1x1xf32> {
    %0 = colossal.contract %a [0, 1], %b [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("first")
    %1 = colossal.contract %b [0, 1], %c [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("second")
    %2 = colossal.elementwise add(%0, %1) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("two")
    %3 = colossal.contract %a [0, 1], %c [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("third")
    %4 = colossal.elementwise add(%2, %3) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("three")
    %5 = colossal.elementwise mul(%4, %4) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("square")
    %6 = colossal.reduce sum %5 over [0, 1] {keepdims = true} : tensor<16x16xf32> -> tensor<1x1xf32> loc("norm")
    return %6 : tensor<1x1xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function),
            (Names{{"first"}, {"second", "two"}, {"third", "three"}, {"square", "norm"}}));
}

// The same where the sum is completed by something much later that no product can be added to.
TEST(Groups, SumsOfProductsDoNotWaitForALaterSummand) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<16x64xf32>, %b: tensor<64x16xf32>, %i: tensor<8xi64>) -> tensor<16x16xf32> {
    %0 = colossal.contract %a [0, 1], %b [1, 2] -> [0, 2] : (tensor<16x64xf32>, tensor<64x16xf32>) -> tensor<16x16xf32> loc("first")
    %1 = colossal.elementwise exp(%a) : (tensor<16x64xf32>) -> tensor<16x64xf32> loc("exp")
    %2 = colossal.contract %1 [0, 1], %b [1, 2] -> [0, 2] : (tensor<16x64xf32>, tensor<64x16xf32>) -> tensor<16x16xf32> loc("second")
    %3 = colossal.elementwise add(%0, %2) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("two")
    %4 = colossal.slice %0 [0, 0] by [1, 1] : tensor<16x16xf32> -> tensor<8x16xf32> loc("rows")
    %5 = colossal.segment_sum %4 by %i {axis = 0 : i64} : tensor<8x16xf32>, tensor<8xi64> -> tensor<16x16xf32> loc("late")
    %6 = colossal.elementwise add(%3, %5) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("sum")
    return %6 : tensor<16x16xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_TRUE(llvm::is_contained(getGroups(function), std::set<std::string>{"second", "two"}));
}

// A sum of hundreds of numbers, few at a time, does not become one kernel that reads them all.
TEST(Groups, SumsOfManyNumbersAreSeveralKernels) {
  constexpr int kSums = 40, kSummands = 8;
  std::string arguments, body, sums, types;
  for (int i = 0; i < kSums * kSummands; ++i)
    arguments += (i ? ", %a" : "%a") + std::to_string(i) + ": tensor<f32>";
  for (int i = 0; i < kSums; ++i) {
    std::string operands, of;
    for (int j = 0; j < kSummands; ++j) {
      operands += (j ? ", %a" : "%a") + std::to_string(i * kSummands + j);
      of += j ? ", tensor<f32>" : "tensor<f32>";
    }
    const std::string number = std::to_string(i);
    body += "%s" + number + " = colossal.elementwise add(" + operands + ") : (" + of +
            ") -> tensor<f32> loc(\"" + number + "\")\n";
    sums += (i ? ", %s" : "%s") + number;
    types += i ? ", tensor<f32>" : "tensor<f32>";
  }
  ParsedFunction function("func.func @f(" + arguments + ") -> tensor<f32> {\n" + body +
                          "%r = colossal.elementwise add(" + sums + ") : (" + types +
                          ") -> tensor<f32> loc(\"all\")\nreturn %r : tensor<f32>\n}");
  ASSERT_TRUE(function.isValid());
  Names groups = getGroups(function);
  EXPECT_EQ(groups.back(), (std::set<std::string>{"39", "all"})); // 39 and 7 additions
  EXPECT_EQ(groups.size(), static_cast<size_t>(kSums));
}

// A formula is a kernel, which takes what it alone reads.
TEST(Groups, FormulaTakesWhatFeedsIt) {
  ParsedFunction function(
      R"mlir(func.func @f(%p: tensor<8x16xf32>, %g: tensor<8x16xf32>, %m: tensor<8x16xf32>, %s: tensor<f32>) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
    %0 = colossal.elementwise neg(%g) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc("neg")
    %1:2 = colossal.formula(%p, %0, %m, %s) {gives = array<i64: 6, 5>, steps = [#colossal.step<mul [1, 3] : f32>, #colossal.step<add [2, 4] : f32>, #colossal.step<sub [0, 5] : f32>]} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<f32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) loc("update")
    %2 = colossal.elementwise exp(%g) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc("exp")
    return %1#0, %1#1, %2 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function), (Names{{"neg", "update"}, {"exp"}}));
}

// A mask that a forward pass reads is not stored by the kernel of a backward pass's scores, which would run
// ahead of the forward pass then.
TEST(Groups, ProductsDoNotRunAheadForWhatTheyShare) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>) -> tensor<16x16xf32> {
    %0 = colossal.elementwise mul(%a, %a) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("mask")
    %1 = colossal.contract %0 [0, 1], %b [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("forward")
    %2 = colossal.contract %a [0, 1], %b [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("scores")
    %3 = colossal.elementwise add(%2, %0) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("masked")
    %4 = colossal.contract %1 [0, 1], %3 [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("late")
    return %4 : tensor<16x16xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function), (Names{{"mask"}, {"forward"}, {"scores", "masked"}, {"late"}}));
}

// What several read is stored by the first of them: what a backward pass makes again of it would wait there.
TEST(Groups, TheFirstReaderStores) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>) -> tensor<16x16xf32> {
    %0 = colossal.elementwise add(%a, %b) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("handed on")
    %1 = colossal.elementwise exp(%0) : (tensor<16x16xf32>) -> tensor<16x16xf32> loc("forward")
    %2 = colossal.contract %1 [0, 1], %b [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("product")
    %3 = colossal.elementwise exp(%0) : (tensor<16x16xf32>) -> tensor<16x16xf32> loc("again")
    %4 = colossal.contract %2 [0, 1], %3 [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("gradient")
    return %4 : tensor<16x16xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function), (Names{{"handed on", "forward"}, {"product"}, {"again"}, {"gradient"}}));
}

// What pads a shard is filled where the shard is made.
TEST(Groups, PaddingIsFilledByWhatMakesTheShard) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<8x16xf32>, %w: tensor<16x32xf32>) -> (tensor<8x1xf32>, tensor<8x16xf32>) {
    %v = arith.constant 30 : index
    %0 = colossal.contract %a [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32> loc("product")
    %1 = dist.mask_padding %0[%v] {extents = array<i64: 8, 32>, fill = 0.0 : f64, masked = array<i64: 1>} : tensor<8x32xf32> loc("padding")
    %2 = colossal.reduce sum %1 over [1] {keepdims = true} : tensor<8x32xf32> -> tensor<8x1xf32> loc("sum")
    %3 = colossal.contract %1 [0, 1], %w [2, 1] -> [0, 2] : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32> loc("second")
    return %2, %3 : tensor<8x1xf32>, tensor<8x16xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(getGroups(function), (Names{{"product", "padding"}, {"sum"}, {"second"}}));
}

} // namespace
