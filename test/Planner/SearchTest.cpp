// The joint search against every plan of a small space, its bounds, and what it says where nothing fits.
#include "TransformerGraph.h"

#include "lib/Planner/KeptValues.h"

#include "colossal/Cost/ByteSize.h"
#include "colossal/Planner/FixedParts.h"
#include "colossal/Planner/PlanReport.h"
#include "colossal/Planner/PlanText.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

using namespace colossal;
using namespace colossal::planner;

namespace {

struct Case {
  const char *machine;
  int devices;
  double batch, memory;
  TransformerSizes sizes;

  TrainingTask task() const {
    TrainingTask task;
    task.devices = devices;
    task.globalBatch = batch;
    task.memoryBytes = memory;
    return task;
  }
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
  const auto kept = findKeptChoices(pricer.graph(), pricer.blocks(), pricer.types(), space.keptChoices);
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
                    if (!price.error.empty())
                      continue;
                    visit(plan, price);
                    // Single values are given up where all have no room; of the stages of ZeRO that take as
                    // long, with the one that needs less.
                    if (recompute != Recompute::None || price.fits() ||
                        (zero == 0 && plan.data * context > 1))
                      continue;
                    for (const auto &choice : kept) {
                      TrainingPlan less = plan;
                      less.recompute = Recompute::ByValue;
                      less.kept = choice;
                      if (PlanPrice lessPrice = pricer.price(less); lessPrice.error.empty())
                        visit(less, lessPrice);
                    }
                  }
      }
}

