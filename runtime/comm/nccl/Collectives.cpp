// Collectives as NCCL's own where blocks are runs of bytes and NCCL knows type and order; else packed into
// staging, piece by piece, and reduced by a kernel.
#include "runtime/comm/nccl/Nccl.h"

#include "runtime/comm/Blocks.h"

#include "colossal/Plan/Traffic.h"
#include "colossal/Plan/Volume.h"

#include <algorithm>

namespace colossal::runtime {

namespace {

/// Whether NCCL reduces elements of the type, and which they are to it.
bool findType(ElementType type, nccl::DataType &found) {
  switch (type) {
  case ElementType::F32: found = nccl::Float32; return true;
  case ElementType::F64: found = nccl::Float64; return true;
  case ElementType::F16: found = nccl::Float16; return true;
  case ElementType::BF16: found = nccl::Bfloat16; return true;
  case ElementType::I8: found = nccl::Int8; return true;
  case ElementType::I32: found = nccl::Int32; return true;
  case ElementType::I64: found = nccl::Int64; return true;
  case ElementType::U8:
  case ElementType::Bool: found = nccl::Uint8; return true;
  case ElementType::U32: found = nccl::Uint32; return true;
  case ElementType::U64: found = nccl::Uint64; return true;
  default: found = nccl::Uint8; return false;
  }
}

/// A bool is 0 or 1: or is the greatest, and the least.
nccl::RedOp operatorOf(const CollectiveCall &call) {
  const bool isBool = call.type == ElementType::Bool;
  switch (call.reduction) {
  case Reduction::Max:
  case Reduction::Or: return nccl::Max;
  case Reduction::Min:
  case Reduction::And: return nccl::Min;
  case Reduction::Prod: return isBool ? nccl::Min : nccl::Prod;
  default: return isBool ? nccl::Max : nccl::Sum;
  }
}

bool reducesItself(const CollectiveCall &call, bool ordered) {
  nccl::DataType type;
  return (call.kind == CollectiveKind::AllReduce || call.kind == CollectiveKind::ReduceScatter) &&
         (ordered || !findType(call.type, type));
}

bool isDense(const std::vector<uint64_t> &sizes, const std::vector<uint64_t> &strides) {
  uint64_t run = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1 && strides[d] != run)
      return false;
    run *= sizes[d];
  }
  return true;
}

uint64_t elementsOf(const CollectiveCall &call) {
  uint64_t elements = 1;
  for (uint64_t extent : call.sizes)
    elements *= extent;
  return elements;
}

/// Whether nothing needs to be packed or reduced here.
bool goesDirectly(const CollectiveCall &call, bool ordered) {
  if (!isDense(call.sizes, call.srcStrides) || !isDense(call.sizes, call.dstStrides) ||
      reducesItself(call, ordered))
    return false;
  const uint64_t elements = elementsOf(call);
  return (call.kind != CollectiveKind::AllGather || call.dstPeerStride == elements) &&
         (call.kind != CollectiveKind::ReduceScatter || call.srcPeerStride == elements);
}

plan::Staging stagingOf(const CollectiveCall &call) {
  return plan::stagingOf(static_cast<plan::Collective::Kind>(call.kind), elementsOf(call),
                         elementSize(call.type), call.group->members.size());
}

class Transfer {
public:
  Transfer(const CollectiveCall &call, bool ordered, NcclConnections &connections, const NcclKernels &kernels,
           CudaQueue &queue)
      : call(call), group(static_cast<NcclGroup &>(*call.group)),
        members(static_cast<uint32_t>(group.members.size())), self(group.self), size(elementSize(call.type)),
        reduces(reducesItself(call, ordered)), direct(goesDirectly(call, ordered)), connections(connections),
        library(connections.nccl()), kernels(kernels), queue(queue), comm(group.communicator),
        stream(queue.handle()), source(call.sizes, call.srcStrides, denseStrides(call.sizes)),
        destination(call.sizes, denseStrides(call.sizes), call.dstStrides) {
    findType(call.type, type);
  }

  Status run() {
    if (call.kind == CollectiveKind::Exchange)
      return exchange();
    const uint64_t elements = source.elements();
    if (elements == 0)
      return {};
    if (call.kind == CollectiveKind::Permute && (call.sources[self] < 0 || call.sources[self] == self))
      COLOSSAL_RETURN_IF_ERROR(ownPermute());
    else if (members == 1)
      COLOSSAL_RETURN_IF_ERROR(copyOwn());
    if (members == 1)
      return {};
    if (direct) {
      end = elements;
      return move(call.src, call.srcPeerStride * size, call.dst, call.dstPeerStride * size);
    }
    const plan::Staging staging = stagingOf(call);
    for (begin = 0; begin < elements; begin = end) {
      end = std::min(elements, begin + staging.elements);
      COLOSSAL_RETURN_IF_ERROR(moveStaged());
    }
    return {};
  }

private:
  uint64_t count() const { return end - begin; }
  uint64_t bytes() const { return count() * size; }
  void countSent(uint64_t sent) { group.countSent(call, sent); }
  void countToOthers(uint64_t each) { countSent((members - 1) * each); }

