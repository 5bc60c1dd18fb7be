#include "Memory.h"

#include <algorithm>

namespace colossal::ptx {

Region::Region(const Buffer &buffer, bool shadowed) : buffer(buffer) {
  if (!shadowed || !buffer.writable || !buffer.size)
    return;
  std::uint64_t first = buffer.address >> ShadowPage::kShift;
  pageCount = ((buffer.address + buffer.size - 1) >> ShadowPage::kShift) - first + 1;
  pages.reset(new std::atomic<ShadowPage *>[pageCount]());
}

Region::~Region() {
  for (std::size_t i = 0; i < pageCount; ++i)
    delete pages[i].load();
}

ShadowPage *Region::page(std::uint64_t address, unsigned granule) const {
  if (!pages)
    return nullptr;
  std::atomic<ShadowPage *> &place =
      pages[(address >> ShadowPage::kShift) - (buffer.address >> ShadowPage::kShift)];
  ShadowPage *page = place.load(std::memory_order_acquire);
  if (page)
    return page;
  auto made = std::make_unique<ShadowPage>(granule);
  if (place.compare_exchange_strong(page, made.get(), std::memory_order_acq_rel))
    page = made.release();
  return page;
}

void Region::listTouched(unsigned granule, std::vector<Touched> &touched) const {
  const std::uint64_t first = buffer.address >> ShadowPage::kShift;
  for (std::size_t i = 0; i < pageCount; ++i) {
    ShadowPage *page = pages[i].load(std::memory_order_acquire);
    if (!page)
      continue;
    for (std::uint64_t at = (first + i) << ShadowPage::kShift, end = (first + i + 1) << ShadowPage::kShift;
         at < end; at += std::uint64_t(1) << granule) {
      const Cell &cell = *page->at(at, granule);
      if (!cell.writeBlock && !cell.readBlock)
        continue;
      const bool written = cell.writeBlock != 0;
      const std::uint64_t next = at + (std::uint64_t(1) << granule);
      if (!touched.empty() && touched.back().end == at && touched.back().written == written)
        touched.back().end = next;
      else
        touched.push_back({at, next, written});
    }
  }
}

Memory::Memory(const std::vector<Buffer> &buffers, bool shadowed) {
  for (const Buffer &buffer : buffers)
    regions.push_back(std::make_unique<Region>(buffer, shadowed));
  std::sort(regions.begin(), regions.end(),
            [](const auto &a, const auto &b) { return a->buffer.address < b->buffer.address; });
}

const Region *Memory::nearest(std::uint64_t address) const {
  auto after =
      std::upper_bound(regions.begin(), regions.end(), address, [](std::uint64_t value, const auto &region) {
        return value < region->buffer.address;
      });
  if (after == regions.begin())
    return regions.empty() ? nullptr : regions.front().get();
  return after[-1].get();
}

const Region *Memory::find(std::uint64_t address) const {
  const Region *region = nearest(address);
  return region && region->holds(address, address + 1) ? region : nullptr;
}

std::size_t Memory::publish(std::uint64_t address, std::uint32_t block, bool released) {
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<std::uint32_t> &names = handovers[address];
  std::size_t before = names.size();
  if (released && (names.empty() || names.back() != block))
    names.push_back(block);
  return before;
}

bool Memory::published(std::uint64_t address, std::size_t first, std::uint32_t block) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = handovers.find(address);
  if (found == handovers.end())
    return false;
  return std::find(found->second.begin(), found->second.begin() + static_cast<std::ptrdiff_t>(first),
                   block) != found->second.begin() + static_cast<std::ptrdiff_t>(first);
}

} // namespace colossal::ptx
