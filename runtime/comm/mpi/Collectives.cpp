// Collectives over MPI's own.
//
// Blocks are packed into staging, moved as bytes, and unpacked, piece by piece, so that staging is no more
// than the plan states; reductions are done here, in the order of members, from what an all-to-all brings,
// because MPI's own order may change from run to run and it knows no 16-bit floats.
#include "runtime/comm/mpi/Mpi.h"

#include "runtime/comm/Blocks.h"
#include "runtime/comm/Reduce.h"

#include "colossal/Plan/Volume.h"

#include <algorithm>

namespace colossal::runtime {

plan::Staging stagingOf(const CollectiveCall &call) {
  uint64_t elements = 1;
  for (uint64_t extent : call.sizes)
    elements *= extent;
  return plan::stagingOf(static_cast<plan::Collective::Kind>(call.kind), elements, elementSize(call.type),
                         call.group->members.size());
}

namespace {

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

  void countSent(uint64_t bytes) { group.countSent(call, bytes); }
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

} // namespace

Status runCollective(const CollectiveCall &call) {
  return Transfer(call).run();
}

} // namespace colossal::runtime
