// Whole runs on the local communicator: scatter, launches, collectives, repeats, functions, gather.
#include "PlanBuilder.h"

#include "colossal/Plan/Traffic.h"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <thread>

using namespace colossal;
using namespace colossal::runtime;

namespace {

Tensors ramp(const std::string &name, uint64_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return {{name, floats({count}, values)}};
}

/// Opens, runs once and collects.
Tensors runOnce(const PlanBuilder &builder, Tensors inputs, SessionOptions options = {}) {
  std::unique_ptr<Session> session;
  Status status = builder.open(session, options);
  EXPECT_TRUE(status.ok()) << status.describe();
  if (!status.ok())
    return {};
  int program = -1;
  status = session->select(inputs, program);
  EXPECT_TRUE(status.ok()) << status.describe();
  if (!status.ok())
    return {};
  status = session->run(program, inputs);
  EXPECT_TRUE(status.ok()) << status.describe();
  Tensors outputs;
  EXPECT_TRUE(session->outputs(program, outputs).ok());
  return outputs;
}

} // namespace

TEST(Session, LaunchesOnShards) {
  // 37 elements over 4 ranks: 10 each, the last with 7 and 3 of padding.
  PlanBuilder builder({4});
  builder.input("x", plan::F32, {37}, builder.box({37}, 0, 0), 0);
  builder.output("y", plan::F32, {37}, builder.box({37}, 0, 0), 64);
  uint32_t scale = builder.kernel("scale", 2, 3);
  builder.launch(scale, {builder.buffer(2, 0, 40), builder.buffer(2, 64, 40)}, 1,
                 {constant(2), coordinate(0), constant(10)}, 1);
  std::vector<float> y = floatsOf(runOnce(builder, ramp("x", 37))["y"]);
  ASSERT_EQ(y.size(), 37u);
  for (int i = 0; i < 37; ++i)
    EXPECT_EQ(y[i], 2.0f * i + i / 10) << i;
}

TEST(Session, LoadsTheImageThatTheDeviceTakes) {
  PlanBuilder builder;
  builder.input("x", plan::F32, {8}, builder.box({8}), 0);
  builder.output("y", plan::F32, {8}, builder.box({8}), 64);
  uint32_t scale = builder.kernel("scale", 2, 3);
  builder.launch(scale, {builder.buffer(2, 0, 32), builder.buffer(2, 64, 32)}, 1,
                 {constant(2), constant(0), constant(8)}, 1);
  plan::Module &module = *builder.plan.mutable_modules(0);
  const uint64_t bytes = module.bytes();
  builder.code += std::string(".version 9.0\0", 13);
  auto add = [&](plan::Image::Format format, const char *architecture, uint64_t offset, uint64_t size) {
    plan::Image &image = *module.add_images();
    image.set_format(format);
    image.set_architecture(architecture);
    image.set_offset(offset);
    image.set_bytes(size);
  };
  module.set_bytes(0);
  add(plan::Image::PTX, "sm_90", bytes, 13);
  std::unique_ptr<Session> session;
  Status none = builder.open(session, {});
  EXPECT_EQ(none.code(), Code::Unsupported);
  EXPECT_NE(none.message().find("the plan's code is PTX for sm_90; this host runs ELF for "),
            std::string::npos)
      << none.describe();
  add(plan::Image::ELF, "x86_64", 0, bytes);
  std::vector<float> y = floatsOf(runOnce(builder, ramp("x", 8))["y"]);
  ASSERT_EQ(y.size(), 8u);
  EXPECT_EQ(y[3], 6);
}

TEST(Session, AnyNumberOfThreadsGivesTheSameBits) {
  for (unsigned threads : {1u, 2u, 5u}) {
    PlanBuilder builder;
    builder.input("x", plan::F32, {1000}, builder.box({1000}), 0);
    builder.output("y", plan::F32, {1000}, builder.box({1000}), 4096);
    uint32_t scale = builder.kernel("scale", 2, 3);
    builder.launch(scale, {builder.buffer(2, 0, 4000), builder.buffer(2, 4096, 4000)}, 1,
                   {constant(3), constant(1), constant(1000)}, 63);
    SessionOptions options;
    options.threads = threads;
    std::vector<float> y = floatsOf(runOnce(builder, ramp("x", 1000), options)["y"]);
    for (int i = 0; i < 1000; ++i)
      ASSERT_EQ(y[i], 3.0f * i + 1) << i << " with " << threads << " threads";
  }
}

