// Integer arithmetic, logic, shifts and bit fields.
#include "Block.h"
#include "Decode.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace colossal::ptx {
namespace {

enum class Op : std::uint8_t {
  Add,
  AddSaturated,
  Subtract,
  SubtractSaturated,
  Multiply,
  MultiplyHigh,
  MultiplyAdd,
  MultiplyAddHigh,
  Divide,
  Remainder,
  Minimum,
  Maximum,
  Absolute,
  Negate,
  And,
  Or,
  Xor,
  Not,
  CNot,
  ShiftLeft,
  ShiftRight,
  CountOnes,
  LeadingZeros,
  Reverse,
  FindHighest,
  FindShift,
  ExtractField,
  InsertField,
  FunnelLeftWrap,
  FunnelLeftClamp,
  FunnelRightWrap,
  FunnelRightClamp,
  Logic,
  Multiply24,
  MultiplyAdd24,
  Multiply24High,
  MultiplyAdd24High,
  DotAccumulate
};

template <class T>
struct Wider;
template <>
struct Wider<std::uint16_t> {
  using type = std::uint32_t;
};
template <>
struct Wider<std::int16_t> {
  using type = std::int32_t;
};
template <>
struct Wider<std::uint32_t> {
  using type = std::uint64_t;
};
template <>
struct Wider<std::int32_t> {
  using type = std::int64_t;
};
template <>
struct Wider<std::uint64_t> {
  using type = unsigned __int128;
};
template <>
struct Wider<std::int64_t> {
  using type = __int128;
};

template <class T>
T divide(T a, T b) {
  if (b == 0)
    return static_cast<T>(-1); // as the hardware does; the manual leaves it open
  if (std::is_signed_v<T> && b == static_cast<T>(-1))
    return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0)
    return a;
  if (std::is_signed_v<T> && b == static_cast<T>(-1))
    return 0;
  return static_cast<T>(a % b);
}

template <class T>
T saturated(typename Wider<T>::type value) {
  using W = typename Wider<T>::type;
  return static_cast<T>(
      std::min<W>(std::max<W>(value, std::numeric_limits<T>::min()), std::numeric_limits<T>::max()));
}

template <class T>
T extractField(T value, std::uint32_t position, std::uint32_t length) {
  using U = std::make_unsigned_t<T>;
  constexpr unsigned bits = sizeof(T) * 8;
  position &= 255;
  length &= 255;
  if (!length)
    return 0;
  U field = position < bits ? static_cast<U>(value) >> position : 0;
  unsigned top = std::min(position + length, bits) - 1;
  bool sign = std::is_signed_v<T> && static_cast<U>(value) >> std::min(top, bits - 1) & 1;
  if (std::is_signed_v<T> && position >= bits)
    sign = static_cast<U>(value) >> (bits - 1) & 1;
  unsigned have = position < bits ? std::min(length, bits - position) : 0;
  if (have < bits) {
    field &= (U(1) << have) - 1;
    if (sign)
      field |= ~U(0) << have;
  }
  return static_cast<T>(field);
}

template <class T>
T insertField(T field, T into, std::uint32_t position, std::uint32_t length) {
  constexpr unsigned bits = sizeof(T) * 8;
  position &= 255;
  length &= 255;
  if (position >= bits || !length)
    return into;
  T mask = (length >= bits ? ~T(0) : (T(1) << length) - 1) << position;
  return (into & ~mask) | (field << position & mask);
}

template <class T>
unsigned highestBit(T value) {
  using U = std::make_unsigned_t<T>;
  U bits = static_cast<U>(value);
  if (std::is_signed_v<T> && value < 0)
    bits = ~bits;
  return bits ? 63 - static_cast<unsigned>(__builtin_clzll(bits)) : 0xffffffff;
}

std::uint32_t reverse(std::uint32_t x) {
  x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
  x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
  x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(x);
}

std::uint32_t funnel(std::uint32_t low, std::uint32_t high, std::uint32_t by, bool left, bool clamp) {
  std::uint64_t both = std::uint64_t(high) << 32 | low;
  by = clamp ? std::min(by, 32u) : by & 31;
  return static_cast<std::uint32_t>(left ? both << by >> 32 : both >> by);
}

