// atom and red: lane after lane, beginning with any, each as one operation on memory that other host threads
// may change too.
#include "Access.h"
#include "Decode.h"
#include "Values.h"

#include <algorithm>

namespace colossal::ptx {
namespace {

enum class Op : std::uint8_t {
  Add,
  Minimum,
  Maximum,
  And,
  Or,
  Xor,
  Exchange,
  CompareAndSwap,
  Increment,
  Decrement
};

// Instruction::detail.
constexpr std::uint32_t kRelease = 1, kReturns = 2;

template <class T, Op op>
T updated(T old, T b, T c) {
  using U = std::make_unsigned_t<T>;
  if constexpr (op == Op::Add)
    return static_cast<T>(static_cast<U>(old) + static_cast<U>(b));
  if constexpr (op == Op::Minimum)
    return std::min(old, b);
  if constexpr (op == Op::Maximum)
    return std::max(old, b);
  if constexpr (op == Op::And)
    return old & b;
  if constexpr (op == Op::Or)
    return old | b;
  if constexpr (op == Op::Xor)
    return old ^ b;
  if constexpr (op == Op::Exchange)
    return b;
  if constexpr (op == Op::CompareAndSwap)
    return old == b ? c : old;
  if constexpr (op == Op::Increment)
    return old >= b ? 0 : old + 1;
  if constexpr (op == Op::Decrement)
    return old == 0 || old > b ? b : old - 1;
}

/// Sums of floats on their bits.
struct AddSingle {
  using Bits = std::uint32_t;
  static Bits apply(Bits old, Bits b) {
    float sum = bitCast<float>(old) + bitCast<float>(b);
    return sum != sum ? 0x7fffffff : bitCast<std::uint32_t>(sum);
  }
};
struct AddDouble {
  using Bits = std::uint64_t;
  static Bits apply(Bits old, Bits b) {
    return bitCast<std::uint64_t>(bitCast<double>(old) + bitCast<double>(b));
  }
};
template <const Format &format>
struct AddNarrow {
  using Bits = std::uint16_t;
  static Bits apply(Bits old, Bits b) {
    return static_cast<Bits>(encode(addToOdd(decode(old, format), decode(b, format)), format));
  }
};
template <const Format &format>
struct AddNarrowPair {
  using Bits = std::uint32_t;
  static Bits apply(Bits old, Bits b) {
    using Part = AddNarrow<format>;
    auto half = [](Bits bits, unsigned shift) { return static_cast<std::uint16_t>(bits >> shift); };
    return Bits(Part::apply(half(old, 16), half(b, 16))) << 16 | Part::apply(half(old, 0), half(b, 0));
  }
};

/// `change(old, lane)` is what memory becomes; the lanes get what it was.
template <class T, class F>
void atomically(Warp &warp, const Instruction &i, std::uint32_t mask, F change) {
  Access access;
  findAddresses(warp, i, access);
  access.bytes = sizeof(T);
  access.touch.write = access.touch.strong = true;
  access.release = i.detail & kRelease;
  Places places;
  std::uint32_t good = warp.block.resolve(warp, i, mask, access, places);
  T before[kLanes] = {};
  unsigned start = warp.block.random() % kLanes;
  for (unsigned step = 0; step < kLanes; ++step) {
    unsigned lane = (start + step) % kLanes;
    if (!(good >> lane & 1))
      continue;
    T *place = reinterpret_cast<T *>(places[lane]);
    T old = __atomic_load_n(place, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(place, &old, change(old, lane), true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
    }
    before[lane] = old;
  }
  if (i.detail & kReturns)
    warp.write<T>(i.d, mask, [&](unsigned l) { return before[l]; });
}

template <class T, Op op>
void update(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const T *b = warp.read<T>(i.b), *c = i.c == kNoSlot ? b : warp.read<T>(i.c);
  atomically<T>(warp, i, mask, [=](T old, unsigned lane) { return updated<T, op>(old, b[lane], c[lane]); });
}

template <class Sum>
void add(Warp &warp, const Instruction &i, std::uint32_t mask) {
  using Bits = typename Sum::Bits;
  const Bits *b = warp.read<Bits>(i.b);
  atomically<Bits>(warp, i, mask, [=](Bits old, unsigned lane) { return Sum::apply(old, b[lane]); });
}

template <class T>
Handler handlerOf(Op op) {
  switch (op) {
  case Op::Add: return update<T, Op::Add>;
  case Op::Minimum: return update<T, Op::Minimum>;
  case Op::Maximum: return update<T, Op::Maximum>;
  case Op::And: return update<T, Op::And>;
  case Op::Or: return update<T, Op::Or>;
  case Op::Xor: return update<T, Op::Xor>;
  case Op::Exchange: return update<T, Op::Exchange>;
  case Op::CompareAndSwap: return update<T, Op::CompareAndSwap>;
  case Op::Increment: return update<T, Op::Increment>;
  case Op::Decrement: return update<T, Op::Decrement>;
  }
  return nullptr;
}

Handler handlerOf(Op op, Type type) {
  switch (type) {
  case Type::B16:
    return op == Op::CompareAndSwap || op == Op::Exchange ? handlerOf<std::uint16_t>(op) : nullptr;
  case Type::B32:
  case Type::U32: return handlerOf<std::uint32_t>(op);
  case Type::S32: return handlerOf<std::int32_t>(op);
  case Type::B64:
  case Type::U64: return handlerOf<std::uint64_t>(op);
  case Type::S64: return handlerOf<std::int64_t>(op);
  default: break;
  }
  if (op != Op::Add)
    return nullptr;
  switch (type) {
  case Type::F32: return add<AddSingle>;
  case Type::F64: return add<AddDouble>;
  case Type::F16: return add<AddNarrow<kHalf>>;
  case Type::BF16: return add<AddNarrow<kBFloat>>;
  case Type::F16x2: return add<AddNarrowPair<kHalf>>;
  case Type::BF16x2: return add<AddNarrowPair<kBFloat>>;
  default: return nullptr;
  }
}

} // namespace

bool selectAtomic(Selection &s) {
  bool returns = s.base() == "atom";
  if (!returns && s.base() != "red")
    return false;
  bool release = s.take("release") || s.take("acq_rel"), acquire = s.take("acquire");
  s.take("relaxed");
  if (release || acquire)
    s.noteFence();
  s.takeHints();
  Space space = takeSpace(s);
  int op = s.takeOne({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  s.take("noftz");
  Type type = s.takeType();
  s.result.run = op < 0 ? nullptr : handlerOf(static_cast<Op>(op), type);
  if (!s.result.run)
    s.refuse("'" + std::string(s.statement.name) + "' is not executed");
  std::size_t at = returns;
  s.expect(at + (static_cast<Op>(op) == Op::CompareAndSwap ? 3 : 2));
  if (returns)
    s.result.d = s.destination(0, type);
  s.memory(s.operand(at), space);
  s.result.b = s.source(at + 1, type);
  if (static_cast<Op>(op) == Op::CompareAndSwap)
    s.result.c = s.source(at + 2, type);
  s.result.detail = (release ? kRelease : 0) | (returns ? kReturns : 0);
  s.noteGranule(s.result.space, bytesOf(type));
  return true;
}

} // namespace colossal::ptx
