// Collectives and point-to-point transfers among the ranks of a plan, as work on queues.
//
// Every call enqueues on a queue, and the transfer is complete when an event recorded after it is. All
// members of a group call the same collectives in the same order (as in MPI and NCCL). A Group is what
// MPI_Comm_split or ncclCommSplit makes.
//
//   here            NCCL                      MPI
//   ALL_REDUCE      ncclAllReduce             MPI_Allreduce
//   ALL_GATHER      ncclAllGather             MPI_Allgather
//   REDUCE_SCATTER  ncclReduceScatter         MPI_Reduce_scatter_block
//   ALL_TO_ALL      grouped ncclSend/Recv     MPI_Alltoall
//   BROADCAST       ncclBroadcast             MPI_Bcast
//   EXCHANGE        grouped ncclSend/Recv     MPI_Alltoallv
//   PERMUTE         grouped ncclSend/Recv     MPI_Sendrecv
#ifndef COLOSSAL_RUNTIME_COMM_TRANSFERS_H
#define COLOSSAL_RUNTIME_COMM_TRANSFERS_H

#include "runtime/device/Device.h"

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <vector>

namespace colossal::runtime {

/// As in the plan. Those after Bool are moved only: no reduction takes them.
enum class ElementType : uint8_t {
  F32 = 1,
  F64,
  F16,
  BF16,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  Bool,
  F8E4M3FN,
  F8E4M3FNUZ,
  F8E5M2,
  F8E5M2FNUZ,
  F8E8M0,
  F4E2M1,
  I4,
  U4,
  I2,
  U2,
  String
};
uint64_t elementSize(ElementType type);

enum class CollectiveKind : uint8_t {
  AllReduce = 1,
  AllGather,
  ReduceScatter,
  AllToAll,
  Broadcast,
  Exchange,
  Permute
};
constexpr CollectiveKind collectiveKinds[] = {CollectiveKind::AllReduce,     CollectiveKind::AllGather,
                                              CollectiveKind::ReduceScatter, CollectiveKind::AllToAll,
                                              CollectiveKind::Broadcast,     CollectiveKind::Exchange,
                                              CollectiveKind::Permute};
enum class Reduction : uint8_t { None = 0, Sum, Max, Min, Prod, And, Or };

struct CollectiveCall;

/// The ranks that take part, in order, and the caller's place among them.
struct Group {
  virtual ~Group() = default;
  std::vector<uint32_t> members;
  uint32_t self = 0;

