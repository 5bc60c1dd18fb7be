// Bytes that ranks send, as communicators count them, against the closed formulas; and the records of runs.
#include "PlanBuilder.h"

#include "colossal/Plan/Traffic.h"
#include "colossal/Plan/Volume.h"
#include "runtime/execute/Trace.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>

using namespace colossal;
using namespace colossal::runtime;

namespace {

using C = plan::Collective;

/// A collective of `elements` floats a block over `axes`, from one place of the activations to another.
C &fill(plan::Instruction &instruction, const PlanBuilder &builder, C::Kind kind, uint64_t elements,
        std::vector<uint32_t> axes) {
  C &c = *instruction.mutable_collective();
  c.set_kind(kind);
  c.set_type(plan::F32);
  if (kind == C::ALL_REDUCE || kind == C::REDUCE_SCATTER)
    c.set_reduction(C::SUM);
  for (uint32_t axis : axes)
    c.add_axes(axis);
  *c.mutable_src() = builder.buffer(1, 0, 16384);
  *c.mutable_dst() = builder.buffer(1, 32768, 16384);
  c.add_sizes(elements);
  c.add_src_strides(1);
  c.add_dst_strides(1);
  if (kind == C::REDUCE_SCATTER || kind == C::ALL_TO_ALL)
    c.set_src_peer_stride(elements);
  if (kind == C::ALL_GATHER || kind == C::ALL_TO_ALL)
    c.set_dst_peer_stride(elements);
  return c;
}

/// Every kind over an axis of three and over both axes; loops, functions and messages.
PlanBuilder everyKind() {
  PlanBuilder builder({2, 3});
  builder.plan.set_message_slots(1);
  auto add = [&](C::Kind kind, uint64_t elements, std::vector<uint32_t> axes) -> C & {
    return fill(builder.add("/" + std::string(plan::collectiveName(kind))), builder, kind, elements, axes);
  };
  for (std::vector<uint32_t> axes : std::vector<std::vector<uint32_t>>{{1}, {0}, {0, 1}}) {
    add(C::ALL_REDUCE, 60, axes);
    add(C::ALL_REDUCE, 61, axes); // in slices of unequal length
    add(C::ALL_GATHER, 7, axes);
    add(C::REDUCE_SCATTER, 11, axes);
    add(C::ALL_TO_ALL, 13, axes);
    add(C::BROADCAST, 17, axes).set_root(1);
  }
  // The first takes its own block, the others zeros.
  *add(C::PERMUTE, 19, {1}).mutable_source() =
      binary(plan::Expr::MIN, constant(0), binary(plan::Expr::SUB, constant(0), coordinate(1)));
  // Shards of 4 of 10 elements with a halo of one and two.
  C &halo = add(C::EXCHANGE, 1, {1});
  halo.clear_sizes(), halo.clear_src_strides(), halo.clear_dst_strides();
  C::Window &window = *halo.mutable_window();
  window.set_outer(3), window.set_inner(5), window.set_src_extent(4), window.set_dst_extent(7);
  plan::Expr start = binary(plan::Expr::MUL, coordinate(1), constant(4));
  *window.mutable_src_start() = start;
  *window.mutable_src_valid() =
      binary(plan::Expr::MIN, constant(4), binary(plan::Expr::SUB, constant(10), start));
  *window.mutable_dst_start() = binary(plan::Expr::SUB, start, constant(1));
  // Three rounds of a ring whose direction depends on the round, and a function in them.
  plan::Function &function = *builder.plan.add_functions();
  function.set_name("layer");
  fill(*function.add_body(), builder, C::ALL_GATHER, 3, {0});
  plan::Repeat &repeat = *builder.add().mutable_repeat();
  repeat.set_count(3);
  repeat.add_body()->mutable_call()->set_function(0);
  *fill(*repeat.add_body(), builder, C::PERMUTE, 23, {1}).mutable_source() =
      binary(plan::Expr::MOD, binary(plan::Expr::ADD, coordinate(1), counter(0)), constant(3));
  // The same from a function that is told the round.
  plan::Function &ring = *builder.plan.add_functions();
  ring.set_name("ring");
  ring.set_arguments(1);
  *fill(*ring.add_body(), builder, C::PERMUTE, 29, {1}).mutable_source() =
      binary(plan::Expr::MOD, binary(plan::Expr::ADD, coordinate(1), counter(0)), constant(3));
  plan::Repeat &rounds = *builder.add().mutable_repeat();
  rounds.set_count(5);
  plan::Call &call = *rounds.add_body()->mutable_call();
  call.set_function(1);
  *call.add_arguments() = binary(plan::Expr::ADD, counter(0), constant(1));
  // Rank (0, j) sends to (1, j), which sends nothing.
  plan::Send &send = *builder.add("/send").mutable_send();
  *send.mutable_src() = builder.buffer(1, 0, 100);
  plan::Expr below = binary(plan::Expr::ADD, coordinate(1), constant(3));
  *send.mutable_peer() =
      binary(plan::Expr::SUB, below, binary(plan::Expr::MUL, coordinate(0), constant(100)));
  plan::Recv &receive = *builder.add("/receive").mutable_recv();
  *receive.mutable_dst() = builder.buffer(1, 32768, 100);
  *receive.mutable_peer() =
      binary(plan::Expr::SUB, coordinate(1),
             binary(plan::Expr::MUL, binary(plan::Expr::SUB, constant(1), coordinate(0)), constant(100)));
  return builder;
}

} // namespace

