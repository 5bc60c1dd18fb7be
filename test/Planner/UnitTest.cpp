// Layouts of one unit: what they move against closed formulas, and the solver against all layouts.
#include "TransformerGraph.h"
#include "colossal/Planner/BlockPlanner.h"

#include <gtest/gtest.h>

using namespace colossal;
using namespace colossal::planner;

namespace {

std::shared_ptr<const cost::Pricing> device() {
  return cost::makePricing(cost::loadMachine("a100-80-sxm").machine, 8);
}

UnitQuery query(int kind, int ranks, Boundary boundary, double microbatch = 2) {
  UnitQuery query;
  query.kind = kind;
  query.axes = {{ranks, {ranks, 1, ranks}}};
  query.microbatch = microbatch;
  query.boundary = std::move(boundary);
  return query;
}

const std::map<std::string, std::string> kMegatron = {
    {"norm1", "d1"}, {"qkv", "n1"}, {"attention", "heads"}, {"out", "k1"}, {"add1", "d1"},
    {"norm2", "d1"}, {"up", "n"},   {"gelu", "d2"},         {"down", "k"}, {"add2", "d1"}};

TEST(Unit, MegatronMovesWhatTheFormulaSays) {
  TransformerSizes sizes;
  FactorGraph graph = makeTransformer(sizes);
  ASSERT_EQ(validate(graph), "");
  auto pricing = device();
  BlockPlanner planner(graph, *pricing, TrainingTypes());
  int ranks = 4;
  double stream = 2 * 2 * sizes.sequence * sizes.hidden; // bytes of the residual stream, microbatch 2
  double part = stream * (ranks - 1) / ranks;
  for (const Boundary &boundary : planner.boundaries(query(1, ranks, {}).axes)) {
    bool isSequence = boundary[0] && boundary[0]->dim == 1;
    if (boundary[0] && !isSequence)
      continue;
    UnitQuery asked = query(1, ranks, boundary);
    std::map<std::string, std::string> text = kMegatron;
    if (!isSequence)
      for (const char *name : {"norm1", "add1", "norm2", "add2"})
        text[name] = "-";
    std::string error;
    auto layout = planner.parse(asked, text, error);
    ASSERT_TRUE(layout) << error;
    UnitCost cost = planner.price(asked, *layout, error);
    ASSERT_EQ(error, "");
    if (isSequence) {
      // Two all-gathers and two reduce-scatters forward; the gathers again for the weights' gradients, and
      // one of each backward for each of the two parts (Korthikanti et al., 2022, section 4.2.2).
      EXPECT_DOUBLE_EQ(cost.bytesByCollective["all-gather"], (2 + 2 + 2) * part);
      EXPECT_DOUBLE_EQ(cost.bytesByCollective["reduce-scatter"], (2 + 2) * part);
      EXPECT_EQ(cost.bytesByCollective.count("all-reduce"), 0u);
      // What a contraction gathers is whole while its weight's gradient is computed; and so is the gradient
      // of what the last one gives, beside the rank's part of it, which goes past the layer. The gradient of
      // its operand, a quarter of what is four times as wide, lies where the operand was.
      EXPECT_DOUBLE_EQ(cost.transientBytes, stream + stream + stream / ranks);
    } else {
      // Two all-reduces forward and two backward (Shoeybi et al., 2019, section 3).
      EXPECT_DOUBLE_EQ(cost.bytesByCollective["all-reduce"], 4 * 2 * part);
      EXPECT_EQ(cost.bytesByCollective.count("all-gather"), 0u);
    }
    double h = sizes.hidden;
    EXPECT_DOUBLE_EQ(cost.parameters, 12 * h * h / ranks + 4 * h);
    // Inputs of the two normalizations and of the two contractions after them, whole or split; queries, keys,
    // values, their result, and four times two inside the MLP, split.
    double outside = isSequence ? 1.0 / ranks : 1;
    EXPECT_DOUBLE_EQ(cost.savedBytes, stream * (4 * outside + (3 + 1 + 4 + 4) / 4.0));
  }
}

TEST(Unit, RecomputeKeepsLess) {
  FactorGraph graph = makeTransformer({});
  auto pricing = device();
  BlockPlanner planner(graph, *pricing, TrainingTypes());
  UnitQuery asked = query(1, 4, {std::nullopt});
  std::string error;
  auto layout = planner.solve(asked);
  ASSERT_TRUE(layout);
  UnitCost none = planner.price(asked, *layout, error);
  asked.recompute = Recompute::Selective;
  UnitCost selective = planner.price(asked, *layout, error);
  asked.recompute = Recompute::Full;
  UnitCost full = planner.price(asked, *layout, error);
  EXPECT_LT(selective.savedBytes, none.savedBytes);
  EXPECT_LT(full.savedBytes, selective.savedBytes);
  EXPECT_GT(selective.backward, none.backward);
  EXPECT_GE(full.backward,
            none.backward + none.forward * (1 - 1e-9)); // the whole forward pass again, collectives included
  EXPECT_DOUBLE_EQ(full.savedBytes, 2 * 2 * 32 * 64);   // the unit's input
}

/// The least forward and backward seconds of all layouts.
double bruteForce(const BlockPlanner &planner, const UnitQuery &asked, const UnitKind &kind,
                  UnitLayout &layout, std::size_t op) {
  if (op == layout.size()) {
    std::string error;
    UnitCost cost = planner.price(asked, layout, error);
    return error.empty() ? cost.forward + cost.backward + cost.weightGradient +
                               cost.reduction.seconds / asked.microbatches
                         : 1e300;
  }
  double best = 1e300;
  for (int f = -1; f < static_cast<int>(kind.operations[op].factors.size()); ++f) {
    layout[op].fill(-1);
    layout[op][0] = static_cast<std::int8_t>(f);
    best = std::min(best, bruteForce(planner, asked, kind, layout, op + 1));
  }
  return best;
}

TEST(Unit, SolverFindsTheBestOfAllLayouts) {
  TransformerSizes sizes;
  sizes.hidden = 1024;
  sizes.sequence = 512;
  sizes.vocabulary = 8192;
  FactorGraph graph = makeTransformer(sizes);
  auto pricing = device();
  BlockPlanner planner(graph, *pricing, TrainingTypes());
  for (int kind : {0, 2})
    for (int ranks : {2, 8})
      for (const Boundary &boundary : planner.boundaries(query(kind, ranks, {}).axes)) {
        UnitQuery asked = query(kind, ranks, boundary);
        UnitLayout layout(graph.kinds[kind].operations.size());
        double best = bruteForce(planner, asked, graph.kinds[kind], layout, 0);
        auto found = planner.solve(asked);
        if (best >= 1e300) {
          EXPECT_FALSE(found);
          continue;
        }
        ASSERT_TRUE(found) << kind << " " << toString(boundary);
        std::string error;
        UnitCost cost = planner.price(asked, *found, error);
        ASSERT_EQ(error, "");
        double seconds =
            cost.forward + cost.backward + cost.weightGradient + cost.reduction.seconds / asked.microbatches;
        // The solver adds launches up by operation; a list counts them against computing as a whole.
        EXPECT_LE(seconds, best * 1.02 + 1e-9) << kind << " " << ranks << " " << toString(boundary);
        EXPECT_GE(seconds, best * (1 - 1e-9));
      }
}

TEST(Unit, LayoutsThatMakeNoSenseAreRefused) {
  FactorGraph graph = makeTransformer({});
  auto pricing = device();
  BlockPlanner planner(graph, *pricing, TrainingTypes());
  UnitQuery asked = query(1, 4, {std::nullopt});
  auto error = [&](const std::map<std::string, std::string> &text) {
    std::string said;
    EXPECT_FALSE(planner.parse(asked, text, said));
    return said;
  };
  EXPECT_EQ(error({{"nothing", "n"}}), "there is no operation 'nothing'");
  EXPECT_EQ(error({{"up", "x"}}), "operation 'up' has no factor 'x'");
  EXPECT_EQ(error({{"up", "n,n"}}), "operation 'up': 'n,n' must name one factor, or '-', for each of 1 axes");
  EXPECT_EQ(error({{"norm1", "d2"}}), "operation 'norm1' cannot split factor ''");
  EXPECT_EQ(error({{"up", "m0"}}), "operation 'up' cannot split the batch over a tensor axis");
  EXPECT_EQ(error({{"qkv", "n2"}}), "operation 'qkv' cannot split factor 'n' of 3 over 4 ranks");
}

TEST(Unit, CausalAttentionOverASplitSequenceWaitsForTheLastRank) {
  TransformerSizes sizes;
  sizes.hidden = 1024;
  sizes.heads = 8;
  sizes.sequence = 8192;
  auto pricing = device();
  TrainingTypes types;
  for (int ranks : {2, 4}) {
    double seconds[2]; // without a mask, and with it
    for (int causal : {0, 1}) {
      FactorGraph graph = makeTransformer(sizes);
      for (UnitKind &kind : graph.kinds)
        for (Operation &op : kind.operations)
          op.causal = causal;
      BlockPlanner planner(graph, *pricing, types);
      UnitQuery asked = query(1, ranks, {});
      asked.axes.front().isContext = true;
      for (const Boundary &boundary : planner.boundaries(asked.axes))
        if (boundary[0] && boundary[0]->dim == 1)
          asked.boundary = boundary;
      std::string error;
      auto layout = planner.parse(asked, {{"attention", "sequence"}}, error);
      ASSERT_TRUE(layout) << error;
      seconds[causal] = planner.price(asked, *layout, error).forward;
      ASSERT_EQ(error, "");
    }
    cost::OpWork attention;
    attention.kind = cost::OpKind::FusedAttention;
    attention.type = types.compute;
    attention.batch = 2 * sizes.heads;
    attention.m = sizes.sequence / ranks;
    attention.n = sizes.sequence;
    attention.k = sizes.hidden / sizes.heads;
    double all = pricing->kernelSeconds(attention);
    // The last of r ranks sees the keys of all tokens but half of its own r-th part.
    attention.fraction = 1 - 0.5 / ranks;
    EXPECT_NEAR(seconds[0] - seconds[1], all - pricing->kernelSeconds(attention), 1e-6 * all) << ranks;
  }
}

TEST(Unit, RanksOfAHostArePricedAsItsCores) {
  FactorGraph graph = makeTransformer({});
  cost::Machine machine = cost::loadMachine("cpu").machine;
  machine.host = cost::Host();
  machine.host->cores = 4;
  machine.host->memoryBandwidth = machine.host->cacheBandwidth = 2e10;
  machine.host->elementSeconds = 1e-10;
  auto price = [&](int ranks) {
    auto pricing = cost::makePricing(machine, ranks);
    BlockPlanner planner(graph, *pricing, *trainingTypes("f32"));
    UnitQuery asked = query(1, 1, {std::nullopt});
    std::string error;
    auto layout = planner.solve(asked);
    UnitCost cost = planner.price(asked, *layout, error);
    EXPECT_GE(cost.forward + cost.backward + cost.weightGradient, planner.leastDeviceSeconds(1));
    return cost.forward;
  };
  // Ranks beyond the cores take turns.
  EXPECT_GT(price(16), 2 * price(4));
}

} // namespace
