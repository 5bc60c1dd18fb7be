// Numbers as a GPU has them: narrow formats, directed rounding, and the approximate functions.
#ifndef COLOSSAL_EMULATION_PTX_VALUES_H
#define COLOSSAL_EMULATION_PTX_VALUES_H

#include <cmath>
#include <cstdint>
#include <cstring>

namespace colossal::ptx {

template <class To, class From>
To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

enum class Rounding : std::uint8_t { NearestEven, Zero, Down, Up, NearestAway };

/// A binary format of at most 32 bits: sign, exponent with the usual bias, fraction.
struct Format {
  int exponentBits, fractionBits;
  bool infinity;     ///< false: the highest exponent holds numbers, and only all ones are NaN
  std::uint32_t nan; ///< the NaN that instructions make
};
inline constexpr Format kHalf{5, 10, true, 0x7fff};
inline constexpr Format kBFloat{8, 7, true, 0x7fff};
inline constexpr Format kTf32{8, 10, true, 0x3ffff};
inline constexpr Format kE4M3{4, 3, false, 0x7f};
inline constexpr Format kE5M2{5, 2, true, 0x7f};
inline constexpr Format kSingle{8, 23, true, 0x7fffffff};

/// `value` rounded once to `format`. What is too large becomes infinity or the largest number, as the
/// rounding has it; always the largest with `saturate`, infinities included, and in a format without
/// infinities.
std::uint32_t encode(double value, const Format &format, Rounding rounding = Rounding::NearestEven,
                     bool saturate = false);
/// Exact.
double decode(std::uint32_t bits, const Format &format);

inline float bfloatToFloat(std::uint16_t bits) {
  return bitCast<float>(std::uint32_t(bits) << 16);
}
inline float halfToFloat(std::uint16_t bits) {
  // The fraction moves up by 13; the exponent's bias differs by 112, which a product adds also to subnormals.
  float scaled =
      bitCast<float>((std::uint32_t(bits) & 0x7fff) << 13) * bitCast<float>(std::uint32_t(239) << 23);
  std::uint32_t magnitude = bitCast<std::uint32_t>(scaled);
  if ((bits & 0x7c00) == 0x7c00)
    magnitude = 0x7f800000 | (std::uint32_t(bits) & 0x3ff) << 13;
  return bitCast<float>(magnitude | (std::uint32_t(bits) & 0x8000) << 16);
}

/// a + b, or a * b + c, rounded to odd in double: rounding once more to half or bfloat gives what one
/// rounding would. The operands are of those formats.
double addToOdd(double a, double b);
inline double fmaToOdd(double a, double b, double c) {
  return addToOdd(a * b, c);
}

/// +, *, /, fma and sqrt in the given rounding (not NearestAway).
enum class Directed { Add, Multiply, Divide, Fma, SquareRoot, Reciprocal };
float directed(Directed operation, Rounding rounding, float a, float b, float c);
double directed(Directed operation, Rounding rounding, double a, double b, double c);
/// To float or double from what they may not hold exactly.
float singleOf(double value, Rounding rounding);
float singleOf(std::int64_t value, Rounding rounding);
float singleOf(std::uint64_t value, Rounding rounding);
double doubleOf(std::int64_t value, Rounding rounding);
double doubleOf(std::uint64_t value, Rounding rounding);
/// To an integral value.
double integral(double value, Rounding rounding);

/// The functions whose result the PTX manual gives by a bound of its error only. `approximate` is exact where
/// the exact result is a float, and elsewhere off by a part of the bound that depends on the argument alone:
/// a program that needs more than the manual promises does not get it here.
enum class Approximate {
  Exp2,           ///< relative 2^-22
  Log2,           ///< absolute 2^-22 for arguments in (0.5, 2), relative 2^-22 elsewhere
  Reciprocal,     ///< relative 2^-23
  SquareRoot,     ///< relative 2^-23
  ReciprocalRoot, ///< relative 2^-22.9
  Sine,           ///< absolute 2^-20.5 in [-2 pi, 2 pi], and beyond it more by |x| 2^-23
  Cosine,         ///< as Sine
  Tanh,           ///< relative 2^-11
};
float approximate(Approximate function, float argument);
/// The bound at `argument`, absolute.
double errorBound(Approximate function, float argument);
/// a / b within two units in the last place (div.approx and div.full).
float approximateQuotient(float a, float b);

/// The same functions of two-byte formats: relative errors of 2^-9.9 (ex2.f16), 2^-7 (ex2.bf16), absolute
/// 2^-10.987 (tanh.f16) and 2^-8 (tanh.bf16).
std::uint16_t approximateNarrow(Approximate function, std::uint16_t argument, const Format &format);

} // namespace colossal::ptx

#endif
