// Shared-memory collectives: every member publishes its call, all meet, each does its share of the work
// straight between the members' buffers, all meet again. Two barriers a collective, no staging, no copy but
// the result's. A message is copied by its receiver, from the sender's buffer or from the slot where it
// waits.
#include "runtime/comm/Local.h"

#include "runtime/comm/Blocks.h"
#include "runtime/comm/Reduce.h"
#include "runtime/execute/Wait.h"

#include "colossal/Plan/Volume.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>

namespace colossal::runtime {

namespace {

using Clock = std::chrono::steady_clock;

std::string seconds(std::chrono::milliseconds span) {
  return std::to_string(span.count() / 1000) + "." + std::to_string(span.count() % 1000 / 100);
}

/// Meeting point of one group's members.
struct Meeting {
  explicit Meeting(std::vector<uint32_t> ranks)
      : members(std::move(ranks)), calls(members.size()), rounds(members.size()) {}

  const std::vector<uint32_t> members;
  std::vector<const CollectiveCall *> calls;
  std::vector<std::string> strings;
  std::vector<std::atomic<uint64_t>>
      rounds; // how many barriers each member has reached, to tell who is missing
  alignas(64) std::atomic<uint32_t> arrived{0};
  alignas(64) WaitWord generation;

  Status meet(uint32_t self, unsigned spins, Abort &abort) {
    if (abort.raised())
      return abort.status();
    const uint64_t round = rounds[self].fetch_add(1, std::memory_order_relaxed) + 1;
    uint32_t seen = generation.load();
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == members.size()) {
      arrived.store(0, std::memory_order_relaxed);
      generation.increment();
      return {};
    }
    if (generation.waitWhile(seen, spins, 1))
      return {};
    const Clock::time_point deadline = Clock::now() + abort.timeout.load();
    while (!generation.waitWhile(seen, 0, 20)) {
      if (abort.raised())
        return abort.status();
      if (Clock::now() > deadline)
        return {Code::Timeout, "waited " + seconds(abort.timeout) + " s for rank" + missing(round)};
    }
    return {};
  }

  std::string missing(uint64_t round) const {
    std::string names;
    for (size_t m = 0; m < members.size(); ++m)
      if (rounds[m].load(std::memory_order_relaxed) < round)
        names += (names.empty() ? " " : ", ") + std::to_string(members[m]);
    return names.empty() ? "s that arrived in the meantime" : names;
  }
};

struct LocalGroup : Group {
  std::shared_ptr<Meeting> meeting;
};

/// What a sender has set aside for messages that wait.
struct Slots {
  std::vector<std::byte> memory;
  uint64_t bytes = 0;         // of each
  std::vector<uint32_t> free; // under the world's mutex
};

struct Letter {
  const std::byte *data;
  uint64_t bytes;
  std::shared_ptr<std::atomic<bool>> received; // who waits for it; null where it lies in a slot
  Slots *slots = nullptr;
  uint32_t slot = 0;
};

struct Mailbox {
  std::deque<Letter> letters;
};

struct World {
  World(uint32_t ranks, unsigned spins, Abort &abort) : ranks(ranks), spins(spins), abort(abort) {
    std::vector<uint32_t> all(ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank)
      all[rank] = rank;
    everyone = std::make_shared<Meeting>(std::move(all));
    everyone->strings.resize(ranks);
  }
  const uint32_t ranks;
  const unsigned spins;
  Abort &abort;
  std::shared_ptr<Meeting> everyone;
  std::mutex mutex;
  std::map<std::pair<uint32_t, std::vector<uint32_t>>, std::shared_ptr<Meeting>>
      meetings;                                    // by channel and members
  std::map<std::array<uint32_t, 3>, Mailbox> mail; // from, to, tag
  WaitWord delivered;                              // something was posted or taken
};

class Exchange {
public:
  Exchange(const CollectiveCall &call, const Meeting &meeting)
      : call(call), calls(meeting.calls), members(static_cast<uint32_t>(meeting.members.size())),
        self(call.group->self), bytes(elementSize(call.type)) {}

