// Writes a small plan for the tests of colossal-run and of the C library:  write-plan FILE
// [hang|crash|plain|contraction|convolution|stages|waits|train [A B]]
//
// On a mesh of 2x2, y[8,6] = 2 x + sum over the ranks of axis a of their coordinate of b, with x split over
// a, and a weight w[6] (from w.bin beside the plan) gathered into z. With hang or crash, rank 3 does that.
// The program is predicted to take 10 us, what hangs or crashes 1 us.
//
// With plain, one rank alone computes y[48] = 2 (3 x + 1) on two queues, without collectives.
//
// With contraction, one rank computes c[8,16] = relu(a[8,64] b[64,16] + bias[16]) by the device's library.
//
// With stages, two of two ranks: x[8] is doubled on the one, and goes to the other, which adds its rank's
// number. With waits, the first rank never comes to sending it.
//
// With train, the plan of TrainingPlan.h on a mesh of A times B (1 1).
#include "PlanBuilder.h"
#include "TrainingPlan.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>

using namespace colossal;
using namespace colossal::runtime;

namespace {

plan::Collective &collective(PlanBuilder &builder, const char *source, plan::Collective::Kind kind,
                             uint64_t elements) {
  plan::Collective &c = *builder.add(source).mutable_collective();
  c.set_kind(kind);
  c.set_type(plan::F32);
  c.add_sizes(elements);
  c.add_src_strides(1);
  c.add_dst_strides(1);
  return c;
}

int writePlain(const std::string &file) {
  PlanBuilder builder;
  builder.input("x", plan::F32, {48}, builder.box({48}), 0);
  builder.output("y", plan::F32, {48}, builder.box({48}), 256);
  const uint32_t scale = builder.kernel("scale", 2, 3);
  builder.launch(scale, {builder.buffer(2, 0, 192), builder.buffer(1, 0, 192)}, 1,
                 {constant(3), constant(1), constant(48)}, 3);
  plan::Instruction &copy = builder.add("/copy/Identity");
  *copy.mutable_copy()->mutable_buffer() = builder.buffer(1, 0, 192);
  *copy.mutable_copy()->mutable_dst() = builder.buffer(1, 256, 192);
  copy.set_signals(1);
  builder.launch(scale, {builder.buffer(1, 256, 192), builder.buffer(2, 256, 192)}, 1,
                 {constant(2), constant(0), constant(48)}, 3);
  builder.infer().mutable_body(2)->set_queue(1);
  builder.infer().mutable_body(2)->add_waits(1);
  Status status = builder.validate();
  if (status.ok())
    status = builder.write(file);
  if (!status.ok())
    std::fprintf(stderr, "%s\n", status.describe().c_str());
  return status.ok() ? 0 : 1;
}

int writeContraction(const std::string &file) {
  PlanBuilder builder;
  plan::LibraryCall &call = *builder.add("/matmul/MatMul").mutable_library();
  call.set_routine("contraction");
  plan::Contraction &c = *call.mutable_contraction();
  c.set_type(plan::F32);
  c.set_result_type(plan::F32);
  c.set_compute("f32");
  c.set_batch(1);
  c.set_m(8);
  c.set_n(16);
  c.set_k(64);
  for (uint64_t stride : {0, 64, 1})
    c.add_a_strides(stride);
  for (uint64_t stride : {0, 16, 1})
    c.add_b_strides(stride);
  for (uint64_t stride : {0, 16, 1})
    c.add_c_strides(stride);
  c.set_bias(true);
  c.set_activation("relu");
  uint64_t offset = 0;
  auto place = [&](const char *name, uint64_t elements) {
    const uint64_t at = offset;
    offset += 8192;
    if (std::strcmp(name, "c") == 0)
      builder.output(name, plan::F32, {elements}, builder.box({elements}), at);
    else
      builder.input(name, plan::F32, {elements}, builder.box({elements}), at);
    return builder.buffer(PlanBuilder::io, at, elements * 4);
  };
  *call.add_buffers() = place("a", 512);
  *call.add_buffers() = place("b", 1024);
  *call.add_buffers() = place("bias", 16);
  *call.add_buffers() = builder.buffer(PlanBuilder::activations, 0, 4096);
  *call.add_buffers() = place("c", 128);
  call.set_writes(2);
  Status status = builder.validate();
  if (status.ok())
    status = builder.write(file);
  if (!status.ok())
    std::fprintf(stderr, "%s\n", status.describe().c_str());
  return status.ok() ? 0 : 1;
}

/// A convolution with a bias and ReLU, by the device's library, which takes its weight as it is.
int writeConvolution(const std::string &file) {
  PlanBuilder builder;
  plan::LibraryCall &call = *builder.add("/conv/Conv").mutable_library();
  call.set_routine("convolution.unpacked");
  plan::Convolution &c = *call.mutable_convolution();
  c.set_type(plan::F32);
  c.set_compute("f32");
  c.set_group(1);
  c.set_bias(true);
  c.set_activation("relu");
  auto fill = [](auto *field, std::initializer_list<int64_t> values) {
    field->Add(values.begin(), values.end());
  };
  fill(c.mutable_input(), {1, 4, 8, 8});
  fill(c.mutable_input_strides(), {256, 64, 8, 1});
  fill(c.mutable_weight(), {4, 4, 3, 3});
  fill(c.mutable_output(), {1, 4, 8, 8});
  fill(c.mutable_output_strides(), {256, 64, 8, 1});
  for (auto *ones : {c.mutable_strides(), c.mutable_dilations()})
    fill(ones, {1, 1});
  for (auto *pads : {c.mutable_pads_begin(), c.mutable_pads_end()})
    fill(pads, {1, 1});
  uint64_t offset = 0;
  auto place = [&](uint64_t elements) {
    const uint64_t at = offset;
    offset += 4096;
    return builder.buffer(PlanBuilder::io, at, elements * 4);
  };
  for (auto [name, elements] : {std::pair<const char *, uint64_t>("x", 256), {"w", 144}, {"bias", 4}}) {
    builder.input(name, plan::F32, {elements}, builder.box({elements}), offset);
    *call.add_buffers() = place(elements);
  }
  *call.add_buffers() = builder.buffer(PlanBuilder::activations, 0, 4096);
  builder.output("y", plan::F32, {256}, builder.box({256}), offset);
  *call.add_buffers() = place(256);
  call.set_writes(2);
  Status status = builder.validate();
  if (status.ok())
    status = builder.write(file);
  if (!status.ok())
    std::fprintf(stderr, "%s\n", status.describe().c_str());
  return status.ok() ? 0 : 1;
}

int writeTraining(const std::string &file, uint32_t a, uint32_t b) {
  const size_t slash = file.rfind('/');
  writeTrainingWeights(file.substr(0, slash + 1) + "w.bin");
  PlanBuilder builder = trainingPlan(a, b);
  Status status = builder.validate();
  if (status.ok())
    status = builder.write(file);
  if (!status.ok())
    std::fprintf(stderr, "%s\n", status.describe().c_str());
  return status.ok() ? 0 : 1;
}

int writeStages(const std::string &file, bool waits) {
  PlanBuilder builder;
  const uint32_t scale = builder.kernel("scale", 2, 3), hang = waits ? builder.kernel("hang", 0, 2) : 0;
  auto bind = [](plan::Binding &binding, const char *name) {
    binding.set_name(name);
    binding.set_type(plan::F32);
    binding.add_shape(8);
  };
  bind(*builder.infer().add_inputs(), "x");
  bind(*builder.infer().add_outputs(), "y");
  plan::Expr rank;
  rank.set_own(plan::Expr::RANK);
  for (uint32_t s : {0u, 1u}) {
    plan::Stage &stage = *builder.plan.add_stages();
    stage.set_name(s ? "back" : "front");
    stage.set_text(s);
    plan::MeshAxis &axis = *stage.mutable_mesh()->add_axes();
    axis.set_name("model");
    axis.set_size(2);
    plan::StageText &text = *builder.plan.add_stage_texts();
    *text.mutable_arenas() = builder.plan.arenas();
    text.add_programs();
    plan::StageProgram &program = *text.add_programs();
    plan::Shard &shard = s ? *program.add_outputs() : *program.add_inputs();
    *shard.mutable_box() = PlanBuilder({2}).box({8}, 0, 0);
    *shard.mutable_buffer() = builder.buffer(2, s ? 64 : 0, 16);
    if (s == 0 && waits) {
      plan::Instruction &stuck = *program.add_body();
      stuck.set_source("/faulty/Op");
      stuck.mutable_launch()->set_kernel(hang);
      *stuck.mutable_launch()->add_params() = rank;
      *stuck.mutable_launch()->add_params() = constant(0);
      stuck.mutable_launch()->set_tiles(1);
    }
    plan::Instruction compute, message;
    compute.set_source(s ? "/back/Add" : "/front/Mul");
    plan::Launch &launch = *compute.mutable_launch();
    launch.set_kernel(scale);
    *launch.add_buffers() = builder.buffer(2, 0, 16);
    *launch.add_buffers() = builder.buffer(2, 64, 16);
    launch.set_writes(1);
    launch.set_tiles(1);
    *launch.add_params() = constant(s ? 1 : 2);
    *launch.add_params() = s ? rank : constant(0);
    *launch.add_params() = constant(4);
    message.set_queue(2);
    message.set_source(s ? "/receive" : "/send");
    (s ? message : compute).set_signals(1);
    (s ? compute : message).add_waits(1);
    if (s) {
      *message.mutable_recv()->mutable_dst() = builder.buffer(2, 0, 16);
      *message.mutable_recv()->mutable_peer() = binary(plan::Expr::SUB, rank, constant(2));
    } else {
      *message.mutable_send()->mutable_src() = builder.buffer(2, 64, 16);
      *message.mutable_send()->mutable_peer() = binary(plan::Expr::ADD, rank, constant(2));
    }
    *program.add_body() = s ? message : compute;
    *program.add_body() = s ? compute : message;
  }
  builder.plan.clear_arenas();
  Status status = builder.validate();
  if (status.ok())
    status = builder.write(file);
  if (!status.ok())
    std::fprintf(stderr, "%s\n", status.describe().c_str());
  return status.ok() ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: %s FILE [hang|crash|plain|contraction|convolution|stages|waits|train [A B]]\n",
                 argv[0]);
    return 2;
  }
  const std::string what = argc > 2 ? argv[2] : "";
  if (what == "plain")
    return writePlain(argv[1]);
  if (what == "contraction")
    return writeContraction(argv[1]);
  if (what == "convolution")
    return writeConvolution(argv[1]);
  if (what == "train")
    return writeTraining(argv[1], argc > 3 ? static_cast<uint32_t>(std::atoi(argv[3])) : 1,
                         argc > 4 ? static_cast<uint32_t>(std::atoi(argv[4])) : 1);
  if (what == "stages" || what == "waits")
    return writeStages(argv[1], what == "waits");
  PlanBuilder builder({2, 2});
  const std::string file = argv[1], weights = file.substr(0, file.rfind('/') + 1) + "w.bin";
  std::vector<float> w(6);
  std::iota(w.begin(), w.end(), 1.0f);
  std::ofstream(weights, std::ios::binary).write(reinterpret_cast<const char *>(w.data()), 24);
  builder.plan.add_files()->set_path("w.bin");
  builder.plan.mutable_files(0)->set_bytes(24);
  plan::Parameter &parameter = *builder.plan.add_parameters();
  parameter.set_name("w");
  parameter.set_type(plan::F32);
  parameter.add_shape(6);
  parameter.set_bytes(24);
  plan::Copy &load = *builder.load().add_body()->mutable_copy();
  *load.mutable_parameter()->mutable_box() = builder.box({6}, 0, 1);
  *load.mutable_dst() = builder.buffer(0, 0, 12);

  builder.input("x", plan::F32, {8, 6}, builder.box({8, 6}, 0, 0), 0);
  builder.output("y", plan::F32, {8, 6}, builder.box({8, 6}, 0, 0), 128);
  builder.output("z", plan::F32, {6}, builder.box({6}), 256);
  uint32_t scale = builder.kernel("scale", 2, 3);
  builder.launch(scale, {builder.buffer(2, 0, 96), builder.buffer(1, 0, 96)}, 1,
                 {constant(1), coordinate(1), constant(24)}, 2);
  builder.infer().mutable_body(0)->set_source("/scale/Mul");
  if (argc > 2) {
    uint32_t kernel = builder.kernel(argv[2], 0, 2);
    builder.launch(kernel, {}, 0, {binary(plan::Expr::ADD, coordinate(0), coordinate(1)), constant(2)}, 1);
    builder.infer().mutable_body(1)->set_source("/faulty/Op");
    builder.infer().mutable_body(1)->set_predicted_seconds(1e-6);
  }
  builder.infer().set_predicted_seconds(1e-5);
  plan::Collective &sum = collective(builder, "/sum/Add", plan::Collective::ALL_REDUCE, 24);
  sum.set_reduction(plan::Collective::SUM);
  sum.add_axes(1);
  *sum.mutable_src() = builder.buffer(1, 0, 96);
  *sum.mutable_dst() = builder.buffer(2, 128, 96);
  plan::Collective &gather = collective(builder, "/gather/Concat", plan::Collective::ALL_GATHER, 3);
  gather.add_axes(1);
  gather.set_dst_peer_stride(3);
  *gather.mutable_src() = builder.buffer(0, 0, 12);
  *gather.mutable_dst() = builder.buffer(2, 256, 24);
  builder.infer().set_collective_bytes(96 + 12);
  Status status = builder.validate();
  if (status.ok())
    status = builder.write(file);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.describe().c_str());
    return 1;
  }
  return 0;
}
