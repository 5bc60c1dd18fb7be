// Attention of odd sizes, strided views, masks and types against the definition in double.
#include "colossal/Codegen/CPU/AttentionKernel.h"
#include "LoadedKernels.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace colossal::cpu;
using namespace colossal::cpu::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

class AttentionTest : public ::testing::Test {
protected:
  template <typename T>
  std::vector<T> random(int64_t count) {
    std::vector<T> result(count);
    for (T &value : result)
      value = T(std::normal_distribution<double>()(engine));
    return result;
  }

  static std::array<int64_t, 4> rowMajor(int64_t heads, int64_t sequence, int64_t width) {
    return {heads * sequence * width, sequence * width, width, 1};
  }

  AttentionSpec dense(int64_t batch, int64_t queryHeads, int64_t keyHeads, int64_t queries, int64_t keys,
                      int64_t width, int64_t valueWidth) {
    AttentionSpec spec;
    spec.type = Float32Type::get(&context);
    spec.maskType = spec.type;
    spec.batch = batch, spec.queryHeads = queryHeads, spec.keyHeads = keyHeads;
    spec.queries = queries, spec.keys = keys, spec.width = width, spec.valueWidth = valueWidth;
    spec.qStrides = rowMajor(queryHeads, queries, width);
    spec.kStrides = rowMajor(keyHeads, keys, width);
    spec.vStrides = rowMajor(keyHeads, keys, valueWidth);
    spec.outStrides = rowMajor(queryHeads, queries, valueWidth);
    spec.scale = 1 / std::sqrt(double(width));
    return spec;
  }

  /// The kernel with its statistics, and without.
  template <typename T = float>
  void check(AttentionSpec spec, std::vector<T> mask = {}, std::vector<uint8_t> booleans = {},
             std::vector<int64_t> params = {}, double tolerance = 3e-6, double magnitude = 1) {
    checkOne<T>(spec, mask, booleans, params, tolerance, magnitude);
    spec.statistics = true;
    spec.statisticStrides = {spec.queryHeads * spec.queries, 1, spec.queryHeads};
    checkOne<T>(spec, mask, booleans, params, tolerance, magnitude);
  }

