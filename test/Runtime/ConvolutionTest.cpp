// The convolution routine in plans, against sums written out: packing at load, every fused part, both data
// orders.
#include "runtime/cpu/Convolution.h"
#include "PlanBuilder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

using namespace colossal;
using namespace colossal::runtime;

namespace {

using Sizes = std::vector<int64_t>;

struct Spec {
  const char *name;
  Sizes input, weight, output, strides, dilations, padsBegin, padsEnd;
  int64_t group = 1;
  bool bias = false, residual = false, transposed = false, channelsLast = false;
  std::string activation = "", algorithm = "direct";
  std::vector<double> args = {};
  friend void PrintTo(const Spec &s, std::ostream *out) { *out << s.name; }
};

const Spec specs[] = {
    {"plain", {2, 3, 7, 9}, {4, 3, 3, 3}, {2, 4, 7, 9}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"fused",
     {1, 16, 8, 8},
     {32, 16, 3, 3},
     {1, 32, 4, 4},
     {2, 2},
     {1, 1},
     {1, 1},
     {1, 1},
     1,
     true,
     true,
     false,
     true,
     "relu"},
    {"asymmetric", {1, 3, 8, 8}, {5, 3, 2, 3}, {1, 5, 8, 7}, {1, 1}, {1, 1}, {0, 1}, {1, 0}, 1, true},
    {"dilated",
     {1, 4, 9, 9},
     {6, 4, 3, 3},
     {1, 6, 5, 5},
     {1, 1},
     {2, 2},
     {0, 0},
     {0, 0},
     1,
     false,
     false,
     false,
     true,
     "clip",
     "direct",
     {0, 6}},
    {"depthwise",
     {1, 24, 6, 6},
     {24, 1, 3, 3},
     {1, 24, 6, 6},
     {1, 1},
     {1, 1},
     {1, 1},
     {1, 1},
     24,
     true,
     false,
     false,
     true},
    {"grouped", {2, 6, 5, 5}, {9, 2, 3, 3}, {2, 9, 3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 3, true},
    {"oneDimension",
     {1, 3, 20},
     {5, 3, 5},
     {1, 5, 8},
     {2},
     {1},
     {0},
     {0},
     1,
     true,
     false,
     false,
     false,
     "silu"},
    {"threeDimensions",
     {1, 2, 4, 5, 6},
     {3, 2, 3, 3, 3},
     {1, 3, 4, 5, 6},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1}},
    {"transposed",
     {1, 4, 5, 5},
     {4, 3, 3, 3},
     {1, 3, 9, 9},
     {2, 2},
     {1, 1},
     {1, 1},
     {1, 1},
     1,
     true,
     false,
     true},
    {"transposedGroups",
     {1, 4, 3, 3},
     {4, 3, 2, 2},
     {1, 6, 6, 6},
     {2, 2},
     {1, 1},
     {0, 0},
     {0, 0},
     2,
     false,
     false,
     true,
     false},
};

int64_t product(const Sizes &sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<int64_t>());
}

/// Strides of [N, C, spatial...], stored in that order or with the channels last.
std::vector<uint64_t> stridesOf(const Sizes &sizes, bool channelsLast) {
  std::vector<uint64_t> strides(sizes.size());
  uint64_t step = 1;
  if (channelsLast) {
    strides[1] = step;
    step *= sizes[1];
  }
  for (size_t d = sizes.size(); d-- > 0;)
    if (!(channelsLast && d == 1)) {
      strides[d] = step;
      step *= sizes[d];
    }
  return strides;
}

Sizes indexOf(int64_t flat, const Sizes &sizes) {
  Sizes index(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    index[d] = flat % sizes[d];
    flat /= sizes[d];
  }
  return index;
}

int64_t at(const Sizes &index, const std::vector<uint64_t> &strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d)
    offset += index[d] * static_cast<int64_t>(strides[d]);
  return offset;
}

std::vector<float> values(int64_t count, int seed) {
  std::vector<float> v(count);
  for (int64_t i = 0; i < count; ++i)
    v[i] = static_cast<float>((i * 37 + seed * 11) % 23 - 11) / 8;
  return v;
}

double activate(const Spec &s, double x) {
  if (s.activation == "relu")
    return std::max(0.0, x);
  if (s.activation == "clip")
    return std::min(std::max(x, s.args[0]), s.args[1]);
  if (s.activation == "silu")
    return x / (1 + std::exp(-x));
  return x;
}

