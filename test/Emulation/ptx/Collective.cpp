// What lanes of a warp, or warps of a block, do together: shuffles, votes, matches, reductions, barriers and
// fences.
#include "Block.h"
#include "Decode.h"

#include <algorithm>

namespace colossal::ptx {
namespace {

enum class Shuffle : std::uint8_t { Up, Down, Butterfly, Index };
enum class Vote : std::uint8_t { All, Any, Uniform, Ballot };
enum class Reduce : std::uint8_t { Add, Minimum, Maximum, And, Or, Xor };

unsigned first(std::uint32_t mask) {
  return static_cast<unsigned>(__builtin_ctz(mask));
}

/// Brings all lanes that those of `mask` name as members by operand `slot` together in `mask`. False: nothing
/// can be done yet.
bool gatherMembers(Warp &warp, const Instruction &i, std::uint32_t &mask, Slot slot) {
  const std::uint32_t *named = warp.read<std::uint32_t>(slot);
  std::uint32_t all = 0;
  for (unsigned l = 0; l < kLanes; ++l)
    if (mask >> l & 1) {
      all |= named[l];
      if (named[l] >> l & 1)
        continue;
      warp.block.fault(FaultKind::InvalidOperand, warp, l, 0, "",
                       "the lane is none of those that it names as members", i.line);
      warp.block.stop();
      return false;
    }
  return warp.gather(mask, all);
}

/// Calls `visit(lanes)` once for each set of lanes that name the same members.
template <class F>
void forSets(Warp &warp, std::uint32_t mask, Slot slot, F visit) {
  const std::uint32_t *named = warp.read<std::uint32_t>(slot);
  while (mask) {
    std::uint32_t members = named[first(mask)], set = 0;
    for (unsigned l = 0; l < kLanes; ++l)
      if (mask >> l & 1 && named[l] == members)
        set |= 1u << l;
    visit(set);
    mask &= ~set;
  }
}

/// Slots: d, predicate e (or none), a, b the lane or distance, c the clamp and segments; list[0] the members'
/// mask. Detail: the mode.
void shuffle(Warp &warp, const Instruction &i, std::uint32_t mask) {
  Slot memberSlot = warp.program.lists[i.list];
  if (!gatherMembers(warp, i, mask, memberSlot))
    return;
  const std::uint32_t *a = warp.read<std::uint32_t>(i.a), *b = warp.read<std::uint32_t>(i.b),
                      *c = warp.read<std::uint32_t>(i.c);
  const std::uint32_t *named = warp.read<std::uint32_t>(memberSlot);
  Shuffle mode = static_cast<Shuffle>(i.detail);
  std::uint32_t result[kLanes] = {}, inside = 0;
  for (unsigned l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1))
      continue;
    int by = static_cast<int>(b[l] & 31), clamp = static_cast<int>(c[l] & 31);
    int segments = static_cast<int>(c[l] >> 8 & 31), lane = static_cast<int>(l);
    int highest = (lane & segments) | (clamp & ~segments), lowest = lane & segments, from = 0;
    bool in = false;
    switch (mode) {
    case Shuffle::Up:
      from = lane - by;
      in = from >= highest;
      break;
    case Shuffle::Down:
      from = lane + by;
      in = from <= highest;
      break;
    case Shuffle::Butterfly:
      from = lane ^ by;
      in = from <= highest;
      break;
    case Shuffle::Index:
      from = lowest | (by & ~segments);
      in = from <= highest;
      break;
    }
    if (!in)
      from = lane;
    if (!(mask & named[l] & 1u << from))
      warp.block.fault(FaultKind::DivergentShuffle, warp, l, 0, "",
                       "reads the value of lane " + std::to_string(from) + ", which does not take part",
                       i.line);
    result[l] = a[from];
    inside |= std::uint32_t(in) << l;
  }
  if (i.d != kNoSlot)
    warp.write<std::uint32_t>(i.d, mask, [&](unsigned l) { return result[l]; });
  if (i.e != kNoSlot)
    warp.writePredicate(i.e, mask, inside);
}