TEST(Traffic, WhatIsCountedIsWhatTheFormulasSay) {
  PlanBuilder builder = everyKind();
  std::unique_ptr<Session> session;
  Status status = builder.open(session);
  ASSERT_TRUE(status.ok()) << status.describe();
  for (int run = 0; run < 2; ++run) {
    status = session->run(1, {});
    ASSERT_TRUE(status.ok()) << status.describe();
    std::vector<RankTraffic> rows;
    ASSERT_TRUE(session->traffic(1, rows).ok());
    std::set<std::string> kinds;
    uint64_t ofRank0 = 0;
    for (const RankTraffic &row : rows) {
      EXPECT_EQ(row.sent, row.planned) << "rank " << row.rank << ", " << row.kind << " over " << row.axes;
      EXPECT_EQ(row.stage, -1);
      kinds.insert(row.kind);
      ofRank0 += row.rank == 0 && row.kind != "send" ? row.sent : 0;
    }
    EXPECT_EQ(kinds, (std::set<std::string>{"all_gather", "all_reduce", "all_to_all", "broadcast", "exchange",
                                            "permute", "reduce_scatter", "send"}));
    EXPECT_EQ(session->collectiveBytes(), ofRank0 * static_cast<uint64_t>(run + 1));
  }
}

// By hand: what the formulas themselves give.
TEST(Traffic, FormulasByHand) {
  PlanBuilder builder = everyKind();
  auto bytes = [&](uint64_t rank, const char *axes, const char *kind) {
    plan::Traffic traffic;
    EXPECT_TRUE(plan::programTraffic(builder.plan, builder.infer(), rank, traffic).ok());
    return traffic[{axes, kind}];
  };
  // Of 61 elements three members reduce 21, 20 and 20.
  EXPECT_EQ(bytes(0, "b", "all_reduce"), 2 * 240 * 2 / 3u + (40 + 2 * 21) * 4u);
  EXPECT_EQ(bytes(1, "b", "all_reduce"), 2 * 240 * 2 / 3u + (41 + 2 * 20) * 4u);
  EXPECT_EQ(bytes(0, "a,b", "all_to_all"), 13 * 4 * 5u);
  EXPECT_EQ(bytes(0, "b", "broadcast"), 0u);
  EXPECT_EQ(bytes(1, "b", "broadcast"), 17 * 4 * 2u);
  EXPECT_EQ(bytes(0, "a", "all_gather"), 7 * 4 + 3 * 3 * 4u); // once, and three times in the loop
  // In rounds 1 and 2 someone else takes the block; in round 0 everyone its own. So it is in the rounds 1 to
  // 5 of the function, of which 3 gives everyone its own.
  EXPECT_EQ(bytes(1, "b", "permute"), 23 * 4 * 2u + 29 * 4 * 4u);
  // Of 10 elements in shards of 4: rank 0 gives the place 3; rank 1 gives 4 and 5 to rank 0, and 7 to rank 2.
  EXPECT_EQ(bytes(0, "b", "exchange"), 1 * 15 * 4u);
  EXPECT_EQ(bytes(1, "b", "exchange"), 3 * 15 * 4u);
  EXPECT_EQ(bytes(2, "a", "send"), 100u);
  EXPECT_EQ(bytes(5, "a", "send"), 0u);
}

