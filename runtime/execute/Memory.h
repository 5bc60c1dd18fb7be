// A rank's arenas: every byte that a plan states, allocated once, before anything runs.
#ifndef COLOSSAL_RUNTIME_EXECUTE_MEMORY_H
#define COLOSSAL_RUNTIME_EXECUTE_MEMORY_H

#include "runtime/device/Device.h"

#include <vector>

namespace colossal::runtime {

class Arenas {
public:
  /// Makes the arenas, at their alignments. The device outlives them.
  Status allocate(Device &device, const google::protobuf::RepeatedPtrField<plan::Arena> &stated);

  /// The arena's first address; the device's, not the host's.
  std::byte *base(uint32_t arena) const { return blocks[arena]->address(); }
  uint64_t residentBytes(uint32_t arena) const { return blocks[arena]->residentBytes(); }

private:
  std::vector<std::unique_ptr<Allocation>> blocks;
};

/// Anonymous memory of this process in bytes: now, and the most since the start as far as the system tells.
struct ProcessMemory {
  uint64_t anonymous = 0;
  uint64_t peakResident = 0;
};
ProcessMemory processMemory();

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_EXECUTE_MEMORY_H
