// Every kind, type, odd size, sub-mesh, empty shard and in-place form, against definitions.
#include "Conformance.h"

#include "colossal/Plan/Expr.h"
#include "colossal/Plan/Traffic.h"
#include "runtime/comm/Reduce.h"
#include "runtime/device/HostAccess.h"

#include <cmath>
#include <cstring>
#include <functional>

namespace colossal::runtime {

namespace {

using Kind = CollectiveKind;
using Type = ElementType;
constexpr std::byte untouched{0xAB};

/// The element that member `member` holds at place `place`, small and exact in every type.
double valueAt(uint64_t member, uint64_t place, Type type, uint64_t salt) {
  uint64_t hash = (member * 1315423911u) ^ (place * 2654435761u) ^ (salt * 97u);
  hash ^= hash >> 15;
  if (type == Type::Bool)
    return static_cast<double>(hash % 3 == 0);
  const bool hasSign = type == Type::F32 || type == Type::F64 || type == Type::F16 || type == Type::BF16 ||
                       (type >= Type::I8 && type <= Type::I64);
  return static_cast<double>(hash % 4) - (hasSign ? 1 : 0);
}

void put(Type type, double value, std::byte *out) {
  fillElements(type, value, out, 1);
}

std::vector<std::byte> content(uint64_t member, uint64_t places, Type type, uint64_t salt) {
  std::vector<std::byte> bytes(places * elementSize(type));
  for (uint64_t place = 0; place < places; ++place)
    put(type, valueAt(member, place, type, salt), bytes.data() + place * elementSize(type));
  return bytes;
}

double combine(Reduction op, double a, double b) {
  switch (op) {
  case Reduction::Max: return std::max(a, b);
  case Reduction::Min: return std::min(a, b);
  case Reduction::Prod: return a * b;
  case Reduction::And: return a != 0 && b != 0;
  case Reduction::Or: return a != 0 || b != 0;
  default: return a + b;
  }
}

/// A block's shape in source and destination, in elements.
struct Layout {
  const char *name;
  std::vector<uint64_t> sizes, srcStrides, dstStrides;
  uint64_t srcPeer, dstPeer;
  uint64_t places; // of either buffer, enough for 8 peers
};

const Layout layouts[] = {
    {"one element", {1}, {1}, {1}, 1, 1, 8},
    {"empty", {3, 0}, {5, 1}, {5, 1}, 5, 5, 64},
    {"odd", {37}, {1}, {1}, 37, 41, 400},
    {"rows of columns", {5, 3}, {24, 1}, {40, 1}, 3, 5, 300},
    {"transposed", {3, 7}, {1, 3}, {7, 1}, 21, 21, 200},
    {"three dimensions", {2, 3, 5}, {160, 7, 1}, {300, 50, 10}, 21, 1, 800},
    {"long", {3001}, {1}, {1}, 3001, 3001, 8 * 3001},
    // More than a communicator may hold for staging at once.
    {"beyond staging", {7, 42859}, {42900, 1}, {42900, 1}, 300300, 300300, 8 * 300300},
};

class Suite {
public:
  Suite(Communicator &communicator, Device &device, Queue &queue, const std::vector<uint32_t> &axes,
        uint64_t &checks)
      : control(*communicator.control), transfers(*communicator.transfers), device(device), queue(queue),
        access(device), event(device.createEvent()), checks(checks), reach(transfers.reach()) {
    for (uint32_t size : axes)
      mesh.add_axes()->set_size(size);
  }

  std::string run() {
    // All sets of axes, in both orders where there are two.
    const auto count = static_cast<uint32_t>(mesh.axes_size());
    std::vector<std::vector<uint32_t>> sets = {{}};
    for (uint32_t mask = 1; mask < 1u << count; ++mask) {
      std::vector<uint32_t> set;
      for (uint32_t axis = 0; axis < count; ++axis)
        if (mask >> axis & 1)
          set.push_back(axis);
      sets.push_back(set);
      if (set.size() == 2)
        sets.push_back({set[1], set[0]});
    }
    for (const std::vector<uint32_t> &set : sets) {
      std::vector<uint32_t> members = plan::groupMembers(mesh, set, control.rank());
      if (Status status = transfers.createGroup(members, 0, group); !status.ok())
        return status.describe();
      if (group->members != members || group->members[group->self] != control.rank())
        return "the group has other members than asked for";
      size = static_cast<uint32_t>(members.size());
      blocks();
      permutes();
      windows();
      if (transfers.reductionOrder() == ReductionOrder::GroupMembers)
        orderOfMembers();
      sameOnAllMembers();
      if (!problem.empty())
        return problem;
    }
    messages();
    return problem;
  }

private:
  static std::vector<Type> types() {
    return {Type::F32, Type::F64, Type::F16, Type::BF16, Type::I8,  Type::I16, Type::I32,
            Type::I64, Type::U8,  Type::U16, Type::U32,  Type::U64, Type::Bool};
  }
  static std::vector<Reduction> reductions(Type type) {
    if (type == Type::Bool)
      return {Reduction::And, Reduction::Or, Reduction::Max, Reduction::Min};
    return {Reduction::Sum, Reduction::Max, Reduction::Min, Reduction::Prod};
  }

