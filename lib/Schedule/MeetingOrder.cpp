//===- MeetingOrder.cpp - messages where sends wait for their receivers -----===//
//
// A program's passes follow each other in slots: a round's slot number chunk * turnsOfRound + turn is that
// chunk's pass of that turn. Between a slot's pass and the next stand events, which are messages of passes
// around them.
//
//===----------------------------------------------------------------------===//
#include "MeetingOrder.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

using namespace colossal::schedule;

static bool isMeeting(const Instruction &instruction) {
  return instruction.order >= 0;
}

static bool isReceive(const Instruction &instruction) {
  return isMeeting(instruction) &&
         llvm::any_of(instruction.accesses, [](const Access &access) { return access.writes; });
}

bool colossal::schedule::hasMeetings(const Program &program) {
  return llvm::any_of(program.instructions, isMeeting) || llvm::any_of(program.body, isMeeting);
}

/// By chunk, what one pass of it does.
static std::vector<std::vector<Instruction>> takeChunks(std::vector<Instruction> &instructions,
                                                        size_t chunks) {
  std::vector<std::vector<Instruction>> list(chunks);
  for (Instruction &instruction : instructions)
    list[instruction.chunk].push_back(std::move(instruction));
  instructions.clear();
  return list;
}

namespace {
/// Of one turn of each chunk, before there is a loop.
class Straight {
public:
  explicit Straight(Program &program)
      : list(program.instructions), chunks(takeChunks(list, program.chunkWaits.size())),
        done(chunks.size(), 0) {}
  void run() {
    appendEvents(-1);
    for (int64_t chunk = 0; chunk < static_cast<int64_t>(chunks.size()); ++chunk) {
      appendWork(chunk, chunks[chunk].size());
      appendEvents(chunk);
    }
  }

private:
  /// What a chunk does itself before its instruction number `end`.
  void appendWork(int64_t chunk, size_t end) {
    for (size_t &next = done[chunk]; next < end; ++next)
      if (!isMeeting(chunks[chunk][next]))
        list.push_back(std::move(chunks[chunk][next]));
  }
  void appendEvents(int64_t slot) {
    std::vector<std::pair<int64_t, size_t>> events; // chunk and number
    for (auto [chunk, instructions] : llvm::enumerate(chunks))
      for (auto [number, instruction] : llvm::enumerate(instructions))
        if (isMeeting(instruction) &&
            slot == static_cast<int64_t>(chunk) +
                        (isReceive(instruction) ? -instruction.passes : instruction.passes))
          events.push_back({chunk, number});
    llvm::stable_sort(events, [&](const auto &a, const auto &b) {
      return chunks[a.first][a.second].order < chunks[b.first][b.second].order;
    });
    for (auto [chunk, number] : events) {
      if (isReceive(chunks[chunk][number])) // what lies there before is packed
        appendWork(chunk, number);
      list.push_back(chunks[chunk][number]);
    }
  }

  std::vector<Instruction> &list;
  std::vector<std::vector<Instruction>> chunks;
  std::vector<size_t> done; ///< by chunk, how far its work has been appended
};

class Loop {
public:
  explicit Loop(Program &program);
  void run();

private:
  /// A message that stands behind a slot's pass.
  struct Event {
    const Instruction *instruction;
    size_t number;  ///< among its chunk's
    int64_t turn;   ///< of its pass, counted from the first of the slot's round
    bool isReceive; ///< else it is a send
  };
  /// Those behind one slot, apart: with the slot's pass, or with the next.
  struct Events {
    std::vector<Event> own, next;
  };
  struct Place {
    std::vector<Instruction> *list;
    bool isInLoop;
    int64_t firstTurn; ///< of the round, where it is not in the loop
  };

  void findCopies();
  Events findEvents(int64_t slot) const;
  void appendEvents(Place place, int64_t slot, const std::vector<Event> &events);
  void appendPass(Place place, int64_t slot);
  /// What the pass in `slot` does itself before its instruction number `end`.
  void appendWork(Place place, int64_t slot, size_t end);
  Instruction make(const Instruction &instruction, Place place, int64_t turn) const;

  Program &program;
  std::vector<std::vector<Instruction>> chunks;
  const int64_t turnsOfRound, slots; ///< of a round
  int64_t ahead = 0, behind = 0;     ///< the most passes that any message is away from its own
  llvm::DenseMap<unsigned, llvm::SmallVector<unsigned>> copies; ///< by storage, which is the first of them
  size_t done = 0; ///< how much of the next pass's work has been appended
};
} // namespace

Loop::Loop(Program &program)
    : program(program), chunks(takeChunks(program.body, program.chunkWaits.size())),
      turnsOfRound(chunks.size() > 1 ? program.stages : 2),
      slots(turnsOfRound * static_cast<int64_t>(chunks.size())) {
  program.turnsOfRound = turnsOfRound;
}

