// A block of threads: its warps, shared memory and barriers, and the order in which warps run. The checks of
// each access to memory are made here, where all that they need is known.
#ifndef COLOSSAL_EMULATION_PTX_BLOCK_H
#define COLOSSAL_EMULATION_PTX_BLOCK_H

#include "Memory.h"
#include "Warp.h"

#include <map>
#include <random>

namespace colossal::ptx {

struct Access {
  Space space = Space::Generic;
  std::array<std::uint64_t, kLanes> address;
  unsigned bytes = 0;
  Touch touch;
  bool release = false;
  /// Of writes: the bytes of a lane, `bytes` each; lanes of one instruction may write one value to one place.
  const std::byte *values = nullptr;
};

/// Host addresses of the lanes' bytes; those without are null.
using Places = std::array<std::byte *, kLanes>;

/// Executes blocks one after another on one host thread, with what outlives a block: memory for shared
/// variables, caches.
class Block {
public:
  Block(const Program &program, const Launch &launch, Memory &memory, std::string_view text);

  /// Runs the block of this linear index to its end.
  void run(std::uint64_t index);

  // For handlers.
  /// Checks an access and finds its bytes. Lanes whose access is a fault are not in the result.
  std::uint32_t resolve(Warp &warp, const Instruction &instruction, std::uint32_t mask, Access &access,
                        Places &places);
  /// The barrier instruction `number` is reached by lanes of a warp; `expected` threads end it, 0: all of the
  /// block. True: it is complete, and all have been let go.
  bool arrive(Warp &warp, std::uint32_t mask, unsigned number, std::uint32_t expected,
              std::uint32_t predicates);
  /// The warp is among those that go on when the barrier is complete.
  void await(const Warp &warp, unsigned number);
  /// How many threads, and how many of them with a predicate that holds, the last completion of the barrier
  /// brought together.
  struct Count {
    std::uint32_t threads = 0, holding = 0;
  };
  Count lastCount(unsigned number) const { return barriers[number].last; }
  void fence() { fenced = true; }
  void fault(FaultKind kind, const Warp &warp, unsigned lane, std::uint64_t address, std::string_view buffer,
             const std::string &what, std::uint32_t line);
  /// Ends the block after a fault that it cannot go on from.
  void stop() { stopped = true; }
  std::uint32_t special(Special special, const Warp &warp, unsigned lane) const;
  std::uint32_t random() { return static_cast<std::uint32_t>(generator()); }

  const Launch &launch;
  const std::uint32_t *seenOf(unsigned warp) const { return seen[warp].data(); }
  std::uint32_t clockOf(unsigned warp) const { return clock[warp]; }
  /// What the warp has done so far is seen by its own lanes, and what it does next is later.
  void advance(unsigned warp) {
    seen[warp][warp] = clock[warp];
    clock[warp] = ++ticks;
  }
  std::uint32_t identity() const { return sharedRun; }

  // Results.
  std::uint64_t warpInstructions = 0, laneInstructions = 0;
  std::map<std::pair<unsigned, FaultKind>, Fault> faults;

private:
  struct Barrier {
    std::uint32_t arrived = 0, expected = 0, holding = 0;
    std::array<std::uint32_t, kLanes> joined{};
    std::uint32_t waitingWarps = 0;
    Count last;
  };

  void prepare(std::uint64_t index);
  void reportStuck();
  void explainStuck(const Warp &warp, const Group &group);
  void complete(unsigned number);
  std::uint32_t resolveGlobal(Warp &, const Instruction &, std::uint32_t, Access &, Places &);
  std::uint32_t resolveShared(Warp &, const Instruction &, std::uint32_t, Access &, Places &);
  std::uint32_t resolvePrivate(Warp &, const Instruction &, std::uint32_t, Access &, Places &, Space);
  void shadowGlobal(Warp &, std::uint32_t, const Access &, const Region &, const Actor &);
  void explain(Finding finding, const Cell &before, const Warp &, unsigned lane, const Access &,
               std::uint64_t address, std::string_view buffer, bool shared);
  bool ordered(std::uint32_t other) const;

  const Program &program;
  Memory &memory;
  std::vector<std::string_view> lines;
  std::vector<const Region *> cache; ///< by instruction: where it went last
  std::vector<std::byte> shared;
  std::vector<Cell> sharedCells;
  std::uint32_t sharedRun = 0; ///< number of the block on this host thread, from 1

  Dim3 position;
  std::uint32_t linear = 0;
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<std::array<std::uint32_t, kLanes>, kLanes> seen;
  std::array<std::uint32_t, kLanes> clock;
  std::uint32_t ticks = 0;
  std::array<Barrier, 16> barriers;
  bool fenced = false, stopped = false;
  std::vector<std::pair<std::uint64_t, std::size_t>> takenOver;
  std::mt19937_64 generator;
};

} // namespace colossal::ptx

#endif
