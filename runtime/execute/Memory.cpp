// Arenas by mmap, and what the system says about the process's memory.
#include "runtime/execute/Memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/mman.h>

namespace colossal::runtime {

namespace {
constexpr uint64_t page = 4096, hugePage = 2 << 20;
uint64_t roundUp(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}
} // namespace

Arenas::~Arenas() {
  for (Block &block : blocks)
    if (block.mapping)
      ::munmap(block.mapping, block.mapped);
}

Status Arenas::allocate(const plan::Plan &plan) {
  blocks.resize(static_cast<size_t>(plan.arenas_size()));
  for (size_t i = 0; i < blocks.size(); ++i) {
    const plan::Arena &arena = plan.arenas(static_cast<int>(i));
    Block &block = blocks[i];
    block.bytes = arena.bytes();
    const bool huge = arena.bytes() >= hugePage;
    const uint64_t alignment = std::max<uint64_t>(arena.alignment(), huge ? hugePage : page);
    // An empty arena still has an address, so that empty buffers have one.
    block.mapped = roundUp(std::max<uint64_t>(arena.bytes(), 1), page) + alignment;
    void *mapping = ::mmap(nullptr, block.mapped, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
      return {Code::OutOfMemory, "cannot allocate " + std::to_string(arena.bytes()) + " bytes for arena '" +
                                     arena.name() + "': " + std::strerror(errno)};
    block.mapping = mapping;
    block.base = reinterpret_cast<std::byte *>(roundUp(reinterpret_cast<uint64_t>(mapping), alignment));
    // Whole huge pages only: the rest of the last one is not ours to fill.
    if (huge)
      (void)::madvise(block.base, arena.bytes() / hugePage * hugePage, MADV_HUGEPAGE);
  }
  return {};
}

uint64_t Arenas::residentBytes(uint32_t arena) const {
  const Block &block = blocks[arena];
  std::vector<unsigned char> pages(roundUp(block.bytes, page) / page);
  if (pages.empty() || ::mincore(block.base, pages.size() * page, pages.data()) != 0)
    return 0;
  uint64_t resident = 0;
  for (unsigned char flag : pages)
    resident += flag & 1;
  return std::min(block.bytes, resident * page);
}

ProcessMemory processMemory() {
  ProcessMemory memory;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    auto value = [&] { return std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10) * 1024; };
    if (line.rfind("RssAnon:", 0) == 0)
      memory.anonymous = value();
    else if (line.rfind("VmHWM:", 0) == 0)
      memory.peakResident = value();
  }
  return memory;
}

} // namespace colossal::runtime
