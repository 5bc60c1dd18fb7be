// This file is compiled with -frounding-math: directed rounding sets the processor's mode around an
// operation.
#include "Values.h"

#include <algorithm>
#include <cfenv>
#include <limits>

namespace colossal::ptx {
namespace {

/// The processor's rounding for as long as this lives.
class RoundingScope {
public:
  explicit RoundingScope(Rounding rounding) : before(std::fegetround()) {
    constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
    std::fesetround(modes[static_cast<int>(rounding)]);
  }
  ~RoundingScope() { std::fesetround(before); }

private:
  int before;
};

template <class T>
T directedOf(Directed operation, Rounding rounding, T first, T second, T third) {
  volatile T a = first, b = second, c = third, result = 0;
  RoundingScope scope(rounding);
  switch (operation) {
  case Directed::Add: result = a + b; break;
  case Directed::Multiply: result = a * b; break;
  case Directed::Divide: result = a / b; break;
  case Directed::Fma: result = std::fma(a, b, c); break;
  case Directed::SquareRoot: result = std::sqrt(a); break;
  case Directed::Reciprocal: result = T(1) / a; break;
  }
  return result;
}

template <class To, class From>
To convertDirected(From value, Rounding rounding) {
  volatile From from = value;
  RoundingScope scope(rounding);
  volatile To to = static_cast<To>(from);
  return to;
}

bool roundsUp(bool negative, bool odd, bool half, bool rest, Rounding rounding) {
  switch (rounding) {
  case Rounding::NearestEven: return half && (rest || odd);
  case Rounding::NearestAway: return half;
  case Rounding::Zero: return false;
  case Rounding::Down: return negative && (half || rest);
  case Rounding::Up: return !negative && (half || rest);
  }
  return false;
}

/// In [-1, 1], from nothing but the argument's bits and the function.
double wobble(std::uint32_t bits, unsigned function) {
  std::uint64_t x = (std::uint64_t(function) << 32 | bits) + 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) * 0x1p-52 - 1;
}

double exactly(Approximate function, double x) {
  switch (function) {
  case Approximate::Exp2: return std::exp2(x);
  case Approximate::Log2: return std::log2(x);
  case Approximate::Reciprocal: return 1 / x;
  case Approximate::SquareRoot: return std::sqrt(x);
  case Approximate::ReciprocalRoot: return 1 / std::sqrt(x);
  case Approximate::Sine: return std::sin(x);
  case Approximate::Cosine: return std::cos(x);
  case Approximate::Tanh: return std::tanh(x);
  }
  return 0;
}

float canonical(double value) {
  return value != value ? bitCast<float>(0x7fffffffu) : static_cast<float>(value);
}

/// `exact` moved by `part` of `bound`, such that rounding to float keeps within the bound.
float within(double exact, double bound, double part) {
  float nearest = canonical(exact);
  if (static_cast<double>(nearest) == exact || !std::isfinite(nearest))
    return nearest;
  double unit = std::ldexp(1.0, std::max(std::ilogb(exact) - 23, -149));
  return static_cast<float>(exact + part * std::max(0.0, bound - unit * 0.5000001));
}

} // namespace

std::uint32_t encode(double value, const Format &format, Rounding rounding, bool saturate) {
  std::uint64_t bits = bitCast<std::uint64_t>(value);
  bool negative = bits >> 63;
  std::uint32_t sign = std::uint32_t(negative) << (format.exponentBits + format.fractionBits);
  if (value != value)
    return format.nan;
  std::uint32_t top = ((std::uint32_t(1) << format.exponentBits) - 1) << format.fractionBits;
  std::uint32_t largest = format.infinity ? top - 1 : top + (std::uint32_t(1) << format.fractionBits) - 2;
  int bias = (1 << (format.exponentBits - 1)) - 1, exponent = static_cast<int>(bits >> 52 & 2047) - 1023;
  if (exponent == 1024)
    return sign | (saturate || !format.infinity ? largest : top);
  std::uint64_t significand = bits & ((std::uint64_t(1) << 52) - 1);
  if (exponent == -1023)
    exponent = -1022;
  else
    significand |= std::uint64_t(1) << 52;
  // Subnormals of the format keep fewer bits.
  int lowest = std::max(exponent, 1 - bias);
  int dropped = std::min(52 - format.fractionBits + (lowest - exponent), 60);
  std::uint64_t kept = significand >> dropped, rest = significand & ((std::uint64_t(1) << dropped) - 1);
  std::uint64_t half = std::uint64_t(1) << (dropped - 1);
  kept += roundsUp(negative, kept & 1, (rest & half) != 0, (rest & (half - 1)) != 0, rounding);
  // The leading one adds itself to the exponent, which carries where rounding overflows the fraction.
  std::uint64_t result = (std::uint64_t(lowest - (1 - bias)) << format.fractionBits) + kept;
  if (result <= largest)
    return sign | static_cast<std::uint32_t>(result);
  bool toLargest = saturate || !format.infinity || rounding == Rounding::Zero ||
                   (rounding == Rounding::Down && !negative) || (rounding == Rounding::Up && negative);
  return sign | (toLargest ? largest : top);
}