std::uint32_t threeInputs(std::uint32_t a, std::uint32_t b, std::uint32_t c, unsigned table) {
  std::uint32_t result = 0;
  for (unsigned row = 0; row < 8; ++row)
    if (table >> row & 1)
      result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
  return result;
}

/// Results of the operands' own type. The operation is a constant of each handler, so that the loops over
/// lanes become vector code.
template <class T, Op op>
void compute(Warp &warp, const Instruction &i, std::uint32_t mask) {
  using U = std::make_unsigned_t<T>;
  using W = typename Wider<T>::type;
  constexpr unsigned bits = sizeof(T) * 8;
  const T *a = warp.read<T>(i.a);
  const T *b = i.b == kNoSlot ? a : warp.read<T>(i.b);
  const T *c = i.c == kNoSlot ? a : warp.read<T>(i.c);
  // Amounts of shifts and places of fields are 32 bits whatever the type.
  const std::uint32_t *b32 = reinterpret_cast<const std::uint32_t *>(b),
                      *c32 = reinterpret_cast<const std::uint32_t *>(c);
  const std::uint32_t *e32 = i.e == kNoSlot ? nullptr : warp.read<std::uint32_t>(i.e);
  unsigned table = i.detail;
  warp.write<T>(i.d, mask, [=](unsigned l) -> T {
    U x = static_cast<U>(a[l]);
    if constexpr (op == Op::Add)
      return static_cast<T>(x + static_cast<U>(b[l]));
    if constexpr (op == Op::AddSaturated)
      return saturated<T>(W(a[l]) + W(b[l]));
    if constexpr (op == Op::Subtract)
      return static_cast<T>(x - static_cast<U>(b[l]));
    if constexpr (op == Op::SubtractSaturated)
      return saturated<T>(W(a[l]) - W(b[l]));
    if constexpr (op == Op::Multiply)
      return static_cast<T>(std::uint64_t(x) * static_cast<U>(b[l]));
    if constexpr (op == Op::MultiplyHigh)
      return static_cast<T>(W(a[l]) * W(b[l]) >> bits);
    if constexpr (op == Op::MultiplyAdd)
      return static_cast<T>(std::uint64_t(x) * static_cast<U>(b[l]) + static_cast<U>(c[l]));
    if constexpr (op == Op::MultiplyAddHigh)
      return static_cast<T>(static_cast<U>(W(a[l]) * W(b[l]) >> bits) + static_cast<U>(c[l]));
    if constexpr (op == Op::Divide)
      return divide<T>(a[l], b[l]);
    if constexpr (op == Op::Remainder)
      return remainder<T>(a[l], b[l]);
    if constexpr (op == Op::Minimum)
      return std::min(a[l], b[l]);
    if constexpr (op == Op::Maximum)
      return std::max(a[l], b[l]);
    if constexpr (op == Op::Absolute)
      return a[l] < 0 ? static_cast<T>(0 - x) : a[l];
    if constexpr (op == Op::Negate)
      return static_cast<T>(0 - x);
    if constexpr (op == Op::And)
      return a[l] & b[l];
    if constexpr (op == Op::Or)
      return a[l] | b[l];
    if constexpr (op == Op::Xor)
      return a[l] ^ b[l];
    if constexpr (op == Op::Not)
      return static_cast<T>(~x);
    if constexpr (op == Op::CNot)
      return a[l] == 0;
    if constexpr (op == Op::ShiftLeft)
      return b32[l] >= bits ? T(0) : static_cast<T>(x << b32[l]);
    if constexpr (op == Op::ShiftRight)
      return static_cast<T>(a[l] >> std::min(b32[l], bits - 1) >> (b32[l] >= bits ? 1 : 0));
    if constexpr (op == Op::ExtractField)
      return extractField<T>(a[l], b32[l], c32[l]);
    if constexpr (op == Op::InsertField)
      return static_cast<T>(insertField<U>(x, static_cast<U>(b[l]), c32[l], e32[l]));
    if constexpr (sizeof(T) == 4) {
      std::uint32_t y = static_cast<std::uint32_t>(b[l]), z = static_cast<std::uint32_t>(c[l]);
      if constexpr (op == Op::Reverse)
        return static_cast<T>(reverse(x));
      if constexpr (op == Op::FunnelLeftWrap)
        return static_cast<T>(funnel(x, y, z, true, false));
      if constexpr (op == Op::FunnelLeftClamp)
        return static_cast<T>(funnel(x, y, z, true, true));
      if constexpr (op == Op::FunnelRightWrap)
        return static_cast<T>(funnel(x, y, z, false, false));
      if constexpr (op == Op::FunnelRightClamp)
        return static_cast<T>(funnel(x, y, z, false, true));
      if constexpr (op == Op::Logic)
        return static_cast<T>(threeInputs(x, y, z, table));
      W left = static_cast<W>(static_cast<T>(x << 8) >> 8),
        right = static_cast<W>(static_cast<T>(y << 8) >> 8);
      if constexpr (op == Op::Multiply24)
        return static_cast<T>(left * right);
      if constexpr (op == Op::MultiplyAdd24)
        return static_cast<T>(left * right + static_cast<W>(c[l]));
      if constexpr (op == Op::Multiply24High)
        return static_cast<T>(left * right >> 16);
      if constexpr (op == Op::MultiplyAdd24High)
        return static_cast<T>((left * right >> 16) + static_cast<W>(c[l]));
    }
    if constexpr (sizeof(T) == 8 && op == Op::Reverse)
      return static_cast<T>(std::uint64_t(reverse(static_cast<std::uint32_t>(x))) << 32 |
                            reverse(static_cast<std::uint32_t>(x >> 32)));
    return 0;
  });
}

