//===- Messages.cpp - values between stages as sends and receives -----------===//
#include "Messages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

//===----------------------------------------------------------------------===//
// Peers
//===----------------------------------------------------------------------===//

namespace {
/// Index arithmetic without what changes nothing.
class Arithmetic {
public:
  Arithmetic(OpBuilder &b, Location loc) : b(b), loc(loc) {}
  Value constant(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }
  Value coordinate(unsigned axis) { return dist::CoordinateOp::create(b, loc, b.getIndexType(), axis); }
  Value add(Value x, Value y) { return !x ? y : !y ? x : arith::AddIOp::create(b, loc, x, y).getResult(); }
  Value subtract(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value scale(Value x, int64_t by) {
    return by == 1 ? x : arith::MulIOp::create(b, loc, x, constant(by)).getResult();
  }
  Value greater(Value x, Value y) { return arith::MaxSIOp::create(b, loc, x, y); }
  /// Of all together; a tree, as expressions may not be deep.
  Value sum(ArrayRef<Value> values) {
    if (values.size() < 2)
      return values.empty() ? constant(0) : values.front();
    return add(sum(values.take_front(values.size() / 2)), sum(values.drop_front(values.size() / 2)));
  }

private:
  OpBuilder &b;
  Location loc;
};

/// A table that is linear in the coordinates of those of its ranks that have a number.
struct LinearTable {
  int64_t base = 0;
  SmallVector<int64_t> factors; ///< by axis
  SmallVector<std::pair<int64_t, int64_t>>
      extents; ///< by axis, the least and the greatest coordinate with a number
};
} // namespace

static SmallVector<int64_t> getCoordinates(int64_t rank, dist::MeshAttr mesh) {
  SmallVector<int64_t> coordinates(mesh.getNumAxes());
  for (unsigned axis = mesh.getNumAxes(); axis-- > 0;) {
    coordinates[axis] = rank % mesh.getAxisSize(axis);
    rank /= mesh.getAxisSize(axis);
  }
  return coordinates;
}

static std::optional<LinearTable> findLinear(dist::MeshAttr mesh, ArrayRef<int64_t> table) {
  LinearTable linear;
  const unsigned axes = mesh.getNumAxes();
  linear.factors.assign(axes, 0);
  linear.extents.assign(axes, {INT64_MAX, -1});
  int64_t first = -1;
  for (auto [rank, number] : llvm::enumerate(table)) {
    if (number < 0)
      continue;
    if (first < 0)
      first = static_cast<int64_t>(rank);
    for (auto [extent, coordinate] : llvm::zip_equal(linear.extents, getCoordinates(rank, mesh)))
      extent = {std::min(extent.first, coordinate), std::max(extent.second, coordinate)};
  }
  if (first < 0)
    return std::nullopt;
  // The first is the corner of the box: one step along each axis tells its factor.
  SmallVector<int64_t> corner = getCoordinates(first, mesh);
  linear.base = table[first];
  int64_t stride = 1;
  for (unsigned axis = axes; axis-- > 0;) {
    if (linear.extents[axis].second > corner[axis]) {
      if (table[first + stride] < 0)
        return std::nullopt;
      linear.factors[axis] = table[first + stride] - table[first];
    }
    linear.base -= linear.factors[axis] * corner[axis];
    stride *= mesh.getAxisSize(axis);
  }
  for (auto [rank, number] : llvm::enumerate(table)) {
    int64_t expected = linear.base;
    bool isInside = true;
    SmallVector<int64_t> coordinates = getCoordinates(rank, mesh);
    for (unsigned axis = 0; axis < axes; ++axis) {
      expected += linear.factors[axis] * coordinates[axis];
      isInside &=
          linear.extents[axis].first <= coordinates[axis] && coordinates[axis] <= linear.extents[axis].second;
    }
    if (isInside != (number >= 0) || (isInside && expected != number))
      return std::nullopt;
  }
  return linear;
}

Value schedule::makeTable(OpBuilder &builder, Location loc, dist::MeshAttr mesh, ArrayRef<int64_t> table) {
  Arithmetic a(builder, loc);
  SmallVector<Value> terms;
  if (std::optional<LinearTable> linear = findLinear(mesh, table)) {
    // More than any rank, and so much less than 2^63 that sums of it are, too.
    constexpr int64_t kOutside = int64_t(1) << 32;
    if (linear->base != 0)
      terms.push_back(a.constant(linear->base));
    for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis) {
      if (linear->factors[axis] != 0)
        terms.push_back(a.scale(a.coordinate(axis), linear->factors[axis]));
      auto [least, greatest] = linear->extents[axis];
      if (least > 0)
        terms.push_back(
            a.scale(a.greater(a.subtract(a.constant(least), a.coordinate(axis)), a.constant(0)), -kOutside));
      if (greatest + 1 < mesh.getAxisSize(axis))
        terms.push_back(a.scale(
            a.greater(a.subtract(a.coordinate(axis), a.constant(greatest)), a.constant(0)), -kOutside));
    }
    return a.sum(terms);
  }
  SmallVector<Value> place;
  int64_t stride = 1;
  for (unsigned axis = mesh.getNumAxes(); axis-- > 0;) {
    if (mesh.getAxisSize(axis) > 1)
      place.push_back(a.scale(a.coordinate(axis), stride));
    stride *= mesh.getAxisSize(axis);
  }
  Value rank = a.sum(place);
  terms.push_back(a.constant(-1));
  for (auto [r, number] : llvm::enumerate(table)) {
    if (number < 0)
      continue;
    // 1 on rank r, else 0.
    Value here = a.constant(static_cast<int64_t>(r));
    Value distance = a.greater(a.subtract(rank, here), a.subtract(here, rank));
    Value isHere = a.greater(a.subtract(a.constant(1), distance), a.constant(0));
    terms.push_back(a.scale(isHere, number + 1));
  }
  return a.sum(terms);
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

static int64_t countElements(const dist::Message &message) {
  int64_t elements = 0;
  for (const dist::Piece &piece : message.pieces)
    elements += piece.getNumElements();
  return elements;
}

/// Copies the pieces between a shard that lies dense in `shard` and `packed`, one behind the other.
static LogicalResult copyPieces(LoweringContext &context, const dist::Message &message, const View &shard,
                                unsigned packed, bool packs, Type element, Location loc) {
  int64_t offset = 0;
  for (const dist::Piece &piece : message.pieces) {
    View inside{shard.storage, shard.offset + piece.offset,
                SmallVector<int64_t>(piece.strides.begin(), piece.strides.end()), shard.turn};
    View behind{packed, offset, denseStrides(piece.sizes)};
    auto type = RankedTensorType::get(piece.sizes, element);
    if (failed(context.copy(packs ? inside : behind, type, packs ? behind : inside, loc)))
      return failure();
    offset += piece.getNumElements();
  }
  return success();
}

static void append(LoweringContext &context, const dist::Message &message, Access access, bool sends,
                   dist::MeshAttr mesh, Location loc) {
  auto tag = message.tag;
  SmallVector<int64_t> peers = message.peers;
  Instruction instruction{{access},
                          true,
                          loc,
                          [=](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &) -> Operation * {
                            Value peer = makeTable(b, loc, mesh, peers);
                            if (sends)
                              return plan::SendOp::create(b, loc, buffers[0], peer, tag);
                            return plan::RecvOp::create(b, loc, buffers[0], peer, tag);
                          },
                          {}};
  instruction.queue = kMessageQueue;
  instruction.passes = message.passes;
  instruction.order = message.order;
  context.append(std::move(instruction));
}

/// Where it is one run of the shard: nothing is packed.
static bool isRun(const dist::Message &message) {
  return message.pieces.size() == 1 && message.pieces.front().isRun();
}

static Access accessOfRun(const dist::Message &message, const View &shard, int64_t elementBytes,
                          bool writes) {
  return {shard.storage, (shard.offset + message.pieces.front().offset) * elementBytes,
          countElements(message) * elementBytes, writes, shard.turn * elementBytes};
}

LogicalResult schedule::lowerSends(LoweringContext &context, Value value, ArrayAttr messages,
                                   dist::MeshAttr mesh) {
  auto shard = context.denseViewOf(value);
  if (failed(shard))
    return failure();
  RankedTensorType type = tensorOf(value);
  const int64_t elementBytes = kernel::elementBytes(type.getElementType());
  SmallVector<std::pair<ArrayRef<dist::Piece>, unsigned>> packed; // what was, and where it lies
  SmallVector<dist::Message> all = dist::toMessages(messages);
  // An order may have it sent in the round after: what turns have of an input lies elsewhere then.
  const bool isLeftForLater =
      llvm::any_of(all, [](const dist::Message &message) { return message.order >= 0; });
  if (isLeftForLater && shard->turn != 0) {
    View own{context.newStorage(byteSize(type)), 0, denseStrides(type.getShape())};
    if (failed(context.copy(*shard, type, own, value.getLoc())))
      return failure();
    shard = own;
  }
  for (const dist::Message &message : all) {
    if (isRun(message)) {
      append(context, message, accessOfRun(message, *shard, elementBytes, false), true, mesh, value.getLoc());
      continue;
    }
    const int64_t bytes = countElements(message) * elementBytes;
    auto *known =
        llvm::find_if(packed, [&](const auto &one) { return one.first == ArrayRef(message.pieces); });
    if (known == packed.end()) {
      packed.push_back({message.pieces, context.newStorage(bytes)});
      known = &packed.back();
      if (failed(copyPieces(context, message, *shard, known->second, true, type.getElementType(),
                            value.getLoc())))
        return failure();
    }
    append(context, message, {known->second, 0, bytes, false}, true, mesh, value.getLoc());
  }
  return success();
}

LogicalResult schedule::lowerReceives(LoweringContext &context, Value argument, ArrayAttr messages,
                                      dist::MeshAttr mesh) {
  RankedTensorType type = tensorOf(argument);
  const int64_t elementBytes = kernel::elementBytes(type.getElementType());
  Location loc = argument.getLoc();
  View shard{context.newStorage(byteSize(type)), 0, denseStrides(type.getShape())};
  context.setView(argument, shard);
  SmallVector<dist::Message> all = dist::toMessages(messages);
  for (ArrayRef<dist::Message> rest = all; !rest.empty();) {
    const dist::Message &first = rest.front();
    if (isRun(first)) {
      append(context, first, accessOfRun(first, shard, elementBytes, true), false, mesh, loc);
      rest = rest.drop_front();
      continue;
    }
    // Messages for the same places, of which no rank has two, are unpacked together.
    SmallVector<bool> receives(first.peers.size(), false);
    size_t count = 0;
    while (count < rest.size() && rest[count].pieces == first.pieces &&
           llvm::none_of(
               llvm::zip_equal(receives, rest[count].peers),
               [](const auto &rank) { return std::get<0>(rank) && std::get<1>(rank) >= 0; })) {
      for (auto [has, peer] : llvm::zip_equal(receives, rest[count].peers))
        has |= peer >= 0;
      ++count;
    }
    const int64_t bytes = countElements(first) * elementBytes;
    const unsigned packed = context.newStorage(bytes);
    auto copy = [&](bool packs) {
      return copyPieces(context, first, shard, packed, packs, type.getElementType(), loc);
    };
    // A rank that receives nothing unpacks too: what lay there.
    if (llvm::is_contained(receives, false) && failed(copy(true)))
      return failure();
    for (const dist::Message &message : rest.take_front(count))
      append(context, message, {packed, 0, bytes, true}, false, mesh, loc);
    if (failed(copy(false)))
      return failure();
    rest = rest.drop_front(count);
  }
  return success();
}