  template <typename T>
  void checkOne(const AttentionSpec &spec, std::vector<T> mask, std::vector<uint8_t> booleans,
                std::vector<int64_t> params, double tolerance, double magnitude) {
    using Accumulated = std::conditional_t<std::is_same_v<T, double>, double, float>;
    auto extent = [](const std::array<int64_t, 4> &strides, std::array<int64_t, 4> sizes) {
      int64_t last = 0;
      for (int i = 0; i < 4; ++i)
        last += strides[i] * (sizes[i] - 1);
      return last + 1;
    };
    std::vector<T> q =
        random<T>(extent(spec.qStrides, {spec.batch, spec.queryHeads, spec.queries, spec.width}));
    std::vector<T> k = random<T>(extent(spec.kStrides, {spec.batch, spec.keyHeads, spec.keys, spec.width}));
    std::vector<T> v =
        random<T>(extent(spec.vStrides, {spec.batch, spec.keyHeads, spec.keys, spec.valueWidth}));
    for (T &value : q)
      value = T(double(value) * magnitude);
    std::vector<T> out(extent(spec.outStrides, {spec.batch, spec.queryHeads, spec.queries, spec.valueWidth}),
                       T(-77));
    std::vector<T> parts = out, expected = out;
    std::vector<Accumulated> statistics(spec.batch * spec.queryHeads * spec.queries, -77),
        logarithms = statistics;

    size_t param = 0;
    int64_t offset = spec.causalOffset;
    if (spec.causal && spec.causalOffsetParam)
      offset = params[param++];
    int64_t keyEnd = spec.validKeysParam ? params[param++] : spec.keys;
    auto at = [](const std::array<int64_t, 4> &s, int64_t a, int64_t b, int64_t c, int64_t d) {
      return a * s[0] + b * s[1] + c * s[2] + d * s[3];
    };
    for (int64_t b = 0; b < spec.batch; ++b)
      for (int64_t h = 0; h < spec.queryHeads; ++h)
        for (int64_t i = 0; i < spec.queries; ++i) {
          int64_t kh = h / (spec.queryHeads / spec.keyHeads);
          std::vector<double> scores(spec.keys);
          double largest = -infinity, sum = 0;
          for (int64_t j = 0; j < spec.keys; ++j) {
            double score = 0;
            for (int64_t d = 0; d < spec.width; ++d)
              score += double(q[at(spec.qStrides, b, h, i, d)]) * double(k[at(spec.kStrides, b, kh, j, d)]);
            score *= spec.scale;
            if (spec.softcap)
              score = *spec.softcap * std::tanh(score / *spec.softcap);
            if (spec.mask == AttentionSpec::Mask::Additive)
              score = double(float(float(score) + float(mask[at(spec.maskStrides, b, h, i, j)])));
            if (spec.mask == AttentionSpec::Mask::Boolean && !booleans[at(spec.maskStrides, b, h, i, j)])
              score = -infinity;
            if ((spec.causal && j > i + offset) || j >= keyEnd)
              score = -infinity;
            scores[j] = score;
            largest = std::max(largest, score);
          }
          for (double &score : scores)
            sum += score = largest == -infinity ? 0 : std::exp(score - largest);
          logarithms[(b * spec.queries + i) * spec.queryHeads + h] =
              static_cast<Accumulated>(sum == 0 ? -infinity : largest + std::log(sum));
          for (int64_t d = 0; d < spec.valueWidth; ++d) {
            double value = 0;
            for (int64_t j = 0; j < keyEnd; ++j)
              value += scores[j] * double(v[at(spec.vStrides, b, kh, j, d)]);
            value = sum == 0 && spec.emptyRow == AttentionSpec::EmptyRow::Zero ? 0 : value / sum;
            expected[at(spec.outStrides, b, h, i, d)] = T(value);
          }
        }

    llvm::Expected<GeneratedKernel> generated = generateAttention(context, processor, spec);
    ASSERT_TRUE(bool(generated)) << llvm::toString(generated.takeError());
    RunnableKernel kernel(std::move(*generated), processor);
    std::vector<void *> buffers = {q.data(), k.data(), v.data()};
    if (spec.mask == AttentionSpec::Mask::Additive)
      buffers.push_back(mask.data());
    if (spec.mask == AttentionSpec::Mask::Boolean)
      buffers.push_back(booleans.data());
    const size_t output = buffers.size();
    buffers.push_back(out.data());
    if (spec.statistics)
      buffers.push_back(statistics.data());
    kernel.run(buffers, params);
    buffers[output] = parts.data();
    kernel.run(buffers, params, 3);
    int64_t wrong = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_TRUE(std::memcmp(&out[i], &parts[i], sizeof(T)) == 0 || std::isnan(double(out[i])));
      bool same = std::fabs(double(out[i]) - double(expected[i])) <=
                  tolerance * std::max(1.0, std::fabs(double(expected[i])));
      same |= std::isnan(double(out[i])) && std::isnan(double(expected[i]));
      if (!same && ++wrong <= 5)
        ADD_FAILURE() << "at " << i << ": " << double(out[i]) << " instead of " << double(expected[i]);
    }
    for (size_t i = 0; spec.statistics && i < statistics.size(); ++i) {
      if (statistics[i] != logarithms[i] &&
          !(std::fabs(statistics[i] - logarithms[i]) <=
            tolerance * std::max(1.0, std::fabs(double(logarithms[i])))) &&
          ++wrong <= 5)
        ADD_FAILURE() << "statistic " << i << ": " << statistics[i] << " instead of " << logarithms[i];
    }
    EXPECT_EQ(wrong, 0);
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  Processor processor = testTarget();
  std::mt19937 engine{11};
};

TEST_F(AttentionTest, Sizes) {
  for (int64_t queries : {1, 7, 130})
    for (int64_t keys : {1, 17, 128, 300})
      for (int64_t width : {8, 72})
        check(dense(1, 2, 2, queries, keys, width, width));
}

TEST_F(AttentionTest, GroupedHeadsAndOtherValueWidth) {
  check(dense(2, 6, 2, 5, 40, 16, 40));
  check(dense(2, 8, 2, 1, 140, 64, 64));
  check(dense(1, 6, 1, 50, 50, 20, 5));
}

TEST_F(AttentionTest, ViewsOfFusedProjection) {
  const int64_t batch = 2, heads = 3, sequence = 37, width = 16, row = 3 * heads * width;
  for (int64_t queries : {sequence, int64_t(1)}) {
    AttentionSpec spec = dense(batch, heads, heads, queries, sequence, width, width);
    spec.qStrides = spec.kStrides = spec.vStrides = {sequence * row, width, row, 1};
    spec.outStrides = {sequence * heads * width, width, heads * width, 1};
    check(spec);
    spec.kStrides = {sequence * heads * width, sequence * width, 1, sequence}; // K given transposed
    spec.vStrides = {sequence * heads * width, sequence * width, 1, sequence};
    spec.outStrides = {sequence * heads * width, sequence * width, 1, sequence};
    check(spec);
  }
}