// What the search and the cost model count by is the mean of what the members send, and what all of them send
// in an all-reduce does not depend on how its slices fall.
TEST(Traffic, TheMeanOverMembersIsTheFormulaOfTheSearch) {
  const std::pair<C::Kind, plan::Pattern> kinds[] = {{C::ALL_REDUCE, plan::Pattern::AllReduce},
                                                     {C::ALL_GATHER, plan::Pattern::AllGather},
                                                     {C::REDUCE_SCATTER, plan::Pattern::ReduceScatter},
                                                     {C::ALL_TO_ALL, plan::Pattern::AllToAll}};
  for (auto [kind, pattern] : kinds)
    for (uint64_t members : {1, 2, 3, 7, 8})
      for (uint64_t elements : {0, 1, 5, 56, 1000}) {
        plan::Transfer transfer;
        transfer.kind = kind;
        transfer.members = members, transfer.elements = elements, transfer.elementBytes = 2;
        uint64_t sum = 0;
        for (transfer.self = 0; transfer.self < members; ++transfer.self)
          sum += plan::sentBytes(transfer);
        const uint64_t blocks = kind == C::ALL_REDUCE ? 1 : members;
        const double whole = static_cast<double>(elements * 2 * blocks);
        EXPECT_NEAR(static_cast<double>(sum) / static_cast<double>(members),
                    plan::meanSentBytes(pattern, whole, static_cast<double>(members)), 1e-9 * (1 + whole))
            << plan::collectiveName(kind) << " of " << elements << " over " << members;
      }
  plan::Transfer small;
  small.kind = C::ALL_REDUCE;
  small.members = 4, small.elements = 100, small.elementBytes = 4;
  EXPECT_EQ(plan::sentBytes(small), 600u);
  small.shortAllReduce = 400;
  EXPECT_EQ(plan::sentBytes(small), 1200u);
  small.members = 2;
  EXPECT_EQ(plan::sentBytes(small), 400u);
}

TEST(Traffic, StagingIsBoundedAndCoversAPiece) {
  for (auto kind : {C::ALL_REDUCE, C::ALL_GATHER, C::REDUCE_SCATTER, C::ALL_TO_ALL, C::BROADCAST, C::PERMUTE})
    for (uint64_t members : {2, 3, 8, 64})
      for (uint64_t elements : {1, 37, 100000, 100000000}) {
        plan::Staging staging = plan::stagingOf(kind, elements, 4, members);
        EXPECT_LE(staging.bytes, plan::stagingLimit);
        EXPECT_GE(staging.elements, std::min<uint64_t>(elements, 100));
        EXPECT_LE(staging.elements, elements);
      }
  EXPECT_EQ(plan::stagingOf(C::EXCHANGE, 1000, 4, 4).bytes, 0u);
  EXPECT_EQ(plan::stagingOf(C::ALL_GATHER, 1000, 4, 1).bytes, 0u);
  EXPECT_EQ(plan::stagingOf(C::ALL_GATHER, 1000, 4, 4).bytes, 20000u);
}

