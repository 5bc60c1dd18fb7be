#include "Memory.h"

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace colossal::cuda {

namespace {

constexpr std::size_t page = 4096;
// Allocations begin inside of a page: who needs more than 256 has to see to it himself. Behind each lies a
// gap.
constexpr std::size_t alignment = 256, gap = 16 * page;
constexpr int poison = 0xFF;

std::size_t roundUp(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}

} // namespace

Memory::Allocation::~Allocation() {
  if (device)
    ::munmap(device, mapped + gap);
  if (emulator)
    ::munmap(emulator, mapped);
}

bool Memory::Allocation::map(std::size_t wanted) {
  bytes = wanted;
  mapped = roundUp(wanted + alignment, page);
  const int file = ::memfd_create("emulated-gpu", MFD_CLOEXEC);
  if (file < 0)
    return false;
  bool good = ::ftruncate(file, static_cast<off_t>(mapped)) == 0;
  // The reservation has the gap; the file's part of it is as forbidden, but is the file's.
  void *reserved =
      ::mmap(nullptr, mapped + gap, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved != MAP_FAILED)
    device = reserved;
  good = good && device && ::mmap(device, mapped, PROT_NONE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
  void *view = good ? ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (view != MAP_FAILED)
    emulator = view;
  ::close(file);
  if (!emulator)
    return false;
  std::memset(emulator, poison, mapped);
  address = reinterpret_cast<std::uintptr_t>(device) + alignment;
  data = static_cast<std::byte *>(emulator) + alignment;
  return true;
}

Result Memory::allocate(std::size_t bytes, DevicePointer &pointer) {
  if (bytes == 0)
    return InvalidValue;
  if (bytes > available())
    return OutOfMemory;
  auto made = std::make_shared<Allocation>();
  if (!made->map(bytes))
    return OutOfMemory;
  used += bytes;
  pointer = made->address;
  allocations[pointer] = std::move(made);
  return Success;
}

std::shared_ptr<const Memory::Allocation> Memory::release(DevicePointer pointer) {
  auto found = allocations.find(pointer);
  if (found == allocations.end())
    return nullptr;
  std::shared_ptr<const Allocation> released = found->second;
  used -= released->bytes;
  allocations.erase(found);
  return released;
}

Result Memory::allocatePinned(std::size_t bytes, void *&pointer) {
  if (bytes == 0)
    return InvalidValue;
  pointer = std::aligned_alloc(page, roundUp(bytes, page));
  if (!pointer)
    return OutOfMemory;
  std::memset(pointer, poison, bytes);
  pinned[reinterpret_cast<std::uintptr_t>(pointer)] = {bytes, true};
  return Success;
}

Result Memory::releasePinned(void *pointer) {
  auto found = pinned.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == pinned.end() || !found->second.own)
    return InvalidValue;
  pinned.erase(found);
  std::free(pointer);
  return Success;
}

Result Memory::registerHost(void *pointer, std::size_t bytes) {
  if (!pointer || bytes == 0)
    return InvalidValue;
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  for (const auto &[first, piece] : pinned)
    if (first < begin + bytes && begin < first + piece.bytes)
      return HostMemoryAlreadyRegistered;
  pinned[begin] = {bytes, false};
  return Success;
}

Result Memory::unregisterHost(void *pointer) {
  auto found = pinned.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == pinned.end() || found->second.own)
    return HostMemoryNotRegistered;
  pinned.erase(found);
  return Success;
}

std::byte *Memory::find(DevicePointer pointer, std::size_t bytes) const {
  auto after = allocations.upper_bound(pointer);
  if (after == allocations.begin())
    return nullptr;
  const Allocation &allocation = *std::prev(after)->second;
  const std::uint64_t at = pointer - allocation.address;
  return at <= allocation.bytes && bytes <= allocation.bytes - at ? allocation.data + at : nullptr;
}

bool Memory::isPinned(const void *pointer, std::size_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  auto after = pinned.upper_bound(at);
  if (after == pinned.begin())
    return false;
  const auto &[first, piece] = *std::prev(after);
  return at - first <= piece.bytes && bytes <= piece.bytes - (at - first);
}

std::vector<std::shared_ptr<const Memory::Allocation>> Memory::list(std::vector<ptx::Buffer> &buffers) const {
  std::vector<std::shared_ptr<const Allocation>> kept;
  for (const auto &[address, allocation] : allocations) {
    buffers.push_back({"device memory", address, allocation->bytes, allocation->data, true});
    kept.push_back(allocation);
  }
  return kept;
}

} // namespace colossal::cuda
