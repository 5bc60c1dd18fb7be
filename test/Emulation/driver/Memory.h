// Memory of an emulated GPU, and host memory that it may reach.
//
// Device memory is one file mapped twice: at the device's address, which the host may not touch, and where
// the emulator works. Fresh memory is poisoned with bytes 0xFF (NaN, -1). Calls come one at a time.
#ifndef COLOSSAL_EMULATION_DRIVER_MEMORY_H
#define COLOSSAL_EMULATION_DRIVER_MEMORY_H

#include "Ptx.h"
#include "runtime/cuda/Abi.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace colossal::cuda {

class Memory {
public:
  /// `limit`: bytes of device memory that there are.
  explicit Memory(std::size_t limit) : limit(limit) {}

  Result allocate(std::size_t bytes, DevicePointer &pointer);
  /// Null if no allocation begins there.
  struct Allocation;
  std::shared_ptr<const Allocation> release(DevicePointer pointer);
  std::size_t capacity() const { return limit; }
  std::size_t available() const { return limit - used; }

  Result allocatePinned(std::size_t bytes, void *&pointer);
  Result releasePinned(void *pointer);
  Result registerHost(void *pointer, std::size_t bytes);
  Result unregisterHost(void *pointer);

  /// Where the emulator finds `bytes` bytes at a device address; null if they do not lie in one allocation.
  std::byte *find(DevicePointer pointer, std::size_t bytes) const;
  /// Whether all of the bytes lie in one piece of pinned or registered memory.
  bool isPinned(const void *pointer, std::size_t bytes) const;
  /// All device memory, as a launch takes it. What is returned keeps it alive.
  std::vector<std::shared_ptr<const Allocation>> list(std::vector<ptx::Buffer> &buffers) const;

private:
  struct Pinned {
    std::size_t bytes = 0;
    bool own = false; ///< allocated here, not only registered
  };
  const std::size_t limit;
  std::size_t used = 0;
  std::map<DevicePointer, std::shared_ptr<const Allocation>> allocations;
  std::map<std::uintptr_t, Pinned> pinned;
};

struct Memory::Allocation {
  Allocation() = default;
  Allocation(const Allocation &) = delete;
  ~Allocation();
  bool map(std::size_t bytes);

  std::size_t bytes = 0;
  DevicePointer address = 0;
  std::byte *data = nullptr;

private:
  std::size_t mapped = 0;
  void *device = nullptr, *emulator = nullptr;
};

} // namespace colossal::cuda

#endif