TEST(Search, FindsTheBestOfAllPlans) {
  for (const Case &one : cases()) {
    SCOPED_TRACE(one.devices + one.batch);
    FactorGraph graph = makeTransformer(one.sizes);
    cost::CostModel model(cost::loadMachine(one.machine).machine);
    TrainingTask task = one.task();
    PlanPricer pricer(graph, model, task);
    double best = 1e300;
    int plans = 0, fitting = 0;
    std::vector<PricedPlan> kinds; // the best plan of each
    forAllPlans(pricer, task, space(), [&](const TrainingPlan &plan, const PlanPrice &price) {
      ++plans;
      TrainingPlan balanced = plan;
      balanced.parts = price.parts;
      PlanEstimate estimate = pricer.estimate(balanced, pricer.cell(plan));
      EXPECT_LE(estimate.bound, price.seconds * (1 + 1e-9))
          << cost::toString(plan.schedule) << " " << plan.pipeline;
      EXPECT_LE(pricer.leastBytes(balanced, estimate), price.peakBytes * (1 + 1e-9))
          << cost::toString(plan.schedule);
      // Every parameter lies somewhere, with its moments, and with its gradient where microbatches add them
      // up: 14 or 18 bytes.
      const bool addsUp = plan.microbatches() > 1;
      double state = 0;
      for (const StageMemory &stage : price.memory)
        state += (stage.parameters + (addsUp ? stage.gradients : 0) + stage.optimizer) * one.devices /
                 plan.pipeline;
      EXPECT_GE(state, (addsUp ? 18 : 14) * graph.parameters() * (1 - 1e-9))
          << "context " << plan.context << " zero " << plan.zero << " tensor " << plan.tensorSize();
      if (price.fits()) {
        ++fitting;
        best = std::min(best, price.seconds);
        auto known = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const PricedPlan &other) { return isOfOneKind(plan, other.plan); });
        if (known == kinds.end())
          kinds.push_back({plan, price, ""});
        else if (price.seconds < known->price.seconds)
          *known = {plan, price, ""};
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
    // Only with devices or sequences to spare is anything better than all plans that use them up.
    const TrainingPlan &found = result.best->plan;
    EXPECT_LE(result.best->price.seconds, best * (1 + 1e-9));
    EXPECT_LE(result.bound, best * (1 + 1e-9));
    EXPECT_EQ(result.gap(), 0) << "all others were simulated or excluded";
    if (found.idle == 0 && found.padding == 0) {
      EXPECT_NEAR(result.best->price.seconds, best, 1e-9 * best);
    }
    best = result.best->price.seconds;
    EXPECT_LE(result.bound, best * (1 + 1e-9));
    EXPECT_LE(result.relaxed, result.bound * (1 + 1e-9));
    EXPECT_LE(result.roofline, result.relaxed * (1 + 1e-9));
    EXPECT_GT(result.roofline, 0);
    EXPECT_LT(result.simulated, plans);
    double before = best;
    for (const PricedPlan &other : result.runnersUp) {
      EXPECT_GE(other.price.seconds, before * (1 - 1e-9));
      EXPECT_FALSE(other.reason.empty());
      EXPECT_FALSE(isOfOneKind(other.plan, found));
      before = other.price.seconds;
    }
    ASSERT_GE(result.runnersUp.size(), 5u);
    EXPECT_EQ(result.unexplored, std::numeric_limits<double>::infinity());
    // Nothing of another kind lies between the best plan and the last runner-up.
    for (const PricedPlan &one : kinds) {
      if (isOfOneKind(one.plan, found) || one.price.seconds >= before * (1 - 1e-9))
        continue;
      auto listed = std::find_if(result.runnersUp.begin(), result.runnersUp.end(),
                                 [&](const PricedPlan &other) { return isOfOneKind(one.plan, other.plan); });
      if (listed == result.runnersUp.end())
        ADD_FAILURE() << one.price.seconds << " s, before " << before << " s: pipeline " << one.plan.pipeline
                      << " data " << one.plan.data << " context " << one.plan.context << " tensor "
                      << one.plan.tensorSize() << " zero " << one.plan.zero << " recompute "
                      << toString(one.plan.recompute) << " " << cost::toString(one.plan.schedule);
      else
        EXPECT_LE(listed->price.seconds, one.price.seconds * (1 + 1e-9));
    }
  }
}

/// Between full recompute and keeping all, the search gives up what saves the least time for its bytes: no
/// plan is slower than without the choice, and for many limits it is faster.
TEST(Search, SingleValuesAreKeptWhereTheyFit) {
  TransformerSizes sizes;
  sizes.layers = 10;
  sizes.hidden = 1024;
  sizes.heads = 8;
  sizes.sequence = 512;
  FactorGraph graph = makeTransformer(sizes);
  cost::CostModel model(cost::loadMachine("a100-80-sxm").machine);
  TrainingTask task;
  task.devices = 4;
  task.globalBatch = 32;
  SearchSpace fixed = space(), named;
  fixed.meshes = {{1, 4, 1, 1}};
  fixed.microbatches = 1;
  fixed.keptChoices = 7;
  for (bool isCompiled : {false, true}) {
    task.scoresInMemory = isCompiled;
    named = fixed;
    named.keptChoices = 0;
    auto find = [&](double memory, const SearchSpace &space) {
      TrainingTask limited = task;
      limited.memoryBytes = memory;
      PlanPricer pricer(graph, model, limited);
      return searchPlans(pricer, limited, space);
    };
    SearchSpace full = named, none = named;
    full.recompute = {Recompute::Full};
    none.recompute = {Recompute::None};
    const double least = find(0, full).best->price.peakBytes, most = find(0, none).best->price.peakBytes;
    ASSERT_LT(least, most);
    int faster = 0;
    double before = std::numeric_limits<double>::infinity();
    constexpr int kLimits = 12;
    for (int i = 0; i <= kLimits; ++i) {
      const double limit = least + (most - least) * i / kLimits + 1;
      SearchResult chosen = find(limit, fixed), without = find(limit, named);
      ASSERT_TRUE(chosen.best && without.best) << limit;
      EXPECT_LE(chosen.best->price.peakBytes, limit);
      EXPECT_LE(chosen.best->price.seconds, without.best->price.seconds);
      EXPECT_LE(chosen.best->price.seconds, before) << "with more memory";
      before = chosen.best->price.seconds;
      faster += chosen.best->price.seconds < without.best->price.seconds * (1 - 1e-3);
    }
    EXPECT_GE(faster, kLimits / 3) << isCompiled;
  }
}

TEST(Search, KeptChoicesAreNested) {
  FactorGraph graph = makeTransformer({});
  cost::CostModel model(cost::loadMachine("a100-80-sxm").machine);
  PlanPricer pricer(graph, model, {});
  const auto choices = findKeptChoices(graph, pricer.blocks(), pricer.types(), 7);
  ASSERT_GE(choices.size(), 2u);
  int before = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    int count = 0;
    for (std::size_t k = 0; k < choices[i]->size(); ++k)
      for (std::size_t o = 0; o < (*choices[i])[k].size(); ++o) {
        count += (*choices[i])[k][o];
        if (i > 0) {
          EXPECT_LE((*choices[i - 1])[k][o], (*choices[i])[k][o]);
        }
      }
    EXPECT_GT(count, before);
    before = count;
    std::string error;
    EXPECT_EQ(readKept(graph, nameKept(graph, *choices[i]), error), *choices[i]);
    EXPECT_EQ(error, "");
  }
}

