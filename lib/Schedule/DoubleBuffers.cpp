//===- DoubleBuffers.cpp - messages of one turn beside the work of another --===//
#include "DoubleBuffers.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

using namespace colossal::schedule;

namespace {
class Unroller {
public:
  explicit Unroller(Program &program) : program(program), turn(std::move(program.body)) {}
  void run();

private:
  void findBuffers();
  void findEarly();
  /// `instruction` as turn number `number` of a round has it, or of all turns, behind the loop.
  Instruction place(const Instruction &instruction, int64_t number, bool isInLoop) const;
  /// Appends what a turn does, but for what has been received early.
  void appendWork(std::vector<Instruction> &list, int64_t number, bool isInLoop) const;
  /// Appends what turn `number` of a round receives; it may be one of the next round.
  void appendEarly(std::vector<Instruction> &list, int64_t number, bool isInLoop,
                   bool exceptLast = false) const;

  Program &program;
  const std::vector<Instruction> turn;       ///< what one turn does
  llvm::DenseMap<unsigned, unsigned> twins;  ///< by storage, the one that every other turn has
  llvm::DenseSet<const Instruction *> early; ///< receives that may come before the turn before ends
};
} // namespace

static bool isMessage(const Instruction &instruction) {
  return instruction.queue != 0;
}

/// What messages touch, but for what all turns share, and for inputs and outputs, of which each turn has its
/// own part.
void Unroller::findBuffers() {
  llvm::DenseSet<unsigned> shared;
  for (const Instruction &instruction : program.instructions)
    for (const Access &access : instruction.accesses)
      shared.insert(access.storage);
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

void Unroller::findEarly() {
  llvm::DenseSet<unsigned> touched; // by the turn's own work
  for (const Instruction &instruction : turn) {
    const bool mayBeEarly = llvm::all_of(instruction.accesses, [&](const Access &access) {
      return twins.contains(access.storage) && !touched.contains(access.storage);
    });
    const bool isReceive =
        isMessage(instruction) &&
        llvm::any_of(instruction.accesses, [](const Access &access) { return access.writes; });
    if (isReceive) {
      if (!mayBeEarly) { // nor others: messages are received in the order in which they are sent
        early.clear();
        return;
      }
      early.insert(&instruction);
      continue;
    }
    for (const Access &access : instruction.accesses)
      touched.insert(access.storage);
  }
}

Instruction Unroller::place(const Instruction &instruction, int64_t number, bool isInLoop) const {
  Instruction placed = instruction;
  placed.turn = number;
  for (Access &access : placed.accesses) {
    if (number % 2 == 1)
      if (auto twin = twins.find(access.storage); twin != twins.end())
        access.storage = twin->second;
    access.offset += access.turn * number;
    access.turn *= isInLoop ? program.turnsOfRound : 0;
  }
  return placed;
}

void Unroller::appendWork(std::vector<Instruction> &list, int64_t number, bool isInLoop) const {
  for (const Instruction &instruction : turn)
    if (!early.contains(&instruction))
      list.push_back(place(instruction, number, isInLoop));
}

void Unroller::appendEarly(std::vector<Instruction> &list, int64_t number, bool isInLoop,
                           bool exceptLast) const {
  for (const Instruction &instruction : turn)
    if (early.contains(&instruction)) {
      list.push_back(place(instruction, number, isInLoop));
      list.back().exceptLast = exceptLast;
    }
}

void Unroller::run() {
  findBuffers();
  findEarly();
  program.turnsOfRound = 2;
  const bool isOdd = program.turns % 2 == 1;
  appendEarly(program.instructions, 0, /*isInLoop=*/false);
  appendEarly(program.body, 1, /*isInLoop=*/true);
  appendWork(program.body, 0, /*isInLoop=*/true);
  if (isOdd || program.getRounds() > 1)
    appendEarly(program.body, 2, /*isInLoop=*/true, /*exceptLast=*/!isOdd);
  appendWork(program.body, 1, /*isInLoop=*/true);
  if (isOdd)
    appendWork(program.rest, program.turns - 1, /*isInLoop=*/false);
}

void colossal::schedule::doubleBuffer(Program &program) {
  for (auto [moment, instruction] : llvm::enumerate(program.body))
    instruction.moment = static_cast<int64_t>(moment);
  if (program.turns > 1 && llvm::any_of(program.body, isMessage))
    Unroller(program).run();
}
