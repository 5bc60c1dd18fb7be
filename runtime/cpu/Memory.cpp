// Allocation by mmap: pages come when they are touched.
#include "runtime/cpu/Memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <vector>

namespace colossal::runtime {

namespace {

constexpr uint64_t page = 4096, hugePage = 2 << 20;
uint64_t roundUp(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

class MappedMemory : public Allocation {
public:
  ~MappedMemory() override {
    if (mapping)
      ::munmap(mapping, mapped);
  }

  Status map(uint64_t bytes, uint64_t alignment) {
    const bool huge = bytes >= hugePage;
    alignment = std::max(alignment, huge ? hugePage : page);
    // An empty allocation still has an address, so that empty buffers have one.
    mapped = roundUp(std::max<uint64_t>(bytes, 1), page) + alignment;
    void *made =
        ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED)
      return {Code::OutOfMemory, std::strerror(errno)};
    mapping = made;
    const auto first = reinterpret_cast<uint64_t>(made);
    base = static_cast<std::byte *>(made) + (roundUp(first, alignment) - first);
    size = bytes;
    // Whole huge pages only: the rest of the last one is not ours to fill.
    if (huge)
      (void)::madvise(base, bytes / hugePage * hugePage, MADV_HUGEPAGE);
    return {};
  }

  uint64_t residentBytes() const override {
    std::vector<unsigned char> pages(roundUp(size, page) / page);
    if (pages.empty() || ::mincore(base, pages.size() * page, pages.data()) != 0)
      return 0;
    uint64_t resident = 0;
    for (unsigned char flag : pages)
      resident += flag & 1;
    return std::min(size, resident * page);
  }

private:
  void *mapping = nullptr;
  uint64_t mapped = 0;
};

} // namespace

Status allocateCpuMemory(uint64_t bytes, uint64_t alignment, std::unique_ptr<Allocation> &memory) {
  auto made = std::make_unique<MappedMemory>();
  COLOSSAL_RETURN_IF_ERROR(made->map(bytes, alignment));
  memory = std::move(made);
  return {};
}

} // namespace colossal::runtime
