// A rank's arenas: every byte that a plan states, allocated once, before anything runs.
#ifndef COLOSSAL_RUNTIME_EXECUTE_MEMORY_H
#define COLOSSAL_RUNTIME_EXECUTE_MEMORY_H

#include "colossal/Plan/Plan.pb.h"
#include "colossal/Plan/Status.h"

#include <cstddef>
#include <vector>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

class Arenas {
public:
  Arenas() = default;
  Arenas(const Arenas &) = delete;
  Arenas &operator=(const Arenas &) = delete;
  ~Arenas();

  /// Maps zeroed memory for all of the plan's arenas, at their alignments; large ones ask for huge pages.
  Status allocate(const plan::Plan &plan);

  std::byte *base(uint32_t arena) const { return blocks[arena].base; }
  uint64_t bytes(uint32_t arena) const { return blocks[arena].bytes; }
  /// Bytes of the arena that are backed by memory now; never more than its size, rounded up to pages.
  uint64_t residentBytes(uint32_t arena) const;

private:
  struct Block {
    std::byte *base = nullptr;
    uint64_t bytes = 0;
    void *mapping = nullptr;
    uint64_t mapped = 0;
  };
  std::vector<Block> blocks;
};

/// Anonymous memory of this process in bytes: now, and the most since the start as far as the system tells.
struct ProcessMemory {
  uint64_t anonymous = 0;
  uint64_t peakResident = 0;
};
ProcessMemory processMemory();

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_MEMORY_H
