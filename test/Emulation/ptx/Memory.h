// Memory as a launch sees it: regions of device memory, found by address, each with the shadow of who touched
// it. One instance serves all host threads of a launch.
#ifndef COLOSSAL_EMULATION_PTX_MEMORY_H
#define COLOSSAL_EMULATION_PTX_MEMORY_H

#include "Ptx.h"
#include "Shadow.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

namespace colossal::ptx {

/// Cells of 4 KiB of memory, made when first touched.
class ShadowPage {
public:
  static constexpr unsigned kShift = 12;
  explicit ShadowPage(unsigned granule) : cells(new Cell[std::size_t(1) << (kShift - granule)]) {}
  Cell *at(std::uint64_t address, unsigned granule) {
    return &cells[(address & ((std::uint64_t(1) << kShift) - 1)) >> granule];
  }
  void lock() {
    while (busy.test_and_set(std::memory_order_acquire)) {
    }
  }
  void unlock() { busy.clear(std::memory_order_release); }

private:
  std::unique_ptr<Cell[]> cells;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
};

class Region {
public:
  Region(const Buffer &buffer, bool shadowed);
  Region(const Region &) = delete;
  ~Region();

  bool holds(std::uint64_t first, std::uint64_t end) const {
    return first >= buffer.address && end <= buffer.address + buffer.size && first <= end;
  }
  std::byte *at(std::uint64_t address) const {
    return static_cast<std::byte *>(buffer.data) + (address - buffer.address);
  }
  /// Null where the region's touches need not be followed.
  ShadowPage *page(std::uint64_t address, unsigned granule) const;
  /// Adds what was touched in it, once the launch has ended.
  void listTouched(unsigned granule, std::vector<Touched> &touched) const;

  const Buffer buffer;

private:
  std::size_t pageCount = 0;
  std::unique_ptr<std::atomic<ShadowPage *>[]> pages;
};

class Memory {
public:
  /// `shadowed`: writable regions have shadows.
  Memory(const std::vector<Buffer> &buffers, bool shadowed);

  const std::vector<std::unique_ptr<Region>> &all() const { return regions; }
  /// Null if no region holds the address.
  const Region *find(std::uint64_t address) const;
  /// The region that lies closest below `address`, or above it: what an overrun most probably overran.
  const Region *nearest(std::uint64_t address) const;

  /// Blocks hand results over by a fence and an atomic access: `block` puts its name down at `address`, and
  /// all who access it atomically later take over what stands there. Returns how many names stand there.
  std::size_t publish(std::uint64_t address, std::uint32_t block, bool released);
  bool published(std::uint64_t address, std::size_t first, std::uint32_t block) const;

private:
  std::vector<std::unique_ptr<Region>> regions; ///< by address
  mutable std::mutex mutex;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> handovers;
};

} // namespace colossal::ptx

#endif
