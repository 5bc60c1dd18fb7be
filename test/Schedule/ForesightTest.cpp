//===- ForesightTest.cpp - which values will lie in memory, and when ---------===//
#include "colossal/Schedule/Foresight.h"
#include "ParsedFunction.h"
#include "colossal/Codegen/Targets.h"

#include "gtest/gtest.h"

#include <set>

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;
using colossal::layout::StorageLives;
using namespace colossal::test;

namespace {

/// The lives of values by the names of their ops.
class Lives {
public:
  explicit Lives(const std::string &text, const std::set<std::string> &repeated = {}) : function(text) {
    EXPECT_TRUE(function.isValid());
    auto parent = function.ops.front()->getParentOfType<func::FuncOp>();
    storage = foreseeStorage(parent, *llvm::cantFail(codegen::createTarget("cpu")), [&](Operation *op) {
      return repeated.count(cast<NameLoc>(op->getLoc()).getName().str()) != 0;
    });
  }
  std::pair<int64_t, int64_t> operator[](const std::string &name) const {
    StorageLives::Life life = storage.lives.lookup(function.byName.at(name)->getResult(0));
    return life.isStored ? std::pair(life.begin, life.end) : std::pair<int64_t, int64_t>(0, 0);
  }
  int64_t stepOf(const std::string &name) const { return storage.steps.lookup(function.byName.at(name)); }

private:
  ParsedFunction function;
  StorageLives storage;
};

using Life = std::pair<int64_t, int64_t>;

TEST(Foresight, WhatAKernelComputesForItselfTakesNothing) {
  Lives lives(R"mlir(func.func @f(%a: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
    %0 = colossal.contract %a [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("first")
    %1 = colossal.elementwise exp(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc("exp")
    %2 = colossal.elementwise relu(%1) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc("relu")
    %3 = colossal.transpose %2 [1, 0] : tensor<8x16xf32> -> tensor<16x8xf32> loc("turned")
    %4 = colossal.contract %3 [1, 0], %w [1, 2] -> [0, 2] : (tensor<16x8xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("second")
    return %4 : tensor<8x16xf32>
  })mlir");
  EXPECT_EQ(lives["first"], Life(0, 0));
  EXPECT_EQ(lives["exp"], Life(0, 0));
  EXPECT_EQ(lives["relu"], Life(0, 2)); // also as what is read of it in another order
  EXPECT_EQ(lives.stepOf("turned"), 1);
  EXPECT_EQ(lives["second"], Life(1, 2));
}

TEST(Foresight, ARowIsWrittenOverWhatItIsMadeOf) {
  Lives lives(R"mlir(func.func @f(%a: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
    %0 = colossal.contract %a [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("scores")
    %1 = colossal.softmax %0 {axis = 1 : i64} : tensor<8x16xf32> loc("weights")
    %2 = colossal.contract %1 [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("mixed")
    return %2 : tensor<8x16xf32>
  })mlir");
  EXPECT_EQ(lives["scores"], Life(0, 1)); // gone when the weights come
  EXPECT_EQ(lives["weights"], Life(1, 3));
}

TEST(Foresight, WhatTurnsReadOrAddToLivesThroughAllOfThem) {
  Lives lives(
      R"mlir(func.func @f(%a: tensor<8x16xf32>, %w: tensor<16x16xf32>, %s: tensor<8x16xf32>) -> tensor<16x16xf32> {
    %0 = colossal.contract %w [0, 1], %w [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("given")
    %1 = colossal.contract %a [0, 1], %0 [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> loc("turn")
    %2 = colossal.softmax %1 {axis = 1 : i64} : tensor<8x16xf32> loc("weights")
    %3 = colossal.contract %a [0, 1], %2 [0, 2] -> [1, 2] : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32> loc("sum")
    %4 = colossal.elementwise mul(%w, %w) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("square")
    %5 = colossal.contract %3 [0, 1], %4 [1, 2] -> [0, 2] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32> loc("updated")
    return %5 : tensor<16x16xf32>
  })mlir",
      {"turn", "weights", "sum"});
  EXPECT_EQ(lives["given"], Life(0, 4));
  EXPECT_EQ(lives["turn"], Life(1, 2));
  EXPECT_EQ(lives["weights"], Life(2, 4));
  EXPECT_EQ(lives["sum"], Life(1, 6));    // turns before have left something there
  EXPECT_EQ(lives["square"], Life(4, 6)); // not before the turns, which do not need it
}

} // namespace
