// The graphs that the runtime makes against the vendor's library itself, which answers what it would compute,
// and by which engines, for a GPU that is described to it: without any. It is opened where
// COLOSSAL_VENDOR_CUDNN names the file (tools/check-all abi); its folder, those of cuBLAS and NVRTC, and
// build/lib/no-driver have to be in LD_LIBRARY_PATH.
#include "colossal/Plan/DataType.h"
#include "runtime/cuda/cudnn/Engines.h"

#include <gtest/gtest.h>

#include <cstdlib>

using namespace colossal;
using namespace colossal::runtime;

namespace {

/// A GPU in the library's own words.
std::string describeGpu(int capability, const char *name, int multiprocessors, int sharedMemory) {
  return R"({"deviceName":")" + std::string(name) + R"(","deviceVer":)" + std::to_string(capability) +
         R"(,"multiProcessorCount":)" + std::to_string(multiprocessors) +
         R"(,"maxSharedMemoryPerBlockOptin":)" + std::to_string(sharedMemory) +
         R"(,"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
         R"("smCountOrigin":0,"warpSize":32,"maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,)"
         R"("oversizedSharedMemoryPerBlock":0,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
         R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
         R"("supportCoopLaunch":1,"totalGlobalMem":85017755648,"smClockRateKHz":1980000,)"
         R"("memClockRateKHz":2619000,"memoryBusWidth":5120,"l2CacheSize":52428800,"cudaDeviceId":0,)"
         R"("driverVer":13000})";
}

struct Shape {
  std::vector<uint64_t> input, weight;
  uint64_t group;
  std::vector<uint64_t> strides, dilations;
  std::vector<int64_t> begin, end;
};

const Shape shapes[] = {
    {{1, 64, 56, 56}, {64, 64, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 3, 224, 224}, {64, 3, 7, 7}, 1, {2, 2}, {1, 1}, {3, 3}, {3, 3}},
    {{2, 3, 17, 19}, {5, 3, 3, 3}, 1, {2, 1}, {1, 2}, {1, 1}, {1, 1}},
    {{2, 16, 17, 19}, {32, 16, 3, 3}, 1, {2, 2}, {1, 1}, {0, 0}, {1, 1}},
    {{2, 16, 5, 5}, {32, 16, 3, 3}, 1, {1, 1}, {1, 1}, {4, 4}, {4, 3}},
    {{2, 32, 17, 19}, {64, 8, 3, 3}, 4, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{2, 32, 17, 19}, {32, 1, 3, 3}, 32, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{2, 32, 17, 19}, {64, 1, 3, 3}, 32, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 3, 224, 224}, {768, 3, 16, 16}, 1, {16, 16}, {1, 1}, {0, 0}, {0, 0}},
    {{2, 80, 300}, {384, 80, 3}, 1, {2}, {1}, {1}, {1}},
    {{2, 32, 190}, {32, 1, 31}, 32, {1}, {1}, {15}, {15}},
    {{2, 16, 9, 17, 19}, {32, 16, 3, 3, 3}, 1, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
};

plan::Convolution describe(const Shape &shape, plan::DataType type, const char *compute, bool bias,
                           bool relu) {
  plan::Convolution c;
  c.set_type(type);
  c.set_compute(compute);
  c.set_group(shape.group);
  c.set_bias(bias);
  c.set_activation(relu ? "relu" : "");
  std::vector<uint64_t> output{shape.input[0], shape.weight[0]};
  for (size_t d = 0; d < shape.strides.size(); ++d) {
    const uint64_t wide = shape.input[d + 2] + static_cast<uint64_t>(shape.begin[d] + shape.end[d]),
                   covered = shape.dilations[d] * (shape.weight[d + 2] - 1) + 1;
    output.push_back((wide - covered) / shape.strides[d] + 1);
  }
  auto fill = [](auto *field, const auto &values) { field->Add(values.begin(), values.end()); };
  auto dense = [](const std::vector<uint64_t> &sizes) {
    std::vector<uint64_t> strides(sizes.size(), 1);
    for (size_t d = sizes.size(); d-- > 1;)
      strides[d - 1] = strides[d] * sizes[d];
    return strides;
  };
  fill(c.mutable_input(), shape.input);
  fill(c.mutable_weight(), shape.weight);
  fill(c.mutable_output(), output);
  fill(c.mutable_input_strides(), dense(shape.input));
  fill(c.mutable_output_strides(), dense(output));
  fill(c.mutable_strides(), shape.strides);
  fill(c.mutable_dilations(), shape.dilations);
  fill(c.mutable_pads_begin(), shape.begin);
  fill(c.mutable_pads_end(), shape.end);
  return c;
}

const std::string gpus[] = {describeGpu(800, "NVIDIA A100-SXM4-80GB", 108, 166912),
                            describeGpu(900, "NVIDIA H100 80GB HBM3", 132, 232448),
                            describeGpu(1000, "NVIDIA B200", 148, 232448)};

