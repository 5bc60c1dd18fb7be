// 32 lanes that execute together where they can: groups of lanes with one program counter each, of which the
// deepest call and there the lowest program counter runs first, so that lanes that parted meet again.
#ifndef COLOSSAL_EMULATION_PTX_WARP_H
#define COLOSSAL_EMULATION_PTX_WARP_H

#include "Program.h"
#include "Shadow.h"

#include <cstring>

namespace colossal::ptx {

class Block;

/// A routine's registers and place in local memory, for the lanes that called it together.
struct Frame {
  std::shared_ptr<Frame> caller;
  const CallSite *site = nullptr;
  std::uint32_t returnTo = 0, depth = 0;
  std::uint64_t local = 0;
  std::unique_ptr<std::byte[]> registers;
};

enum class Wait : std::uint8_t {
  None,
  Lanes,   ///< for other lanes of the warp to reach the same instruction
  Barrier, ///< for other warps
};

struct Group {
  std::shared_ptr<Frame> frame;
  std::uint32_t pc = 0, mask = 0;
  Wait wait = Wait::None;
  unsigned barrier = 0;  ///< which, where it waits for one
  bool released = false; ///< the barrier at `pc` has let it go
};

class Warp {
public:
  Warp(Block &block, const Program &program, unsigned index, std::uint32_t lanes);

  /// Executes up to `quantum` instructions; fewer if no group can go on, or if it seems to wait for other
  /// warps.
  void run(std::uint64_t quantum);
  bool done() const { return !group.mask && others.empty(); }
  /// Whether some group could go on.
  bool runnable() const;

  // For handlers.
  template <class T>
  const T *read(Slot slot) const {
    return reinterpret_cast<const T *>(slot < 0 ? constants + ~slot : registers + slot);
  }
  template <class T>
  T *at(Slot slot) {
    return reinterpret_cast<T *>(registers + slot);
  }
  /// d[lane] = value(lane) for the lanes of `mask`; `value` is also asked for other lanes.
  template <class T, class F>
  void write(Slot d, std::uint32_t mask, F value) {
    T result[kLanes];
    for (unsigned lane = 0; lane < kLanes; ++lane)
      result[lane] = value(lane);
    T *to = at<T>(d);
    if (mask == kAllLanes) {
      std::memcpy(to, result, sizeof result);
      return;
    }
    for (unsigned lane = 0; lane < kLanes; ++lane)
      to[lane] = mask >> lane & 1 ? result[lane] : to[lane];
  }
  std::uint32_t readPredicate(Slot slot) const { return *read<std::uint32_t>(slot); }
  void writePredicate(Slot d, std::uint32_t mask, std::uint32_t bits) {
    std::uint32_t *to = at<std::uint32_t>(d);
    *to = (*to & ~mask) | (bits & mask);
  }

  /// Sends the lanes of `mask` to `target`; the others go on.
  void branch(std::uint32_t mask, std::uint32_t target);
  void exit(std::uint32_t mask);
  void call(std::uint32_t mask, const CallSite &site, const Instruction &instruction);
  void leave(std::uint32_t mask);
  /// Lets the lanes of `mask` wait at the instruction that is being executed; others of the group go on.
  void wait(std::uint32_t mask, Wait kind, unsigned barrier = 0);
  /// Brings lanes that wait at the instruction that is being executed into `mask`, and says whether all of
  /// `needed` are there; if not, `mask` waits, and the handler returns.
  bool gather(std::uint32_t &mask, std::uint32_t needed);
  /// Whether the executing group comes from a barrier that let it go; asking takes the mark away.
  bool takeRelease();
  /// Lets all groups go on that wait at this barrier.
  void release(unsigned barrier);
  /// An access by which the warp may be waiting for another thread.
  void notePoll() { polled = true; }
  /// All accesses of the warp so far are seen by its lanes.
  void synchronizeLanes();

  Actor actor() const;
  std::uint32_t living() const { return lanes & ~exited; }
  /// The line that was executed last.
  std::uint32_t line() const { return program.code[executing].line; }
  const Frame &frame() const { return *group.frame; }
  const std::vector<Group> &waiting() const { return others; }
  /// A lane's bytes of local memory at `address`, or null if there are none.
  std::byte *local(unsigned lane, std::uint64_t address, std::size_t bytes);

  Block &block;
  const Program &program;
  const unsigned index;
  const std::uint32_t lanes; ///< those that exist
  std::uint64_t warpInstructions = 0, laneInstructions = 0;

  /// What cp.async has begun: the groups of each lane, and the copies that are under way.
  struct Copy {
    unsigned lane;
    std::uint32_t group;
    std::uint64_t to, from;
    unsigned bytes, read;
    std::uint32_t line;
  };
  std::vector<Copy> copies;
  std::array<std::uint32_t, kLanes> copyGroup{};
  std::uint32_t carries = 0; ///< the carry of each lane, as .cc leaves it

private:
  std::shared_ptr<Frame> makeFrame(std::uint32_t routine, std::shared_ptr<Frame> caller);
  void pick();
  void findLimit();

  const std::byte *constants;
  std::byte *registers = nullptr;
  Group group;                 ///< the one that runs; no lanes: none does
  std::uint32_t limit = 0;     ///< where the next other group waits
  std::uint32_t executing = 0; ///< the instruction that is being executed
  unsigned polls = 0;          ///< jumps back after a strong access since the warp yielded
  bool polled = false, yielded = false;
  std::vector<Group> others;
  std::uint32_t exited = 0;
  std::size_t localStride = 0;
  std::unique_ptr<std::byte[], void (*)(void *)> localBytes;
};

} // namespace colossal::ptx

#endif