/// Every product, from the definition; the buffers are in storage order.
std::vector<double> reference(const Spec &s, const std::vector<float> &x, const std::vector<float> &w,
                              const std::vector<float> &bias, const std::vector<float> &residual) {
  const auto xs = stridesOf(s.input, s.channelsLast), ys = stridesOf(s.output, s.channelsLast);
  const auto ws = stridesOf(s.weight, false);
  std::vector<double> y(residual.begin(), residual.end());
  const int64_t inputs = s.input[1] / s.group, outputs = s.output[1] / s.group;
  // Over (narrow position, kernel position, channels): wide = narrow * stride - pad + kernel * dilation.
  const Sizes &narrow = s.transposed ? s.input : s.output, &wide = s.transposed ? s.output : s.input;
  Sizes spatial(narrow.begin() + 2, narrow.end()), kernel(s.weight.begin() + 2, s.weight.end());
  for (int64_t n = 0; n < s.input[0]; ++n)
    for (int64_t p = 0; p < product(spatial); ++p)
      for (int64_t k = 0; k < product(kernel); ++k) {
        Sizes a = indexOf(p, spatial), b = indexOf(k, kernel), c(a.size());
        bool inside = true;
        for (size_t d = 0; d < a.size(); ++d) {
          c[d] = a[d] * s.strides[d] - s.padsBegin[d] + b[d] * s.dilations[d];
          inside = inside && c[d] >= 0 && c[d] < wide[d + 2];
        }
        if (!inside)
          continue;
        for (int64_t g = 0; g < s.group; ++g)
          for (int64_t o = 0; o < outputs; ++o)
            for (int64_t i = 0; i < inputs; ++i) {
              Sizes xi = {n, g * inputs + i}, yi = {n, g * outputs + o};
              Sizes wi = s.transposed ? Sizes{g * inputs + i, o} : Sizes{g * outputs + o, i};
              const Sizes &xAt = s.transposed ? a : c, &yAt = s.transposed ? c : a;
              xi.insert(xi.end(), xAt.begin(), xAt.end());
              yi.insert(yi.end(), yAt.begin(), yAt.end());
              wi.insert(wi.end(), b.begin(), b.end());
              y[at(yi, ys)] += double(x[at(xi, xs)]) * w[at(wi, ws)];
            }
      }
  for (int64_t e = 0; e < product(s.output); ++e) {
    Sizes index = indexOf(e, s.output);
    double &value = y[at(index, ys)];
    value = activate(s, value + (s.bias ? bias[index[1]] : 0));
  }
  return y;
}

plan::Convolution describe(const Spec &s) {
  plan::Convolution c;
  c.set_type(plan::F32);
  c.mutable_input()->Assign(s.input.begin(), s.input.end());
  c.mutable_weight()->Assign(s.weight.begin(), s.weight.end());
  c.mutable_output()->Assign(s.output.begin(), s.output.end());
  auto xs = stridesOf(s.input, s.channelsLast), ys = stridesOf(s.output, s.channelsLast);
  c.mutable_input_strides()->Assign(xs.begin(), xs.end());
  c.mutable_output_strides()->Assign(ys.begin(), ys.end());
  c.mutable_strides()->Assign(s.strides.begin(), s.strides.end());
  c.mutable_dilations()->Assign(s.dilations.begin(), s.dilations.end());
  c.mutable_pads_begin()->Assign(s.padsBegin.begin(), s.padsBegin.end());
  c.mutable_pads_end()->Assign(s.padsEnd.begin(), s.padsEnd.end());
  c.set_group(s.group);
  c.set_bias(s.bias);
  c.set_residual(s.residual);
  c.set_transposed(s.transposed);
  c.set_activation(s.activation);
  c.mutable_activation_args()->Assign(s.args.begin(), s.args.end());
  c.set_algorithm(s.algorithm);
  return c;
}

struct Convolutions : ::testing::TestWithParam<Spec> {};

} // namespace

