// Loads and stores, conversions of addresses, prefetches and asynchronous copies.
#include "Access.h"

#include "Decode.h"

#include <algorithm>

namespace colossal::ptx {

void findAddresses(const Warp &warp, const Instruction &i, Access &access) {
  std::uint64_t displacement = static_cast<std::uint64_t>(i.immediate);
  access.space = i.space;
  access.touch.line = i.line;
  switch (i.base) {
  case Instruction::Wide: {
    const std::uint64_t *a = warp.read<std::uint64_t>(i.a);
    for (unsigned l = 0; l < kLanes; ++l)
      access.address[l] = a[l] + displacement;
    return;
  }
  case Instruction::Narrow: {
    const std::uint32_t *a = warp.read<std::uint32_t>(i.a);
    for (unsigned l = 0; l < kLanes; ++l)
      access.address[l] = static_cast<std::uint32_t>(a[l] + displacement);
    return;
  }
  case Instruction::Frame: displacement += warp.frame().local; break;
  case Instruction::None: break;
  }
  access.address.fill(displacement);
}

Space takeSpace(Selection &s) {
  if (s.take("shared") || s.take("shared::cta"))
    return Space::Shared;
  if (s.take("global"))
    return Space::Global;
  if (s.take("local"))
    return Space::Local;
  if (s.take("const"))
    return Space::Constant;
  if (s.take("param") || s.take("param::entry") || s.take("param::func"))
    return Space::Parameter;
  return Space::Generic;
}

namespace {

// Instruction::detail of loads and stores.
constexpr std::uint32_t kStrong = 1, kNonCoherent = 2, kRelease = 4, kWideBytesShift = 8;

template <class M, class R>
void load(Warp &warp, const Instruction &i, std::uint32_t mask) {
  Access access;
  findAddresses(warp, i, access);
  access.bytes = static_cast<unsigned>(sizeof(M)) * i.count;
  access.touch.strong = i.detail & kStrong;
  access.touch.nonCoherent = i.detail & kNonCoherent;
  Places places;
  warp.block.resolve(warp, i, mask, access, places);
  for (unsigned v = 0; v < i.count; ++v)
    warp.write<R>(warp.program.lists[i.list + v], mask, [&](unsigned l) {
      M value = 0;
      if (places[l])
        std::memcpy(&value, places[l] + v * sizeof(M), sizeof(M));
      return static_cast<R>(value);
    });
}

/// Parameters of the kernel at places that are known: the same for all lanes.
template <class M, class R>
void loadParameter(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const std::vector<std::byte> &parameters = warp.block.launch.parameters;
  for (unsigned v = 0; v < i.count; ++v) {
    M value;
    std::memcpy(&value, parameters.data() + i.immediate + v * sizeof(M), sizeof(M));
    warp.write<R>(warp.program.lists[i.list + v], mask, [=](unsigned) { return static_cast<R>(value); });
  }
}

void storeLanes(Warp &warp, const Instruction &i, std::uint32_t mask) {
  unsigned bytes = i.detail >> kWideBytesShift & 15, stride = i.detail >> (kWideBytesShift + 4) & 15;
  Access access;
  findAddresses(warp, i, access);
  access.bytes = bytes * i.count;
  access.touch.write = true;
  access.touch.strong = i.detail & kStrong;
  access.release = i.detail & kRelease;
  alignas(16) std::byte values[kLanes * 32];
  for (unsigned v = 0; v < i.count; ++v) {
    const std::byte *from = warp.read<std::byte>(warp.program.lists[i.list + v]);
    for (unsigned l = 0; l < kLanes; ++l)
      std::memcpy(values + l * access.bytes + v * bytes, from + l * stride, bytes);
  }
  access.values = values;
  Places places;
  std::uint32_t good = warp.block.resolve(warp, i, mask, access, places);
  for (unsigned l = 0; l < kLanes; ++l)
    if (good >> l & 1)
      std::memcpy(places[l], values + l * access.bytes, access.bytes);
}

/// Addresses between generic and another space: `immediate` is added.
template <class T>
void moveWindow(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const T *a = warp.read<T>(i.a);
  T offset = static_cast<T>(i.immediate);
  warp.write<T>(i.d, mask, [=](unsigned l) { return static_cast<T>(a[l] + offset); });
}

/// isspacep: whether the window's number is `immediate`.
void testSpace(Warp &warp, const Instruction &i, std::uint32_t mask) {
  const std::uint64_t *a = warp.read<std::uint64_t>(i.a);
  std::uint32_t bits = 0;
  for (unsigned l = 0; l < kLanes; ++l)
    bits |= std::uint32_t(a[l] >> kWindowShift == static_cast<std::uint64_t>(i.immediate)) << l;
  warp.writePredicate(i.d, mask, bits);
}

void nothing(Warp &, const Instruction &, std::uint32_t) {}

/// The bytes that the block's threads have handed to cp.async arrive as late as they may: at the wait.
/// `immediate` and base are the destination; b the source's address; c, where there is one, how many bytes
/// are read, or, with bit 0 of detail, a predicate that says that none are; list: number of bytes,
/// displacement of the source.
void copyAsync(Warp &warp, const Instruction &i, std::uint32_t mask) {
  Access to, from;
  findAddresses(warp, i, to);
  to.bytes = from.bytes = static_cast<unsigned>(warp.program.lists[i.list]);
  to.touch.write = to.touch.pending = true;
  const std::uint64_t *source = warp.read<std::uint64_t>(i.b);
  from.space = Space::Global;
  for (unsigned l = 0; l < kLanes; ++l)
    from.address[l] =
        source[l] + static_cast<std::uint64_t>(static_cast<std::int64_t>(warp.program.lists[i.list + 1]));
  Places places;
  std::uint32_t good = warp.block.resolve(warp, i, mask, to, places);
  std::uint32_t ignored = i.c != kNoSlot && i.detail & 1 ? warp.readPredicate(i.c) : 0;
  const std::uint32_t *sizes = i.c != kNoSlot && !(i.detail & 1) ? warp.read<std::uint32_t>(i.c) : nullptr;
  for (unsigned l = 0; l < kLanes; ++l)
    if (good >> l & 1) {
      unsigned read = ignored >> l & 1 ? 0 : sizes ? std::min(sizes[l], to.bytes) : to.bytes;
      warp.copies.push_back({l, warp.copyGroup[l], to.address[l], from.address[l], to.bytes, read, i.line});
    }
}

void finishCopy(Warp &warp, const Instruction &i, const Warp::Copy &copy) {
  std::byte bytes[16] = {};
  std::uint32_t lane = 1u << copy.lane;
  Access from, to;
  from.space = Space::Global;
  from.address[copy.lane] = copy.from;
  from.bytes = copy.bytes;
  from.touch.line = to.touch.line = copy.line;
  Places places;
  // Fewer bytes than the access has may be read near the end of a buffer: each is looked up where it lies.
  if (copy.read == copy.bytes) {
    if (warp.block.resolve(warp, i, lane, from, places))
      std::memcpy(bytes, places[copy.lane], copy.bytes);
  } else {
    unsigned step = copy.read % 4 ? (copy.read % 2 ? 1 : 2) : 4;
    for (unsigned at = 0; at < copy.read; at += step) {
      from.address[copy.lane] = copy.from + at;
      from.bytes = step;
      if (warp.block.resolve(warp, i, lane, from, places))
        std::memcpy(bytes + at, places[copy.lane], step);
    }
  }
  to.space = Space::Shared;
  to.address[copy.lane] = copy.to;
  to.bytes = copy.bytes;
  to.touch.write = to.touch.settle = true;
  if (warp.block.resolve(warp, i, lane, to, places))
    std::memcpy(places[copy.lane], bytes, copy.bytes);
}

/// cp.async.wait_group: all but the newest `immediate` groups; -1: also what no group holds yet.
void waitCopies(Warp &warp, const Instruction &i, std::uint32_t mask) {
  std::vector<Warp::Copy> left;
  for (const Warp::Copy &copy : warp.copies) {
    bool done = i.immediate < 0 || copy.group + i.immediate < warp.copyGroup[copy.lane];
    if (mask >> copy.lane & 1 && done)
      finishCopy(warp, i, copy);
    else
      left.push_back(copy);
  }
  warp.copies = std::move(left);
}

void commitCopies(Warp &warp, const Instruction &, std::uint32_t mask) {
  for (unsigned l = 0; l < kLanes; ++l)
    warp.copyGroup[l] += mask >> l & 1;
}

template <class M, class R, class SignedM, class SignedR>
Handler loadOf(bool sign, bool parameter) {
  if (parameter)
    return sign ? loadParameter<SignedM, SignedR> : loadParameter<M, R>;
  return sign ? load<SignedM, SignedR> : load<M, R>;
}

Handler loadHandler(unsigned bytes, unsigned registerBytes, bool sign, bool parameter) {
  using std::int16_t, std::int32_t, std::int64_t, std::int8_t, std::uint16_t, std::uint32_t, std::uint64_t,
      std::uint8_t;
  switch (bytes * 16 + registerBytes) {
  case 0x12: return loadOf<uint8_t, uint16_t, int8_t, int16_t>(sign, parameter);
  case 0x14: return loadOf<uint8_t, uint32_t, int8_t, int32_t>(sign, parameter);
  case 0x18: return loadOf<uint8_t, uint64_t, int8_t, int64_t>(sign, parameter);
  case 0x22: return loadOf<uint16_t, uint16_t, int16_t, int16_t>(sign, parameter);
  case 0x24: return loadOf<uint16_t, uint32_t, int16_t, int32_t>(sign, parameter);
  case 0x28: return loadOf<uint16_t, uint64_t, int16_t, int64_t>(sign, parameter);
  case 0x44: return loadOf<uint32_t, uint32_t, int32_t, int32_t>(sign, parameter);
  case 0x48: return loadOf<uint32_t, uint64_t, int32_t, int64_t>(sign, parameter);
  case 0x88: return loadOf<uint64_t, uint64_t, int64_t, int64_t>(sign, parameter);
  default: return nullptr;
  }
}

std::vector<const Operand *> elementsOf(const Selection &s, const Operand &operand, unsigned vector) {
  std::vector<const Operand *> elements;
  if (operand.kind == Operand::Vector)
    for (const Operand &element : operand.elements)
      elements.push_back(&element);
  else
    elements.push_back(&operand);
  if (elements.size() != vector)
    s.refuse("the number of registers is not that of the vector");
  return elements;
}

/// The type and the number of values of a load or store, after everything else has been taken.
Type takeShape(Selection &s, unsigned &vector) {
  s.takeHints();
  int which = s.takeOne({"v2", "v4", "v8"});
  vector = which < 0 ? 1 : 2u << which;
  Type type = s.takeType();
  if (!bytesOf(type) || bytesOf(type) * vector > 32)
    s.refuse("'" + std::string(s.statement.name) + "' is not executed");
  return type;
}

std::uint32_t takeOrder(Selection &s) {
  s.take("weak");
  std::uint32_t detail = s.take("volatile") || s.take("relaxed") || s.take("acquire") ? kStrong : 0;
  if (s.take("release"))
    detail |= kStrong | kRelease;
  if (detail)
    s.noteFence();
  return detail;
}

bool selectLoad(Selection &s) {
  s.result.detail = takeOrder(s);
  bool cached = s.base() == "ldu";
  Space space = takeSpace(s);
  if (s.take("nc") || cached)
    s.result.detail |= kNonCoherent;
  unsigned vector = 0;
  Type type = takeShape(s, vector);
  s.expect(2);
  s.memory(s.operand(1), space);
  std::vector<const Operand *> elements = elementsOf(s, s.operand(0), vector);
  unsigned registerBytes = 0;
  for (const Operand *element : elements)
    if (element->kind != Operand::Sink) {
      unsigned bytes = 0;
      s.destinationOfAnySize(*element, bytes);
      if (registerBytes && bytes != registerBytes)
        s.refuse("registers of several sizes in one load");
      registerBytes = bytes;
    }
  registerBytes = registerBytes ? registerBytes : 8;
  for (const Operand *element : elements)
    s.append(s.destinationOfAnySize(*element, registerBytes));
  bool constantPlace = s.result.space == Space::Parameter && s.result.base == Instruction::None;
  s.result.run = loadHandler(bytesOf(type), registerBytes, isSigned(type), constantPlace);
  if (!s.result.run)
    s.refuse("a register is too small for what is loaded");
  s.noteGranule(s.result.space, bytesOf(type) * vector);
  return true;
}

bool selectStore(Selection &s) {
  s.result.detail = takeOrder(s);
  Space space = takeSpace(s);
  unsigned vector = 0;
  Type type = takeShape(s, vector);
  s.expect(2);
  s.memory(s.operand(0), space);
  unsigned registerBytes = 0;
  for (const Operand *element : elementsOf(s, s.operand(1), vector)) {
    unsigned bytes = 0;
    Slot slot = s.sourceOfAnySize(*element, type, bytes);
    bytes = std::max(bytes, 2u);
    if (registerBytes && bytes != registerBytes)
      s.refuse("registers of several sizes in one store");
    registerBytes = bytes;
    s.append(slot);
  }
  if (registerBytes < bytesOf(type))
    s.refuse("a register is too small for what is stored");
  s.result.detail |= bytesOf(type) << kWideBytesShift | registerBytes << (kWideBytesShift + 4);
  s.result.run = storeLanes;
  s.noteGranule(s.result.space, bytesOf(type) * vector);
  return true;
}

bool selectAddress(Selection &s) {
  bool back = s.take("to");
  Space space = takeSpace(s);
  Type type = s.takeType();
  s.expect(2);
  s.result.d = s.destination(0, type);
  const Symbol *symbol = s.operand(1).kind == Operand::Name ? s.symbol(s.operand(1).name) : nullptr;
  std::uint64_t offset = back ? 0 - windowBase(space) : windowBase(space);
  if (symbol) {
    if (symbol->space == Space::Local)
      s.refuse("the address of a local variable has to be moved to a register first");
    Operand number;
    number.kind = Operand::Integer;
    number.value = static_cast<std::int64_t>(symbol->address);
    s.result.a = s.source(number, type);
  } else {
    s.result.a = s.source(1, type);
  }
  s.result.immediate = static_cast<std::int64_t>(offset);
  s.result.run = bytesOf(type) == 8 ? moveWindow<std::uint64_t> : nullptr;
  if (!s.result.run)
    s.refuse("generic addresses have 64 bits");
  return true;
}

bool selectTestSpace(Selection &s) {
  Space space = takeSpace(s);
  if (space == Space::Constant || space == Space::Generic)
    s.refuse("isspacep of this space is not executed");
  s.expect(2);
  s.result.d = s.predicateDestination(s.operand(0).name);
  s.result.a = s.source(1, Type::U64);
  s.result.immediate = static_cast<std::int64_t>(windowBase(space) >> kWindowShift);
  s.result.run = testSpace;
  return true;
}

bool selectCopy(Selection &s) {
  if (!s.take("async"))
    return false;
  if (s.take("commit_group")) {
    s.expect(0);
    s.result.run = commitCopies;
    return true;
  }
  if (s.take("wait_group") || s.take("wait_all")) {
    s.expect(0, 1);
    s.result.immediate = s.count() ? s.number(0) : -1;
    s.result.run = waitCopies;
    return true;
  }
  s.takeHints();
  Space to = takeSpace(s);
  if (to != Space::Shared || takeSpace(s) != Space::Global)
    s.refuse("this cp.async is not executed");
  s.expect(3, 4);
  s.memory(s.operand(0), Space::Shared);
  Slot address = s.result.a;
  Instruction::Base base = s.result.base;
  std::int64_t displacement = s.result.immediate;
  s.memory(s.operand(1), Space::Global);
  if (s.result.base != Instruction::Wide)
    s.refuse("the source of cp.async has to be an address of 64 bits in a register");
  std::int64_t bytes = s.number(2);
  if (bytes != 4 && bytes != 8 && bytes != 16)
    s.refuse("cp.async copies 4, 8 or 16 bytes");
  s.append(static_cast<std::int32_t>(bytes));
  s.append(static_cast<std::int32_t>(s.result.immediate));
  s.result.b = s.result.a;
  s.result.a = address;
  s.result.base = base;
  s.result.immediate = displacement;
  s.result.space = Space::Shared;
  if (s.count() == 4) {
    const Operand &last = s.operand(3);
    if (last.kind == Operand::Integer) {
      s.result.c = s.source(last, Type::U32);
    } else {
      unsigned size = 0;
      try {
        s.result.c = s.sourceOfAnySize(last, Type::U32, size);
      } catch (const Refused &) {
        bool negated = false;
        s.result.c = s.predicate(last, negated);
        s.result.detail = 1;
        if (negated)
          s.refuse("a negated predicate of cp.async is not executed");
      }
    }
    // How many bytes are read is seen only when it runs.
    s.noteGranule(Space::Global, 1);
  }
  s.noteGranule(Space::Shared, static_cast<unsigned>(bytes));
  s.noteGranule(Space::Global, static_cast<unsigned>(bytes));
  s.result.run = copyAsync;
  return true;
}

} // namespace

bool selectAccess(Selection &s) {
  std::string_view base = s.base();
  if (base == "ld" || base == "ldu")
    return selectLoad(s);
  if (base == "st")
    return selectStore(s);
  if (base == "cvta")
    return selectAddress(s);
  if (base == "isspacep")
    return selectTestSpace(s);
  if (base == "cp")
    return selectCopy(s);
  if (base == "prefetch" || base == "prefetchu") {
    takeSpace(s);
    for (std::string_view level : {"L1", "L2"})
      s.take(level);
    s.takeHints();
    s.result.run = nothing;
    return true;
  }
  return false;
}

} // namespace colossal::ptx
