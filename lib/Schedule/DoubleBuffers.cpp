//===- DoubleBuffers.cpp - messages of one turn beside the work of another --===//
#include "DoubleBuffers.h"
#include "MeetingOrder.h"
#include "Messages.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

using namespace colossal::schedule;

namespace {
/// A turn of a chunk.
struct Pass {
  int64_t chunk, turn;
};

class Unroller {
public:
  explicit Unroller(Program &program);
  void run();

private:
  void findBuffers();
  void findEarly(const std::vector<Instruction> &turn);
  /// `count` turns of all chunks.
  std::vector<Pass> listPasses(int64_t count) const;
  /// `instruction` as turn number `number` of a round has it, or of all turns, behind the loop.
  Instruction place(const Instruction &instruction, int64_t number, bool isInLoop) const;
  /// Appends what a pass does; `hasReceived`: but for what has been received early.
  void appendWork(std::vector<Instruction> &list, Pass pass, bool isInLoop, bool hasReceived = true) const;
  /// Appends what a pass receives early; it may be one of the next round.
  void appendEarly(std::vector<Instruction> &list, Pass pass, bool isInLoop, bool exceptLast = false) const;

  Program &program;
  std::vector<std::vector<Instruction>> turns; ///< by chunk, what one turn does
  llvm::DenseMap<unsigned, unsigned> twins;    ///< by storage, the one that every other turn has
  llvm::DenseSet<const Instruction *> early;   ///< receives that may come before the pass before ends
};
} // namespace

static bool isMessage(const Instruction &instruction) {
  return instruction.queue == kMessageQueue;
}

Unroller::Unroller(Program &program) : program(program), turns(program.chunkWaits.size()) {
  for (Instruction &instruction : program.body)
    turns[instruction.chunk].push_back(std::move(instruction));
  program.body.clear();
}

/// What messages touch, but for what all turns share, and for inputs and outputs, of which each turn has its
/// own part.
void Unroller::findBuffers() {
  llvm::DenseSet<unsigned> shared;
  for (const Instruction &instruction : program.instructions)
    for (const Access &access : instruction.accesses)
      shared.insert(access.storage);
  for (const std::vector<Instruction> &turn : turns)
    for (const Instruction &instruction : turn)
      for (const Access &access : instruction.accesses) {
        const unsigned storage = access.storage;
        if (!isMessage(instruction) || storage >= kWeightBase || shared.contains(storage) ||
            program.storages[storage].life != Life::Activations)
          continue;
        if (twins.try_emplace(storage, program.storages.size()).second) {
          program.storages[storage].outlivesTurn = true;
          program.storages.push_back(program.storages[storage]);
        }
      }
}

void Unroller::findEarly(const std::vector<Instruction> &turn) {
  llvm::DenseSet<unsigned> touched; // by the turn's own work
  std::vector<const Instruction *> found;
  for (const Instruction &instruction : turn) {
    const bool mayBeEarly = llvm::all_of(instruction.accesses, [&](const Access &access) {
      return twins.contains(access.storage) && !touched.contains(access.storage);
    });
    const bool isReceive =
        isMessage(instruction) &&
        llvm::any_of(instruction.accesses, [](const Access &access) { return access.writes; });
    if (isReceive) {
      if (!mayBeEarly) // nor others: messages are received in the order in which they are sent
        return;
      found.push_back(&instruction);
      continue;
    }
    for (const Access &access : instruction.accesses)
      touched.insert(access.storage);
  }
  early.insert_range(found);
}

std::vector<Pass> Unroller::listPasses(int64_t count) const {
  std::vector<Pass> passes;
  for (int64_t chunk = 0; chunk < static_cast<int64_t>(turns.size()); ++chunk)
    for (int64_t turn = 0; turn < count; ++turn)
      passes.push_back({chunk, turn});
  return passes;
}

Instruction Unroller::place(const Instruction &instruction, int64_t number, bool isInLoop) const {
  Instruction placed = instruction;
  placed.turn = number;
  auto takeTwin = [&](unsigned &storage) {
    if (number % program.turnsOfRound % 2 == 1)
      if (auto twin = twins.find(storage); twin != twins.end())
        storage = twin->second;
  };
  llvm::for_each(placed.holds, takeTwin);
  for (Access &access : placed.accesses) {
    takeTwin(access.storage);
    access.offset += access.turn * number;
    access.turn *= isInLoop ? program.turnsOfRound : 0;
  }
  return placed;
}

void Unroller::appendWork(std::vector<Instruction> &list, Pass pass, bool isInLoop, bool hasReceived) const {
  for (const Instruction &instruction : turns[pass.chunk])
    if (!hasReceived || !early.contains(&instruction))
      list.push_back(place(instruction, pass.turn, isInLoop));
}

void Unroller::appendEarly(std::vector<Instruction> &list, Pass pass, bool isInLoop, bool exceptLast) const {
  for (const Instruction &instruction : turns[pass.chunk])
    if (early.contains(&instruction)) {
      list.push_back(place(instruction, pass.turn, isInLoop));
      list.back().exceptLast = exceptLast;
    }
}

void Unroller::run() {
  findBuffers();
  for (auto [chunk, turn] : llvm::enumerate(turns))
    if (!program.chunkWaits[chunk])
      findEarly(turn);
  program.turnsOfRound = turns.size() > 1 ? program.stages : 2;
  const int64_t behind = program.turns - program.turns % program.turnsOfRound; // the first turn that is left
  std::vector<Pass> round = listPasses(program.turnsOfRound), rest = listPasses(program.turns - behind);
  appendEarly(program.instructions, {0, 0}, /*isInLoop=*/false);
  for (size_t p = 0; p < round.size() && behind > 0; ++p) {
    if (p + 1 < round.size())
      appendEarly(program.body, round[p + 1], /*isInLoop=*/true);
    else if (!rest.empty() || program.getRounds() > 1)
      appendEarly(program.body, {0, program.turnsOfRound}, /*isInLoop=*/true, /*exceptLast=*/rest.empty());
    appendWork(program.body, round[p], /*isInLoop=*/true);
  }
  for (auto [p, pass] : llvm::enumerate(rest))
    appendWork(program.rest, {pass.chunk, behind + pass.turn}, /*isInLoop=*/false, /*hasReceived=*/p == 0);
}

void colossal::schedule::doubleBuffer(Program &program) {
  for (auto [moment, instruction] : llvm::enumerate(program.body))
    instruction.moment = static_cast<int64_t>(moment);
  if (hasMeetings(program))
    return orderMeetings(program);
  // Without a loop its passes stand one behind the other already.
  if (!program.body.empty() && (program.chunkWaits.size() > 1 || llvm::any_of(program.body, isMessage)))
    Unroller(program).run();
}
