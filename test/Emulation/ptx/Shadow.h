// Who touched a granule of memory last, and whether the next touch is ordered after it.
//
// Threads of a block are ordered by barriers: each warp has a clock, and knows of each other warp up to which
// of its clocks it has seen (vector clocks, at the granularity of warps: Flanagan and Freund, "FastTrack",
// 2009). Lanes of one warp are ordered by bar.warp.sync. Blocks are not ordered, except where one took over
// what another published (Memory.h). What is told is true: a conflict that is reported is one. Reads of a
// granule by several warps share one clock, the earliest, so that named barriers of a part of the warps may
// hide a conflict.
#ifndef COLOSSAL_EMULATION_PTX_SHADOW_H
#define COLOSSAL_EMULATION_PTX_SHADOW_H

#include <array>
#include <cstdint>

namespace colossal::ptx {

/// A warp as the one who touches.
struct Actor {
  std::uint32_t block = 0; ///< from 1, and different for each block that shares the cells
  unsigned warp = 0;
  std::uint32_t clock = 0;
  const std::uint32_t *seen =
      nullptr; ///< by warp; of its own the last clock before bar.warp.sync or a barrier
};

struct Touch {
  std::uint32_t line = 0;
  bool write = false;
  bool strong = false;      ///< atomic, volatile, relaxed, acquire or release: no race with its like
  bool nonCoherent = false; ///< ld.global.nc
  bool pending = false;     ///< cp.async begins to write
  bool settle = false;      ///< cp.async has written
};

enum class Finding : std::uint8_t { None, AgainstWrite, AgainstRead, NonCoherent, Pending };

struct Cell {
  static constexpr std::uint16_t kThread = 0x3ff, kStrong = 0x8000, kPending = 0x4000;
  static constexpr std::uint16_t kSeveralLanes = 0x8000, kNonCoherent = 0x4000;
  static constexpr std::uint32_t kManyBlocks = 0xffffffff;

  std::uint32_t writeBlock = 0, writeClock = 0, writeLine = 0;
  std::uint32_t readBlock = 0, readClock = 0, readLine = 0, readWarps = 0;
  std::uint16_t writer = 0, reader = 0;

  /// Notes the touch by `thread` (its number in the block), and says what it conflicts with. What conflicts
  /// across blocks may still be ordered by what the block took over: that is asked of by the caller.
  Finding touch(const Actor &actor, std::uint16_t thread, const Touch &touch) {
    Finding finding = Finding::None;
    if (writeBlock)
      finding = againstWrite(actor, thread, touch);
    if (touch.write) {
      if (readBlock && finding == Finding::None)
        finding = againstReads(actor, thread);
      writeBlock = actor.block;
      writeClock = actor.clock;
      writeLine = touch.line;
      writer =
          static_cast<std::uint16_t>(thread | (touch.strong ? kStrong : 0) | (touch.pending ? kPending : 0));
      if (!(reader & kNonCoherent))
        readBlock = 0;
    } else if (!touch.strong) {
      noteRead(actor, thread, touch);
    }
    return finding;
  }

private:
  Finding againstWrite(const Actor &actor, std::uint16_t thread, const Touch &touch) const {
    if (touch.nonCoherent)
      return Finding::NonCoherent;
    bool own = writeBlock == actor.block && (writer & kThread) == thread;
    if ((writer & kPending) && writeBlock == actor.block)
      return touch.settle && own ? Finding::None : Finding::Pending;
    if (own || (touch.strong && (writer & kStrong)))
      return Finding::None;
    bool ordered = writeBlock == actor.block && actor.seen[(writer & kThread) / 32] >= writeClock;
    return ordered ? Finding::None : Finding::AgainstWrite;
  }

  Finding againstReads(const Actor &actor, std::uint16_t thread) const {
    if (reader & kNonCoherent)
      return Finding::NonCoherent;
    if (readBlock != actor.block)
      return Finding::AgainstRead;
    for (std::uint32_t warps = readWarps; warps; warps &= warps - 1) {
      unsigned warp = static_cast<unsigned>(__builtin_ctz(warps));
      if (actor.seen[warp] >= readClock)
        continue;
      if (warp != actor.warp)
        return Finding::AgainstRead;
      // Of its own warp's lanes it is known which only where no other warp has read.
      if (readWarps == 1u << warp && ((reader & kSeveralLanes) || (reader & kThread) != thread))
        return Finding::AgainstRead;
    }
    return Finding::None;
  }

  void noteRead(const Actor &actor, std::uint16_t thread, const Touch &touch) {
    std::uint16_t kept = reader & kNonCoherent;
    std::uint32_t warp = 1u << actor.warp;
    if (readBlock == actor.block && readWarps == warp && readClock == actor.clock) {
      if ((reader & kThread) != thread)
        reader |= kSeveralLanes;
    } else if (readBlock == actor.block && !allSeen(actor)) {
      if ((readWarps & warp) && (reader & kThread) != thread)
        reader |= kSeveralLanes;
      readWarps |= warp;
      readClock = actor.clock < readClock ? actor.clock : readClock;
    } else if (readBlock && readBlock != actor.block) {
      readBlock = kManyBlocks;
    } else {
      readBlock = actor.block;
      readClock = actor.clock;
      readLine = touch.line;
      readWarps = warp;
      reader = static_cast<std::uint16_t>(thread | kept);
    }
    if (touch.nonCoherent)
      reader |= kNonCoherent;
  }

  bool allSeen(const Actor &actor) const {
    for (std::uint32_t warps = readWarps; warps; warps &= warps - 1)
      if (actor.seen[__builtin_ctz(warps)] < readClock)
        return false;
    return true;
  }
};

} // namespace colossal::ptx

#endif
