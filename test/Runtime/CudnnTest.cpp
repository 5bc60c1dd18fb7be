// The routine "convolution.unpacked": what a plan may say of it, and what it computes on an emulated GPU,
// whose library stands in for cuDNN (tests of the suite Cuda).
#include "PlanBuilder.h"
#include "Variable.h"

#include "colossal/Plan/DataType.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <unistd.h>

using namespace colossal;
using namespace colossal::runtime;

namespace {

constexpr uint64_t piece = 1 << 15;

struct Spec {
  std::vector<uint64_t> input, weight;
  uint64_t group = 1;
  std::vector<uint64_t> strides, dilations;
  std::vector<int64_t> begin, end;
  bool bias = false, relu = false;
};

const Spec plain = {{2, 4, 7, 6}, {8, 4, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
const Spec specs[] = {
    plain,
    {{2, 4, 7, 6}, {8, 4, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true},
    {{2, 4, 7, 6}, {8, 4, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true, true},
    {{1, 3, 9, 11}, {5, 3, 3, 2}, 1, {2, 1}, {1, 2}, {0, 1}, {1, 2}, true, true},
    {{2, 6, 5, 8}, {9, 2, 3, 3}, 3, {1, 2}, {1, 1}, {1, 0}, {1, 0}, true},
    {{1, 5, 6, 6}, {5, 1, 3, 3}, 5, {1, 1}, {1, 1}, {1, 1}, {1, 1}, true, true},
    {{2, 3, 20}, {4, 3, 5}, 1, {3}, {2}, {4}, {3}, true},
    {{1, 2, 4, 5, 6}, {3, 2, 2, 3, 3}, 1, {1, 2, 1}, {1, 1, 2}, {0, 1, 2}, {1, 1, 2}, false},
};

uint64_t product(const std::vector<uint64_t> &sizes) {
  uint64_t elements = 1;
  for (uint64_t size : sizes)
    elements *= size;
  return elements;
}

std::vector<uint64_t> denseStrides(const std::vector<uint64_t> &sizes) {
  std::vector<uint64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;)
    strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

std::vector<uint64_t> outputOf(const Spec &s) {
  std::vector<uint64_t> output{s.input[0], s.weight[0]};
  for (size_t d = 0; d < s.strides.size(); ++d)
    output.push_back((s.input[d + 2] + static_cast<uint64_t>(s.begin[d] + s.end[d]) -
                      s.dilations[d] * (s.weight[d + 2] - 1) - 1) /
                         s.strides[d] +
                     1);
  return output;
}

plan::Convolution describe(const Spec &s) {
  plan::Convolution c;
  c.set_type(plan::F32);
  c.set_compute("f32");
  auto fill = [](auto *field, const auto &values) { field->Assign(values.begin(), values.end()); };
  const std::vector<uint64_t> output = outputOf(s);
  fill(c.mutable_input(), s.input);
  fill(c.mutable_weight(), s.weight);
  fill(c.mutable_output(), output);
  fill(c.mutable_input_strides(), denseStrides(s.input));
  fill(c.mutable_output_strides(), denseStrides(output));
  fill(c.mutable_strides(), s.strides);
  fill(c.mutable_dilations(), s.dilations);
  fill(c.mutable_pads_begin(), s.begin);
  fill(c.mutable_pads_end(), s.end);
  c.set_group(s.group);
  c.set_bias(s.bias);
  c.set_activation(s.relu ? "relu" : "");
  return c;
}

/// All operands are inputs, `shift` bytes behind where engines like them best.
PlanBuilder planOf(const Spec &s, uint64_t shift = 0, uint64_t workspace = piece) {
  PlanBuilder builder({}, 1 << 18);
  plan::LibraryCall &call = *builder.add("/conv").mutable_library();
  call.set_routine("convolution.unpacked");
  *call.mutable_convolution() = describe(s);
  auto place = [&](const char *name, uint64_t count, uint64_t offset) {
    builder.input(name, plan::F32, {count}, builder.box({count}), offset);
    *call.add_buffers() = builder.buffer(PlanBuilder::io, offset, count * 4);
  };
  place("x", product(s.input), shift);
  place("w", product(s.weight), piece + shift);
  if (s.bias)
    place("b", s.weight[0], 2 * piece + shift);
  *call.add_buffers() = builder.buffer(PlanBuilder::activations, 0, workspace);
  const uint64_t count = product(outputOf(s));
  *call.add_buffers() = builder.buffer(PlanBuilder::io, 3 * piece + shift, count * 4);
  call.set_writes(2);
  builder.output("y", plan::F32, {count}, builder.box({count}), 3 * piece + shift);
  return builder;
}

std::vector<float> values(uint64_t count, int salt) {
  std::vector<float> made(count);
  for (uint64_t i = 0; i < count; ++i) // all digits of a float, so that tf32 is seen
    made[i] = std::sin(static_cast<float>(i * 37 + static_cast<uint64_t>(salt) * 11) * 0.7f);
  return made;
}

/// By the definition, element by element, in double.
std::vector<double> reference(const Spec &s, const std::vector<float> &x, const std::vector<float> &w,
                              const std::vector<float> &b) {
  const std::vector<uint64_t> output = outputOf(s), xs = denseStrides(s.input), ws = denseStrides(s.weight),
                              ys = denseStrides(output);
  std::vector<double> y(product(output));
  const uint64_t channels = s.weight[1], perGroup = s.weight[0] / s.group, taps = ws[1];
  for (uint64_t e = 0; e < y.size(); ++e) {
    const uint64_t image = e / ys[0], out = e / ys[1] % output[1];
    double sum = s.bias ? static_cast<double>(b[out]) : 0;
    for (uint64_t c = 0; c < channels; ++c)
      for (uint64_t tap = 0; tap < taps; ++tap) {
        uint64_t from = image * xs[0] + (out / perGroup * channels + c) * xs[1];
        bool inside = true;
        for (size_t d = 0; d < s.strides.size(); ++d) {
          const auto at = static_cast<int64_t>(e / ys[d + 2] % output[d + 2] * s.strides[d] +
                                               tap / ws[d + 2] % s.weight[d + 2] * s.dilations[d]) -
                          s.begin[d];
          inside = inside && at >= 0 && at < static_cast<int64_t>(s.input[d + 2]);
          from += inside ? static_cast<uint64_t>(at) * xs[d + 2] : 0;
        }
        if (inside)
          sum += static_cast<double>(x[from]) * static_cast<double>(w[out * ws[0] + c * ws[1] + tap]);
      }
    y[e] = s.relu ? std::max(sum, 0.0) : sum;
  }
  return y;
}

/// Runs three times, of which the last is replayed; each has the right results.
void expectRight(const Spec &s, uint64_t shift = 0, uint64_t workspace = piece) {
  PlanBuilder builder = planOf(s, shift, workspace);
  SCOPED_TRACE(describe(s).ShortDebugString());
  std::unique_ptr<Session> session;
  Status status = builder.open(session);
  ASSERT_TRUE(status.ok()) << status.describe();
  for (int run = 0; run < 3; ++run) {
    const std::vector<float> x = values(product(s.input), run), w = values(product(s.weight), run + 3),
                             b = values(s.weight[0], run + 5);
    Tensors inputs = {{"x", floats({x.size()}, x)}, {"w", floats({w.size()}, w)}};
    if (s.bias)
      inputs.emplace("b", floats({b.size()}, b));
    status = session->run(1, inputs);
    ASSERT_TRUE(status.ok()) << status.describe();
    Tensors outputs;
    ASSERT_TRUE(session->outputs(1, outputs).ok());
    const std::vector<float> found = floatsOf(outputs["y"]);
    const std::vector<double> want = reference(s, x, w, b);
    ASSERT_EQ(found.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) // tf32 would be off by 1e-3
      ASSERT_NEAR(static_cast<double>(found[i]), want[i], 1e-5) << run << ": " << i;
  }
}

} // namespace

TEST(UnpackedConvolution, AcceptsWhatIsRight) {
  for (const Spec &s : specs) {
    Status status = planOf(s).validate();
    EXPECT_TRUE(status.ok()) << status.describe();
  }
}

TEST(UnpackedConvolution, RefusesWhatIsWrong) {
  using Break = std::function<void(plan::LibraryCall &)>;
  auto convolution = [](auto change) {
    return [change](plan::LibraryCall &call) { change(*call.mutable_convolution()); };
  };
  const std::pair<Break, const char *> cases[] = {
      {convolution([](plan::Convolution &c) { c.set_compute(""); }), "way '' to compute"},
      {convolution([](plan::Convolution &c) { c.set_compute("f64"); }), "way 'f64' to compute"},
      {convolution([](plan::Convolution &c) { c.set_type(plan::I32); }), "way 'f32' to compute"},
      {convolution([](plan::Convolution &c) { c.set_output(2, 6); }), "does not follow"},
      {convolution([](plan::Convolution &c) { c.set_activation("relu"); }), "not relu on a bias"},
      {convolution([](plan::Convolution &c) { c.set_activation("tanh"); }), "not relu on a bias"},
      {convolution([](plan::Convolution &c) { c.set_residual(true); }), "adds a residual"},
      {convolution([](plan::Convolution &c) { c.set_algorithm("winograd"); }), "names an algorithm"},
      {convolution([](plan::Convolution &c) {
         c.set_pads_begin(0, -1);
         c.set_pads_end(0, 3);
       }),
       "crops"},
      {convolution([](plan::Convolution &c) { c.set_bias(true); }), "takes 5 buffers"},
      {[](plan::LibraryCall &call) { call.set_writes(1); }, "writes 2"},
      {[](plan::LibraryCall &call) { call.mutable_buffers(1)->set_bytes(16); }, "bytes and needs"},
      {[](plan::LibraryCall &call) { call.mutable_buffers(0)->set_offset(2); }, "not aligned"},
      {[](plan::LibraryCall &call) { call.mutable_buffers(3)->set_offset(16); }, "overlaps"},
  };
  for (const auto &[breakIt, message] : cases) {
    PlanBuilder builder = planOf(plain);
    ASSERT_TRUE(builder.validate().ok()) << builder.validate().describe();
    breakIt(*builder.infer().mutable_body(0)->mutable_library());
    Status status = builder.validate();
    EXPECT_FALSE(status.ok()) << message;
    EXPECT_NE(status.message().find(message), std::string::npos)
        << status.message() << ", expected: " << message;
  }
}

TEST(FusedAttention, RefusesWhatIsWrong) {
  auto plan = [] {
    PlanBuilder builder({}, 1 << 18);
    plan::LibraryCall &call = *builder.add("/attention").mutable_library();
    call.set_routine("attention");
    plan::Attention &a = *call.mutable_attention();
    a.set_type(plan::F16);
    a.set_batch(2), a.set_query_heads(4), a.set_key_heads(2);
    a.set_queries(5), a.set_keys(7), a.set_width(8), a.set_value_width(16);
    auto fill = [](auto *field, std::initializer_list<uint64_t> values) {
      field->Add(values.begin(), values.end());
    };
    fill(a.mutable_query_strides(), {160, 40, 8, 1});
    fill(a.mutable_key_strides(), {112, 56, 8, 1});
    fill(a.mutable_value_strides(), {224, 112, 16, 1});
    fill(a.mutable_output_strides(), {320, 80, 16, 1});
    a.set_scale(0.5);
    a.set_causal(true), a.set_causal_offset(2);
    a.set_mask(true), a.set_mask_type(plan::F32);
    fill(a.mutable_mask_strides(), {0, 0, 7, 1});
    for (auto [offset, bytes] :
         {std::pair<uint64_t, uint64_t>(0, 640), {1024, 448}, {2048, 896}, {4096, 140}})
      *call.add_buffers() = builder.buffer(PlanBuilder::io, offset, bytes);
    *call.add_buffers() = builder.buffer(PlanBuilder::activations, 0, 1024);
    *call.add_buffers() = builder.buffer(PlanBuilder::io, 8192, 1280);
    call.set_writes(2);
    return builder;
  };
  using Break = std::function<void(plan::LibraryCall &)>;
  auto attention = [](auto change) {
    return [change](plan::LibraryCall &call) { change(*call.mutable_attention()); };
  };
  const std::pair<Break, const char *> cases[] = {
      {attention([](plan::Attention &a) { a.set_type(plan::F32); }), "does not know its type"},
      {attention([](plan::Attention &a) { a.set_mask_type(plan::I32); }), "mask's type"},
      {attention([](plan::Attention &a) { a.set_keys(0); }), "an extent is 0"},
      {attention([](plan::Attention &a) { a.set_key_heads(3); }), "no multiple"},
      {attention([](plan::Attention &a) { a.set_causal(false); }), "not causal"},
      {attention([](plan::Attention &a) { a.set_scale(INFINITY); }), "not finite"},
      {attention([](plan::Attention &a) { a.set_query_strides(3, 2); }), "does not follow"},
      {attention([](plan::Attention &a) { a.set_output_strides(2, 8); }), "share their place"},
      {attention([](plan::Attention &a) { a.set_key_strides(0, uint64_t(1) << 62); }), "out of range"},
      {attention([](plan::Attention &a) { a.mutable_mask_strides()->RemoveLast(); }), "has 3 strides"},
      {attention([](plan::Attention &a) { a.set_mask(false); }), "no mask"},
      {attention([](plan::Attention &a) { a.set_keys(8); }), "bytes and needs"},
      {[](plan::LibraryCall &call) { call.set_writes(1); }, "writes 2"},
      {[](plan::LibraryCall &call) { call.mutable_buffers(5)->set_offset(128); }, "overlaps"},
  };
  for (const auto &[breakIt, message] : cases) {
    PlanBuilder builder = plan();
    ASSERT_TRUE(builder.validate().ok()) << builder.validate().describe();
    breakIt(*builder.infer().mutable_body(0)->mutable_library());
    Status status = builder.validate();
    EXPECT_FALSE(status.ok()) << message;
    EXPECT_NE(status.message().find(message), std::string::npos)
        << status.message() << ", expected: " << message;
  }
  PlanBuilder old = plan();
  old.plan.set_version(3);
  EXPECT_NE(old.validate().message().find("need 4"), std::string::npos) << old.validate().message();
}

TEST(UnpackedConvolution, IsNoRoutineOfTheCpu) {
  if (plansAreForCuda())
    GTEST_SKIP();
  std::unique_ptr<Session> session;
  Status status = planOf(plain).open(session);
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_NE(status.message().find("no library routine 'convolution.unpacked'"), std::string::npos)
      << status.describe();
}

TEST(Cuda, ConvolutionsAreTheLibrarys) {
  for (const Spec &s : specs) {
    expectRight(s);
    expectRight(s, 4);    // an engine for any alignment
    expectRight(s, 0, 4); // and one without a workspace
  }
}

TEST(Cuda, ConvolutionsAreTimedOnceAndRemembered) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("colossal-cudnn-" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  const Variable cache("COLOSSAL_CACHE", folder.string()), tune("COLOSSAL_TUNE", "1");
  auto text = [&] {
    std::ostringstream all;
    for (const auto &entry : std::filesystem::directory_iterator(folder)) {
      EXPECT_EQ(entry.path().filename().string().rfind("cudnn-9.21.0-cuda-13.0-sm_90-", 0), 0u)
          << entry.path();
      all << std::ifstream(entry.path()).rdbuf();
    }
    return all.str();
  };
  expectRight(specs[2]);
  const std::string first = text();
  EXPECT_NE(first.find("convolution 1 f32 input 2 4 7 6"), std::string::npos) << first;
  expectRight(specs[2]); // what is known is not timed, and the file not written, again
  EXPECT_EQ(text(), first);
  expectRight(specs[4]);
  EXPECT_NE(text().find("input 2 6 5 8"), std::string::npos);
  EXPECT_NE(text().find("input 2 4 7 6"), std::string::npos);
  std::filesystem::remove_all(folder);
}