  void fail(const std::string &what) {
    if (problem.empty())
      problem = what + ", " + std::to_string(size) + " members, rank " + std::to_string(control.rank());
  }

  /// A piece of the device's memory that holds `bytes`; `memory` is made anew where it is too small.
  Status store(const std::vector<std::byte> &bytes, std::unique_ptr<Allocation> &memory) {
    if (!memory || memory->bytes() < bytes.size())
      COLOSSAL_RETURN_IF_ERROR(device.allocate(bytes.size(), 64, memory));
    COLOSSAL_RETURN_IF_ERROR(access.write(queue, memory->address(), bytes.size(), bytes.data()));
    return queue.synchronize();
  }

  Status load(const Allocation &memory, std::vector<std::byte> &bytes) {
    return access.read(queue, memory.address(), bytes.size(),
                       [&](const std::byte *host, uint64_t begin, uint64_t end) {
                         std::copy(host, host + (end - begin), bytes.begin() + static_cast<ptrdiff_t>(begin));
                         return Status();
                       });
  }

  /// Runs the call on copies of `src` and `dst` in the device's memory; in place where they are the same
  /// object.
  Status run(const std::shared_ptr<CollectiveCall> &call, const std::vector<std::byte> &src,
             std::vector<std::byte> &dst) {
    COLOSSAL_RETURN_IF_ERROR(store(dst, dstMemory));
    call->src = call->dst = dstMemory->address();
    if (&src != &dst) {
      COLOSSAL_RETURN_IF_ERROR(store(src, srcMemory));
      call->src = srcMemory->address();
    }
    COLOSSAL_RETURN_IF_ERROR(transfers.reserve(call, queue));
    COLOSSAL_RETURN_IF_ERROR(transfers.collective(call, queue));
    COLOSSAL_RETURN_IF_ERROR(queue.record(*event));
    COLOSSAL_RETURN_IF_ERROR(event->synchronize());
    return load(*dstMemory, dst);
  }

  /// Runs the call and compares all of `dst` with `want`.
  void expect(const std::shared_ptr<CollectiveCall> &call, const std::vector<std::byte> &src,
              std::vector<std::byte> &dst, const std::vector<std::byte> &want, const std::string &what) {
    ++checks;
    const uint64_t before = group->sentBytes(call->kind);
    if (Status status = run(call, src, dst); !status.ok())
      return fail(what + ": " + status.describe());
    if (dst != want)
      fail(what + ": wrong values");
    if (std::string problem = checkSent(*call, group->sentBytes(call->kind) - before); !problem.empty())
      fail(what + ": " + problem);
  }

  /// What the communicator counted against the closed formula.
  std::string checkSent(const CollectiveCall &call, uint64_t counted) const {
    plan::Transfer transfer;
    transfer.kind = static_cast<plan::Collective::Kind>(call.kind);
    transfer.members = group->members.size(), transfer.self = group->self, transfer.root = call.root;
    transfer.elementBytes = elementSize(call.type);
    transfer.elements = 1;
    for (uint64_t extent : call.sizes)
      transfer.elements *= extent;
    transfer.sources = call.sources;
    transfer.start = call.window.srcStart, transfer.valid = call.window.srcValid;
    transfer.wanted = call.window.dstStart;
    transfer.extent = static_cast<int64_t>(call.window.dstExtent);
    transfer.rows = call.window.outer * call.window.inner;
    transfer.shortAllReduce = transfers.shortAllReduce();
    const uint64_t formula = plan::sentBytes(transfer);
    if (counted != formula)
      return "counted " + std::to_string(counted) + " bytes sent, and the formula says " +
             std::to_string(formula);
    return {};
  }

