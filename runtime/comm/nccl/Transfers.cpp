// Connections, groups and messages of one process.
#include "runtime/comm/nccl/Nccl.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace colossal::runtime {

//===----------------------------------------------------------------------===//
// Connections
//===----------------------------------------------------------------------===//

NcclConnections::NcclConnections(const NcclLibrary &library, Abort &abort)
    : library(library), abort(abort), watcher([this] { watch(); }) {}

NcclConnections::~NcclConnections() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  watcher.join();
  for (nccl::Comm communicator : all)
    if (!aborted)
      (void)(abort.raised() ? library->ncclCommAbort(communicator) : library->ncclCommDestroy(communicator));
}

Status NcclConnections::create(const nccl::UniqueId &id, uint32_t size, uint32_t rank, nccl::Comm &made) {
  nccl::Config config;
  config.blocking = 0;
  COLOSSAL_NCCL_CALL(library, nullptr, ncclCommInitRankConfig, &made, static_cast<int>(size), id,
                     static_cast<int>(rank), &config);
  all.push_back(made);
  return await(made);
}

Status NcclConnections::use(Use &use) {
  use = Use(mutex);
  return aborted ? abort.status() : Status();
}

Status NcclConnections::await(nccl::Comm communicator) const {
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned asked = 0;; ++asked) {
    nccl::Result result = nccl::Success;
    COLOSSAL_NCCL_CALL(library, communicator, ncclCommGetAsyncError, communicator, &result);
    if (result != nccl::InProgress)
      return library.check(result, "NCCL", communicator);
    if (abort.raised())
      return abort.status();
    if (std::chrono::steady_clock::now() - begin > abort.timeout.load())
      return {Code::Timeout, "NCCL has not come to its peers within the time allowed"};
    if (asked > 1000)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void NcclConnections::watch() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!stopping && !aborted) {
    changed.wait_for(lock, std::chrono::milliseconds(20));
    for (nccl::Comm communicator : all) {
      nccl::Result result = nccl::Success;
      if (abort.raised())
        break;
      Status status = library.check(library->ncclCommGetAsyncError(communicator, &result),
                                    "ncclCommGetAsyncError", communicator);
      if (status.ok())
        status = library.check(result, "NCCL", communicator);
      if (!status.ok())
        abort.raise(std::move(status));
    }
    if (!abort.raised() || stopping)
      continue;
    // What waits on streams for peers that will not come ends by this, or it hangs here as it did there.
    aborted = true;
    const std::list<nccl::Comm> ending = all;
    lock.unlock();
    for (nccl::Comm communicator : ending)
      (void)library->ncclCommAbort(communicator);
    lock.lock();
  }
}

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

namespace {

class NcclTransfers : public Transfers {
public:
  NcclTransfers(const NcclLibrary &library, bool ordered, Control &control, Store &store, Abort &abort)
      : connections(std::make_unique<NcclConnections>(library, abort)), library(library), ordered(ordered),
        control(control), store(store) {}
  ~NcclTransfers() override {
    if (device)
      (void)device->makeCurrent();
    connections.reset();
  }

  ReductionOrder reductionOrder() const override {
    return ordered ? ReductionOrder::GroupMembers : ReductionOrder::Native;
  }
  Reach reach() const override { return Reach::Device; }
  bool tellsMessagesApart() const override { return false; }

  Status attach(Device &theDevice, const std::vector<Queue *> &messageQueues) override {
    device = dynamic_cast<CudaDevice *>(&theDevice);
    if (!device)
      return {Code::InvalidArgument,
              "communicator 'nccl' connects NVIDIA's GPUs, and the plan's device is '" +
                  theDevice.describe().name + "'"};
    COLOSSAL_RETURN_IF_ERROR(device->makeCurrent());
    COLOSSAL_RETURN_IF_ERROR(kernels.load(*device));
    if (control.size() == 1)
      return {};
    for (size_t channel = 0; channel < messageQueues.size(); ++channel) {
      std::vector<uint32_t> everyone(control.size());
      for (uint32_t rank = 0; rank < control.size(); ++rank)
        everyone[rank] = rank;
      nccl::Comm made = nullptr;
      COLOSSAL_RETURN_IF_ERROR(connect("messages " + std::to_string(channel), everyone, made));
      if (messageQueues[channel])
        messages[messageQueues[channel]] = made;
    }
    return {};
  }