/// A predicate, negated with bit 8 of detail; c the members' mask.
void vote(Warp &warp, const Instruction &i, std::uint32_t mask) {
  if (!gatherMembers(warp, i, mask, i.c))
    return;
  std::uint32_t holds = warp.readPredicate(i.a);
  holds = i.detail >> 8 & 1 ? ~holds : holds;
  std::uint32_t ballots[kLanes] = {}, truth = 0;
  Vote mode = static_cast<Vote>(i.detail & 255);
  forSets(warp, mask, i.c, [&](std::uint32_t set) {
    std::uint32_t ballot = holds & set;
    bool result = mode == Vote::All   ? ballot == set
                  : mode == Vote::Any ? ballot != 0
                                      : ballot == set || !ballot;
    truth |= result ? set : 0;
    for (unsigned l = 0; l < kLanes; ++l)
      if (set >> l & 1)
        ballots[l] = ballot;
  });
  if (mode == Vote::Ballot)
    warp.write<std::uint32_t>(i.d, mask, [&](unsigned l) { return ballots[l]; });
  else
    warp.writePredicate(i.d, mask, truth);
}

/// match.any, or match.all with a predicate e; c the members' mask; detail: all.
template <class T>
void match(Warp &warp, const Instruction &i, std::uint32_t mask) {
  if (!gatherMembers(warp, i, mask, i.c))
    return;
  const T *a = warp.read<T>(i.a);
  std::uint32_t result[kLanes] = {}, truth = 0;
  forSets(warp, mask, i.c, [&](std::uint32_t set) {
    for (unsigned l = 0; l < kLanes; ++l)
      if (set >> l & 1)
        for (unsigned other = 0; other < kLanes; ++other)
          if (set >> other & 1 && a[other] == a[l])
            result[l] |= 1u << other;
    if (i.detail) {
      bool all = result[first(set)] == set;
      truth |= all ? set : 0;
      for (unsigned l = 0; l < kLanes; ++l)
        if (set >> l & 1)
          result[l] = all ? set : 0;
    }
  });
  warp.write<std::uint32_t>(i.d, mask, [&](unsigned l) { return result[l]; });
  if (i.e != kNoSlot)
    warp.writePredicate(i.e, mask, truth);
}

template <class T>
void reduce(Warp &warp, const Instruction &i, std::uint32_t mask) {
  if (!gatherMembers(warp, i, mask, i.c))
    return;
  const T *a = warp.read<T>(i.a);
  T result[kLanes] = {};
  forSets(warp, mask, i.c, [&](std::uint32_t set) {
    T value = a[first(set)];
    for (unsigned l = first(set) + 1; l < kLanes; ++l)
      if (set >> l & 1)
        switch (static_cast<Reduce>(i.detail)) {
        case Reduce::Add:
          value = static_cast<T>(static_cast<std::uint32_t>(value) + static_cast<std::uint32_t>(a[l]));
          break;
        case Reduce::Minimum: value = std::min(value, a[l]); break;
        case Reduce::Maximum: value = std::max(value, a[l]); break;
        case Reduce::And: value &= a[l]; break;
        case Reduce::Or: value |= a[l]; break;
        case Reduce::Xor: value ^= a[l]; break;
        }
    for (unsigned l = 0; l < kLanes; ++l)
      if (set >> l & 1)
        result[l] = value;
  });
  warp.write<T>(i.d, mask, [&](unsigned l) { return result[l]; });
}

/// elect.sync: the first of the members.
void elect(Warp &warp, const Instruction &i, std::uint32_t mask) {
  if (!gatherMembers(warp, i, mask, i.c))
    return;
  std::uint32_t leaders = 0, leader[kLanes] = {};
  forSets(warp, mask, i.c, [&](std::uint32_t set) {
    leaders |= set & (0 - set);
    for (unsigned l = 0; l < kLanes; ++l)
      leader[l] = set >> l & 1 ? first(set) : leader[l];
  });
  warp.write<std::uint32_t>(i.d, mask, [&](unsigned l) { return leader[l]; });
  if (i.e != kNoSlot)
    warp.writePredicate(i.e, mask, leaders);
}

void activeMask(Warp &warp, const Instruction &i, std::uint32_t mask) {
  warp.write<std::uint32_t>(i.d, mask, [=](unsigned) { return mask; });
}

