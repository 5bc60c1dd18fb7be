// The stand-in for cuDNN, called as the runtime calls the library: that it refuses what the library refuses,
// each next to a twin that it takes, and which engines it advises. What engines compute is tested where plans
// are run (test/Runtime/CudnnTest.cpp).
#include "runtime/cuda/cudnn/Engines.h"

#include <gtest/gtest.h>

#include <functional>

using namespace colossal;
using namespace colossal::cudnn;
using namespace colossal::runtime;

namespace {

const CudnnLibrary &library() {
  static const CudnnLibrary opened = [] {
    CudnnLibrary made;
    Status status = made.load(COLOSSAL_EMULATED_CUDNN);
    EXPECT_TRUE(status.ok()) << status.describe();
    return made;
  }();
  return opened;
}

/// A tensor of `sizes`, dense.
Status makeTensor(CudnnDescriptor &tensor, std::vector<int64_t> sizes, std::vector<int64_t> strides,
                  int64_t alignment = 16, cudnn::DataType type = Float) {
  COLOSSAL_RETURN_IF_ERROR(tensor.create(library(), TensorDescriptor));
  COLOSSAL_RETURN_IF_ERROR(tensor.set(TensorUniqueId, {1}));
  COLOSSAL_RETURN_IF_ERROR(tensor.set(TensorDataType, TypeDataType, type));
  COLOSSAL_RETURN_IF_ERROR(tensor.set(TensorDimensions, sizes));
  COLOSSAL_RETURN_IF_ERROR(tensor.set(TensorStrides, strides));
  COLOSSAL_RETURN_IF_ERROR(tensor.set(TensorByteAlignment, {alignment}));
  return tensor.finalize();
}

plan::Convolution convolution(plan::DataType type, bool bias, bool relu) {
  plan::Convolution c;
  c.set_type(type);
  c.set_compute(type == plan::F64 ? "f64" : "f32");
  c.set_group(1);
  c.set_bias(bias);
  c.set_activation(relu ? "relu" : "");
  auto fill = [](auto *field, std::initializer_list<int64_t> values) {
    field->Add(values.begin(), values.end());
  };
  fill(c.mutable_input(), {2, 4, 6, 8});
  fill(c.mutable_input_strides(), {192, 48, 8, 1});
  fill(c.mutable_weight(), {8, 4, 3, 3});
  fill(c.mutable_output(), {2, 8, 6, 8});
  fill(c.mutable_output_strides(), {384, 48, 8, 1});
  fill(c.mutable_strides(), {1, 1});
  fill(c.mutable_dilations(), {1, 1});
  fill(c.mutable_pads_begin(), {1, 1});
  fill(c.mutable_pads_end(), {1, 1});
  return c;
}

void expectRefused(const Status &status, const char *words) {
  EXPECT_FALSE(status.ok()) << words;
  EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
}

struct Device {
  Handle handle = nullptr;
  CudnnDescriptor properties;
  Device() {
    EXPECT_EQ(library()->cudnnCreate(&handle), Success);
    EXPECT_TRUE(describeDevice(library(), handle, properties).ok());
  }
  ~Device() { (void)library()->cudnnDestroy(handle); }
};

} // namespace

TEST(EmulatedCudnn, RefusesTensorsThatContradictThemselves) {
  CudnnDescriptor tensor;
  EXPECT_TRUE(makeTensor(tensor, {2, 3, 4}, {12, 4, 1}).ok());
  expectRefused(makeTensor(tensor, {2, 3, 4}, {4, 1}), "number of strides");
  expectRefused(makeTensor(tensor, {2, 0, 4}, {12, 4, 1}), "not positive");
  expectRefused(makeTensor(tensor, {2, 3, 4}, {12, 4, 1}, 2), "no multiple");
  EXPECT_TRUE(makeTensor(tensor, {2, 3, 4}, {12, 4, 1}, 2, Half).ok());
  expectRefused(makeTensor(tensor, {2, 3, 4}, {12, 4, 1}, 4, Double), "no multiple");
}

