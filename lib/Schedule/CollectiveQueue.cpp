//===- CollectiveQueue.cpp - collectives beside independent work ------------===//
#include "CollectiveQueue.h"

#include "colossal/Cost/ExchangeQueue.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <tuple>

using namespace colossal::schedule;

/// Less work than that takes no longer than handing a collective over to another queue and waiting for it.
static constexpr int64_t kLeastWork = 64 << 10;
/// Multiplications that take about as long as one byte of memory, on a CPU's core; GPUs do many more.
static constexpr int64_t kProductsOfByte = 4;

static bool isCollective(const Instruction &instruction) {
  return instruction.communicates && instruction.queue == 0;
}

static int64_t estimateProducts(const Instruction &instruction) {
  const Work &work = instruction.work;
  const double products = static_cast<double>(work.batch) * static_cast<double>(work.m) *
                          static_cast<double>(work.n) * static_cast<double>(work.k);
  return work.kind == Work::Kind::Elements ? 0 : static_cast<int64_t>(products);
}

/// In bytes of memory traffic.
static int64_t estimateWork(const Instruction &instruction) {
  if (instruction.communicates)
    return 0;
  int64_t work = estimateProducts(instruction) / kProductsOfByte;
  for (const Access &access : instruction.accesses)
    work += access.bytes;
  return work;
}

/// Whether it does nothing but put bytes elsewhere, as packing does.
static bool isMove(const Instruction &instruction) {
  const auto &accesses = instruction.accesses;
  return !instruction.communicates && estimateProducts(instruction) == 0 && accesses.size() == 2 &&
         accesses[0].writes != accesses[1].writes && accesses[0].bytes == accesses[1].bytes;
}

namespace {
/// An access of an instruction of the list.
struct Touch {
  int64_t index;
  const Access *access;
};

/// A collective with what packs its operand just before it and unpacks its result just behind it.
struct Unit {
  int64_t first, collective, last; ///< instructions of the list, in this order and without others between
  int64_t ready;                   ///< the last instruction that must come before; -1: none
  int64_t use;                     ///< the first that must come after; the list's size: none
  bool frees;                      ///< at least as much memory as it takes
  int64_t limit = -1; ///< an instruction behind which it is issued, though it may be ready before
};

class Overlap {
public:
  /// `instructions`: those of one list and chunk. `lastLists`: by storage, the last list that touches it, of
  /// which this one is number `list`.
  Overlap(Program &program, llvm::MutableArrayRef<Instruction> instructions,
          const llvm::DenseMap<unsigned, unsigned> &lastLists, unsigned list, int64_t ahead)
      : program(program), instructions(instructions), lastLists(lastLists), list(list), ahead(ahead),
        size(static_cast<int64_t>(instructions.size())) {}
  bool run();

private:
  void findUnits();
  void limitUnits();
  /// Those that enough work can hide.
  std::vector<Unit> chooseUnits() const;
  void reorder(llvm::ArrayRef<Unit> chosen);
  void holdOperands();
  bool isLink(int64_t from, int64_t to) const;
  /// Whether the instruction only stores a new state, as programs do in their end.
  bool isStore(int64_t index) const;
  bool freesMemory(const Instruction &collective, int64_t index) const;
  /// The last instruction before `begin` that touches what `own` does in a way that orders them, or the first
  /// from `begin` on.
  int64_t findBefore(const Instruction &own, int64_t begin) const;
  int64_t findAfter(const Instruction &own, int64_t begin) const;
  int64_t takenBytes(unsigned storage) const {
    return storage < kWeightBase && program.storages[storage].life == Life::Activations
               ? program.storages[storage].bytes
               : 0;
  }

  Program &program;
  llvm::MutableArrayRef<Instruction> instructions;
  const llvm::DenseMap<unsigned, unsigned> &lastLists;
  unsigned list;
  int64_t ahead, size;
  llvm::DenseMap<unsigned, std::vector<Touch>> touches; ///< by storage, in order
  std::vector<Unit> units;
};
} // namespace