TEST(Timeline, WhatAFunctionRunsHasTheNamesOfItsCalls) {
  PlanBuilder builder;
  plan::Function &layer = *builder.plan.add_functions();
  layer.set_name("layer");
  layer.set_arguments(1);
  plan::Instruction &copy = *layer.add_body();
  copy.set_source("/h.{0}/Copy,/h.{0+1}/in");
  copy.add_operators("/h.{0}/Copy");
  copy.add_operators("{1}");
  copy.set_predicted_seconds(1e-6);
  *copy.mutable_copy()->mutable_buffer() = builder.buffer(PlanBuilder::activations, 0, 64, {64});
  *copy.mutable_copy()->mutable_dst() = builder.buffer(PlanBuilder::activations, 1024, 64);
  for (const char *number : {"9", "10"}) {
    plan::Call &call = *builder.add("").mutable_call();
    *call.add_arguments() = constant(2);
    call.add_names(number);
    call.add_names(*number == '9' ? "" : "/extra");
  }
  plan::Repeat &repeat = *builder.add("").mutable_repeat(); // the same call in each turn
  repeat.set_count(3);
  plan::Call &call = *repeat.add_body()->mutable_call();
  *call.add_arguments() = counter(0);
  call.add_names("11");
  builder.plan.set_version(2);
  SessionOptions options;
  options.trace = true;
  std::unique_ptr<Session> session;
  ASSERT_TRUE(builder.open(session, options).ok());
  ASSERT_TRUE(session->run(1, {}).ok());
  Timeline timeline;
  ASSERT_TRUE(session->timeline(timeline).ok());
  std::map<std::string, double> executions;
  for (const Timeline::Row &row : timeline.profile()) {
    executions[row.name] = row.executions;
    EXPECT_DOUBLE_EQ(row.predicted, 1e-6 * row.executions);
  }
  EXPECT_EQ(executions, (std::map<std::string, double>{
                            {"/h.9/Copy", 1}, {"/h.10/Copy + 1 more", 1}, {"/h.11/Copy + 1 more", 3}}));
  std::set<std::string> sources;
  const nlohmann::json trace = nlohmann::json::parse(timeline.events());
  for (const nlohmann::json &event : trace["traceEvents"])
    if (event["ph"] == "X" && event["cat"] == "copy")
      sources.insert(event["args"]["from"].get<std::string>());
  EXPECT_EQ(sources,
            (std::set<std::string>{"/h.9/Copy,/h.10/in", "/h.10/Copy,/h.11/in", "/h.11/Copy,/h.12/in"}));
}

TEST(Timeline, SlicesAreNamedByOperatorsAndTellWaitingFromMoving) {
  PlanBuilder builder({2});
  plan::Instruction &instruction = builder.add("/layer/MatMul,/layer/Add");
  instruction.add_operators("/layer/MatMul");
  instruction.add_operators("/layer/Add");
  instruction.set_predicted_seconds(1e-3);
  fill(instruction, builder, C::ALL_REDUCE, 60, {0});
  SessionOptions options;
  options.trace = true;
  std::unique_ptr<Session> session;
  ASSERT_TRUE(builder.open(session, options).ok());
  for (int run = 0; run < 3; ++run)
    ASSERT_TRUE(session->run(1, {}).ok());
  Timeline timeline;
  ASSERT_TRUE(session->timeline(timeline).ok());
  const nlohmann::json events = nlohmann::json::parse(timeline.events())["traceEvents"];
  std::set<int> runs, ranks;
  double first = 1e9;
  int starts = 0, ends = 0, moves = 0;
  for (const nlohmann::json &event : events) {
    starts += event["ph"] == "s", ends += event["ph"] == "f";
    if (event["ph"] != "X")
      continue;
    first = std::min(first, event["ts"].get<double>());
    moves += event["cat"] == "move";
    if (event["cat"] != "all_reduce" && event["cat"] != "collective")
      continue;
    EXPECT_EQ(event["name"], "/layer/MatMul + 1 more (all_reduce)");
    EXPECT_NEAR(event["args"]["waited_us"].get<double>() + event["args"]["moved_us"].get<double>(),
                event["dur"].get<double>(), 0.01);
    EXPECT_EQ(event["args"]["sent_bytes"], 240);
    EXPECT_EQ(event["args"]["operators"][1], "/layer/Add");
    runs.insert(event["args"]["run"].get<int>());
    ranks.insert(event["pid"].get<int>());
  }
  EXPECT_EQ(first, 0);
  EXPECT_EQ(runs, (std::set<int>{1, 2, 3}));
  EXPECT_EQ(ranks, (std::set<int>{0, 1}));
  EXPECT_EQ(moves, 6);
  EXPECT_EQ(starts, 3); // from the last to come to the other, in each run
  EXPECT_EQ(ends, 3);
  std::vector<Timeline::Row> profile = timeline.profile();
  ASSERT_EQ(profile.size(), 1u);
  EXPECT_EQ(profile[0].executions, 1);
  EXPECT_DOUBLE_EQ(profile[0].predicted, 1e-3);
  EXPECT_GT(profile[0].seconds, 0);
}
