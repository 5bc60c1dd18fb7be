// Arithmetic of reductions where the conformance suite's small exact values say nothing: rounding, NaN, the
// ends of integer types.
#include "runtime/comm/Reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace colossal::runtime;

namespace {

template <class T>
T reduceOne(ElementType type, Reduction op, const std::vector<T> &values) {
  std::vector<const std::byte *> sources;
  for (const T &value : values)
    sources.push_back(reinterpret_cast<const std::byte *>(&value));
  T result;
  reduceElements(type, op, sources.data(), static_cast<uint32_t>(sources.size()),
                 reinterpret_cast<std::byte *>(&result), 1);
  return result;
}

template <class T>
T fillOne(ElementType type, double value) {
  T result;
  fillElements(type, value, reinterpret_cast<std::byte *>(&result), 1);
  return result;
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

} // namespace

// 1 + 4 * 2^-9 is 1 + 2^-7, bfloat16's next number; each of the addends alone is rounded away.
TEST(Reduce, HalfSumsAreRoundedOnce) {
  std::vector<uint16_t> brain{floatToBfloat(1)}, half{floatToHalf(1)};
  for (int i = 0; i < 4; ++i) {
    brain.push_back(floatToBfloat(std::ldexp(1.0f, -9)));
    half.push_back(floatToHalf(std::ldexp(1.0f, -12)));
  }
  EXPECT_EQ(bfloatToFloat(reduceOne(ElementType::BF16, Reduction::Sum, brain)), 1 + std::ldexp(1.0f, -7));
  EXPECT_EQ(halfToFloat(reduceOne(ElementType::F16, Reduction::Sum, half)), 1 + std::ldexp(1.0f, -10));
}

TEST(Reduce, NanOfAnyMemberIsKept) {
  for (Reduction op : {Reduction::Max, Reduction::Min, Reduction::Sum, Reduction::Prod})
    for (int place = 0; place < 3; ++place) {
      std::vector<float> values{1, 2, 3};
      values[place] = kNaN;
      EXPECT_TRUE(std::isnan(reduceOne(ElementType::F32, op, values))) << static_cast<int>(op);
    }
  EXPECT_EQ(reduceOne<float>(ElementType::F32, Reduction::Max, {-1, -INFINITY}), -1);
}

// Every code of the narrow floats comes back, but for NaN and infinity, which saturate.
TEST(Reduce, NarrowFloatsComeBack) {
  for (auto type : {ElementType::F8E4M3FN, ElementType::F8E4M3FNUZ, ElementType::F8E5M2,
                    ElementType::F8E5M2FNUZ, ElementType::F8E8M0, ElementType::F4E2M1})
    for (int code = 0; code < (type == ElementType::F4E2M1 ? 16 : 256); ++code) {
      float value = narrowToFloat(type, static_cast<uint8_t>(code));
      if (std::isfinite(value)) {
        EXPECT_EQ(floatToNarrow(type, value), code) << static_cast<int>(type);
      } else if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(narrowToFloat(type, floatToNarrow(type, value)))) << static_cast<int>(type);
      }
    }
  EXPECT_EQ(narrowToFloat(ElementType::F8E4M3FN, floatToNarrow(ElementType::F8E4M3FN, INFINITY)), 448);
  EXPECT_EQ(narrowToFloat(ElementType::F8E4M3FN, floatToNarrow(ElementType::F8E4M3FN, 1 + 0x1p-4f)), 1);
  EXPECT_EQ(narrowToFloat(ElementType::F8E5M2FNUZ, floatToNarrow(ElementType::F8E5M2FNUZ, -1e30f)), -57344);
  EXPECT_EQ(floatToNarrow(ElementType::F8E4M3FNUZ, -0.0f), 0);
  EXPECT_EQ(narrowToFloat(ElementType::F4E2M1, floatToNarrow(ElementType::F4E2M1, 2.5f)), 2);
  EXPECT_EQ(narrowToFloat(ElementType::F8E8M0, floatToNarrow(ElementType::F8E8M0, 1.1f)), 2);
  EXPECT_EQ(fillOne<uint8_t>(ElementType::F8E5M2, -INFINITY), 0xfb);
  EXPECT_EQ(fillOne<int8_t>(ElementType::I4, -100), -8);
}

TEST(Reduce, IntegersWrap) {
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(reduceOne<int32_t>(ElementType::I32, Reduction::Sum, {most, 1}),
            std::numeric_limits<int32_t>::min());
  EXPECT_EQ(reduceOne<int8_t>(ElementType::I8, Reduction::Prod, {100, 3}), static_cast<int8_t>(300));
}

TEST(Fill, IntegersSaturate) {
  EXPECT_EQ(fillOne<int64_t>(ElementType::I64, std::ldexp(1.0, 63)), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(fillOne<int64_t>(ElementType::I64, INFINITY), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(fillOne<int64_t>(ElementType::I64, -INFINITY), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(fillOne<uint64_t>(ElementType::U64, std::ldexp(1.0, 64)), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(fillOne<int8_t>(ElementType::I8, 127.0), 127);
  EXPECT_EQ(fillOne<int8_t>(ElementType::I8, 128.0), 127);
  EXPECT_EQ(fillOne<uint8_t>(ElementType::U8, -3.0), 0);
  EXPECT_EQ(fillOne<int32_t>(ElementType::I32, kNaN), 0);
  EXPECT_EQ(fillOne<uint8_t>(ElementType::Bool, 0.5), 1);
}