/// Results of 32 bits.
template <class T, Op op>
void count(Warp &warp, const Instruction &i, std::uint32_t mask) {
  using U = std::make_unsigned_t<T>;
  const T *a = warp.read<T>(i.a);
  warp.write<std::uint32_t>(i.d, mask, [=](unsigned l) -> std::uint32_t {
    if constexpr (op == Op::CountOnes)
      return static_cast<std::uint32_t>(__builtin_popcountll(static_cast<U>(a[l])));
    if constexpr (op == Op::LeadingZeros)
      return static_cast<std::uint32_t>(sizeof(T) * 8 - 1 - highestBit(static_cast<U>(a[l])));
    unsigned highest = highestBit(a[l]);
    if constexpr (op == Op::FindShift)
      return highest == 0xffffffff ? highest : static_cast<std::uint32_t>(sizeof(T) * 8 - 1 - highest);
    return highest;
  });
}

/// mul.wide and mad.wide: operands of half the result's size.
template <class T, bool add>
void wide(Warp &warp, const Instruction &i, std::uint32_t mask) {
  using W = typename Wider<T>::type;
  using U = std::make_unsigned_t<W>;
  const T *a = warp.read<T>(i.a), *b = warp.read<T>(i.b);
  const U *c = add ? warp.read<U>(i.c) : nullptr;
  warp.write<U>(i.d, mask, [=](unsigned l) {
    U product = static_cast<U>(static_cast<W>(a[l]) * static_cast<W>(b[l]));
    return add ? product + c[l] : product;
  });
}

/// Pairs of 16 bits: as many values again in the same registers.
template <class T, Op op>
void pairs(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const T *a = warp.read<T>(i.a), *b = warp.read<T>(i.b);
  std::uint32_t result[kLanes];
  for (unsigned l = 0; l < kLanes; ++l) {
    T both[2];
    for (unsigned j = 0; j < 2; ++j) {
      T x = a[2 * l + j], y = b[2 * l + j];
      both[j] = op == Op::Add ? static_cast<T>(x + y) : op == Op::Minimum ? std::min(x, y) : std::max(x, y);
    }
    std::memcpy(&result[l], both, sizeof both);
  }
  warp.write<std::uint32_t>(i.d, mask, [&](unsigned l) { return result[l]; });
}