TEST(Search, TheWrittenPlanHasTheReportedPrice) {
  for (const Case &one : cases()) {
    FactorGraph graph = makeTransformer(one.sizes);
    cost::CostModel model(cost::loadMachine(one.machine).machine);
    TrainingTask task = one.task();
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
      // So does a runner-up, whose keys make a whole plan of the best one's.
      nlohmann::json whole = nlohmann::json::parse(text);
      std::size_t next = 0;
      for (nlohmann::json runner : whole["search"]["runners_up"]) {
        double seconds = runner["seconds"];
        nlohmann::json swapped = whole;
        for (const char *key : {"seconds", "peak_bytes", "reason"})
          runner.erase(key);
        swapped.update(runner);
        PlanReadResult taken = parsePlan(swapped.dump(), graph);
        ASSERT_EQ(taken.error, "");
        EXPECT_TRUE(isOfOneKind(taken.plan, result.runnersUp[next++].plan));
        EXPECT_DOUBLE_EQ(other.price(taken.plan).seconds, seconds);
      }
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
  FactorGraph graph = makeTransformer(sizes);
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
  EXPECT_NE(result.remedies[0].find("iB more)"), std::string::npos);
  EXPECT_NE(result.remedies[1].find("devices"), std::string::npos);
  std::string report = printReport(result, pricer);
  EXPECT_NE(report.find("nothing fits"), std::string::npos);
  // The memory that it asks for is enough as it is typed, and a little less is not.
  cost::ByteSize said = cost::roundUpBytes(result.smallest->price.peakBytes);
  EXPECT_NE(report.find("--memory " + said.text + " ("), std::string::npos) << report;
  for (double bytes : {static_cast<double>(said.bytes), result.smallest->price.peakBytes * 0.98}) {
    TrainingTask other = task;
    other.memoryBytes = bytes;
    PlanPricer more(graph, model, other);
    EXPECT_EQ(searchPlans(more, other, space()).best.has_value(), bytes >= static_cast<double>(said.bytes));
  }
}

TEST(Search, WhatIsSaidToBeEnoughIsEnough) {
  for (double bytes : {1., 999., 1023., 1024., 1e6, 5.71e9, 4.7 * (1 << 30), 1e12, 3e15}) {
    cost::ByteSize size = cost::roundUpBytes(bytes);
    EXPECT_GE(static_cast<double>(size.bytes), bytes) << size.text;
    EXPECT_LE(static_cast<double>(size.bytes), bytes * 1.011 + 1) << size.text;
  }
  EXPECT_EQ(cost::roundUpBytes(5.712 * (1 << 30)).text, "5.72GiB");
}

TEST(Search, PartsThatAreFixedStay) {
  TransformerSizes sizes;
  sizes.hidden = 1024;
  sizes.heads = 8;
  sizes.sequence = 1024;
  sizes.layers = 6;
  FactorGraph graph = makeTransformer(sizes);
  cost::CostModel model(cost::loadMachine("a100-80-sxm").machine);
  FixedParts mesh, roles, zero, recompute, schedule, count, many;
  mesh.mesh = "model=2,stage=2";
  roles.mesh = "4x2";
  zero.zero = 2;
  recompute.recompute = "full";
  schedule.schedule = "zb-h1";
  count.microbatches = 4;
  many.mesh = "stage=2";
  many.chunks = 2;
  many.schedule = "interleaved";
  for (const FixedParts &parts : {mesh, roles, zero, recompute, schedule, count, many}) {
    SCOPED_TRACE(parts.text());
    TrainingTask task;
    task.devices = 8;
    task.globalBatch = 16;
    SearchSpace narrow = space();
    ASSERT_EQ(fixParts(parts, task, narrow), "");
    ASSERT_EQ(checkModel(parts, narrow, graph), "");
    auto has = [&](const TrainingPlan &plan) {
      std::vector<int> axes{plan.pipeline, plan.data, plan.context, plan.tensorSize()};
      std::sort(axes.begin(), axes.end());
      return (parts.mesh != mesh.mesh || (plan.tensorSize() == 2 && plan.pipeline == 2)) &&
             (parts.mesh != roles.mesh || axes == std::vector<int>{1, 1, 2, 4} || axes.back() == 8) &&
             (parts.mesh != many.mesh || plan.pipeline == 2) && (parts.zero < 0 || plan.zero == parts.zero) &&
             (parts.recompute.empty() || plan.recompute == Recompute::Full) &&
             (parts.schedule.empty() || parts.schedule == cost::toString(plan.schedule)) &&
             (parts.chunks == 0 || plan.chunks == parts.chunks) &&
             (parts.microbatches == 0 || plan.microbatches() == parts.microbatches);
    };
    PlanPricer pricer(graph, model, task);
    SearchResult result = searchPlans(pricer, task, narrow);
    ASSERT_EQ(result.error, "");
    ASSERT_TRUE(result.best);
    EXPECT_TRUE(has(result.best->plan));
    for (const PricedPlan &other : result.runnersUp)
      EXPECT_TRUE(has(other.plan));
    // As fast as the best of all plans that have them.
    double best = std::numeric_limits<double>::infinity();
    forAllPlans(pricer, task, space(), [&](const TrainingPlan &plan, const PlanPrice &price) {
      if (has(plan) && price.fits())
        best = std::min(best, price.seconds);
    });
    EXPECT_LE(result.best->price.seconds, best * (1 + 1e-9));
  }
}

TEST(Search, PartsThatContradictAreRefused) {
  FactorGraph graph = makeTransformer({});
  auto refuse = [&](FixedParts parts, int devices = 64, double batch = 16) {
    TrainingTask task;
    task.devices = devices;
    task.globalBatch = batch;
    SearchSpace space;
    std::string wrong = fixParts(parts, task, space);
    return wrong.empty() ? checkModel(parts, space, graph) : wrong;
  };
  auto mesh = [](const char *text) {
    FixedParts parts;
    parts.mesh = text;
    return parts;
  };
  EXPECT_EQ(refuse(mesh("model=8")), "");
  EXPECT_NE(refuse(mesh("model=8,stage=3")).find("--devices 48 or 72"), std::string::npos);
  EXPECT_NE(refuse(mesh("rows=8")).find("data, model, context and stage"), std::string::npos);
  EXPECT_NE(refuse(mesh("model=8,model=2")).find("given twice"), std::string::npos);
  EXPECT_NE(refuse(mesh("model=0")).find("not an axis"), std::string::npos);
  EXPECT_NE(refuse(mesh("8x4")).find("--devices 32"), std::string::npos);
  EXPECT_NE(refuse(mesh("8x")).find("not a size"), std::string::npos);
  EXPECT_NE(refuse(mesh("stage=64")).find("or fewer would do"), std::string::npos);
  FixedParts chunks = mesh("stage=2");
  chunks.chunks = 2;
  chunks.schedule = "1f1b";
  EXPECT_NE(refuse(chunks).find("1f1b has one chunk a stage"), std::string::npos);
  chunks.schedule = "zb-v";
  EXPECT_EQ(refuse(chunks), "");
  chunks.mesh = "stage=1";
  chunks.schedule = "";
  EXPECT_NE(refuse(chunks).find("one stage has one chunk"), std::string::npos);
  FixedParts schedule;
  schedule.schedule = "dualpipe";
  EXPECT_NE(refuse(schedule).find("is not one of gpipe"), std::string::npos);
  FixedParts many = mesh("data=8");
  many.microbatches = 4;
  EXPECT_NE(refuse(many).find("--microbatches 2 or fewer, or --global-batch 32"), std::string::npos);
}

TEST(Search, TasksThatMakeNoSenseAreRefused) {
  FactorGraph graph = makeTransformer({});
  cost::CostModel model(cost::loadMachine("a100-80-sxm").machine);
  TrainingTask task;
  task.devices = 1 << 19;
  PlanPricer pricer(graph, model, task);
  EXPECT_EQ(searchPlans(pricer, task, {}).error.rfind("--devices: machine 'a100-80-sxm' has 1 to ", 0), 0u);
  task.devices = 8;
  task.globalBatch = 0.5;
  EXPECT_EQ(searchPlans(pricer, task, {}).error, "--global-batch: must be a whole number from 1 to 10^9");
}

TEST(Search, ABoundIsLeftWhereItEndsEarly) {
  int early = 0;
  for (const Case &one : cases()) {
    FactorGraph graph = makeTransformer(one.sizes);
    cost::CostModel model(cost::loadMachine(one.machine).machine);
    TrainingTask task = one.task();
    PlanPricer pricer(graph, model, task);
    SearchSpace cut = space();
    cut.passes = cut.runnerPasses = 0;
    SearchResult result = searchPlans(pricer, task, cut), whole = searchPlans(pricer, task, space());
    if (!result.best || result.complete)
      continue;
    ++early;
    EXPECT_GE(result.bound, result.relaxed);
    EXPECT_LE(result.bound, whole.best->price.seconds * (1 + 1e-9));
    EXPECT_LT(result.bound, result.best->price.seconds);
    EXPECT_GT(result.gap(), 0);
  }
  EXPECT_GT(early, 0);
}

/// The time of the best plan; infinite if none fits.
double bestSeconds(const FactorGraph &graph, const cost::CostModel &model, int devices, double batch,
                   double memory = 0) {
  TrainingTask task;
  task.devices = devices;
  task.globalBatch = batch;
  task.memoryBytes = memory;
  PlanPricer pricer(graph, model, task);
  SearchResult result = searchPlans(pricer, task, space());
  EXPECT_EQ(result.error, "");
  EXPECT_TRUE(result.complete);
  if (!result.best)
    return std::numeric_limits<double>::infinity();
  EXPECT_EQ(validate(result.best->plan, graph), "");
  EXPECT_EQ(result.best->plan.ranks() + result.best->plan.idle, devices);
  EXPECT_LE(result.bound, result.best->price.seconds * (1 + 1e-9));
  // Found in the same way, the plan's text has the same price.
  PlanReadResult read = parsePlan(printPlan(result, pricer, model.machine().name), graph);
  EXPECT_EQ(read.error, "");
  EXPECT_DOUBLE_EQ(PlanPricer(graph, model, read.plan.task).price(read.plan).seconds,
                   result.best->price.seconds);
  return result.best->price.seconds;
}

TransformerSizes middle() {
  TransformerSizes sizes;
  sizes.hidden = 1024;
  sizes.heads = 12;
  sizes.layers = 6;
  sizes.sequence = 512;
  return sizes;
}

TEST(Search, MoreDevicesAreNeverSlower) {
  for (const char *name : {"a100-80-sxm", "v100-dgx1", "h100-pcie"})
    for (double batch : {1., 6., 64.}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(batch));
      FactorGraph graph = makeTransformer(middle());
      cost::CostModel model(cost::loadMachine(name).machine);
      double fewer = std::numeric_limits<double>::infinity();
      for (int devices : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) {
        double seconds = bestSeconds(graph, model, devices, batch);
        EXPECT_LE(seconds, fewer * (1 + 1e-9)) << devices;
        // Other numbers leave some idle; meshes that only suit the number before are not all tried.
        if (devices == 6 || devices == 12) {
          EXPECT_LE(bestSeconds(graph, model, devices + 1, batch), seconds * 1.02) << devices + 1;
        }
        fewer = seconds;
      }
    }
}

