// Frames over a connected socket.
#ifndef COLOSSAL_RUNTIME_COMM_TCP_SOCKET_H
#define COLOSSAL_RUNTIME_COMM_TCP_SOCKET_H

#include "colossal/Plan/Status.h"

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace colossal::runtime {

using plan::Code;
using plan::Status;

struct Frame {
  uint32_t kind = 0, from = 0, to = 0;
  std::string text;
};

/// Owns its descriptor. One thread receives; any may send.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : file(descriptor) {}
  Socket(const Socket &) = delete;
  ~Socket() { close(); }

  /// Listens at `host`:`port` for connections of this host's interface that has the address.
  static Status listen(const std::string &host, uint16_t port, Socket &socket);
  /// One attempt; NotFound where nobody listens.
  static Status connect(const std::string &host, uint16_t port, Socket &socket);
  /// Waits at most `span` for a connection; `accepted` stays closed if none came.
  Status accept(std::chrono::milliseconds span, Socket &accepted) const;

  Status send(const Frame &frame);
  /// Blocks. `closed` where the other side has gone. Frames of more than `limit` bytes are refused.
  Status receive(Frame &frame, bool &closed, uint64_t limit = uint64_t(1) << 40);
  /// Makes receive fail where nothing comes for so long; nothing: it waits for ever.
  void limitReceiving(std::chrono::seconds span);
  /// Ends what waits in receive; the descriptor stays open.
  void shutdown();
  void close();
  int descriptor() const { return file; }
  void take(Socket &other);

private:
  int file = -1;
  std::mutex sending;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_COMM_TCP_SOCKET_H
