// The communicator of processes under mpirun or srun: one rank a process. A plug-in, so that the runtime
// starts where MPI is not installed.
//
// Blocks are packed into staging, moved as bytes, and unpacked, piece by piece, so that staging is no more
// than the plan states; reductions are done here, in the order of members, from what an all-to-all brings,
// because MPI's own order may change from run to run and it knows no 16-bit floats.
#include "runtime/comm/Blocks.h"
#include "runtime/comm/Open.h"
#include "runtime/comm/Reduce.h"

#include "colossal/Plan/Traffic.h"
#include "colossal/Plan/Volume.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <dlfcn.h>
#include <list>
#include <map>
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

/// What one queue's collectives pack into and unpack from, one after the other. It has its size when the plan
/// is loaded, by the plan's own formula (colossal/Plan/Traffic.h), and never more than plan::stagingLimit.
using StagingArea = std::vector<std::byte>;

struct MpiGroup : Group {
  ~MpiGroup() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized && comm != MPI_COMM_NULL)
      MPI_Comm_free(&comm);
  }
  MPI_Comm comm = MPI_COMM_NULL;
  std::shared_ptr<StagingArea> staging; // shared by the groups of a channel
};

plan::Staging stagingOf(const CollectiveCall &call) {
  uint64_t elements = 1;
  for (uint64_t extent : call.sizes)
    elements *= extent;
  return plan::stagingOf(static_cast<plan::Collective::Kind>(call.kind), elements, elementSize(call.type),
                         call.group->members.size());
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

/// Rows of `length` bytes, `stride` bytes apart, as one element.
class Rows {
public:
  Status create(uint64_t rows, uint64_t length, uint64_t stride) {
    Unit row;
    COLOSSAL_RETURN_IF_ERROR(row.create(length));
    if (rows > INT_MAX)
      return {Code::Unsupported, "a message of " + std::to_string(rows) + " rows is too long for MPI"};
    COLOSSAL_MPI(MPI_Type_create_hvector(static_cast<int>(rows), row.count, static_cast<MPI_Aint>(stride),
                                         row.type, &type));
    COLOSSAL_MPI(MPI_Type_commit(&type));
    return {};
  }
  ~Rows() {
    if (type != MPI_DATATYPE_NULL)
      MPI_Type_free(&type); // messages under way keep what they need of it
  }
  MPI_Datatype type = MPI_DATATYPE_NULL;
};

/// One collective, on the calling thread. Blocks go through staging in pieces of as many elements as fit;
/// windows go from where they lie to where they belong.
class Transfer {
public:
  explicit Transfer(const CollectiveCall &call)
      : call(call), group(static_cast<MpiGroup &>(*call.group)),
        members(static_cast<uint32_t>(group.members.size())), self(group.self), size(elementSize(call.type)),
        source(call.sizes, call.srcStrides, denseStrides(call.sizes)),
        destination(call.sizes, denseStrides(call.sizes), call.dstStrides) {}

  Status run() {
    if (call.kind == CollectiveKind::Exchange)
      return exchange();
    const uint64_t elements = source.elements();
    if (elements == 0)
      return {};
    if (call.kind == CollectiveKind::Permute && (call.sources[self] < 0 || call.sources[self] == self))
      ownPermute();
    else if (members == 1)
      copyOwn();
    if (members == 1)
      return {};
    const plan::Staging staging = stagingOf(call);
    if (group.staging->size() < staging.bytes)
      group.staging->resize(staging.bytes);
    // Chosen for the whole, so that what is sent does not depend on the pieces.
    slices = call.kind == CollectiveKind::AllReduce && members > 2 && elements * size > plan::shortAllReduce;
    for (begin = 0; begin < elements; begin = end) {
      end = std::min(elements, begin + staging.elements);
      COLOSSAL_RETURN_IF_ERROR(movePiece());
    }
    return {};
  }

private:
  Status movePiece() {
    std::byte *out = group.staging->data();
    const int bytes = static_cast<int>((end - begin) * size);
    switch (call.kind) {
    case CollectiveKind::AllReduce: return slices ? reduceSlices(out) : reduceAll(out);
    case CollectiveKind::AllGather: {
      std::byte *in = out + bytes;
      pack(call.src, out);
      COLOSSAL_MPI(MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, group.comm));
      countToOthers(bytes);
      for (uint32_t peer = 0; peer < members; ++peer)
        unpack(in + uint64_t(peer) * bytes, call.dst + peer * call.dstPeerStride * size);
      return {};
    }
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllToAll: {
      std::byte *in = out + uint64_t(members) * bytes;
      for (uint32_t peer = 0; peer < members; ++peer)
        pack(call.src + peer * call.srcPeerStride * size, out + uint64_t(peer) * bytes);
      COLOSSAL_MPI(MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, group.comm));
      countToOthers(bytes);
      if (call.kind == CollectiveKind::ReduceScatter) {
        reduce(in, end - begin, in);
        unpack(in, call.dst);
        return {};
      }
      for (uint32_t peer = 0; peer < members; ++peer)
        unpack(in + uint64_t(peer) * bytes, call.dst + peer * call.dstPeerStride * size);
      return {};
    }
    case CollectiveKind::Broadcast:
      if (self == call.root)
        pack(call.src, out);
      COLOSSAL_MPI(MPI_Bcast(out, bytes, MPI_BYTE, static_cast<int>(call.root), group.comm));
      if (self == call.root)
        countToOthers(bytes);
      if (self != call.root || call.src != call.dst)
        unpack(out, call.dst);
      return {};
    case CollectiveKind::Permute: return permute(out, bytes);
    case CollectiveKind::Exchange: break;
    }
    return {};
  }

  /// The current piece of a block, to and from consecutive elements.
  void pack(const std::byte *from, std::byte *to) const {
    source.forRows(begin, end, [&](uint64_t there, uint64_t, uint64_t position, uint64_t length) {
      std::memcpy(to + (position - begin) * size, from + there * size, length * size);
    });
  }
  void unpack(const std::byte *from, std::byte *to) const {
    destination.forRows(begin, end, [&](uint64_t, uint64_t there, uint64_t position, uint64_t length) {
      std::memcpy(to + there * size, from + (position - begin) * size, length * size);
    });
  }

  void countSent(uint64_t bytes) { group.countSent(call.kind, bytes); }
  void countToOthers(int bytes) { countSent(uint64_t(members - 1) * static_cast<uint64_t>(bytes)); }

  /// dst[e] = reduction over members of parts[member * count + e].
  void reduce(const std::byte *parts, uint64_t count, std::byte *dst) const {
    std::vector<const std::byte *> sources(members);
    for (uint64_t done = 0; done < count; done += reduceChunk) {
      for (uint32_t member = 0; member < members; ++member)
        sources[member] = parts + (member * count + done) * size;
      reduceElements(call.type, call.reduction, sources.data(), members, dst + done * size,
                     std::min(reduceChunk, count - done));
    }
  }

  /// Everything to everyone, in one step.
  Status reduceAll(std::byte *out) {
    const int bytes = static_cast<int>((end - begin) * size);
    std::byte *in = out + bytes;
    pack(call.src, out);
    COLOSSAL_MPI(MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, group.comm));
    countToOthers(bytes);
    reduce(in, end - begin, out);
    unpack(out, call.dst);
    return {};
  }

  /// Each member reduces a slice and gives it to all.
  Status reduceSlices(std::byte *out) {
    const uint64_t count = end - begin;
    std::vector<int> bytes(members), at(members), same(members), inAt(members);
    for (uint32_t member = 0; member < members; ++member) {
      const auto [from, until] = plan::memberSlice(count, member, members);
      at[member] = static_cast<int>(from * size);
      bytes[member] = static_cast<int>((until - from) * size);
    }
    for (uint32_t member = 0; member < members; ++member) {
      same[member] = bytes[self];
      inAt[member] = static_cast<int>(member) * bytes[self];
    }
    std::byte *in = out + count * size;
    pack(call.src, out);
    COLOSSAL_MPI(MPI_Alltoallv(out, bytes.data(), at.data(), MPI_BYTE, in, same.data(), inAt.data(), MPI_BYTE,
                               group.comm));
    countSent(count * size - static_cast<uint64_t>(bytes[self]));
    reduce(in, static_cast<uint64_t>(bytes[self]) / size, in);
    COLOSSAL_MPI(
        MPI_Allgatherv(in, bytes[self], MPI_BYTE, out, bytes.data(), at.data(), MPI_BYTE, group.comm));
    countToOthers(bytes[self]);
    unpack(out, call.dst);
    return {};
  }

  /// What a member's own block gives it, without staging.
  void copyOwn() const {
    if (call.src != call.dst)
      copyBlock(StridedBlock(call.sizes, call.srcStrides, call.dstStrides), call.src, call.dst, size);
  }
  void ownPermute() const {
    if (call.sources[self] >= 0)
      return copyOwn();
    destination.forRows(0, destination.elements(), [&](uint64_t, uint64_t to, uint64_t, uint64_t length) {
      std::memset(call.dst + to * size, 0, length * size);
    });
  }

  Status permute(std::byte *out, int bytes) {
    std::byte *in = out + bytes;
    std::vector<MPI_Request> requests;
    const int64_t from = call.sources[self];
    const bool receives = from >= 0 && from != self;
    if (receives) {
      requests.emplace_back();
      COLOSSAL_MPI(MPI_Irecv(in, bytes, MPI_BYTE, static_cast<int>(from), 0, group.comm, &requests.back()));
    }
    bool packed = false;
    for (uint32_t peer = 0; peer < members; ++peer) {
      if (peer == self || call.sources[peer] != self)
        continue;
      if (!packed)
        pack(call.src, out);
      packed = true;
      requests.emplace_back();
      COLOSSAL_MPI(MPI_Isend(out, bytes, MPI_BYTE, static_cast<int>(peer), 0, group.comm, &requests.back()));
      countSent(static_cast<uint64_t>(bytes));
    }
    COLOSSAL_MPI(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
    if (receives)
      unpack(in, call.dst);
    return {};
  }

  Status exchange() {
    const CollectiveCall::Window &window = call.window;
    const uint64_t place = window.inner * size;
    std::vector<MPI_Request> requests;
    // Both sides derive the same pieces in the same order, which is that of the messages between them.
    auto start = [&](const WindowPiece &piece, uint32_t peer, bool receive) -> Status {
      const uint64_t length = static_cast<uint64_t>(piece.length) * place;
      if (length == 0 || window.outer == 0)
        return {};
      Rows rows;
      COLOSSAL_RETURN_IF_ERROR(
          rows.create(window.outer, length, (receive ? window.dstExtent : window.srcExtent) * place));
      requests.emplace_back();
      if (receive) {
        COLOSSAL_MPI(MPI_Irecv(call.dst + static_cast<uint64_t>(piece.to) * place, 1, rows.type,
                               static_cast<int>(peer), 0, group.comm, &requests.back()));
      } else {
        COLOSSAL_MPI(MPI_Isend(call.src + static_cast<uint64_t>(piece.from) * place, 1, rows.type,
                               static_cast<int>(peer), 0, group.comm, &requests.back()));
        countSent(length * window.outer);
      }
      return {};
    };
    const std::vector<WindowPiece> mine = windowPieces(window, self);
    for (const WindowPiece &piece : mine)
      if (piece.member >= 0 && piece.member != self)
        COLOSSAL_RETURN_IF_ERROR(start(piece, static_cast<uint32_t>(piece.member), true));
    for (uint32_t step = 1; step < members; ++step) {
      const uint32_t receiver = (self + step) % members;
      for (const WindowPiece &piece : windowPieces(window, receiver))
        if (piece.member == self)
          COLOSSAL_RETURN_IF_ERROR(start(piece, receiver, false));
    }
    for (const WindowPiece &piece : mine) {
      if (piece.member < 0)
        fillWindow(window, call.type, call.dst, piece.to, piece.length);
      else if (piece.member == self)
        for (uint64_t outer = 0; outer < window.outer; ++outer)
          std::memcpy(call.dst + (outer * window.dstExtent + static_cast<uint64_t>(piece.to)) * place,
                      call.src + (outer * window.srcExtent + static_cast<uint64_t>(piece.from)) * place,
                      static_cast<uint64_t>(piece.length) * place);
    }
    return check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
                 "MPI_Waitall");
  }

  const CollectiveCall &call;
  MpiGroup &group;
  const uint32_t members, self;
  const uint64_t size;
  const StridedBlock source, destination; // against a dense block
  uint64_t begin = 0, end = 0;            // of the current piece, in elements of the block
  bool slices = false;
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
      if (static_cast<int>(peer) != self && bytes != 0)
        sent[peer] += bytes;
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
    for (const auto &[channel, staging] : stagings)
      bytes += staging->size();
    return bytes;
  }

  std::map<uint32_t, uint64_t> messageBytes() const override {
    std::lock_guard<std::mutex> lock(mutex);
    return sent;
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
  std::map<uint32_t, std::shared_ptr<StagingArea>> stagings; // by channel
  mutable std::mutex mutex;
  std::list<Letter> letters;
  std::map<uint32_t, uint64_t> sent; // to whom
};

