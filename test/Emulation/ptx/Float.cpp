// Floating-point arithmetic of all types, packed pairs included, and the approximate functions.
#include "Block.h"
#include "Decode.h"
#include "Values.h"

#include <algorithm>
#include <limits>

namespace colossal::ptx {
namespace {

// Instruction::detail: these flags, and the rounding from bit 8.
constexpr std::uint32_t kFlush = 1, kSaturate = 2, kRelu = 4, kNan = 8, kXorSign = 16, kAbsolute = 32;
constexpr unsigned kRoundingShift = 8;

enum class Op : std::uint8_t {
  Add,
  Subtract,
  Multiply,
  Fma,
  Divide,
  SquareRoot,
  Reciprocal,
  Minimum,
  Maximum,
  Absolute,
  Negate
};

// How the values of a register are held and computed with. `Raw` repeats `packed` times in a lane; `compute`
// results are rounded once by `store`.
struct Single {
  using Raw = float;
  using Compute = float;
  static constexpr unsigned packed = 1;
  static constexpr float smallest = 0x1p-126f;
  static float load(float raw) { return raw; }
  static float store(float value) { return value != value ? bitCast<float>(0x7fffffffu) : value; }
  static float add(float a, float b) { return a + b; }
  static float fma(float a, float b, float c) { return std::fma(a, b, c); }
};
struct SinglePair : Single {
  static constexpr unsigned packed = 2;
};
struct Double {
  using Raw = double;
  using Compute = double;
  static constexpr unsigned packed = 1;
  static constexpr double smallest = 0x1p-1022;
  static double load(double raw) { return raw; }
  static double store(double value) { return value; }
  static double add(double a, double b) { return a + b; }
  static double fma(double a, double b, double c) { return std::fma(a, b, c); }
};
struct Half {
  using Raw = std::uint16_t;
  using Compute = double;
  static constexpr unsigned packed = 1;
  static constexpr double smallest = 0x1p-14;
  static constexpr const Format &format = kHalf;
  static double load(std::uint16_t raw) { return halfToFloat(raw); }
  static std::uint16_t store(double value) { return static_cast<std::uint16_t>(encode(value, kHalf)); }
  static double add(double a, double b) { return addToOdd(a, b); }
  static double fma(double a, double b, double c) { return fmaToOdd(a, b, c); }
};
struct HalfPair : Half {
  static constexpr unsigned packed = 2;
};
struct BFloat : Half {
  static constexpr double smallest = 0x1p-126;
  static constexpr const Format &format = kBFloat;
  static double load(std::uint16_t raw) { return bfloatToFloat(raw); }
  static std::uint16_t store(double value) { return static_cast<std::uint16_t>(encode(value, kBFloat)); }
};
struct BFloatPair : BFloat {
  static constexpr unsigned packed = 2;
};

template <class T>
T flushed(T value, T smallest) {
  return std::abs(value) < smallest ? std::copysign(T(0), value) : value;
}

template <Op op, class T>
T extreme(T a, T b, std::uint32_t flags) {
  if (a != a || b != b) {
    if (flags & kNan || (a != a && b != b))
      return std::numeric_limits<T>::quiet_NaN();
    return a != a ? b : a;
  }
  T left = flags & kAbsolute ? std::abs(a) : a, right = flags & kAbsolute ? std::abs(b) : b;
  // Minus zero is less than zero.
  bool first = left == right ? std::signbit(left) : left < right;
  T result = (op == Op::Minimum) == first ? left : right;
  if (flags & kXorSign)
    result = std::signbit(a) != std::signbit(b) ? -std::abs(result) : std::abs(result);
  return result;
}

constexpr Directed directedOf(Op op) {
  switch (op) {
  case Op::Multiply: return Directed::Multiply;
  case Op::Fma: return Directed::Fma;
  case Op::Divide: return Directed::Divide;
  case Op::SquareRoot: return Directed::SquareRoot;
  case Op::Reciprocal: return Directed::Reciprocal;
  default: return Directed::Add;
  }
}

template <class E, Op op>
typename E::Compute evaluate(typename E::Compute a, typename E::Compute b, typename E::Compute c,
                             std::uint32_t flags) {
  using T = typename E::Compute;
  if constexpr (op == Op::Add)
    return E::add(a, b);
  if constexpr (op == Op::Subtract)
    return E::add(a, -b);
  if constexpr (op == Op::Multiply)
    return a * b;
  if constexpr (op == Op::Fma)
    return E::fma(a, b, c);
  if constexpr (op == Op::Divide)
    return a / b;
  if constexpr (op == Op::SquareRoot)
    return std::sqrt(a);
  if constexpr (op == Op::Reciprocal)
    return T(1) / a;
  if constexpr (op == Op::Absolute)
    return std::abs(a);
  if constexpr (op == Op::Negate)
    return -a;
  return extreme<op, T>(a, b, flags);
}

/// The plain case, which loops without a branch: to nearest, nothing flushed, nothing clamped.
template <class E, Op op>
void plain(Warp &warp, const Instruction &i, std::uint32_t mask) {
  using Raw = typename E::Raw;
  const Raw *a = warp.read<Raw>(i.a);
  const Raw *b = i.b == kNoSlot ? a : warp.read<Raw>(i.b);
  const Raw *c = i.c == kNoSlot ? a : warp.read<Raw>(i.c);
  using Lane = std::array<Raw, E::packed>;
  Lane result[kLanes];
  std::uint32_t flags = i.detail;
  for (unsigned j = 0; j < kLanes * E::packed; ++j)
    result[j / E::packed][j % E::packed] =
        E::store(evaluate<E, op>(E::load(a[j]), E::load(b[j]), E::load(c[j]), flags));
  warp.write<Lane>(i.d, mask, [&](unsigned l) { return result[l]; });
}

template <class E, Op op>
void general(Warp &warp, const Instruction &i, std::uint32_t mask) {
  using Raw = typename E::Raw;
  using T = typename E::Compute;
  const Raw *a = warp.read<Raw>(i.a);
  const Raw *b = i.b == kNoSlot ? a : warp.read<Raw>(i.b);
  const Raw *c = i.c == kNoSlot ? a : warp.read<Raw>(i.c);
  Rounding rounding = static_cast<Rounding>(i.detail >> kRoundingShift);
  auto in = [&](Raw raw) {
    T value = E::load(raw);
    return i.detail & kFlush ? flushed(value, static_cast<T>(E::smallest)) : value;
  };
  using Lane = std::array<Raw, E::packed>;
  Lane result[kLanes];
  for (unsigned j = 0; j < kLanes * E::packed; ++j) {
    T x = in(a[j]), y = in(b[j]), z = in(c[j]), value;
    if (rounding == Rounding::NearestEven ||
        (op != Op::Add && op != Op::Subtract && directedOf(op) == Directed::Add))
      value = evaluate<E, op>(x, y, z, i.detail);
    else
      value = directed(directedOf(op), rounding, x, op == Op::Subtract ? -y : y, z);
    if (op == Op::Minimum || op == Op::Maximum) {
      if (i.c != kNoSlot)
        value = extreme<op, T>(value, z, i.detail);
    }
    if (i.detail & kFlush)
      value = flushed(value, static_cast<T>(E::smallest));
    // NaN becomes zero.
    if (i.detail & kSaturate)
      value = value > 0 ? std::min(value, T(1)) : T(0);
    if (i.detail & kRelu)
      value = value != value ? value : std::max(value, T(0));
    result[j / E::packed][j % E::packed] = E::store(value);
  }
  warp.write<Lane>(i.d, mask, [&](unsigned l) { return result[l]; });
}

/// add, sub and fma in single precision whose first operands are narrower: widening them is exact.
template <class Narrow, Op op>
void mixed(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const std::uint16_t *a = warp.read<std::uint16_t>(i.a);
  const std::uint16_t *b = op == Op::Fma ? warp.read<std::uint16_t>(i.b) : a;
  const float *c = warp.read<float>(i.c);
  Rounding rounding = static_cast<Rounding>(i.detail >> kRoundingShift);
  bool saturate = i.detail & kSaturate;
  warp.write<float>(i.d, mask, [=](unsigned l) {
    float x = static_cast<float>(Narrow::load(a[l])),
          y = op == Op::Fma ? static_cast<float>(Narrow::load(b[l])) : 1;
    // A sum is the product by one, and more.
    float value = directed(Directed::Fma, rounding, x, y, op == Op::Subtract ? -c[l] : c[l]);
    return Single::store(saturate ? (value > 0 ? std::min(value, 1.0f) : 0) : value);
  });
}

/// Signs are bits, of NaN too; `immediate` has the bits.
template <class U, bool negate>
void signs(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const U *a = warp.read<U>(i.a);
  U bits = static_cast<U>(i.immediate);
  warp.write<U>(i.d, mask, [=](unsigned l) { return static_cast<U>(negate ? a[l] ^ bits : a[l] & ~bits); });
}

template <class U>
void copySign(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const U *a = warp.read<U>(i.a), *b = warp.read<U>(i.b);
  constexpr U sign = U(1) << (sizeof(U) * 8 - 1);
  warp.write<U>(i.d, mask, [=](unsigned l) { return (a[l] & sign) | (b[l] & ~sign); });
}

/// Approximate functions of single precision; `immediate` says which.
void approximateSingle(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const float *a = warp.read<float>(i.a);
  bool flush = i.detail & kFlush;
  Approximate function = static_cast<Approximate>(i.immediate);
  float result[kLanes] = {};
  for (unsigned l = 0; l < kLanes; ++l)
    if (mask >> l & 1) {
      float value = approximate(function, flush ? flushed(a[l], 0x1p-126f) : a[l]);
      result[l] = flush ? flushed(value, 0x1p-126f) : value;
    }
  warp.write<float>(i.d, mask, [&](unsigned l) { return result[l]; });
}

template <class E>
void approximateNarrowly(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const std::uint16_t *a = warp.read<std::uint16_t>(i.a);
  using Lane = std::array<std::uint16_t, E::packed>;
  Lane result[kLanes] = {};
  for (unsigned j = 0; j < kLanes * E::packed; ++j)
    if (mask >> j / E::packed & 1)
      result[j / E::packed][j % E::packed] =
          approximateNarrow(static_cast<Approximate>(i.immediate), a[j], E::format);
  warp.write<Lane>(i.d, mask, [&](unsigned l) { return result[l]; });
}

/// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: the low half of the result is zero.
void approximateDouble(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const double *a = warp.read<double>(i.a);
  bool root = static_cast<Approximate>(i.immediate) == Approximate::ReciprocalRoot;
  warp.write<double>(i.d, mask, [=](unsigned l) {
    double x = flushed(a[l], 0x1p-1022), exact = 1 / (root ? std::sqrt(x) : x);
    return bitCast<double>(bitCast<std::uint64_t>(exact) & 0xffffffff00000000ull);
  });
}

void approximateDivide(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const float *a = warp.read<float>(i.a), *b = warp.read<float>(i.b);
  bool flush = i.detail & kFlush;
  float result[kLanes] = {};
  for (unsigned l = 0; l < kLanes; ++l)
    if (mask >> l & 1)
      result[l] =
          flush ? flushed(approximateQuotient(flushed(a[l], 0x1p-126f), flushed(b[l], 0x1p-126f)), 0x1p-126f)
                : approximateQuotient(a[l], b[l]);
  warp.write<float>(i.d, mask, [&](unsigned l) { return result[l]; });
}

/// testp: the class of a number, by `immediate`.
template <class T>
void test(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const T *a = warp.read<T>(i.a);
  std::uint32_t bits = 0;
  for (unsigned l = 0; l < kLanes; ++l) {
    int kind = std::fpclassify(a[l]);
    const bool holds[] = {
        kind != FP_INFINITE && kind != FP_NAN, kind == FP_INFINITE, kind != FP_NAN, kind == FP_NAN,
        kind == FP_NORMAL || kind == FP_ZERO,  kind == FP_SUBNORMAL};
    bits |= std::uint32_t(holds[i.immediate]) << l;
  }
  warp.writePredicate(i.d, mask, bits);
}

template <Op op>
Handler handlerOf(Type type, bool simple) {
  switch (type) {
  case Type::F32: return simple ? plain<Single, op> : general<Single, op>;
  case Type::F64: return simple ? plain<Double, op> : general<Double, op>;
  default: break;
  }
  if constexpr (op != Op::Divide && op != Op::SquareRoot && op != Op::Reciprocal)
    switch (type) {
    case Type::F32x2: return simple ? plain<SinglePair, op> : general<SinglePair, op>;
    case Type::F16: return general<Half, op>;
    case Type::BF16: return general<BFloat, op>;
    case Type::F16x2: return general<HalfPair, op>;
    case Type::BF16x2: return general<BFloatPair, op>;
    default: break;
    }
  return nullptr;
}

Rounding takeRounding(Selection &s) {
  constexpr std::string_view names[] = {"rn", "rz", "rm", "rp"};
  constexpr Rounding roundings[] = {Rounding::NearestEven, Rounding::Zero, Rounding::Down, Rounding::Up};
  for (unsigned i = 0; i < 4; ++i)
    if (s.take(names[i]))
      return roundings[i];
  return Rounding::NearestEven;
}

template <Op op>
bool selectExact(Selection &s, Type type, std::size_t sources) {
  std::uint32_t detail =
      (s.take("ftz") ? kFlush : 0) | (s.take("sat") ? kSaturate : 0) | (s.take("relu") ? kRelu : 0);
  s.take("noftz");
  if (op == Op::Minimum || op == Op::Maximum) {
    detail |= s.take("NaN") ? kNan : 0;
    detail |= s.take("abs") ? kAbsolute : 0;
    if (s.take("xorsign"))
      detail |= kXorSign;
  }
  bool third = (op == Op::Minimum || op == Op::Maximum) && s.count() == 4;
  Rounding rounding = takeRounding(s);
  if (rounding != Rounding::NearestEven && bytesOf(type) < 4)
    s.refuse("this rounding is executed for f32 and f64 only");
  detail |= static_cast<std::uint32_t>(rounding) << kRoundingShift;
  s.result.detail = detail;
  s.result.run = handlerOf<op>(type, !(detail & ~kNan) && !third);
  if (!s.result.run || (rounding != Rounding::NearestEven && (type == Type::F16x2 || type == Type::BF16x2)))
    s.refuse("'" + std::string(s.statement.name) + "' has a type that is not executed");
  s.expect(sources + 1 + third);
  s.result.d = s.destination(0, type);
  Slot *slots[] = {&s.result.a, &s.result.b, &s.result.c};
  for (std::size_t i = 0; i < sources; ++i)
    *slots[i] = s.source(i + 1, type);
  if (third)
    s.result.c = s.source(3, type);
  return true;
}

template <Op op>
bool selectMixed(Selection &s, Type narrow) {
  if (narrow != Type::F16 && narrow != Type::BF16)
    s.refuse("'" + std::string(s.statement.name) + "' has a type that is not executed");
  s.result.detail = (s.take("sat") ? kSaturate : 0) | static_cast<std::uint32_t>(takeRounding(s))
                                                          << kRoundingShift;
  constexpr bool product = op == Op::Fma;
  s.expect(product ? 4 : 3);
  s.result.d = s.destination(0, Type::F32);
  s.result.a = s.source(1, narrow);
  if (product)
    s.result.b = s.source(2, narrow);
  s.result.c = s.source(product ? 3 : 2, Type::F32);
  s.result.run = narrow == Type::F16 ? mixed<Half, op> : mixed<BFloat, op>;
  return true;
}

bool selectSign(Selection &s, Type type) {
  bool negate = s.base() == "neg";
  if (s.take("ftz"))
    return negate ? selectExact<Op::Negate>(s, type, 1) : selectExact<Op::Absolute>(s, type, 1);
  s.expect(2);
  s.result.d = s.destination(0, type);
  s.result.a = s.source(1, type);
  switch (bytesOf(type)) {
  case 2:
    s.result.immediate = 0x8000;
    s.result.run = negate ? signs<std::uint16_t, true> : signs<std::uint16_t, false>;
    return true;
  case 4:
    s.result.immediate = type == Type::F32 ? 0x80000000 : 0x80008000;
    s.result.run = negate ? signs<std::uint32_t, true> : signs<std::uint32_t, false>;
    return true;
  default:
    s.result.immediate =
        static_cast<std::int64_t>(type == Type::F64 ? 0x8000000000000000 : 0x8000000080000000);
    s.result.run = negate ? signs<std::uint64_t, true> : signs<std::uint64_t, false>;
    return true;
  }
}

/// ex2, lg2, rcp, sqrt, rsqrt, sin, cos, tanh with .approx.
bool selectApproximate(Selection &s, Type type, Approximate function) {
  s.result.detail = s.take("ftz") ? kFlush : 0;
  s.expect(2);
  s.result.d = s.destination(0, type);
  s.result.a = s.source(1, type);
  s.result.immediate = static_cast<std::int64_t>(function);
  bool narrow = function == Approximate::Exp2 || function == Approximate::Tanh;
  bool wide = function == Approximate::Reciprocal || function == Approximate::ReciprocalRoot;
  switch (type) {
  case Type::F32: s.result.run = approximateSingle; return true;
  case Type::F64: s.result.run = wide ? approximateDouble : nullptr; break;
  case Type::F16: s.result.run = narrow ? approximateNarrowly<Half> : nullptr; break;
  case Type::F16x2: s.result.run = narrow ? approximateNarrowly<HalfPair> : nullptr; break;
  case Type::BF16: s.result.run = narrow ? approximateNarrowly<BFloat> : nullptr; break;
  case Type::BF16x2: s.result.run = narrow ? approximateNarrowly<BFloatPair> : nullptr; break;
  default: break;
  }
  if (!s.result.run)
    s.refuse("'" + std::string(s.statement.name) + "' has a type that is not executed");
  return true;
}

bool selectQuotient(Selection &s, Type type) {
  bool full = s.take("full");
  if (!full && !s.take("approx"))
    return selectExact<Op::Divide>(s, type, 2);
  if (type != Type::F32)
    s.refuse("approximate quotients are of f32");
  s.result.detail = s.take("ftz") ? kFlush : 0;
  s.expect(3);
  s.result.d = s.destination(0, type);
  s.result.a = s.source(1, type);
  s.result.b = s.source(2, type);
  s.result.run = approximateDivide;
  return true;
}

bool selectTest(Selection &s, Type type) {
  s.result.immediate = s.takeOne({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  if (s.result.immediate < 0 || (type != Type::F32 && type != Type::F64))
    s.refuse("this testp is not executed");
  s.expect(2);
  s.result.d = s.predicateDestination(s.operand(0).name);
  s.result.a = s.source(1, type);
  s.result.run = type == Type::F32 ? test<float> : test<double>;
  return true;
}

} // namespace

bool selectFloat(Selection &s) {
  std::string_view base = s.base();
  struct Named {
    std::string_view name;
    Approximate function;
  };
  constexpr Named functions[] = {{"ex2", Approximate::Exp2},
                                 {"lg2", Approximate::Log2},
                                 {"rcp", Approximate::Reciprocal},
                                 {"sqrt", Approximate::SquareRoot},
                                 {"rsqrt", Approximate::ReciprocalRoot},
                                 {"sin", Approximate::Sine},
                                 {"cos", Approximate::Cosine},
                                 {"tanh", Approximate::Tanh}};
  for (const Named &named : functions)
    if (base == named.name) {
      bool approx = s.take("approx");
      Type type = s.takeType();
      if (approx)
        return selectApproximate(s, type, named.function);
      if (base == "sqrt")
        return selectExact<Op::SquareRoot>(s, type, 1);
      if (base == "rcp")
        return selectExact<Op::Reciprocal>(s, type, 1);
      return false;
    }
  if (base != "add" && base != "sub" && base != "mul" && base != "fma" && base != "mad" && base != "min" &&
      base != "max" && base != "div" && base != "abs" && base != "neg" && base != "copysign" &&
      base != "testp")
    return false;
  Type type = s.takeType();
  if (!isFloat(type))
    s.refuse("'" + std::string(s.statement.name) + "' has a type that is not executed");
  if (Type narrow = type == Type::F32 ? s.takeType() : Type::None; narrow != Type::None) {
    if (base == "add")
      return selectMixed<Op::Add>(s, narrow);
    if (base == "sub")
      return selectMixed<Op::Subtract>(s, narrow);
    if (base == "fma")
      return selectMixed<Op::Fma>(s, narrow);
    s.refuse("'" + std::string(s.statement.name) + "' is not executed");
  }
  if (base == "add")
    return selectExact<Op::Add>(s, type, 2);
  if (base == "sub")
    return selectExact<Op::Subtract>(s, type, 2);
  if (base == "mul")
    return selectExact<Op::Multiply>(s, type, 2);
  if (base == "fma" || base == "mad")
    return selectExact<Op::Fma>(s, type, 3);
  if (base == "min")
    return selectExact<Op::Minimum>(s, type, 2);
  if (base == "max")
    return selectExact<Op::Maximum>(s, type, 2);
  if (base == "div")
    return selectQuotient(s, type);
  if (base == "testp")
    return selectTest(s, type);
  if (base == "copysign") {
    s.expect(3);
    s.result.d = s.destination(0, type);
    s.result.a = s.source(1, type);
    s.result.b = s.source(2, type);
    s.result.run = type == Type::F32   ? copySign<std::uint32_t>
                   : type == Type::F64 ? copySign<std::uint64_t>
                                       : nullptr;
    if (!s.result.run)
      s.refuse("this copysign is not executed");
    return true;
  }
  return selectSign(s, type);
}

} // namespace colossal::ptx