void permute(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const std::uint32_t *a = warp.read<std::uint32_t>(i.a), *b = warp.read<std::uint32_t>(i.b),
                      *c = warp.read<std::uint32_t>(i.c);
  warp.write<std::uint32_t>(i.d, mask, [=](unsigned l) {
    std::uint64_t both = std::uint64_t(b[l]) << 32 | a[l];
    std::uint32_t result = 0;
    for (unsigned byte = 0; byte < 4; ++byte) {
      unsigned selector = c[l] >> (4 * byte) & 15;
      std::uint32_t value = both >> (8 * (selector & 7)) & 255;
      if (selector & 8)
        value = value & 128 ? 255 : 0;
      result |= value << (8 * byte);
    }
    return result;
  });
}

/// dp4a: four products of bytes and an addend. Detail: bit 0 for a signed a, bit 1 for a signed b.
void dotBytes(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const std::uint32_t *a = warp.read<std::uint32_t>(i.a), *b = warp.read<std::uint32_t>(i.b),
                      *c = warp.read<std::uint32_t>(i.c);
  unsigned detail = i.detail;
  warp.write<std::uint32_t>(i.d, mask, [=](unsigned l) {
    std::uint32_t sum = c[l];
    for (unsigned shift = 0; shift < 32; shift += 8) {
      std::uint32_t x = a[l] >> shift & 255, y = b[l] >> shift & 255;
      x = detail & 1 ? static_cast<std::uint32_t>(static_cast<std::int8_t>(x)) : x;
      y = detail & 2 ? static_cast<std::uint32_t>(static_cast<std::int8_t>(y)) : y;
      sum += x * y;
    }
    return sum;
  });
}

/// Detail of arithmetic with a carry: whether it is added, and whether the instruction leaves one.
constexpr std::uint32_t takesCarry = 1, leavesCarry = 2;

/// add, sub and mad with each lane's carry, or borrow.
template <class T, Op op>
void extended(Warp &warp, const Instruction &i, std::uint32_t mask) {
  using U = std::make_unsigned_t<T>;
  using W = typename Wider<T>::type;
  constexpr unsigned bits = sizeof(T) * 8;
  const T *a = warp.read<T>(i.a), *b = warp.read<T>(i.b);
  const T *c = i.c == kNoSlot ? a : warp.read<T>(i.c);
  const std::uint32_t before = i.detail & takesCarry ? warp.carries : 0;
  std::uint32_t after = 0;
  warp.write<U>(i.d, mask, [&](unsigned l) {
    const unsigned carry = before >> l & 1;
    unsigned __int128 sum;
    if constexpr (op == Op::Add)
      sum = static_cast<unsigned __int128>(static_cast<U>(a[l])) + static_cast<U>(b[l]) + carry;
    else if constexpr (op == Op::Subtract)
      sum = static_cast<unsigned __int128>(static_cast<U>(a[l])) - static_cast<U>(b[l]) - carry;
    else
      sum = static_cast<unsigned __int128>(
                static_cast<U>(op == Op::MultiplyAdd ? W(a[l]) * W(b[l]) : W(a[l]) * W(b[l]) >> bits)) +
            static_cast<U>(c[l]) + carry;
    after |= static_cast<std::uint32_t>(sum >> bits & 1) << l;
    return static_cast<U>(sum);
  });
  if (i.detail & leavesCarry)
    warp.carries = (warp.carries & ~mask) | (after & mask);
}

void logicalPredicate(Warp &warp, const Instruction &i, std::uint32_t mask) {
  std::uint32_t a = warp.readPredicate(i.a), b = i.b == kNoSlot ? 0 : warp.readPredicate(i.b), result = 0;
  a = i.detail & 1 ? ~a : a;
  b = i.detail & 2 ? ~b : b;
  switch (static_cast<Op>(i.immediate)) {
  case Op::And: result = a & b; break;
  case Op::Or: result = a | b; break;
  case Op::Xor: result = a ^ b; break;
  default: result = ~a; break;
  }
  warp.writePredicate(i.d, mask, result);
}

template <class T, Op... ops>
Handler among(Op op) {
  Handler found = nullptr;
  ((op == ops ? void(found = compute<T, ops>) : void()), ...);
  return found;
}