  /// The current piece of a block, to and from consecutive elements.
  Status pack(const std::byte *from, std::byte *to) const {
    Status status;
    source.forRows(begin, end, [&](uint64_t there, uint64_t, uint64_t position, uint64_t length) {
      if (status.ok())
        status = queue.copy(to + (position - begin) * size, from + there * size, length * size);
    });
    return status;
  }
  Status unpack(const std::byte *from, std::byte *to) const {
    Status status;
    destination.forRows(begin, end, [&](uint64_t, uint64_t there, uint64_t position, uint64_t length) {
      if (status.ok())
        status = queue.copy(to + there * size, from + (position - begin) * size, length * size);
    });
    return status;
  }

  /// What a member's own block gives it.
  Status copyOwn() const {
    if (call.src == call.dst)
      return {};
    Status status;
    const StridedBlock block(call.sizes, call.srcStrides, call.dstStrides);
    block.forRows(0, block.elements(), [&](uint64_t from, uint64_t to, uint64_t, uint64_t length) {
      if (status.ok())
        status = queue.copy(call.dst + to * size, call.src + from * size, length * size);
    });
    return status;
  }
  Status ownPermute() const {
    if (call.sources[self] >= 0)
      return copyOwn();
    Status status;
    destination.forRows(0, destination.elements(), [&](uint64_t, uint64_t to, uint64_t, uint64_t length) {
      if (status.ok())
        status = queue.fill(call.dst + to * size, std::byte{0}, length * size);
    });
    return status;
  }

  //===--------------------------------------------------------------------===//
  // Runs of elements
  //===--------------------------------------------------------------------===//

  /// The current piece, which lies at `in` and goes to `out`, with so many bytes between what belongs to one
  /// member and the next. Neither is packed.
  Status move(const std::byte *in, uint64_t inStride, std::byte *out, uint64_t outStride) {
    switch (call.kind) {
    case CollectiveKind::AllReduce:
      COLOSSAL_NCCL_CALL(library, comm, ncclAllReduce, in, out, count(), type, operatorOf(call), comm,
                         stream);
      countSlices();
      break;
    case CollectiveKind::AllGather:
      COLOSSAL_NCCL_CALL(library, comm, ncclAllGather, in, out, bytes(), nccl::Uint8, comm, stream);
      countToOthers(bytes());
      break;
    case CollectiveKind::ReduceScatter:
      COLOSSAL_NCCL_CALL(library, comm, ncclReduceScatter, in, out, count(), type, operatorOf(call), comm,
                         stream);
      countToOthers(bytes());
      break;
    case CollectiveKind::Broadcast:
      COLOSSAL_NCCL_CALL(library, comm, ncclBroadcast, in, out, bytes(), nccl::Uint8,
                         static_cast<int>(call.root), comm, stream);
      if (self == call.root)
        countToOthers(bytes());
      break;
    case CollectiveKind::AllToAll: return exchangeBlocks(in, inStride, out, outStride, bytes());
    case CollectiveKind::Permute: return permute(in, out);
    case CollectiveKind::Exchange: break;
    }
    return connections.await(comm);
  }

  /// What a member sends in an all-reduce by slices.
  void countSlices() {
    const auto [from, until] = plan::memberSlice(count(), self, members);
    countSent(plan::sentInSlices(bytes(), (until - from) * size, uint64_t(members)));
  }

  /// `each` bytes to and from every other member, and the own block copied.
  Status exchangeBlocks(const std::byte *in, uint64_t inStride, std::byte *out, uint64_t outStride,
                        uint64_t each) {
    COLOSSAL_RETURN_IF_ERROR(queue.copy(out + self * outStride, in + self * inStride, each));
    COLOSSAL_NCCL_CALL(library, comm, ncclGroupStart);
    for (uint32_t peer = 0; peer < members; ++peer)
      if (peer != self) {
        COLOSSAL_RETURN_IF_ERROR(post(in + peer * inStride, each, peer, true));
        COLOSSAL_RETURN_IF_ERROR(post(out + peer * outStride, each, peer, false));
      }
    countToOthers(each);
    return finishGroup();
  }

