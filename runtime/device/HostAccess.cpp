// In place, or through two pinned buffers in turn.
#include "runtime/device/HostAccess.h"

#include <algorithm>
#include <cstring>

namespace colossal::runtime {

// Large enough that a bus is busy, small enough that filling one and sending the other overlap early.
static constexpr uint64_t pieceBytes = 4 << 20;

Status HostAccess::prepare() {
  for (Piece &piece : pieces) {
    if (piece.memory)
      continue;
    COLOSSAL_RETURN_IF_ERROR(device.allocatePinned(pieceBytes, piece.memory));
    piece.done = device.createEvent();
  }
  return {};
}

Status HostAccess::write(Queue &queue, void *destination, uint64_t bytes, const Writer &writer) {
  auto *to = static_cast<std::byte *>(destination);
  if (device.hostReachesMemory()) {
    if (queue.immediate())
      return writer(to, 0, bytes);
    return queue.hostTask([=] { return writer(to, 0, bytes); });
  }
  COLOSSAL_RETURN_IF_ERROR(prepare());
  for (uint64_t begin = 0, turn = 0; begin < bytes; begin += pieceBytes, turn ^= 1) {
    const uint64_t end = std::min(bytes, begin + pieceBytes);
    Piece &piece = pieces[turn];
    COLOSSAL_RETURN_IF_ERROR(piece.done->synchronize());
    COLOSSAL_RETURN_IF_ERROR(writer(piece.memory->address(), begin, end));
    COLOSSAL_RETURN_IF_ERROR(queue.upload(to + begin, piece.memory->address(), end - begin));
    COLOSSAL_RETURN_IF_ERROR(queue.record(*piece.done));
  }
  return {};
}

Status HostAccess::write(Queue &queue, void *destination, uint64_t bytes, const std::byte *source) {
  if (device.hostReachesMemory())
    return queue.upload(destination, source, bytes);
  return write(queue, destination, bytes, [source](std::byte *host, uint64_t begin, uint64_t end) {
    std::memcpy(host, source + begin, end - begin);
    return Status();
  });
}

Status HostAccess::read(Queue &queue, const void *source, uint64_t bytes, const Reader &reader) {
  const auto *from = static_cast<const std::byte *>(source);
  if (device.hostReachesMemory())
    return reader(from, 0, bytes);
  COLOSSAL_RETURN_IF_ERROR(prepare());
  auto fetch = [&](uint64_t begin) -> Status {
    Piece &piece = pieces[begin / pieceBytes % 2];
    COLOSSAL_RETURN_IF_ERROR(
        queue.download(piece.memory->address(), from + begin, std::min(pieceBytes, bytes - begin)));
    return queue.record(*piece.done);
  };
  for (Piece &piece : pieces)
    COLOSSAL_RETURN_IF_ERROR(piece.done->synchronize());
  if (bytes > 0)
    COLOSSAL_RETURN_IF_ERROR(fetch(0));
  for (uint64_t begin = 0; begin < bytes; begin += pieceBytes) {
    if (begin + pieceBytes < bytes)
      COLOSSAL_RETURN_IF_ERROR(fetch(begin + pieceBytes));
    Piece &piece = pieces[begin / pieceBytes % 2];
    COLOSSAL_RETURN_IF_ERROR(piece.done->synchronize());
    COLOSSAL_RETURN_IF_ERROR(reader(piece.memory->address(), begin, std::min(bytes, begin + pieceBytes)));
  }
  return {};
}

uint64_t HostAccess::stagingBytes() const {
  uint64_t bytes = 0;
  for (const Piece &piece : pieces)
    bytes += piece.memory ? piece.memory->bytes() : 0;
  return bytes;
}

} // namespace colossal::runtime
