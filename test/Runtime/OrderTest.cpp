// What the validator proves of order: plans that are right, and each of what makes them so taken away.
#include "Mutator.h"
#include "OrderMutations.h"
#include "PlanBuilder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>

using namespace colossal;
using namespace colossal::runtime;

namespace {

plan::Instruction &add(Body &body, uint32_t queue, std::vector<uint32_t> waits, uint32_t signals,
                       const std::string &source) {
  plan::Instruction &instruction = *body.Add();
  instruction.set_queue(queue);
  for (uint32_t event : waits)
    instruction.add_waits(event);
  instruction.set_signals(signals);
  instruction.set_source(source);
  return instruction;
}

void copy(plan::Instruction &instruction, const plan::BufferRef &from, const plan::BufferRef &to) {
  *instruction.mutable_copy()->mutable_buffer() = from;
  *instruction.mutable_copy()->mutable_dst() = to;
}

void sum(plan::Instruction &instruction, const plan::BufferRef &buffer) {
  plan::Collective &c = *instruction.mutable_collective();
  c.set_kind(plan::Collective::ALL_REDUCE);
  c.set_reduction(plan::Collective::SUM);
  c.set_type(plan::F32);
  c.add_axes(0);
  *c.mutable_src() = buffer;
  *c.mutable_dst() = buffer;
  c.add_sizes(buffer.bytes() / 4);
  c.add_src_strides(1);
  c.add_dst_strides(1);
}

/// A loop of `turns` turns of two microbatches each, on two buffers in turn: computed on queue 0, reduced on
/// queue 1, and taken by queue 0 of the next turn before it computes anew.
PlanBuilder reductions(uint64_t turns) {
  PlanBuilder builder({2});
  plan::Instruction &repeat = builder.add("/repeat");
  repeat.mutable_repeat()->set_count(turns);
  Body &body = *repeat.mutable_repeat()->mutable_body();
  for (uint32_t half : {0u, 1u}) {
    const plan::BufferRef buffer = builder.buffer(1, half * 64, 64);
    const uint32_t computed = 1 + half, reduced = 3 + half;
    copy(add(body, 0, {reduced}, 0, "/take"), buffer, builder.buffer(1, 1024 + half * 64, 64));
    copy(add(body, 0, {}, computed, "/compute"), builder.buffer(2, 0, 64), buffer);
    sum(add(body, 1, {computed}, reduced, "/sum"), buffer);
  }
  // After the loop both are read.
  copy(add(*builder.infer().mutable_body(), 0, {4}, 0, "/end"), builder.buffer(1, 0, 128),
       builder.buffer(2, 512, 128));
  return builder;
}

/// Two stages of two ranks; 4 turns of two microbatches go from one to the other through two buffers in turn.
PlanBuilder pipeline() {
  PlanBuilder builder;
  for (uint32_t s : {0u, 1u}) {
    plan::Stage &stage = *builder.plan.add_stages();
    stage.set_text(s);
    stage.mutable_mesh()->add_axes()->set_size(2);
    plan::StageText &text = *builder.plan.add_stage_texts();
    *text.mutable_arenas() = builder.plan.arenas();
    text.add_programs();
    plan::Instruction &repeat = *text.add_programs()->add_body();
    repeat.mutable_repeat()->set_count(4);
    Body &body = *repeat.mutable_repeat()->mutable_body();
    plan::Expr peer;
    peer.set_own(plan::Expr::RANK);
    for (uint32_t half : {0u, 1u}) {
      const plan::BufferRef buffer = builder.buffer(1, half * 64, 64);
      const uint32_t first = 1 + half, second = 3 + half;
      if (s == 0) {
        copy(add(body, 0, {second}, first, "/front"), builder.buffer(2, 0, 64), buffer);
        plan::Send &send = *add(body, 2, {first}, second, "/send").mutable_send();
        *send.mutable_src() = buffer;
        *send.mutable_peer() = binary(plan::Expr::ADD, peer, constant(2));
      } else {
        plan::Recv &receive = *add(body, 2, {second}, first, "/receive").mutable_recv();
        *receive.mutable_dst() = buffer;
        *receive.mutable_peer() = binary(plan::Expr::SUB, peer, constant(2));
        copy(add(body, 0, {first}, second, "/back"), buffer, builder.buffer(2, 1024, 64));
      }
    }
  }
  builder.plan.clear_arenas();
  return builder;
}

/// Nothing that orders the plan can be otherwise.
void expectAllNeeded(const PlanBuilder &builder) {
  ASSERT_TRUE(builder.validate().ok()) << builder.validate().describe();
  std::array<int, orderChangeCount> changes = {};
  PlanBuilder changed = builder;
  forEachOrderChange(builder.plan, [&](OrderChange change, const std::string &where,
                                       const plan::Plan &altered) {
    changed.plan = altered;
    Status status = changed.validate();
    EXPECT_EQ(status.code(), Code::InvalidPlan) << "accepted with a " << describe(change) << ": " << where;
    if (change == OrderChange::Wait) {
      EXPECT_NE(status.message().find("touch"), std::string::npos) << status.describe();
    }
    ++changes[static_cast<size_t>(change)];
  });
  EXPECT_GT(changes[static_cast<size_t>(OrderChange::Wait)], 3);
  // Nor can an instruction and the one before it change their signals.
  int signals = 0;
  forEachInstruction(changed.plan = builder.plan,
                     [&](Body &body, int i) { signals += i > 0 && body.Get(i).signals() != 0; });
  ASSERT_GT(signals, 1);
  for (int wanted = 0; wanted < signals; ++wanted) {
    std::string what;
    int seen = 0;
    forEachInstruction(changed.plan = builder.plan, [&](Body &body, int i) {
      if (i == 0 || body.Get(i).signals() == 0 || seen++ != wanted)
        return;
      what = body.Get(i).source();
      const uint32_t before = body.Get(i - 1).signals();
      body.Mutable(i - 1)->set_signals(body.Get(i).signals());
      body.Mutable(i)->set_signals(before);
    });
    EXPECT_EQ(changed.validate().code(), Code::InvalidPlan)
        << "accepted with the signal moved before " << what;
  }
}

double seconds(const std::function<void()> &work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

plan::Expr ring(int64_t step) {
  return binary(plan::Expr::MOD, binary(plan::Expr::ADD, coordinate(0), constant(step)), constant(3));
}

/// On three ranks, `count` messages to the rank `distance` further on, and then as many from the one before,
/// all on one queue.
PlanBuilder ringOf(int count, uint32_t slots, int64_t distance = 1) {
  PlanBuilder builder({3});
  builder.plan.set_message_slots(slots);
  for (int i = 0; i < count; ++i) {
    plan::Send &send = *builder.add("/send").mutable_send();
    *send.mutable_src() = builder.buffer(2, 0, 4);
    *send.mutable_peer() = ring(distance);
  }
  for (int i = 0; i < count; ++i) {
    plan::Recv &receive = *builder.add("/receive").mutable_recv();
    *receive.mutable_dst() = builder.buffer(2, 64, 4);
    *receive.mutable_peer() = ring(-distance);
  }
  return builder;
}

} // namespace

TEST(Order, EveryWaitIsNeededWhereTurnsAreFollowed) {
  expectAllNeeded(reductions(5));
}

TEST(Order, EveryWaitIsNeededInAMillionTurns) {
  PlanBuilder builder = reductions(1000000);
  EXPECT_LT(seconds([&] { ASSERT_TRUE(builder.validate().ok()) << builder.validate().describe(); }), 0.5);
  expectAllNeeded(builder);
}

TEST(Order, EveryWaitIsNeededInAPipeline) {
  expectAllNeeded(pipeline());
}

// Slices of a long loop that move at one speed are told apart, whatever the distance; others are refused.
TEST(Order, LongLoopsFollowWhatMoves) {
  auto loop = [](int64_t reads, int64_t writes, uint64_t offset) {
    PlanBuilder builder({2}, 1 << 25);
    plan::Instruction &repeat = builder.add("/repeat");
    repeat.mutable_repeat()->set_count(100000);
    Body &body = *repeat.mutable_repeat()->mutable_body();
    copy(add(body, 0, {}, 0, "/read"), builder.buffer(1, 1 << 23, 64, {reads}), builder.buffer(2, 0, 64));
    copy(add(body, 1, {}, 0, "/write"), builder.buffer(2, 1024, 64), builder.buffer(1, offset, 64, {writes}));
    return builder;
  };
  EXPECT_TRUE(loop(64, 64, 1 << 24).validate().ok());         // beside one another
  EXPECT_TRUE(loop(64, 0, 64).validate().ok());               // a place of its own
  EXPECT_FALSE(loop(64, 64, 1 << 23).validate().ok());        // the same place in the same turn
  EXPECT_FALSE(loop(64, 64, (1 << 23) + 64).validate().ok()); // of the next turn
  Status far = loop(64, 64, (1 << 23) + 64 * 50).validate();  // of the fiftieth after it
  EXPECT_NE(far.message().find("turns that nothing orders"), std::string::npos) << far.describe();
  Status apart = loop(64, 128, 1 << 23).validate();
  EXPECT_EQ(apart.code(), Code::InvalidPlan) << apart.describe();
}

// A function's places come from its arguments, which may turn round with the counter.
TEST(Order, ArgumentsTellPlacesApart) {
  auto build = [](int64_t ahead) {
    PlanBuilder builder({2});
    plan::Function &function = *builder.plan.add_functions();
    function.set_name("f");
    function.set_arguments(2);
    copy(add(*function.mutable_body(), 0, {}, 0, "/read"), builder.buffer(1, 0, 64, {64}),
         builder.buffer(2, 0, 64));
    copy(add(*function.mutable_body(), 1, {}, 1, "/write"), builder.buffer(2, 1024, 64),
         builder.buffer(1, 0, 64, {0, 64}));
    plan::Instruction &repeat = builder.add("/repeat");
    repeat.mutable_repeat()->set_count(12);
    Body &body = *repeat.mutable_repeat()->mutable_body();
    plan::Call &call = *body.Add()->mutable_call();
    *call.add_arguments() = binary(plan::Expr::MOD, counter(0), constant(2));
    *call.add_arguments() =
        binary(plan::Expr::MOD, binary(plan::Expr::ADD, counter(0), constant(ahead)), constant(2));
    // Each turn ends when the writer has.
    copy(add(body, 0, {1}, 2, "/meet"), builder.buffer(2, 2048, 4), builder.buffer(2, 4096, 4));
    copy(add(body, 1, {2}, 0, "/met"), builder.buffer(2, 2048, 4), builder.buffer(2, 4160, 4));
    return builder;
  };
  EXPECT_TRUE(build(1).validate().ok()) << build(1).validate().describe();
  EXPECT_FALSE(build(2).validate().ok());
}

TEST(Order, ARankMayDifferFromTheOthers) {
  // Only ranks with coordinate 1 skip what orders the two.
  PlanBuilder builder({2, 2});
  copy(add(*builder.infer().mutable_body(), 0, {}, 1, "/a"), builder.buffer(2, 0, 4),
       builder.buffer(1, 0, 4));
  plan::Predicate &some = *builder.add("/some").mutable_predicate();
  *some.mutable_condition() = binary(plan::Expr::SUB, constant(1), coordinate(1));
  copy(add(*some.mutable_body(), 1, {1}, 0, "/b"), builder.buffer(2, 64, 4), builder.buffer(2, 128, 4));
  copy(add(*builder.infer().mutable_body(), 1, {}, 0, "/c"), builder.buffer(1, 0, 4),
       builder.buffer(2, 256, 4));
  EXPECT_FALSE(builder.validate().ok());
  *builder.infer().mutable_body(1)->mutable_predicate()->mutable_condition() = constant(1);
  EXPECT_TRUE(builder.validate().ok()) << builder.validate().describe();
}

TEST(Order, MessagesMustMeet) {
  ASSERT_TRUE(pipeline().validate().ok());
  const std::pair<std::function<void(PlanBuilder &)>, const char *> changes[] = {
      {[](PlanBuilder &b) {
         forEachInstruction(b.plan, [](Body &body, int i) {
           if (body.Get(i).has_send())
             *body.Mutable(i)->mutable_send()->mutable_peer() = constant(2);
         });
       },
       "rank 2 does not receive it"},
      {[](PlanBuilder &b) {
         forEachInstruction(b.plan, [](Body &body, int i) {
           if (body.Get(i).has_recv())
             body.Mutable(i)->mutable_recv()->set_tag(5);
         });
       },
       "does not receive it"},
      {[](PlanBuilder &b) {
         forEachInstruction(b.plan, [](Body &body, int i) {
           if (body.Get(i).has_recv())
             body.Mutable(i)->mutable_recv()->mutable_dst()->set_bytes(32);
         });
       },
       "it sends 64 bytes, and rank 2 expects 32"},
      {[](PlanBuilder &b) {
         b.plan.mutable_stage_texts(0)->mutable_programs(1)->mutable_body(0)->mutable_repeat()->set_count(3);
       },
       "rank 0 does not send it"},
      {[](PlanBuilder &b) {
         b.plan.mutable_stage_texts(1)
             ->mutable_programs(1)
             ->mutable_body(0)
             ->mutable_repeat()
             ->mutable_body(0)
             ->set_queue(1);
       },
       "stand on two queues"},
  };
  for (const auto &[change, message] : changes) {
    PlanBuilder builder = pipeline();
    change(builder);
    Status status = builder.validate();
    EXPECT_EQ(status.code(), Code::InvalidPlan);
    EXPECT_NE(status.describe().find(message), std::string::npos) << status.describe();
  }
}

TEST(Order, NobodyWaitsInACircle) {
  EXPECT_FALSE(ringOf(1, 0).validate().ok());
  EXPECT_TRUE(ringOf(1, 1).validate().ok());
  EXPECT_TRUE(ringOf(3, 3).validate().ok());
  Status status = ringOf(3, 2).validate();
  EXPECT_NE(status.message().find("wait for one another in a circle"), std::string::npos)
      << status.describe();
  // Where every send waits for its receiver, as with NCCL, slots do not help.
  PlanBuilder builder = ringOf(1, 1);
  const plan::ByteView code = {reinterpret_cast<const std::byte *>(builder.code.data()), builder.code.size()};
  EXPECT_FALSE(validatePlan(builder.plan, code, {}, true).ok());
  PlanBuilder piped = pipeline();
  EXPECT_TRUE(validatePlan(piped.plan, code, {}, true).ok());
  // But for messages of a rank to itself, which nobody else could receive.
  EXPECT_TRUE(validatePlan(ringOf(2, 2, 0).plan, code, {}, true).ok());
  EXPECT_FALSE(validatePlan(ringOf(2, 1, 0).plan, code, {}, true).ok());
}

TEST(Order, MessagesAndCollectivesMayWaitForOneAnother) {
  // Rank 0 sends to rank 1 before they meet; rank 1 receives after.
  PlanBuilder builder({2});
  auto part = [&](int64_t rank) -> Body & {
    plan::Predicate &predicate = *builder.add("/part").mutable_predicate();
    *predicate.mutable_condition() =
        rank ? coordinate(0) : binary(plan::Expr::SUB, constant(1), coordinate(0));
    return *predicate.mutable_body();
  };
  plan::Send &send = *add(part(0), 0, {}, 0, "/send").mutable_send();
  *send.mutable_src() = builder.buffer(2, 0, 4);
  *send.mutable_peer() = constant(1);
  sum(add(*builder.infer().mutable_body(), 0, {}, 0, "/sum"), builder.buffer(1, 0, 64));
  plan::Recv &receive = *add(part(1), 0, {}, 0, "/receive").mutable_recv();
  *receive.mutable_dst() = builder.buffer(2, 64, 4);
  *receive.mutable_peer() = constant(0);
  EXPECT_FALSE(builder.validate().ok());
  builder.plan.set_message_slots(1);
  EXPECT_TRUE(builder.validate().ok()) << builder.validate().describe();
  builder.plan.set_message_slot_bytes(3); // too short for it
  EXPECT_FALSE(builder.validate().ok());
  builder.plan.set_message_slot_bytes(4);
  EXPECT_TRUE(builder.validate().ok()) << builder.validate().describe();
  builder.plan.set_message_slot_bytes(0);
  builder.plan.set_message_slots(0);
  builder.infer().mutable_body(0)->mutable_predicate()->mutable_body(0)->set_queue(2); // beside the meeting
  EXPECT_TRUE(builder.validate().ok()) << builder.validate().describe();
}

// What is proven gives the same values however late transfers begin and end.
TEST(Order, RunsOverQueuesGiveTheirValues) {
  std::vector<float> x(16), twice;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i + 1);
    twice.push_back(2 * x[i]);
  }
  twice.insert(twice.end(), twice.begin(), twice.end());
  PlanBuilder looped = reductions(20);
  looped.input("x", plan::F32, {16}, looped.box({16}), 0);
  looped.output("y", plan::F32, {32}, looped.box({32}), 512);
  PlanBuilder piped = pipeline();
  for (uint32_t slots : {0u, 2u}) {
    piped.plan.set_message_slots(slots);
    if (slots == 0) {
      for (plan::Binding *binding : {piped.infer().add_inputs(), piped.infer().add_outputs()}) {
        binding->set_name("x");
        binding->set_type(plan::F32);
        binding->add_shape(16);
      }
      auto hold = [&](plan::Shard &shard, uint64_t offset) {
        *shard.mutable_box() = piped.box({16});
        *shard.mutable_buffer() = piped.buffer(2, offset, 64);
      };
      hold(*piped.plan.mutable_stage_texts(0)->mutable_programs(1)->add_inputs(), 0);
      hold(*piped.plan.mutable_stage_texts(1)->mutable_programs(1)->add_outputs(), 1024);
    }
    for (const PlanBuilder *builder : {&looped, &piped}) {
      std::unique_ptr<Session> session;
      Status status = builder->open(session);
      ASSERT_TRUE(status.ok()) << status.describe();
      for (int run = 0; run < 3; ++run) {
        status = session->run(1, {{"x", floats({16}, x)}});
        ASSERT_TRUE(status.ok()) << status.describe();
        Tensors outputs;
        ASSERT_TRUE(session->outputs(1, outputs).ok());
        EXPECT_EQ(floatsOf(outputs.begin()->second), builder == &looped ? twice : x);
      }
    }
  }
}

