#include "Warp.h"

#include "Block.h"

#include <algorithm>
#include <cstdlib>

namespace colossal::ptx {
namespace {

/// So often may a group read strongly and jump back before others get their turn: it may be waiting for one
/// of them.
constexpr unsigned kPatience = 16;
/// Local memory of a thread of a program with calls.
constexpr std::size_t kStack = 64 << 10;

} // namespace

Warp::Warp(Block &block, const Program &program, unsigned index, std::uint32_t lanes)
    : block(block), program(program), index(index), lanes(lanes),
      constants(reinterpret_cast<const std::byte *>(program.constants.data())),
      localBytes(nullptr, std::free) {
  localStride = program.calls.empty() ? program.routines[0].localBytes : kStack;
  if (localStride)
    localBytes.reset(static_cast<std::byte *>(std::calloc(kLanes, localStride)));
  group.frame = makeFrame(0, nullptr);
  group.pc = program.routines[0].entry;
  group.mask = lanes;
  registers = group.frame->registers.get();
  findLimit();
}

std::shared_ptr<Frame> Warp::makeFrame(std::uint32_t routine, std::shared_ptr<Frame> caller) {
  const Routine &callee = program.routines[routine];
  auto frame = std::make_shared<Frame>();
  frame->registers.reset(new std::byte[callee.registerBytes]());
  frame->depth = caller ? caller->depth + 1 : 0;
  frame->caller = std::move(caller);
  for (const Routine::SpecialSlot &slot : callee.specials)
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      std::uint32_t value = block.special(slot.special, *this, lane);
      std::byte *to = frame->registers.get() + slot.slot;
      if (slot.wide)
        reinterpret_cast<std::uint64_t *>(to)[lane] = value;
      else
        reinterpret_cast<std::uint32_t *>(to)[lane] = value;
    }
  return frame;
}

void Warp::run(std::uint64_t quantum) {
  if (!group.mask)
    pick();
  yielded = false;
  while (group.mask && quantum-- && !yielded) {
    executing = group.pc++;
    const Instruction &instruction = program.code[executing];
    std::uint32_t mask = group.mask;
    if (instruction.predicate != kNoSlot) {
      std::uint32_t holds = readPredicate(instruction.predicate);
      mask &= instruction.negated ? ~holds : holds;
    }
    if (mask) {
      ++warpInstructions;
      laneInstructions += static_cast<unsigned>(__builtin_popcount(mask));
      instruction.run(*this, instruction, mask);
    }
    if (!group.mask || group.pc >= limit)
      pick();
  }
}

bool Warp::runnable() const {
  return group.mask || std::any_of(others.begin(), others.end(),
                                   [](const Group &other) { return other.wait == Wait::None; });
}