TEST_P(Convolutions, AgreeWithTheDefinition) {
  const Spec &s = GetParam();
  const int64_t xCount = product(s.input), wCount = product(s.weight), yCount = product(s.output),
                bCount = s.output[1];
  const std::vector<float> x = values(xCount, 1), w = values(wCount, 2), b = values(bCount, 3);
  const std::vector<float> residual = s.residual ? values(yCount, 4) : std::vector<float>(yCount);
  const plan::Convolution descriptor = describe(s);
  std::unique_ptr<ConvolutionRoutine> routine;
  Status status = createConvolution(describeConvolution(descriptor), 1, routine);
  ASSERT_TRUE(status.ok()) << status.describe();
  const uint64_t packedBytes = routine->packedBytes(), scratchBytes = routine->scratchBytes();

  // The weight is a parameter in the data section, packed by the load program.
  PlanBuilder builder({}, 1 << 20);
  builder.data.assign(reinterpret_cast<const char *>(w.data()), wCount * 4);
  plan::Copy &copy = *builder.load().add_body()->mutable_copy();
  copy.mutable_data()->set_bytes(wCount * 4);
  *copy.mutable_dst() = builder.buffer(1, 0, wCount * 4);
  plan::LibraryCall &pack = *builder.load().add_body()->mutable_library();
  pack.set_routine("convolution.pack");
  *pack.mutable_convolution() = descriptor;
  *pack.add_buffers() = builder.buffer(1, 0, wCount * 4);
  *pack.add_buffers() = builder.buffer(0, 0, packedBytes);
  pack.set_writes(1);
  auto place = [&](const char *name, int64_t count, uint64_t offset) {
    builder.input(name, plan::F32, {uint64_t(count)}, builder.box({uint64_t(count)}), offset);
    return builder.buffer(PlanBuilder::io, offset, count * 4);
  };
  const uint64_t step = 1 << 17;
  plan::LibraryCall &call = *builder.add("/conv").mutable_library();
  call.set_routine("convolution");
  *call.mutable_convolution() = descriptor;
  *call.add_buffers() = place("x", xCount, 0);
  *call.add_buffers() = builder.buffer(0, 0, packedBytes);
  if (s.bias)
    *call.add_buffers() = place("b", bCount, step);
  *call.add_buffers() = builder.buffer(1, 1 << 18, scratchBytes);
  *call.add_buffers() = place("r", yCount, 2 * step);
  call.set_writes(2);
  builder.output("y", plan::F32, {uint64_t(yCount)}, builder.box({uint64_t(yCount)}), 2 * step);

  const std::vector<double> want = reference(s, x, w, b, residual);
  std::vector<float> first;
  for (unsigned threads : {1u, 2u, 3u}) {
    std::unique_ptr<Session> session;
    SessionOptions options;
    options.threads = threads;
    status = builder.open(session, options);
    ASSERT_TRUE(status.ok()) << status.describe();
    Tensors inputs = {{"x", floats({uint64_t(xCount)}, x)}, {"r", floats({uint64_t(yCount)}, residual)}};
    if (s.bias)
      inputs.emplace("b", floats({uint64_t(bCount)}, b));
    status = session->run(1, inputs);
    ASSERT_TRUE(status.ok()) << status.describe();
    Tensors outputs;
    ASSERT_TRUE(session->outputs(1, outputs).ok());
    std::vector<float> y = floatsOf(outputs["y"]);
    for (int64_t e = 0; e < yCount; ++e)
      ASSERT_NEAR(y[e], want[e], 2e-3) << e;
    if (first.empty())
      first = y;
    EXPECT_EQ(first, y) << "other bits with " << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Convolution, Convolutions, ::testing::ValuesIn(specs),
                         [](const ::testing::TestParamInfo<Spec> &info) {
                           return std::string(info.param.name);
                         });

TEST(Convolution, SizesThatDoNotAgreeAreRefused) {
  for (auto breakIt : std::vector<void (*)(plan::Convolution &)>{
           [](plan::Convolution &c) { c.set_group(2); }, [](plan::Convolution &c) { c.set_output(2, 8); },
           [](plan::Convolution &c) { c.set_input(0, 3); }, [](plan::Convolution &c) { c.set_strides(0, 0); },
           [](plan::Convolution &c) { c.set_pads_begin(0, INT64_MIN); },
           [](plan::Convolution &c) { c.set_weight(1, 0); },
           [](plan::Convolution &c) { c.set_input_strides(0, ~0ull); },
           [](plan::Convolution &c) { c.clear_dilations(); },
           [](plan::Convolution &c) { c.set_activation("other"); }}) {
    PlanBuilder builder({}, 1 << 20);
    plan::LibraryCall &call = *builder.add().mutable_library();
    call.set_routine("convolution");
    *call.mutable_convolution() = describe(specs[0]);
    for (uint64_t i = 0; i < 4; ++i)
      *call.add_buffers() = builder.buffer(1, i << 18, 1 << 18);
    call.set_writes(2);
    ASSERT_TRUE(builder.validate().ok()) << builder.validate().describe();
    breakIt(*call.mutable_convolution());
    EXPECT_FALSE(builder.validate().ok());
  }
}