template <class T>
Handler handlerOf(Op op) {
  if constexpr (sizeof(T) == 4)
    if (Handler found =
            among<T, Op::AddSaturated, Op::SubtractSaturated, Op::Reverse, Op::FunnelLeftWrap,
                  Op::FunnelLeftClamp, Op::FunnelRightWrap, Op::FunnelRightClamp, Op::Logic, Op::Multiply24,
                  Op::MultiplyAdd24, Op::Multiply24High, Op::MultiplyAdd24High>(op))
      return found;
  if constexpr (sizeof(T) >= 4)
    if (Handler found = among<T, Op::ExtractField, Op::InsertField, Op::Reverse>(op))
      return found;
  return among<T, Op::Add, Op::Subtract, Op::Multiply, Op::MultiplyHigh, Op::MultiplyAdd, Op::MultiplyAddHigh,
               Op::Divide, Op::Remainder, Op::Minimum, Op::Maximum, Op::Absolute, Op::Negate, Op::And, Op::Or,
               Op::Xor, Op::Not, Op::CNot, Op::ShiftLeft, Op::ShiftRight>(op);
}

Handler handlerOf(Op op, Type type) {
  switch (type) {
  case Type::B16:
  case Type::U16: return handlerOf<std::uint16_t>(op);
  case Type::B32:
  case Type::U32: return handlerOf<std::uint32_t>(op);
  case Type::B64:
  case Type::U64: return handlerOf<std::uint64_t>(op);
  case Type::S16: return handlerOf<std::int16_t>(op);
  case Type::S32: return handlerOf<std::int32_t>(op);
  case Type::S64: return handlerOf<std::int64_t>(op);
  default: return nullptr;
  }
}

template <Op op>
Handler countHandler(Type type) {
  switch (type) {
  case Type::B32:
  case Type::U32: return count<std::uint32_t, op>;
  case Type::S32: return count<std::int32_t, op>;
  case Type::B64:
  case Type::U64: return count<std::uint64_t, op>;
  case Type::S64: return count<std::int64_t, op>;
  default: return nullptr;
  }
}

template <bool add>
Handler wideHandler(Type type) {
  switch (type) {
  case Type::U16: return wide<std::uint16_t, add>;
  case Type::S16: return wide<std::int16_t, add>;
  case Type::U32: return wide<std::uint32_t, add>;
  case Type::S32: return wide<std::int32_t, add>;
  default: return nullptr;
  }
}

template <Op op>
Handler pairHandler(Type type) {
  return type == Type::S16x2 ? pairs<std::int16_t, op> : pairs<std::uint16_t, op>;
}

Type widened(Type type) {
  switch (type) {
  case Type::U16: return Type::U32;
  case Type::S16: return Type::S32;
  case Type::U32: return Type::U64;
  case Type::S32: return Type::S64;
  default: return Type::None;
  }
}

void setHandler(Selection &s, Handler handler) {
  if (!handler)
    s.refuse("'" + std::string(s.statement.name) + "' has a type that is not executed");
  s.result.run = handler;
}

void operands(Selection &s, Type type, std::size_t sources) {
  s.expect(sources + 1);
  s.result.d = s.destination(0, type);
  Slot *slots[] = {&s.result.a, &s.result.b, &s.result.c};
  for (std::size_t i = 0; i < sources; ++i)
    *slots[i] = s.source(i + 1, type);
}

bool isPair(Type type) {
  return type == Type::S16x2 || type == Type::U16x2;
}

template <Op op>
Handler extendedHandler(Type type) {
  switch (type) {
  case Type::U32: return extended<std::uint32_t, op>;
  case Type::S32: return extended<std::int32_t, op>;
  case Type::U64: return extended<std::uint64_t, op>;
  case Type::S64: return extended<std::int64_t, op>;
  default: return nullptr;
  }
}

/// add, addc, sub, subc, mad and madc where they take or leave a carry; `leaves`: it has .cc.
bool selectExtended(Selection &s, Type type, bool leaves) {
  const std::string_view base = s.base();
  const bool isProduct = base.substr(0, 3) == "mad";
  s.result.detail = (base.back() == 'c' ? takesCarry : 0) | (leaves ? leavesCarry : 0);
  if (isProduct) {
    const int part = s.takeOne({"lo", "hi"});
    if (part < 0)
      s.refuse("a product with a carry is .lo or .hi");
    setHandler(s, part ? extendedHandler<Op::MultiplyAddHigh>(type) : extendedHandler<Op::MultiplyAdd>(type));
  } else {
    setHandler(s, base.substr(0, 3) == "add" ? extendedHandler<Op::Add>(type)
                                             : extendedHandler<Op::Subtract>(type));
  }
  operands(s, type, isProduct ? 3 : 2);
  return true;
}

