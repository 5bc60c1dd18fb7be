// Comparisons, selection by predicates, and moves.
#include "Block.h"
#include "Decode.h"
#include "Values.h"

namespace colossal::ptx {
namespace {

enum class Comparison : std::uint8_t { Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan };
enum class Combine : std::uint8_t { None, And, Or, Xor };

// Instruction::detail of comparisons: the comparison in bits 0-7, how it is combined with predicate `c` in
// 8-11, whether c is negated in 12, flushing in 13.
constexpr std::uint32_t kNegatedThird = 1 << 12, kFlush = 1 << 13;

template <class T, class F>
std::uint32_t lanesWhere(const T *a, const T *b, F holds) {
  std::uint32_t bits = 0;
  for (unsigned l = 0; l < kLanes; ++l)
    bits |= std::uint32_t(holds(a[l], b[l])) << l;
  return bits;
}

template <class T>
std::uint32_t compareLanes(Comparison comparison, const T *a, const T *b) {
  switch (comparison) {
  case Comparison::Eq: return lanesWhere(a, b, [](T x, T y) { return x == y; });
  case Comparison::Ne: return lanesWhere(a, b, [](T x, T y) { return x < y || x > y; });
  case Comparison::Lt: return lanesWhere(a, b, [](T x, T y) { return x < y; });
  case Comparison::Le: return lanesWhere(a, b, [](T x, T y) { return x <= y; });
  case Comparison::Gt: return lanesWhere(a, b, [](T x, T y) { return x > y; });
  case Comparison::Ge: return lanesWhere(a, b, [](T x, T y) { return x >= y; });
  case Comparison::Equ: return lanesWhere(a, b, [](T x, T y) { return !(x < y || x > y); });
  case Comparison::Neu: return lanesWhere(a, b, [](T x, T y) { return !(x == y); });
  case Comparison::Ltu: return lanesWhere(a, b, [](T x, T y) { return !(x >= y); });
  case Comparison::Leu: return lanesWhere(a, b, [](T x, T y) { return !(x > y); });
  case Comparison::Gtu: return lanesWhere(a, b, [](T x, T y) { return !(x <= y); });
  case Comparison::Geu: return lanesWhere(a, b, [](T x, T y) { return !(x < y); });
  case Comparison::Num: return lanesWhere(a, b, [](T x, T y) { return x == x && y == y; });
  case Comparison::Nan: return lanesWhere(a, b, [](T x, T y) { return x != x || y != y; });
  }
  return 0;
}

std::uint32_t combined(Warp &warp, const Instruction &i, std::uint32_t bits) {
  std::uint32_t third = i.c == kNoSlot ? 0 : warp.readPredicate(i.c);
  third = i.detail & kNegatedThird ? ~third : third;
  switch (static_cast<Combine>(i.detail >> 8 & 15)) {
  case Combine::And: return bits & third;
  case Combine::Or: return bits | third;
  case Combine::Xor: return bits ^ third;
  case Combine::None: break;
  }
  return bits;
}

/// The second predicate, where there is one, gets the opposite comparison combined in the same way.
void writeBoth(Warp &warp, const Instruction &i, std::uint32_t mask, std::uint32_t bits) {
  std::uint32_t first = combined(warp, i, bits), second = combined(warp, i, ~bits);
  warp.writePredicate(i.d, mask, first);
  if (i.e != kNoSlot)
    warp.writePredicate(i.e, mask, second);
}

template <class T>
void compare(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const T *a = warp.read<T>(i.a), *b = warp.read<T>(i.b);
  Comparison comparison = static_cast<Comparison>(i.detail & 255);
  if constexpr (std::is_same_v<T, float>)
    if (i.detail & kFlush) {
      float x[kLanes], y[kLanes];
      for (unsigned l = 0; l < kLanes; ++l) {
        x[l] = std::abs(a[l]) < 0x1p-126f ? 0 : a[l];
        y[l] = std::abs(b[l]) < 0x1p-126f ? 0 : b[l];
      }
      return writeBoth(warp, i, mask, compareLanes(comparison, x, y));
    }
  writeBoth(warp, i, mask, compareLanes(comparison, a, b));
}

/// Halves of part `part` of each lane, of `packed`, as floats.
template <const Format &format>
void widen(const std::uint16_t *from, unsigned part, unsigned packed, float *to) {
  for (unsigned l = 0; l < kLanes; ++l)
    to[l] = &format == &kHalf ? halfToFloat(from[l * packed + part]) : bfloatToFloat(from[l * packed + part]);
}

/// Of a pair, d gets the comparison of the low halves and e that of the high ones.
template <const Format &format, unsigned packed>
void compareNarrow(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const std::uint16_t *a = warp.read<std::uint16_t>(i.a), *b = warp.read<std::uint16_t>(i.b);
  float x[kLanes], y[kLanes];
  widen<format>(a, 0, packed, x);
  widen<format>(b, 0, packed, y);
  Comparison comparison = static_cast<Comparison>(i.detail & 255);
  std::uint32_t low = compareLanes(comparison, x, y);
  if (packed == 1)
    return writeBoth(warp, i, mask, low);
  widen<format>(a, packed - 1, packed, x);
  widen<format>(b, packed - 1, packed, y);
  std::uint32_t high = combined(warp, i, compareLanes(comparison, x, y));
  warp.writePredicate(i.d, mask, combined(warp, i, low));
  if (i.e != kNoSlot)
    warp.writePredicate(i.e, mask, high);
}

/// set of pairs of halves: one, or all bits, in each half; immediate is what stands for true.
template <const Format &format>
void setPairs(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const std::uint16_t *a = warp.read<std::uint16_t>(i.a), *b = warp.read<std::uint16_t>(i.b);
  std::uint32_t bits[2];
  for (unsigned part = 0; part < 2; ++part) {
    float x[kLanes], y[kLanes];
    widen<format>(a, part, 2, x);
    widen<format>(b, part, 2, y);
    bits[part] = combined(warp, i, compareLanes(static_cast<Comparison>(i.detail & 255), x, y));
  }
  std::uint32_t truth = static_cast<std::uint32_t>(i.immediate);
  warp.write<std::uint32_t>(i.d, mask, [&](unsigned l) {
    return (bits[0] >> l & 1 ? truth : 0) | (bits[1] >> l & 1 ? truth << 16 : 0);
  });
}

/// set: like setp, into a register; immediate is what stands for true.
template <class T, class R>
void set(Warp &warp, const Instruction &i, std::uint32_t mask) {
  std::uint32_t bits;
  if constexpr (std::is_same_v<T, std::uint16_t>) {
    const std::uint16_t *a = warp.read<std::uint16_t>(i.a), *b = warp.read<std::uint16_t>(i.b);
    float x[kLanes], y[kLanes];
    bool half = i.e == 0;
    half ? widen<kHalf>(a, 0, 1, x) : widen<kBFloat>(a, 0, 1, x);
    half ? widen<kHalf>(b, 0, 1, y) : widen<kBFloat>(b, 0, 1, y);
    bits = compareLanes(static_cast<Comparison>(i.detail & 255), x, y);
  } else {
    bits = compareLanes(static_cast<Comparison>(i.detail & 255), warp.read<T>(i.a), warp.read<T>(i.b));
  }
  bits = combined(warp, i, bits);
  R truth = static_cast<R>(i.immediate);
  warp.write<R>(i.d, mask, [=](unsigned l) { return bits >> l & 1 ? truth : R(0); });
}

template <class T>
void select(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const T *a = warp.read<T>(i.a), *b = warp.read<T>(i.b);
  std::uint32_t bits = warp.readPredicate(i.c);
  bits = i.detail & kNegatedThird ? ~bits : bits;
  warp.write<T>(i.d, mask, [=](unsigned l) { return bits >> l & 1 ? a[l] : b[l]; });
}

/// slct: by the sign of c.
template <class T, class C>
void selectBySign(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const T *a = warp.read<T>(i.a), *b = warp.read<T>(i.b);
  const C *c = warp.read<C>(i.c);
  warp.write<T>(i.d, mask, [=](unsigned l) { return c[l] >= 0 ? a[l] : b[l]; });
}

template <class T>
void move(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const T *a = warp.read<T>(i.a);
  warp.write<T>(i.d, mask, [=](unsigned l) { return a[l]; });
}

void movePredicate(Warp &warp, const Instruction &i, std::uint32_t mask) {
  std::uint32_t bits = warp.readPredicate(i.a);
  warp.writePredicate(i.d, mask, i.detail ? ~bits : bits);
}

/// The address of what lies in the frame.
template <class T>
void moveFrameAddress(Warp &warp, const Instruction &i, std::uint32_t mask) {
  T address = static_cast<T>(warp.frame().local + static_cast<std::uint64_t>(i.immediate));
  warp.write<T>(i.d, mask, [=](unsigned) { return address; });
}

template <class T>
void moveClock(Warp &warp, const Instruction &i, std::uint32_t mask) {
  T now = static_cast<T>(warp.warpInstructions);
  warp.write<T>(i.d, mask, [=](unsigned) { return now; });
}

/// A register of `detail` bytes from the parts in the list.
void pack(Warp &warp, const Instruction &i, std::uint32_t mask) {
  unsigned bytes = i.detail, part = bytes / i.count;
  std::uint64_t result[kLanes] = {};
  for (unsigned p = 0; p < i.count; ++p) {
    const std::byte *from = warp.read<std::byte>(warp.program.lists[i.list + p]);
    for (unsigned l = 0; l < kLanes; ++l)
      std::memcpy(reinterpret_cast<std::byte *>(&result[l]) + p * part, from + l * part, part);
  }
  if (bytes == 8)
    warp.write<std::uint64_t>(i.d, mask, [&](unsigned l) { return result[l]; });
  else
    warp.write<std::uint32_t>(i.d, mask, [&](unsigned l) { return static_cast<std::uint32_t>(result[l]); });
}

void unpack(Warp &warp, const Instruction &i, std::uint32_t mask) {
  unsigned bytes = i.detail, part = bytes / i.count;
  std::uint64_t source[kLanes] = {};
  const std::byte *from = warp.read<std::byte>(i.a);
  for (unsigned l = 0; l < kLanes; ++l)
    std::memcpy(&source[l], from + l * bytes, bytes);
  for (unsigned p = 0; p < i.count; ++p) {
    Slot d = warp.program.lists[i.list + p];
    if (part == 4)
      warp.write<std::uint32_t>(
          d, mask, [&](unsigned l) { return static_cast<std::uint32_t>(source[l] >> (32 * p)); });
    else
      warp.write<std::uint16_t>(
          d, mask, [&](unsigned l) { return static_cast<std::uint16_t>(source[l] >> (16 * p)); });
  }
}

Comparison takeComparison(Selection &s, Type &type) {
  constexpr std::pair<std::string_view, Comparison> names[] = {
      {"eq", Comparison::Eq},   {"ne", Comparison::Ne},   {"lt", Comparison::Lt},   {"le", Comparison::Le},
      {"gt", Comparison::Gt},   {"ge", Comparison::Ge},   {"equ", Comparison::Equ}, {"neu", Comparison::Neu},
      {"ltu", Comparison::Ltu}, {"leu", Comparison::Leu}, {"gtu", Comparison::Gtu}, {"geu", Comparison::Geu},
      {"num", Comparison::Num}, {"nan", Comparison::Nan}, {"lo", Comparison::Lt},   {"ls", Comparison::Le},
      {"hi", Comparison::Gt},   {"hs", Comparison::Ge}};
  for (const auto &[name, comparison] : names)
    if (s.take(name)) {
      type = s.takeType();
      return comparison;
    }
  s.refuse("a comparison is missing");
}

Combine takeCombine(Selection &s) {
  return static_cast<Combine>(s.takeOne({"and", "or", "xor"}) + 1);
}

Handler compareHandler(Type type) {
  switch (type) {
  case Type::B16:
  case Type::U16: return compare<std::uint16_t>;
  case Type::S16: return compare<std::int16_t>;
  case Type::B32:
  case Type::U32: return compare<std::uint32_t>;
  case Type::S32: return compare<std::int32_t>;
  case Type::B64:
  case Type::U64: return compare<std::uint64_t>;
  case Type::S64: return compare<std::int64_t>;
  case Type::F32: return compare<float>;
  case Type::F64: return compare<double>;
  case Type::F16: return compareNarrow<kHalf, 1>;
  case Type::BF16: return compareNarrow<kBFloat, 1>;
  case Type::F16x2: return compareNarrow<kHalf, 2>;
  case Type::BF16x2: return compareNarrow<kBFloat, 2>;
  default: return nullptr;
  }
}

template <class R>
Handler setHandler(Type type) {
  switch (type) {
  case Type::B32:
  case Type::U32: return set<std::uint32_t, R>;
  case Type::S32: return set<std::int32_t, R>;
  case Type::B64:
  case Type::U64: return set<std::uint64_t, R>;
  case Type::S64: return set<std::int64_t, R>;
  case Type::F32: return set<float, R>;
  case Type::F64: return set<double, R>;
  case Type::F16:
  case Type::BF16: return set<std::uint16_t, R>;
  default: return nullptr;
  }
}

void comparisonOperands(Selection &s, Type type, Comparison comparison, Combine combine) {
  s.result.detail |= static_cast<std::uint32_t>(comparison) | static_cast<std::uint32_t>(combine) << 8;
  s.expect(combine == Combine::None ? 3 : 4);
  s.result.a = s.source(1, type);
  s.result.b = s.source(2, type);
  if (combine == Combine::None)
    return;
  bool negated = false;
  s.result.c = s.predicate(s.operand(3), negated);
  s.result.detail |= negated ? kNegatedThird : 0;
}

bool selectSetp(Selection &s) {
  Type type = Type::None;
  Combine combine = takeCombine(s);
  s.result.detail = s.take("ftz") ? kFlush : 0;
  Comparison comparison = takeComparison(s, type);
  s.result.run = compareHandler(type);
  if (!s.result.run)
    s.refuse("comparisons of this type are not executed");
  comparisonOperands(s, type, comparison, combine);
  // In "p|q" the second takes the opposite, or the high halves.
  const Operand &to = s.operand(0);
  s.result.d = s.predicateDestination(to.name);
  if (!to.second.empty())
    s.result.e = s.predicateDestination(to.second);
  return true;
}

bool selectSet(Selection &s) {
  Type to = Type::None, from;
  Combine combine = takeCombine(s);
  s.take("ftz");
  Comparison comparison = takeComparison(s, to);
  from = s.takeType();
  comparisonOperands(s, from, comparison, combine);
  s.result.d = s.destination(0, to);
  if (from == Type::F16x2 || from == Type::BF16x2) {
    s.result.immediate = to == Type::F16x2 ? 0x3c00 : to == Type::BF16x2 ? 0x3f80 : 0xffff;
    s.result.run = from == Type::F16x2 ? setPairs<kHalf> : setPairs<kBFloat>;
    return true;
  }
  if (from == Type::F16 || from == Type::BF16)
    s.result.e = from == Type::F16 ? 0 : 1;
  if (bytesOf(to) == 4) {
    s.result.immediate = to == Type::F32 ? 0x3f800000 : 0xffffffff;
    s.result.run = setHandler<std::uint32_t>(from);
  } else if (to == Type::F16 || to == Type::BF16) {
    s.result.immediate = to == Type::F16 ? 0x3c00 : 0x3f80;
    s.result.run = setHandler<std::uint16_t>(from);
  }
  if (!s.result.run)
    s.refuse("set of these types is not executed");
  return true;
}

bool selectSelp(Selection &s) {
  Type type = s.takeType();
  s.expect(4);
  s.result.d = s.destination(0, type);
  s.result.a = s.source(1, type);
  s.result.b = s.source(2, type);
  bool negated = false;
  s.result.c = s.predicate(s.operand(3), negated);
  s.result.detail = negated ? kNegatedThird : 0;
  s.result.run = bytesOf(type) == 2   ? select<std::uint16_t>
                 : bytesOf(type) == 4 ? select<std::uint32_t>
                                      : select<std::uint64_t>;
  return true;
}

bool selectSlct(Selection &s) {
  s.take("ftz");
  Type type = s.takeType(), by = s.takeType();
  s.expect(4);
  s.result.d = s.destination(0, type);
  s.result.a = s.source(1, type);
  s.result.b = s.source(2, type);
  s.result.c = s.source(3, by);
  bool single = by == Type::F32;
  s.result.run =
      bytesOf(type) == 4
          ? (single ? selectBySign<std::uint32_t, float> : selectBySign<std::uint32_t, std::int32_t>)
      : bytesOf(type) == 8
          ? (single ? selectBySign<std::uint64_t, float> : selectBySign<std::uint64_t, std::int32_t>)
          : nullptr;
  if (!s.result.run)
    s.refuse("slct of this type is not executed");
  return true;
}

bool selectVectorMove(Selection &s, Type type) {
  bool packs = s.operand(1).kind == Operand::Vector;
  const Operand &vector = s.operand(packs ? 1 : 0);
  std::size_t parts = vector.elements.size();
  unsigned bytes = bytesOf(type);
  if (parts < 2 || bytes % parts || bytes / parts < 2)
    s.refuse("this move of a vector is not executed");
  Type part = bytes / parts == 2 ? Type::B16 : Type::B32;
  for (const Operand &element : vector.elements)
    s.append(packs                           ? s.source(element, part)
             : element.kind == Operand::Sink ? 0
                                             : s.destination(element, part));
  s.result.detail = bytes;
  if (packs)
    s.result.d = s.destination(0, type);
  else
    s.result.a = s.source(1, type);
  s.result.run = packs ? pack : unpack;
  return true;
}

bool selectMove(Selection &s) {
  Type type = s.takeType();
  s.expect(2);
  if (type == Type::Pred) {
    bool negated = false;
    s.result.d = s.predicateDestination(s.operand(0).name);
    s.result.a = s.predicate(s.operand(1), negated);
    s.result.detail = negated;
    s.result.run = movePredicate;
    return true;
  }
  if (s.operand(0).kind == Operand::Vector || s.operand(1).kind == Operand::Vector)
    return selectVectorMove(s, type);
  s.result.d = s.destination(0, type);
  unsigned bytes = bytesOf(type);
  if (s.isClock(s.operand(1))) {
    s.result.run = bytes == 8 ? moveClock<std::uint64_t> : moveClock<std::uint32_t>;
    return true;
  }
  const Operand &from = s.operand(1);
  const Symbol *symbol = from.kind == Operand::Name ? s.symbol(from.name) : nullptr;
  if (symbol) {
    if (bytes < 4)
      s.refuse("an address needs 4 or 8 bytes");
    std::uint64_t address = symbol->address + static_cast<std::uint64_t>(from.value);
    if (symbol->space == Space::Local) {
      s.result.immediate = static_cast<std::int64_t>(address);
      s.result.run = bytes == 8 ? moveFrameAddress<std::uint64_t> : moveFrameAddress<std::uint32_t>;
      return true;
    }
    Operand number;
    number.kind = Operand::Integer;
    number.value = static_cast<std::int64_t>(address);
    s.result.a = s.source(number, type);
  } else {
    s.result.a = s.source(1, type);
  }
  s.result.run = bytes == 2 ? move<std::uint16_t> : bytes == 4 ? move<std::uint32_t> : move<std::uint64_t>;
  return true;
}

} // namespace

bool selectCompare(Selection &s) {
  std::string_view base = s.base();
  if (base == "setp")
    return selectSetp(s);
  if (base == "set")
    return selectSet(s);
  if (base == "selp")
    return selectSelp(s);
  if (base == "slct")
    return selectSlct(s);
  if (base == "mov")
    return selectMove(s);
  return false;
}

} // namespace colossal::ptx