  /// Calls visit(source place, destination place) for each element of the block.
  static void forElements(const Layout &layout, const std::function<void(uint64_t, uint64_t)> &visit) {
    uint64_t total = 1;
    for (uint64_t extent : layout.sizes)
      total *= extent;
    for (uint64_t e = 0; e < total; ++e) {
      uint64_t rest = e, src = 0, dst = 0;
      for (size_t d = layout.sizes.size(); d-- > 0;) {
        src += rest % layout.sizes[d] * layout.srcStrides[d];
        dst += rest % layout.sizes[d] * layout.dstStrides[d];
        rest /= layout.sizes[d];
      }
      visit(src, dst);
    }
  }

  std::shared_ptr<CollectiveCall> newCall(Kind kind, Type type, const Layout &layout) {
    auto call = std::make_shared<CollectiveCall>();
    call->kind = kind;
    call->type = type;
    call->group = group.get();
    call->sizes = layout.sizes;
    call->srcStrides = layout.srcStrides;
    call->dstStrides = layout.dstStrides;
    return call;
  }

  void blocks() {
    for (Kind kind : {Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::AllToAll, Kind::Broadcast})
      for (const Layout &layout : layouts)
        for (Type type : types()) {
          const bool reduces = kind == Kind::AllReduce || kind == Kind::ReduceScatter;
          for (Reduction op : reduces ? reductions(type) : std::vector<Reduction>{Reduction::None}) {
            if (layout.places > plan::stagingLimit &&
                (type != Type::F32 || op > Reduction::Sum || size != control.size()))
              continue;
            // The long one is about slices, not about types.
            if (layout.places > 10000 && type != Type::F32 && type != Type::BF16 && type != Type::I8)
              continue;
            block(kind, layout, type, op, false);
            if ((kind == Kind::AllReduce || kind == Kind::Broadcast) &&
                layout.srcStrides == layout.dstStrides)
              block(kind, layout, type, op, true);
            if (!problem.empty())
              return;
          }
        }
  }

  void block(Kind kind, const Layout &layout, Type type, Reduction op, bool inPlace) {
    const uint64_t bytes = elementSize(type),
                   salt = static_cast<uint64_t>(kind) * 16 + static_cast<uint64_t>(type);
    const uint32_t self = group->self, root = size - 1;
    auto call = newCall(kind, type, layout);
    call->reduction = op;
    call->root = root;
    const bool srcBlocks = kind == Kind::ReduceScatter || kind == Kind::AllToAll;
    const bool dstBlocks = kind == Kind::AllGather || kind == Kind::AllToAll;
    call->srcPeerStride = srcBlocks ? layout.srcPeer : 0;
    call->dstPeerStride = dstBlocks ? layout.dstPeer : 0;
    std::vector<std::byte> src = content(self, layout.places, type, salt), dst(src.size(), untouched), want;
    if (inPlace)
      dst = src;
    want = dst;
    auto set = [&](uint64_t place, double value) { put(type, value, want.data() + place * bytes); };
    forElements(layout, [&](uint64_t from, uint64_t to) {
      switch (kind) {
      case Kind::AllReduce:
      case Kind::ReduceScatter: {
        uint64_t place = from + self * call->srcPeerStride;
        double total = valueAt(0, place, type, salt);
        for (uint32_t member = 1; member < size; ++member)
          total = combine(op, total, valueAt(member, place, type, salt));
        return set(to, total);
      }
      case Kind::Broadcast: return set(to, valueAt(root, from, type, salt));
      default:
        for (uint32_t peer = 0; peer < size; ++peer)
          set(to + peer * call->dstPeerStride, valueAt(peer, from + self * call->srcPeerStride, type, salt));
      }
    });
    expect(call, inPlace ? dst : src, dst, want,
           "kind " + std::to_string(static_cast<int>(kind)) + ", type " +
               std::to_string(static_cast<int>(type)) + ", reduction " +
               std::to_string(static_cast<int>(op)) + ", " + layout.name + (inPlace ? ", in place" : ""));
  }

