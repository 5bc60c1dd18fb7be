// Hostile plans: well-formed files whose contents were altered, digests recomputed. The validator must refuse
// or accept without a crash, and what it accepts must run inside its bounds (kernels aside, which are machine
// code). Meant for a build with COLOSSAL_SANITIZE; harmless without.
#include "Mutator.h"
#include "PlanBuilder.h"

#include <gtest/gtest.h>

using namespace colossal;
using namespace colossal::runtime;

namespace {

plan::Collective &collective(plan::Instruction &instruction, plan::Collective::Kind kind,
                             const PlanBuilder &builder) {
  plan::Collective &c = *instruction.mutable_collective();
  c.set_kind(kind);
  c.set_type(plan::F32);
  c.add_axes(0);
  c.add_sizes(3);
  c.add_sizes(4);
  c.add_src_strides(8);
  c.add_src_strides(1);
  c.add_dst_strides(8);
  c.add_dst_strides(1);
  *c.mutable_src() = builder.buffer(1, 0, 128);
  *c.mutable_dst() = builder.buffer(1, 256, 128);
  return c;
}

/// Every kind of instruction that moves bytes by itself: all but launches and library calls.
PlanBuilder moving() {
  PlanBuilder builder({2, 2}, 4096);
  builder.data = std::string(256, 'd');
  builder.plan.clear_kernels();
  plan::Parameter &parameter = *builder.plan.add_parameters();
  parameter.set_name("w");
  parameter.set_type(plan::F32);
  parameter.add_shape(4);
  parameter.add_shape(5);
  parameter.set_bytes(80);
  parameter.set_inlined(true);
  plan::Copy &load = *builder.load().add_body()->mutable_copy();
  *load.mutable_parameter()->mutable_box() = builder.box({4, 5}, 1, 0);
  *load.mutable_dst() = builder.buffer(0, 0, 48);
  builder.input("x", plan::F32, {8}, builder.box({8}, 0, 0), 0);
  builder.output("y", plan::F32, {8}, builder.box({8}, 0, 0), 64);
  plan::Instruction &reduce = builder.add("/reduce");
  collective(reduce, plan::Collective::ALL_REDUCE, builder).set_reduction(plan::Collective::SUM);
  reduce.set_signals(1);
  reduce.set_queue(1);
  plan::Instruction &gather = builder.add("/gather");
  gather.add_waits(1);
  collective(gather, plan::Collective::ALL_GATHER, builder).set_dst_peer_stride(4);
  collective(builder.add("/scatter"), plan::Collective::REDUCE_SCATTER, builder)
      .set_reduction(plan::Collective::MAX);
  builder.infer().mutable_body(2)->mutable_collective()->set_src_peer_stride(4);
  plan::Collective &all = collective(builder.add("/all"), plan::Collective::ALL_TO_ALL, builder);
  all.set_src_peer_stride(4);
  all.set_dst_peer_stride(4);
  collective(builder.add("/root"), plan::Collective::BROADCAST, builder).set_root(1);
  *collective(builder.add("/shift"), plan::Collective::PERMUTE, builder).mutable_source() =
      binary(plan::Expr::SUB, coordinate(0), constant(1));
  plan::Collective &halo = collective(builder.add("/halo"), plan::Collective::EXCHANGE, builder);
  plan::Collective::Window &window = *halo.mutable_window();
  window.set_outer(2);
  window.set_inner(2);
  window.set_src_extent(4);
  window.set_dst_extent(6);
  *window.mutable_src_start() = binary(plan::Expr::MUL, coordinate(0), constant(4));
  *window.mutable_src_valid() = constant(4);
  *window.mutable_dst_start() =
      binary(plan::Expr::SUB, binary(plan::Expr::MUL, coordinate(0), constant(4)), constant(1));
  plan::Function &function = *builder.plan.add_functions();
  function.set_name("f");
  plan::Copy &inner = *function.add_body()->mutable_copy();
  *inner.mutable_buffer() = builder.buffer(1, 512, 32);
  *inner.mutable_dst() = builder.buffer(1, 640, 32, {32});
  plan::Repeat &repeat = *builder.add("/repeat").mutable_repeat();
  repeat.set_count(3);
  repeat.add_body()->mutable_call()->set_function(0);
  plan::Function &shifted = *builder.plan.add_functions();
  shifted.set_name("g");
  shifted.set_arguments(2);
  plan::Instruction &named = *shifted.add_body();
  named.set_source("/h.{0}/Copy,/h.{0+1}/in");
  named.add_operators("/h.{0}/Copy");
  plan::Copy &there = *named.mutable_copy();
  *there.mutable_buffer() = builder.buffer(1, 512, 32, {32, 1});
  *there.mutable_dst() = builder.buffer(1, 768, 32, {32});
  plan::Repeat &layers = *builder.add("/layers").mutable_repeat();
  layers.set_count(2);
  plan::Call &call = *layers.add_body()->mutable_call();
  call.set_function(1);
  call.add_names("7");
  *call.add_arguments() = counter(0);
  *call.add_arguments() = binary(plan::Expr::MUL, coordinate(1), constant(16));
  plan::Predicate &predicate = *builder.add("/if").mutable_predicate();
  *predicate.mutable_condition() = coordinate(1);
  plan::Copy &data = *predicate.add_body()->mutable_copy();
  data.mutable_data()->set_offset(16);
  data.mutable_data()->set_bytes(64);
  *data.mutable_dst() = builder.buffer(1, 1024, 64);
  plan::Copy &out = *builder.add("/out").mutable_copy();
  *out.mutable_buffer() = builder.buffer(2, 0, 16);
  *out.mutable_dst() = builder.buffer(2, 64, 16);
  return builder;
}

/// Whether running costs little: the validator bounds memory accesses, not time.
bool cheap(const plan::Plan &plan) {
  uint64_t work = 1;
  for (const plan::Arena &arena : plan.arenas())
    if (arena.bytes() > 1 << 20)
      return false;
  std::function<void(const plan::Instruction &)> visit = [&](const plan::Instruction &instruction) {
    work *= std::max<uint64_t>(1, std::min<uint64_t>(instruction.repeat().count(), 1 << 20));
    for (const plan::Instruction &inner : instruction.repeat().body())
      visit(inner);
  };
  for (const plan::Program &program : plan.programs())
    for (const plan::Instruction &instruction : program.body())
      visit(instruction);
  for (const plan::FixedInput &input : plan.programs(plan.programs_size() - 1).fixed_inputs())
    work *= std::max<uint64_t>(1, input.bytes());
  return work < 1000 && plan::meshRanks(plan.mesh()) <= 8;
}

void runIfValid(PlanBuilder &builder, int &accepted) {
  Status status = builder.validate();
  if (!status.ok()) {
    EXPECT_FALSE(status.message().empty());
    return;
  }
  ++accepted;
  if (!cheap(builder.plan))
    return;
  std::unique_ptr<Session> session;
  SessionOptions options;
  options.deadline = Deadline::fixed(std::chrono::seconds(20));
  if (!builder.open(session, options).ok())
    return;
  for (int program = 0; program < builder.plan.programs_size(); ++program) {
    Tensors inputs, outputs;
    for (const plan::Binding &binding : builder.plan.programs(program).inputs()) {
      Tensor tensor;
      tensor.type = binding.type();
      tensor.shape.assign(binding.shape().begin(), binding.shape().end());
      uint64_t elements;
      ASSERT_TRUE(tensorElements(tensor.type, tensor.shape, elements));
      tensor.bytes.resize(elements * plan::elementBytes(tensor.type));
      inputs[binding.name()] = std::move(tensor);
    }
    Status ran = session->run(program, inputs);
    if (ran.ok())
      ran = session->outputs(program, outputs);
    EXPECT_NE(ran.code(), Code::Timeout) << ran.describe();
  }
}

} // namespace

