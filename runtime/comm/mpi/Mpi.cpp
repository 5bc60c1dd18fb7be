// The communicator of processes under mpirun or srun: one rank a process. A plug-in, so that the runtime
// starts where MPI is not installed.
//
// Blocks are packed into staging, moved as bytes, and unpacked; reductions are done here, in the order of
// members, from what an all-to-all brings, because MPI's own order may change from run to run and it knows no
// 16-bit floats.
#include "runtime/comm/Blocks.h"
#include "runtime/comm/Open.h"
#include "runtime/comm/Reduce.h"

#include <mpi.h>

#include <algorithm>
#include <climits>
#include <dlfcn.h>
#include <list>
#include <mutex>

namespace colossal::runtime {

namespace {

Status check(int code, const char *what) {
  if (code == MPI_SUCCESS)
    return {};
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {Code::RankFailed, std::string(what) + ": " + std::string(text, static_cast<size_t>(length))};
}

#define COLOSSAL_MPI(call) COLOSSAL_RETURN_IF_ERROR(check((call), #call))

struct MpiGroup : Group {
  ~MpiGroup() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized && comm != MPI_COMM_NULL)
      MPI_Comm_free(&comm);
  }
  MPI_Comm comm = MPI_COMM_NULL;
  // Grows to what the greatest collective of the group needs; then runs allocate nothing. Collectives of one
  // group do not overlap in time.
  std::vector<std::byte> outgoing, incoming;
};

std::byte *reserve(std::vector<std::byte> &staging, uint64_t bytes) {
  if (staging.size() < bytes)
    staging.resize(bytes);
  return staging.data();
}

/// MPI counts are ints; bytes beyond that travel as elements of a wider type.
class Unit {
public:
  Status create(uint64_t bytes) {
    uint64_t width = 1;
    while (bytes / width > INT_MAX && bytes % (width * 2) == 0)
      width *= 2;
    if (bytes / width > INT_MAX)
      return {Code::Unsupported, "a message of " + std::to_string(bytes) + " bytes is too long for MPI"};
    count = static_cast<int>(bytes / width);
    if (width > 1) {
      COLOSSAL_MPI(MPI_Type_contiguous(static_cast<int>(width), MPI_BYTE, &type));
      COLOSSAL_MPI(MPI_Type_commit(&type));
    }
    return {};
  }
  ~Unit() {
    if (type != MPI_BYTE)
      MPI_Type_free(&type);
  }
  MPI_Datatype type = MPI_BYTE;
  int count = 0;
};

/// One collective, on the calling thread.
class Transfer {
public:
  explicit Transfer(const CollectiveCall &call)
      : call(call), group(static_cast<MpiGroup &>(*call.group)),
        members(static_cast<uint32_t>(group.members.size())), self(group.self), size(elementSize(call.type)) {
  }

