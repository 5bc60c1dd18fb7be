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

} // namespace
