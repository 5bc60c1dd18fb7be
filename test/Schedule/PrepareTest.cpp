//===- PrepareTest.cpp - what is rewritten before ops are grouped -----------===//
#include "Prepare.h"
#include "ParsedFunction.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::test;

namespace {

/// How often each op stands in the function once it is prepared: of reductions and elementwise ops by kind.
std::map<std::string, int> count(const ParsedFunction &function) {
  auto parent = function.ops.front()->getParentOfType<func::FuncOp>();
  schedule::prepare(parent);
  EXPECT_TRUE(succeeded(parent.verify()));
  std::map<std::string, int> counts;
  for (Operation &op : parent.front().without_terminator()) {
    std::string name = op.getName().stripDialect().str();
    if (auto reduce = dyn_cast<ReduceOp>(op))
      name = stringifyReduceKind(reduce.getKind()).str();
    if (auto elementwise = dyn_cast<ElementwiseOp>(op))
      name = stringifyElementwiseKind(elementwise.getKind()).str();
    if (!isa<ReshapeOp>(op))
      ++counts[name];
  }
  return counts;
}

using Counts = std::map<std::string, int>;

TEST(Prepare, WholeTensorsAreReducedByRows) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<4x32x1024xf32>, %b: tensor<64x4xf32>) -> (tensor<f32>, tensor<1x1xf32>) {
    %0 = colossal.reduce sum_square %a over [0, 1, 2] {keepdims = false} : tensor<4x32x1024xf32> -> tensor<f32>
    %1 = colossal.reduce sum %b over [0, 1] {keepdims = true} : tensor<64x4xf32> -> tensor<1x1xf32>
    return %0, %1 : tensor<f32>, tensor<1x1xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(count(function), (Counts{{"sum_square", 1}, {"sum", 2}})); // the small one stays
}

