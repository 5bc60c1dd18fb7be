// Extents of what a call reads and writes, and the calls on host memory that stand for those on the device's.
#include "runtime/comm/StagedTransfers.h"

#include <algorithm>
#include <map>

namespace colossal::runtime {

namespace {

/// What a call touches of its buffers, from their beginnings, in bytes.
struct Extent {
  uint64_t src = 0, dst = 0;
  bool gaps = false; ///< whether it leaves some of dst as it was
};

Extent extentOf(const CollectiveCall &call) {
  const uint64_t bytes = elementSize(call.type);
  if (call.kind == CollectiveKind::Exchange) {
    const CollectiveCall::Window &window = call.window;
    return {window.outer * window.srcExtent * window.inner * bytes,
            window.outer * window.dstExtent * window.inner * bytes, false};
  }
  uint64_t elements = 1, src = 1, dst = 1;
  for (size_t d = 0; d < call.sizes.size(); ++d) {
    elements *= call.sizes[d];
    src += (call.sizes[d] - 1) * call.srcStrides[d];
    dst += (call.sizes[d] - 1) * call.dstStrides[d];
  }
  if (elements == 0)
    return {};
  const uint64_t others = call.group->members.size() - 1;
  src += others * call.srcPeerStride;
  dst += others * call.dstPeerStride;
  const uint64_t written = elements * (call.dstPeerStride ? others + 1 : 1);
  if (call.src == call.dst) // one buffer
    src = dst = std::max(src, dst);
  return {src * bytes, dst * bytes, written != dst};
}

class StagedTransfers : public Transfers {
public:
  StagedTransfers(std::unique_ptr<Transfers> inner, Device &device)
      : inner(std::move(inner)), device(device) {}

  ReductionOrder reductionOrder() const override { return inner->reductionOrder(); }
  Reach reach() const override { return Reach::Device; }
  uint64_t shortAllReduce() const override { return inner->shortAllReduce(); }
  bool tellsMessagesApart() const override { return inner->tellsMessagesApart(); }
  Status attach(Device &theDevice, const std::vector<Queue *> &messageQueues) override {
    return inner->attach(theDevice, messageQueues);
  }

  Status createGroup(const std::vector<uint32_t> &members, uint32_t channel,
                     std::shared_ptr<Group> &group) override {
    return inner->createGroup(members, channel, group);
  }

  Status reserve(const std::shared_ptr<const CollectiveCall> &call, Queue &queue) override {
    const Extent extent = extentOf(*call);
    COLOSSAL_RETURN_IF_ERROR(reserveStaging(queue, extent.src, extent.dst));
    std::shared_ptr<CollectiveCall> &staged = stagedCalls[call];
    staged = std::make_shared<CollectiveCall>(*call);
    return inner->reserve(staged, queue);
  }

  Status reserveMessage(uint64_t bytes, Queue &queue) override {
    COLOSSAL_RETURN_IF_ERROR(reserveStaging(queue, bytes, bytes));
    return inner->reserveMessage(bytes, queue);
  }

  Status reserveSlots(uint32_t count, uint64_t bytes, Queue &queue) override {
    return inner->reserveSlots(count, bytes, queue);
  }

  Status collective(std::shared_ptr<const CollectiveCall> call, Queue &queue) override {
    const Extent extent = extentOf(*call);
    COLOSSAL_RETURN_IF_ERROR(reserveStaging(queue, extent.src, extent.dst));
    Staging &staging = stagings[&queue];
    std::shared_ptr<CollectiveCall> &staged = stagedCalls[call];
    if (!staged)
      staged = std::make_shared<CollectiveCall>(*call);
    const bool inPlace = call->src == call->dst;
    // It may still be in use from an iteration before, with these addresses. Only one that nobody uses is
    // ever filled with others.
    auto set = [](auto &value, const auto &wanted) {
      if (value != wanted)
        value = wanted;
    };
    set(staged->dst, staging.dst->address());
    set(staged->src, inPlace ? staged->dst : staging.src->address());
    set(staged->sources, call->sources);
    set(staged->window.srcStart, call->window.srcStart);
    set(staged->window.srcValid, call->window.srcValid);
    set(staged->window.dstStart, call->window.dstStart);
    if (extent.src > 0)
      COLOSSAL_RETURN_IF_ERROR(queue.download(const_cast<std::byte *>(staged->src), call->src, extent.src));
    // What lies between the elements that it writes goes back as it was. Nothing else uses that meanwhile: to
    // the validator the whole buffer is written.
    if (extent.gaps && !inPlace)
      COLOSSAL_RETURN_IF_ERROR(queue.download(staged->dst, call->dst, extent.dst));
    // Whoever holds the staged one holds the call.
    COLOSSAL_RETURN_IF_ERROR(
        inner->collective(std::shared_ptr<const CollectiveCall>(call, staged.get()), queue));
    return extent.dst > 0 ? queue.upload(call->dst, staged->dst, extent.dst) : Status();
  }

  Status send(const void *data, uint64_t bytes, uint32_t peer, uint32_t tag, Queue &queue) override {
    COLOSSAL_RETURN_IF_ERROR(reserveStaging(queue, bytes, bytes));
    std::byte *staged = stagings[&queue].src->address();
    if (bytes > 0)
      COLOSSAL_RETURN_IF_ERROR(queue.download(staged, data, bytes));
    return inner->send(staged, bytes, peer, tag, queue);
  }

  Status receive(void *data, uint64_t bytes, uint32_t peer, uint32_t tag, Queue &queue) override {
    COLOSSAL_RETURN_IF_ERROR(reserveStaging(queue, bytes, bytes));
    std::byte *staged = stagings[&queue].dst->address();
    COLOSSAL_RETURN_IF_ERROR(inner->receive(staged, bytes, peer, tag, queue));
    return bytes > 0 ? queue.upload(data, staged, bytes) : Status();
  }

  uint64_t stagingBytes() const override {
    uint64_t bytes = inner->stagingBytes();
    for (const auto &[queue, staging] : stagings)
      bytes += staging.src->bytes() + staging.dst->bytes();
    return bytes;
  }

  std::map<uint32_t, uint64_t> messageBytes() const override { return inner->messageBytes(); }

private:
  struct Staging {
    std::unique_ptr<Allocation> src, dst;
  };

  Status reserveStaging(Queue &queue, uint64_t src, uint64_t dst) {
    Staging &staging = stagings[&queue];
    COLOSSAL_RETURN_IF_ERROR(grow(staging.src, src, queue));
    return grow(staging.dst, dst, queue);
  }

  Status grow(std::unique_ptr<Allocation> &memory, uint64_t bytes, Queue &queue) {
    if (memory && memory->bytes() >= bytes)
      return {};
    if (memory)
      COLOSSAL_RETURN_IF_ERROR(queue.synchronize()); // it may be in use
    return device.allocatePinned(bytes, memory);
  }

  std::unique_ptr<Transfers> inner;
  Device &device;
  std::map<Queue *, Staging> stagings;
  std::map<std::shared_ptr<const CollectiveCall>, std::shared_ptr<CollectiveCall>> stagedCalls;
};

} // namespace

std::unique_ptr<Transfers> reachDevice(std::unique_ptr<Transfers> transfers, Device &device) {
  if (device.hostReachesMemory() || transfers->reach() == Reach::Device)
    return transfers;
  return std::make_unique<StagedTransfers>(std::move(transfers), device);
}

} // namespace colossal::runtime
