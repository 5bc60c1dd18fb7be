#include "Mesh.h"

#include <cerrno>
#include <cstring>
#include <deque>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace colossal::nccl {

namespace {

/// Abstract names: they go with the processes that have them.
socklen_t nameOf(const std::string &id, unsigned rank, sockaddr_un &name) {
  const std::string text = id + "-" + std::to_string(rank);
  name = {};
  name.sun_family = AF_UNIX;
  const std::size_t length = std::min(text.size(), sizeof name.sun_path - 1);
  std::memcpy(name.sun_path + 1, text.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

int makeSocket() {
  return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

struct Visit {
  std::uint32_t rank, isFrom; ///< who comes, and whether it will send
};

struct Header {
  std::uint64_t what, bytes;
};

} // namespace

Mesh::~Mesh() {
  for (auto *files : {&to, &from})
    for (int file : *files)
      if (file >= 0)
        ::close(file);
}

bool Mesh::connect(const std::string &id, unsigned rank, unsigned size, const std::atomic<bool> &stop) {
  to.assign(size, -1);
  from.assign(size, -1);
  sockaddr_un name;
  const int door = makeSocket();
  const socklen_t length = nameOf(id, rank, name);
  bool good = door >= 0 && ::bind(door, reinterpret_cast<sockaddr *>(&name), length) == 0 &&
              ::listen(door, static_cast<int>(2 * size)) == 0;
  // Each goes to those before it, twice, and waits for those behind it.
  for (unsigned peer = 0; good && peer < rank; ++peer)
    for (unsigned isFrom : {0u, 1u}) {
      const int file = makeSocket();
      sockaddr_un there;
      const socklen_t thereLength = nameOf(id, peer, there);
      while (!stop && ::connect(file, reinterpret_cast<sockaddr *>(&there), thereLength) != 0)
        ::usleep(1000);
      const Visit visit = {rank, isFrom};
      good = !stop && ::send(file, &visit, sizeof visit, MSG_NOSIGNAL) == sizeof visit;
      (isFrom ? to : from)[peer] = file;
    }
  for (unsigned come = 0; good && come < 2 * (size - 1 - rank);) {
    pollfd waiting = {door, POLLIN, 0};
    if (::poll(&waiting, 1, 10) <= 0) {
      good = !stop;
      continue;
    }
    const int file = ::accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
    Visit visit = {};
    if (file < 0)
      continue;
    good = ::recv(file, &visit, sizeof visit, MSG_WAITALL) == sizeof visit && visit.rank < size;
    if (good)
      (visit.isFrom ? from : to)[visit.rank] = file;
    ++come;
  }
  if (door >= 0)
    ::close(door);
  return good;
}

namespace {

/// Bytes to go one way of a connection.
struct Piece {
  std::byte *at;
  std::uint64_t left;
  long transfer; ///< whose end this is, -1: nobody's
};

struct Lane {
  int file;
  bool sends;
  std::deque<Piece> out, in;
};

} // namespace

std::string Mesh::exchange(const std::vector<Transfer> &transfers, const std::atomic<bool> &stop,
                           std::atomic<bool> &lost) {
  std::vector<Lane> lanes;
  std::vector<Header> headers(transfers.size());
  std::vector<std::byte> receipts(transfers.size());
  std::size_t open = transfers.size();
  // First all headers and data in order; receipts go and come in the same order.
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const Transfer &transfer = transfers[i];
    const int file = (transfer.sends ? to : from)[transfer.peer];
    std::size_t lane = 0;
    while (lane < lanes.size() && lanes[lane].file != file)
      ++lane;
    if (lane == lanes.size())
      lanes.push_back({file, transfer.sends, {}, {}});
    auto *header = reinterpret_cast<std::byte *>(&headers[i]);
    if (transfer.sends) {
      headers[i] = {transfer.what, transfer.bytes};
      lanes[lane].out.push_back({header, sizeof(Header), -1});
      lanes[lane].out.push_back({transfer.data, transfer.bytes, -1});
      lanes[lane].in.push_back({&receipts[i], 1, static_cast<long>(i)});
    } else {
      lanes[lane].in.push_back({header, sizeof(Header), static_cast<long>(i)});
    }
  }
  std::vector<bool> hasHeader(transfers.size());
  bool gone = false;
  while (open > 0 && !stop) {
    if (gone) {
      ::usleep(1000);
      continue;
    }
    std::vector<pollfd> waiting;
    std::vector<std::size_t> which;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      const short events =
          static_cast<short>((lanes[lane].out.empty() ? 0 : POLLOUT) | (lanes[lane].in.empty() ? 0 : POLLIN));
      if (events)
        waiting.push_back({lanes[lane].file, events, 0}), which.push_back(lane);
    }
    if (::poll(waiting.data(), waiting.size(), 10) < 0 && errno != EINTR)
      return std::string("poll: ") + std::strerror(errno);
    for (std::size_t w = 0; w < waiting.size() && !gone; ++w) {
      Lane &lane = lanes[which[w]];
      while (!lane.out.empty() && (waiting[w].revents & (POLLOUT | POLLERR | POLLHUP))) {
        Piece &piece = lane.out.front();
        const ssize_t done =
            piece.left ? ::send(lane.file, piece.at, piece.left, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
        if (done < 0 && (errno == EAGAIN || errno == EINTR))
          break;
        if (done < 0) {
          gone = true;
          break;
        }
        piece.at += done, piece.left -= static_cast<std::uint64_t>(done);
        if (piece.left)
          break;
        if (piece.transfer >= 0)
          --open; // received, and the receipt is on its way
        lane.out.pop_front();
      }
      while (!gone && !lane.in.empty() && (waiting[w].revents & (POLLIN | POLLERR | POLLHUP))) {
        Piece &piece = lane.in.front();
        const ssize_t done = piece.left ? ::recv(lane.file, piece.at, piece.left, MSG_DONTWAIT) : 0;
        if (done < 0 && (errno == EAGAIN || errno == EINTR))
          break;
        if (done < 0 || (done == 0 && piece.left)) {
          gone = true;
          break;
        }
        piece.at += done, piece.left -= static_cast<std::uint64_t>(done);
        if (piece.left)
          break;
        const auto i = static_cast<std::size_t>(piece.transfer);
        const Transfer &transfer = transfers[i];
        lane.in.pop_front();
        if (transfer.sends) {
          --open;
        } else if (!hasHeader[i]) {
          hasHeader[i] = true;
          if (headers[i].what != transfer.what || headers[i].bytes != transfer.bytes)
            return "member " + std::to_string(transfer.peer) + " sends " + std::to_string(headers[i].bytes) +
                   " bytes in operation " + std::to_string(headers[i].what) + ", where " +
                   std::to_string(transfer.bytes) + " bytes in operation " + std::to_string(transfer.what) +
                   " are expected";
          lane.in.push_front({transfer.data, transfer.bytes, static_cast<long>(i)});
        } else {
          lane.out.push_back({&receipts[i], 1, static_cast<long>(i)});
        }
      }
    }
    if (gone)
      lost = true;
  }
  return {};
}

} // namespace colossal::nccl
