// mma.sync, ldmatrix, stmatrix and movmatrix: values spread over the lanes of a warp.
//
// Of lane l, the group is l / 4 and the place in it l % 4. A register of an operand holds p = 32 / width
// values of one row of A, or of one column of B, next to one another along k:
//   A, register r:  row    group + 8 (r % 2),  k = 4 p (r / 2) + p place + 0 ... p - 1
//   B, register r:  column group,              k = 4 p r       + p place + 0 ... p - 1
//   C and D, value v of 4:  row group + 8 (v / 2), column 2 place + v % 2
#include "Access.h"
#include "Decode.h"
#include "Values.h"

#include <algorithm>

namespace colossal::ptx {
namespace {

constexpr unsigned kRows = 16, kColumns = 8, kMaximalDepth = 32;

// Instruction::detail of mma: k in bits 0-7, then the type of A, of B in 8 bits each, then whether D and C
// are halves.
constexpr unsigned kTypeAShift = 8, kTypeBShift = 16;
constexpr std::uint32_t kHalfResult = 1 << 24;

unsigned elementBits(Type type) {
  return bytesOf(type) * 8;
}

float elementValue(Type type, std::uint32_t word, unsigned part) {
  switch (type) {
  case Type::F16: return halfToFloat(static_cast<std::uint16_t>(word >> (16 * part)));
  case Type::BF16: return bfloatToFloat(static_cast<std::uint16_t>(word >> (16 * part)));
  // The low 13 bits are not looked at.
  case Type::Tf32: return bitCast<float>(word & 0xffffe000u);
  case Type::E4M3: return static_cast<float>(decode(word >> (8 * part) & 255, kE4M3));
  default: return static_cast<float>(decode(word >> (8 * part) & 255, kE5M2));
  }
}

/// Requires the whole warp; false: the lanes wait, or the instruction is a fault.
bool wholeWarp(Warp &warp, std::uint32_t &mask, const Instruction &i) {
  if (!warp.gather(mask, kAllLanes))
    return false;
  if (mask == kAllLanes)
    return true;
  warp.block.fault(FaultKind::DivergentShuffle, warp, static_cast<unsigned>(__builtin_ctz(mask)), 0, "",
                   "a matrix instruction without all 32 lanes", i.line);
  return false;
}

/// Products are exact; they are added to C one after the other, in ascending k, each sum rounded to f32.
/// Hardware adds several at once and may truncate.
void multiply(Warp &warp, const Instruction &i, std::uint32_t mask) {
  if (!wholeWarp(warp, mask, i))
    return;
  const std::int32_t *slots = &warp.program.lists[i.list];
  unsigned depth = i.detail & 255;
  Type typeA = static_cast<Type>(i.detail >> kTypeAShift & 255),
       typeB = static_cast<Type>(i.detail >> kTypeBShift & 255);
  bool half = i.detail & kHalfResult;
  unsigned perRegister = 32 / elementBits(typeA), registersB = depth / (4 * perRegister),
           registersC = half ? 2 : 4;
  const std::int32_t *d = slots, *a = d + registersC, *b = a + 2 * registersB, *c = b + registersB;
  float left[kRows][kMaximalDepth], right[kMaximalDepth][kColumns], sum[kRows][kColumns];
  for (unsigned r = 0; r < 2 * registersB; ++r) {
    const std::uint32_t *words = warp.read<std::uint32_t>(a[r]);
    for (unsigned l = 0; l < kLanes; ++l)
      for (unsigned part = 0; part < perRegister; ++part)
        left[l / 4 + 8 * (r % 2)][4 * perRegister * (r / 2) + perRegister * (l % 4) + part] =
            elementValue(typeA, words[l], part);
  }
  for (unsigned r = 0; r < registersB; ++r) {
    const std::uint32_t *words = warp.read<std::uint32_t>(b[r]);
    for (unsigned l = 0; l < kLanes; ++l)
      for (unsigned part = 0; part < perRegister; ++part)
        right[4 * perRegister * r + perRegister * (l % 4) + part][l / 4] =
            elementValue(typeB, words[l], part);
  }
  for (unsigned v = 0; v < 4; ++v)
    for (unsigned l = 0; l < kLanes; ++l) {
      float value = half ? halfToFloat(static_cast<std::uint16_t>(warp.read<std::uint32_t>(c[v / 2])[l] >>
                                                                  (16 * (v % 2))))
                         : warp.read<float>(c[v])[l];
      sum[l / 4 + 8 * (v / 2)][2 * (l % 4) + v % 2] = value;
    }
  for (unsigned row = 0; row < kRows; ++row)
    for (unsigned k = 0; k < depth; ++k)
      for (unsigned column = 0; column < kColumns; ++column)
        sum[row][column] = std::fma(left[row][k], right[k][column], sum[row][column]);
  auto result = [&](unsigned l, unsigned v) { return sum[l / 4 + 8 * (v / 2)][2 * (l % 4) + v % 2]; };
  for (unsigned r = 0; r < registersC; ++r)
    if (half)
      warp.write<std::uint32_t>(d[r], mask, [&](unsigned l) {
        return encode(result(l, 2 * r + 1), kHalf) << 16 | encode(result(l, 2 * r), kHalf);
      });
    else
      warp.write<float>(d[r], mask, [&](unsigned l) {
        float value = result(l, r);
        return value != value ? bitCast<float>(0x7fffffffu) : value;
      });
}

/// The rows of eight-by-eight matrices of halves: lane 8 m + r has the address of row r of matrix m.
bool rowAccess(Warp &warp, const Instruction &i, std::uint32_t mask, Access &access, Places &places,
               unsigned matrices) {
  findAddresses(warp, i, access);
  access.bytes = 16;
  std::uint32_t wanted = matrices == 4 ? kAllLanes : (1u << 8 * matrices) - 1;
  return warp.block.resolve(warp, i, mask & wanted, access, places) == wanted;
}

/// Lane l gets of each matrix the values 2 (l % 4) and the next of row l / 4; of column l / 4 with detail 1
/// (.trans).
void loadMatrix(Warp &warp, const Instruction &i, std::uint32_t mask) {
  if (!wholeWarp(warp, mask, i))
    return;
  Access access;
  Places places;
  if (!rowAccess(warp, i, mask, access, places, i.count))
    return;
  for (unsigned m = 0; m < i.count; ++m) {
    std::uint16_t matrix[8][8];
    for (unsigned row = 0; row < 8; ++row)
      std::memcpy(matrix[row], places[8 * m + row], 16);
    warp.write<std::uint32_t>(warp.program.lists[i.list + m], mask, [&](unsigned l) {
      unsigned first = l / 4, second = 2 * (l % 4);
      return i.detail ? std::uint32_t(matrix[second + 1][first]) << 16 | matrix[second][first]
                      : std::uint32_t(matrix[first][second + 1]) << 16 | matrix[first][second];
    });
  }
}

void storeMatrix(Warp &warp, const Instruction &i, std::uint32_t mask) {
  if (!wholeWarp(warp, mask, i))
    return;
  Access access;
  access.touch.write = true;
  Places places;
  if (!rowAccess(warp, i, mask, access, places, i.count))
    return;
  for (unsigned m = 0; m < i.count; ++m) {
    const std::uint32_t *from = warp.read<std::uint32_t>(warp.program.lists[i.list + m]);
    std::uint16_t matrix[8][8];
    for (unsigned l = 0; l < kLanes; ++l)
      for (unsigned part = 0; part < 2; ++part) {
        std::uint16_t value = static_cast<std::uint16_t>(from[l] >> (16 * part));
        unsigned first = l / 4, second = 2 * (l % 4) + part;
        (i.detail ? matrix[second][first] : matrix[first][second]) = value;
      }
    for (unsigned row = 0; row < 8; ++row)
      std::memcpy(places[8 * m + row], matrix[row], 16);
  }
}

/// movmatrix.trans.
void transpose(Warp &warp, const Instruction &i, std::uint32_t mask) {
  if (!wholeWarp(warp, mask, i))
    return;
  const std::uint32_t *from = warp.read<std::uint32_t>(i.a);
  auto at = [=](unsigned row, unsigned column) {
    return from[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff;
  };
  warp.write<std::uint32_t>(
      i.d, mask, [=](unsigned l) { return at(2 * (l % 4) + 1, l / 4) << 16 | at(2 * (l % 4), l / 4); });
}

bool selectMultiply(Selection &s) {
  struct Shape {
    std::string_view name;
    unsigned depth;
  };
  constexpr Shape shapes[] = {{"m16n8k4", 4}, {"m16n8k8", 8}, {"m16n8k16", 16}, {"m16n8k32", 32}};
  s.take("sync");
  s.take("aligned");
  unsigned depth = 0;
  for (const Shape &shape : shapes)
    if (s.take(shape.name))
      depth = shape.depth;
  bool rows = s.take("row") && s.take("col");
  s.take("kind::f8f6f4");
  Type d = s.takeType(), a = s.takeType(), b = s.takeType(), c = s.takeType();
  bool two = (a == Type::F16 || a == Type::BF16) && a == b && (depth == 8 || depth == 16);
  bool four = a == Type::Tf32 && b == a && (depth == 4 || depth == 8);
  bool one = (a == Type::E4M3 || a == Type::E5M2) && (b == Type::E4M3 || b == Type::E5M2) && depth == 32;
  bool half = d == Type::F16;
  if (!rows || d != c || !(two || four || one) || !(d == Type::F32 || (half && a == Type::F16)))
    s.refuse("'" + std::string(s.statement.name) + "' is not executed");
  unsigned registersB = depth * elementBits(a) / 128, registersC = half ? 2 : 4;
  s.expect(4);
  const std::size_t counts[] = {registersC, 2 * registersB, registersB, registersC};
  for (std::size_t part = 0; part < 4; ++part) {
    const Operand &operand = s.operand(part);
    bool single = operand.kind != Operand::Vector;
    if ((single ? 1 : operand.elements.size()) != counts[part])
      s.refuse("a matrix with another number of registers");
    for (std::size_t r = 0; r < counts[part]; ++r) {
      const Operand &element = single ? operand : operand.elements[r];
      s.append(part == 0 ? s.destination(element, Type::B32) : s.source(element, Type::B32));
    }
  }
  s.result.detail = depth | static_cast<std::uint32_t>(a) << kTypeAShift |
                    static_cast<std::uint32_t>(b) << kTypeBShift | (half ? kHalfResult : 0);
  s.result.run = multiply;
  return true;
}

bool selectMatrixAccess(Selection &s, bool store) {
  s.take("sync");
  s.take("aligned");
  int which = s.takeOne({"x1", "x2", "x4"});
  s.result.detail = s.take("trans");
  if (!s.take("m8n8") || takeSpace(s) != Space::Shared || s.takeType() != Type::B16 || which < 0)
    s.refuse("'" + std::string(s.statement.name) + "' is not executed");
  s.expect(2);
  s.memory(s.operand(!store), Space::Shared);
  const Operand &operand = s.operand(store);
  bool single = operand.kind != Operand::Vector;
  std::size_t count = std::size_t(1) << which;
  if ((single ? 1 : operand.elements.size()) != count)
    s.refuse("the number of registers is not that of the matrices");
  for (std::size_t m = 0; m < count; ++m) {
    const Operand &element = single ? operand : operand.elements[m];
    s.append(store ? s.source(element, Type::B32) : s.destination(element, Type::B32));
  }
  s.result.run = store ? storeMatrix : loadMatrix;
  return true;
}

} // namespace

bool selectMatrix(Selection &s) {
  std::string_view base = s.base();
  if (base == "mma")
    return selectMultiply(s);
  if (base == "ldmatrix")
    return selectMatrixAccess(s, false);
  if (base == "stmatrix")
    return selectMatrixAccess(s, true);
  if (base != "movmatrix")
    return false;
  for (std::string_view modifier : {"sync", "aligned", "m8n8"})
    s.take(modifier);
  if (!s.take("trans") || s.takeType() != Type::B16)
    s.refuse("this movmatrix is not executed");
  s.expect(2);
  s.result.d = s.destination(0, Type::B32);
  s.result.a = s.source(1, Type::B32);
  s.result.run = transpose;
  return true;
}

} // namespace colossal::ptx