class MpiControl : public Control {
public:
  MpiControl() : control(everyone()), questions(everyone()) {
    MPI_Comm_rank(control, &self);
    MPI_Comm_size(control, &count);
    heard.resize(static_cast<size_t>(count));
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

  void answer(const std::string &mine, bool ask) override {
    for (auto note = notes.begin(); note != notes.end();) {
      int done = 0;
      MPI_Test(&note->request, &done, MPI_STATUS_IGNORE);
      note = done ? notes.erase(note) : std::next(note);
    }
    for (int waiting = 1; waiting;) {
      MPI_Status status;
      if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, questions, &waiting, &status) != MPI_SUCCESS || !waiting)
        break;
      int length = 0;
      MPI_Get_count(&status, MPI_BYTE, &length);
      std::string text(static_cast<size_t>(std::max(0, length)), ' ');
      if (MPI_Recv(text.data(), length, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, questions,
                   MPI_STATUS_IGNORE) != MPI_SUCCESS)
        break;
      if (status.MPI_TAG == question)
        post(status.MPI_SOURCE, reply, mine);
      else
        heard[static_cast<size_t>(status.MPI_SOURCE)] = {std::chrono::steady_clock::now(), std::move(text)};
    }
    for (int peer = 0; ask && peer < count; ++peer)
      if (peer != self)
        post(peer, question, "");
  }

  std::vector<std::string> answers(std::chrono::milliseconds span) const override {
    std::vector<std::string> texts;
    for (const Heard &from : heard)
      texts.push_back(std::chrono::steady_clock::now() - from.at <= span ? from.text : "");
    return texts;
  }

private:
  static constexpr uint64_t mostAtOnce = 1 << 30; // counts are ints
  enum : int { question, reply };                 // tags
  static constexpr size_t longestNote = 1024;     // short enough to leave without its receiver's help

  struct Note {
    std::string text;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Heard {
    std::chrono::steady_clock::time_point at{};
    std::string text;
  };

  /// To a process that takes nothing in any more this never completes, and need not.
  void post(int peer, int tag, const std::string &text) {
    notes.push_back({text.substr(0, longestNote), MPI_REQUEST_NULL});
    Note &note = notes.back();
    if (MPI_Isend(note.text.data(), static_cast<int>(note.text.size()), MPI_BYTE, peer, tag, questions,
                  &note.request) != MPI_SUCCESS)
      notes.pop_back();
  }

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

  MPI_Comm control, questions;
  int self = 0, count = 1;
  std::list<Note> notes;    // on their way
  std::vector<Heard> heard; // by rank
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