  void run() {
    if (call.kind == CollectiveKind::Exchange)
      return exchange();
    StridedBlock block(call.sizes, call.srcStrides, call.dstStrides);
    switch (call.kind) {
    case CollectiveKind::AllReduce: {
      // Each member reduces one slice and gives it to all.
      const auto [begin, end] = plan::memberSlice(block.elements(), self, members);
      reduce(block, begin, end, 0, true);
      countFromOthers((end - begin) * bytes);
      countSent(self, (members - 1) * (end - begin) * bytes);
      return;
    }
    case CollectiveKind::ReduceScatter:
      reduce(block, 0, block.elements(), self * call.srcPeerStride, false);
      countFromOthers(block.elements() * bytes);
      return;
    case CollectiveKind::AllGather:
      // Begin with oneself, so that members do not all read the same one.
      for (uint32_t step = 0; step < members; ++step) {
        uint32_t peer = (self + step) % members;
        copyBlock(block, calls[peer]->src, call.dst + peer * call.dstPeerStride * bytes, bytes);
      }
      countFromOthers(block.elements() * bytes);
      return;
    case CollectiveKind::AllToAll:
      for (uint32_t step = 0; step < members; ++step) {
        uint32_t peer = (self + step) % members;
        copyBlock(block, calls[peer]->src + self * call.srcPeerStride * bytes,
                  call.dst + peer * call.dstPeerStride * bytes, bytes);
      }
      countFromOthers(block.elements() * bytes);
      return;
    case CollectiveKind::Broadcast:
      if (self != call.root || call.src != call.dst)
        copyBlock(block, calls[call.root]->src, call.dst, bytes);
      countSent(call.root, block.elements() * bytes);
      return;
    case CollectiveKind::Permute: {
      int64_t source = call.sources[self];
      if (source >= 0) {
        copyBlock(block, calls[static_cast<size_t>(source)]->src, call.dst, bytes);
        countSent(static_cast<uint32_t>(source), block.elements() * bytes);
      } else
        block.forRows(0, block.elements(), [&](uint64_t, uint64_t to, uint64_t, uint64_t length) {
          std::memset(call.dst + to * bytes, 0, length * bytes);
        });
      return;
    }
    case CollectiveKind::Exchange: return;
    }
  }

private:
  // A member that reads from another's buffer does the sending for it; its own bytes are not sent. One
  // addition for each peer and collective: counters are others' cache lines.
  void countSent(uint32_t from, uint64_t sent) const {
    if (from != self || call.kind == CollectiveKind::AllReduce)
      calls[from]->group->countSent(call, sent);
  }
  void countFromOthers(uint64_t sent) const {
    for (uint32_t peer = 0; peer < members; ++peer)
      if (peer != self)
        countSent(peer, sent);
  }

  void reduce(const StridedBlock &block, uint64_t begin, uint64_t end, uint64_t offset, bool toAll) {
    std::vector<const std::byte *> sources(members);
    block.forRows(begin, end, [&](uint64_t from, uint64_t to, uint64_t, uint64_t length) {
      for (uint64_t done = 0; done < length; done += reduceChunk) {
        uint64_t count = std::min(reduceChunk, length - done);
        for (uint32_t member = 0; member < members; ++member)
          sources[member] = calls[member]->src + (offset + from + done) * bytes;
        std::byte *mine = call.dst + (to + done) * bytes;
        reduceElements(call.type, call.reduction, sources.data(), members, mine, count);
        for (uint32_t member = 0; toAll && member < members; ++member)
          if (member != self)
            std::memcpy(calls[member]->dst + (to + done) * bytes, mine, count * bytes);
      }
    });
  }

