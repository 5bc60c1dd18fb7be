// cvt. Every conversion goes over an exact intermediate, a 64-bit integer or a double, so that each rounds
// once.
#include "Block.h"
#include "Decode.h"
#include "Values.h"

#include <algorithm>
#include <limits>

namespace colossal::ptx {
namespace {

/// What an instruction converts; Instruction::detail holds its bytes.
struct Conversion {
  Type to, from;
  Rounding rounding;
  std::uint8_t integral : 1, flush : 1, saturate : 1, finite : 1, relu : 1;
  std::uint8_t toBytes : 4, fromBytes : 4; ///< of the registers
};

std::int64_t packConversion(const Conversion &conversion) {
  static_assert(sizeof conversion <= sizeof(std::int64_t));
  std::int64_t packed = 0;
  std::memcpy(&packed, &conversion, sizeof conversion);
  return packed;
}
Conversion unpackConversion(std::int64_t packed) {
  Conversion conversion;
  std::memcpy(&conversion, &packed, sizeof conversion);
  return conversion;
}

template <class T>
T readLane(const std::byte *from, unsigned lane, unsigned stride) {
  T value;
  std::memcpy(&value, from + lane * stride, sizeof value);
  return value;
}

std::int64_t readInteger(Type type, const std::byte *from, unsigned lane, unsigned stride) {
  switch (type) {
  case Type::S8: return readLane<std::int8_t>(from, lane, stride);
  case Type::S16: return readLane<std::int16_t>(from, lane, stride);
  case Type::S32: return readLane<std::int32_t>(from, lane, stride);
  case Type::B8:
  case Type::U8: return readLane<std::uint8_t>(from, lane, stride);
  case Type::B16:
  case Type::U16: return readLane<std::uint16_t>(from, lane, stride);
  case Type::B32:
  case Type::U32: return readLane<std::uint32_t>(from, lane, stride);
  default: return readLane<std::int64_t>(from, lane, stride);
  }
}

double readFloat(Type type, const std::byte *from, unsigned lane, unsigned stride) {
  switch (type) {
  case Type::F16: return halfToFloat(readLane<std::uint16_t>(from, lane, stride));
  case Type::BF16: return bfloatToFloat(readLane<std::uint16_t>(from, lane, stride));
  case Type::F32: return readLane<float>(from, lane, stride);
  default: return readLane<double>(from, lane, stride);
  }
}

double clamped(double value, const Conversion &conversion) {
  if (conversion.saturate)
    return value > 0 ? std::min(value, 1.0) : 0;
  if (conversion.relu)
    return value < 0 || value == 0 ? 0 : value;
  return value;
}

double flushSingle(double value) {
  return std::abs(value) < 0x1p-126 ? std::copysign(0.0, value) : value;
}

/// The bits of a float of type `to`.
std::uint64_t floatBits(double value, const Conversion &c) {
  value = clamped(value, c);
  switch (c.to) {
  case Type::F16: return encode(value, kHalf, c.rounding, c.finite);
  case Type::BF16: return encode(value, kBFloat, c.rounding, c.finite);
  case Type::Tf32: return std::uint64_t(encode(value, kTf32, c.rounding, c.finite)) << 13;
  case Type::F64: return bitCast<std::uint64_t>(value);
  default: break;
  }
  if (value != value)
    return 0x7fffffff;
  float single =
      c.rounding == Rounding::NearestEven ? static_cast<float>(value) : singleOf(value, c.rounding);
  return bitCast<std::uint32_t>(c.flush ? static_cast<float>(flushSingle(single)) : single);
}

unsigned bitsOf(Type type) {
  return bytesOf(type) * 8;
}

/// Clamped to the type; NaN as the manual says.
std::uint64_t integerBits(double value, const Conversion &c) {
  value = integral(value, c.rounding);
  unsigned bits = bitsOf(c.to);
  if (value != value)
    return c.from == Type::F64 || bits == 64 ? std::uint64_t(1) << (bits - 1) : 0;
  if (isSigned(c.to)) {
    double limit = std::ldexp(1.0, static_cast<int>(bits) - 1);
    std::int64_t result = value >= limit ? static_cast<std::int64_t>((std::uint64_t(1) << (bits - 1)) - 1)
                          : value <= -limit
                              ? -static_cast<std::int64_t>((std::uint64_t(1) << (bits - 1)) - 1) - 1
                              : static_cast<std::int64_t>(value);
    return static_cast<std::uint64_t>(result);
  }
  if (value <= 0)
    return 0;
  return value >= std::ldexp(1.0, static_cast<int>(bits)) ? ~std::uint64_t(0) >> (64 - bits)
                                                          : static_cast<std::uint64_t>(value);
}

/// From an integer; what a double does not hold keeps a sticky bit, so that rounding to a narrow format is
/// right.
std::uint64_t floatBitsOf(std::int64_t value, const Conversion &c) {
  bool isUnsigned = !isSigned(c.from);
  std::uint64_t bits = static_cast<std::uint64_t>(value);
  if (c.to == Type::F32)
    return bitCast<std::uint32_t>(isUnsigned ? singleOf(bits, c.rounding) : singleOf(value, c.rounding));
  if (c.to == Type::F64)
    return bitCast<std::uint64_t>(isUnsigned ? doubleOf(bits, c.rounding) : doubleOf(value, c.rounding));
  bool negative = !isUnsigned && value < 0;
  std::uint64_t magnitude = negative ? 0 - bits : bits;
  if (magnitude >> 53)
    magnitude = (magnitude & ~std::uint64_t(0x7ff)) | ((magnitude & 0x7ff) ? 0x800 : 0);
  double exact = static_cast<double>(magnitude);
  return floatBits(negative ? -exact : exact, c);
}

/// .sat between integers clamps; else the low bits stay.
std::uint64_t integerBitsOf(std::int64_t value, const Conversion &c) {
  unsigned bits = bitsOf(c.to);
  if (c.saturate) {
    bool fromUnsigned = !isSigned(c.from), big = fromUnsigned && value < 0;
    std::int64_t low =
        isSigned(c.to) ? -static_cast<std::int64_t>((std::uint64_t(1) << (bits - 1)) - 1) - 1 : 0;
    std::uint64_t high = ~std::uint64_t(0) >> (64 - bits + (isSigned(c.to) ? 1 : 0));
    if (big || (value > 0 && static_cast<std::uint64_t>(value) > high))
      return high > static_cast<std::uint64_t>(value) && big ? static_cast<std::uint64_t>(value) : high;
    return static_cast<std::uint64_t>(std::max(value, low));
  }
  if (bits == 64)
    return static_cast<std::uint64_t>(value);
  std::uint64_t kept = static_cast<std::uint64_t>(value) & ((std::uint64_t(1) << bits) - 1);
  // A wider register gets the sign.
  if (isSigned(c.to) && kept >> (bits - 1) & 1)
    kept |= ~std::uint64_t(0) << bits;
  return kept;
}

void store(Warp &warp, Slot d, std::uint32_t mask, unsigned bytes, const std::uint64_t *bits) {
  if (bytes == 8)
    warp.write<std::uint64_t>(d, mask, [=](unsigned l) { return bits[l]; });
  else if (bytes == 4)
    warp.write<std::uint32_t>(d, mask, [=](unsigned l) { return static_cast<std::uint32_t>(bits[l]); });
  else
    warp.write<std::uint16_t>(d, mask, [=](unsigned l) { return static_cast<std::uint16_t>(bits[l]); });
}

template <bool fromFloat, bool toFloat>
void convert(Warp &warp, const Instruction &i, std::uint32_t mask) {
  Conversion c = unpackConversion(i.immediate);
  const std::byte *from = warp.read<std::byte>(i.a);
  std::uint64_t bits[kLanes];
  for (unsigned l = 0; l < kLanes; ++l)
    if constexpr (fromFloat) {
      double value = readFloat(c.from, from, l, c.fromBytes);
      if (c.flush && c.from == Type::F32)
        value = flushSingle(value);
      if (c.integral && toFloat) {
        value = integral(value, c.rounding);
        Conversion exact = c;
        exact.rounding = Rounding::NearestEven;
        bits[l] = floatBits(value, exact);
      } else {
        bits[l] = toFloat ? floatBits(value, c) : integerBits(value, c);
      }
    } else {
      std::int64_t value = readInteger(c.from, from, l, c.fromBytes);
      bits[l] = toFloat ? floatBitsOf(value, c) : integerBitsOf(value, c);
    }
  store(warp, i.d, mask, c.toBytes, bits);
}

/// The commonest: integers of other sizes without clamping.
template <class From, class To>
void resize(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const From *a = warp.read<From>(i.a);
  warp.write<To>(i.d, mask, [=](unsigned l) { return static_cast<To>(a[l]); });
}

void halfToSingle(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const std::uint16_t *a = warp.read<std::uint16_t>(i.a);
  warp.write<float>(i.d, mask, [=](unsigned l) { return halfToFloat(a[l]); });
}
void bfloatToSingle(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const std::uint16_t *a = warp.read<std::uint16_t>(i.a);
  warp.write<float>(i.d, mask, [=](unsigned l) { return bfloatToFloat(a[l]); });
}

const Format &formatOf(Type type) {
  switch (type) {
  case Type::F16x2: return kHalf;
  case Type::BF16x2: return kBFloat;
  case Type::E4M3x2: return kE4M3;
  default: return kE5M2;
  }
}

/// Two values to a pair: `a` becomes the upper half, `b` the lower.
void joinPair(Warp &warp, const Instruction &i, std::uint32_t mask) {
  Conversion c = unpackConversion(i.immediate);
  const float *a = warp.read<float>(i.a), *b = warp.read<float>(i.b);
  const Format &format = formatOf(c.to);
  unsigned half = 1 + format.exponentBits + format.fractionBits;
  std::uint64_t bits[kLanes];
  for (unsigned l = 0; l < kLanes; ++l)
    bits[l] = std::uint64_t(encode(clamped(a[l], c), format, c.rounding, c.finite)) << half |
              encode(clamped(b[l], c), format, c.rounding, c.finite);
  store(warp, i.d, mask, half / 4, bits);
}

/// A pair to a pair.
void convertPair(Warp &warp, const Instruction &i, std::uint32_t mask) {
  Conversion c = unpackConversion(i.immediate);
  const Format &from = formatOf(c.from), &to = formatOf(c.to);
  unsigned fromHalf = 1 + from.exponentBits + from.fractionBits,
           toHalf = 1 + to.exponentBits + to.fractionBits;
  const std::byte *a = warp.read<std::byte>(i.a);
  std::uint64_t bits[kLanes];
  for (unsigned l = 0; l < kLanes; ++l) {
    std::uint32_t pair = fromHalf == 16 ? readLane<std::uint32_t>(a, l, 4) : readLane<std::uint16_t>(a, l, 2);
    std::uint32_t low = pair & ((1u << fromHalf) - 1), high = pair >> fromHalf;
    bits[l] = std::uint64_t(encode(clamped(decode(high, from), c), to, c.rounding, c.finite)) << toHalf |
              encode(clamped(decode(low, from), c), to, c.rounding, c.finite);
  }
  store(warp, i.d, mask, toHalf / 4, bits);
}

bool isNarrowPair(Type type) {
  return type == Type::E4M3x2 || type == Type::E5M2x2;
}
bool isPair(Type type) {
  return isNarrowPair(type) || type == Type::F16x2 || type == Type::BF16x2;
}

Handler resizeHandler(const Conversion &c) {
  if (c.saturate || bytesOf(c.from) != c.fromBytes || bytesOf(c.to) != c.toBytes)
    return nullptr;
  bool sign = isSigned(c.from);
  switch (c.fromBytes * 16 + c.toBytes) {
  case 0x24: return sign ? resize<std::int16_t, std::uint32_t> : resize<std::uint16_t, std::uint32_t>;
  case 0x28: return sign ? resize<std::int16_t, std::uint64_t> : resize<std::uint16_t, std::uint64_t>;
  case 0x42: return resize<std::uint32_t, std::uint16_t>;
  case 0x48: return sign ? resize<std::int32_t, std::uint64_t> : resize<std::uint32_t, std::uint64_t>;
  case 0x82: return resize<std::uint64_t, std::uint16_t>;
  case 0x84: return resize<std::uint64_t, std::uint32_t>;
  default: return nullptr;
  }
}

bool selectPair(Selection &s, Conversion c) {
  bool join = c.from == Type::F32;
  if (!isPair(c.to) || (!join && !isPair(c.from)) || (isNarrowPair(c.to) && !c.finite))
    s.refuse("'" + std::string(s.statement.name) + "' is not executed");
  s.expect(join ? 3 : 2);
  s.result.d = s.destination(0, c.to);
  s.result.a = s.source(1, c.from);
  if (join)
    s.result.b = s.source(2, c.from);
  s.result.immediate = packConversion(c);
  s.result.run = join ? joinPair : convertPair;
  return true;
}

} // namespace

bool selectConvert(Selection &s) {
  if (s.base() != "cvt")
    return false;
  Conversion c{};
  constexpr Rounding roundings[] = {Rounding::NearestEven, Rounding::Zero, Rounding::Down, Rounding::Up,
                                    Rounding::NearestAway};
  int rounding = s.takeOne({"rn", "rz", "rm", "rp", "rna"}), whole = s.takeOne({"rni", "rzi", "rmi", "rpi"});
  c.rounding = roundings[std::max({rounding, whole, 0})];
  c.integral = whole >= 0;
  c.flush = s.take("ftz");
  c.saturate = s.take("sat");
  c.finite = s.take("satfinite");
  c.relu = s.take("relu");
  c.to = s.takeType();
  c.from = s.takeType();
  if (isPair(c.to) || isPair(c.from))
    return selectPair(s, c);
  for (Type type : {c.to, c.from})
    if (!bytesOf(type) || type == Type::E4M3 || type == Type::E5M2 || type == Type::F32x2)
      s.refuse("'" + std::string(s.statement.name) + "' is not executed");
  s.expect(2);
  unsigned toBytes = bytesOf(c.to), fromBytes = 0;
  s.result.d = s.destinationOfAnySize(s.operand(0), toBytes);
  s.result.a = s.sourceOfAnySize(s.operand(1), c.from, fromBytes);
  fromBytes = std::max(fromBytes, 2u);
  if (toBytes < bytesOf(c.to) || fromBytes < bytesOf(c.from))
    s.refuse("a register is too small for its type");
  c.toBytes = toBytes & 15;
  c.fromBytes = fromBytes & 15;
  s.result.immediate = packConversion(c);
  bool fromFloat = isFloat(c.from), toFloat = isFloat(c.to);
  if (fromFloat)
    s.result.run = toFloat ? convert<true, true> : convert<true, false>;
  else
    s.result.run = toFloat ? convert<false, true> : convert<false, false>;
  if (!fromFloat && !toFloat)
    if (Handler handler = resizeHandler(c))
      s.result.run = handler;
  if (c.to == Type::F32 && !c.flush && !c.saturate && !c.integral && !c.relu && c.toBytes == 4 &&
      c.fromBytes == 2) {
    if (c.from == Type::F16)
      s.result.run = halfToSingle;
    if (c.from == Type::BF16)
      s.result.run = bfloatToSingle;
  }
  return true;
}

} // namespace colossal::ptx
