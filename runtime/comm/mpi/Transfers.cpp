// Groups, collectives and messages of one process, as work on its queues.
#include "runtime/comm/mpi/Mpi.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

namespace colossal::runtime {

namespace {

class MpiTransfers : public Transfers {
public:
  explicit MpiTransfers(Abort &abort) : abort(abort), messages(everyone()) { MPI_Comm_rank(messages, &self); }
  ~MpiTransfers() override {
    // After a failure nobody may be there to receive them.
    for (auto &[queue, own] : slots)
      if (!abort.raised())
        MPI_Waitall(static_cast<int>(own.requests.size()), own.requests.data(), MPI_STATUSES_IGNORE);
  }

  ReductionOrder reductionOrder() const override { return ReductionOrder::GroupMembers; }
  Reach reach() const override { return Reach::Host; }
  uint64_t shortAllReduce() const override { return plan::shortAllReduce; }

  Status createGroup(const std::vector<uint32_t> &members, uint32_t channel,
                     std::shared_ptr<Group> &group) override {
    auto made = std::make_shared<MpiGroup>();
    made->members = members;
    made->self = static_cast<uint32_t>(
        std::find(members.begin(), members.end(), static_cast<uint32_t>(self)) - members.begin());
    MPI_Group all, some;
    COLOSSAL_MPI(MPI_Comm_group(messages, &all));
    std::vector<int> ranks(members.begin(), members.end());
    COLOSSAL_MPI(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some));
    COLOSSAL_MPI(MPI_Comm_create_group(messages, some, static_cast<int>(channel), &made->comm));
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    MPI_Comm_set_errhandler(made->comm, MPI_ERRORS_RETURN);
    std::shared_ptr<StagingArea> &staging = stagings[channel];
    if (!staging)
      staging = std::make_shared<StagingArea>();
    made->staging = staging;
    group = std::move(made);
    return {};
  }

  Status reserve(const std::shared_ptr<const CollectiveCall> &call, Queue &) override {
    StagingArea &staging = *static_cast<MpiGroup *>(call->group)->staging;
    if (const uint64_t bytes = stagingOf(*call).bytes; staging.size() < bytes)
      staging.resize(bytes);
    return {};
  }

  Status collective(std::shared_ptr<const CollectiveCall> call, Queue &queue) override {
    if (queue.immediate())
      return runCollective(*call);
    return queue.hostTask([call = std::move(call)] { return runCollective(*call); });
  }

  Status reserveSlots(uint32_t count, uint64_t bytes, Queue &queue) override {
    Slots &own = slots[&queue];
    own.bytes = bytes;
    own.memory.resize(count * bytes);
    own.requests.assign(count, MPI_REQUEST_NULL);
    return {};
  }

  Status send(const void *data, uint64_t bytes, uint32_t peer, uint32_t tag, Queue &queue) override {
    auto found = slots.find(&queue);
    Slots *own = found == slots.end() ? nullptr : &found->second;
    return queue.hostTask([=] { return post(data, bytes, peer, tag, own); });
  }

  Status receive(void *data, uint64_t bytes, uint32_t peer, uint32_t tag, Queue &queue) override {
    return queue.hostTask([=] { return take(data, bytes, peer, tag); });
  }

  uint64_t stagingBytes() const override {
    uint64_t bytes = 0;
    for (const auto &[channel, staging] : stagings)
      bytes += staging->size();
    for (const auto &[queue, own] : slots)
      bytes += own.memory.size();
    return bytes;
  }

  std::map<uint32_t, uint64_t> messageBytes() const override {
    std::lock_guard<std::mutex> lock(mutex);
    return sent;
  }

private:
  /// Where messages of one queue wait, each with its request; used by the queue's thread only.
  struct Slots {
    std::vector<std::byte> memory;
    uint64_t bytes = 0; // of each
    std::vector<MPI_Request> requests;
  };