  void permutes() {
    // A rotation, everyone from the last, zeros for some, and oneself.
    for (int pattern = 0; pattern < 4; ++pattern)
      for (const Layout &layout : layouts) {
        if (layout.places > plan::stagingLimit)
          continue;
        auto call = newCall(Kind::Permute, Type::I16, layout);
        for (uint32_t member = 0; member < size; ++member)
          call->sources.push_back(pattern == 0   ? (member + 1) % size
                                  : pattern == 1 ? size - 1
                                  : pattern == 2 ? (member % 2 ? int64_t(member) - 1 : -1)
                                                 : member);
        std::vector<std::byte> src = content(group->self, layout.places, Type::I16, 7);
        std::vector<std::byte> dst(src.size(), untouched), want = dst;
        const int64_t source = call->sources[group->self];
        forElements(layout, [&](uint64_t from, uint64_t to) {
          put(Type::I16, source < 0 ? 0 : valueAt(static_cast<uint64_t>(source), from, Type::I16, 7),
              want.data() + 2 * to);
        });
        expect(call, src, dst, want, "permute pattern " + std::to_string(pattern) + ", " + layout.name);
      }
  }

  void windows() {
    // Shards of `extent` of a dimension of `total`, with a halo on each side; the last shards are short or
    // empty.
    struct Shape {
      int64_t extent, total, before, after;
    };
    for (Shape shape : {Shape{4, 4 * int64_t(size), 1, 1}, Shape{5, 5 * int64_t(size) - 3, 2, 1},
                        Shape{3, 4, 0, 0}, Shape{2, 2 * int64_t(size), 5, 5}, Shape{4, 3, 1, 2}})
      for (Type type : {Type::F32, Type::BF16, Type::U8})
        for (double fill : {0.0, 3.0}) {
          auto call = newCall(Kind::Exchange, type, layouts[0]);
          auto &w = call->window;
          w.outer = 3;
          w.inner = 2;
          w.srcExtent = static_cast<uint64_t>(shape.extent);
          w.dstExtent = static_cast<uint64_t>(shape.extent + shape.before + shape.after);
          w.fill = fill;
          for (int64_t member = 0; member < size; ++member) {
            w.srcStart.push_back(member * shape.extent);
            w.srcValid.push_back(
                std::max<int64_t>(0, std::min(shape.extent, shape.total - member * shape.extent)));
            w.dstStart.push_back(member * shape.extent - shape.before);
          }
          const uint64_t bytes = elementSize(type);
          std::vector<std::byte> src = content(group->self, 6 * w.srcExtent, type, 5);
          std::vector<std::byte> dst(6 * w.dstExtent * bytes, untouched), want = dst;
          for (uint64_t outer = 0; outer < 3; ++outer)
            for (uint64_t place = 0; place < w.dstExtent; ++place)
              for (uint64_t inner = 0; inner < 2; ++inner) {
                const int64_t global = w.dstStart[group->self] + static_cast<int64_t>(place);
                double value = fill;
                if (global >= 0 && global < std::min(shape.total, shape.extent * int64_t(size))) {
                  const auto member = static_cast<uint64_t>(global / shape.extent);
                  const auto within = static_cast<uint64_t>(global % shape.extent);
                  value = valueAt(member, (outer * w.srcExtent + within) * 2 + inner, type, 5);
                }
                put(type, value, want.data() + ((outer * w.dstExtent + place) * 2 + inner) * bytes);
              }
          expect(call, src, dst, want,
                 "exchange of " + std::to_string(shape.extent) + " of " + std::to_string(shape.total));
        }
  }

  /// A value whose sum over members depends on the order of the additions.
  static float rounded(uint64_t member, uint64_t place) {
    return std::ldexp(1.0f + static_cast<float>((place * 31 + member * 17) % 101) / 103,
                      static_cast<int>((member * 5 + place) % 9));
  }

  std::shared_ptr<CollectiveCall> sumOfRounded(uint64_t count, std::vector<std::byte> &src,
                                               std::vector<std::byte> &dst) {
    auto call = newCall(Kind::AllReduce, Type::F32, {"order", {count}, {1}, {1}, 0, 0, count});
    call->reduction = Reduction::Sum;
    src.resize(count * 4);
    dst.assign(count * 4, untouched);
    for (uint64_t place = 0; place < count; ++place) {
      const float mine = rounded(group->self, place);
      std::memcpy(src.data() + place * 4, &mine, 4);
    }
    return call;
  }