  Status createGroup(const std::vector<uint32_t> &members, uint32_t channel,
                     std::shared_ptr<Group> &group) override {
    auto made = std::make_shared<NcclGroup>();
    made->members = members;
    made->self =
        static_cast<uint32_t>(std::find(members.begin(), members.end(), control.rank()) - members.begin());
    std::string name = "group " + std::to_string(channel);
    for (uint32_t member : members)
      name += " " + std::to_string(member);
    if (members.size() > 1)
      COLOSSAL_RETURN_IF_ERROR(connect(name, members, made->communicator));
    std::shared_ptr<NcclStaging> &staging = stagings[channel];
    if (!staging)
      staging = std::make_shared<NcclStaging>();
    made->staging = staging;
    group = std::move(made);
    return {};
  }

  Status reserve(const std::shared_ptr<const CollectiveCall> &call, Queue &queue) override {
    NcclStaging &staging = *static_cast<NcclGroup *>(call->group)->staging;
    const uint64_t bytes = ncclStagingOf(*call, ordered);
    if (bytes == 0 || (staging.memory && staging.memory->bytes() >= bytes))
      return {};
    COLOSSAL_RETURN_IF_ERROR(queue.synchronize()); // it may be in use
    return device->allocate(bytes, 256, staging.memory);
  }

  /// Sends wait for their receivers, but for messages of a rank to itself, which NCCL does not carry. Few
  /// plans have any, so their memory is allocated with the first.
  Status reserveSlots(uint32_t count, uint64_t bytes, Queue &queue) override {
    OwnMessages &own = ownMessages[&queue];
    own.slots = count;
    own.slotBytes = (bytes + slotAlignment - 1) / slotAlignment * slotAlignment;
    return {};
  }

  Status collective(std::shared_ptr<const CollectiveCall> call, Queue &queue) override {
    COLOSSAL_RETURN_IF_ERROR(device->makeCurrent());
    COLOSSAL_RETURN_IF_ERROR(reserve(call, queue));
    NcclConnections::Use use;
    COLOSSAL_RETURN_IF_ERROR(connections->use(use));
    return enqueueNccl(*call, ordered, *connections, kernels, static_cast<CudaQueue &>(queue));
  }

  Status send(const void *data, uint64_t bytes, uint32_t peer, uint32_t, Queue &queue) override {
    nccl::Comm communicator = nullptr;
    if (peer == control.rank())
      return sendToItself(data, bytes, queue);
    COLOSSAL_RETURN_IF_ERROR(findMessages(queue, communicator));
    if (bytes == 0)
      return {};
    sent[peer] += bytes;
    NcclConnections::Use use;
    COLOSSAL_RETURN_IF_ERROR(connections->use(use));
    COLOSSAL_NCCL_CALL(library, communicator, ncclSend, data, bytes, nccl::Uint8, static_cast<int>(peer),
                       communicator, static_cast<CudaQueue &>(queue).handle());
    return connections->await(communicator);
  }

  Status receive(void *data, uint64_t bytes, uint32_t peer, uint32_t, Queue &queue) override {
    nccl::Comm communicator = nullptr;
    if (peer == control.rank())
      return receiveFromItself(data, bytes, queue);
    COLOSSAL_RETURN_IF_ERROR(findMessages(queue, communicator));
    if (bytes == 0)
      return {};
    NcclConnections::Use use;
    COLOSSAL_RETURN_IF_ERROR(connections->use(use));
    COLOSSAL_NCCL_CALL(library, communicator, ncclRecv, data, bytes, nccl::Uint8, static_cast<int>(peer),
                       communicator, static_cast<CudaQueue &>(queue).handle());
    return connections->await(communicator);
  }

  uint64_t stagingBytes() const override {
    uint64_t bytes = 0;
    for (const auto &[channel, staging] : stagings)
      bytes += staging->memory ? staging->memory->bytes() : 0;
    return bytes;
  }