/// As many copies of what messages touch as passes may be under way with it: two turns follow each other
/// closely, and what is sent later than that is kept for a whole round.
void Loop::findCopies() {
  llvm::DenseSet<unsigned> shared;
  for (const Instruction &instruction : program.instructions)
    for (const Access &access : instruction.accesses)
      shared.insert(access.storage);
  for (const std::vector<Instruction> &pass : chunks)
    for (const Instruction &instruction : pass) {
      if (!isMeeting(instruction))
        continue;
      const bool receives = isReceive(instruction);
      (receives ? ahead : behind) = std::max(receives ? ahead : behind, instruction.passes);
      const int64_t count = !receives && instruction.passes > 1 ? turnsOfRound : 2;
      for (const Access &access : instruction.accesses) {
        const unsigned storage = access.storage;
        if (storage >= kWeightBase || shared.contains(storage) ||
            program.storages[storage].life != Life::Activations)
          continue;
        program.storages[storage].outlivesTurn = true;
        llvm::SmallVector<unsigned> &own = copies[storage];
        if (own.empty())
          own.push_back(storage);
        while (static_cast<int64_t>(own.size()) < count) {
          own.push_back(static_cast<unsigned>(program.storages.size()));
          program.storages.push_back(Storage(program.storages[storage]));
        }
      }
    }
}

Loop::Events Loop::findEvents(int64_t slot) const {
  std::vector<Event> events;
  for (auto [chunk, pass] : llvm::enumerate(chunks))
    for (auto [number, instruction] : llvm::enumerate(pass)) {
      if (!isMeeting(instruction))
        continue;
      const bool receives = isReceive(instruction);
      for (int64_t turn = 0; turn < turnsOfRound; ++turn) {
        const int64_t own = static_cast<int64_t>(chunk) * turnsOfRound + turn;
        const int64_t distance = slot + (receives ? instruction.passes : -instruction.passes) - own;
        if (distance % slots == 0)
          events.push_back({&instruction, number, turn + distance / slots * turnsOfRound, receives});
      }
    }
  llvm::stable_sort(
      events, [](const Event &a, const Event &b) { return a.instruction->order < b.instruction->order; });
  // The passes' own sends come before what is left for the next, but for what stands before it in the order.
  size_t end = 0;
  for (auto [i, event] : llvm::enumerate(events)) {
    if (event.isReceive && event.instruction->passes == 1)
      break;
    if (!event.isReceive && event.instruction->passes == 0)
      end = i + 1;
  }
  return {{events.begin(), events.begin() + static_cast<ptrdiff_t>(end)},
          {events.begin() + static_cast<ptrdiff_t>(end), events.end()}};
}

Instruction Loop::make(const Instruction &instruction, Place place, int64_t turn) const {
  Instruction made = instruction;
  const int64_t number = turn + place.firstTurn;
  made.turn = number;
  auto takeCopy = [&](unsigned &storage) {
    if (auto own = copies.find(storage); own != copies.end()) {
      const int64_t turnOfRound = (number % turnsOfRound + turnsOfRound) % turnsOfRound;
      storage = own->second[turnOfRound % static_cast<int64_t>(own->second.size())];
    }
  };
  llvm::for_each(made.holds, takeCopy);
  for (Access &access : made.accesses) {
    takeCopy(access.storage);
    access.offset += access.turn * number;
    access.turn *= place.isInLoop ? turnsOfRound : 0;
  }
  return made;
}

void Loop::appendEvents(Place place, int64_t slot, const std::vector<Event> &events) {
  for (const Event &event : events) {
    Instruction made = make(*event.instruction, place, event.turn);
    if (!place.isInLoop) {
      if (made.turn < 0 || made.turn >= program.turns)
        continue;
    } else {
      const int64_t rounds = program.getRounds();
      made.exceptFirst = event.turn < 0;
      made.exceptLast = (rounds - 1) * turnsOfRound + event.turn >= program.turns;
      if (rounds == 1 && (made.exceptFirst || made.exceptLast))
        continue;
    }
    // What lies there before is packed.
    if (event.isReceive && event.instruction->passes == 1)
      appendWork(place, slot + 1, event.number);
    place.list->push_back(std::move(made));
  }
}

void Loop::appendWork(Place place, int64_t slot, size_t end) {
  const std::vector<Instruction> &pass = chunks[slot % slots / turnsOfRound];
  for (; done < end; ++done)
    if (!isMeeting(pass[done]))
      place.list->push_back(make(pass[done], place, slot % turnsOfRound));
}

void Loop::appendPass(Place place, int64_t slot) {
  if (place.isInLoop || place.firstTurn + slot % turnsOfRound < program.turns)
    appendWork(place, slot, chunks[slot / turnsOfRound].size());
  done = 0;
}

void Loop::run() {
  findCopies();
  const Place before{&program.instructions, false, 0}, body{&program.body, true, 0},
      rest{&program.rest, false, program.getRounds() * turnsOfRound};
  for (int64_t slot = -ahead; slot < 0; ++slot) {
    Events events = findEvents(slot);
    appendEvents(before, slot, events.own);
    if (slot < -1)
      appendEvents(before, slot, events.next);
  }
  for (Place place : {body, rest}) {
    if (place.isInLoop && program.getRounds() == 0)
      continue;
    for (int64_t slot = 0; slot < slots; ++slot) {
      appendEvents(place, slot - 1, findEvents(slot - 1).next);
      appendPass(place, slot);
      appendEvents(place, slot, findEvents(slot).own);
    }
  }
  // What is sent after the last pass.
  appendEvents(rest, slots - 1, findEvents(slots - 1).next);
  for (int64_t slot = slots; slot < slots + behind; ++slot) {
    Events events = findEvents(slot);
    appendEvents(rest, slot, events.own);
    appendEvents(rest, slot, events.next);
  }
}

void colossal::schedule::orderMeetings(Program &program) {
  Straight(program).run();
  if (program.turns > 1)
    Loop(program).run();
}
