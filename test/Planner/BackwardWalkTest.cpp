// What a backward pass has in memory, of units written by hand.
#include "lib/Planner/BackwardWalk.h"

#include "gtest/gtest.h"

using namespace colossal::planner;

namespace {

/// x (0) -> norm (1) -> up (2) -> activation (3) -> down (4) -> sum with x (5), as in a feed-forward part;
/// 1 x wide but for `up` and the activation, which are 4 x.
BackwardWalk makeFeedForward() {
  BackwardWalk walk;
  walk.bytes = {1, 1, 4, 4, 1, 1};
  walk.ops = {{WalkedOp::Scaling, {0}, {1}},
              {WalkedOp::Contraction, {1}, {2}},
              {WalkedOp::Pointwise, {2}, {3}},
              {WalkedOp::Contraction, {3}, {4}},
              {WalkedOp::Linear, {4, 0}, {5}}};
  walk.values = {{0, 1}, {1, 1}, {2, 4}, {3, 4}}; // x, the norm, what the activation reads, and what it gives
  walk.outputs = {5};
  return walk;
}

TEST(BackwardWalk, GradientsLieWhereWhatWasReadLay) {
  // The gradient of what the activation read is written where what it gave lay, which the gradient of the
  // second weight has read before. So there is never more than the sum's gradient on top of what was saved.
  EXPECT_DOUBLE_EQ(makeFeedForward().find().beside, 1);
}

TEST(BackwardWalk, CopiesAreThereForOneProduct) {
  BackwardWalk walk = makeFeedForward();
  // Beside the gradient of the sum, and of what the second weight has read.
  const double without = walk.find().beside;
  walk.ops[3].copied = 10;
  EXPECT_DOUBLE_EQ(walk.find().beside, without + 10);
  // For the first weight's gradient, both values that are 4 x wide were read, and the gradient of one lies
  // there; with it are those of the sum and of the norm. What was copied is gone.
  walk.ops[1].copied = 100;
  walk.ops[1].copiesGradient = true;
  EXPECT_DOUBLE_EQ(walk.find().beside, 100 + (4 + 1 + 1) - (4 + 4));
}

TEST(BackwardWalk, WhatIsPutTogetherOfPartsIsWrittenOverNothing) {
  // A convolution in steps of what an activation gives, whose gradient reads that.
  BackwardWalk walk;
  walk.bytes = {4, 4, 1};
  walk.ops = {{WalkedOp::Pointwise, {0}, {1}}, {WalkedOp::Contraction, {1}, {2}}};
  walk.values = {{0, 4}};
  walk.outputs = {2};
  walk.ops[1].inputParts = 5;
  EXPECT_DOUBLE_EQ(walk.find().beside, 5 + 4);
}

TEST(BackwardWalk, WhatAProductReadIsGoneOnceItIsCopied) {
  // 10 wide, and read by the product alone, whose result is 1 x wide.
  BackwardWalk walk;
  walk.bytes = {10, 1};
  walk.ops = {{WalkedOp::Contraction, {}, {1}}};
  walk.values = {{0, 10}};
  walk.outputs = {1};
  walk.ops[0].copied = 10;
  EXPECT_DOUBLE_EQ(walk.find().beside, 1 + 10);
  walk.ops[0].parameterGradients = 5; // which is made of the copy
  EXPECT_DOUBLE_EQ(walk.find().turn, 1 + 10);
  walk.values.clear(); // read by others as well
  EXPECT_DOUBLE_EQ(walk.find().turn, 1 + 10 + 5);
}

TEST(BackwardWalk, ALossInPartsIsBesideWhatEarlierPartsMade) {
  BackwardWalk walk;
  walk.bytes = {1, 4};
  walk.ops = {{WalkedOp::Contraction, {0}, {1}}, {WalkedOp::Loss, {1}, {}}};
  walk.values = {{0, 1}, {1, 4}};
  walk.ops[0].parameterGradients = 10;
  walk.ops[1].brought = 4;
  EXPECT_DOUBLE_EQ(walk.find().once, 1);
  walk.ops[1].earlier = 10;
  EXPECT_DOUBLE_EQ(walk.find().once, 4);
}

TEST(BackwardWalk, NothingLiesOverWhatMicrobatchesKeep) {
  BackwardWalk walk = makeFeedForward();
  walk.values.clear();
  // The sum's gradient goes past the layer, beside that of what is 4 x wide and what is made of it.
  EXPECT_DOUBLE_EQ(walk.find().beside, 1 + 4 + 1);
}

TEST(BackwardWalk, ParametersHaveGradientsAsTheyCome) {
  BackwardWalk walk = makeFeedForward();
  walk.ops[3].parameterGradients = 3;
  walk.ops[1].parameterGradients = 2;
  // With the second weight's, what the first saved is all there, and the first weight's is still to come.
  EXPECT_DOUBLE_EQ(walk.find().once, 1 + 3 - (3 + 2));
}

TEST(BackwardWalk, WhatIsMadeAgainComesWithItsSegmentOrItsReader) {
  BackwardWalk walk = makeFeedForward();
  walk.values = {{0, 1, 0}, {1, 1, 0}, {2, 4, 0}, {3, 4, 0}};
  for (WalkedOp &op : walk.ops)
    op.segment = 0;
  EXPECT_DOUBLE_EQ(walk.find().beside, 1 + (1 + 1 + 4 + 4));
  for (int v = 0; v < 4; ++v)
    walk.values[v].from = v;
  // Each when its own operation comes: for the first weight's gradient the norm, beside its gradient, that of
  // what the weight gave, and the sum's. What the activation read its kernel makes as it goes.
  EXPECT_DOUBLE_EQ(walk.find().beside, 1 + 1 + 4 + 1);
  walk.values[2].reader = 1; // but not where another reads it later
  EXPECT_DOUBLE_EQ(walk.find().beside, 1 + 1 + 4 + 1 + 4);
}

TEST(BackwardWalk, ASegmentIsMadeAgainWhereItIsReadFirst) {
  BackwardWalk walk = makeFeedForward();
  walk.values = {{0, 1, 0}, {1, 1, 0}, {2, 4, 0}, {3, 4, 0}};
  // Behind the layer what it gives is repeated, which reads nothing.
  walk.bytes.push_back(20);
  walk.ops.push_back({WalkedOp::View, {4}, {static_cast<int>(walk.bytes.size()) - 1}});
  walk.outputs = walk.ops.back().results;
  for (WalkedOp &op : walk.ops)
    op.segment = 0;
  EXPECT_DOUBLE_EQ(walk.find().beside, 20 + 1);
}

TEST(BackwardWalk, WhatRanksExchangeLiesWhereItWasMadeUntilItIsRead) {
  BackwardWalk walk;
  walk.bytes = {1, 1, 1};
  walk.ops = {{WalkedOp::Attention, {0}, {1}}, {WalkedOp::Contraction, {1}, {2}}};
  walk.ops[0].scores = 10;
  walk.ops[1].made = {1};
  walk.outputs = {2};
  const double without = walk.find().beside;
  walk.ops[1].exchanged = 1;
  EXPECT_DOUBLE_EQ(walk.find().beside, without + 1);
  // It is gone when the next but one comes.
  walk.bytes.push_back(1);
  walk.ops.insert(walk.ops.begin(), {WalkedOp::Attention, {3}, {0}});
  walk.ops[0].scores = 20;
  const double next = walk.find().beside;
  walk.ops[2].exchanged = 0;
  EXPECT_DOUBLE_EQ(walk.find().beside, next);
}

TEST(BackwardWalk, LogitsBecomeTheirGradient) {
  BackwardWalk walk;
  walk.bytes = {1, 100};
  walk.ops = {{WalkedOp::Contraction, {0}, {1}}, {WalkedOp::Loss, {1}, {}}};
  walk.values = {{0, 1}, {1, 100}};
  EXPECT_DOUBLE_EQ(walk.find().beside, 1); // the gradient of what they are made of
}

TEST(BackwardWalk, AMicrobatchHasItsPartOfAGradientUntilThatIsAddedUp) {
  BackwardWalk walk = makeFeedForward();
  walk.ops[3].parameterGradients = 3;
  walk.ops[1].parameterGradients = 20;
  // The first weight's beside the sum's gradient and the norm's: what was saved of the second is gone, and
  // the gradient of what is 4 x wide lies in its place.
  EXPECT_DOUBLE_EQ(walk.find().turn, 20 + (1 + 1) - 4);
  // The second's is on its way between ranks, then.
  EXPECT_DOUBLE_EQ(walk.find().exchanged, 20 + 3 + (1 + 1) - 4);
}

TEST(BackwardWalk, RanksScatterAGradientOnceTheResultsIsGone) {
  BackwardWalk walk;
  walk.bytes = {1, 100};
  walk.ops = {{WalkedOp::Contraction, {0}, {1}}, {WalkedOp::Loss, {1}, {}}};
  walk.values = {{0, 1}, {1, 100}};
  walk.ops[0].parameterGradients = 50;
  // The logits' gradient lay where they had been: with the other it is the most, but not beside a part of it.
  EXPECT_DOUBLE_EQ(walk.find().turn, 1 + 50);
  EXPECT_DOUBLE_EQ(walk.find().scatteredOnce, 1 + 50 - (100 + 1));
}

TEST(BackwardWalk, APartOfAGradientIsMadeOfTheCopyAlone) {
  BackwardWalk walk;
  walk.bytes = {1, 100};
  walk.ops = {{WalkedOp::Contraction, {0}, {1}}, {WalkedOp::Loss, {1}, {}}};
  walk.values = {{0, 1}, {1, 100}};
  walk.ops[0].copied = 100;
  walk.ops[0].copiesGradient = true;
  walk.ops[0].parameterGradients = 50;
  // The copy beside the logits' gradient, and the part beside the copy.
  EXPECT_DOUBLE_EQ(walk.find().turn, 1 + 100);
  EXPECT_DOUBLE_EQ(walk.find().once, std::max(1 + 100 - 50, 1 + 50 - 50));
}

TEST(BackwardWalk, ATrainedMaskKeepsItsGradientBetweenLayers) {
  BackwardWalk walk;
  walk.bytes = {10, 1, 1}; // the mask, and what goes through two attentions
  walk.bytes.push_back(1);
  for (int layer = 0; layer < 2; ++layer) {
    WalkedOp attention{WalkedOp::Attention, {1 + layer, 0}, {2 + layer}};
    attention.mask = 0;
    attention.scores = 10;
    walk.ops.push_back(attention);
  }
  walk.outputs = {3};
  // The first layer has its scores beside the gradient that the second has left.
  EXPECT_DOUBLE_EQ(walk.find().beside, 10 + 10 + 1 + 1);
}

} // namespace