// Two sessions of one process, of several ranks and threads each, share nothing: opened side by side, run at
// the same time.
TEST(Session, TwoSessionsRunAtOnce) {
  auto build = [](int64_t factor) {
    PlanBuilder builder({3});
    builder.input("x", plan::F32, {37}, builder.box({37}, 0, 0), 0);
    builder.output("y", plan::F32, {37}, builder.box({37}, 0, 0), 64);
    uint32_t scale = builder.kernel("scale", 2, 3);
    builder.launch(scale, {builder.buffer(2, 0, 52), builder.buffer(2, 64, 52)}, 1,
                   {constant(factor), constant(0), constant(13)}, 1);
    return builder;
  };
  SessionOptions options;
  options.threads = 2;
  std::unique_ptr<Session> sessions[2];
  for (int s : {0, 1}) {
    Status status = build(s + 2).open(sessions[s], options);
    ASSERT_TRUE(status.ok()) << status.describe();
  }
  std::vector<std::string> problems(2);
  std::vector<std::thread> threads;
  for (int s : {0, 1})
    threads.emplace_back([&, s] {
      for (int round = 0; round < 50 && problems[s].empty(); ++round) {
        Tensors inputs = ramp("x", 37), outputs;
        int program = -1;
        Status status = sessions[s]->select(inputs, program);
        if (status.ok())
          status = sessions[s]->run(program, inputs);
        if (status.ok())
          status = sessions[s]->outputs(program, outputs);
        if (!status.ok()) {
          problems[s] = status.describe();
          return;
        }
        std::vector<float> y = floatsOf(outputs["y"]);
        if (y.size() != 37)
          problems[s] = std::to_string(y.size()) + " elements";
        for (size_t i = 0; i < y.size(); ++i)
          if (y[i] != static_cast<float>((s + 2) * i))
            problems[s] = "element " + std::to_string(i) + " is " + std::to_string(y[i]);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(problems[0], "");
  EXPECT_EQ(problems[1], "");
}

TEST(Session, ThreadsHaveTheirOwnScratch) {
  PlanBuilder builder;
  builder.output("y", plan::F32, {200}, builder.box({200}), 0);
  uint32_t kernel = builder.kernel("useScratch", 1, 1);
  builder.launch(kernel, {builder.buffer(2, 0, 800)}, 1, {constant(100)}, 200).set_tile_scratch(400);
  SessionOptions options;
  options.threads = 3;
  std::vector<float> y = floatsOf(runOnce(builder, {}, options)["y"]);
  for (int i = 0; i < 200; ++i)
    ASSERT_EQ(y[i], 100.0f * i);
}

TEST(Session, CollectiveAndEventsOverTwoQueues) {
  // Each rank scales its copy by its number + 1; the all-reduce on queue 1 waits for it, the last launch for
  // the sum.
  PlanBuilder builder({3});
  builder.input("x", plan::F32, {5}, builder.box({5}), 0);
  builder.output("y", plan::F32, {5}, builder.box({5}), 64);
  uint32_t scale = builder.kernel("scale", 2, 3);
  builder.launch(scale, {builder.buffer(2, 0, 20), builder.buffer(1, 0, 20)}, 1,
                 {binary(plan::Expr::ADD, coordinate(0), constant(1)), constant(0), constant(5)}, 1);
  builder.infer().mutable_body(0)->set_signals(1);
  plan::Instruction &reduce = builder.add("/sum");
  reduce.set_queue(1);
  reduce.add_waits(1);
  reduce.set_signals(2);
  plan::Collective &c = *reduce.mutable_collective();
  c.set_kind(plan::Collective::ALL_REDUCE);
  c.set_reduction(plan::Collective::SUM);
  c.set_type(plan::F32);
  c.add_axes(0);
  *c.mutable_src() = builder.buffer(1, 0, 20);
  *c.mutable_dst() = builder.buffer(1, 0, 20);
  c.add_sizes(5);
  c.add_src_strides(1);
  c.add_dst_strides(1);
  builder.launch(scale, {builder.buffer(1, 0, 20), builder.buffer(2, 64, 20)}, 1,
                 {constant(1), constant(0), constant(5)}, 1);
  builder.infer().mutable_body(2)->add_waits(2);
  std::vector<float> y = floatsOf(runOnce(builder, ramp("x", 5))["y"]);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(y[i], 6.0f * i);
}

TEST(Session, FunctionsInRepeatsSeeTheCounter) {
  // for i < 4: call { y += x[i] } with x strided by the counter; twice, in an outer repeat.
  PlanBuilder builder;
  builder.input("x", plan::F32, {4, 8}, builder.box({4, 8}), 0);
  builder.output("y", plan::F32, {8}, builder.box({8}), 256);
  uint32_t accumulate = builder.kernel("accumulate", 2, 0);
  uint32_t scale = builder.kernel("scale", 2, 3);
  builder.launch(scale, {builder.buffer(2, 0, 32), builder.buffer(2, 256, 32)}, 1,
                 {constant(0), constant(0), constant(8)}, 1);
  plan::Function &function = *builder.plan.add_functions();
  function.set_name("layer");
  plan::Launch &launch = *function.add_body()->mutable_launch();
  launch.set_kernel(accumulate);
  *launch.add_buffers() = builder.buffer(2, 0, 32, {0, 32});
  *launch.add_buffers() = builder.buffer(2, 256, 32);
  launch.set_writes(1);
  launch.set_tiles(8);
  plan::Repeat &outer = *builder.add().mutable_repeat();
  outer.set_count(2);
  plan::Repeat &inner = *outer.add_body()->mutable_repeat();
  inner.set_count(4);
  inner.add_body()->mutable_call()->set_function(0);
  std::vector<float> values(32);
  std::iota(values.begin(), values.end(), 0.0f);
  std::vector<float> y = floatsOf(runOnce(builder, {{"x", floats({4, 8}, values)}})["y"]);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(y[i], 2.0f * (48 + 4 * i));
}

// One function reaches each layer's weights: it is told where they lie, and hands on to another what that
// needs.
TEST(Session, FunctionsTakeArguments) {
  PlanBuilder builder({2});
  builder.input("x", plan::F32, {2, 8}, builder.box({2, 8}, 0, 0), 0);
  builder.output("y", plan::F32, {2, 8}, builder.box({2, 8}, 0, 0), 256);
  builder.data.resize(96);
  for (int i = 0; i < 24; ++i) { // three layers' weights
    const auto value = static_cast<float>(i * i);
    std::memcpy(builder.data.data() + i * 4, &value, 4);
  }
  for (uint64_t layer = 0; layer < 3; ++layer) {
    plan::Parameter &parameter = *builder.plan.add_parameters();
    parameter.set_name("w" + std::to_string(layer));
    parameter.set_type(plan::F32);
    parameter.add_shape(8);
    parameter.set_offset(layer * 32);
    parameter.set_bytes(32);
    parameter.set_inlined(true);
  }
  // load: for i < 3: w[i] to a place that lies the higher the lower i is
  plan::Repeat &loads = *builder.load().add_body()->mutable_repeat();
  loads.set_count(3);
  plan::Copy &each = *loads.add_body()->mutable_copy();
  each.mutable_parameter()->add_strides(1);
  *each.mutable_parameter()->mutable_box() = builder.box({8});
  *each.mutable_dst() = builder.buffer(0, 1024, 32, {-64});

  const uint32_t accumulate = builder.kernel("accumulate", 2, 0);
  const uint32_t scale = builder.kernel("scale", 2, 3);
  // layer(weights, bias): y = y * 1 + bias in all, then add(weights)
  plan::Function &layer = *builder.plan.add_functions();
  layer.set_name("layer");
  layer.set_arguments(2);
  plan::Launch &launch = *layer.add_body()->mutable_launch();
  launch.set_kernel(scale);
  *launch.add_buffers() = builder.buffer(2, 256, 32);
  *launch.add_buffers() = builder.buffer(1, 0, 32);
  launch.set_writes(1);
  launch.set_tiles(1);
  *launch.add_params() = constant(1);
  *launch.add_params() = counter(1);
  *launch.add_params() = constant(8);
  plan::Copy &back = *layer.add_body()->mutable_copy();
  *back.mutable_buffer() = builder.buffer(1, 0, 32);
  *back.mutable_dst() = builder.buffer(2, 256, 32);
  plan::Call &add = *layer.add_body()->mutable_call();
  add.set_function(1);
  *add.add_arguments() = constant(7);
  *add.add_arguments() = binary(plan::Expr::ADD, counter(0), constant(64));
  // add(unused, weights), in a repeat of one of its own, whose counter comes after the arguments
  plan::Function &adder = *builder.plan.add_functions();
  adder.set_name("add");
  adder.set_arguments(2);
  plan::Repeat &once = *adder.add_body()->mutable_repeat();
  once.set_count(2);
  plan::Launch &sum = *once.add_body()->mutable_launch();
  sum.set_kernel(accumulate);
  *sum.add_buffers() = builder.buffer(0, 0, 16, {0, 1, 16});
  *sum.add_buffers() = builder.buffer(2, 256, 16, {0, 0, 16});
  sum.set_writes(1);
  sum.set_tiles(4);

  plan::Copy &begin = *builder.add().mutable_copy();
  *begin.mutable_buffer() = builder.buffer(2, 0, 32);
  *begin.mutable_dst() = builder.buffer(2, 256, 32);
  plan::Repeat &repeat = *builder.add().mutable_repeat();
  repeat.set_count(3);
  plan::Call &call = *repeat.add_body()->mutable_call();
  call.set_function(0);
  *call.add_arguments() =
      binary(plan::Expr::SUB, constant(960), binary(plan::Expr::MUL, counter(0), constant(64)));
  *call.add_arguments() = binary(plan::Expr::MUL, coordinate(0), counter(0));
  std::vector<float> values(16);
  std::iota(values.begin(), values.end(), 0.0f);
  std::vector<float> y = floatsOf(runOnce(builder, {{"x", floats({2, 8}, values)}})["y"]);
  ASSERT_EQ(y.size(), 16u);
  for (int rank = 0; rank < 2; ++rank)
    for (int e = 0; e < 8; ++e) {
      float want = values[static_cast<size_t>(rank * 8 + e)];
      for (int l = 0; l < 3; ++l)
        want += static_cast<float>(rank * l + (l * 8 + e) * (l * 8 + e));
      EXPECT_EQ(y[static_cast<size_t>(rank * 8 + e)], want) << rank << ' ' << e;
    }
}

TEST(Session, SendsAndReceivesInARing) {
  PlanBuilder builder({3});
  builder.plan.set_message_slots(1);
  builder.input("x", plan::F32, {3}, builder.box({3}, 0, 0), 0);
  builder.output("y", plan::F32, {3}, builder.box({3}, 0, 0), 64);
  auto next = [](int64_t step) {
    return binary(plan::Expr::MOD, binary(plan::Expr::ADD, coordinate(0), constant(step)), constant(3));
  };
  plan::Send &send = *builder.add().mutable_send();
  *send.mutable_src() = builder.buffer(2, 0, 4);
  *send.mutable_peer() = next(1);
  plan::Recv &receive = *builder.add().mutable_recv();
  *receive.mutable_dst() = builder.buffer(2, 64, 4);
  *receive.mutable_peer() = next(-1);
  EXPECT_EQ(floatsOf(runOnce(builder, ramp("x", 3))["y"]), (std::vector<float>{2, 0, 1}));
}

// Every rank sends more than may wait, on a queue of messages; what waits lies in the memory that the plan
// states.
TEST(Session, MessagesWaitInStatedMemory) {
  // Of a message longer than a slot, which waits to be received, none is copied.
  for (auto [slots, most] : {std::pair(0u, 0u), {1u, 0u}, {3u, 0u}, {1u, 4u}, {3u, 3u}}) {
    PlanBuilder builder({2});
    builder.plan.set_message_slots(slots);
    builder.plan.set_message_slot_bytes(most);
    builder.input("x", plan::F32, {12}, builder.box({12}, 0, 0), 0);
    builder.output("y", plan::F32, {12}, builder.box({12}, 0, 0), 256);
    // Rank 0 sends six messages and then receives six, rank 1 the other way round; each on its queue 2.
    plan::Expr other = binary(plan::Expr::SUB, constant(1), coordinate(0));
    for (int64_t first : {0, 1})
      for (bool sends : {true, false}) {
        plan::Predicate &part = *builder.add().mutable_predicate();
        *part.mutable_condition() =
            sends == (first == 0) ? binary(plan::Expr::SUB, constant(1), coordinate(0)) : coordinate(0);
        plan::Instruction &repeat = *part.add_body();
        repeat.mutable_repeat()->set_count(6);
        plan::Instruction &message = *repeat.mutable_repeat()->add_body();
        message.set_queue(2);
        if (sends) {
          *message.mutable_send()->mutable_src() = builder.buffer(2, 0, 4, {4});
          *message.mutable_send()->mutable_peer() = other;
        } else {
          *message.mutable_recv()->mutable_dst() = builder.buffer(2, 256, 4, {4});
          *message.mutable_recv()->mutable_peer() = other;
        }
      }
    std::unique_ptr<Session> session;
    Status status = builder.open(session);
    ASSERT_TRUE(status.ok()) << status.describe();
    status = session->run(1, ramp("x", 12));
    ASSERT_TRUE(status.ok()) << status.describe();
    Tensors outputs;
    ASSERT_TRUE(session->outputs(1, outputs).ok());
    EXPECT_EQ(floatsOf(outputs["y"]), (std::vector<float>{6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5}));
    std::vector<RankMemory> memory;
    ASSERT_TRUE(session->memory(memory).ok());
    uint64_t staging = 0;
    for (const RankMemory::Row &row : memory[0].rows)
      staging += row.kind == "staging" ? row.measured : 0;
    if (!std::getenv("COLOSSAL_TEST_DEVICE")) {
      EXPECT_EQ(staging, slots * (most > 0 ? most : 4));
      EXPECT_EQ(staging, plan::waitingBytes(plan::stagesOf(builder.plan).front()));
    }
  }
}

// A rank that waits for a message that never comes ends when asked to.
TEST(Session, AnInterruptEndsABlockedReceive) {
  PlanBuilder builder({2});
  const uint32_t hang = builder.kernel("hang", 0, 2);
  for (uint32_t slots : {0u, 1u}) {
    builder.infer().clear_body();
    builder.plan.set_message_slots(slots);
    // Rank 0 computes for ever before it sends.
    builder.launch(hang, {}, 0, {coordinate(0), constant(0)}, 1);
    plan::Send &send = *builder.add("/send").mutable_send();
    *send.mutable_src() = builder.buffer(2, 0, 4);
    *send.mutable_peer() =
        binary(plan::Expr::SUB, constant(1), binary(plan::Expr::MUL, coordinate(0), constant(2)));
    plan::Recv &receive = *builder.add("/receive").mutable_recv();
    *receive.mutable_dst() = builder.buffer(2, 64, 4);
    *receive.mutable_peer() = binary(plan::Expr::SUB, coordinate(0), constant(1));
    EXPECT_EXIT(
        {
          std::unique_ptr<Session> session;
          if (!builder.open(session).ok())
            ::_exit(1);
          std::thread other([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            session->interrupt();
          });
          Status status = session->run(1, {});
          std::fprintf(stderr, "%s\n", status.describe().c_str());
          ::_exit(status.code() == Code::Interrupted ? 7 : 2);
        },
        ::testing::ExitedWithCode(7), "rank 0 does not come back from");
  }
}

TEST(Session, AMessageOfAnotherLengthIsRefused) {
  PlanBuilder builder({2});
  builder.plan.set_message_slots(1);
  builder.input("x", plan::F32, {2}, builder.box({2}, 0, 0), 0);
  builder.output("y", plan::F32, {2}, builder.box({2}, 0, 0), 64);
  plan::Expr other = binary(plan::Expr::SUB, constant(1), coordinate(0));
  plan::Send &send = *builder.add().mutable_send();
  *send.mutable_src() = builder.buffer(2, 0, 4);
  *send.mutable_peer() = other;
  plan::Recv &receive = *builder.add().mutable_recv();
  *receive.mutable_dst() = builder.buffer(2, 64, 8);
  *receive.mutable_peer() = other;
  std::unique_ptr<Session> session;
  Status status = builder.open(session);
  EXPECT_EQ(status.code(), Code::InvalidPlan);
  EXPECT_NE(status.describe().find("it sends 4 bytes, and rank 1 expects 8"), std::string::npos)
      << status.describe();
}

TEST(Session, ReadsOnlyBoxesOfWeightFiles) {
  PlanBuilder builder({2});
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0f);
  std::string folder = builder.path("weights");
  {
    std::ofstream file(folder, std::ios::binary);
    file.write("skip", 4);
    file.write(reinterpret_cast<const char *>(values.data()), 96);
  }
  plan::WeightFile &file = *builder.plan.add_files();
  file.set_path(folder.substr(folder.rfind('/') + 1));
  file.set_bytes(100);
  plan::Parameter &parameter = *builder.plan.add_parameters();
  parameter.set_name("w");
  parameter.set_type(plan::F32);
  parameter.add_shape(4);
  parameter.add_shape(6);
  parameter.set_offset(4);
  parameter.set_bytes(96);
  plan::Copy &copy = *builder.load().add_body()->mutable_copy();
  *copy.mutable_parameter()->mutable_box() = builder.box({4, 6}, 1, 0);
  *copy.mutable_dst() = builder.buffer(0, 128, 48);
  builder.output("y", plan::F32, {4, 6}, builder.box({4, 6}, 1, 0), 0);
  plan::Copy &out = *builder.add().mutable_copy();
  *out.mutable_buffer() = builder.buffer(0, 128, 48);
  *out.mutable_dst() = builder.buffer(2, 0, 48);
  EXPECT_EQ(floatsOf(runOnce(builder, {})["y"]), values);

  SessionOptions random;
  random.randomWeights = 7;
  std::vector<float> drawn = floatsOf(runOnce(builder, {}, random)["y"]);
  PlanBuilder whole;
  whole.plan.mutable_files()->CopyFrom(builder.plan.files());
  whole.plan.mutable_parameters()->CopyFrom(builder.plan.parameters());
  plan::Copy &copyAll = *whole.load().add_body()->mutable_copy();
  *copyAll.mutable_parameter()->mutable_box() = whole.box({4, 6});
  *copyAll.mutable_dst() = whole.buffer(0, 0, 96);
  whole.output("y", plan::F32, {4, 6}, whole.box({4, 6}), 0);
  plan::Copy &outAll = *whole.add().mutable_copy();
  *outAll.mutable_buffer() = whole.buffer(0, 0, 96);
  *outAll.mutable_dst() = whole.buffer(2, 0, 96);
  EXPECT_EQ(floatsOf(runOnce(whole, {}, random)["y"]), drawn) << "random weights depend on the mesh";

  std::ofstream(folder, std::ios::app) << "longer";
  std::unique_ptr<Session> session;
  Status status = builder.open(session);
  EXPECT_EQ(status.code(), Code::Io) << status.describe();
  EXPECT_NE(status.message().find("106 bytes"), std::string::npos) << status.describe();
  std::remove(folder.c_str());
}

TEST(Session, InputsThatFitNoProgramAreListed) {
  PlanBuilder builder;
  builder.input("x", plan::F32, {2, 3}, builder.box({2, 3}), 0);
  std::unique_ptr<Session> session;
  ASSERT_TRUE(builder.open(session).ok());
  int program;
  Tensors none, extra = {{"x", floats({2, 3}, std::vector<float>(6))}, {"z", floats({1}, {0})}};
  Status status = session->select(none, program);
  EXPECT_NE(status.message().find("'x' is missing"), std::string::npos);
  EXPECT_NE(status.message().find("x: f32[2,3]"), std::string::npos);
  EXPECT_NE(session->select(extra, program).message().find("no input 'z'"), std::string::npos);
}

// Of four ranks with two indices each the last has one of padding, which does not count.
TEST(Session, IndicesOutsideTheirRangeAreRefused) {
  for (plan::DataType type : {plan::I32, plan::I64}) {
    const uint64_t size = plan::elementBytes(type);
    PlanBuilder builder({4});
    builder.input("given", type, {7}, builder.box({7}, 0, 0), 0);
    builder.input("copied", type, {7}, builder.box({7}, 0, 0), 64);
    auto give = [&](plan::Binding &binding, const char *user) {
      binding.mutable_range()->set_least(-3);
      binding.mutable_range()->set_greatest(2);
      binding.mutable_range()->set_user(user);
    };
    give(*builder.infer().mutable_inputs(0), "/first");
    builder.output("computed", type, {7}, builder.box({7}, 0, 0), 128);
    *builder.infer().add_checks() = builder.infer().outputs(0);
    builder.infer().clear_outputs();
    give(*builder.infer().mutable_checks(0), "/second");
    plan::Copy &copy = *builder.add().mutable_copy();
    *copy.mutable_buffer() = builder.buffer(2, 64, 2 * size);
    *copy.mutable_dst() = builder.buffer(2, 128, 2 * size);
    std::unique_ptr<Session> session;
    ASSERT_TRUE(builder.open(session).ok());
    auto tensor = [&](std::vector<int64_t> values) {
      Tensor result{type, {7}, std::vector<std::byte>(7 * size), {}};
      for (size_t i = 0; i < 7; ++i)
        std::memcpy(result.bytes.data() + i * size, &values[i], size);
      return result;
    };
    auto run = [&](std::vector<int64_t> given, std::vector<int64_t> copied) {
      Tensors inputs = {{"given", tensor(given)}, {"copied", tensor(copied)}};
      int program = -1;
      Status status = session->select(inputs, program);
      return status.ok() ? session->run(program, inputs) : status;
    };
    const std::vector<int64_t> within = {0, 1, 2, -1, -2, -3, 2};
    EXPECT_TRUE(run(within, within).ok());
    Status low = run({0, 0, 0, 0, 0, 0, -4}, within), high = run(within, {0, 0, 0, 0, 0, 3, 0});
    EXPECT_EQ(low.code(), Code::InvalidArgument);
    EXPECT_NE(low.message().find("input 'given': '/first' takes indices from -3 to 2, and one is -4"),
              std::string::npos)
        << low.message();
    EXPECT_EQ(high.code(), Code::InvalidArgument);
    EXPECT_NE(high.message().find("'/second' takes indices from -3 to 2, and one is 3"), std::string::npos)
        << high.message();
    EXPECT_TRUE(run(within, within).ok()); // the session can go on
    Tensors outputs;
    EXPECT_TRUE(session->outputs(1, outputs).ok());
    EXPECT_TRUE(outputs.empty());
  }
}

namespace {
/// Of two ranks one hangs in /stuck/Op, and the other waits for it in /sum.
void addHang(PlanBuilder &builder) {
  const uint32_t hang = builder.kernel("hang", 0, 2);
  builder.launch(hang, {}, 0, {coordinate(0), constant(1)}, 1);
  builder.infer().mutable_body(0)->set_source("/stuck/Op");
  plan::Collective &c = *builder.add("/sum").mutable_collective();
  c.set_kind(plan::Collective::ALL_REDUCE);
  c.set_reduction(plan::Collective::SUM);
  c.set_type(plan::F32);
  c.add_axes(0);
  *c.mutable_src() = builder.buffer(1, 0, 4);
  *c.mutable_dst() = builder.buffer(1, 0, 4);
}

/// Runs the plan in a process that ends here, with the thread that cannot be stopped: 7 for a timeout.
[[noreturn]] void runAndExit(PlanBuilder &builder, const SessionOptions &options) {
  std::unique_ptr<Session> session;
  if (!builder.open(session, options).ok())
    ::_exit(1);
  Status status = session->run(1, {});
  std::fprintf(stderr, "%s\n", status.describe().c_str());
  ::_exit(status.code() == Code::Timeout ? 7 : 2);
}
} // namespace

TEST(Session, AHangingRankEndsAllAndIsNamed) {
  PlanBuilder builder({2});
  addHang(builder);
  SessionOptions options;
  options.deadline = Deadline::fixed(std::chrono::milliseconds(300));
  EXPECT_EXIT(runAndExit(builder, options), ::testing::ExitedWithCode(7),
              "rank 1.*/stuck/Op|rank 0.*for rank 1");
}

TEST(Deadline, FollowsWhatIsPredictedAboveAFloor) {
  using Span = Deadline::Span;
  const Deadline usual;
  EXPECT_EQ(usual.forPredicted(2e-3, false), Span(120000));
  EXPECT_EQ(usual.forPredicted(3, false), Span(300000));
  EXPECT_EQ(usual.forPredicted(2e-3, true), Span(600000));
  EXPECT_EQ(usual.forPredicted(3, true), Span(1500000));
  // Nothing, or nothing that makes sense, is predicted.
  EXPECT_EQ(usual.forPredicted(0, false), Span(600000));
  EXPECT_EQ(usual.unpredicted(), Span(600000));
  EXPECT_EQ(usual.forPredicted(-1, false), Span(600000));
  EXPECT_EQ(usual.forPredicted(std::numeric_limits<double>::quiet_NaN(), false), Span(120000));
  EXPECT_EQ(usual.forPredicted(std::numeric_limits<double>::infinity(), false), Deadline::longest);
  EXPECT_EQ(Deadline::fixed(Span(300)).forPredicted(3, true), Span(300));
  EXPECT_EQ(Deadline::never().unpredicted(), Deadline::longest);
}

TEST(Deadline, IsSpelledAsSecondsAFactorOrNever) {
  Deadline deadline;
  ASSERT_TRUE(Deadline::parse("2.5", deadline).ok());
  EXPECT_EQ(deadline.forPredicted(1, true), Deadline::Span(2500));
  ASSERT_TRUE(Deadline::parse("10x", deadline).ok());
  EXPECT_EQ(deadline.forPredicted(1, false), Deadline::Span(120000));
  ASSERT_TRUE(Deadline::parse("10x,0.5", deadline).ok());
  EXPECT_EQ(deadline.forPredicted(1, false), Deadline::Span(10000));
  EXPECT_EQ(deadline.forPredicted(1e-3, false), Deadline::Span(500));
  ASSERT_TRUE(Deadline::parse("never", deadline).ok());
  EXPECT_EQ(deadline.forPredicted(1, false), Deadline::longest);
  for (const char *text :
       {"", "0", "-1", "x", "0x", "10x,", "10x,0", "10x,5 s", "1e9", "nan", "nanx", "5 s", "soon"}) {
    Status status = Deadline::parse(text, deadline);
    EXPECT_EQ(status.code(), Code::InvalidArgument) << text;
    EXPECT_NE(status.message().find("FACTORx"), std::string::npos) << text;
  }
}

TEST(Session, AHangingRankIsNamedByWhatIsPredicted) {
  PlanBuilder builder({2});
  addHang(builder);
  builder.infer().mutable_body(0)->set_predicted_seconds(1e-3);
  builder.infer().set_predicted_seconds(1e3); // as long may who waits for it
  SessionOptions options;
  options.deadline = Deadline::predicted(100, 0.1);
  EXPECT_EXIT(runAndExit(builder, options), ::testing::ExitedWithCode(7),
              "rank 1.*/stuck/Op.*0.001 s are predicted|0.001 s are predicted.*rank 1");
}
