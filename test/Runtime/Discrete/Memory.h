// The discrete device's address space: where the executor finds what lies at a device address, and which host
// memory is pinned.
#ifndef COLOSSAL_TEST_RUNTIME_DISCRETE_MEMORY_H
#define COLOSSAL_TEST_RUNTIME_DISCRETE_MEMORY_H

#include "runtime/device/Device.h"

#include <map>
#include <mutex>

namespace colossal::runtime {

/// Used by the device, its queues and its allocations, which share it.
class AddressSpace : public std::enable_shared_from_this<AddressSpace> {
public:
  Status allocate(uint64_t bytes, uint64_t alignment, std::unique_ptr<Allocation> &memory);
  Status allocatePinned(uint64_t bytes, std::unique_ptr<Allocation> &memory);

  /// Where the executor finds `bytes` bytes at a device address; an error if they do not lie in one
  /// allocation.
  Status translate(const void *address, uint64_t bytes, std::byte *&executor) const;
  /// An error unless all of the bytes lie in one piece of pinned memory.
  Status checkPinned(const void *address, uint64_t bytes) const;

private:
  friend class DiscreteMemory;
  friend class PinnedMemory;
  struct Range {
    uint64_t bytes;
    std::byte *executor; ///< null: pinned host memory
  };
  void add(const std::byte *address, Range range);
  void remove(const std::byte *address);
  /// The range that holds the bytes, whose begin goes to `begin`; null if there is none.
  const Range *find(const void *address, uint64_t bytes, const std::byte *&begin) const;

  mutable std::mutex mutex;
  std::map<const std::byte *, Range> ranges; // by first address
};

} // namespace colossal::runtime

#endif // COLOSSAL_TEST_RUNTIME_DISCRETE_MEMORY_H
