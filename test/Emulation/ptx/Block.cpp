#include "Block.h"

#include <algorithm>
#include <sstream>

namespace colossal::ptx {
namespace {

constexpr std::size_t kMaximalFaults = 256;

template <class F>
void forLanes(std::uint32_t mask, F visit) {
  for (; mask; mask &= mask - 1)
    visit(static_cast<unsigned>(__builtin_ctz(mask)));
}

std::string hexadecimal(std::uint64_t value) {
  std::ostringstream out;
  out << "0x" << std::hex << value;
  return out.str();
}

std::string verb(const Touch &touch) {
  if (touch.nonCoherent)
    return "a read by .nc";
  if (touch.strong)
    return touch.write ? "an atomic access" : "a strong read";
  return touch.write ? "a write" : "a read";
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t at = 0; at <= text.size();) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

} // namespace

Block::Block(const Program &program, const Launch &launch, Memory &memory, std::string_view text)
    : launch(launch), program(program), memory(memory), lines(split(text)),
      cache(program.code.size(), nullptr),
      shared((program.dynamicShared + launch.dynamicShared + 15) / 16 * 16),
      sharedCells((shared.size() >> program.sharedGranule) + 1) {}

void Block::prepare(std::uint64_t index) {
  linear = static_cast<std::uint32_t>(index);
  position.x = static_cast<std::uint32_t>(index % launch.grid.x);
  position.y = static_cast<std::uint32_t>(index / launch.grid.x % launch.grid.y);
  position.z = static_cast<std::uint32_t>(index / launch.grid.x / launch.grid.y);
  generator.seed(launch.seed * 0x9e3779b97f4a7c15ull + index);
  ++sharedRun;
  // What is read without having been written is no number.
  std::fill(shared.begin(), shared.end(), std::byte{0xff});
  ticks = 1;
  clock.fill(1);
  for (auto &row : seen)
    row.fill(0);
  barriers = {};
  fenced = stopped = false;
  takenOver.clear();
  warps.clear();
  std::uint64_t threads = launch.block.count();
  for (unsigned warp = 0; warp * kLanes < threads; ++warp) {
    std::uint64_t lanes = std::min<std::uint64_t>(kLanes, threads - warp * kLanes);
    warps.push_back(
        std::make_unique<Warp>(*this, program, warp, lanes == kLanes ? kAllLanes : (1u << lanes) - 1));
  }
}

void Block::run(std::uint64_t index) {
  prepare(index);
  std::uint64_t before = warpInstructions;
  std::vector<Warp *> ready;
  while (!stopped) {
    ready.clear();
    bool left = false;
    for (const auto &warp : warps) {
      left |= !warp->done();
      if (warp->runnable())
        ready.push_back(warp.get());
    }
    if (ready.empty()) {
      if (left)
        reportStuck();
      break;
    }
    Warp &warp = *ready[random() % ready.size()];
    // Mostly to the next barrier, and now and then only a few steps.
    std::uint64_t quantum = random() % 4 ? 1 << 14 : 1 + random() % 64, had = warp.warpInstructions;
    warp.run(quantum);
    warpInstructions += warp.warpInstructions - had;
    if (warpInstructions - before > launch.maximalBlockInstructions) {
      fault(FaultKind::EndlessBlock, warp, 0, 0, "",
            "the block has executed more than " + std::to_string(launch.maximalBlockInstructions) +
                " warp instructions",
            warp.line());
      break;
    }
  }
  for (const auto &warp : warps)
    laneInstructions += warp->laneInstructions;
}

void Block::reportStuck() {
  for (const auto &warp : warps)
    for (const Group &group : warp->waiting())
      explainStuck(*warp, group);
}

void Block::explainStuck(const Warp &warp, const Group &group) {
  const Instruction &instruction = program.code[group.pc];
  unsigned lane = static_cast<unsigned>(__builtin_ctz(group.mask));
  std::uint32_t gone = 0, total = 0;
  for (const auto &other : warps) {
    total += static_cast<unsigned>(__builtin_popcount(other->lanes));
    gone += static_cast<unsigned>(__builtin_popcount(other->lanes & ~other->living()));
  }
  bool barrier = group.wait == Wait::Barrier;
  std::string what = "lanes " + hexadecimal(group.mask) + " of the warp wait here";
  if (barrier) {
    const Barrier &state = barriers[group.barrier];
    what += " at barrier " + std::to_string(group.barrier) + ", which " + std::to_string(state.arrived) +
            " of " + std::to_string(state.expected) + " threads have reached";
  } else {
    what += " for others that never come: of the warp's lanes " + hexadecimal(warp.lanes & ~warp.living()) +
            " have ended";
    for (const Group &other : warp.waiting())
      if (&other != &group)
        what +=
            ", " + hexadecimal(other.mask) + " wait at line " + std::to_string(program.code[other.pc].line);
  }
  if (gone)
    what += "; " + std::to_string(gone) + " of the block's " + std::to_string(total) + " threads have ended";
  fault(barrier || instruction.detail & kBarrierInstruction ? FaultKind::DivergentBarrier
                                                            : FaultKind::DivergentShuffle,
        warp, lane, 0, "", what, instruction.line);
}

void Block::fault(FaultKind kind, const Warp &warp, unsigned lane, std::uint64_t address,
                  std::string_view buffer, const std::string &what, std::uint32_t line) {
  auto [place, fresh] = faults.try_emplace({line, kind});
  Fault &fault = place->second;
  if (!fresh) {
    ++fault.count;
    return;
  }
  if (faults.size() > kMaximalFaults) {
    faults.erase(place);
    return;
  }
  fault.kind = kind;
  fault.kernel = program.kernel.name;
  fault.line = line;
  std::string_view text = line && line <= lines.size() ? lines[line - 1] : std::string_view();
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  fault.text = text;
  fault.block = position;
  fault.warp = warp.index;
  fault.lane = lane;
  fault.address = address;
  fault.buffer = buffer;
  fault.what = what;
}

std::uint32_t Block::special(Special special, const Warp &warp, unsigned lane) const {
  std::uint32_t thread = warp.index * kLanes + lane;
  switch (special) {
  case Special::ThreadX: return thread % launch.block.x;
  case Special::ThreadY: return thread / launch.block.x % launch.block.y;
  case Special::ThreadZ: return thread / launch.block.x / launch.block.y;
  case Special::BlockSizeX: return launch.block.x;
  case Special::BlockSizeY: return launch.block.y;
  case Special::BlockSizeZ: return launch.block.z;
  case Special::BlockX: return position.x;
  case Special::BlockY: return position.y;
  case Special::BlockZ: return position.z;
  case Special::GridX: return launch.grid.x;
  case Special::GridY: return launch.grid.y;
  case Special::GridZ: return launch.grid.z;
  case Special::Lane: return lane;
  case Special::WarpIndex: return warp.index;
  case Special::WarpCount: return static_cast<std::uint32_t>((launch.block.count() + kLanes - 1) / kLanes);
  case Special::LanesEqual: return 1u << lane;
  case Special::LanesLess: return (1u << lane) - 1;
  case Special::LanesLessEqual: return (2u << lane) - 1;
  case Special::LanesGreater: return ~((2u << lane) - 1);
  case Special::LanesGreaterEqual: return ~((1u << lane) - 1);
  case Special::DynamicShared: return static_cast<std::uint32_t>(launch.dynamicShared);
  case Special::TotalShared: return static_cast<std::uint32_t>(shared.size());
  case Special::GridIndex:
  case Special::Multiprocessor:
  case Special::Clock: return 0;
  }
  return 0;
}

bool Block::arrive(Warp &warp, std::uint32_t mask, unsigned number, std::uint32_t expected,
                   std::uint32_t predicates) {
  Barrier &barrier = barriers[number];
  if (!expected)
    expected = static_cast<std::uint32_t>(launch.block.count());
  barrier.expected = expected;
  barrier.arrived += static_cast<unsigned>(__builtin_popcount(mask));
  barrier.holding += static_cast<unsigned>(__builtin_popcount(mask & predicates));
  for (unsigned i = 0; i < kLanes; ++i)
    barrier.joined[i] = std::max(barrier.joined[i], seen[warp.index][i]);
  barrier.joined[warp.index] = std::max(barrier.joined[warp.index], clock[warp.index]);
  clock[warp.index] = ++ticks;
  if (barrier.arrived < expected)
    return false;
  complete(number);
  return true;
}

void Block::complete(unsigned number) {
  Barrier &barrier = barriers[number];
  barrier.last = {barrier.arrived, barrier.holding};
  for (const auto &warp : warps) {
    bool here = barrier.waitingWarps >> warp->index & 1;
    if (!here)
      continue;
    for (unsigned i = 0; i < kLanes; ++i)
      seen[warp->index][i] = std::max(seen[warp->index][i], barrier.joined[i]);
    warp->release(number);
  }
  Count last = barrier.last;
  barrier = Barrier();
  barrier.last = last;
}

void Block::await(const Warp &warp, unsigned number) {
  barriers[number].waitingWarps |= 1u << warp.index;
}

bool Block::ordered(std::uint32_t other) const {
  if (other == Cell::kManyBlocks)
    return !takenOver.empty();
  return std::any_of(takenOver.begin(), takenOver.end(),
                     [&](const auto &taken) { return memory.published(taken.first, taken.second, other); });
}

std::uint32_t Block::resolve(Warp &warp, const Instruction &instruction, std::uint32_t mask, Access &access,
                             Places &places) {
  places.fill(nullptr);
  if (access.touch.strong)
    warp.notePoll();
  switch (access.space) {
  case Space::Shared: return resolveShared(warp, instruction, mask, access, places);
  case Space::Local:
  case Space::Parameter: return resolvePrivate(warp, instruction, mask, access, places, access.space);
  case Space::Global:
  case Space::Constant: return resolveGlobal(warp, instruction, mask, access, places);
  case Space::Generic: break;
  }
  // Lane by lane into the space that its address lies in; the windows' numbers are taken off.
  std::array<std::uint32_t, 4> window{};
  forLanes(mask, [&](unsigned lane) {
    window[std::min<std::uint64_t>(access.address[lane] >> kWindowShift, 3)] |= 1u << lane;
  });
  std::uint32_t good = 0;
  Places found;
  const Space spaces[] = {Space::Global, Space::Shared, Space::Local, Space::Parameter};
  for (unsigned i = 0; i < 4; ++i) {
    if (!window[i])
      continue;
    Access part = access;
    part.space = spaces[i];
    for (std::uint64_t &address : part.address)
      address -= windowBase(spaces[i]);
    found.fill(nullptr);
    good |= resolve(warp, instruction, window[i], part, found);
    forLanes(window[i], [&](unsigned lane) { places[lane] = found[lane]; });
  }
  return good;
}

std::uint32_t Block::resolveGlobal(Warp &warp, const Instruction &instruction, std::uint32_t mask,
                                   Access &access, Places &places) {
  std::uint64_t lowest = UINT64_MAX, highest = 0, bits = 0;
  forLanes(mask, [&](unsigned lane) {
    lowest = std::min(lowest, access.address[lane]);
    highest = std::max(highest, access.address[lane]);
    bits |= access.address[lane];
  });
  const Region *&last = cache[static_cast<std::size_t>(&instruction - program.code.data())];
  if (!last || lowest < last->buffer.address)
    last = memory.find(lowest);
  Actor actor = warp.actor();
  actor.block = linear + 1;
  if (access.touch.strong && program.fences)
    forLanes(mask, [&](unsigned lane) {
      std::size_t names = memory.publish(access.address[lane], linear + 1, fenced || access.release);
      if (names)
        takenOver.emplace_back(access.address[lane], names);
    });
  bool mayWrite = !access.touch.write || (last && last->buffer.writable);
  if (last && mayWrite && last->holds(lowest, highest + access.bytes) && !(bits & (access.bytes - 1))) {
    forLanes(mask, [&](unsigned lane) { places[lane] = last->at(access.address[lane]); });
    shadowGlobal(warp, mask, access, *last, actor);
    return mask;
  }
  std::uint32_t good = 0;
  forLanes(mask, [&](unsigned lane) {
    std::uint64_t address = access.address[lane];
    const Region *region = memory.find(address);
    if (!region || !region->holds(address, address + access.bytes)) {
      const Region *near = memory.nearest(address);
      std::string what =
          verb(access.touch) + " of " + std::to_string(access.bytes) + " bytes outside all buffers";
      if (near)
        what += address < near->buffer.address
                    ? ", " + std::to_string(near->buffer.address - address) + " bytes before '" +
                          near->buffer.name + "'"
                    : ", at byte " + std::to_string(address - near->buffer.address) + " of '" +
                          near->buffer.name + "', which has " + std::to_string(near->buffer.size);
      return fault(FaultKind::OutOfBounds, warp, lane, address, near ? near->buffer.name : "", what,
                   instruction.line);
    }
    if (address & (access.bytes - 1))
      return fault(FaultKind::Misaligned, warp, lane, address, region->buffer.name,
                   verb(access.touch) + " of " + std::to_string(access.bytes) +
                       " bytes at an address that is no multiple of that",
                   instruction.line);
    if (access.touch.write && !region->buffer.writable)
      return fault(FaultKind::ReadOnlyWrite, warp, lane, address, region->buffer.name,
                   verb(access.touch) + " of a buffer that is only read", instruction.line);
    places[lane] = region->at(address);
    shadowGlobal(warp, 1u << lane, access, *region, actor);
    good |= 1u << lane;
  });
  return good;
}

void Block::shadowGlobal(Warp &warp, std::uint32_t mask, const Access &access, const Region &region,
                         const Actor &actor) {
  ShadowPage *page = nullptr;
  std::uint64_t number = UINT64_MAX;
  unsigned granule = program.globalGranule, cells = access.bytes >> granule;
  bool locked = launch.threads > 1;
  forLanes(mask, [&](unsigned lane) {
    std::uint64_t address = access.address[lane];
    if (address >> ShadowPage::kShift != number) {
      if (page && locked)
        page->unlock();
      page = region.page(address, granule);
      number = address >> ShadowPage::kShift;
      if (page && locked)
        page->lock();
    }
    if (!page)
      return;
    Cell *cell = page->at(address, granule);
    for (unsigned i = 0; i < cells; ++i) {
      Cell before = cell[i];
      Finding finding =
          cell[i].touch(actor, static_cast<std::uint16_t>(warp.index * kLanes + lane), access.touch);
      if (finding != Finding::None)
        explain(finding, before, warp, lane, access, address + (std::uint64_t(i) << granule),
                region.buffer.name, false);
    }
  });
  if (page && locked)
    page->unlock();
}

std::uint32_t Block::resolveShared(Warp &warp, const Instruction &instruction, std::uint32_t mask,
                                   Access &access, Places &places) {
  std::uint32_t good = 0;
  Actor actor = warp.actor();
  unsigned granule = program.sharedGranule, cells = access.bytes >> granule;
  std::size_t size = program.dynamicShared + launch.dynamicShared;
  forLanes(mask, [&](unsigned lane) {
    std::uint64_t address = access.address[lane];
    if (address > size || access.bytes > size - address)
      return fault(FaultKind::OutOfBounds, warp, lane, address, "shared memory",
                   verb(access.touch) + " of " + std::to_string(access.bytes) +
                       " bytes in shared memory of " + std::to_string(size),
                   instruction.line);
    if (address & (access.bytes - 1))
      return fault(FaultKind::Misaligned, warp, lane, address, "shared memory",
                   verb(access.touch) + " of " + std::to_string(access.bytes) +
                       " bytes at an address that is no multiple of that",
                   instruction.line);
    for (unsigned i = 0; i < cells; ++i) {
      Cell &cell = sharedCells[(address >> granule) + i];
      if (cell.writeBlock != sharedRun)
        cell.writeBlock = 0;
      if (cell.readBlock != sharedRun) {
        cell.readBlock = 0;
        cell.reader = 0;
      }
      if (!cell.writeBlock && (!access.touch.write || access.touch.strong))
        fault(FaultKind::UninitializedShared, warp, lane, address + (std::uint64_t(i) << granule),
              "shared memory", verb(access.touch) + " of bytes that no thread of the block has written",
              instruction.line);
      Cell before = cell;
      Finding finding =
          cell.touch(actor, static_cast<std::uint16_t>(warp.index * kLanes + lane), access.touch);
      if (finding != Finding::None)
        explain(finding, before, warp, lane, access, address + (std::uint64_t(i) << granule), "shared memory",
                true);
    }
    places[lane] = shared.data() + address;
    good |= 1u << lane;
  });
  return good;
}

void Block::explain(Finding finding, const Cell &before, const Warp &warp, unsigned lane,
                    const Access &access, std::uint64_t address, std::string_view buffer, bool shared) {
  bool write = finding == Finding::AgainstWrite ||
               (finding == Finding::NonCoherent && access.touch.nonCoherent) || finding == Finding::Pending;
  std::uint32_t other = write ? before.writeBlock : before.readBlock, own = shared ? sharedRun : linear + 1;
  unsigned thread = (write ? before.writer : before.reader) & Cell::kThread;
  std::uint32_t line = write ? before.writeLine : before.readLine;
  if (finding == Finding::AgainstWrite || finding == Finding::AgainstRead) {
    if (other != own && ordered(other))
      return;
    // Lanes of one instruction may write the same value to one place.
    if (finding == Finding::AgainstWrite && other == own && access.values && thread / kLanes == warp.index &&
        before.writeLine == access.touch.line && before.writeClock == warp.actor().clock &&
        access.address[thread % kLanes] == access.address[lane] &&
        !std::memcmp(access.values + thread % kLanes * access.bytes, access.values + lane * access.bytes,
                     access.bytes))
      return;
  }
  std::string what = verb(access.touch) + ", and " +
                     (finding == Finding::Pending ? "a copy by cp.async"
                      : write                     ? "a write"
                                                  : "a read") +
                     " at line " + std::to_string(line) + " by ";
  if (other == Cell::kManyBlocks)
    what += "several blocks";
  else if (other != own)
    what +=
        "thread " + std::to_string(thread) + " of block " + std::to_string(other - 1) + " (counted along x)";
  else
    what += "thread " + std::to_string(thread) + " of the same block";
  FaultKind kind = shared ? FaultKind::SharedRace : FaultKind::GlobalRace;
  if (finding == Finding::NonCoherent) {
    kind = FaultKind::NonCoherentRead;
    what += ": .nc may read what was there before, or anything";
  } else if (finding == Finding::Pending) {
    kind = FaultKind::PendingCopy;
    what += ", which has not been waited for";
  } else {
    what += ", and nothing orders the two";
  }
  fault(kind, warp, lane, address, buffer, what, access.touch.line);
}

std::uint32_t Block::resolvePrivate(Warp &warp, const Instruction &instruction, std::uint32_t mask,
                                    Access &access, Places &places, Space space) {
  std::uint32_t good = 0;
  bool local = space == Space::Local;
  forLanes(mask, [&](unsigned lane) {
    std::uint64_t address = access.address[lane];
    std::byte *place = nullptr;
    if (local)
      place = warp.local(lane, address, access.bytes);
    else if (address <= launch.parameters.size() && access.bytes <= launch.parameters.size() - address &&
             !access.touch.write)
      place = const_cast<std::byte *>(launch.parameters.data()) + address;
    if (!place)
      return fault(FaultKind::OutOfBounds, warp, lane, address, local ? "local memory" : "parameters",
                   verb(access.touch) + " of " + std::to_string(access.bytes) + " bytes outside of it",
                   instruction.line);
    if (address & (access.bytes - 1))
      return fault(FaultKind::Misaligned, warp, lane, address, local ? "local memory" : "parameters",
                   verb(access.touch) + " of " + std::to_string(access.bytes) +
                       " bytes at an address that is no multiple of that",
                   instruction.line);
    places[lane] = place;
    good |= 1u << lane;
  });
  return good;
}

} // namespace colossal::ptx