  void exchange() {
    const CollectiveCall::Window &window = call.window;
    const uint64_t place = window.inner * bytes;
    for (const WindowPiece &piece : windowPieces(window, self)) {
      if (piece.member < 0) {
        fillWindow(window, call.type, call.dst, piece.to, piece.length);
        continue;
      }
      const std::byte *src = calls[static_cast<size_t>(piece.member)]->src;
      for (uint64_t outer = 0; outer < window.outer; ++outer)
        std::memcpy(call.dst + (outer * window.dstExtent + static_cast<uint64_t>(piece.to)) * place,
                    src + (outer * window.srcExtent + static_cast<uint64_t>(piece.from)) * place,
                    static_cast<uint64_t>(piece.length) * place);
      countSent(static_cast<uint32_t>(piece.member),
                window.outer * static_cast<uint64_t>(piece.length) * place);
    }
  }

  const CollectiveCall &call;
  const std::vector<const CollectiveCall *> &calls;
  const uint32_t members, self;
  const uint64_t bytes;
};

class LocalTransfers : public Transfers {
public:
  LocalTransfers(std::shared_ptr<World> world, uint32_t rank) : world(std::move(world)), self(rank) {}

  ReductionOrder reductionOrder() const override { return ReductionOrder::GroupMembers; }
  Reach reach() const override { return Reach::Host; }

  Status createGroup(const std::vector<uint32_t> &members, uint32_t channel,
                     std::shared_ptr<Group> &group) override {
    auto found = std::find(members.begin(), members.end(), self);
    if (found == members.end())
      return {Code::Internal, "a rank asked for a group that it is not in"};
    auto made = std::make_shared<LocalGroup>();
    made->members = members;
    made->self = static_cast<uint32_t>(found - members.begin());
    std::lock_guard<std::mutex> lock(world->mutex);
    std::shared_ptr<Meeting> &meeting = world->meetings[{channel, members}];
    if (!meeting)
      meeting = std::make_shared<Meeting>(members);
    made->meeting = meeting;
    group = std::move(made);
    return {};
  }

  Status collective(std::shared_ptr<const CollectiveCall> call, Queue &queue) override {
    if (queue.immediate())
      return transfer(*call);
    return queue.hostTask([this, call = std::move(call)] { return transfer(*call); });
  }

  Status reserveSlots(uint32_t count, uint64_t bytes, Queue &queue) override {
    Slots &own = slots[&queue];
    own.bytes = bytes;
    own.memory.resize(count * bytes);
    for (uint32_t slot = count; slot-- > 0;)
      own.free.push_back(slot);
    return {};
  }

  Status send(const void *data, uint64_t bytes, uint32_t peer, uint32_t tag, Queue &queue) override {
    auto found = slots.find(&queue);
    Slots *own = found == slots.end() ? nullptr : &found->second;
    return queue.hostTask([=] { return post(static_cast<const std::byte *>(data), bytes, peer, tag, own); });
  }

  Status receive(void *data, uint64_t bytes, uint32_t peer, uint32_t tag, Queue &queue) override {
    return queue.hostTask([=] { return take(static_cast<std::byte *>(data), bytes, peer, tag); });
  }

  uint64_t stagingBytes() const override {
    uint64_t bytes = 0;
    for (const auto &[queue, own] : slots)
      bytes += own.memory.size();
    return bytes;
  }

  std::map<uint32_t, uint64_t> messageBytes() const override {
    std::lock_guard<std::mutex> lock(world->mutex);
    return sent;
  }

private:
  /// Waits until `done`, asked under the mutex, says so.
  template <class Done>
  Status waitUntil(uint32_t peer, const char *what, Done done) {
    const Clock::time_point deadline = Clock::now() + world->abort.timeout.load();
    for (Patience patience(world->spins);;) {
      const uint32_t seen = world->delivered.load();
      {
        std::lock_guard<std::mutex> lock(world->mutex);
        if (done())
          return {};
      }
      patience.waitWhile(world->delivered, seen, 20);
      if (world->abort.raised())
        return world->abort.status();
      if (Clock::now() > deadline)
        return {Code::Timeout, std::string("waited too long for ") + what + " rank " + std::to_string(peer)};
    }
  }

