// Plans as text, and their prices.
#include "TransformerGraph.h"
#include "colossal/Planner/PlanText.h"

#include <gtest/gtest.h>

using namespace colossal;
using namespace colossal::planner;

namespace {

const std::string kPlan =
    R"({"format": "colossal-training-plan", "version": 1, "machine": "a100-80-sxm", "devices": 8,
  "global_batch": 16, "mesh": {"pipeline": 2, "data": 2, "context": 1, "tensor": [2]}, "microbatch": 1,
  "schedule": "1f1b", "zero": 1, "recompute": "none", "boundary": ["dim1"]})";

std::string changed(const std::string &from, const std::string &to) {
  std::string text = kPlan;
  std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(PlanText, MalformedPlansAreRefusedWithTheirPlace) {
  FactorGraph graph = makeTransformer({});
  EXPECT_EQ(parsePlan(kPlan, graph).error, "");
  auto error = [&](const std::string &from, const std::string &to) {
    return parsePlan(changed(from, to), graph).error;
  };
  EXPECT_EQ(parsePlan("", graph).error, "plan: is not JSON: line 1, column 1");
  EXPECT_EQ(parsePlan("{\n  \"format\": oops}", graph).error, "plan: is not JSON: line 2, column 13");
  EXPECT_EQ(parsePlan("[1]", graph).error, "plan: must be an object");
  EXPECT_EQ(parsePlan(kPlan.substr(0, kPlan.size() / 2), graph).error.rfind("plan: is not JSON: line ", 0),
            0u);
  EXPECT_EQ(error("\"zero\": 1", "\"zero\": 1, \"devices\": 16"), "plan: key 'devices' stands twice");
  EXPECT_EQ(error("\"data\": 2", "\"data\": 2, \"data\": 1"), "mesh: key 'data' stands twice");
  EXPECT_EQ(error("[\"dim1\"]", "[{\"a\": 1, \"a\": 2}]"), "boundary[0]: key 'a' stands twice");
  EXPECT_EQ(error("\"zero\": 1", "\"idle\": 8"), "idle: must be 0 to 7, is 8");
  EXPECT_EQ(error("\"zero\": 1", "\"idle\": 2"),
            "mesh: pipeline x data x context x tensor is 8, there are 8 devices of which 2 are idle");
  EXPECT_EQ(error("\"data\": 2", "\"data\": 1"),
            "mesh: pipeline x data x context x tensor is 4, there are 8 devices "
            "(\"idle\": 4 leaves the others out)");
  EXPECT_EQ(error("[2]", "[1048576, 1048576]"),
            "boundary: must be a list with a place for each of the 2 context and tensor axes above 1");
  EXPECT_EQ(error("\"version\": 1", "\"version\": 2"), "version: this program reads version 1, not 2");
  EXPECT_EQ(error("colossal-training-plan", "plan"), "format: must be \"colossal-training-plan\"");
  EXPECT_EQ(error("\"devices\": 8,", ""), "plan: 'devices' is missing");
  EXPECT_EQ(error("\"zero\": 1", "\"zer\": 1"), "plan: unknown key 'zer'");
  EXPECT_EQ(error("\"zero\": 1", "\"zero\": 4"), "zero: must be 0 to 3");
  EXPECT_EQ(error("\"zero\": 1", "\"zero\": 1e300"), "zero: must be 0 to 3");
  EXPECT_EQ(error("\"zero\": 1", "\"zero\": \"1\""), "zero: must be a whole number");
  EXPECT_EQ(error("\"data\": 2", "\"data\": 2.5"), "mesh.data: must be a whole number");
  EXPECT_EQ(error("\"data\": 2", "\"data\": 4"),
            "mesh: pipeline x data x context x tensor is 16, there are 8 devices");
  EXPECT_EQ(error("[2]", "[2, true]"), "mesh.tensor[1]: must be a whole number");
  EXPECT_EQ(error("[2]", "[1,1,1,2]"), "mesh.tensor: at most 3 axes are supported");
  EXPECT_EQ(error("\"microbatch\": 1", "\"microbatch\": 3"),
            "microbatch: must divide the 8 sequences of a data rank");
  EXPECT_EQ(error("\"microbatch\": 1", "\"microbatch\": 0"), "microbatch: must be 1 to 1000000000");
  EXPECT_EQ(error("\"global_batch\": 16", "\"global_batch\": 15"),
            "mesh.data: 2 does not divide the global batch of 15 (\"padding\": 1 would do)");
  EXPECT_EQ(error("\"1f1b\"", "\"2f2b\"").rfind("schedule: '2f2b' is not one of ", 0), 0u);
  EXPECT_EQ(error("\"1f1b\"", "\"1f1b\", \"chunks\": 2"), "chunks: this schedule takes 1, is 2");
  EXPECT_EQ(error("\"1f1b\"", "\"interleaved\", \"chunks\": 4"),
            "mesh.pipeline: 2 stages of 4 chunks are more than the model's 6 units");
  EXPECT_EQ(error("\"none\"", "\"some\""), "recompute: 'some' is not none, selective, full or by-value");
  EXPECT_EQ(error("\"none\"", "\"none\", \"kept\": {\"block\": [\"up\"]}"),
            "kept: only recompute by-value keeps chosen values");
  EXPECT_EQ(error("\"none\"", "\"by-value\", \"kept\": {\"block\": [\"over\"]}"),
            "kept: unit 'block' has no operation 'over'");
  EXPECT_EQ(error("\"none\"", "\"by-value\", \"kept\": {\"brick\": []}"),
            "kept: the model has no unit 'brick'");
  EXPECT_EQ(error("\"none\"", "\"by-value\", \"kept\": {\"block\": \"up\"}"),
            "kept.block: must be a list of operations");
  EXPECT_EQ(
      error("[\"dim1\"]", "[\"dim7\"]"),
      "boundary[0]: must be \"whole\" or a dimension of the units' boundary after the batch, as in \"dim1\"");
  EXPECT_EQ(error("[\"dim1\"]", "[]"),
            "boundary: must be a list with a place for each of the 1 context and tensor axes above 1");
  EXPECT_EQ(error("\"zero\": 1", "\"stages\": [3, 4]"), "stages: the chunks have 7 units, the model has 6");
  EXPECT_EQ(error("\"zero\": 1", "\"stages\": [6, 0]"), "stages[1]: must be 1 to 1048576");
  EXPECT_EQ(error("\"zero\": 1", "\"layouts\": {\"bloc\": {}}"), "layouts: the model has no unit 'bloc'");
  EXPECT_EQ(error("\"zero\": 1", "\"layouts\": {\"block\": {\"up\": 1}}"),
            "layouts.block.up: must be a string of factors, as in \"n\" or \"n,-\"");
  EXPECT_EQ(error("\"zero\": 1", "\"precision\": \"f64\""), "precision: 'f64' is not bf16, f16, tf32 or f32");
}

TEST(PlanText, LayoutsThatCannotBeMetAreNamedByThePrice) {
  FactorGraph graph = makeTransformer({});
  cost::CostModel model(cost::loadMachine("a100-80-sxm").machine);
  PlanReadResult read = parsePlan(changed("\"zero\": 1", "\"layouts\": {\"block\": {\"up\": \"q\"}}"), graph);
  ASSERT_EQ(read.error, "");
  PlanPricer pricer(graph, model, read.plan.task);
  EXPECT_EQ(pricer.price(read.plan).error, "layouts.block: operation 'up' has no factor 'q'");
  // ZeRO keeps state over the context axis: a layout that split it there, too, would count it twice.
  read = parsePlan(changed("\"context\": 1, \"tensor\": [2]}",
                           "\"context\": 2, \"tensor\": [1]}, \"layouts\": {\"block\": {\"up\": \"n\"}}"),
                   graph);
  ASSERT_EQ(read.error, "");
  EXPECT_EQ(pricer.price(read.plan).error,
            "layouts.block: operation 'up' cannot split parameters over the context axis");
}

TEST(PlanPrice, MemoryAddsUp) {
  TransformerSizes sizes;
  sizes.layers = 16;
  sizes.vocabulary = 64;
  sizes.tied = false;
  FactorGraph graph = makeTransformer(sizes);
  cost::CostModel model(cost::loadMachine("a100-80-sxm").machine);
  TrainingPlan plan;
  plan.task.devices = 4;
  plan.task.globalBatch = 16;
  plan.data = 4;
  PlanPricer pricer(graph, model, plan.task);
  double count = graph.parameters();
  EXPECT_DOUBLE_EQ(count, 2 * 64 * 64 + 16 * (12 * 64 * 64 + 4 * 64) + 2 * 64);
  PlanPrice price = pricer.price(plan, true);
  ASSERT_EQ(price.error, "");
  EXPECT_DOUBLE_EQ(price.memory[0].parameters, 2 * count);
  EXPECT_DOUBLE_EQ(price.memory[0].gradients, 4 * count);
  EXPECT_DOUBLE_EQ(price.memory[0].optimizer, 12 * count);
  plan.zero = 1;
  EXPECT_DOUBLE_EQ(pricer.price(plan).memory[0].optimizer, 3 * count);
  // Programs keep pieces, at any number of microbatches. Gradients that are whole for a while, as parts of a
  // microbatch are, belong to the passes, and so do parameters with stage 3, each before its gradient.
  const double largest = 4 * 64 * 64;
  for (int microbatch : {1, 2}) {
    plan.microbatch = microbatch;
    plan.zero = 2;
    EXPECT_DOUBLE_EQ(pricer.price(plan).memory[0].parameters, 2 * count);
    EXPECT_DOUBLE_EQ(pricer.price(plan).memory[0].gradients, count);
    EXPECT_GE(pricer.price(plan).memory[0].transient, 4 * largest);
    plan.zero = 3;
    EXPECT_DOUBLE_EQ(pricer.price(plan).memory[0].parameters, 0.5 * count);
    EXPECT_DOUBLE_EQ(pricer.price(plan).memory[0].gradients, count);
    EXPECT_GE(pricer.price(plan).memory[0].transient, 4 * largest);
  }
  plan.zero = 0;
  plan.microbatch = 4;
  PlanPrice once = pricer.price(plan, true);
  EXPECT_LT(once.memory[0].gradients, 4 * count);
  double highest = 0;
  for (const MemoryPoint &point : once.curve)
    highest = std::max(highest, point.bytes);
  EXPECT_NEAR(highest, once.peakBytes, 1e-6 * highest);
  // The curve's highest point is the peak.
  double most = 0;
  for (const MemoryPoint &point : price.curve)
    most = std::max(most, point.bytes);
  EXPECT_NEAR(most, price.peakBytes, 1e-6 * most);
  // 6 operations a parameter and token, attention's beside them.
  double tokens = 16 * sizes.sequence;
  EXPECT_NEAR(price.flops, 6 * tokens * (16 * 12 * 64 * 64 + 64 * 64) + 3.5 * 16 * 16 * 2 * 32 * 32 * 64, 1);
}

TEST(PlanPrice, HopsFollowTheNodesThatStagesLieIn) {
  TransformerSizes sizes;
  sizes.hidden = 4096;
  sizes.heads = 32;
  sizes.sequence = 4096;
  FactorGraph graph = makeTransformer(sizes);
  // Two stages in a node of eight devices, and two in the next.
  for (auto [devices, tensor, inside, across] :
       {std::array<int, 4>{16, 4, 2, 1}, {8, 2, 3, 0}, {32, 8, 0, 3}})
    for (const char *schedule : {"1f1b", "zb-h1"}) {
      SCOPED_TRACE(testing::Message() << devices << " devices, " << schedule);
      cost::CostModel model(cost::loadMachine("a100-80-sxm").machine);
      TrainingPlan plan;
      plan.task.devices = devices;
      plan.pipeline = 4;
      plan.tensor = {tensor};
      plan.boundary = {std::nullopt};
      ASSERT_TRUE(cost::parseSchedule(schedule, plan.schedule));
      PlanPricer pricer(graph, model, plan.task);
      PlanPrice price = pricer.price(plan);
      ASSERT_EQ(price.error, "");
      // One microbatch goes there and back, and nothing overlaps.
      const Cell &cell = pricer.cell(plan);
      double seconds = 0;
      for (int unit : graph.units)
        seconds += cell.kinds[unit].forward + cell.kinds[unit].backward + cell.kinds[unit].weightGradient;
      if (plan.schedule != cost::Schedule::OneFOneB) // the others' weights' gradients are out of the way
        for (std::size_t u = price.parts[0]; u < graph.units.size(); ++u)
          seconds -= cell.kinds[graph.units[u]].weightGradient;
      double bytes = 2 * sizes.sequence * sizes.hidden / tensor;
      double launch = plan.schedule == cost::Schedule::OneFOneB ? model.machine().device.launchSeconds : 0;
      double near = model.seconds(cost::Collective::Permute, bytes, {2, 1, devices}) + launch;
      double far = model.seconds(cost::Collective::Permute, bytes, {2, 8, tensor}) + launch;
      EXPECT_GT(far, 1.2 * near);
      EXPECT_NEAR(price.pipeline, seconds + 2 * (inside * near + across * far), 1e-9 * price.pipeline);
    }
}

TEST(PlanPrice, TiedEmbeddingsAreOneOnAStageAndReducedBetweenTwo) {
  FactorGraph graph = makeTransformer({});
  cost::CostModel model(cost::loadMachine("a100-80-sxm").machine);
  TrainingPlan plan;
  plan.task.devices = 2;
  plan.task.globalBatch = 8;
  plan.data = 2;
  PlanPricer pricer(graph, model, plan.task);
  EXPECT_DOUBLE_EQ(pricer.price(plan).memory[0].parameters, 2 * graph.parameters());
  plan.data = 1;
  plan.pipeline = 2;
  PlanPrice price = pricer.price(plan);
  ASSERT_EQ(price.error, "");
  EXPECT_DOUBLE_EQ(price.memory[0].parameters + price.memory[1].parameters,
                   2 * (graph.parameters() + 512 * 64));
  EXPECT_GT(price.reduction, 0);
}

TEST(PlanPrice, CommunicationIsHiddenOrExposed) {
  TransformerSizes sizes;
  sizes.hidden = 1024;
  sizes.heads = 8;
  sizes.layers = 6;
  FactorGraph graph = makeTransformer(sizes);
  cost::CostModel model(cost::loadMachine("a100-80-sxm").machine);
  for (int zero : {0, 1, 2, 3})
    for (int pipeline : {1, 2}) {
      SCOPED_TRACE(std::to_string(zero) + " " + std::to_string(pipeline));
      TrainingPlan plan;
      plan.task.devices = 8;
      plan.task.globalBatch = 16;
      plan.pipeline = pipeline;
      plan.tensor = {2};
      plan.boundary = {std::nullopt};
      plan.data = 4 / pipeline;
      plan.zero = zero;
      PlanPricer pricer(graph, model, plan.task);
      PlanPrice price = pricer.price(plan, true);
      ASSERT_EQ(price.error, "");
      double inside = 0, reduction = 0;
      for (const Communication &one : price.communication) {
        EXPECT_GT(one.bytes, 0) << one.name;
        EXPECT_GT(one.seconds, 0) << one.name;
        EXPECT_GE(one.exposed, 0) << one.name;
        if (one.name.find("inside units") != std::string::npos) {
          inside += one.exposed;
          EXPECT_DOUBLE_EQ(one.exposed, one.seconds) << one.name;
        } else if (one.name.find("send") == std::string::npos) {
          reduction += one.exposed;
        }
      }
      if (pipeline == 1) {
        EXPECT_NEAR(inside, price.collective, 1e-9 * inside);
      }
      // What ZeRO 2 and 3 move beside passes makes those longer, too.
      if (zero < 2)
        EXPECT_NEAR(reduction, price.reduction, 1e-9 * reduction);
      else
        EXPECT_GE(reduction, price.reduction * (1 - 1e-9));
    }
}

TEST(PlanPrice, TheMemoryCurveRisesToThePeakAndFalls) {
  FactorGraph graph = makeTransformer({});
  cost::CostModel model(cost::loadMachine("a100-80-sxm").machine);
  for (Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full})
    for (int pipeline : {1, 2})
      for (int microbatch : {1, 8}) {
        TrainingPlan plan;
        plan.task.devices = plan.pipeline = pipeline;
        plan.task.globalBatch = 8;
        plan.microbatch = microbatch;
        plan.recompute = recompute;
        plan.tensor = {1};
        PlanPricer pricer(graph, model, plan.task);
        PlanPrice price = pricer.price(plan, true);
        ASSERT_EQ(price.error, "");
        double most = 0, least = 1e300, before = 0;
        for (const MemoryPoint &point : price.curve) {
          EXPECT_GE(point.seconds, before);
          before = point.seconds;
          most = std::max(most, point.bytes);
          least = std::min(least, point.bytes);
        }
        EXPECT_NEAR(most, price.peakBytes, 1e-9 * most);
        const StageMemory &memory = price.memory[price.curveStage];
        EXPECT_NEAR(least, memory.parameters + memory.gradients + memory.optimizer, 1e-6 * least);
        EXPECT_GE(price.curve.size(), 6u);
      }
}

} // namespace