void Warp::pick() {
  bool yield = polls > kPatience && group.mask;
  polls = yield ? 0 : polls;
  std::size_t best = others.size();
  if (yield) {
    // The one that waits does not run again before another had its turn.
    std::size_t start = others.empty() ? 0 : block.random() % others.size();
    for (std::size_t i = 0; i < others.size(); ++i)
      if (others[(start + i) % others.size()].wait == Wait::None)
        best = (start + i) % others.size();
  }
  bool found = best < others.size();
  if (group.mask)
    others.push_back(std::move(group));
  group = Group();
  if (!found) {
    best = others.size();
    for (std::size_t i = 0; i < others.size(); ++i) {
      const Group &other = others[i];
      if (other.wait != Wait::None)
        continue;
      if (best == others.size() || other.frame->depth > others[best].frame->depth ||
          (other.frame->depth == others[best].frame->depth && other.pc < others[best].pc))
        best = i;
    }
    if (best == others.size())
      return;
  }
  group = std::move(others[best]);
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(best));
  for (std::size_t i = others.size(); i-- > 0;) {
    const Group &other = others[i];
    if (other.frame == group.frame && other.pc == group.pc && other.wait != Wait::Barrier &&
        other.released == group.released) {
      group.mask |= other.mask;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  registers = group.frame->registers.get();
  findLimit();
}

void Warp::findLimit() {
  limit = UINT32_MAX;
  for (const Group &other : others)
    if (other.frame == group.frame && other.wait != Wait::Barrier && other.pc >= group.pc)
      limit = std::min(limit, other.pc);
}

void Warp::branch(std::uint32_t mask, std::uint32_t target) {
  if (target <= executing && polled) {
    polled = false;
    if (++polls > kPatience) {
      limit = 0;
      yielded = true;
    }
  }
  if (mask == group.mask) {
    group.pc = target;
    return;
  }
  Group taken = group;
  taken.pc = target;
  taken.mask = mask;
  others.push_back(std::move(taken));
  group.mask &= ~mask;
  limit = 0;
}

void Warp::exit(std::uint32_t mask) {
  exited |= mask;
  group.mask &= ~mask;
  // Whoever waits for the lanes that are gone need no longer do so.
  for (Group &other : others)
    if (other.wait == Wait::Lanes)
      other.wait = Wait::None;
  limit = 0;
}

void Warp::call(std::uint32_t mask, const CallSite &site, const Instruction &instruction) {
  const Routine &callee = program.routines[site.routine];
  std::size_t size = group.frame->caller ? program.routines[group.frame->site->routine].localBytes
                                         : program.routines[0].localBytes;
  std::uint64_t local = group.frame->local + (size + 15) / 16 * 16;
  if (local + callee.localBytes > localStride) {
    block.fault(FaultKind::StackOverflow, *this, static_cast<unsigned>(__builtin_ctz(mask)), local,
                "local memory",
                "calls nested " + std::to_string(group.frame->depth + 1) + " deep need more than " +
                    std::to_string(localStride) + " bytes a thread",
                instruction.line);
    return block.stop();
  }
  for (const CallSite::Copy &copy : site.arguments)
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if (mask >> lane & 1)
        std::memcpy(localBytes.get() + lane * localStride + local + copy.to,
                    localBytes.get() + lane * localStride + group.frame->local + copy.from, copy.size);
  Group inside;
  inside.frame = makeFrame(site.routine, group.frame);
  inside.frame->site = &site;
  inside.frame->returnTo = executing + 1;
  inside.frame->local = local;
  inside.pc = callee.entry;
  inside.mask = mask;
  group.mask &= ~mask;
  others.push_back(std::move(inside));
  limit = 0;
}

void Warp::leave(std::uint32_t mask) {
  if (!group.frame->caller)
    return exit(mask);
  const Frame &frame = *group.frame;
  for (const CallSite::Copy &copy : frame.site->results)
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if (mask >> lane & 1)
        std::memcpy(localBytes.get() + lane * localStride + frame.caller->local + copy.to,
                    localBytes.get() + lane * localStride + frame.local + copy.from, copy.size);
  Group back;
  back.frame = frame.caller;
  back.pc = frame.returnTo;
  back.mask = mask;
  group.mask &= ~mask;
  others.push_back(std::move(back));
  limit = 0;
}

void Warp::wait(std::uint32_t mask, Wait kind, unsigned barrier) {
  Group waiting;
  waiting.frame = group.frame;
  waiting.pc = executing;
  waiting.mask = mask;
  waiting.wait = kind;
  waiting.barrier = barrier;
  others.push_back(std::move(waiting));
  group.mask &= ~mask;
}

bool Warp::gather(std::uint32_t &mask, std::uint32_t needed) {
  for (std::size_t i = others.size(); i-- > 0;) {
    const Group &other = others[i];
    if (other.wait == Wait::Lanes && other.pc == executing && other.frame == group.frame) {
      mask |= other.mask;
      group.mask |= other.mask;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (!(needed & living() & ~mask))
    return true;
  wait(mask, Wait::Lanes);
  return false;
}

bool Warp::takeRelease() {
  bool released = group.released;
  group.released = false;
  return released;
}

void Warp::release(unsigned barrier) {
  for (Group &other : others)
    if (other.wait == Wait::Barrier && other.barrier == barrier) {
      other.wait = Wait::None;
      other.released = true;
    }
}

void Warp::synchronizeLanes() {
  block.advance(index);
}

Actor Warp::actor() const {
  return {block.identity(), index, block.clockOf(index), block.seenOf(index)};
}

std::byte *Warp::local(unsigned lane, std::uint64_t address, std::size_t bytes) {
  return address <= localStride && bytes <= localStride - address
             ? localBytes.get() + lane * localStride + address
             : nullptr;
}

} // namespace colossal::ptx