  Status run() {
    if (call.kind == CollectiveKind::Exchange)
      return exchange();
    for (uint64_t extent : call.sizes)
      elements *= extent;
    if (elements == 0)
      return {};
    dense = denseStrides(call.sizes);
    switch (call.kind) {
    case CollectiveKind::AllReduce: return allReduce();
    case CollectiveKind::AllGather: {
      std::byte *out = reserve(group.outgoing, bytes()), *in = reserve(group.incoming, bytes() * members);
      pack(call.src, out);
      Unit unit;
      COLOSSAL_RETURN_IF_ERROR(unit.create(bytes()));
      COLOSSAL_MPI(MPI_Allgather(out, unit.count, unit.type, in, unit.count, unit.type, group.comm));
      for (uint32_t peer = 0; peer < members; ++peer)
        unpack(in + peer * bytes(), call.dst + peer * call.dstPeerStride * size);
      return {};
    }
    case CollectiveKind::ReduceScatter:
      COLOSSAL_RETURN_IF_ERROR(allToAll());
      reduce(group.incoming.data(), elements, group.incoming.data());
      unpack(group.incoming.data(), call.dst);
      return {};
    case CollectiveKind::AllToAll:
      COLOSSAL_RETURN_IF_ERROR(allToAll());
      for (uint32_t peer = 0; peer < members; ++peer)
        unpack(group.incoming.data() + peer * bytes(), call.dst + peer * call.dstPeerStride * size);
      return {};
    case CollectiveKind::Broadcast: {
      std::byte *staged = reserve(group.outgoing, bytes());
      if (self == call.root)
        pack(call.src, staged);
      Unit unit;
      COLOSSAL_RETURN_IF_ERROR(unit.create(bytes()));
      COLOSSAL_MPI(MPI_Bcast(staged, unit.count, unit.type, static_cast<int>(call.root), group.comm));
      if (self != call.root || call.src != call.dst)
        unpack(staged, call.dst);
      return {};
    }
    case CollectiveKind::Permute: return permute();
    case CollectiveKind::Exchange: break;
    }
    return {};
  }

private:
  uint64_t bytes() const { return elements * size; }
  void pack(const std::byte *from, std::byte *to) const {
    copyBlock(StridedBlock(call.sizes, call.srcStrides, dense), from, to, size);
  }
  void unpack(const std::byte *from, std::byte *to) const {
    copyBlock(StridedBlock(call.sizes, dense, call.dstStrides), from, to, size);
  }

  /// dst[e] = reduction over members of slices[member * count + e].
  void reduce(const std::byte *slices, uint64_t count, std::byte *dst) const {
    std::vector<const std::byte *> sources(members);
    for (uint64_t done = 0; done < count; done += reduceChunk) {
      for (uint32_t member = 0; member < members; ++member)
        sources[member] = slices + (member * count + done) * size;
      reduceElements(call.type, call.reduction, sources.data(), members, dst + done * size,
                     std::min(reduceChunk, count - done));
    }
  }

  Status allReduce() {
    // Short messages: everything to everyone in one step. Long ones: each member reduces a slice.
    constexpr uint64_t shortBytes = 8192;
    const bool slices = bytes() > shortBytes && members > 2;
    const uint64_t slice = slices ? (elements + members - 1) / members : elements;
    std::byte *out = reserve(group.outgoing, std::max(slice * members, elements) * size);
    std::byte *in = reserve(group.incoming, slice * members * size);
    pack(call.src, out);
    Unit unit;
    COLOSSAL_RETURN_IF_ERROR(unit.create(slice * size));
    if (!slices) {
      COLOSSAL_MPI(MPI_Allgather(out, unit.count, unit.type, in, unit.count, unit.type, group.comm));
      reduce(in, elements, out);
      unpack(out, call.dst);
      return {};
    }
    std::memset(out + bytes(), 0, slice * members * size - bytes()); // the last slice's padding
    COLOSSAL_MPI(MPI_Alltoall(out, unit.count, unit.type, in, unit.count, unit.type, group.comm));
    reduce(in, slice, in);
    COLOSSAL_MPI(MPI_Allgather(in, unit.count, unit.type, out, unit.count, unit.type, group.comm));
    unpack(out, call.dst);
    return {};
  }

  /// Block j of src to member j; what comes lies in `incoming` in the order of members.
  Status allToAll() {
    std::byte *out = reserve(group.outgoing, bytes() * members),
              *in = reserve(group.incoming, bytes() * members);
    for (uint32_t peer = 0; peer < members; ++peer)
      pack(call.src + peer * call.srcPeerStride * size, out + peer * bytes());
    Unit unit;
    COLOSSAL_RETURN_IF_ERROR(unit.create(bytes()));
    COLOSSAL_MPI(MPI_Alltoall(out, unit.count, unit.type, in, unit.count, unit.type, group.comm));
    return {};
  }