TEST(Search, LeavesDevicesIdleWhereTheyOnlyWait) {
  FactorGraph graph = makeTransformer({});
  cost::Machine slow = cost::loadMachine("a100-80-sxm").machine;
  for (cost::Level &level : slow.levels)
    level.latencySeconds = 10;
  TrainingTask task;
  task.devices = task.globalBatch = 8;
  // Where all microbatches are of one sequence, one data rank differs from eight in nothing else. Tensor axes
  // that split nothing would take as long as idle devices.
  SearchSpace single = space();
  single.maxMicrobatch = single.maxTensor = single.maxContext = 1;
  cost::CostModel model(slow);
  PlanPricer pricer(graph, model, task);
  SearchResult result = searchPlans(pricer, task, single);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->plan.idle, 7);
  EXPECT_LT(result.best->price.seconds, 10);
}

TEST(Search, LargerBatchesAreNeverFaster) {
  FactorGraph graph = makeTransformer(middle());
  cost::CostModel model(cost::loadMachine("a100-80-sxm").machine);
  for (int devices : {8, 12}) {
    double smaller = 0;
    for (double batch : {1., 2., 3., 4., 7., 8., 11., 12., 13., 16., 31., 32., 61., 64.}) {
      double seconds = bestSeconds(graph, model, devices, batch);
      EXPECT_GE(seconds, smaller * (1 - 1e-9)) << devices << " devices, batch " << batch;
      smaller = seconds;
    }
  }
}