  /// Counts bytes that this member has sent to others. The implementation calls it where they are sent, for
  /// what is really sent.
  void countSent(const CollectiveCall &call, uint64_t bytes);
  /// The bytes counted since the group was made.
  uint64_t sentBytes(CollectiveKind kind) const {
    return sent[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
  }
  /// The same of statistics, which are not among those of their kinds.
  uint64_t sentStatisticsBytes() const { return sent[0].load(std::memory_order_relaxed); }

private:
  std::array<std::atomic<uint64_t>, std::size(collectiveKinds) + 1> sent{};
};

/// A collective with every address and coordinate expression resolved. Meanings as in Plan.proto; sizes and
/// strides are of elements.
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::AllReduce;
  Reduction reduction = Reduction::None;
  ElementType type = ElementType::F32;
  Group *group = nullptr;
  const std::byte *src = nullptr;
  std::byte *dst = nullptr;
  std::vector<uint64_t> sizes, srcStrides, dstStrides;
  uint64_t srcPeerStride = 0, dstPeerStride = 0;
  uint32_t root = 0;
  bool isStatistics = false;    ///< counted apart
  std::vector<int64_t> sources; ///< PERMUTE: whose src each member receives; negative for zeros
  /// EXCHANGE: what each member holds and wants, along [outer, extent, inner].
  struct Window {
    uint64_t outer = 0, inner = 0, srcExtent = 0, dstExtent = 0;
    std::vector<int64_t> srcStart, srcValid, dstStart;
    double fill = 0;
  } window;
};

inline void Group::countSent(const CollectiveCall &call, uint64_t bytes) {
  sent[call.isStatistics ? 0 : static_cast<size_t>(call.kind)].fetch_add(bytes, std::memory_order_relaxed);
}

/// In which order a reduction combines its operands. It decides whether runs, members and implementations
/// agree to the bit; every order gives all members the same values.
enum class ReductionOrder : uint8_t {
  GroupMembers, ///< in the order of the group's members, 16-bit floats in f32 and rounded once
  Native,       ///< the library's own, which may depend on sizes and on the network
};

/// Which memory a transfer reads and writes.
enum class Reach : uint8_t {
  Host,   ///< what the host can touch; a device's own memory is brought there and back (StagedTransfers)
  Device, ///< the memory of the queue's device
};

/// One rank's handle, like ncclComm_t.
class Transfers {
public:
  virtual ~Transfers() = default;
  virtual ReductionOrder reductionOrder() const = 0;
  virtual Reach reach() const = 0;
  /// All-reduces of at most so many bytes in groups of more than two send everything to everyone in one step,
  /// B (n - 1) bytes; longer ones go in slices. At most plan::shortAllReduce, for which staging is stated.
  virtual uint64_t shortAllReduce() const { return 0; }
  /// Whether tags tell messages apart and slots hold them. Otherwise messages between two ranks on one queue
  /// are received in the order in which they are sent, and every send waits for its receiver; slots hold only
  /// those of a rank to itself.
  virtual bool tellsMessagesApart() const { return true; }
  /// Called once, before all others and by all ranks, with the device whose queues these will be, which
  /// outlives this. `messageQueues`: of each channel on which any rank sends or receives messages this rank's
  /// queue, or null.
  virtual Status attach(Device &device, const std::vector<Queue *> &messageQueues) {
    (void)device, (void)messageQueues;
    return {};
  }
  /// Makes the group of `members`, of which the caller is one, before any collective of it. All members call
  /// it, and those that share several groups make these in one order; ranks of other stages make others, or
  /// none. Collectives of different `channel`s may be in flight together: each queue takes its own.
  virtual Status createGroup(const std::vector<uint32_t> &members, uint32_t channel,
                             std::shared_ptr<Group> &group) = 0;
  /// Sets aside at load what a collective on `queue` will need, so that no run allocates. Each rank calls it
  /// for its own calls; nothing is sent.
  virtual Status reserve(const std::shared_ptr<const CollectiveCall> &call, Queue &queue) {
    (void)call, (void)queue;
    return {};
  }
  /// Likewise for a message of `bytes`.
  virtual Status reserveMessage(uint64_t bytes, Queue &queue) {
    (void)bytes, (void)queue;
    return {};
  }
  /// Sets aside memory in which up to `count` messages of up to `bytes` each, sent on `queue`, wait for their
  /// receivers. Called once a queue, before anything is sent on it; without it the count is 0.
  virtual Status reserveSlots(uint32_t count, uint64_t bytes, Queue &queue) = 0;
  /// The call is kept by the implementation until it completes.
  virtual Status collective(std::shared_ptr<const CollectiveCall> call, Queue &queue) = 0;
  /// With slots, it is complete when the message lies in one, and waits until one is free. With none, or
  /// where it is longer than they are, when the message has been received. Messages of one sender, receiver
  /// and tag, sent on one queue, arrive in order.
  virtual Status send(const void *data, uint64_t bytes, uint32_t peer, uint32_t tag, Queue &queue) = 0;
  virtual Status receive(void *data, uint64_t bytes, uint32_t peer, uint32_t tag, Queue &queue) = 0;
  /// Bytes of host memory held for staging, for the account of memory.
  virtual uint64_t stagingBytes() const = 0;
  /// Bytes of messages that this rank has sent to each other rank, counted where they are sent.
  virtual std::map<uint32_t, uint64_t> messageBytes() const = 0;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_COMM_TRANSFERS_H