  Status permute() {
    std::byte *out = reserve(group.outgoing, bytes()), *in = reserve(group.incoming, bytes());
    Unit unit;
    COLOSSAL_RETURN_IF_ERROR(unit.create(bytes()));
    pack(call.src, out);
    std::vector<MPI_Request> requests;
    const int64_t source = call.sources[self];
    if (source >= 0 && source != self) {
      requests.emplace_back();
      COLOSSAL_MPI(
          MPI_Irecv(in, unit.count, unit.type, static_cast<int>(source), 0, group.comm, &requests.back()));
    }
    for (uint32_t peer = 0; peer < members; ++peer)
      if (peer != self && call.sources[peer] == self) {
        requests.emplace_back();
        COLOSSAL_MPI(
            MPI_Isend(out, unit.count, unit.type, static_cast<int>(peer), 0, group.comm, &requests.back()));
      }
    COLOSSAL_MPI(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
    if (source < 0)
      std::memset(in, 0, bytes());
    unpack(source == self ? out : in, call.dst);
    return {};
  }

  Status exchange() {
    const CollectiveCall::Window &window = call.window;
    const uint64_t place = window.inner * size;
    // Both sides derive the same pieces in the same order. Messages are of elements along the window.
    std::vector<std::vector<WindowPiece>> wanted(members);
    std::vector<uint64_t> sends(members), receives(members);
    for (uint32_t receiver = 0; receiver < members; ++receiver) {
      wanted[receiver] = windowPieces(window, receiver);
      for (const WindowPiece &piece : wanted[receiver])
        if (piece.member == self)
          sends[receiver] += static_cast<uint64_t>(piece.length) * window.outer * place;
    }
    for (const WindowPiece &piece : wanted[self])
      if (piece.member >= 0)
        receives[static_cast<size_t>(piece.member)] +=
            static_cast<uint64_t>(piece.length) * window.outer * place;
    std::vector<uint64_t> sendAt(members + 1), receiveAt(members + 1);
    for (uint32_t peer = 0; peer < members; ++peer) {
      sendAt[peer + 1] = sendAt[peer] + sends[peer];
      receiveAt[peer + 1] = receiveAt[peer] + receives[peer];
    }
    std::byte *out = reserve(group.outgoing, sendAt[members]),
              *in = reserve(group.incoming, receiveAt[members]);
    std::byte *to = out;
    for (uint32_t receiver = 0; receiver < members; ++receiver)
      for (const WindowPiece &piece : wanted[receiver])
        if (piece.member == self)
          to =
              slices(piece, piece.from, window.srcExtent, place, const_cast<std::byte *>(call.src), to, true);
    std::vector<MPI_Request> requests;
    std::list<Unit> units;
    for (uint32_t step = 1; step < members; ++step) {
      const uint32_t from = (self + members - step) % members, peer = (self + step) % members;
      for (bool receive : {true, false}) {
        const uint32_t other = receive ? from : peer;
        const uint64_t length = receive ? receives[other] : sends[other];
        if (length == 0)
          continue;
        units.emplace_back();
        COLOSSAL_RETURN_IF_ERROR(units.back().create(length));
        requests.emplace_back();
        COLOSSAL_MPI(receive ? MPI_Irecv(in + receiveAt[other], units.back().count, units.back().type,
                                         static_cast<int>(other), 0, group.comm, &requests.back())
                             : MPI_Isend(out + sendAt[other], units.back().count, units.back().type,
                                         static_cast<int>(other), 0, group.comm, &requests.back()));
      }
    }
    COLOSSAL_MPI(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
    if (sends[self] != 0)
      std::memcpy(in + receiveAt[self], out + sendAt[self], sends[self]);
    std::vector<uint64_t> next = receiveAt;
    for (const WindowPiece &piece : wanted[self]) {
      if (piece.member < 0) {
        fillWindow(window, call.type, call.dst, piece.to, piece.length);
        continue;
      }
      uint64_t &at = next[static_cast<size_t>(piece.member)];
      at = static_cast<uint64_t>(slices(piece, piece.to, window.dstExtent, place, call.dst, in + at, false) -
                                 in);
    }
    return {};
  }

  /// Moves a piece between a window and packed bytes, one outer index after another; returns the end of the
  /// bytes.
  std::byte *slices(const WindowPiece &piece, int64_t start, uint64_t extent, uint64_t place,
                    std::byte *window, std::byte *packed, bool packing) const {
    const uint64_t length = static_cast<uint64_t>(piece.length) * place;
    for (uint64_t outer = 0; outer < call.window.outer && length; ++outer, packed += length) {
      std::byte *there = window + (outer * extent + static_cast<uint64_t>(start)) * place;
      std::memcpy(packing ? packed : there, packing ? there : packed, length);
    }
    return packed;
  }

  const CollectiveCall &call;
  MpiGroup &group;
  const uint32_t members, self;
  const uint64_t size;
  uint64_t elements = 1;
  std::vector<uint64_t> dense;
};

/// A communicator of all processes, of its own, whose errors come back as codes.
MPI_Comm everyone() {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  return made;
}

class MpiTransfers : public Transfers {
public:
  MpiTransfers() : messages(everyone()) { MPI_Comm_rank(messages, &self); }
  ~MpiTransfers() override {
    for (Letter &letter : letters)
      MPI_Wait(&letter.request, MPI_STATUS_IGNORE);
  }

  ReductionOrder reductionOrder() const override { return ReductionOrder::GroupMembers; }
  Reach reach() const override { return Reach::Host; }

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
    groups.push_back(made);
    group = std::move(made);
    return {};
  }

  Status collective(std::shared_ptr<const CollectiveCall> call, Queue &queue) override {
    if (queue.immediate())
      return Transfer(*call).run();
    return queue.hostTask([call = std::move(call)] { return Transfer(*call).run(); });
  }

  Status send(const void *data, uint64_t bytes, uint32_t peer, uint32_t tag, Queue &queue) override {
    return queue.hostTask([=]() -> Status {
      COLOSSAL_RETURN_IF_ERROR(checkTag(tag));
      // As with the local communicator a send does not wait for its receiver.
      std::lock_guard<std::mutex> lock(mutex);
      for (auto letter = letters.begin(); letter != letters.end();) {
        int done = 0;
        COLOSSAL_MPI(MPI_Test(&letter->request, &done, MPI_STATUS_IGNORE));
        letter = done ? letters.erase(letter) : std::next(letter);
      }
      const auto *begin = static_cast<const std::byte *>(data);
      letters.emplace_back();
      Letter &letter = letters.back();
      letter.bytes.assign(begin, begin + bytes);
      Unit unit;
      COLOSSAL_RETURN_IF_ERROR(unit.create(bytes));
      COLOSSAL_MPI(MPI_Isend(letter.bytes.data(), unit.count, unit.type, static_cast<int>(peer),
                             static_cast<int>(tag), messages, &letter.request));
      return {};
    });
  }

  Status receive(void *data, uint64_t bytes, uint32_t peer, uint32_t tag, Queue &queue) override {
    return queue.hostTask([=]() -> Status {
      COLOSSAL_RETURN_IF_ERROR(checkTag(tag));
      Unit unit;
      COLOSSAL_RETURN_IF_ERROR(unit.create(bytes));
      COLOSSAL_MPI(MPI_Recv(data, unit.count, unit.type, static_cast<int>(peer), static_cast<int>(tag),
                            messages, MPI_STATUS_IGNORE));
      return {};
    });
  }

  uint64_t stagingBytes() const override {
    uint64_t bytes = 0;
    for (const std::shared_ptr<MpiGroup> &group : groups)
      bytes += group->outgoing.size() + group->incoming.size();
    return bytes;
  }

private:
  struct Letter {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  Status checkTag(uint32_t tag) const {
    int *bound = nullptr, found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found);
    if (found && tag > static_cast<uint32_t>(*bound))
      return {Code::Unsupported, "tag " + std::to_string(tag) + " exceeds what this MPI takes"};
    return {};
  }

  MPI_Comm messages;
  int self = 0;
  std::vector<std::shared_ptr<MpiGroup>> groups;
  std::mutex mutex;
  std::list<Letter> letters;
};

class MpiControl : public Control {
public:
  MpiControl() : control(everyone()) {
    MPI_Comm_rank(control, &self);
    MPI_Comm_size(control, &count);
  }
  /// The last that this process says to MPI.
  ~MpiControl() override { MPI_Finalize(); }