void synchronizeWarp(Warp &warp, const Instruction &i, std::uint32_t mask) {
  if (gatherMembers(warp, i, mask, i.c))
    warp.synchronizeLanes();
}

// Instruction::detail of barriers, besides kBarrierInstruction.
enum BarrierMode : std::uint32_t { Synchronize, Arrive, CountHolding, AllHold, AnyHold };
constexpr std::uint32_t kModeBits = 7, kAligned = 8, kNegated = 16;

/// a is the barrier's number, b the number of threads or none, c the predicate of bar.red.
void barrier(Warp &warp, const Instruction &i, std::uint32_t mask) {
  std::uint32_t mode = i.detail & kModeBits;
  unsigned number = warp.read<std::uint32_t>(i.a)[first(mask)];
  if (warp.takeRelease()) {
    if (mode < CountHolding)
      return;
    Block::Count count = warp.block.lastCount(number & 15);
    if (mode == CountHolding)
      warp.write<std::uint32_t>(i.d, mask, [=](unsigned) { return count.holding; });
    else
      warp.writePredicate(
          i.d, mask, (mode == AllHold ? count.holding == count.threads : count.holding != 0) ? kAllLanes : 0);
    return;
  }
  if (i.detail & kAligned && !warp.gather(mask, kAllLanes))
    return;
  std::uint32_t expected = i.b == kNoSlot ? 0 : warp.read<std::uint32_t>(i.b)[first(mask)];
  if (number > 15 || expected % kLanes || (mode == Arrive && !expected)) {
    warp.block.fault(FaultKind::InvalidOperand, warp, first(mask), 0, "",
                     "barrier " + std::to_string(number) + " of " + std::to_string(expected) +
                         " threads: barriers are 0 to 15, and threads a multiple of 32",
                     i.line);
    return warp.block.stop();
  }
  std::uint32_t holds = i.c == kNoSlot ? 0 : warp.readPredicate(i.c);
  holds = i.detail & kNegated ? ~holds : holds;
  // Who is to go on has to wait before the last arrival lets all go.
  if (mode != Arrive) {
    warp.block.await(warp, number);
    warp.wait(mask, Wait::Barrier, number);
  }
  // A barrier with a count counts whole warps.
  warp.block.arrive(warp, expected && i.detail & kAligned ? kAllLanes : mask, number, expected, holds & mask);
}

void fence(Warp &warp, const Instruction &, std::uint32_t) {
  warp.block.fence();
}

void nothing(Warp &, const Instruction &, std::uint32_t) {}

void members(Selection &s, std::size_t index) {
  s.result.c = s.source(index, Type::B32);
}

bool selectShuffle(Selection &s) {
  int mode = s.takeOne({"up", "down", "bfly", "idx"});
  if (!s.take("sync") || mode < 0 || s.takeType() != Type::B32)
    s.refuse("only shfl.sync is executed");
  s.expect(5);
  s.result.d = s.destination(0, Type::B32);
  if (!s.operand(0).second.empty())
    s.result.e = s.predicateDestination(s.operand(0).second);
  s.result.a = s.source(1, Type::B32);
  s.result.b = s.source(2, Type::B32);
  s.result.c = s.source(3, Type::B32);
  s.append(s.source(4, Type::B32));
  s.result.detail = static_cast<std::uint32_t>(mode);
  s.result.run = shuffle;
  return true;
}

bool selectVote(Selection &s) {
  int mode = s.takeOne({"all", "any", "uni", "ballot"});
  if (!s.take("sync") || mode < 0)
    s.refuse("only vote.sync is executed");
  Type type = s.takeType();
  s.expect(3);
  bool ballot = static_cast<Vote>(mode) == Vote::Ballot, negated = false;
  s.result.d = ballot ? s.destination(0, type) : s.predicateDestination(s.operand(0).name);
  s.result.a = s.predicate(s.operand(1), negated);
  members(s, 2);
  s.result.detail = static_cast<std::uint32_t>(mode) | std::uint32_t(negated) << 8;
  s.result.run = vote;
  return true;
}