TEST(Prepare, WhatDoesNotAddUpIsReducedAtOnce) {
  ParsedFunction function(
      R"mlir(func.func @f(%a: tensor<512x1024xf32>, %b: tensor<512x1024xbf16>) -> (tensor<1x1xf32>, tensor<1x1xbf16>) {
    %0 = colossal.reduce l2 %a over [0, 1] {keepdims = true} : tensor<512x1024xf32> -> tensor<1x1xf32>
    %1 = colossal.reduce sum %b over [0, 1] {keepdims = true} : tensor<512x1024xbf16> -> tensor<1x1xbf16>
    return %0, %1 : tensor<1x1xf32>, tensor<1x1xbf16>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(count(function), (Counts{{"l2", 1}, {"sum", 1}}));
}

TEST(Prepare, LogarithmOfASoftmaxIsADifferenceForEachReader) {
  ParsedFunction function(
      R"mlir(func.func @f(%x: tensor<32x64xf32>, %own: tensor<32x1xi32>, %class: tensor<1x64xi32>, %zero: tensor<1x1xf32>)
        -> (tensor<32x1xf32>, tensor<32x64xf32>) {
    %0 = colossal.softmax %x {axis = 1 : i64, log = true} : tensor<32x64xf32>
    %1 = colossal.elementwise equal(%own, %class) : (tensor<32x1xi32>, tensor<1x64xi32>) -> tensor<32x64xi1>
    %2 = colossal.elementwise select(%1, %0, %zero) : (tensor<32x64xi1>, tensor<32x64xf32>, tensor<1x1xf32>) -> tensor<32x64xf32>
    %3 = colossal.reduce sum %2 over [1] {keepdims = true} : tensor<32x64xf32> -> tensor<32x1xf32>
    %4 = colossal.elementwise exp(%0) : (tensor<32x64xf32>) -> tensor<32x64xf32>
    %5 = colossal.elementwise select(%1, %zero, %4) : (tensor<32x64xi1>, tensor<1x1xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
    return %3, %5 : tensor<32x1xf32>, tensor<32x64xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(count(function),
            (Counts{{"log_sum_exp", 1}, {"sub", 2}, {"equal", 2}, {"select", 2}, {"exp", 1}, {"sum", 1}}));
}

// One class' part of a gradient is made where it is read, and so is what ranks' statistics are taken from.
TEST(Prepare, WhatIsChosenFromSmallTensorsIsMadeForEachReader) {
  ParsedFunction function(
      R"mlir(func.func @f(%x: tensor<32x64xf32>, %own: tensor<32x1xi32>, %class: tensor<1x64xi32>, %slope: tensor<32x1xf32>, %zero: tensor<1x1xf32>)
        -> (tensor<32x1xf32>, tensor<32x64xf32>) {
    %0 = colossal.elementwise equal(%own, %class) : (tensor<32x1xi32>, tensor<1x64xi32>) -> tensor<32x64xi1>
    %1 = colossal.broadcast %slope : tensor<32x1xf32> -> tensor<32x64xf32>
    %2 = colossal.elementwise select(%0, %1, %zero) : (tensor<32x64xi1>, tensor<32x64xf32>, tensor<1x1xf32>) -> tensor<32x64xf32>
    %3 = colossal.reduce sum %2 over [1] {keepdims = true} : tensor<32x64xf32> -> tensor<32x1xf32>
    %4 = colossal.elementwise sub(%2, %x) : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
    return %3, %4 : tensor<32x1xf32>, tensor<32x64xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(count(function), (Counts{{"equal", 2}, {"select", 2}, {"broadcast", 1}, {"sum", 1}, {"sub", 1}}));
}

TEST(Prepare, RowsFromWhichRanksStatisticsAreTakenAreStoredOnce) {
  ParsedFunction function(
      R"mlir(module {
    shard.grid @mesh(shape = 2)
    func.func @f(%x: tensor<32x64xf32>) -> (tensor<32x1xf32>, tensor<32x64xf32>) {
    %0 = colossal.reduce max %x over [1] {keepdims = true} : tensor<32x64xf32> -> tensor<32x1xf32>
    %1 = shard.all_reduce %0 on @mesh grid_axes = [0] reduction = max : tensor<32x1xf32> -> tensor<32x1xf32>
    %2 = colossal.elementwise sub(%x, %1) : (tensor<32x64xf32>, tensor<32x1xf32>) -> tensor<32x64xf32>
    %3 = colossal.elementwise exp(%2) : (tensor<32x64xf32>) -> tensor<32x64xf32>
    %4 = colossal.elementwise neg(%2) : (tensor<32x64xf32>) -> tensor<32x64xf32>
    %5 = colossal.elementwise add(%3, %4) : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
    return %1, %5 : tensor<32x1xf32>, tensor<32x64xf32>
  }})mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(count(function),
            (Counts{{"max", 1}, {"all_reduce", 1}, {"sub", 2}, {"exp", 1}, {"neg", 1}, {"add", 1}}));
}

TEST(Prepare, SoftmaxThatIsAResultStays) {
  ParsedFunction function(
      R"mlir(func.func @f(%x: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
    %0 = colossal.softmax %x {axis = 1 : i64, log = true} : tensor<8x64xf32>
    %1 = colossal.elementwise exp(%0) : (tensor<8x64xf32>) -> tensor<8x64xf32>
    return %0, %1 : tensor<8x64xf32>, tensor<8x64xf32>
  })mlir");
  ASSERT_TRUE(function.isValid());
  EXPECT_EQ(count(function), (Counts{{"softmax", 1}, {"exp", 1}}));
}

/// `between` products between the reader of rows and another behind; `end`: what else reads the heads.
std::string readRowsTwice(int between, const std::string &end) {
  std::string text = R"mlir(func.func @f(%x: tensor<2x8x64x32xf32>, %w: tensor<256x256xf32>)
      -> (tensor<2x64x256xf32>, tensor<256x256xf32>, tensor<2x8x64x32xf32>) {
    %heads = colossal.elementwise exp(%x) : (tensor<2x8x64x32xf32>) -> tensor<2x8x64x32xf32>
    %t = colossal.transpose %heads [0, 2, 1, 3] : tensor<2x8x64x32xf32> -> tensor<2x64x8x32xf32>
    %rows = colossal.reshape %t : tensor<2x64x8x32xf32> -> tensor<2x64x256xf32>
    %y0 = colossal.contract %rows [3, 0, 1], %w [2, 1] -> [3, 0, 2] : (tensor<2x64x256xf32>, tensor<256x256xf32>) -> tensor<2x64x256xf32>
)mlir";
  for (int i = 0; i < between; ++i)
    text += "    %y" + std::to_string(i + 1) + " = colossal.contract %y" + std::to_string(i) +
            " [3, 0, 1], %w [2, 1] -> [3, 0, 2] : (tensor<2x64x256xf32>, tensor<256x256xf32>) -> "
            "tensor<2x64x256xf32>\n";
  const std::string last = "%y" + std::to_string(between);
  return text + "    %g = colossal.contract %rows [3, 0, 1], " + last +
         " [3, 0, 2] -> [2, 1] : (tensor<2x64x256xf32>, tensor<2x64x256xf32>) -> tensor<256x256xf32>\n" +
         "    %end = colossal.elementwise exp(" + end +
         ") : (tensor<2x8x64x32xf32>) -> tensor<2x8x64x32xf32>\n    return " + last +
         ", %g, %end : tensor<2x64x256xf32>, tensor<256x256xf32>, tensor<2x8x64x32xf32>\n  }";
}

TEST(Prepare, ReadersFarApartGetACopyEach) {
  ParsedFunction far(readRowsTwice(10, "%heads")), near(readRowsTwice(2, "%heads")),
      gone(readRowsTwice(10, "%x"));
  ASSERT_TRUE(far.isValid() && near.isValid() && gone.isValid());
  EXPECT_EQ(count(far)["transpose"], 2);
  EXPECT_EQ(count(near)["transpose"], 1);
  EXPECT_EQ(count(gone)["transpose"], 1) << "what a copy would be made of is not kept so long";
}

} // namespace