  uint32_t rank() const override { return static_cast<uint32_t>(self); }
  uint32_t size() const override { return static_cast<uint32_t>(count); }
  Status barrier() override { return check(MPI_Barrier(control), "MPI_Barrier"); }

  Status gather(const std::string &mine, std::vector<std::string> &all) override {
    all.clear();
    if (self != 0)
      return transferString(const_cast<std::string &>(mine), 0, true);
    all.resize(static_cast<size_t>(count));
    all[0] = mine;
    for (int peer = 1; peer < count; ++peer)
      COLOSSAL_RETURN_IF_ERROR(transferString(all[static_cast<size_t>(peer)], peer, false));
    return {};
  }

  Status broadcast(std::string &text) override {
    uint64_t length = text.size();
    COLOSSAL_MPI(MPI_Bcast(&length, 1, MPI_UINT64_T, 0, control));
    text.resize(length);
    for (uint64_t done = 0; done < length; done += mostAtOnce)
      COLOSSAL_MPI(MPI_Bcast(text.data() + done, static_cast<int>(std::min(mostAtOnce, length - done)),
                             MPI_BYTE, 0, control));
    return {};
  }

  void abort(int exitCode) override {
    if (count > 1)
      MPI_Abort(MPI_COMM_WORLD, exitCode);
  }

private:
  static constexpr uint64_t mostAtOnce = 1 << 30; // counts are ints

