// Writes a small plan for the tests of colossal-run and of the C library:  write-plan FILE [hang|crash]
//
// On a mesh of 2x2, y[8,6] = 2 x + sum over the ranks of axis a of their coordinate of b, with x split over
// a, and a weight w[6] (from w.bin beside the plan) gathered into z. With hang or crash, rank 3 does that.
#include "PlanBuilder.h"

#include <cstdio>
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

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FILE [hang|crash]\n", argv[0]);
    return 2;
  }
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
  }
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