TEST(Mutation, TheUnchangedPlanRuns) {
  PlanBuilder builder = moving();
  Status status = builder.validate();
  ASSERT_TRUE(status.ok()) << status.describe();
  int accepted = 0;
  runIfValid(builder, accepted);
}

TEST(Mutation, ChangedFieldsAreRefusedOrHarmless) {
  const PlanBuilder original = moving();
  int accepted = 0;
  constexpr int count = 1500;
  for (int i = 0; i < count; ++i) {
    Mutator mutator(static_cast<uint64_t>(i));
    PlanBuilder builder = original;
    for (size_t changes = 1 + mutator.pick(3); changes > 0; --changes)
      mutator.mutate(builder.plan);
    SCOPED_TRACE(i);
    runIfValid(builder, accepted);
    if (HasFatalFailure())
      return;
  }
  // Names and unused numbers change freely; most else does not.
  EXPECT_GT(accepted, count / 100);
  EXPECT_LT(accepted, count * 3 / 4);
}

TEST(Mutation, FlippedBitsAndCutMessagesAreRefusedOrHarmless) {
  const PlanBuilder original = moving();
  const std::string bytes = original.plan.SerializeAsString();
  int accepted = 0, parsed = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 7) {
    std::string altered = bytes;
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << bit % 8));
    if (bit % 5 == 0)
      altered.resize(bit / 8);
    PlanBuilder builder = original;
    if (!builder.plan.ParseFromString(altered))
      continue;
    ++parsed;
    SCOPED_TRACE(bit);
    runIfValid(builder, accepted);
  }
  EXPECT_GT(parsed, 100);
}