  Status transferString(std::string &text, int peer, bool sends) {
    uint64_t length = text.size();
    if (sends)
      COLOSSAL_MPI(MPI_Send(&length, 1, MPI_UINT64_T, peer, 0, control));
    else
      COLOSSAL_MPI(MPI_Recv(&length, 1, MPI_UINT64_T, peer, 0, control, MPI_STATUS_IGNORE));
    text.resize(length);
    for (uint64_t done = 0; done < length; done += mostAtOnce) {
      const int part = static_cast<int>(std::min(mostAtOnce, length - done));
      if (sends)
        COLOSSAL_MPI(MPI_Send(text.data() + done, part, MPI_BYTE, peer, 1, control));
      else
        COLOSSAL_MPI(MPI_Recv(text.data() + done, part, MPI_BYTE, peer, 1, control, MPI_STATUS_IGNORE));
    }
    return {};
  }

  MPI_Comm control;
  int self = 0, count = 1;
};

} // namespace

extern "C" __attribute__((visibility("default"))) Status
colossalCreateCommunicator(uint32_t ranks, Abort &, Communicator &communicator) {
  // Open MPI's own plug-ins expect its symbols in the global scope.
  Dl_info info;
  if (::dladdr(reinterpret_cast<void *>(&MPI_Init_thread), &info) != 0 && info.dli_fname)
    (void)::dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  int provided = 0;
  COLOSSAL_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
  int count = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  Status status;
  if (provided < MPI_THREAD_MULTIPLE)
    status = {Code::Unsupported, "this MPI does not allow calls from several threads (MPI_THREAD_MULTIPLE)"};
  else if (static_cast<uint32_t>(count) != ranks)
    status = {Code::InvalidArgument, "the plan is for " + std::to_string(ranks) + " ranks, and MPI started " +
                                         std::to_string(count) + " processes (mpirun -n " +
                                         std::to_string(ranks) + ")"};
  if (!status.ok()) {
    MPI_Finalize();
    return status;
  }
  communicator = {std::make_unique<MpiControl>(), std::make_unique<MpiTransfers>()};
  return {};
}

} // namespace colossal::runtime