bool selectSum(Selection &s, Type type) {
  std::string_view base = s.base();
  if (isPair(type)) {
    if (base == "sub")
      return false;
    setHandler(s, base == "add"   ? pairHandler<Op::Add>(type)
                  : base == "min" ? pairHandler<Op::Minimum>(type)
                                  : pairHandler<Op::Maximum>(type));
    operands(s, type, 2);
    return true;
  }
  bool saturate = (base == "add" || base == "sub") && s.take("sat");
  Op op = base == "add"   ? (saturate ? Op::AddSaturated : Op::Add)
          : base == "sub" ? (saturate ? Op::SubtractSaturated : Op::Subtract)
          : base == "min" ? Op::Minimum
          : base == "max" ? Op::Maximum
          : base == "div" ? Op::Divide
                          : Op::Remainder;
  setHandler(s, handlerOf(op, type));
  operands(s, type, 2);
  return true;
}

bool selectProduct(Selection &s, Type type) {
  bool add = s.base() == "mad";
  if (s.take("wide")) {
    setHandler(s, add ? wideHandler<true>(type) : wideHandler<false>(type));
    s.expect(add ? 4 : 3);
    s.result.d = s.destination(0, widened(type));
    s.result.a = s.source(1, type);
    s.result.b = s.source(2, type);
    if (add)
      s.result.c = s.source(3, widened(type));
    return true;
  }
  int part = s.takeOne({"lo", "hi"});
  if (part < 0)
    s.refuse("a product of integers is .lo, .hi or .wide");
  Op op = add ? (part ? Op::MultiplyAddHigh : Op::MultiplyAdd) : part ? Op::MultiplyHigh : Op::Multiply;
  setHandler(s, handlerOf(op, type));
  operands(s, type, add ? 3 : 2);
  return true;
}

bool selectLogic(Selection &s, Type type) {
  std::string_view base = s.base();
  Op op = base == "and"   ? Op::And
          : base == "or"  ? Op::Or
          : base == "xor" ? Op::Xor
          : base == "not" ? Op::Not
                          : Op::CNot;
  bool one = op == Op::Not || op == Op::CNot;
  if (type == Type::Pred) {
    bool left = false, right = false;
    s.expect(one ? 2 : 3);
    s.result.d = s.predicateDestination(s.operand(0).name);
    s.result.a = s.predicate(s.operand(1), left);
    if (!one)
      s.result.b = s.predicate(s.operand(2), right);
    s.result.detail = left | right << 1;
    s.result.immediate = static_cast<std::int64_t>(op);
    s.result.run = logicalPredicate;
    return true;
  }
  setHandler(s, handlerOf(op, type));
  operands(s, type, one ? 1 : 2);
  return true;
}

bool selectShift(Selection &s) {
  if (s.base() == "shf") {
    bool left = s.takeOne({"l", "r"}) == 0, clamp = s.takeOne({"wrap", "clamp"}) == 1;
    setHandler(s, handlerOf(left    ? (clamp ? Op::FunnelLeftClamp : Op::FunnelLeftWrap)
                            : clamp ? Op::FunnelRightClamp
                                    : Op::FunnelRightWrap,
                            s.takeType()));
    operands(s, Type::B32, 3);
    return true;
  }
  Type type = s.takeType();
  setHandler(s, handlerOf(s.base() == "shl" ? Op::ShiftLeft : Op::ShiftRight, type));
  s.expect(3);
  s.result.d = s.destination(0, type);
  s.result.a = s.source(1, type);
  s.result.b = s.source(2, Type::U32);
  return true;
}