bool selectMatch(Selection &s) {
  bool all = s.takeOne({"any", "all"}) == 1;
  s.take("sync");
  Type type = s.takeType();
  s.expect(3);
  s.result.d = s.destination(0, Type::B32);
  if (!s.operand(0).second.empty())
    s.result.e = s.predicateDestination(s.operand(0).second);
  s.result.a = s.source(1, type);
  members(s, 2);
  s.result.detail = all;
  s.result.run = bytesOf(type) == 8 ? match<std::uint64_t> : match<std::uint32_t>;
  return true;
}

bool selectReduce(Selection &s) {
  int op = s.takeOne({"add", "min", "max", "and", "or", "xor"});
  Type type = s.takeType();
  if (!s.take("sync") || op < 0 || bytesOf(type) != 4 || isFloat(type))
    s.refuse("'" + std::string(s.statement.name) + "' is not executed");
  s.expect(3);
  s.result.d = s.destination(0, type);
  s.result.a = s.source(1, type);
  members(s, 2);
  s.result.detail = static_cast<std::uint32_t>(op);
  s.result.run = isSigned(type) ? reduce<std::int32_t> : reduce<std::uint32_t>;
  return true;
}

bool selectBarrier(Selection &s) {
  bool bar = s.base() == "bar", aligned = s.take("aligned") || bar;
  s.take("cta");
  if (s.take("warp")) {
    s.take("sync");
    s.expect(1);
    members(s, 0);
    s.result.run = synchronizeWarp;
    return true;
  }
  int mode = s.takeOne({"sync", "arrive", "red"});
  std::size_t at = 0;
  std::uint32_t detail = Synchronize;
  if (mode == 1)
    detail = Arrive;
  if (mode == 2) {
    int op = s.takeOne({"popc", "and", "or"});
    Type type = s.takeType();
    if (op < 0)
      s.refuse("bar.red is .popc, .and or .or");
    detail = CountHolding + static_cast<std::uint32_t>(op);
    s.result.d = op == 0 ? s.destination(at, type) : s.predicateDestination(s.operand(at).name);
    ++at;
  }
  if (mode < 0)
    s.refuse("'" + std::string(s.statement.name) + "' is not executed");
  s.result.a = s.source(at++, Type::U32);
  bool reduces = mode == 2;
  if (s.count() > at + reduces)
    s.result.b = s.source(at++, Type::U32);
  if (reduces) {
    bool negated = false;
    s.result.c = s.predicate(s.operand(at++), negated);
    detail |= negated ? kNegated : 0;
  }
  s.expect(at);
  s.result.detail = detail | (aligned ? kAligned : 0) | kBarrierInstruction;
  s.result.run = barrier;
  return true;
}

bool selectFence(Selection &s) {
  bool block = s.take("cta");
  bool membar = s.base() == "membar";
  bool wide = s.take("gl") || s.take("gpu") || s.take("sys");
  for (std::string_view order : {"acq_rel", "sc", "acquire", "release", "cluster"})
    s.take(order);
  if (membar && !block && !wide)
    s.refuse("a fence without its scope");
  s.expect(0);
  s.result.run = block ? nothing : fence;
  if (!block)
    s.noteFence();
  return true;
}

} // namespace

bool selectCollective(Selection &s) {
  std::string_view base = s.base();
  if (base == "shfl")
    return selectShuffle(s);
  if (base == "vote")
    return selectVote(s);
  if (base == "match")
    return selectMatch(s);
  if (base == "redux")
    return selectReduce(s);
  if (base == "bar" || base == "barrier")
    return selectBarrier(s);
  if (base == "membar" || base == "fence")
    return selectFence(s);
  if (base == "activemask") {
    s.takeType();
    s.expect(1);
    s.result.d = s.destination(0, Type::B32);
    s.result.run = activeMask;
    return true;
  }
  if (base == "elect") {
    s.take("sync");
    s.expect(2);
    s.result.d = s.operand(0).kind == Operand::Sink ? 0 : s.destination(0, Type::B32);
    if (!s.operand(0).second.empty())
      s.result.e = s.predicateDestination(s.operand(0).second);
    members(s, 1);
    s.result.run = elect;
    return true;
  }
  return false;
}

} // namespace colossal::ptx
