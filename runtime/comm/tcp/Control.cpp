// Rank 0 passes frames on between the others; each process has a thread for each of its connections.
#include "runtime/comm/tcp/Control.h"

#include "runtime/comm/tcp/Socket.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <set>
#include <thread>
#include <vector>

namespace colossal::runtime {

namespace {

using Clock = std::chrono::steady_clock;

// What the first frame of a connection begins with: other programs may come by.
constexpr char greeting[] = "colossal control 1\n";
constexpr uint64_t longestHello = 4096;
// What ranks get to end by themselves when one has ended all.
constexpr std::chrono::seconds grace(3);

enum Kind : uint32_t {
  Hello = 1, ///< greeting, size and token
  Welcome,
  Refused, ///< why
  Arrive,  ///< at a barrier
  Leave,   ///< it
  Gather,
  Broadcast,
  Value, ///< of the store: length of the key, a space, key, value
  Question,
  Answer,
  End,  ///< the run: an exit code
  Gone, ///< without a word: a rank
  Goodbye
};

std::string helloText(const Launch &launch) {
  return greeting + std::to_string(launch.size) + "\n" + launch.token;
}

/// Compares all of both, however early they differ.
bool sameToken(const std::string &a, const std::string &b) {
  unsigned difference = a.size() != b.size();
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

class Implementation final : public TcpControl {
public:
  Implementation(const Launch &launch, Abort &abort)
      : self(launch.rank), count(launch.size), aborted(abort), peers(count), gathered(count), heard(count) {}

  ~Implementation() override {
    // Nobody is gone who has said so; where something went wrong, the others are to learn it.
    {
      std::unique_lock<std::mutex> lock(mutex);
      leaving = true;
    }
    if (self != 0) {
      if (peers[0] && !aborted.raised())
        (void)peers[0]->send({Goodbye, self, 0, ""});
    } else if (!threads.empty()) {
      // The others speak through this process until they are done.
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait_for(lock, std::chrono::seconds(aborted.raised() ? 1 : 30),
                       [&] { return gone.size() + 1 >= count; });
    }
    for (std::unique_ptr<Socket> &peer : peers)
      if (peer)
        peer->shutdown();
    for (std::thread &thread : threads)
      thread.join();
  }

  Status open(const Launch &launch) {
    if (count == 1)
      return {};
    if (launch.host.empty())
      return {Code::InvalidArgument, "nothing says where rank 0 listens for the other processes; "
                                     "COLOSSAL_STORE=HOST:PORT does, the same for all"};
    COLOSSAL_RETURN_IF_ERROR(self == 0 ? acceptAll(launch) : connectToRoot(launch));
    for (uint32_t peer = 0; peer < count; ++peer)
      if (peers[peer])
        threads.emplace_back([this, peer] { listenTo(peer); });
    return {};
  }

  uint32_t rank() const override { return self; }
  uint32_t size() const override { return count; }

  Status barrier() override {
    std::unique_lock<std::mutex> lock(mutex);
    const uint64_t own = ++barriers;
    lock.unlock();
    if (self == 0)
      take({Arrive, 0, 0, ""});
    else
      COLOSSAL_RETURN_IF_ERROR(peers[0]->send({Arrive, self, 0, ""}));
    return await([&] { return left >= own; });
  }

  Status gather(const std::string &mine, std::vector<std::string> &all) override {
    all.clear();
    if (self != 0)
      return peers[0]->send({Gather, self, 0, mine});
    COLOSSAL_RETURN_IF_ERROR(await([&] {
      for (uint32_t peer = 1; peer < count; ++peer)
        if (gathered[peer].empty())
          return false;
      return true;
    }));
    std::lock_guard<std::mutex> lock(mutex);
    all.push_back(mine);
    for (uint32_t peer = 1; peer < count; ++peer) {
      all.push_back(std::move(gathered[peer].front()));
      gathered[peer].pop_front();
    }
    return {};
  }

  Status broadcast(std::string &text) override {
    if (self == 0)
      return sendToOthers({Broadcast, 0, 0, text}, 0);
    COLOSSAL_RETURN_IF_ERROR(await([&] { return !broadcasts.empty(); }));
    std::lock_guard<std::mutex> lock(mutex);
    text = std::move(broadcasts.front());
    broadcasts.pop_front();
    return {};
  }

  Status set(const std::string &key, const std::string &value) override {
    const Frame frame = {Value, self, 0, std::to_string(key.size()) + " " + key + value};
    take(frame);
    return self == 0 ? Status() : peers[0]->send(frame);
  }

  Status get(const std::string &key, std::string &value) override {
    const Clock::time_point begin = Clock::now();
    bool late = false;
    COLOSSAL_RETURN_IF_ERROR(await([&] {
      late = Clock::now() - begin > aborted.timeout.load();
      return late || values.count(key) != 0;
    }));
    std::lock_guard<std::mutex> lock(mutex);
    auto found = values.find(key);
    if (found == values.end())
      return {Code::Timeout, "waited too long for another process to give '" + key + "'"};
    value = found->second;
    return {};
  }

  void abort(int exitCode) override {
    if (count == 1)
      return;
    const Frame frame = {End, self, 0, std::to_string(exitCode)};
    if (self == 0)
      (void)sendToOthers(frame, 0);
    else
      (void)peers[0]->send(frame);
    std::fflush(nullptr);
    std::_Exit(exitCode);
  }

  void answer(const std::string &mine, bool ask) override {
    std::set<uint32_t> asking;
    {
      std::lock_guard<std::mutex> lock(mutex);
      asking.swap(askers);
    }
    for (uint32_t asker : asking)
      (void)peers[self == 0 ? asker : 0]->send({Answer, self, asker, mine.substr(0, 1024)});
    if (ask && count > 1) {
      if (self == 0)
        (void)sendToOthers({Question, 0, 0, ""}, 0);
      else
        (void)peers[0]->send({Question, self, 0, ""});
    }
  }

  std::vector<std::string> answers(std::chrono::milliseconds span) const override {
    if (count == 1)
      return {};
    std::lock_guard<std::mutex> lock(mutex);
    std::vector<std::string> texts;
    for (const Heard &from : heard)
      texts.push_back(Clock::now() - from.at <= span ? from.text : "");
    return texts;
  }

private:
  struct Heard {
    Clock::time_point at{};
    std::string text;
  };

  Status acceptAll(const Launch &launch) {
    Socket door;
    COLOSSAL_RETURN_IF_ERROR(Socket::listen(launch.host, launch.port, door));
    const Clock::time_point begin = Clock::now();
    for (uint32_t here = 1; here < count;) {
      if (aborted.raised())
        return aborted.status();
      if (Clock::now() - begin > aborted.timeout.load())
        return {Code::Timeout, "only " + std::to_string(here) + " of " + std::to_string(count) +
                                   " processes have come to " + launch.host + ":" +
                                   std::to_string(launch.port)};
      auto visitor = std::make_unique<Socket>();
      COLOSSAL_RETURN_IF_ERROR(door.accept(std::chrono::milliseconds(100), *visitor));
      if (visitor->descriptor() < 0)
        continue;
      uint32_t rank = 0;
      std::string refusal;
      if (!isWelcome(launch, *visitor, rank, refusal)) {
        (void)visitor->send({Refused, 0, 0, refusal});
        continue;
      }
      peers[rank] = std::move(visitor);
      ++here;
    }
    return sendToOthers({Welcome, 0, 0, ""}, 0);
  }

  bool isWelcome(const Launch &launch, Socket &visitor, uint32_t &rank, std::string &refusal) const {
    visitor.limitReceiving(std::chrono::seconds(2));
    Frame hello;
    bool closed = false;
    if (!visitor.receive(hello, closed, longestHello).ok() || closed || hello.kind != Hello ||
        hello.text.compare(0, sizeof greeting - 1, greeting) != 0) {
      refusal = "that is no greeting";
      return false;
    }
    visitor.limitReceiving({});
    const size_t line = hello.text.find('\n', sizeof greeting - 1);
    if (line == std::string::npos || !sameToken(hello.text.substr(line + 1), launch.token))
      refusal = "the processes have different tokens (COLOSSAL_TOKEN), or belong to different jobs";
    else if (hello.text.substr(sizeof greeting - 1, line - sizeof greeting + 1) != std::to_string(count))
      refusal = "rank 0 is one of " + std::to_string(count) + " processes, and rank " +
                std::to_string(hello.from) + " is told another number";
    else if (hello.from == 0 || hello.from >= count || peers[hello.from])
      refusal = "there is another rank " + std::to_string(hello.from);
    rank = hello.from;
    return refusal.empty();
  }

  Status connectToRoot(const Launch &launch) {
    auto socket = std::make_unique<Socket>();
    const Clock::time_point begin = Clock::now();
    for (;;) {
      Status status = Socket::connect(launch.host, launch.port, *socket);
      if (status.ok())
        break;
      if (status.code() != Code::NotFound || Clock::now() - begin > aborted.timeout.load())
        return {status.code() == Code::NotFound ? Code::Timeout : status.code(),
                "rank 0 cannot be reached: " + status.message()};
      if (aborted.raised())
        return aborted.status();
      std::this_thread::sleep_for(std::chrono::milliseconds(20)); // it may come later
    }
    COLOSSAL_RETURN_IF_ERROR(socket->send({Hello, self, 0, helloText(launch)}));
    Frame reply;
    bool closed = false;
    COLOSSAL_RETURN_IF_ERROR(socket->receive(reply, closed));
    if (closed)
      return {Code::RankFailed, "rank 0 has ended"};
    if (reply.kind != Welcome)
      return {Code::InvalidArgument, "rank 0 refuses rank " + std::to_string(self) + ": " + reply.text};
    peers[0] = std::move(socket);
    return {};
  }

  /// To everyone but this process and `except`.
  Status sendToOthers(const Frame &frame, uint32_t except) {
    Status first;
    for (uint32_t peer = 1; peer < count; ++peer)
      if (peer != except && peers[peer])
        if (Status status = peers[peer]->send(frame); !status.ok() && first.ok())
          first = std::move(status).withRank(static_cast<int>(peer));
    return first;
  }

  void listenTo(uint32_t peer) {
    for (;;) {
      Frame frame;
      bool closed = false;
      Status status = peers[peer]->receive(frame, closed);
      if (status.ok() && !closed) {
        if (self == 0) // nobody speaks for another
          frame.from = peer;
        take(frame);
        if (frame.kind != Goodbye)
          continue;
      }
      if (frame.kind != Goodbye) {
        // Raised before the others hear of it: whoever ends because of it is not the one to blame.
        {
          std::lock_guard<std::mutex> lock(mutex);
          if (!leaving)
            raiseGone(std::to_string(peer));
        }
        if (self == 0)
          (void)sendToOthers({Gone, 0, 0, std::to_string(peer)}, peer);
      }
      std::lock_guard<std::mutex> lock(mutex);
      gone.insert(peer);
      changed.notify_all();
      return;
    }
  }

  /// What a frame that came here does, at rank 0 also to the others.
  void take(const Frame &frame) {
    std::unique_lock<std::mutex> lock(mutex);
    bool passOn = false;
    switch (frame.kind) {
    case Arrive:
      if (++arrived < count)
        break;
      arrived = 0;
      ++left;
      lock.unlock();
      (void)sendToOthers({Leave, 0, 0, ""}, 0);
      break;
    case Leave: ++left; break;
    case Gather: gathered[frame.from].push_back(frame.text); break;
    case Broadcast: broadcasts.push_back(frame.text); break;
    case Value: {
      char *end = nullptr;
      const size_t length = std::strtoull(frame.text.c_str(), &end, 10);
      const size_t at = static_cast<size_t>(end - frame.text.c_str()) + 1;
      if (at + length <= frame.text.size())
        values[frame.text.substr(at, length)] = frame.text.substr(at + length);
      passOn = true;
      break;
    }
    case Question:
      askers.insert(frame.from);
      passOn = true;
      break;
    case Answer:
      if (frame.to == self)
        heard[frame.from] = {Clock::now(), frame.text};
      else if (self == 0 && frame.to < count && peers[frame.to]) {
        lock.unlock();
        (void)peers[frame.to]->send(frame);
      }
      break;
    case End:
      aborted.raise({Code::RankFailed, "rank " + std::to_string(frame.from) + " has ended the run"});
      passOn = true;
      endSoon(static_cast<int>(std::strtol(frame.text.c_str(), nullptr, 10)));
      break;
    case Gone: raiseGone(frame.text); break;
    default: break;
    }
    if (lock.owns_lock())
      lock.unlock();
    changed.notify_all();
    if (passOn && self == 0)
      (void)sendToOthers(frame, frame.from);
  }

  void raiseGone(const std::string &rank) {
    aborted.raise({Code::RankFailed, "rank " + rank + " is gone: its process has ended"});
  }

  /// Ends the process unless it does so by itself.
  static void endSoon(int exitCode) {
    std::thread([exitCode] {
      std::this_thread::sleep_for(grace);
      std::fflush(nullptr);
      std::_Exit(exitCode);
    }).detach();
  }

  template <class Done>
  Status await(Done done) {
    std::unique_lock<std::mutex> lock(mutex);
    while (!done()) {
      if (aborted.raised())
        return aborted.status();
      changed.wait_for(lock, std::chrono::milliseconds(20));
    }
    return {};
  }

  const uint32_t self, count;
  Abort &aborted;
  std::vector<std::unique_ptr<Socket>> peers; // at rank 0 all others; elsewhere rank 0 only
  std::vector<std::thread> threads;

  mutable std::mutex mutex;
  std::condition_variable changed;
  bool leaving = false;
  std::set<uint32_t> gone;
  uint64_t barriers = 0, left = 0; // that this rank has come to; that all have left
  uint32_t arrived = 0;
  std::vector<std::deque<std::string>> gathered; // by rank
  std::deque<std::string> broadcasts;
  std::map<std::string, std::string> values;
  std::set<uint32_t> askers;
  std::vector<Heard> heard; // by rank
};

} // namespace

Status createTcpControl(const Launch &launch, Abort &abort, std::unique_ptr<TcpControl> &control) {
  auto made = std::make_unique<Implementation>(launch, abort);
  COLOSSAL_RETURN_IF_ERROR(made->open(launch));
  control = std::move(made);
  return {};
}

} // namespace colossal::runtime
