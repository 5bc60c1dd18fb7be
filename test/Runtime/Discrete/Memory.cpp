// Memory files mapped twice, and the table of them.
#include "Memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace colossal::runtime {

namespace {

constexpr uint64_t page = 4096;
constexpr int poison = 0xFF;

uint64_t roundUp(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

/// `bytes` of a file at an aligned address, in a reservation of its own.
class Mapping {
public:
  ~Mapping() {
    if (reservation != MAP_FAILED)
      ::munmap(reservation, reserved);
  }
  Status map(int file, uint64_t bytes, uint64_t alignment, int protection) {
    reserved = bytes + alignment;
    reservation = ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reservation == MAP_FAILED)
      return {Code::OutOfMemory, std::strerror(errno)};
    address = reinterpret_cast<std::byte *>(roundUp(reinterpret_cast<uint64_t>(reservation), alignment));
    if (::mmap(address, bytes, protection, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
      return {Code::OutOfMemory, std::strerror(errno)};
    return {};
  }
  std::byte *address = nullptr;

private:
  void *reservation = MAP_FAILED;
  uint64_t reserved = 0;
};

} // namespace

class DiscreteMemory : public Allocation {
public:
  explicit DiscreteMemory(std::shared_ptr<AddressSpace> space) : space(std::move(space)) {}
  ~DiscreteMemory() override {
    if (base)
      space->remove(base);
  }

  Status map(uint64_t bytes, uint64_t alignment) {
    const uint64_t mapped = roundUp(std::max<uint64_t>(bytes, 1), page);
    const int file = ::memfd_create("discrete-device", MFD_CLOEXEC);
    if (file < 0)
      return {Code::OutOfMemory, std::strerror(errno)};
    Status status;
    if (::ftruncate(file, static_cast<off_t>(mapped)) != 0)
      status = {Code::OutOfMemory, std::strerror(errno)};
    alignment = std::max(alignment, page);
    if (status.ok())
      status = device.map(file, mapped, alignment, PROT_NONE);
    if (status.ok())
      status = executor.map(file, mapped, alignment, PROT_READ | PROT_WRITE);
    ::close(file);
    COLOSSAL_RETURN_IF_ERROR(status);
    std::memset(executor.address, poison, mapped);
    base = device.address;
    size = bytes;
    space->add(base, {bytes, executor.address});
    return {};
  }

private:
  std::shared_ptr<AddressSpace> space;
  Mapping device, executor;
};

class PinnedMemory : public Allocation {
public:
  explicit PinnedMemory(std::shared_ptr<AddressSpace> space) : space(std::move(space)) {}
  ~PinnedMemory() override {
    if (!base)
      return;
    space->remove(base);
    std::free(base);
  }

  Status reserve(uint64_t bytes) {
    const uint64_t rounded = roundUp(std::max<uint64_t>(bytes, 1), page);
    auto *made = static_cast<std::byte *>(std::aligned_alloc(page, rounded));
    if (!made)
      return {Code::OutOfMemory, "no memory to pin"};
    std::memset(made, poison, rounded);
    base = made;
    size = bytes;
    space->add(base, {bytes, nullptr});
    return {};
  }

private:
  std::shared_ptr<AddressSpace> space;
};

Status AddressSpace::allocate(uint64_t bytes, uint64_t alignment, std::unique_ptr<Allocation> &memory) {
  auto made = std::make_unique<DiscreteMemory>(shared_from_this());
  COLOSSAL_RETURN_IF_ERROR(made->map(bytes, alignment));
  memory = std::move(made);
  return {};
}

Status AddressSpace::allocatePinned(uint64_t bytes, std::unique_ptr<Allocation> &memory) {
  auto made = std::make_unique<PinnedMemory>(shared_from_this());
  COLOSSAL_RETURN_IF_ERROR(made->reserve(bytes));
  memory = std::move(made);
  return {};
}

void AddressSpace::add(const std::byte *address, Range range) {
  std::lock_guard<std::mutex> lock(mutex);
  ranges[address] = range;
}

void AddressSpace::remove(const std::byte *address) {
  std::lock_guard<std::mutex> lock(mutex);
  ranges.erase(address);
}

const AddressSpace::Range *AddressSpace::find(const void *address, uint64_t bytes,
                                              const std::byte *&begin) const {
  const auto *first = static_cast<const std::byte *>(address);
  auto after = ranges.upper_bound(first);
  if (after == ranges.begin())
    return nullptr;
  const auto &[start, range] = *std::prev(after);
  begin = start;
  return static_cast<uint64_t>(first - start) + bytes <= range.bytes ? &range : nullptr;
}

Status AddressSpace::translate(const void *address, uint64_t bytes, std::byte *&executor) const {
  std::lock_guard<std::mutex> lock(mutex);
  const std::byte *begin = nullptr;
  const Range *range = find(address, bytes, begin);
  if (!range || !range->executor)
    return {Code::Internal, "work on " + std::to_string(bytes) + " bytes that do not lie in device memory"};
  executor = range->executor + (static_cast<const std::byte *>(address) - begin);
  return {};
}

Status AddressSpace::checkPinned(const void *address, uint64_t bytes) const {
  std::lock_guard<std::mutex> lock(mutex);
  const std::byte *begin = nullptr;
  const Range *range = find(address, bytes, begin);
  if (!range || range->executor)
    return {Code::Internal, "a transfer of " + std::to_string(bytes) + " bytes is not with pinned memory"};
  return {};
}

} // namespace colossal::runtime