static bool mustBeOrdered(const Access &a, const Access &b) {
  return (a.writes || b.writes) && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

int64_t Overlap::findBefore(const Instruction &own, int64_t begin) const {
  int64_t found = -1;
  for (const Access &access : own.accesses) {
    const std::vector<Touch> &all = touches.find(access.storage)->second;
    auto end = std::partition_point(all.begin(), all.end(), [&](const Touch &t) { return t.index < begin; });
    while (end != all.begin() && (--end)->index > found)
      if (mustBeOrdered(access, *end->access))
        found = end->index;
  }
  return found;
}

int64_t Overlap::findAfter(const Instruction &own, int64_t begin) const {
  int64_t found = size;
  for (const Access &access : own.accesses) {
    const std::vector<Touch> &all = touches.find(access.storage)->second;
    auto next = std::partition_point(all.begin(), all.end(), [&](const Touch &t) { return t.index < begin; });
    for (; next != all.end() && next->index < found; ++next)
      if (mustBeOrdered(access, *next->access))
        found = next->index;
  }
  return found;
}

/// Whether `from` is a kernel that makes nothing but what `to`, next to it, reads, and nobody else.
bool Overlap::isLink(int64_t from, int64_t to) const {
  if (from < 0 || to >= size)
    return false;
  const Instruction &maker = instructions[from], &reader = instructions[to];
  if (maker.queue != 0 || reader.queue != 0)
    return false;
  const Access *made = nullptr;
  for (const Access &access : maker.accesses)
    if (access.writes) {
      if (made)
        return false;
      made = &access;
    }
  if (!made || made->storage >= kWeightBase || lastLists.lookup(made->storage) != list)
    return false;
  const std::vector<Touch> &all = touches.find(made->storage)->second;
  return llvm::any_of(reader.accesses,
                      [&](const Access &a) { return !a.writes && a.storage == made->storage; }) &&
         llvm::all_of(all, [&](const Touch &t) { return t.index == from || t.index == to; });
}

bool Overlap::isStore(int64_t index) const {
  const Instruction &store = instructions[index];
  return estimateProducts(store) == 0 && store.accesses.size() == 2 &&
         llvm::all_of(store.accesses,
                      [](const Access &access) { return access.writes == (access.storage >= kWeightBase); });
}

bool Overlap::freesMemory(const Instruction &collective, int64_t index) const {
  int64_t taken = 0, freed = 0;
  for (const Access &access : collective.accesses) {
    const bool isInPlace = llvm::any_of(collective.accesses, [&](const Access &other) {
      return other.storage == access.storage && other.writes != access.writes;
    });
    if (isInPlace)
      continue;
    if (access.writes)
      taken += takenBytes(access.storage);
    else if (touches.find(access.storage)->second.back().index == index &&
             lastLists.lookup(access.storage) == list)
      freed += takenBytes(access.storage);
  }
  return taken <= freed;
}

void Overlap::findUnits() {
  for (int64_t i = 0; i < size; ++i)
    for (const Access &access : instructions[i].accesses)
      touches[access.storage].push_back({i, &access});
  for (int64_t i = 0; i < size; ++i) {
    if (!isCollective(instructions[i]))
      continue;
    Unit unit{i, i, i, -1, size, freesMemory(instructions[i], i)};
    if (isLink(i - 1, i) && isMove(instructions[i - 1]))
      unit.first = i - 1;
    if (isLink(i, i + 1) && isMove(instructions[i + 1]))
      unit.last = i + 1;
    for (int64_t own = unit.first; own <= unit.collective; ++own)
      unit.ready = std::max(unit.ready, findBefore(instructions[own], unit.first));
    for (int64_t own = unit.collective; own <= unit.last; ++own)
      unit.use = std::min(unit.use, findAfter(instructions[own], unit.last + 1));
    units.push_back(unit);
  }
}

void Overlap::limitUnits() {
  // Where what is brought ahead of its use is used first.
  std::vector<int64_t> uses;
  for (const Unit &unit : units)
    if (!unit.frees && unit.use < size && !isStore(unit.use))
      uses.push_back(unit.use);
  llvm::sort(uses);
  uses.erase(llvm::unique(uses), uses.end());
  for (Unit &unit : units) {
    const bool isLeft = ahead > 0 && unit.ready >= 0 && (unit.use == size || isStore(unit.use));
    if (unit.frees || isLeft)
      continue;
    const auto number = llvm::lower_bound(uses, unit.use) - uses.begin();
    unit.limit = unit.use == size || ahead == 0 ? unit.first - 1
                 : number < ahead               ? -1
                                                : std::min(unit.first, uses[number - ahead]) - 1;
  }
}

std::vector<Unit> Overlap::chooseUnits() const {
  std::vector<int64_t> before{0}; // the work of all instructions before each
  for (const Instruction &instruction : instructions)
    before.push_back(before.back() + estimateWork(instruction));
  std::vector<Unit> chosen;
  for (const Unit &unit : units) {
    int64_t work = before[unit.use] - before[std::max(unit.ready, unit.limit) + 1];
    work -= before[unit.last + 1] - before[unit.first]; // its own
    if (work >= kLeastWork)
      chosen.push_back(unit);
  }
  return chosen;
}

/// Instructions keep their order, but for those of the chosen units.
void Overlap::reorder(llvm::ArrayRef<Unit> chosen) {
  // Beside which instruction one stands, on which side of it, and its own number.
  enum Side { Before, Own, Behind };
  using Place = std::tuple<int64_t, int, int64_t>;
  std::vector<Place> places;
  for (int64_t i = 0; i < size; ++i)
    places.emplace_back(i, Own, i);
  llvm::DenseMap<int64_t, const Unit *> unpacks;
  for (const Unit &unit : chosen) {
    if (unit.last != unit.collective)
      unpacks[unit.last] = &unit;
    if (unpacks.contains(unit.ready)) // which goes to its first use: this one
      continue;
    int64_t anchor = unit.limit;
    for (int64_t own = unit.first; own <= unit.collective; ++own)
      for (const Access &access : instructions[own].accesses)
        for (const Touch &touch : touches.find(access.storage)->second)
          if (touch.index < unit.first && mustBeOrdered(access, *touch.access))
            anchor = std::max(anchor, std::get<0>(places[touch.index]));
    for (int64_t own = unit.first; own <= unit.collective; ++own)
      places[own] = std::min(places[own], Place(anchor, Behind, own));
  }
  for (const auto &[unpack, unit] : unpacks) {
    Place first(size, Before, unpack);
    for (const Access &access : instructions[unpack].accesses)
      for (const Touch &touch : touches.find(access.storage)->second)
        if (touch.index > unpack && mustBeOrdered(access, *touch.access))
          first = std::min(first, places[touch.index]);
    // A use that moved stands behind others of its place, which this would then follow.
    if (std::get<1>(first) != Behind)
      places[unpack] = Place(std::get<0>(first), Before, unpack);
  }
  std::vector<int64_t> order(size);
  for (int64_t i = 0; i < size; ++i)
    order[i] = i;
  llvm::sort(order, [&](int64_t a, int64_t b) { return places[a] < places[b]; });
  for (const Unit &unit : chosen)
    instructions[unit.collective].queue = kCollectiveQueue;
  std::vector<Instruction> ordered;
  for (int64_t i : order)
    ordered.push_back(std::move(instructions[i]));
  std::move(ordered.begin(), ordered.end(), instructions.begin());
}

void Overlap::holdOperands() {
  touches.clear();
  std::vector<int64_t> issued;
  for (int64_t i = 0; i < size; ++i) {
    for (const Access &access : instructions[i].accesses)
      touches[access.storage].push_back({i, &access});
    if (instructions[i].queue == kCollectiveQueue)
      issued.push_back(i);
  }
  for (size_t number = 0; number < issued.size(); ++number) {
    const Instruction &collective = instructions[issued[number]];
    int64_t until = std::min(findAfter(collective, issued[number] + 1), size - 1);
    if (number + colossal::cost::kExchangesUnderWay < issued.size())
      until = std::min(until, issued[number + colossal::cost::kExchangesUnderWay]);
    for (const Access &access : collective.accesses)
      if (access.storage < kWeightBase)
        instructions[until].holds.push_back(access.storage);
  }
}

bool Overlap::run() {
  findUnits();
  if (units.empty())
    return false;
  limitUnits();
  const std::vector<Unit> chosen = chooseUnits();
  if (chosen.empty())
    return false;
  reorder(chosen);
  holdOperands();
  return true;
}

bool colossal::schedule::overlapCollectives(Program &program, int64_t ahead) {
  std::vector<Instruction> *const lists[] = {&program.instructions, &program.body, &program.rest,
                                             &program.after};
  // Each chunk's part of each list.
  std::vector<llvm::MutableArrayRef<Instruction>> parts;
  for (std::vector<Instruction> *list : lists)
    for (llvm::MutableArrayRef<Instruction> left(*list); !left.empty();) {
      const size_t count =
          llvm::find_if(
              left, [&](const Instruction &instruction) { return instruction.chunk != left.front().chunk; }) -
          left.begin();
      parts.push_back(left.take_front(count));
      left = left.drop_front(count);
    }
  llvm::DenseMap<unsigned, unsigned> lastParts;
  for (auto [number, part] : llvm::enumerate(parts))
    for (const Instruction &instruction : part)
      for (const Access &access : instruction.accesses)
        lastParts[access.storage] = static_cast<unsigned>(number);
  bool any = false;
  for (auto [number, part] : llvm::enumerate(parts))
    any |= Overlap(program, part, lastParts, static_cast<unsigned>(number), ahead).run();
  return any;
}
