// Reductions by type and operator, and the 16-bit floats' conversions.
#include "runtime/comm/Reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace colossal::runtime {

uint64_t elementSize(ElementType type) {
  constexpr uint8_t sizes[] = {0, 4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 8};
  return sizes[static_cast<int>(type)];
}

float bfloatToFloat(uint16_t value) {
  uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

uint16_t floatToBfloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value))
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float halfToFloat(uint16_t half) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  uint32_t exponent = (half >> 10) & 0x1f, mantissa = half & 0x3ff;
  if (exponent == 0) {
    float small = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -small : small;
  }
  uint32_t bits =
      exponent == 31 ? sign | 0x7f800000 | mantissa << 13 : sign | (exponent + 112) << 23 | mantissa << 13;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

uint16_t floatToHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return sign | 0x7e00 | static_cast<uint16_t>(magnitude >> 13 & 0x3ff);
  if (magnitude >= 0x477ff000) // rounds to 65536 or more
    return sign | 0x7c00;
  if (magnitude < 0x38800000) { // subnormal: let the adder round at 2^-24
    float shifted;
    std::memcpy(&shifted, &magnitude, sizeof shifted);
    shifted += 0.5f; // its last place is 2^-24
    uint32_t result;
    std::memcpy(&result, &shifted, sizeof result);
    return sign | static_cast<uint16_t>(result - 0x3f000000);
  }
  uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return sign | static_cast<uint16_t>((rounded - 0x38000000) >> 13);
}

namespace {
/// Of a float of eight or four bits: exponent and mantissa lie below the sign.
struct NarrowFormat {
  int mantissa, bias, sign; ///< bits of the mantissa; the sign's place
  unsigned greatest;        ///< bits of the greatest finite value
  bool hasNegativeZero;     ///< otherwise its bits are the only NaN
};

NarrowFormat formatOf(ElementType type) {
  switch (type) {
  case ElementType::F8E4M3FN: return {3, 7, 7, 0x7e, true};
  case ElementType::F8E4M3FNUZ: return {3, 8, 7, 0x7f, false};
  case ElementType::F8E5M2: return {2, 15, 7, 0x7b, true};
  case ElementType::F8E5M2FNUZ: return {2, 16, 7, 0x7f, false};
  default: return {1, 1, 3, 7, true}; // F4E2M1
  }
}
} // namespace

float narrowToFloat(ElementType type, uint8_t bits) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  if (type == ElementType::F8E8M0)
    return bits == 255 ? nan : std::ldexp(1.0f, bits - 127);
  const NarrowFormat format = formatOf(type);
  const unsigned magnitude = bits & ((1u << format.sign) - 1);
  const bool negative = (bits >> format.sign & 1) != 0;
  if (negative && magnitude == 0 && !format.hasNegativeZero)
    return nan;
  if (magnitude > format.greatest)
    return type == ElementType::F8E5M2 && magnitude == 0x7c ? (negative ? -INFINITY : INFINITY) : nan;
  const int exponent = static_cast<int>(magnitude >> format.mantissa);
  auto value = static_cast<float>(magnitude & ((1u << format.mantissa) - 1));
  if (exponent > 0)
    value += static_cast<float>(1 << format.mantissa);
  value = std::ldexp(value, std::max(exponent, 1) - format.bias - format.mantissa);
  return negative ? -value : value;
}