bool selectBits(Selection &s) {
  std::string_view base = s.base();
  bool shift = base == "bfind" && s.take("shiftamt");
  Type type = s.takeType();
  if (base == "brev") {
    setHandler(s, bytesOf(type) >= 4 ? handlerOf(Op::Reverse, type) : nullptr);
    operands(s, type, 1);
    return true;
  }
  if (base == "bfe" || base == "bfi") {
    bool insert = base == "bfi";
    setHandler(s,
               bytesOf(type) >= 4 ? handlerOf(insert ? Op::InsertField : Op::ExtractField, type) : nullptr);
    s.expect(insert ? 5 : 4);
    s.result.d = s.destination(0, type);
    s.result.a = s.source(1, type);
    s.result.b = s.source(2, insert ? type : Type::U32);
    s.result.c = s.source(3, Type::U32);
    if (insert)
      s.result.e = s.source(4, Type::U32);
    return true;
  }
  setHandler(s, base == "popc"  ? countHandler<Op::CountOnes>(type)
                : base == "clz" ? countHandler<Op::LeadingZeros>(type)
                : shift         ? countHandler<Op::FindShift>(type)
                                : countHandler<Op::FindHighest>(type));
  s.expect(2);
  s.result.d = s.destination(0, Type::U32);
  s.result.a = s.source(1, type);
  return true;
}

bool selectTernary(Selection &s) {
  std::string_view base = s.base();
  if (base == "lop3") {
    setHandler(s, handlerOf(Op::Logic, s.takeType()));
    s.expect(5);
    s.result.d = s.destination(0, Type::B32);
    s.result.a = s.source(1, Type::B32);
    s.result.b = s.source(2, Type::B32);
    s.result.c = s.source(3, Type::B32);
    s.result.detail = static_cast<std::uint32_t>(s.number(4));
    return true;
  }
  if (base == "prmt") {
    s.takeType();
    s.result.run = permute;
    operands(s, Type::B32, 3);
    return true;
  }
  if (base == "dp4a") {
    Type left = s.takeType(), right = s.takeType();
    s.result.detail = isSigned(left) | isSigned(right) << 1;
    s.result.run = dotBytes;
    operands(s, Type::B32, 3);
    return true;
  }
  bool add = base == "mad24", high = s.takeOne({"lo", "hi"}) == 1;
  setHandler(s, handlerOf(add    ? (high ? Op::MultiplyAdd24High : Op::MultiplyAdd24)
                          : high ? Op::Multiply24High
                                 : Op::Multiply24,
                          s.takeType()));
  operands(s, Type::B32, add ? 3 : 2);
  return true;
}

bool among(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The type of the instruction if it is one of integers; else None, and nothing is taken.
Type integerType(Selection &s) {
  constexpr std::pair<std::string_view, Type> types[] = {
      {"u16", Type::U16}, {"u32", Type::U32}, {"u64", Type::U64},     {"s16", Type::S16},
      {"s32", Type::S32}, {"s64", Type::S64}, {"s16x2", Type::S16x2}, {"u16x2", Type::U16x2}};
  for (const auto &[name, type] : types)
    if (s.take(name))
      return type;
  return Type::None;
}

} // namespace

bool selectInteger(Selection &s) {
  std::string_view base = s.base();
  if (among(base, {"add", "addc", "sub", "subc", "mad", "madc"}))
    if (const bool leaves = s.take("cc"); leaves || base.back() == 'c')
      return selectExtended(s, integerType(s), leaves);
  if (among(base, {"add", "sub", "min", "max", "div", "rem"})) {
    Type type = integerType(s);
    return type != Type::None && selectSum(s, type);
  }
  if (among(base, {"mul", "mad"})) {
    Type type = integerType(s);
    return type != Type::None && selectProduct(s, type);
  }
  if (among(base, {"abs", "neg"})) {
    Type type = integerType(s);
    if (type == Type::None)
      return false;
    setHandler(s, handlerOf(base == "abs" ? Op::Absolute : Op::Negate, type));
    operands(s, type, 1);
    return true;
  }
  if (among(base, {"and", "or", "xor", "not", "cnot"}))
    return selectLogic(s, s.takeType());
  if (among(base, {"shl", "shr", "shf"}))
    return selectShift(s);
  if (among(base, {"popc", "clz", "brev", "bfind", "bfe", "bfi"}))
    return selectBits(s);
  if (among(base, {"lop3", "prmt", "dp4a", "mul24", "mad24"}))
    return selectTernary(s);
  return false;
}

} // namespace colossal::ptx