  std::map<uint32_t, uint64_t> messageBytes() const override { return sent; }

private:
  /// A communicator of `members`, whose first gives the others its id. Several of one name are told apart by
  /// how many there were.
  Status connect(const std::string &name, const std::vector<uint32_t> &members, nccl::Comm &made) {
    COLOSSAL_RETURN_IF_ERROR(device->makeCurrent());
    const std::string key = "nccl " + name + " #" + std::to_string(serials[name]++);
    nccl::UniqueId id = {};
    if (members[0] == control.rank()) {
      COLOSSAL_NCCL_CALL(library, nullptr, ncclGetUniqueId, &id);
      COLOSSAL_RETURN_IF_ERROR(store.set(key, std::string(id.internal, sizeof id.internal)));
    } else {
      std::string text;
      COLOSSAL_RETURN_IF_ERROR(store.get(key, text));
      if (text.size() != sizeof id.internal)
        return {Code::RankFailed, "rank " + std::to_string(members[0]) + " gave no id of NCCL's for " + name};
      std::memcpy(id.internal, text.data(), text.size());
    }
    const auto self =
        static_cast<uint32_t>(std::find(members.begin(), members.end(), control.rank()) - members.begin());
    NcclConnections::Use use;
    COLOSSAL_RETURN_IF_ERROR(connections->use(use));
    return connections->create(id, static_cast<uint32_t>(members.size()), self, made);
  }

  /// Messages of this rank to itself, on one queue: slots are taken in turn.
  struct OwnMessages {
    std::unique_ptr<Allocation> memory;
    uint64_t slots = 0, slotBytes = 0;
    uint64_t sent = 0, received = 0;
  };
  static constexpr uint64_t slotAlignment = 256;

  std::byte *slotOf(const OwnMessages &own, uint64_t message) const {
    return static_cast<std::byte *>(own.memory->address()) + message % own.slots * own.slotBytes;
  }

  Status sendToItself(const void *data, uint64_t bytes, Queue &queue) {
    COLOSSAL_RETURN_IF_ERROR(device->makeCurrent());
    OwnMessages &own = ownMessages[&queue];
    if (own.sent - own.received >= own.slots || bytes > own.slotBytes)
      return {Code::Internal, "a message of a rank to itself, for which there is no room"};
    if (!own.memory && own.slotBytes > 0)
      COLOSSAL_RETURN_IF_ERROR(device->allocate(own.slots * own.slotBytes, slotAlignment, own.memory));
    const uint64_t message = own.sent++;
    if (bytes == 0)
      return {};
    return static_cast<CudaQueue &>(queue).copy(slotOf(own, message), data, bytes);
  }

  Status receiveFromItself(void *data, uint64_t bytes, Queue &queue) {
    COLOSSAL_RETURN_IF_ERROR(device->makeCurrent());
    OwnMessages &own = ownMessages[&queue];
    if (own.received == own.sent)
      return {Code::Internal, "a message of a rank to itself that it has not sent"};
    const uint64_t message = own.received++;
    return bytes == 0 ? Status() : static_cast<CudaQueue &>(queue).copy(data, slotOf(own, message), bytes);
  }

  Status findMessages(Queue &queue, nccl::Comm &communicator) const {
    COLOSSAL_RETURN_IF_ERROR(device->makeCurrent());
    auto found = messages.find(&queue);
    if (found == messages.end())
      return {Code::Internal, "a message on a queue that was not said to have any"};
    communicator = found->second;
    return {};
  }

  std::unique_ptr<NcclConnections> connections;
  const NcclLibrary &library;
  const bool ordered;
  Control &control;
  Store &store;
  CudaDevice *device = nullptr;
  NcclKernels kernels;
  std::map<std::string, unsigned> serials;
  std::map<Queue *, nccl::Comm> messages;
  std::map<Queue *, OwnMessages> ownMessages;
  std::map<uint32_t, std::shared_ptr<NcclStaging>> stagings; // by channel
  std::map<uint32_t, uint64_t> sent;                         // to whom
};

} // namespace

std::unique_ptr<Transfers> createNcclTransfers(const NcclLibrary &library, bool ordered, Control &control,
                                               Store &store, Abort &abort) {
  return std::make_unique<NcclTransfers>(library, ordered, control, store, abort);
}

} // namespace colossal::runtime
