// What the runtime adds to a kernel: microseconds per launch by threads, and per all-reduce by ranks.
//   build/bin/runtime-overhead
#include "PlanBuilder.h"

#include <algorithm>
#include <cstdio>

using namespace colossal;
using namespace colossal::runtime;

namespace {

double microsecondsEach(const PlanBuilder &builder, unsigned threads, uint64_t count) {
  std::unique_ptr<Session> session;
  SessionOptions options;
  options.threads = threads;
  Status status = builder.open(session, options);
  double best = 1e9, seconds = 0;
  for (int run = 0; run < 5 && status.ok(); ++run) {
    status = session->run(1, {}, &seconds);
    best = std::min(best, seconds);
  }
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.describe().c_str());
    std::exit(1);
  }
  return best / static_cast<double>(count) * 1e6;
}

} // namespace

int main() {
  constexpr uint64_t count = 20000;
  for (unsigned threads : {1u, 2u}) {
    PlanBuilder builder;
    uint32_t nothing = builder.kernel("nothing", 1, 1);
    builder.launch(nothing, {builder.buffer(1, 0, 64)}, 1, {constant(1)}, 16);
    plan::Instruction launch = builder.infer().body(0);
    for (uint64_t i = 1; i < count; ++i)
      *builder.infer().add_body() = launch;
    std::printf("launch, %u thread(s): %.3f us\n", threads, microsecondsEach(builder, threads, count));
  }
  for (uint32_t ranks : {1u, 2u, 4u}) {
    for (uint64_t elements : {16u, 16384u}) {
      PlanBuilder builder({ranks}, 1 << 18);
      plan::Collective &c = *builder.add().mutable_collective();
      c.set_kind(plan::Collective::ALL_REDUCE);
      c.set_reduction(plan::Collective::SUM);
      c.set_type(plan::F32);
      c.add_axes(0);
      c.add_sizes(elements);
      c.add_src_strides(1);
      c.add_dst_strides(1);
      *c.mutable_src() = builder.buffer(1, 0, elements * 4);
      *c.mutable_dst() = builder.buffer(1, 0, elements * 4);
      plan::Instruction reduce = builder.infer().body(0);
      for (int i = 1; i < 1000; ++i)
        *builder.infer().add_body() = reduce;
      std::printf("all-reduce of %llu floats, %u rank(s): %.2f us\n",
                  static_cast<unsigned long long>(elements), ranks, microsecondsEach(builder, 1, 1000));
    }
  }
  return 0;
}
