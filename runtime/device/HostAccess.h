// How the host writes and reads a device's memory.
//
// Where the host reaches that memory, whoever produces or consumes the bytes works in place: nothing is
// copied that need not be. Elsewhere the bytes go through two pinned buffers in turn, so that one is filled
// while the other is on its way.
#ifndef COLOSSAL_RUNTIME_DEVICE_HOSTACCESS_H
#define COLOSSAL_RUNTIME_DEVICE_HOSTACCESS_H

#include "runtime/device/Device.h"

namespace colossal::runtime {

class HostAccess {
public:
  /// `device` outlives this.
  explicit HostAccess(Device &device) : device(device) {}

  /// Puts bytes [begin, end) of a region at `host`.
  using Writer = std::function<Status(std::byte *host, uint64_t begin, uint64_t end)>;
  /// Takes them from there.
  using Reader = std::function<Status(const std::byte *host, uint64_t begin, uint64_t end)>;

  /// Writes the region of `bytes` bytes at `destination`, as part of `queue`'s work. `writer` is called for
  /// the whole region or for pieces of it in order, which begin at multiples of 64; possibly after this
  /// returned, but not after the queue was synchronized.
  Status write(Queue &queue, void *destination, uint64_t bytes, const Writer &writer);
  /// The same from bytes that lie in host memory and stay as they are until the queue was synchronized.
  Status write(Queue &queue, void *destination, uint64_t bytes, const std::byte *source);
  /// Reads the region at `source`, in pieces as above, and returns when all has been read. The caller has
  /// seen the end of the work that wrote it.
  Status read(Queue &queue, const void *source, uint64_t bytes, const Reader &reader);

  /// Bytes of pinned memory that it holds.
  uint64_t stagingBytes() const;

private:
  struct Piece {
    std::unique_ptr<Allocation> memory;
    std::unique_ptr<Event> done; ///< of the transfer that used it last
  };
  Status prepare();

  Device &device;
  Piece pieces[2];
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_DEVICE_HOSTACCESS_H