  /// Asks again and again, less often as time goes by, until `done` says so or the run ends. MPI's own waits
  /// cannot be called off.
  template <class Done>
  Status waitUntil(uint32_t peer, const char *what, Done done) {
    const auto begin = std::chrono::steady_clock::now();
    for (unsigned asked = 0;; ++asked) {
      bool is = false;
      COLOSSAL_RETURN_IF_ERROR(done(is));
      if (is)
        return {};
      if (abort.raised())
        return abort.status();
      if (asked < 1000)
        continue;
      if (std::chrono::steady_clock::now() - begin > abort.timeout.load())
        return {Code::Timeout, std::string("waited too long for ") + what + " rank " + std::to_string(peer)};
      std::this_thread::sleep_for(std::chrono::microseconds(asked < 3000 ? 20 : 500));
    }
  }

  Status post(const void *data, uint64_t bytes, uint32_t peer, uint32_t tag, Slots *own) {
    COLOSSAL_RETURN_IF_ERROR(checkTag(tag));
    Unit unit;
    COLOSSAL_RETURN_IF_ERROR(unit.create(bytes));
    if (static_cast<int>(peer) != self && bytes != 0) {
      std::lock_guard<std::mutex> lock(mutex);
      sent[peer] += bytes;
    }
    if (own && !own->requests.empty() && bytes <= own->bytes) {
      size_t slot = 0;
      COLOSSAL_RETURN_IF_ERROR(waitUntil(peer, "room for a message to", [&](bool &isFree) -> Status {
        int done = 0;
        for (slot = 0; slot < own->requests.size(); ++slot) {
          COLOSSAL_MPI(MPI_Test(&own->requests[slot], &done, MPI_STATUS_IGNORE));
          if ((isFree = done != 0))
            break;
        }
        return {};
      }));
      std::byte *waiting = own->memory.data() + slot * own->bytes;
      if (bytes > 0)
        std::memcpy(waiting, data, bytes);
      return check(MPI_Isend(waiting, unit.count, unit.type, static_cast<int>(peer), static_cast<int>(tag),
                             messages, &own->requests[slot]),
                   "MPI_Isend");
    }
    MPI_Request request = MPI_REQUEST_NULL;
    COLOSSAL_MPI(MPI_Isend(data, unit.count, unit.type, static_cast<int>(peer), static_cast<int>(tag),
                           messages, &request));
    return waitUntil(peer, "a message to be received by", [&](bool &isReceived) -> Status {
      int done = 0;
      COLOSSAL_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      isReceived = done != 0;
      return {};
    });
  }

  Status take(void *data, uint64_t bytes, uint32_t peer, uint32_t tag) {
    COLOSSAL_RETURN_IF_ERROR(checkTag(tag));
    Unit unit;
    COLOSSAL_RETURN_IF_ERROR(unit.create(bytes));
    MPI_Request request = MPI_REQUEST_NULL;
    COLOSSAL_MPI(MPI_Irecv(data, unit.count, unit.type, static_cast<int>(peer), static_cast<int>(tag),
                           messages, &request));
    MPI_Status arrived;
    Status status = waitUntil(peer, "a message from", [&](bool &isHere) -> Status {
      int done = 0;
      COLOSSAL_MPI(MPI_Test(&request, &done, &arrived));
      isHere = done != 0;
      return {};
    });
    if (!status.ok()) {
      if (request != MPI_REQUEST_NULL && MPI_Cancel(&request) == MPI_SUCCESS)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      return status;
    }
    int units = 0;
    COLOSSAL_MPI(MPI_Get_count(&arrived, unit.type, &units));
    if (units != unit.count)
      return {Code::RankFailed, "rank " + std::to_string(peer) + " sent another number of bytes than the " +
                                    std::to_string(bytes) + " that were expected"};
    return {};
  }

  Status checkTag(uint32_t tag) const {
    int *bound = nullptr, found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found);
    if (found && tag > static_cast<uint32_t>(*bound))
      return {Code::Unsupported, "tag " + std::to_string(tag) + " exceeds what this MPI takes"};
    return {};
  }

  Abort &abort;
  MPI_Comm messages;
  int self = 0;
  std::map<uint32_t, std::shared_ptr<StagingArea>> stagings; // by channel
  mutable std::mutex mutex;
  std::map<Queue *, Slots> slots;
  std::map<uint32_t, uint64_t> sent; // to whom
};

} // namespace

std::unique_ptr<Transfers> createMpiTransfers(Abort &abort) {
  return std::make_unique<MpiTransfers>(abort);
}

} // namespace colossal::runtime