TEST(Search, MoreMemoryAndFasterLinksAreNeverSlower) {
  FactorGraph graph = makeTransformer(middle());
  cost::Machine machine = cost::loadMachine("a100-40-pcie").machine;
  double before = std::numeric_limits<double>::infinity();
  for (double memory : {3e8, 5e8, 8e8, 2e9, 1e10}) {
    double seconds = bestSeconds(graph, cost::CostModel(machine), 16, 32, memory);
    EXPECT_LE(seconds, before * (1 + 1e-9)) << memory;
    before = seconds;
  }
  EXPECT_LT(before, std::numeric_limits<double>::infinity());
  for (double faster : {1., 2., 4., 16.}) {
    cost::Machine other = machine;
    for (cost::Level &level : other.levels) {
      level.bandwidth *= faster;
      level.links.bandwidth *= faster;
      level.latencySeconds /= faster;
    }
    double seconds = bestSeconds(graph, cost::CostModel(other), 16, 32);
    EXPECT_LE(seconds, before * (1 + 1e-9)) << faster;
    before = seconds;
  }
}

TEST(Search, ThreadsDoNotChangeTheAnswer) {
  for (const Case &one : cases()) {
    FactorGraph graph = makeTransformer(one.sizes);
    cost::CostModel model(cost::loadMachine(one.machine).machine);
    TrainingTask task = one.task();
    std::string alone;
    for (int threads : {1, 2, 5}) {
      SearchSpace narrow = space();
      narrow.threads = threads;
      PlanPricer pricer(graph, model, task);
      SearchResult result = searchPlans(pricer, task, narrow);
      std::string text = printReport(result, pricer) + printPlan(result, pricer, one.machine);
      if (threads == 1)
        alone = text;
      EXPECT_EQ(text, alone) << threads;
    }
  }
}

} // namespace
