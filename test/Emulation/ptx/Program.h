// The compact form of a kernel and of all that it calls: one array of instructions, each with the function
// that executes it and where its operands lie. Made once by Decode, never changed.
#ifndef COLOSSAL_EMULATION_PTX_PROGRAM_H
#define COLOSSAL_EMULATION_PTX_PROGRAM_H

#include "Ptx.h"

#include <array>

namespace colossal::ptx {

class Warp;
struct Instruction;

inline constexpr unsigned kLanes = 32;
inline constexpr std::uint32_t kAllLanes = 0xffffffff;

/// Instruction::detail of barriers has this bit, so that who waits there can be told from who waits at a
/// shuffle.
inline constexpr std::uint32_t kBarrierInstruction = 0x80000000;

/// Executes an instruction for the lanes of `mask`, which is not empty.
using Handler = void (*)(Warp &warp, const Instruction &instruction, std::uint32_t mask);

/// Where an operand lies: a byte offset into the registers of the frame, or, where negative, ~offset into the
/// program's constants. A register is an array of 32 values, one a lane; a predicate is one word, one bit a
/// lane.
using Slot = std::int32_t;
inline constexpr Slot kNoSlot = INT32_MIN;

enum class Space : std::uint8_t { Generic, Global, Shared, Local, Constant, Parameter };
/// Generic addresses of what is no device memory: the window's number stands in bits 52 and above.
inline constexpr unsigned kWindowShift = 52;
inline std::uint64_t windowBase(Space space) {
  return std::uint64_t(space == Space::Shared      ? 1
                       : space == Space::Local     ? 2
                       : space == Space::Parameter ? 3
                                                   : 0)
         << kWindowShift;
}

struct Instruction {
  Handler run = nullptr;
  Slot d = kNoSlot, a = kNoSlot, b = kNoSlot, c = kNoSlot, e = kNoSlot;
  Slot predicate = kNoSlot;
  bool negated = false;
  /// Of a memory operand: base + immediate, the base being 8 or 4 bytes wide, or the frame's local memory.
  enum Base : std::uint8_t { None, Wide, Narrow, Frame } base = None;
  Space space = Space::Generic;
  std::uint32_t line = 0;
  /// A displacement, a target, a number of the instruction's own.
  std::int64_t immediate = 0;
  /// Further slots or targets: `count` of Program::lists from `list`.
  std::uint32_t list = 0, count = 0;
  /// What else the handler must know; each handler says what.
  std::uint32_t detail = 0;
};

enum class Special : std::uint8_t {
  ThreadX,
  ThreadY,
  ThreadZ,
  BlockSizeX,
  BlockSizeY,
  BlockSizeZ,
  BlockX,
  BlockY,
  BlockZ,
  GridX,
  GridY,
  GridZ,
  Lane,
  WarpIndex,
  WarpCount,
  LanesEqual,
  LanesLess,
  LanesLessEqual,
  LanesGreater,
  LanesGreaterEqual,
  DynamicShared,
  TotalShared,
  GridIndex,
  Multiprocessor,
  Clock
};

struct Routine {
  std::string name;
  std::uint32_t entry = 0;
  std::size_t registerBytes = 0, localBytes = 0;
  /// Special registers that it reads; `wide` ones are 8 bytes.
  struct SpecialSlot {
    Special special;
    Slot slot;
    bool wide;
  };
  std::vector<SpecialSlot> specials;
};

struct CallSite {
  struct Copy {
    std::size_t from, to, size;
  };
  std::uint32_t routine = 0;
  std::vector<Copy> arguments, results; ///< offsets in local memory of the caller's and the callee's frames
};

struct Program {
  Kernel kernel;
  std::vector<Instruction> code;
  std::vector<std::int32_t> lists;
  std::vector<std::uint8_t> constants;
  std::vector<Routine> routines; ///< the kernel is the first
  std::vector<CallSite> calls;
  /// Accesses of each space are multiples of 1 << granule bytes, and so are their addresses: what a shadow
  /// cell stands for.
  unsigned sharedGranule = 2, globalGranule = 2;
  /// Whether dynamic shared memory begins at this offset, and with this alignment.
  std::size_t dynamicShared = 0;
  bool fences = false;
};

} // namespace colossal::ptx

#endif