struct CudnnVendor : testing::Test {
  void SetUp() override {
    const char *path = std::getenv("COLOSSAL_VENDOR_CUDNN");
    if (!path || !*path)
      GTEST_SKIP() << "COLOSSAL_VENDOR_CUDNN names no library";
    Status status = library.load(path);
    ASSERT_TRUE(status.ok()) << status.describe();
  }
  void describe(const std::string &gpu) {
    Status status = describeDevice(library, gpu, device);
    ASSERT_TRUE(status.ok()) << status.describe();
  }
  /// That an engine makes a plan of the graph that needs no more than `room`.
  void expectPlan(const CudnnGraph &graph, const CudnnRules &rules, uint64_t room) {
    std::vector<CudnnEngine> engines;
    Status status = listEngines(library, graph, device, rules, engines), last;
    ASSERT_TRUE(status.ok()) << status.describe();
    bool isFound = false;
    for (CudnnEngine &engine : engines)
      isFound = isFound || (last = finalizePlan(library, device, room, engine)).ok();
    EXPECT_TRUE(isFound) << engines.size() << " engines; " << last.describe();
    ++graphs;
  }
  void TearDown() override { std::cout << graphs << " graphs\n"; }

  CudnnLibrary library;
  CudnnDescriptor device;
  size_t graphs = 0;
};

} // namespace

TEST_F(CudnnVendor, HasEnginesForConvolutions) {
  for (const std::string &gpu : gpus) {
    describe(gpu);
    for (auto [type, compute] : {std::pair(plan::F32, "f32"),
                                 {plan::F32, "tf32"},
                                 {plan::F16, "f32"},
                                 {plan::BF16, "f32"},
                                 {plan::F64, "f64"}})
      for (const Shape &shape : shapes)
        for (auto [bias, relu] : {std::pair(false, false), {true, false}, {true, true}})
          for (uint64_t alignment : {uint64_t(16), plan::elementBytes(type)}) {
            const plan::Convolution c = ::describe(shape, type, compute, bias, relu);
            SCOPED_TRACE(gpu.substr(0, 60) + c.ShortDebugString() + " aligned " + std::to_string(alignment));
            CudnnGraph graph;
            Status status = buildConvolution(library, c, alignment, graph);
            ASSERT_TRUE(status.ok()) << status.describe();
            // One at least needs no more than a copy of each tensor.
            uint64_t room = 0;
            for (const auto *sizes : {&c.input(), &c.weight(), &c.output()}) {
              uint64_t elements = 1;
              for (uint64_t size : *sizes)
                elements *= size;
              room += elements * plan::elementBytes(type) + 4096;
            }
            expectPlan(graph, {std::string(compute) == "tf32" || plan::elementBytes(type) == 2, false}, room);
          }
  }
}

TEST_F(CudnnVendor, HasEnginesForAttention) {
  struct Case {
    uint64_t heads, keyHeads, queries, keys, width, valueWidth;
    bool byHead; // each head's positions lie together
    bool causal;
    uint64_t offset;
    std::vector<uint64_t> maskStrides;
  };
  const Case cases[] = {{8, 8, 128, 128, 64, 64, true, false, 0, {}},
                        {8, 2, 100, 228, 128, 128, false, true, 128, {}},
                        {8, 8, 77, 77, 40, 48, true, true, 0, {77, 0, 0, 1}},
                        {16, 16, 197, 197, 64, 64, false, false, 0, {}},
                        {4, 1, 1, 77, 256, 256, true, false, 0, {0, 0, 77, 1}}};
  for (const std::string &gpu : gpus) {
    describe(gpu);
    // Kernels are compiled for each, which takes the time: one type a case.
    for (const Case &c : cases) {
      const plan::DataType type = c.byHead ? plan::F16 : plan::BF16;
      plan::Attention a;
      a.set_type(type);
      a.set_batch(2), a.set_query_heads(c.heads), a.set_key_heads(c.keyHeads);
      a.set_queries(c.queries), a.set_keys(c.keys), a.set_width(c.width), a.set_value_width(c.valueWidth);
      a.set_scale(0.125);
      a.set_causal(c.causal), a.set_causal_offset(c.offset);
      auto fill = [&](auto *field, uint64_t heads, uint64_t positions, uint64_t width) {
        const uint64_t each = c.byHead ? positions * width : width, next = c.byHead ? width : heads * width;
        for (uint64_t stride : {heads * positions * width, each, next, uint64_t(1)})
          field->Add(stride);
      };
      fill(a.mutable_query_strides(), c.heads, c.queries, c.width);
      fill(a.mutable_key_strides(), c.keyHeads, c.keys, c.width);
      fill(a.mutable_value_strides(), c.keyHeads, c.keys, c.valueWidth);
      fill(a.mutable_output_strides(), c.heads, c.queries, c.valueWidth);
      if (!c.maskStrides.empty()) {
        a.set_mask(true), a.set_mask_type(c.causal ? plan::F32 : type);
        a.mutable_mask_strides()->Add(c.maskStrides.begin(), c.maskStrides.end());
      }
      SCOPED_TRACE(gpu.substr(0, 60) + a.ShortDebugString());
      CudnnGraph graph;
      Status status = buildAttention(library, a, 16, graph);
      ASSERT_TRUE(status.ok()) << status.describe();
      expectPlan(graph, {true, true}, 64 << 10);
    }
  }
}
