// Addresses, and whole frames in one go.
#include "runtime/comm/tcp/Socket.h"

#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace colossal::runtime {

namespace {

struct Header {
  uint32_t kind, from, to, unused;
  uint64_t length;
};

Status failure(const std::string &what) {
  return {Code::RankFailed, what + ": " + std::strerror(errno)};
}

/// Calls `use` with each address of host:port until one succeeds; its failures' last is told.
template <class Use>
Status withAddresses(const std::string &host, uint16_t port, int flags, Use use) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  const std::string where = host + ":" + std::to_string(port);
  if (int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); code != 0)
    return {Code::InvalidArgument, where + " is no address: " + ::gai_strerror(code)};
  Status status = {Code::NotFound, where + " has no address"};
  for (addrinfo *at = found; at && !status.ok(); at = at->ai_next) {
    const int file = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (file < 0) {
      status = failure("a socket");
      continue;
    }
    status = use(file, *at);
    if (!status.ok())
      ::close(file);
  }
  ::freeaddrinfo(found);
  return status;
}

bool readAll(int file, void *data, size_t bytes, bool &closed) {
  auto *at = static_cast<char *>(data);
  while (bytes > 0) {
    const ssize_t done = ::recv(file, at, bytes, 0);
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0) {
      closed = done == 0 || errno == ECONNRESET;
      return false;
    }
    at += done, bytes -= static_cast<size_t>(done);
  }
  return true;
}

} // namespace

void Socket::take(Socket &other) {
  close();
  file = other.file;
  other.file = -1;
}

void Socket::close() {
  if (file >= 0)
    ::close(file);
  file = -1;
}

void Socket::shutdown() {
  if (file >= 0)
    ::shutdown(file, SHUT_RDWR);
}

void Socket::limitReceiving(std::chrono::seconds span) {
  const timeval limit = {static_cast<time_t>(span.count()), 0};
  ::setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

Status Socket::listen(const std::string &host, uint16_t port, Socket &socket) {
  return withAddresses(host, port, AI_PASSIVE, [&](int file, const addrinfo &address) -> Status {
    const int yes = 1;
    ::setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (::bind(file, address.ai_addr, address.ai_addrlen) != 0 || ::listen(file, 1024) != 0)
      return failure("rank 0 cannot listen at " + host + ":" + std::to_string(port));
    Socket made(file);
    socket.take(made);
    return {};
  });
}

Status Socket::connect(const std::string &host, uint16_t port, Socket &socket) {
  return withAddresses(host, port, 0, [&](int file, const addrinfo &address) -> Status {
    if (::connect(file, address.ai_addr, address.ai_addrlen) != 0)
      return {Code::NotFound,
              "nobody answers at " + host + ":" + std::to_string(port) + ": " + std::strerror(errno)};
    const int yes = 1;
    ::setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ::setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    Socket made(file);
    socket.take(made);
    return {};
  });
}

Status Socket::accept(std::chrono::milliseconds span, Socket &accepted) const {
  pollfd waiting = {file, POLLIN, 0};
  if (::poll(&waiting, 1, static_cast<int>(span.count())) <= 0)
    return {};
  const int made = ::accept4(file, nullptr, nullptr, SOCK_CLOEXEC);
  if (made < 0)
    return errno == EINTR || errno == ECONNABORTED ? Status() : failure("accept");
  const int yes = 1;
  ::setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::setsockopt(made, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  Socket own(made);
  accepted.take(own);
  return {};
}

Status Socket::send(const Frame &frame) {
  Header header = {frame.kind, frame.from, frame.to, 0, frame.text.size()};
  std::lock_guard<std::mutex> lock(sending);
  iovec parts[] = {{&header, sizeof header}, {const_cast<char *>(frame.text.data()), frame.text.size()}};
  for (iovec *part = parts; part != std::end(parts);) {
    msghdr message = {};
    message.msg_iov = part;
    message.msg_iovlen = static_cast<size_t>(std::end(parts) - part);
    ssize_t done = ::sendmsg(file, &message, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return failure("a message to another process");
    for (; part != std::end(parts) && static_cast<size_t>(done) >= part->iov_len; ++part)
      done -= static_cast<ssize_t>(part->iov_len);
    if (part != std::end(parts)) {
      part->iov_base = static_cast<char *>(part->iov_base) + done;
      part->iov_len -= static_cast<size_t>(done);
    }
  }
  return {};
}

Status Socket::receive(Frame &frame, bool &closed, uint64_t limit) {
  closed = false;
  Header header;
  if (!readAll(file, &header, sizeof header, closed))
    return closed ? Status() : failure("a message from another process");
  if (header.length > limit)
    return {Code::RankFailed, "a message of " + std::to_string(header.length) + " bytes, which nobody sends"};
  frame.kind = header.kind, frame.from = header.from, frame.to = header.to;
  frame.text.resize(header.length);
  if (!readAll(file, frame.text.data(), frame.text.size(), closed))
    return closed ? Status() : failure("a message from another process");
  return {};
}

} // namespace colossal::runtime