  void orderOfMembers() {
    for (uint64_t count : {7u, 5000u})
      for (int repeat = 0; repeat < 3; ++repeat) {
        std::vector<std::byte> src, dst, want(count * 4);
        auto call = sumOfRounded(count, src, dst);
        for (uint64_t place = 0; place < count; ++place) {
          float total = rounded(0, place);
          for (uint32_t member = 1; member < size; ++member)
            total += rounded(member, place);
          std::memcpy(want.data() + place * 4, &total, 4);
        }
        expect(call, src, dst, want, "order of a sum");
      }
  }

  /// Whatever the order, all members have the same bits, and a sum is close to the exact one.
  void sameOnAllMembers() {
    const uint64_t count = 5000;
    std::vector<std::byte> src, dst;
    auto call = sumOfRounded(count, src, dst);
    ++checks;
    if (Status status = run(call, src, dst); !status.ok())
      return fail("a sum: " + status.describe());
    for (uint64_t place = 0; place < count; ++place) {
      double exact = 0;
      for (uint32_t member = 0; member < size; ++member)
        exact += rounded(member, place);
      float got;
      std::memcpy(&got, dst.data() + place * 4, 4);
      if (!(std::abs(got - exact) <= 1e-6 * exact * size))
        return fail("a sum is far from the exact one");
    }
    auto gathered = newCall(Kind::AllGather, Type::F32, {"order", {count}, {1}, {1}, 0, count, count});
    gathered->dstPeerStride = count;
    std::vector<std::byte> all(dst.size() * size, untouched), want;
    for (uint32_t member = 0; member < size; ++member)
      want.insert(want.end(), dst.begin(), dst.end());
    expect(gathered, dst, all, want, "a sum, compared among members");
  }

  void messages() {
    if (transfers.tellsMessagesApart())
      taggedMessages();
    else if (control.size() > 1)
      messagesInOrder();
    if (!transfers.tellsMessagesApart())
      messagesToItself();
    controls();
  }

  void taggedMessages() {
    const uint32_t ranks = control.size(), self = control.rank();
    uint64_t sent = 0;
    if (Status status = transfers.reserveSlots(2, 100003, queue); !status.ok())
      return fail("slots: " + status.describe());
    const uint64_t held = transfers.stagingBytes();
    for (uint64_t bytes : {0u, 1u, 100003u}) {
      std::vector<std::byte> out(bytes, std::byte(self)), in(bytes, untouched);
      std::vector<std::byte> second(bytes, std::byte(self + 100)), inSecond(bytes, untouched);
      const uint32_t next = (self + 1) % ranks, before = (self + ranks - 1) % ranks;
      ++checks;
      // Tags, not the order of sending, tell messages apart.
      if (Status status = exchangeMessages(out, second, in, inSecond, next, before); !status.ok())
        return fail("send and receive: " + status.describe());
      sent += 2 * bytes;
      if (transfers.messageBytes() != (ranks == 1 || sent == 0 ? std::map<uint32_t, uint64_t>{}
                                                               : std::map<uint32_t, uint64_t>{{next, sent}}))
        fail("send: wrong count of bytes");
      if (in != std::vector<std::byte>(bytes, std::byte(before)) ||
          inSecond != std::vector<std::byte>(bytes, std::byte(before + 100)))
        fail("send and receive: wrong bytes");
    }
    if (transfers.stagingBytes() != held && reach == Reach::Host)
      fail("messages: more memory is held than was set aside");
    unbuffered(sent);
  }

