// Plans on the device `cuda`: what is its own beside what every device must do. Run on an emulated GPU, with
// COLOSSAL_TEST_DEVICE=cuda.
#include "PlanBuilder.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace colossal;
using namespace colossal::runtime;

namespace {

/// y = 6 x + 5 for 40 floats: x is scaled and copied on the first queue, and scaled on another.
PlanBuilder twoQueues() {
  PlanBuilder builder;
  builder.input("x", plan::F32, {40}, builder.box({40}), 0);
  builder.output("y", plan::F32, {40}, builder.box({40}), 256);
  const uint32_t scale = builder.kernel("scale", 2, 3);
  builder.launch(scale, {builder.buffer(2, 0, 160), builder.buffer(1, 0, 160)}, 1,
                 {constant(2), constant(1), constant(40)}, 3);
  plan::Instruction &copy = builder.add("/copy");
  *copy.mutable_copy()->mutable_buffer() = builder.buffer(1, 0, 160);
  *copy.mutable_copy()->mutable_dst() = builder.buffer(1, 256, 160);
  copy.set_signals(1);
  builder.launch(scale, {builder.buffer(1, 256, 160), builder.buffer(2, 256, 160)}, 1,
                 {constant(3), constant(2), constant(40)}, 3);
  builder.infer().mutable_body(2)->set_queue(1);
  builder.infer().mutable_body(2)->add_waits(1);
  return builder;
}

Tensors rampFrom(float first) {
  std::vector<float> values(40);
  std::iota(values.begin(), values.end(), first);
  return {{"x", floats({40}, values)}};
}

void expectRuns(Session &session, int times) {
  for (int run = 0; run < times; ++run) {
    Tensors outputs;
    Status status = session.run(1, rampFrom(static_cast<float>(run)));
    ASSERT_TRUE(status.ok()) << status.describe();
    ASSERT_TRUE(session.outputs(1, outputs).ok());
    const std::vector<float> y = floatsOf(outputs["y"]);
    for (int i = 0; i < 40; ++i)
      ASSERT_EQ(y[static_cast<size_t>(i)], 6.0f * static_cast<float>(run + i) + 5) << run << " " << i;
  }
}

uint64_t instructionsOf(Session &session) {
  std::vector<RankDevice> devices;
  EXPECT_TRUE(session.devices(devices).ok());
  return devices.empty() ? 0 : devices[0].emulatedInstructions;
}

} // namespace

TEST(Cuda, ReplaysWhatItRecorded) {
  for (bool eager : {false, true}) {
    std::unique_ptr<Session> session;
    SessionOptions options;
    options.eager = eager;
    Status status = twoQueues().open(session, options);
    ASSERT_TRUE(status.ok()) << status.describe();
    expectRuns(*session, 5);
  }
}

TEST(Cuda, RecordsAgainstTheTraceToo) {
  std::unique_ptr<Session> session;
  ASSERT_TRUE(twoQueues().open(session).ok());
  expectRuns(*session, 3);
  session->record(true); // runs are walked through while each instruction's time is wanted
  expectRuns(*session, 2);
  Timeline timeline;
  ASSERT_TRUE(session->timeline(timeline).ok());
  double seconds = 0;
  size_t rows = 0;
  for (const Timeline::Row &row : timeline.profile()) {
    EXPECT_EQ(row.executions, 1);
    EXPECT_GT(row.seconds, 0) << row.name;
    seconds += row.seconds, ++rows;
  }
  EXPECT_EQ(rows, 3u);
  EXPECT_LT(seconds, 10);
  session->record(false);
  expectRuns(*session, 2);
}

TEST(Cuda, SaysWhatItIs) {
  std::unique_ptr<Session> session;
  ASSERT_TRUE(twoQueues().open(session).ok());
  const uint64_t before = instructionsOf(*session);
  expectRuns(*session, 1);
  std::vector<RankDevice> devices;
  ASSERT_TRUE(session->devices(devices).ok());
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_TRUE(devices[0].emulated);
  EXPECT_EQ(devices[0].name.rfind("cuda:0 ", 0), 0u) << devices[0].name;
  EXPECT_NE(devices[0].name.find("emulated"), std::string::npos) << devices[0].name;
  // Two launches of 48 threads, of which 40 compute something.
  EXPECT_GT(devices[0].emulatedInstructions, before + 2 * 40);
  EXPECT_LT(devices[0].emulatedInstructions, before + 2 * 48 * 100);
}

TEST(Cuda, AnOverrunEndsTheRunAndIsTold) {
  for (bool eager : {false, true}) {
    PlanBuilder builder;
    builder.output("y", plan::F32, {32}, builder.box({32}), 0);
    const uint32_t shifted = builder.kernel("shifted", 2, 1);
    // The first float beyond the arena, in which a kernel may go astray unseen.
    builder.launch(shifted, {builder.buffer(1, 0, 128), builder.buffer(2, 0, 128)}, 1, {constant(1 << 20)},
                   1);
    builder.infer().mutable_body(0)->set_source("/astray/Gather");
    std::unique_ptr<Session> session;
    SessionOptions options;
    options.eager = eager;
    ASSERT_TRUE(builder.open(session, options).ok());
    Status status = session->run(1, {});
    EXPECT_EQ(status.code(), Code::RankFailed) << status.describe();
    EXPECT_NE(status.message().find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << status.describe();
  }
}

TEST(Cuda, RanksOfOneProcessShareAGpu) {
  PlanBuilder builder({3});
  builder.input("x", plan::F32, {5}, builder.box({5}), 0);
  builder.output("y", plan::F32, {5}, builder.box({5}), 64);
  const uint32_t scale = builder.kernel("scale", 2, 3);
  builder.launch(scale, {builder.buffer(2, 0, 20), builder.buffer(2, 64, 20)}, 1,
                 {constant(2), constant(0), constant(5)}, 1);
  plan::Collective &sum = *builder.add("/sum").mutable_collective();
  sum.set_kind(plan::Collective::ALL_REDUCE);
  sum.set_reduction(plan::Collective::SUM);
  sum.set_type(plan::F32);
  sum.add_axes(0);
  *sum.mutable_src() = builder.buffer(2, 64, 20);
  *sum.mutable_dst() = builder.buffer(2, 64, 20);
  sum.add_sizes(5);
  sum.add_src_strides(1);
  sum.add_dst_strides(1);
  std::unique_ptr<Session> session;
  Status status = builder.open(session);
  ASSERT_TRUE(status.ok()) << status.describe();
  for (int run = 0; run < 3; ++run) {
    std::vector<float> values = {1, 2, 3, 4, static_cast<float>(run)};
    status = session->run(1, {{"x", floats({5}, values)}});
    ASSERT_TRUE(status.ok()) << status.describe();
    Tensors outputs;
    ASSERT_TRUE(session->outputs(1, outputs).ok());
    EXPECT_EQ(floatsOf(outputs["y"])[4], 6.0f * static_cast<float>(run));
    EXPECT_EQ(floatsOf(outputs["y"])[1], 12.0f);
  }
}