TEST(Order, AlteredPlansAreJudged) {
  for (const PlanBuilder &original : {reductions(3), reductions(1000000), pipeline(), ringOf(3, 3)}) {
    int accepted = 0;
    for (uint64_t i = 0; i < 600; ++i) {
      Mutator mutator(i);
      PlanBuilder builder = original;
      for (size_t changes = 1 + mutator.pick(3); changes > 0; --changes)
        mutator.mutate(builder.plan);
      SCOPED_TRACE(i);
      const double time = seconds([&] { accepted += builder.validate().ok(); });
      EXPECT_LT(time, 20);
    }
    EXPECT_LT(accepted, 500);
  }
}

TEST(Order, ThousandsOfInstructionsTakeMilliseconds) {
  PlanBuilder builder({2}, 1 << 23);
  for (uint32_t i = 0; i < 10000; ++i) {
    const uint64_t place = (i * 7919 % 4096) * 64;
    builder.infer().set_events(20001);
    copy(add(*builder.infer().mutable_body(), 0, i ? std::vector<uint32_t>{i} : std::vector<uint32_t>{},
             10000 + i, "/compute"),
         builder.buffer(2, 0, 256), builder.buffer(1, place, 256));
    sum(add(*builder.infer().mutable_body(), 1, {10000 + i}, i + 1, "/sum"), builder.buffer(1, place, 128));
  }
  builder.infer().mutable_body(19999)->set_signals(20001);
  EXPECT_LT(seconds([&] { EXPECT_TRUE(builder.validate().ok()) << builder.validate().describe(); }), 1.0);
}