  Status permute(const std::byte *in, std::byte *out) {
    const int64_t from = call.sources[self];
    COLOSSAL_NCCL_CALL(library, comm, ncclGroupStart);
    if (from >= 0 && from != self)
      COLOSSAL_RETURN_IF_ERROR(post(out, bytes(), static_cast<uint32_t>(from), false));
    for (uint32_t peer = 0; peer < members; ++peer)
      if (peer != self && call.sources[peer] == self) {
        COLOSSAL_RETURN_IF_ERROR(post(in, bytes(), peer, true));
        countSent(bytes());
      }
    return finishGroup();
  }

  /// One side of a message, in a group.
  Status post(const std::byte *at, uint64_t length, uint32_t peer, bool sends) const {
    if (sends)
      return library.check(library->ncclSend(at, length, nccl::Uint8, static_cast<int>(peer), comm, stream),
                           "ncclSend", comm);
    return library.check(library->ncclRecv(const_cast<std::byte *>(at), length, nccl::Uint8,
                                           static_cast<int>(peer), comm, stream),
                         "ncclRecv", comm);
  }
  Status finishGroup() const {
    COLOSSAL_NCCL_CALL(library, comm, ncclGroupEnd);
    return connections.await(comm);
  }

  //===--------------------------------------------------------------------===//
  // By way of staging
  //===--------------------------------------------------------------------===//

  Status moveStaged() {
    std::byte *out = group.staging->memory->address();
    std::byte *in = out + bytes();
    switch (call.kind) {
    case CollectiveKind::AllReduce:
      COLOSSAL_RETURN_IF_ERROR(pack(call.src, out));
      COLOSSAL_RETURN_IF_ERROR(reduces ? reduceSlices(out) : move(out, 0, out, 0));
      return unpack(out, call.dst);
    case CollectiveKind::AllGather:
      COLOSSAL_RETURN_IF_ERROR(pack(call.src, out));
      COLOSSAL_RETURN_IF_ERROR(move(out, 0, in, bytes()));
      return unpackAll(in);
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllToAll: {
      in = out + members * bytes();
      for (uint32_t peer = 0; peer < members; ++peer)
        COLOSSAL_RETURN_IF_ERROR(pack(call.src + peer * call.srcPeerStride * size, out + peer * bytes()));
      if (call.kind == CollectiveKind::AllToAll) {
        COLOSSAL_RETURN_IF_ERROR(move(out, bytes(), in, bytes()));
        return unpackAll(in);
      }
      if (reduces) {
        COLOSSAL_RETURN_IF_ERROR(exchangeBlocks(out, bytes(), in, bytes(), bytes()));
        COLOSSAL_RETURN_IF_ERROR(kernels.reduce(call.type, call.reduction, in, members, count(), in, queue));
      } else {
        COLOSSAL_RETURN_IF_ERROR(move(out, bytes(), in, 0));
      }
      return unpack(in, call.dst);
    }
    case CollectiveKind::Broadcast:
      if (self == call.root)
        COLOSSAL_RETURN_IF_ERROR(pack(call.src, out));
      COLOSSAL_RETURN_IF_ERROR(move(out, 0, out, 0));
      return self == call.root && call.src == call.dst ? Status() : unpack(out, call.dst);
    case CollectiveKind::Permute:
      COLOSSAL_RETURN_IF_ERROR(pack(call.src, out));
      COLOSSAL_RETURN_IF_ERROR(move(out, 0, in, 0));
      return call.sources[self] >= 0 && call.sources[self] != self ? unpack(in, call.dst) : Status();
    case CollectiveKind::Exchange: break;
    }
    return {};
  }

  Status unpackAll(const std::byte *in) const {
    for (uint32_t peer = 0; peer < members; ++peer)
      COLOSSAL_RETURN_IF_ERROR(unpack(in + peer * bytes(), call.dst + peer * call.dstPeerStride * size));
    return {};
  }