  /// To the next rank and from the one before, two at a time, on one queue. Those of even number send first,
  /// so that nobody waits in a circle.
  void messagesInOrder() {
    const uint32_t ranks = control.size(), self = control.rank();
    const uint32_t next = (self + 1) % ranks, before = (self + ranks - 1) % ranks;
    uint64_t sent = 0;
    for (uint64_t bytes : {0u, 1u, 4096u, 100003u}) {
      std::unique_ptr<Allocation> memory[4];
      std::vector<std::byte> in[2];
      auto go = [&]() -> Status {
        for (int i = 0; i < 2; ++i) {
          COLOSSAL_RETURN_IF_ERROR(store(
              std::vector<std::byte>(bytes, std::byte(self + 100 * static_cast<uint32_t>(i))), memory[i]));
          in[i].assign(bytes, untouched);
          COLOSSAL_RETURN_IF_ERROR(store(in[i], memory[2 + i]));
        }
        COLOSSAL_RETURN_IF_ERROR(transfers.reserveMessage(bytes, queue));
        for (bool sends : {self % 2 == 0, self % 2 != 0})
          for (uint32_t i = 0; i < 2; ++i)
            COLOSSAL_RETURN_IF_ERROR(
                sends ? transfers.send(memory[i]->address(), bytes, next, i, queue)
                      : transfers.receive(memory[2 + i]->address(), bytes, before, i, queue));
        COLOSSAL_RETURN_IF_ERROR(queue.record(*event));
        COLOSSAL_RETURN_IF_ERROR(event->synchronize());
        COLOSSAL_RETURN_IF_ERROR(load(*memory[2], in[0]));
        return load(*memory[3], in[1]);
      };
      ++checks;
      if (Status status = go(); !status.ok())
        return fail("messages in order: " + status.describe());
      sent += 2 * bytes;
      for (uint32_t i = 0; i < 2; ++i)
        if (in[i] != std::vector<std::byte>(bytes, std::byte(before + 100 * i)))
          fail("messages in order: wrong bytes");
      if (sent > 0 && transfers.messageBytes() != std::map<uint32_t, uint64_t>{{next, sent}})
        fail("messages in order: wrong count of bytes");
    }
  }

  /// Where nothing else waits in slots, these do: a rank sends two before it receives them.
  void messagesToItself() {
    const uint32_t self = control.rank();
    std::map<uint32_t, uint64_t> before = transfers.messageBytes();
    if (Status status = transfers.reserveSlots(2, 4099, queue); !status.ok())
      return fail("slots: " + status.describe());
    for (uint64_t bytes : {4099u, 0u, 1u, 4099u}) {
      std::unique_ptr<Allocation> memory[4];
      std::vector<std::byte> in[2];
      auto go = [&]() -> Status {
        for (uint32_t i = 0; i < 2; ++i) {
          COLOSSAL_RETURN_IF_ERROR(
              store(std::vector<std::byte>(bytes, std::byte(self + 100 * i)), memory[i]));
          in[i].assign(bytes, untouched);
          COLOSSAL_RETURN_IF_ERROR(store(in[i], memory[2 + i]));
        }
        for (uint32_t i = 0; i < 2; ++i)
          COLOSSAL_RETURN_IF_ERROR(transfers.send(memory[i]->address(), bytes, self, i, queue));
        for (uint32_t i = 0; i < 2; ++i)
          COLOSSAL_RETURN_IF_ERROR(transfers.receive(memory[2 + i]->address(), bytes, self, i, queue));
        COLOSSAL_RETURN_IF_ERROR(queue.record(*event));
        COLOSSAL_RETURN_IF_ERROR(event->synchronize());
        COLOSSAL_RETURN_IF_ERROR(load(*memory[2], in[0]));
        return load(*memory[3], in[1]);
      };
      ++checks;
      if (Status status = go(); !status.ok())
        return fail("messages to itself: " + status.describe());
      for (uint32_t i = 0; i < 2; ++i)
        if (in[i] != std::vector<std::byte>(bytes, std::byte(self + 100 * i)))
          fail("messages to itself: wrong bytes");
    }
    if (transfers.messageBytes() != before)
      fail("messages to itself: counted as traffic");
  }

  void controls() {
    const uint32_t ranks = control.size(), self = control.rank();
    std::vector<std::string> all;
    Status status = control.gather(std::string(self * 1000, static_cast<char>('a' + self)), all);
    if (!status.ok() || all.size() != (self == 0 ? ranks : 0))
      return fail("gather");
    for (uint32_t rank = 0; rank < all.size(); ++rank)
      if (all[rank] != std::string(rank * 1000, static_cast<char>('a' + rank)))
        fail("gather: wrong strings");
    for (const std::string &text : {std::string(), std::string("from rank 0"), std::string(100003, 'x')}) {
      std::string got = self == 0 ? text : std::string(self, '?');
      if (!control.broadcast(got).ok() || got != text)
        fail("broadcast: " + std::to_string(got.size()) + " bytes instead of " + std::to_string(text.size()));
    }
  }