TEST(EmulatedCudnn, RefusesAttributesThatDoNotBelong) {
  CudnnDescriptor tensor;
  ASSERT_TRUE(tensor.create(library(), TensorDescriptor).ok());
  expectRefused(tensor.set(ConvolutionStrides, {1, 1}), "has no attribute");
  expectRefused(tensor.set(TensorUniqueId, TypeFloat, 1.0f), "another type");
  expectRefused(tensor.set(TensorUniqueId, {1, 2}), "has not 2 elements");
  expectRefused(tensor.finalize(), "is missing");
  ASSERT_TRUE(makeTensor(tensor, {2, 3}, {3, 1}).ok());
  expectRefused(tensor.set(TensorUniqueId, {2}), "finalized");
  expectRefused(tensor.finalize(), "twice");
  CudnnDescriptor open, operation;
  ASSERT_TRUE(open.create(library(), TensorDescriptor).ok());
  ASSERT_TRUE(operation.create(library(), ConvolutionForwardDescriptor).ok());
  expectRefused(operation.set(ForwardX, open), "not finalized");
  EXPECT_TRUE(operation.set(ForwardX, tensor).ok());
  std::vector<int64_t> bytes;
  expectRefused(open.get(TensorStrides, TypeInt64, 8, bytes), "not finalized");
}

TEST(EmulatedCudnn, RefusesConvolutionsWhoseTensorsDoNotAgree) {
  using Break = std::function<void(plan::Convolution &)>;
  CudnnGraph graph;
  EXPECT_TRUE(buildConvolution(library(), convolution(plan::F32, false, false), 4, graph).ok());
  for (const auto &[change, words] : {
           std::pair<Break, const char *>([](plan::Convolution &c) { c.set_output(2, 5); },
                                          "does not follow"),
           {[](plan::Convolution &c) { c.set_output(0, 1); }, "do not agree"},
           {[](plan::Convolution &c) { c.set_weight(1, 3); }, "do not agree"},
           {[](plan::Convolution &c) { c.set_pads_begin(0, -1); }, "out of range"},
           {[](plan::Convolution &c) { c.set_dilations(1, 0); }, "out of range"},
           {[](plan::Convolution &c) { c.mutable_strides()->RemoveLast(); }, "spatial dimensions' numbers"},
       }) {
    plan::Convolution c = convolution(plan::F32, false, false);
    change(c);
    expectRefused(buildConvolution(library(), c, 4, graph), words);
  }
}

TEST(EmulatedCudnn, AdvisesByTypeAndAlignment) {
  Device device;
  auto count = [&](const plan::Convolution &c, uint64_t alignment, bool rounds) {
    CudnnGraph graph;
    EXPECT_TRUE(buildConvolution(library(), c, alignment, graph).ok());
    std::vector<CudnnEngine> engines;
    EXPECT_TRUE(listEngines(library(), graph, device.properties, {rounds, false}, engines).ok());
    for (CudnnEngine &engine : engines)
      EXPECT_TRUE(finalizePlan(library(), device.properties, 1 << 20, engine).ok());
    return engines.size();
  };
  // Two ways through the workspace and one without; where factors may be rounded, tensor cores besides.
  // Engines that compile their kernels are never taken.
  EXPECT_EQ(count(convolution(plan::F32, true, true), 16, false), 3u);
  EXPECT_EQ(count(convolution(plan::F32, true, true), 16, true), 4u);
  EXPECT_EQ(count(convolution(plan::F32, true, true), 8, true), 1u);
  EXPECT_EQ(count(convolution(plan::F16, true, false), 16, true), 4u);
  // Of doubles the library gives no advice, and has one all the same.
  EXPECT_EQ(count(convolution(plan::F64, false, false), 16, false), 1u);
}

