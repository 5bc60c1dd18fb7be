//===- HugePages.cpp - memory by the megabyte -------------------------------===//
#include "HugePages.h"

#include <cstdint>
#include <cstdlib>
#include <sys/mman.h>

/// More than GPT-2 or 96 equal layers take. What is needed beyond lies in pages as ever.
static constexpr std::uintptr_t kReserved = std::uintptr_t{512} << 20;
static constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;

void colossal::useHugePages() {
  // The allocator keeps addresses that it was once given, and takes what it is asked for from them: so the
  // advice holds for whatever comes to lie there. Nothing here is touched.
  void *heap = std::malloc(kReserved);
  if (!heap)
    return; // under a limit of addresses
  const auto address = reinterpret_cast<std::uintptr_t>(heap);
  const std::uintptr_t begin = (address + kHugePage - 1) / kHugePage * kHugePage,
                       end = (address + kReserved) / kHugePage * kHugePage;
  // Where there are no huge pages, all stays as it was.
  (void)madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE);
  std::free(heap);
}