double decode(std::uint32_t bits, const Format &format) {
  int bias = (1 << (format.exponentBits - 1)) - 1;
  int exponent = static_cast<int>(bits >> format.fractionBits & ((1u << format.exponentBits) - 1));
  std::uint32_t fraction = bits & ((1u << format.fractionBits) - 1);
  bool negative = bits >> (format.exponentBits + format.fractionBits) & 1,
       highest = exponent == (1 << format.exponentBits) - 1;
  double magnitude;
  if (highest && (format.infinity ? fraction != 0 : fraction == (1u << format.fractionBits) - 1))
    return std::numeric_limits<double>::quiet_NaN();
  if (highest && format.infinity)
    magnitude = std::numeric_limits<double>::infinity();
  else if (exponent == 0)
    magnitude = std::ldexp(fraction, 1 - bias - format.fractionBits);
  else
    magnitude = std::ldexp(fraction + (1u << format.fractionBits), exponent - bias - format.fractionBits);
  return negative ? -magnitude : magnitude;
}

double addToOdd(double a, double b) {
  double sum = a + b;
  if (!std::isfinite(sum))
    return sum;
  double aside = sum - a, error = (a - (sum - aside)) + (b - aside);
  std::uint64_t bits = bitCast<std::uint64_t>(sum);
  if (error != 0 && !(bits & 1))
    bits += (error > 0) == (sum > 0) ? 1 : -1;
  return bitCast<double>(bits);
}

float directed(Directed operation, Rounding rounding, float a, float b, float c) {
  return directedOf(operation, rounding, a, b, c);
}
double directed(Directed operation, Rounding rounding, double a, double b, double c) {
  return directedOf(operation, rounding, a, b, c);
}
float singleOf(double value, Rounding rounding) {
  return convertDirected<float>(value, rounding);
}
float singleOf(std::int64_t value, Rounding rounding) {
  return convertDirected<float>(value, rounding);
}
float singleOf(std::uint64_t value, Rounding rounding) {
  // The processor's conversion is of signed numbers: the lowest bit is kept as a sticky one.
  if (value >> 63)
    return 2 * convertDirected<float>(static_cast<std::int64_t>(value >> 1 | (value & 1)), rounding);
  return convertDirected<float>(static_cast<std::int64_t>(value), rounding);
}
double doubleOf(std::int64_t value, Rounding rounding) {
  return convertDirected<double>(value, rounding);
}
double doubleOf(std::uint64_t value, Rounding rounding) {
  if (value >> 63)
    return 2 * convertDirected<double>(static_cast<std::int64_t>(value >> 1 | (value & 1)), rounding);
  return convertDirected<double>(static_cast<std::int64_t>(value), rounding);
}
double integral(double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::Zero: return std::trunc(value);
  case Rounding::Down: return std::floor(value);
  case Rounding::Up: return std::ceil(value);
  case Rounding::NearestAway: return std::round(value);
  case Rounding::NearestEven: break;
  }
  return std::nearbyint(value);
}

double errorBound(Approximate function, float argument) {
  double x = argument, magnitude = std::abs(exactly(function, x));
  switch (function) {
  case Approximate::Exp2: return magnitude * 0x1p-22;
  case Approximate::Log2: return x > 0.5 && x < 2 ? 0x1p-22 : magnitude * 0x1p-22;
  case Approximate::Reciprocal:
  case Approximate::SquareRoot: return magnitude * 0x1p-23;
  case Approximate::ReciprocalRoot: return magnitude * std::exp2(-22.9);
  case Approximate::Sine:
  case Approximate::Cosine: return std::exp2(-20.5) + (std::abs(x) > 6.2831853 ? std::abs(x) * 0x1p-23 : 0);
  case Approximate::Tanh: return magnitude * 0x1p-11;
  }
  return 0;
}

float approximate(Approximate function, float argument) {
  double exact = exactly(function, argument);
  float result = within(exact, errorBound(function, argument),
                        wobble(bitCast<std::uint32_t>(argument), static_cast<unsigned>(function)));
  bool bounded =
      function == Approximate::Sine || function == Approximate::Cosine || function == Approximate::Tanh;
  return bounded && std::abs(result) > 1 ? std::copysign(1.0f, result) : result;
}

float approximateQuotient(float a, float b) {
  double exact = static_cast<double>(a) / b;
  if (exact == 0 || !std::isfinite(exact))
    return canonical(exact);
  double unit = std::ldexp(1.0, std::max(std::ilogb(exact) - 23, -149));
  return within(exact, 2 * unit,
                wobble(bitCast<std::uint32_t>(a) ^ bitCast<std::uint32_t>(b) * 0x9e3779b9u, 99));
}

std::uint16_t approximateNarrow(Approximate function, std::uint16_t argument, const Format &format) {
  double x = decode(argument, format), exact = exactly(function, x);
  bool half = format.fractionBits == kHalf.fractionBits;
  double bound =
      function == Approximate::Tanh ? std::exp2(half ? -10.987 : -8) : exact * std::exp2(half ? -9.9 : -7);
  std::uint32_t nearest = encode(exact, format);
  if (!std::isfinite(exact) || decode(nearest, format) == exact)
    return static_cast<std::uint16_t>(nearest);
  // The neighbours that the bound allows, and by the argument one of them.
  double part = wobble(argument, 64 + static_cast<unsigned>(function));
  std::uint32_t moved = encode(exact + part * bound, format);
  return static_cast<std::uint16_t>(std::abs(decode(moved, format) - exact) <= bound ? moved : nearest);
}

} // namespace colossal::ptx