TEST(EmulatedCudnn, AdvisesForAttention) {
  Device device;
  auto attention = [](uint64_t width, bool mask, bool causal) {
    plan::Attention a;
    a.set_type(plan::F16);
    a.set_batch(2), a.set_query_heads(4), a.set_key_heads(2);
    a.set_queries(5), a.set_keys(7), a.set_width(width), a.set_value_width(16);
    auto fill = [](auto *field, std::initializer_list<uint64_t> values) {
      field->Add(values.begin(), values.end());
    };
    fill(a.mutable_query_strides(), {20 * width, 5 * width, width, 1});
    fill(a.mutable_key_strides(), {14 * width, 7 * width, width, 1});
    fill(a.mutable_value_strides(), {224, 112, 16, 1});
    fill(a.mutable_output_strides(), {320, 80, 16, 1});
    a.set_scale(0.5);
    a.set_causal(causal), a.set_causal_offset(causal ? 2 : 0);
    if (mask) {
      a.set_mask(true), a.set_mask_type(plan::F32);
      fill(a.mutable_mask_strides(), {0, 0, 7, 1});
    }
    return a;
  };
  auto count = [&](const plan::Attention &a, bool compiles) {
    CudnnGraph graph;
    Status status = buildAttention(library(), a, 16, graph);
    EXPECT_TRUE(status.ok()) << status.describe();
    std::vector<CudnnEngine> engines;
    EXPECT_TRUE(listEngines(library(), graph, device.properties, {true, compiles}, engines).ok());
    return engines.size();
  };
  for (bool mask : {false, true})
    for (bool causal : {false, true})
      EXPECT_EQ(count(attention(8, mask, causal), true), 1u);
  EXPECT_EQ(count(attention(8, true, true), false), 0u); // it compiles its kernel
  EXPECT_EQ(count(attention(12, true, true), true), 0u);
  CudnnGraph graph;
  plan::Attention wrong = attention(8, false, false);
  wrong.set_key_heads(3);
  expectRefused(buildAttention(library(), wrong, 16, graph), "do not agree");
}

TEST(EmulatedCudnn, SaysHowMuchWorkspaceAPlanNeeds) {
  Device device;
  CudnnGraph graph;
  ASSERT_TRUE(buildConvolution(library(), convolution(plan::F32, false, false), 16, graph).ok());
  std::vector<CudnnEngine> engines;
  ASSERT_TRUE(listEngines(library(), graph, device.properties, {}, engines).ok());
  ASSERT_EQ(engines.size(), 3u);
  const uint64_t input = 2 * 4 * 6 * 8 * 4;
  expectRefused(finalizePlan(library(), device.properties, input - 1, engines[0]), "needs a workspace");
  EXPECT_TRUE(finalizePlan(library(), device.properties, input, engines[0]).ok());
  EXPECT_EQ(engines[0].workspaceBytes, input);
  EXPECT_TRUE(finalizePlan(library(), device.properties, 0, engines[2]).ok());
}

TEST(EmulatedCudnn, RefusesRunsThatCannotBe) {
  Device device;
  CudnnGraph graph;
  ASSERT_TRUE(buildConvolution(library(), convolution(plan::F32, false, false), 16, graph).ok());
  std::vector<CudnnEngine> engines;
  ASSERT_TRUE(listEngines(library(), graph, device.properties, {}, engines).ok());
  ASSERT_TRUE(finalizePlan(library(), device.properties, 1 << 20, engines[0]).ok());
  auto run = [&](std::vector<int64_t> numbers, std::vector<uintptr_t> places, uintptr_t workspace) {
    CudnnDescriptor pack;
    EXPECT_TRUE(pack.create(library(), VariantPackDescriptor).ok());
    EXPECT_TRUE(pack.set(PackUniqueIds, numbers).ok());
    EXPECT_TRUE(
        pack.set(PackDataPointers, TypeVoidPointer, static_cast<int64_t>(places.size()), places.data()).ok());
    EXPECT_TRUE(pack.set(PackWorkspace, TypeVoidPointer, workspace).ok());
    COLOSSAL_RETURN_IF_ERROR(pack.finalize());
    return library().check(library()->cudnnBackendExecute(device.handle, engines[0].plan.get(), pack.get()),
                           "cudnnBackendExecute");
  };
  const std::vector<int64_t> numbers = graph.numbers;
  expectRefused(run(numbers, {4096, 8192, 12288}, 16384), "default stream");
  int stream = 0;
  ASSERT_EQ(library()->cudnnSetStream(device.handle, reinterpret_cast<Stream>(&stream)), Success);
  expectRefused(run(numbers, {4096, 8192}, 16384), "one pointer for each");
  expectRefused(run({numbers[0], numbers[1]}, {4096, 8192}, 16384), "has no pointer");
  expectRefused(run(numbers, {4096, 8196, 12288}, 16384), "is not aligned");
  expectRefused(run(numbers, {4096, 8192, 12288}, 0), "workspace");
  expectRefused(run({numbers[0], numbers[1], numbers[2], 77}, {4096, 8192, 12288, 64}, 16384),
                "other tensors");
}
