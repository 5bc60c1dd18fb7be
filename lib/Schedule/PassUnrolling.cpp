//===- PassUnrolling.cpp - the passes of a stage, one after the other --------===//
#include "PassUnrolling.h"
#include "Messages.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

using namespace colossal::schedule;

namespace {
/// What chunks do to a storage.
struct Use {
  llvm::SmallVector<int64_t, 2> chunks;
  bool isMessage = false;
};

class PassUnroller {
public:
  PassUnroller(Program &program, llvm::ArrayRef<int64_t> order)
      : program(program), chunks(program.chunkWaits.size()) {
    for (auto [moment, instruction] : llvm::enumerate(program.body)) {
      instruction.moment = static_cast<int64_t>(moment);
      chunks[instruction.chunk].push_back(std::move(instruction));
    }
    program.body.clear();
    for (size_t i = 0; i + 1 < order.size(); i += 2) {
      numbers[{order[i], order[i + 1]}] = static_cast<int64_t>(passes.size());
      passes.push_back({order[i], order[i + 1]});
    }
  }
  void run();

private:
  llvm::MapVector<unsigned, Use> findUses() const;
  /// Gives `storage` as many copies as it takes.
  void copyStorage(unsigned storage, const Use &use);

  Program &program;
  std::vector<std::vector<Instruction>> chunks;                 ///< what each does in a turn
  std::vector<std::pair<int64_t, int64_t>> passes;              ///< chunk and turn
  llvm::DenseMap<std::pair<int64_t, int64_t>, int64_t> numbers; ///< of a pass among all
  llvm::DenseMap<unsigned, llvm::SmallVector<unsigned>> copies; ///< by storage, of each turn
};
} // namespace

/// Of the storages that passes do not share with what stands before or behind them.
llvm::MapVector<unsigned, Use> PassUnroller::findUses() const {
  llvm::DenseSet<unsigned> shared;
  for (const auto *list : {&program.instructions, &program.after})
    for (const Instruction &instruction : *list)
      for (const Access &access : instruction.accesses)
        shared.insert(access.storage);
  llvm::MapVector<unsigned, Use> uses;
  for (auto [chunk, instructions] : llvm::enumerate(chunks))
    for (const Instruction &instruction : instructions)
      for (const Access &access : instruction.accesses) {
        if (access.storage >= kWeightBase || shared.contains(access.storage) ||
            program.storages[access.storage].life != Life::Activations)
          continue;
        Use &use = uses[access.storage];
        if (!llvm::is_contained(use.chunks, static_cast<int64_t>(chunk)))
          use.chunks.push_back(static_cast<int64_t>(chunk));
        use.isMessage |= instruction.queue == kMessageQueue;
      }
  return uses;
}

void PassUnroller::copyStorage(unsigned storage, const Use &use) {
  struct Stay {
    int64_t begin, end, turn;
  };
  std::vector<Stay> stays;
  for (int64_t turn = 0; turn < program.turns; ++turn) {
    Stay stay{INT64_MAX, -1, turn};
    for (int64_t chunk : use.chunks) {
      const int64_t number = numbers.lookup({chunk, turn});
      stay.begin = std::min(stay.begin, number);
      stay.end = std::max(stay.end, number + (use.isMessage ? 1 : 0));
    }
    stays.push_back(stay);
  }
  llvm::stable_sort(stays, [](const Stay &a, const Stay &b) { return a.begin < b.begin; });
  std::vector<std::pair<unsigned, int64_t>> slots; // and until when each is taken
  llvm::SmallVector<unsigned> &own = copies[storage];
  own.resize(program.turns);
  program.storages[storage].outlivesTurn = true;
  for (const Stay &stay : stays) {
    auto free = llvm::find_if(slots, [&](const auto &slot) { return slot.second < stay.begin; });
    if (free == slots.end()) {
      unsigned copy = storage;
      if (!slots.empty()) {
        copy = static_cast<unsigned>(program.storages.size());
        program.storages.push_back(Storage(program.storages[storage]));
      }
      free = slots.insert(slots.end(), {copy, -1});
    }
    free->second = stay.end;
    own[stay.turn] = free->first;
  }
}

void PassUnroller::run() {
  for (auto &[storage, use] : findUses())
    if (use.chunks.size() > 1 || use.isMessage)
      copyStorage(storage, use);
  for (auto [chunk, turn] : passes)
    for (const Instruction &instruction : chunks[chunk]) {
      Instruction placed = instruction;
      placed.turn = turn;
      auto takeCopy = [&](unsigned &storage) {
        if (auto own = copies.find(storage); own != copies.end())
          storage = own->second[turn];
      };
      llvm::for_each(placed.holds, takeCopy);
      for (Access &access : placed.accesses) {
        takeCopy(access.storage);
        access.offset += access.turn * turn;
        access.turn = 0;
      }
      program.rest.push_back(std::move(placed));
    }
}

void colossal::schedule::unrollPasses(Program &program, llvm::ArrayRef<int64_t> order) {
  PassUnroller(program, order).run();
}
