// A step from units that are written here, against its parts counted by hand.
#include "colossal/Cost/StepCost.h"

#include <gtest/gtest.h>

#include <cmath>

namespace colossal::cost {
namespace {

CostModel machine() {
  return CostModel(loadMachine("a100-80-sxm").machine);
}

/// An embedding that computes nothing, and a layer.
std::vector<UnitCost> kinds() {
  UnitCost embedding, layer;
  embedding.parameters = 5e8;
  layer.forward = 0.010;
  layer.backward = 0.015;
  layer.weightGradient = 0.010;
  layer.parameters = layer.readAgain = 2e8;
  layer.savedBytes = 1e9;
  layer.transientBytes = layer.onceTransientBytes = 3e8;
  layer.outputBytes = 1e7;
  return {embedding, layer};
}

struct Case {
  std::vector<UnitCost> units = kinds();
  std::vector<int> order = {0, 1, 1, 1, 1}, parts = {5};
  StepShape shape;
  UnitOrder all() const { return {units, order, parts}; }
  StepPrice price() const {
    CostModel model = machine();
    StepCost step(model, {});
    PipelineProblem problem = step.problem(shape, all());
    return step.price(shape, problem, simulate(problem), step.stages(shape, all()));
  }
};

TEST(StepCost, OneRankComputesAndUpdates) {
  Case one;
  one.shape.microbatches = 3;
  StepPrice price = one.price();
  EXPECT_NEAR(price.pipeline, 3 * 4 * 0.035, 1e-12);
  EXPECT_EQ(price.reduction, 0);
  EXPECT_NEAR(price.seconds, price.pipeline + price.optimizer, 1e-12);
  ASSERT_EQ(price.memory.size(), 1u);
  double count = 5e8 + 4 * 2e8;
  EXPECT_DOUBLE_EQ(price.memory[0].parameters, 2 * count);
  EXPECT_DOUBLE_EQ(price.memory[0].gradients, 4 * count);
  EXPECT_DOUBLE_EQ(price.memory[0].optimizer, 12 * count);
  EXPECT_DOUBLE_EQ(price.memory[0].activations, 4e9);
  EXPECT_DOUBLE_EQ(price.memory[0].transient, 3e8);
}

/// As compiled programs are: gradients of one microbatch are made while what it saved goes.
TEST(StepCost, GradientsComeWhileActivationsGo) {
  Case one;
  one.shape.asCompiled = true;
  for (UnitCost &unit : one.units)
    unit.slots = unit.parameters;
  StepPrice price = one.price();
  // At the end all gradients (5.2e9) are there, and nothing that was saved: more than with the first layer's
  // gradients (8e8), its transient (3e8) and all that was saved (4e9).
  EXPECT_DOUBLE_EQ(price.memory[0].gradients + price.memory[0].transient + price.memory[0].activations,
                   5.2e9);
  EXPECT_DOUBLE_EQ(price.memory[0].optimizer, 12 * 1.3e9);
  one.units[1].savedBytes = 3e9;
  StepPrice much = one.price();
  EXPECT_DOUBLE_EQ(much.memory[0].gradients, 8e8);
  EXPECT_DOUBLE_EQ(much.memory[0].transient, 3e8);
  // Where tensor ranks share the slots of what they all have, they share its gradient, too, once it is made.
  for (UnitCost &unit : one.units)
    unit.slots = unit.parameters / 2;
  StepPrice shared = one.price();
  EXPECT_DOUBLE_EQ(shared.memory[0].gradients, 4e8);
  EXPECT_DOUBLE_EQ(shared.memory[0].optimizer, 12 * 1.3e9 / 2);
  // Several are added up from the first on, whole where ranks do not scatter each.
  one.shape.microbatches = 2;
  EXPECT_DOUBLE_EQ(one.price().memory[0].gradients, 5.2e9);
  one.shape.data = 2;
  one.shape.zero = 2;
  EXPECT_DOUBLE_EQ(one.price().memory[0].gradients, 5.2e9 / 4);
}

/// The gradient of a table that another unit reads as well is scattered once that has added its own: until
/// then it lies there whole, once.
TEST(StepCost, ATiedTableHasOneWholeGradient) {
  Case one;
  one.shape.asCompiled = true;
  one.shape.data = 2;
  one.shape.zero = 1;
  one.order = {0, 1, 1, 1, 1, 0};
  one.parts = {6};
  for (UnitCost &unit : one.units)
    unit.slots = unit.parameters;
  UnitCost &table = one.units[0], &layer = one.units[1];
  table.largest = table.shared[7] = table.sharedSlots[7] = 5e8;
  table.turnTransientBytes = 4 * 5e8;
  layer.turnTransientBytes = 3e8;
  const StageMemory memory = one.price().memory[0];
  // At the last layer: all that was saved (4e9), its transient, the whole table's gradient, and the part that
  // a rank keeps of its own (2 bytes of each element).
  EXPECT_DOUBLE_EQ(memory.gradients + memory.transient + memory.activations, 4e9 + 3e8 + 4 * 5e8 + 2 * 2e8);
}

/// What was kept for nothing but what the next unit makes again is gone with that; a chunk's last unit keeps
/// nothing for the next chunk, which receives what it takes in.
TEST(StepCost, WhatIsMadeAgainEndsItsSources) {
  Case one;
  one.shape.asCompiled = true;
  one.shape.microbatches = 2;
  auto passes = [&] {
    const StageMemory memory = one.price().memory[0];
    return memory.activations + memory.transient;
  };
  for (UnitCost &unit : one.units)
    unit.turnTransientBytes = 3e8;
  const double before = passes();
  for (UnitCost &unit : one.units) {
    unit.continuesSegment = true;
    unit.sourceBytes = 1e8;
    unit.continuedMore = 3e8; // all of the most is where the first segment is made again
  }
  EXPECT_DOUBLE_EQ(passes(), before - 1e8);
  for (UnitCost &unit : one.units)
    unit.continuedMore = 4e7;
  EXPECT_DOUBLE_EQ(passes(), before - 4e7);
  one.shape.pipeline = 2;
  one.parts = {2, 3};
  const double handing = one.price().memory[0].activations;
  for (UnitCost &unit : one.units)
    unit.sourceBytes = 0;
  EXPECT_DOUBLE_EQ(one.price().memory[0].activations, handing + 2 * 1e8); // of two microbatches
}

/// What one layer hands on and the next takes in is there once, though both save it.
TEST(StepCost, WhatTwoUnitsSaveIsThereOnce) {
  Case one;
  one.shape.asCompiled = true;
  one.shape.microbatches = 2;
  const double twice = one.price().memory[0].activations;
  for (UnitCost &unit : one.units) {
    unit.inputSavedBytes = 3e8;
    unit.outputSavedBytes = 2e8;
  }
  EXPECT_DOUBLE_EQ(one.price().memory[0].activations,
                   twice - 2e8 * static_cast<double>(one.order.size() - 1));
  // A table that rows are looked up in again lies beside the pass behind it, and no longer.
  const double transient = one.price().memory[0].transient;
  one.shape.data = 2;
  one.shape.zero = 3;
  const double gathered = one.price().memory[0].transient;
  for (UnitCost &unit : one.units) {
    unit.continuesSegment = unit.isInOneSegment = true;
    unit.againTables = 1e9;
  }
  EXPECT_GT(gathered, transient);
  EXPECT_DOUBLE_EQ(one.price().memory[0].transient, gathered + 1e9 * StateTypes().read());
}

/// Narrow copies of weights are there through several microbatches, and otherwise with what is made again.
TEST(StepCost, NarrowCopiesComeWithWhatIsMadeAgain) {
  Case one;
  one.shape.asCompiled = true;
  StateTypes types;
  types.parameter = 4;
  types.narrow = 2;
  auto total = [&] {
    CostModel model = machine();
    StepCost step(model, types);
    PipelineProblem problem = step.problem(one.shape, one.all());
    return step.price(one.shape, problem, simulate(problem), step.stages(one.shape, one.all()))
        .memory[0]
        .total();
  };
  one.units[1].savedBytes = 3e9;
  const double without = total();
  for (UnitCost &unit : one.units)
    unit.narrowed = unit.parameters;
  // All of them, at the peak in the last layer.
  EXPECT_DOUBLE_EQ(total(), without + 2 * 1.3e9);
  for (UnitCost &unit : one.units)
    unit.narrowsAgain = true;
  EXPECT_DOUBLE_EQ(total(), without + 2 * 2e8);
  one.shape.microbatches = 2;
  const double several = total();
  for (UnitCost &unit : one.units)
    unit.narrowed = 0;
  EXPECT_DOUBLE_EQ(several, total() + 2 * 1.3e9);
}

/// A mask that both passes read is kept with what a microbatch saves, but on the last stage.
TEST(StepCost, StagesKeepMasksOfMicrobatchesUnderWay) {
  Case one;
  one.shape.asCompiled = true;
  one.shape.pipeline = 2;
  one.shape.microbatches = 4;
  one.shape.schedule = Schedule::GPipe;
  one.parts = {3, 2};
  StepPrice before = one.price();
  one.units[1].maskBytes = 1e7;
  StepPrice after = one.price();
  EXPECT_DOUBLE_EQ(after.memory[0].activations, before.memory[0].activations + 4e7);
  EXPECT_DOUBLE_EQ(after.memory[0].transient, before.memory[0].transient);
  EXPECT_DOUBLE_EQ(after.memory[1].activations, before.memory[1].activations);
  EXPECT_DOUBLE_EQ(after.memory[1].transient, before.memory[1].transient + 1e7);
}

TEST(StepCost, GradientsHideBesideTheLastBackwardPassButForAPart) {
  Case one;
  one.shape.data = 8;
  CostModel model = machine();
  double whole = model.seconds(Collective::AllReduce, 2 * 1.3e9, Group{8, 1, 8}),
         least = whole * model.machine().fitted["exposed_gradient"];
  one.shape.overlapGradients = false;
  EXPECT_NEAR(one.price().reduction, whole, 1e-12);
  one.shape.overlapGradients = true;
  EXPECT_NEAR(one.price().reduction, std::max(whole - 4 * 0.025, least), 1e-12);
  // What context ranks hold alike is reduced with the data ranks', where they say so.
  one.shape.data = 4;
  one.shape.context = 2;
  one.shape.overlapGradients = false;
  one.shape.reducesOverContext = true;
  EXPECT_NEAR(one.price().reduction, whole, 1e-12);
}

TEST(StepCost, WhatAnEmbeddingGathersPassesBesideLayers) {
  Case one;
  one.shape.data = 8;
  one.shape.zero = 3;
  CostModel model = machine();
  StepCost step(model, {});
  double gather = model.seconds(Collective::AllGather, 2 * 5e8, Group{8, 1, 8}) +
                  4 * model.seconds(Collective::AllGather, 2 * 2e8, Group{8, 1, 8});
  double contention = model.machine().fitted["overlap_contention"], compute = 4 * 0.010;
  ASSERT_LT(gather, compute) << "all of it hides, and slows kernels";
  EXPECT_NEAR(step.problem(one.shape, one.all()).work[0].forward, compute + contention * gather, 1e-12);
  // The first gather and the last scatter hide behind nothing.
  EXPECT_NEAR(one.price().reduction, 2 * model.seconds(Collective::AllGather, 2 * 5e8, Group{8, 1, 8}), 1e-9);
  // With a pipeline, it may be gathered once a step, and stays whole.
  Case staged = one;
  staged.shape.data = 4;
  staged.shape.pipeline = 2;
  staged.parts = {3, 2};
  staged.shape.microbatches = 8;
  double often = step.problem(staged.shape, staged.all()).work[0].forward;
  double held = staged.price().memory[0].parameters;
  staged.shape.keepsGathered = true;
  EXPECT_LT(step.problem(staged.shape, staged.all()).work[0].forward, often);
  EXPECT_LT(0, held);
  EXPECT_GT(staged.price().memory[1].gradients, staged.price().memory[1].parameters / 4);
}

TEST(StepCost, TheBackwardPassGathersWhatItReads) {
  Case one;
  one.shape.data = 8;
  one.shape.zero = 3;
  CostModel model = machine();
  StepCost step(model, {});
  Group all{8, 1, 8};
  double scatter = model.seconds(Collective::ReduceScatter, 2 * 5e8, all) +
                   4 * model.seconds(Collective::ReduceScatter, 2 * 2e8, all),
         layer = model.seconds(Collective::AllGather, 2 * 2e8, all);
  // Not the table of the embedding; of the layers all but the last, whose backward pass comes next.
  double contention = model.machine().fitted["overlap_contention"], compute = 4 * 0.025;
  auto backward = [&](double moved) {
    return std::max(compute, moved) + contention * std::min(compute, moved) - 4 * 0.010;
  };
  EXPECT_NEAR(step.problem(one.shape, one.all()).work[0].backward, backward(scatter + 3 * layer), 1e-12);
  one.shape.schedule = Schedule::GPipe;
  one.shape.microbatches = 2;
  EXPECT_NEAR(step.problem(one.shape, one.all()).work[0].backward, backward(scatter + 4 * layer), 1e-12);
}

TEST(StepCost, StagesThatShareAParameterReduceIt) {
  Case one;
  one.order = {0, 1, 1, 0};
  one.parts = {2, 2};
  one.shape.pipeline = 2;
  one.shape.microbatches = 4;
  double apart = one.price().reduction;
  one.units[0].shared[7] = 5e8;
  EXPECT_GT(one.price().reduction, apart);
  EXPECT_DOUBLE_EQ(one.price().memory[0].parameters, 2 * 7e8);
  // On one stage it is one copy.
  one.parts = {4};
  one.shape.pipeline = 1;
  EXPECT_DOUBLE_EQ(one.price().memory[0].parameters, 2 * 9e8);
}

TEST(StepCost, PartsOfUnitsCountAsParts) {
  Case one;
  std::vector<double> amounts = {1, 0.5, 0.5, 2, 1};
  UnitOrder order{one.units, one.order, one.parts, &amounts};
  CostModel model = machine();
  StepCost step(model, {});
  EXPECT_NEAR(step.problem(one.shape, order).work[0].forward, 0.040, 1e-12);
  EXPECT_DOUBLE_EQ(step.stages(one.shape, order)[0].parameters, 1.3e9);
}

} // namespace
} // namespace colossal::cost