  /// Without slots a send waits for its receiver: beside it, on another queue, one can receive.
  void unbuffered(uint64_t sent) {
    const uint32_t ranks = control.size(), self = control.rank();
    const uint32_t next = (self + 1) % ranks, before = (self + ranks - 1) % ranks;
    std::unique_ptr<Queue> sending = device.createQueue(true), receiving = device.createQueue(true);
    std::unique_ptr<Event> sentEvent = device.createEvent(), receivedEvent = device.createEvent();
    std::unique_ptr<Allocation> outMemory, inMemory;
    constexpr uint64_t bytes = 4096;
    std::vector<std::byte> in(bytes, untouched);
    auto go = [&]() -> Status {
      COLOSSAL_RETURN_IF_ERROR(store(in, inMemory));
      COLOSSAL_RETURN_IF_ERROR(transfers.reserveMessage(bytes, *sending));
      COLOSSAL_RETURN_IF_ERROR(transfers.reserveMessage(bytes, *receiving));
      for (int round = 0; round < 20; ++round) {
        ++checks;
        COLOSSAL_RETURN_IF_ERROR(store(std::vector<std::byte>(bytes, std::byte(self + round)), outMemory));
        COLOSSAL_RETURN_IF_ERROR(transfers.send(outMemory->address(), bytes, next, 9, *sending));
        COLOSSAL_RETURN_IF_ERROR(sending->record(*sentEvent));
        COLOSSAL_RETURN_IF_ERROR(transfers.receive(inMemory->address(), bytes, before, 9, *receiving));
        COLOSSAL_RETURN_IF_ERROR(receiving->record(*receivedEvent));
        COLOSSAL_RETURN_IF_ERROR(sentEvent->synchronize());
        COLOSSAL_RETURN_IF_ERROR(receivedEvent->synchronize());
        COLOSSAL_RETURN_IF_ERROR(load(*inMemory, in));
        if (in != std::vector<std::byte>(bytes, std::byte(before + static_cast<uint32_t>(round))))
          fail("a message without slots: wrong bytes");
        sent += bytes;
      }
      COLOSSAL_RETURN_IF_ERROR(sending->synchronize());
      return receiving->synchronize();
    };
    if (Status status = go(); !status.ok())
      return fail("a message without slots: " + status.describe());
    if (ranks > 1 && transfers.messageBytes() != std::map<uint32_t, uint64_t>{{next, sent}})
      fail("send without slots: wrong count of bytes");
  }

  Status exchangeMessages(const std::vector<std::byte> &first, const std::vector<std::byte> &second,
                          std::vector<std::byte> &inFirst, std::vector<std::byte> &inSecond, uint32_t next,
                          uint32_t before) {
    std::unique_ptr<Allocation> memory[4];
    const std::vector<std::byte> *contents[] = {&first, &second, &inFirst, &inSecond};
    for (int i = 0; i < 4; ++i)
      COLOSSAL_RETURN_IF_ERROR(store(*contents[i], memory[i]));
    const uint64_t bytes = first.size();
    COLOSSAL_RETURN_IF_ERROR(transfers.reserveMessage(bytes, queue));
    COLOSSAL_RETURN_IF_ERROR(transfers.send(memory[0]->address(), bytes, next, 3, queue));
    COLOSSAL_RETURN_IF_ERROR(transfers.send(memory[1]->address(), bytes, next, 4, queue));
    COLOSSAL_RETURN_IF_ERROR(transfers.receive(memory[3]->address(), bytes, before, 4, queue));
    COLOSSAL_RETURN_IF_ERROR(transfers.receive(memory[2]->address(), bytes, before, 3, queue));
    COLOSSAL_RETURN_IF_ERROR(queue.record(*event));
    COLOSSAL_RETURN_IF_ERROR(event->synchronize());
    COLOSSAL_RETURN_IF_ERROR(load(*memory[2], inFirst));
    return load(*memory[3], inSecond);
  }

  Control &control;
  Transfers &transfers;
  Device &device;
  Queue &queue;
  HostAccess access;
  std::unique_ptr<Allocation> srcMemory, dstMemory;
  std::unique_ptr<Event> event;
  uint64_t &checks;
  const Reach reach;
  plan::Mesh mesh;
  std::shared_ptr<Group> group;
  uint32_t size = 1;
  std::string problem;
};

} // namespace

std::string runConformance(Communicator &communicator, Device &device, Queue &queue,
                           const std::vector<uint32_t> &axes, uint64_t &checks) {
  return Suite(communicator, device, queue, axes, checks).run();
}

} // namespace colossal::runtime
