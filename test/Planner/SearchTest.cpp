// The joint search against every plan of a small space, its bounds, and what it says where nothing fits.
#include "TransformerGraph.h"
#include "colossal/Planner/PlanReport.h"
#include "colossal/Planner/PlanText.h"

#include <gtest/gtest.h>

using namespace colossal;
using namespace colossal::planner;

namespace {

struct Case {
  const char *machine;
  int devices;
  double batch, memory;
  TransformerSizes sizes;
};

std::vector<Case> cases() {
  TransformerSizes small, wide, deep;
  small.tied = false;
  wide.hidden = 2048;
  wide.heads = 16;
  wide.sequence = 1024;
  wide.vocabulary = 8192;
  deep.layers = 10;
  deep.hidden = 1024;
  deep.heads = 8;
  deep.sequence = 512;
  return {{"a100-80-sxm", 8, 32, 0, small},    {"a100-80-sxm", 8, 8, 0, wide},
          {"a100-80-sxm", 8, 2, 1.5e9, wide},  {"h100", 12, 24, 0, deep},
          {"a100-40-pcie", 16, 16, 4e8, deep}, {"a100-80-sxm", 16, 64, 6e8, deep}};
}

SearchSpace space() {
  SearchSpace space;
  space.maxTensor = 8;
  space.maxMicrobatch = 4;
  space.maxChunks = 2;
  space.minContextLength = 512;
  space.tensorGrids = false;
  return space;
}

/// Prices every plan of the space; calls `visit` with those that make sense.
template <typename Visit>
void forAllPlans(PlanPricer &pricer, const TrainingTask &task, const SearchSpace &space, Visit visit) {
  for (int tensor = 1; tensor <= space.maxTensor; ++tensor)
    for (int context = 1; context <= space.maxContext; ++context)
      for (int pipeline = 1; pipeline <= task.devices; ++pipeline) {
        if (task.devices % (tensor * context * pipeline) != 0 ||
            (context > 1 && pricer.graph().sequence / context < space.minContextLength))
          continue;
        TrainingPlan plan;
        plan.task = task;
        plan.pipeline = pipeline;
        plan.tensor = {tensor};
        plan.context = context;
        plan.data = task.devices / tensor / context / pipeline;
        for (const Boundary &boundary : pricer.blocks().boundaries(tensorAxes(plan)))
          for (int microbatch = 1; microbatch <= space.maxMicrobatch; ++microbatch)
            for (cost::Schedule schedule : space.schedules)
              for (Recompute recompute : space.recompute)
                for (int zero : space.zero)
                  for (int lean : {0, 1, 2}) {
                    plan.boundary = boundary;
                    plan.microbatch = microbatch;
                    plan.schedule = schedule;
                    plan.chunks =
                        schedule == cost::Schedule::Interleaved || schedule == cost::Schedule::ZeroBubbleV
                            ? 2
                            : 1;
                    plan.recompute = recompute;
                    plan.zero = zero;
                    plan.lean = lean;
                    if (context > 1 && !(boundary.front() && boundary.front()->dim == 1))
                      continue;
                    PlanPrice price = pricer.price(plan);
                    if (price.error.empty())
                      visit(plan, price);
                  }
      }
}

TEST(Search, FindsTheBestOfAllPlans) {
  for (const Case &one : cases()) {
    SCOPED_TRACE(one.devices + one.batch);
    TrainingGraph graph = makeTransformer(one.sizes);
    cost::CostModel model(cost::loadMachine(one.machine).machine);
    TrainingTask task;
    task.devices = one.devices;
    task.globalBatch = one.batch;
    task.memoryBytes = one.memory;
    PlanPricer pricer(graph, model, task);
    double best = 1e300;
    int plans = 0, fitting = 0;
    forAllPlans(pricer, task, space(), [&](const TrainingPlan &plan, const PlanPrice &price) {
      ++plans;
      TrainingPlan balanced = plan;
      balanced.parts = price.parts;
      PlanOutline outline = pricer.outline(balanced, pricer.cell(plan));
      EXPECT_LE(outline.bound, price.seconds * (1 + 1e-9))
          << cost::toString(plan.schedule) << " " << plan.pipeline;
      EXPECT_LE(pricer.leastBytes(balanced, outline), price.peakBytes * (1 + 1e-9))
          << cost::toString(plan.schedule);
      // Every parameter lies somewhere, with its gradient and its moments: 18 bytes.
      double state = 0;
      for (const StageMemory &stage : price.memory)
        state += (stage.parameters + stage.gradients + stage.optimizer) * one.devices / plan.pipeline;
      EXPECT_GE(state, 18 * graph.parameters() * (1 - 1e-9))
          << "context " << plan.context << " zero " << plan.zero << " tensor " << plan.tensorSize();
      if (price.fits()) {
        ++fitting;
        best = std::min(best, price.seconds);
      }
    });
    ASSERT_GT(plans, 100);
    SearchResult result = searchPlans(pricer, task, space());
    ASSERT_EQ(result.error, "");
    EXPECT_TRUE(result.complete);
    if (fitting == 0) {
      EXPECT_FALSE(result.best);
      continue;
    }
    ASSERT_TRUE(result.best);
    EXPECT_NEAR(result.best->price.seconds, best, 1e-9 * best);
    EXPECT_LE(result.bound, best * (1 + 1e-9));
    EXPECT_LE(result.roofline, result.bound * (1 + 1e-9));
    EXPECT_GT(result.roofline, 0);
    EXPECT_LT(result.simulated, plans);
    for (const PricedPlan &other : result.runnersUp) {
      EXPECT_GE(other.price.seconds, best * (1 - 1e-9));
      EXPECT_FALSE(other.reason.empty());
    }
  }
}

TEST(Search, TheWrittenPlanHasTheReportedPrice) {
  for (const Case &one : cases()) {
    TrainingGraph graph = makeTransformer(one.sizes);
    cost::CostModel model(cost::loadMachine(one.machine).machine);
    TrainingTask task;
    task.devices = one.devices;
    task.globalBatch = one.batch;
    task.memoryBytes = one.memory;
    std::string texts[2];
    for (std::string &text : texts) {
      PlanPricer pricer(graph, model, task);
      SearchResult result = searchPlans(pricer, task, space());
      if (!result.best)
        continue;
      text = printPlan(result, pricer, one.machine);
      PlanReadResult read = parsePlan(text, graph);
      ASSERT_EQ(read.error, "");
      EXPECT_EQ(read.machine, one.machine);
      PlanPricer other(graph, model, read.plan.task);
      PlanPrice price = other.price(read.plan);
      ASSERT_EQ(price.error, "");
      EXPECT_DOUBLE_EQ(price.seconds, result.best->price.seconds);
      EXPECT_DOUBLE_EQ(price.peakBytes, result.best->price.peakBytes);
      EXPECT_NE(printReport(result, pricer).find("prediction: "), std::string::npos);
    }
    EXPECT_EQ(texts[0], texts[1]);
  }
}

TEST(Search, SaysWhatWouldMakeItFit) {
  TransformerSizes sizes;
  sizes.layers = 8;
  sizes.hidden = 1024;
  sizes.heads = 8;
  sizes.sequence = 512;
  TrainingGraph graph = makeTransformer(sizes);
  cost::CostModel model(cost::loadMachine("a100-80-sxm").machine);
  TrainingTask task;
  task.devices = 4;
  task.globalBatch = 16;
  task.memoryBytes = 3e8;
  PlanPricer pricer(graph, model, task);
  SearchResult result = searchPlans(pricer, task, space());
  ASSERT_FALSE(result.best);
  ASSERT_TRUE(result.smallest);
  EXPECT_GT(result.smallest->price.peakBytes, task.memoryBytes);
  ASSERT_GE(result.remedies.size(), 2u);
  EXPECT_NE(result.remedies[0].find("GiB more"), std::string::npos);
  EXPECT_NE(result.remedies[1].find("devices"), std::string::npos);
  std::string report = printReport(result, pricer);
  EXPECT_NE(report.find("nothing fits"), std::string::npos);
  // The memory that it asks for is enough, and a little less is not.
  for (double factor : {1.0001, 0.98}) {
    TrainingTask other = task;
    other.memoryBytes = result.smallest->price.peakBytes * factor;
    PlanPricer more(graph, model, other);
    EXPECT_EQ(searchPlans(more, other, space()).best.has_value(), factor > 1);
  }
}

TEST(Search, TasksThatMakeNoSenseAreRefused) {
  TrainingGraph graph = makeTransformer({});
  cost::CostModel model(cost::loadMachine("a100-80-sxm").machine);
  TrainingTask task;
  task.devices = 1 << 19;
  PlanPricer pricer(graph, model, task);
  EXPECT_EQ(searchPlans(pricer, task, {}).error.rfind("--devices: machine 'a100-80-sxm' has 1 to ", 0), 0u);
  task.devices = 8;
  task.globalBatch = 0.5;
  EXPECT_EQ(searchPlans(pricer, task, {}).error, "--global-batch: must be a whole number from 1 to 10^9");
}

} // namespace