  Status post(const std::byte *data, uint64_t bytes, uint32_t peer, uint32_t tag, Slots *own) {
    Letter letter = {data, bytes, nullptr, nullptr, 0};
    const bool waits = own && !own->memory.empty() && bytes <= own->bytes;
    if (waits) {
      COLOSSAL_RETURN_IF_ERROR(waitUntil(peer, "room for a message to", [&] {
        if (own->free.empty())
          return false;
        letter.slot = own->free.back();
        own->free.pop_back();
        return true;
      }));
      letter.slots = own;
      letter.data = own->memory.data() + letter.slot * own->bytes;
      std::memcpy(own->memory.data() + letter.slot * own->bytes, data, bytes);
    } else if (bytes > 0) { // an empty one needs no room
      letter.received = std::make_shared<std::atomic<bool>>(false);
    }
    {
      std::lock_guard<std::mutex> lock(world->mutex);
      world->mail[{self, peer, tag}].letters.push_back(letter);
      if (peer != self && bytes != 0)
        sent[peer] += bytes;
    }
    world->delivered.increment();
    if (!letter.received)
      return {};
    return waitUntil(peer, "a message to be received by", [&] { return letter.received->load(); });
  }

  Status take(std::byte *data, uint64_t bytes, uint32_t peer, uint32_t tag) {
    Letter letter = {};
    COLOSSAL_RETURN_IF_ERROR(waitUntil(peer, "a message from", [&] {
      Mailbox &box = world->mail[{peer, self, tag}];
      if (box.letters.empty())
        return false;
      letter = std::move(box.letters.front());
      box.letters.pop_front();
      return true;
    }));
    if (letter.bytes == bytes && bytes > 0) // an empty message has no address
      std::memcpy(data, letter.data, bytes);
    {
      std::lock_guard<std::mutex> lock(world->mutex);
      if (letter.slots)
        letter.slots->free.push_back(letter.slot);
      if (letter.received)
        letter.received->store(true);
    }
    world->delivered.increment();
    if (letter.bytes != bytes)
      return {Code::RankFailed, "rank " + std::to_string(peer) + " sent " + std::to_string(letter.bytes) +
                                    " bytes where " + std::to_string(bytes) + " were expected"};
    return {};
  }

  Status transfer(const CollectiveCall &call) {
    Meeting &meeting = *static_cast<LocalGroup *>(call.group)->meeting;
    meeting.calls[call.group->self] = &call;
    COLOSSAL_RETURN_IF_ERROR(meeting.meet(call.group->self, world->spins, world->abort));
    Exchange(call, meeting).run();
    return meeting.meet(call.group->self, world->spins, world->abort);
  }

  std::shared_ptr<World> world;
  uint32_t self;
  std::map<Queue *, Slots> slots;
  std::map<uint32_t, uint64_t> sent; // to whom; under the world's mutex
};

class LocalControl : public Control {
public:
  LocalControl(std::shared_ptr<World> world, uint32_t rank) : world(std::move(world)), self(rank) {}

  uint32_t rank() const override { return self; }
  uint32_t size() const override { return world->ranks; }
  Status barrier() override { return meet(); }

  Status gather(const std::string &mine, std::vector<std::string> &all) override {
    std::vector<std::string> &strings = world->everyone->strings;
    strings[self] = mine;
    COLOSSAL_RETURN_IF_ERROR(meet());
    all.clear();
    if (self == 0)
      all = strings;
    return meet();
  }

  Status broadcast(std::string &text) override {
    std::string &shared = world->everyone->strings[0];
    if (self == 0)
      shared = text;
    COLOSSAL_RETURN_IF_ERROR(meet());
    text = shared;
    return meet();
  }

  void abort(int) override {}

private:
  Status meet() { return world->everyone->meet(self, world->spins, world->abort); }

  std::shared_ptr<World> world;
  uint32_t self;
};

} // namespace

std::vector<Communicator> createLocalCommunicators(uint32_t ranks, unsigned spins, Abort &abort) {
  auto world = std::make_shared<World>(ranks, spins, abort);
  std::vector<Communicator> handles;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    handles.push_back(
        {std::make_unique<LocalControl>(world, rank), std::make_unique<LocalTransfers>(world, rank)});
  return handles;
}

} // namespace colossal::runtime