  /// Each member reduces a slice, in the order of members, and gives it to all.
  Status reduceSlices(std::byte *out) {
    auto sliceOf = [&](uint32_t member) { return plan::memberSlice(count(), member, members); };
    const auto [first, until] = sliceOf(self);
    const uint64_t own = (until - first) * size;
    std::byte *in = out + bytes(), *mine = out + first * size;
    COLOSSAL_RETURN_IF_ERROR(queue.copy(in + self * own, mine, own));
    COLOSSAL_NCCL_CALL(library, comm, ncclGroupStart);
    for (uint32_t peer = 0; peer < members; ++peer)
      if (peer != self) {
        const auto [from, to] = sliceOf(peer);
        if (to > from)
          COLOSSAL_RETURN_IF_ERROR(post(out + from * size, (to - from) * size, peer, true));
        if (own)
          COLOSSAL_RETURN_IF_ERROR(post(in + peer * own, own, peer, false));
      }
    COLOSSAL_RETURN_IF_ERROR(finishGroup());
    if (own)
      COLOSSAL_RETURN_IF_ERROR(
          kernels.reduce(call.type, call.reduction, in, members, until - first, mine, queue));
    COLOSSAL_NCCL_CALL(library, comm, ncclGroupStart);
    for (uint32_t peer = 0; peer < members; ++peer)
      if (peer != self) {
        const auto [from, to] = sliceOf(peer);
        if (own)
          COLOSSAL_RETURN_IF_ERROR(post(mine, own, peer, true));
        if (to > from)
          COLOSSAL_RETURN_IF_ERROR(post(out + from * size, (to - from) * size, peer, false));
      }
    countSlices();
    return finishGroup();
  }

  //===--------------------------------------------------------------------===//
  // Windows
  //===--------------------------------------------------------------------===//

  /// Rows of windows go from where they lie to where they belong.
  Status exchange() {
    const CollectiveCall::Window &window = call.window;
    const uint64_t place = window.inner * size;
    auto forRows = [&](const WindowPiece &piece, auto &&visit) -> Status {
      for (uint64_t outer = 0; outer < window.outer; ++outer)
        COLOSSAL_RETURN_IF_ERROR(visit((outer * window.srcExtent + static_cast<uint64_t>(piece.from)) * place,
                                       (outer * window.dstExtent + static_cast<uint64_t>(piece.to)) * place));
      return {};
    };
    const std::vector<WindowPiece> mine = windowPieces(window, self);
    for (const WindowPiece &piece : mine) {
      const uint64_t length = static_cast<uint64_t>(piece.length) * place;
      if (length == 0 || window.outer == 0)
        continue;
      if (piece.member < 0)
        COLOSSAL_RETURN_IF_ERROR(kernels.fill(
            call.type, window.fill, call.dst + static_cast<uint64_t>(piece.to) * place, window.outer,
            window.dstExtent * window.inner, static_cast<uint64_t>(piece.length) * window.inner, queue));
      else if (piece.member == self)
        COLOSSAL_RETURN_IF_ERROR(forRows(piece, [&](uint64_t from, uint64_t to) {
          return queue.copy(call.dst + to, call.src + from, length);
        }));
    }
    if (members == 1)
      return {};
    // Of a pair, both sides walk the receiver's pieces in one order.
    COLOSSAL_NCCL_CALL(library, comm, ncclGroupStart);
    for (uint32_t peer = 0; peer < members; ++peer) {
      if (peer == self)
        continue;
      for (const WindowPiece &piece : windowPieces(window, peer))
        if (const uint64_t length = static_cast<uint64_t>(piece.length) * place;
            piece.member == self && length)
          COLOSSAL_RETURN_IF_ERROR(forRows(piece, [&](uint64_t from, uint64_t) {
            countSent(length);
            return post(call.src + from, length, peer, true);
          }));
      for (const WindowPiece &piece : mine)
        if (const uint64_t length = static_cast<uint64_t>(piece.length) * place;
            piece.member == peer && length)
          COLOSSAL_RETURN_IF_ERROR(forRows(
              piece, [&](uint64_t, uint64_t to) { return post(call.dst + to, length, peer, false); }));
    }
    return finishGroup();
  }

  const CollectiveCall &call;
  NcclGroup &group;
  const uint32_t members, self;
  const uint64_t size;
  const bool reduces, direct;
  NcclConnections &connections;
  const NcclLibrary &library;
  const NcclKernels &kernels;
  CudaQueue &queue;
  const nccl::Comm comm;
  const cuda::Stream stream;
  nccl::DataType type = nccl::Uint8;
  const StridedBlock source, destination; // against a dense block
  uint64_t begin = 0, end = 0;            // of the current piece, in elements of the block
};

} // namespace

uint64_t ncclStagingOf(const CollectiveCall &call, bool ordered) {
  return call.kind == CollectiveKind::Exchange || goesDirectly(call, ordered) ? 0 : stagingOf(call).bytes;
}

Status enqueueNccl(const CollectiveCall &call, bool ordered, NcclConnections &connections,
                   const NcclKernels &kernels, CudaQueue &queue) {
  return Transfer(call, ordered, connections, kernels, queue).run();
}

} // namespace colossal::runtime
