// Narrow formats, roundings and approximate functions as properties, against the host's own arithmetic.
#include "Values.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <limits>
#include <random>

namespace colossal::ptx {
namespace {

struct NamedFormat {
  const char *name;
  Format format;
};
class Formats : public testing::TestWithParam<NamedFormat> {
protected:
  const Format &format = GetParam().format;
  int bits() const { return 1 + format.exponentBits + format.fractionBits; }
  bool isNumber(std::uint32_t code) const { return std::isfinite(decode(code, format)); }
};

TEST_P(Formats, KeepWhatTheyHold) {
  for (std::uint32_t code = 0; code < 1u << bits(); ++code) {
    double value = decode(code, format);
    if (value == value) {
      ASSERT_EQ(encode(value, format), code) << code;
    } else {
      ASSERT_EQ(encode(value, format), format.nan);
    }
  }
}

TEST_P(Formats, RoundToTheNearestOrToTheSideAsked) {
  std::mt19937_64 generator(1);
  // Neighbours of every number, and random ones in between: the order of codes is the order of magnitudes.
  for (std::uint32_t code = 0; code + 1 < 1u << (bits() - 1); ++code) {
    if (!isNumber(code) || !isNumber(code + 1))
      continue;
    double low = decode(code, format), high = decode(code + 1, format), middle = (low + high) / 2;
    ASSERT_LT(low, high);
    std::uint32_t sign = 1u << (bits() - 1);
    for (double value :
         {middle, std::nextafter(middle, low), std::nextafter(middle, high), std::nextafter(low, high),
          low + (high - low) * static_cast<double>(generator() >> 12) * 0x1p-52}) {
      std::uint32_t nearest = value < middle ? code : value > middle ? code + 1 : code + (code & 1);
      ASSERT_EQ(encode(value, format), nearest);
      ASSERT_EQ(encode(-value, format), sign | nearest);
      bool exact = value == low;
      std::uint32_t above = exact ? code : code + 1;
      ASSERT_EQ(encode(value, format, Rounding::Zero), code);
      ASSERT_EQ(encode(-value, format, Rounding::Zero), sign | code);
      ASSERT_EQ(encode(value, format, Rounding::Down), code);
      ASSERT_EQ(encode(-value, format, Rounding::Down), sign | above);
      ASSERT_EQ(encode(value, format, Rounding::Up), above);
      ASSERT_EQ(encode(-value, format, Rounding::Up), sign | code);
      ASSERT_EQ(encode(value, format, Rounding::NearestAway), value < middle ? code : code + 1);
    }
  }
}

TEST_P(Formats, OverflowAsTheRoundingHasIt) {
  std::uint32_t largest = 0;
  for (std::uint32_t code = 0; code < 1u << (bits() - 1); ++code)
    if (isNumber(code))
      largest = code;
  double top = decode(largest, format), unit = top - decode(largest - 1, format),
         infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(encode(top + unit * 0.49, format), largest);
  EXPECT_EQ(encode(infinity, format, Rounding::NearestEven, true), largest);
  EXPECT_EQ(encode(top * 8, format, Rounding::NearestEven, true), largest);
  EXPECT_EQ(encode(top * 8, format, Rounding::Zero), largest);
  if (format.infinity) {
    EXPECT_EQ(encode(top + unit * 0.5, format), largest + 1);
    EXPECT_EQ(encode(infinity, format), largest + 1);
    EXPECT_EQ(encode(top * 8, format, Rounding::Down), largest);
    EXPECT_EQ(encode(top * 8, format, Rounding::Up), largest + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Formats,
                         testing::Values(NamedFormat{"half", kHalf}, NamedFormat{"bfloat", kBFloat},
                                         NamedFormat{"tf32", kTf32}, NamedFormat{"e4m3", kE4M3},
                                         NamedFormat{"e5m2", kE5M2}),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(Formats, HaveTheLargestAndSmallestOfTheirStandards) {
  EXPECT_EQ(decode(0x7bff, kHalf), 65504);
  EXPECT_EQ(decode(1, kHalf), 0x1p-24);
  EXPECT_EQ(decode(0x7e, kE4M3), 448);
  EXPECT_EQ(decode(1, kE4M3), 0x1p-9);
  EXPECT_EQ(decode(0x7b, kE5M2), 57344);
  EXPECT_EQ(decode(0x7f7f, kBFloat), std::ldexp(255.0, 120));
}

float randomFloat(std::mt19937_64 &generator) {
  return bitCast<float>(static_cast<std::uint32_t>(generator()));
}

TEST(Conversion, ToSingleIsTheHosts) {
  std::mt19937_64 generator(2);
  for (int i = 0; i < 200000; ++i) {
    double value = bitCast<double>(generator());
    // Every second one with an exponent that a float has, subnormals included.
    if (i % 2)
      value = std::ldexp(1 + static_cast<double>(generator() >> 12) * 0x1p-52,
                         static_cast<int>(generator() % 300) - 155);
    if (value != value)
      continue;
    ASSERT_EQ(encode(value, kSingle), bitCast<std::uint32_t>(static_cast<float>(value))) << value;
  }
}

TEST(Conversion, OfHalvesAndBFloatsIsExact) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    double half = decode(code, kHalf), bfloat = decode(code, kBFloat);
    float single = halfToFloat(static_cast<std::uint16_t>(code));
    ASSERT_TRUE(half == half ? single == half : std::isnan(single)) << code;
    single = bfloatToFloat(static_cast<std::uint16_t>(code));
    ASSERT_TRUE(bfloat == bfloat ? single == bfloat : std::isnan(single)) << code;
  }
}

/// The code of `format` nearest to an exact value, found by comparing with all neighbours in 113 bits.
std::uint32_t nearestOf(__float128 exact, const Format &format) {
  std::uint32_t code = encode(static_cast<double>(exact), format, Rounding::Zero);
  __float128 low = decode(code, format), high = decode(code + 1, format);
  __float128 below = exact > low ? exact - low : low - exact,
             above = exact > high ? exact - high : high - exact;
  return below < above || (below == above && !(code & 1)) ? code : code + 1;
}

TEST(Arithmetic, OfNarrowTypesRoundsOnce) {
  std::mt19937_64 generator(3);
  for (const Format &format : {kHalf, kBFloat})
    for (int i = 0; i < 300000; ++i) {
      std::uint64_t random = generator();
      double a = decode(random & 0xffff, format), b = decode(random >> 16 & 0xffff, format),
             c = decode(random >> 32 & 0xffff, format);
      // Near to a midpoint is where rounding twice would show.
      if (i % 3 == 0)
        c = std::ldexp(std::copysign(1.0, c), static_cast<int>(random >> 50) % 200 - 100);
      __float128 sum = static_cast<__float128>(a) * b + c;
      double once = fmaToOdd(a, b, c);
      if (!std::isfinite(once) || !std::isfinite(decode(encode(once, format), format)))
        continue;
      // The sum has to fit into 113 bits, and be a normal number, to be compared with.
      bool apart =
          c != 0 && (std::abs(a * b) > std::abs(c) * 0x1p80 || std::abs(a * b) < std::abs(c) * 0x1p-80);
      if (std::abs(once) > 0x1p-140 && !apart) {
        ASSERT_EQ(encode(once, format), nearestOf(sum, format)) << a << " * " << b << " + " << c;
      }
    }
}

TEST(Arithmetic, InADirectionKeepsToItsSide) {
  std::mt19937_64 generator(4);
  for (int i = 0; i < 100000; ++i) {
    float a = randomFloat(generator), b = randomFloat(generator);
    if (!(std::abs(a) < 1e18f) || !(std::abs(b) < 1e18f))
      continue;
    __float128 exact = static_cast<__float128>(a) * b;
    float down = directed(Directed::Multiply, Rounding::Down, a, b, 0.0f),
          up = directed(Directed::Multiply, Rounding::Up, a, b, 0.0f);
    ASSERT_LE(static_cast<__float128>(down), exact);
    ASSERT_GE(static_cast<__float128>(up), exact);
    ASSERT_TRUE(up == down || up == std::nextafter(down, INFINITY));
    float zero = directed(Directed::Multiply, Rounding::Zero, a, b, 0.0f);
    ASSERT_EQ(zero, std::abs(up) < std::abs(down) ? up : down);
    ASSERT_EQ(directed(Directed::Multiply, Rounding::NearestEven, a, b, 0.0f), a * b);
  }
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  EXPECT_EQ(singleOf(std::uint64_t(0xffffffffffffffff), Rounding::Zero), std::nextafter(0x1p64f, 0.0f));
  EXPECT_EQ(singleOf(std::uint64_t(0xffffffffffffffff), Rounding::NearestEven), 0x1p64f);
  EXPECT_EQ(singleOf(std::int64_t(16777217), Rounding::Up), 16777218.0f);
  EXPECT_EQ(singleOf(std::int64_t(-16777217), Rounding::Up), -16777216.0f);
}

struct Function {
  const char *name;
  Approximate function;
  double (*exact)(double);
  float low, high;
};
class Functions : public testing::TestWithParam<Function> {};

TEST_P(Functions, StayWithinTheirBoundAndUseIt) {
  std::mt19937_64 generator(5);
  const Function &f = GetParam();
  std::uniform_real_distribution<float> values(f.low, f.high);
  double worst = 0;
  for (int i = 0; i < 100000; ++i) {
    float x = values(generator), y = approximate(f.function, x);
    double error = std::abs(y - f.exact(x)), bound = errorBound(f.function, x);
    ASSERT_LE(error, bound) << x;
    ASSERT_EQ(y, approximate(f.function, x));
    worst = std::max(worst, error / bound);
  }
  // A program that takes a result for exact must see that it is not.
  EXPECT_GT(worst, 0.8);
}

INSTANTIATE_TEST_SUITE_P(
    Approximate, Functions,
    testing::Values(
        Function{"ex2", Approximate::Exp2, [](double x) { return std::exp2(x); }, -100, 100},
        Function{"lg2", Approximate::Log2, [](double x) { return std::log2(x); }, 1e-3f, 100},
        Function{"rcp", Approximate::Reciprocal, [](double x) { return 1 / x; }, 0.1f, 1000},
        Function{"sqrt", Approximate::SquareRoot, [](double x) { return std::sqrt(x); }, 0.1f, 1000},
        Function{"rsqrt", Approximate::ReciprocalRoot, [](double x) { return 1 / std::sqrt(x); }, 0.1f, 1000},
        Function{"sin", Approximate::Sine, [](double x) { return std::sin(x); }, -20, 20},
        Function{"cos", Approximate::Cosine, [](double x) { return std::cos(x); }, -20, 20},
        Function{"tanh", Approximate::Tanh, [](double x) { return std::tanh(x); }, -4, 4}),
    [](const auto &info) { return std::string(info.param.name); });

TEST(Functions, AreExactWhereTheResultIsANumberOfTheirs) {
  for (int i = -20; i < 20; ++i)
    EXPECT_EQ(approximate(Approximate::Exp2, static_cast<float>(i)), std::ldexp(1.0f, i));
  EXPECT_EQ(approximate(Approximate::Log2, 8), 3);
  EXPECT_EQ(approximate(Approximate::Reciprocal, 4), 0.25f);
  EXPECT_EQ(approximate(Approximate::SquareRoot, 9), 3);
  EXPECT_EQ(approximate(Approximate::ReciprocalRoot, 16), 0.25f);
  EXPECT_EQ(approximate(Approximate::Sine, 0), 0);
  EXPECT_EQ(approximate(Approximate::Tanh, 0), 0);
  EXPECT_EQ(approximate(Approximate::Exp2, -INFINITY), 0);
  EXPECT_EQ(approximate(Approximate::Reciprocal, -0.0f), -INFINITY);
  EXPECT_EQ(approximate(Approximate::Log2, 0), -INFINITY);
  EXPECT_EQ(bitCast<std::uint32_t>(approximate(Approximate::SquareRoot, -1)), 0x7fffffffu);
  EXPECT_LE(std::abs(approximate(Approximate::Tanh, 30)), 1);
}

TEST(Functions, QuotientsAreWithinTwoUnits) {
  std::mt19937_64 generator(6);
  std::uniform_real_distribution<float> values(-100, 100);
  for (int i = 0; i < 100000; ++i) {
    float a = values(generator), b = values(generator);
    double exact = static_cast<double>(a) / b;
    ASSERT_LE(std::abs(approximateQuotient(a, b) - exact), 2 * std::ldexp(1.0, std::ilogb(exact) - 23));
  }
}

TEST(Functions, OfNarrowTypesStayWithinTheirBound) {
  for (std::uint32_t code = 0; code < 65536; ++code)
    for (const Format &format : {kHalf, kBFloat}) {
      double x = decode(code, format), half = format.fractionBits == 10;
      if (!(std::abs(x) < 12))
        continue;
      double two =
          decode(approximateNarrow(Approximate::Exp2, static_cast<std::uint16_t>(code), format), format);
      ASSERT_LE(std::abs(two - std::exp2(x)),
                std::max(std::exp2(x) * std::exp2(half ? -9.9 : -7), half ? 0x1p-25 : 0))
          << x;
      double tanh =
          decode(approximateNarrow(Approximate::Tanh, static_cast<std::uint16_t>(code), format), format);
      ASSERT_LE(std::abs(tanh - std::tanh(x)), std::exp2(half ? -10.987 : -8)) << x;
    }
}

} // namespace
} // namespace colossal::ptx