uint8_t floatToNarrow(ElementType type, float value) {
  if (type == ElementType::F8E8M0) {
    if (std::isnan(value))
      return 255;
    if (!(value > 0x1p-127f))
      return 0;
    int exponent; // value = f * 2^exponent, 0.5 <= f < 1
    float fraction = std::frexp(value, &exponent);
    return static_cast<uint8_t>(std::min(std::isinf(value) ? 254 : exponent - (fraction == 0.5f) + 127, 254));
  }
  const NarrowFormat format = formatOf(type);
  const unsigned sign = std::signbit(value) ? 1u << format.sign : 0;
  if (std::isnan(value))
    return static_cast<uint8_t>(!format.hasNegativeZero || type == ElementType::F4E2M1 ? 1u << format.sign
                                                                                       : 0x7f);
  const float least = std::ldexp(1.0f, 1 - format.bias), magnitude = std::fabs(value);
  unsigned bits;
  if (magnitude >= narrowToFloat(type, static_cast<uint8_t>(format.greatest))) {
    bits = format.greatest;
  } else {
    // In units of the last place; the exponent counts from the least normal one.
    int exponent = magnitude < least ? 0 : std::ilogb(magnitude) + format.bias - 1;
    auto units = static_cast<unsigned>(
        std::nearbyint(std::ldexp(magnitude, format.bias + format.mantissa - 1 - exponent)));
    bits = units + (static_cast<unsigned>(exponent) << format.mantissa);
    bits = std::min(bits, format.greatest);
  }
  return static_cast<uint8_t>(bits == 0 && !format.hasNegativeZero ? 0 : bits | sign);
}