TEST_F(AttentionTest, Causal) {
  for (int64_t queries : {1, 5, 150}) {
    AttentionSpec spec = dense(1, 4, 2, queries, 150, 32, 32);
    spec.causal = true;
    check(spec);
    spec.causalOffset = 150 - queries;
    check(spec);
    spec.causalOffsetParam = true;
    check(spec, {}, {}, {40});
  }
  AttentionSpec whole = dense(1, 2, 2, 128, 128, 32, 32);
  whole.causal = true;
  check(whole);
}

TEST_F(AttentionTest, ValidKeys) {
  for (int64_t queries : {1, 30}) {
    AttentionSpec spec = dense(1, 2, 2, queries, 256, 32, 32);
    spec.validKeysParam = true;
    for (int64_t valid : {1, 100, 255, 256})
      check(spec, {}, {}, {valid});
    spec.causal = spec.causalOffsetParam = true;
    check(spec, {}, {}, {3, 100});
  }
}

TEST_F(AttentionTest, AdditiveMask) {
  for (int64_t queries : {3, 20}) {
    AttentionSpec spec = dense(2, 2, 2, queries, 45, 32, 32);
    spec.mask = AttentionSpec::Mask::Additive;
    spec.maskStrides = {45, 0, 0, 1};
    std::vector<float> mask = random<float>(2 * 45);
    for (size_t i = 0; i < mask.size(); i += 2)
      mask[i] = i % 4 ? -1e38f : -infinity;
    check(spec, mask);
    spec.maskStrides = {2 * queries * 45, queries * 45, 45, 1};
    check(spec, random<float>(4 * queries * 45));
    spec.maskStrides = {2 * queries * 45, queries * 45, 1, queries};
    check(spec, random<float>(4 * queries * 45));
    spec.maskStrides = {1, 0, 0, 0};
    check(spec, random<float>(2));
    spec.maskStrides = {0, 0, 0, 1}; // a row of equal huge values hides nothing
    check(spec, std::vector<float>(45, -std::numeric_limits<float>::max()));
  }
}

TEST_F(AttentionTest, BooleanMaskAndEmptyRows) {
  for (int64_t queries : {2, 20})
    for (auto empty : {AttentionSpec::EmptyRow::Zero, AttentionSpec::EmptyRow::NaN}) {
      AttentionSpec spec = dense(1, 2, 2, queries, 300, 32, 32);
      spec.mask = AttentionSpec::Mask::Boolean;
      spec.maskStrides = {0, 0, 300, 1};
      spec.emptyRow = empty;
      std::vector<uint8_t> mask(queries * 300);
      for (size_t i = 0; i < mask.size(); ++i)
        mask[i] = engine() % 3 == 0;
      for (int i = 0; i < 300 + 280; ++i) // the first row sees nothing, the second only late keys
        mask[i] = 0;
      check(spec, {}, mask);
    }
}

TEST_F(AttentionTest, RowsThatSeeNothingUnderACausalMask) {
  for (auto empty : {AttentionSpec::EmptyRow::Zero, AttentionSpec::EmptyRow::NaN}) {
    AttentionSpec spec = dense(2, 2, 2, 5, 5, 4, 4);
    spec.causal = true;
    spec.causalOffset = -2;
    spec.emptyRow = empty;
    check(spec);
    spec.mask = AttentionSpec::Mask::Boolean;
    spec.maskStrides = {0, 0, 5, 1};
    std::vector<uint8_t> mask(25);
    for (size_t i = 0; i < mask.size(); ++i)
      mask[i] = i % 5 > 1;
    check(spec, {}, mask);
  }
}

TEST_F(AttentionTest, SoftcapAndLargeScores) {
  AttentionSpec spec = dense(1, 2, 2, 20, 150, 32, 32);
  spec.softcap = 20.0;
  check(spec);
  spec.softcap.reset();
  check(spec, {}, {}, {}, 2e-4, 50);
}

TEST_F(AttentionTest, Types) {
  for (int64_t queries : {1, 25}) {
    AttentionSpec spec = dense(1, 2, 2, queries, 70, 24, 24);
    spec.type = Float64Type::get(&context);
    check<double>(spec, {}, {}, {}, 1e-14);
    spec.type = Float16Type::get(&context);
    check<_Float16>(spec, {}, {}, {}, 2e-3);
  }
}

TEST_F(AttentionTest, ErrorsSayWhy) {
  AttentionSpec spec = dense(1, 3, 2, 1, 1, 8, 8);
  llvm::Expected<GeneratedKernel> generated = generateAttention(context, processor, spec);
  ASSERT_FALSE(bool(generated));
  EXPECT_NE(llvm::toString(generated.takeError()).find("no multiple"), std::string::npos);
}

} // namespace