namespace {

template <class T>
T combine(Reduction op, T a, T b) {
  switch (op) {
  case Reduction::Max:
    if constexpr (std::is_floating_point_v<T>)
      return a != a ? a : (b > a || b != b ? b : a);
    return b > a ? b : a;
  case Reduction::Min:
    if constexpr (std::is_floating_point_v<T>)
      return a != a ? a : (b < a || b != b ? b : a);
    return b < a ? b : a;
  case Reduction::And: return static_cast<T>(a != 0 && b != 0);
  case Reduction::Or: return static_cast<T>(a != 0 || b != 0);
  case Reduction::Prod:
    if constexpr (std::is_integral_v<T>) // wraps, without the undefined overflow of promoted signed types
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  default:
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
}

template <Reduction op, class T>
void accumulate(T *total, const T *source, uint64_t count) {
  for (uint64_t e = 0; e < count; ++e)
    total[e] = combine<T>(op, total[e], source[e]);
}

template <class T>
void accumulate(Reduction op, T *total, const T *source, uint64_t count) {
  switch (op) {
  case Reduction::Max: return accumulate<Reduction::Max>(total, source, count);
  case Reduction::Min: return accumulate<Reduction::Min>(total, source, count);
  case Reduction::Prod: return accumulate<Reduction::Prod>(total, source, count);
  case Reduction::And: return accumulate<Reduction::And>(total, source, count);
  case Reduction::Or: return accumulate<Reduction::Or>(total, source, count);
  default: return accumulate<Reduction::Sum>(total, source, count);
  }
}

template <class T>
void reduceAs(Reduction op, const std::byte *const *sources, uint32_t members, std::byte *dst,
              uint64_t count) {
  T total[reduceChunk];
  std::memcpy(total, sources[0], count * sizeof(T));
  for (uint32_t member = 1; member < members; ++member)
    accumulate(op, total, reinterpret_cast<const T *>(sources[member]), count);
  std::memcpy(dst, total, count * sizeof(T));
}

template <float (*widen)(uint16_t), uint16_t (*narrow)(float)>
void reduceHalf(Reduction op, const std::byte *const *sources, uint32_t members, std::byte *dst,
                uint64_t count) {
  float total[reduceChunk];
  const auto *first = reinterpret_cast<const uint16_t *>(sources[0]);
  for (uint64_t e = 0; e < count; ++e)
    total[e] = widen(first[e]);
  for (uint32_t member = 1; member < members; ++member) {
    const auto *source = reinterpret_cast<const uint16_t *>(sources[member]);
    for (uint64_t e = 0; e < count; ++e)
      total[e] = combine(op, total[e], widen(source[e]));
  }
  auto *out = reinterpret_cast<uint16_t *>(dst);
  for (uint64_t e = 0; e < count; ++e)
    out[e] = narrow(total[e]);
}

template <class T>
void fillAs(double value, std::byte *dst, uint64_t count) {
  T converted;
  if constexpr (std::is_integral_v<T>) {
    // The greatest value of a 64-bit type is not a double; compare with the power of two above it.
    const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (!(value > static_cast<double>(std::numeric_limits<T>::min())))
      converted = std::isnan(value) ? T(0) : std::numeric_limits<T>::min();
    else
      converted = value >= above ? std::numeric_limits<T>::max() : static_cast<T>(value);
  } else {
    converted = static_cast<T>(value);
  }
  auto *out = reinterpret_cast<T *>(dst);
  std::fill(out, out + count, converted);
}

} // namespace

void reduceElements(ElementType type, Reduction op, const std::byte *const *sources, uint32_t members,
                    std::byte *dst, uint64_t count) {
  switch (type) {
  case ElementType::F32: return reduceAs<float>(op, sources, members, dst, count);
  case ElementType::F64: return reduceAs<double>(op, sources, members, dst, count);
  case ElementType::F16: return reduceHalf<halfToFloat, floatToHalf>(op, sources, members, dst, count);
  case ElementType::BF16: return reduceHalf<bfloatToFloat, floatToBfloat>(op, sources, members, dst, count);
  case ElementType::I8: return reduceAs<int8_t>(op, sources, members, dst, count);
  case ElementType::I16: return reduceAs<int16_t>(op, sources, members, dst, count);
  case ElementType::I32: return reduceAs<int32_t>(op, sources, members, dst, count);
  case ElementType::I64: return reduceAs<int64_t>(op, sources, members, dst, count);
  case ElementType::U8: return reduceAs<uint8_t>(op, sources, members, dst, count);
  case ElementType::U16: return reduceAs<uint16_t>(op, sources, members, dst, count);
  case ElementType::U32: return reduceAs<uint32_t>(op, sources, members, dst, count);
  case ElementType::U64: return reduceAs<uint64_t>(op, sources, members, dst, count);
  case ElementType::Bool: // sum is or, product is and: a bool stays 0 or 1
    if (op == Reduction::Sum || op == Reduction::Max)
      op = Reduction::Or;
    else if (op == Reduction::Prod || op == Reduction::Min)
      op = Reduction::And;
    return reduceAs<uint8_t>(op, sources, members, dst, count);
  default: break; // refused when the plan is validated
  }
}

void fillElements(ElementType type, double value, std::byte *dst, uint64_t count) {
  switch (type) {
  case ElementType::F32: return fillAs<float>(value, dst, count);
  case ElementType::F64: return fillAs<double>(value, dst, count);
  case ElementType::F16:
  case ElementType::BF16: {
    auto rounded = static_cast<float>(value);
    uint16_t bits = type == ElementType::F16 ? floatToHalf(rounded) : floatToBfloat(rounded);
    std::fill_n(reinterpret_cast<uint16_t *>(dst), count, bits);
    return;
  }
  case ElementType::I8: return fillAs<int8_t>(value, dst, count);
  case ElementType::I16: return fillAs<int16_t>(value, dst, count);
  case ElementType::I32: return fillAs<int32_t>(value, dst, count);
  case ElementType::I64: return fillAs<int64_t>(value, dst, count);
  case ElementType::U8: return fillAs<uint8_t>(value, dst, count);
  case ElementType::U16: return fillAs<uint16_t>(value, dst, count);
  case ElementType::U32: return fillAs<uint32_t>(value, dst, count);
  case ElementType::U64: return fillAs<uint64_t>(value, dst, count);
  case ElementType::Bool: std::memset(dst, value != 0, count); return;
  case ElementType::I4: std::memset(dst, static_cast<int>(std::clamp(value, -8.0, 7.0)), count); return;
  case ElementType::U4: std::memset(dst, static_cast<int>(std::clamp(value, 0.0, 15.0)), count); return;
  case ElementType::I2: std::memset(dst, static_cast<int>(std::clamp(value, -2.0, 1.0)), count); return;
  case ElementType::U2: std::memset(dst, static_cast<int>(std::clamp(value, 0.0, 3.0)), count); return;
  case ElementType::String: std::memset(dst, 0, count * 8); return;
  default: std::memset(dst, floatToNarrow(type, static_cast<float>(value)), count); return;
  }
}

} // namespace colossal::runtime
