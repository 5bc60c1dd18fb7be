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
  llvm::SmallVector<int64_t, 2> meetings; ///< messages with places among the passes, by their `order`
  bool isMessage = false;
};

/// What a stage does next: a pass, or a message.
struct Entry {
  int64_t what, turn;
  bool isPass() const { return what >= 0; }
  bool isOfTurn() const { return turn >= 0; }
  int64_t order() const { return -1 - what; }
};

/// Instructions of one list of the program and one chunk.
struct Work {
  std::vector<Instruction> instructions;
  llvm::DenseMap<int64_t, size_t> done; ///< by turn, how far all but messages with places stand already
};

class PassUnroller {
public:
  PassUnroller(Program &program, llvm::ArrayRef<int64_t> order);
  void run();

private:
  enum List { Before, Turns, Behind };

  llvm::MapVector<unsigned, Use> findUses() const;
  /// Gives `storage` as many copies as it takes.
  void copyStorage(unsigned storage, const Use &use);
  void take(std::vector<Instruction> &list, List from);
  std::vector<Instruction> &listOf(List list);
  Instruction place(const Instruction &instruction, int64_t turn) const;
  /// Appends what a chunk does itself before its instruction number `end`.
  void appendWork(List list, int64_t chunk, int64_t turn, size_t end = SIZE_MAX);
  void appendAll(List list);
  void appendMessage(const Entry &entry, List list);

  Program &program;
  std::vector<Work> works[3]; ///< by list, then chunk
  std::vector<Entry> entries;
  llvm::DenseMap<std::pair<int64_t, int64_t>, int64_t> numbers; ///< of a chunk's turn among all passes
  /// Of a message's turn, how many passes stand before it.
  llvm::DenseMap<std::pair<int64_t, int64_t>, int64_t> passesBefore;
  struct Origin {
    List list;
    int64_t chunk;
    size_t number;
  };
  llvm::DenseMap<int64_t, Origin> messages;                     ///< by `order`
  llvm::DenseMap<unsigned, llvm::SmallVector<unsigned>> copies; ///< by storage, of each turn
};
} // namespace

static bool isMeeting(const Instruction &instruction) {
  return instruction.order >= 0;
}

PassUnroller::PassUnroller(Program &program, llvm::ArrayRef<int64_t> order) : program(program) {
  for (auto [moment, instruction] : llvm::enumerate(program.body))
    instruction.moment = static_cast<int64_t>(moment);
  int64_t passes = 0;
  for (size_t i = 0; i + 1 < order.size(); i += 2) {
    const Entry entry{order[i], order[i + 1]};
    entries.push_back(entry);
    if (!entry.isOfTurn())
      continue;
    if (entry.isPass())
      numbers[{entry.what, entry.turn}] = passes++;
    else
      passesBefore[{entry.order(), entry.turn}] = passes;
  }
}

/// Of the storages that passes do not share with what stands before or behind them.
llvm::MapVector<unsigned, Use> PassUnroller::findUses() const {
  llvm::DenseSet<unsigned> shared;
  for (const auto *list : {&program.instructions, &program.after})
    for (const Instruction &instruction : *list)
      for (const Access &access : instruction.accesses)
        shared.insert(access.storage);
  llvm::MapVector<unsigned, Use> uses;
  for (const Instruction &instruction : program.body)
    for (const Access &access : instruction.accesses) {
      if (access.storage >= kWeightBase || shared.contains(access.storage) ||
          program.storages[access.storage].life != Life::Activations)
        continue;
      Use &use = uses[access.storage];
      if (!llvm::is_contained(use.chunks, instruction.chunk))
        use.chunks.push_back(instruction.chunk);
      use.isMessage |= instruction.queue == kMessageQueue;
      if (isMeeting(instruction))
        use.meetings.push_back(instruction.order);
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
    for (int64_t order : use.meetings) {
      const int64_t number = passesBefore.lookup({order, turn});
      stay.begin = std::min(stay.begin, number);
      stay.end = std::max(stay.end, number);
    }
    stays.push_back(stay);
  }
  llvm::stable_sort(stays, [](const Stay &a, const Stay &b) { return a.begin < b.begin; });
  std::vector<std::pair<unsigned, int64_t>> slots; // and until when each is taken
  llvm::SmallVector<unsigned> &own = copies[storage];
  own.resize(program.turns);
  program.storages[storage].outlivesTurn = true;
  // What is received while an earlier pass computes, or sent while a later one does, keeps its place for
  // that.
  program.storages[storage].isHandedOn = !use.isMessage;
  for (const Stay &stay : stays) {
    auto free = llvm::find_if(slots, [&](const auto &slot) { return slot.second < stay.begin; });
    if (free == slots.end() || !use.isMessage) {
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

void PassUnroller::take(std::vector<Instruction> &list, List from) {
  works[from].resize(program.chunkWaits.size());
  for (Instruction &instruction : list) {
    std::vector<Instruction> &own = works[from][instruction.chunk].instructions;
    if (isMeeting(instruction))
      messages.insert({instruction.order, {from, instruction.chunk, own.size()}});
    own.push_back(std::move(instruction));
  }
  list.clear();
}

std::vector<Instruction> &PassUnroller::listOf(List list) {
  return list == Before ? program.instructions : list == Turns ? program.rest : program.after;
}

Instruction PassUnroller::place(const Instruction &instruction, int64_t turn) const {
  Instruction placed = instruction;
  if (turn < 0)
    return placed;
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
  return placed;
}

void PassUnroller::appendWork(List list, int64_t chunk, int64_t turn, size_t end) {
  Work &work = works[list][chunk];
  for (size_t &next = work.done[turn]; next < std::min(end, work.instructions.size()); ++next)
    if (!isMeeting(work.instructions[next]))
      listOf(list).push_back(place(work.instructions[next], turn));
}

/// What is left of what is done once.
void PassUnroller::appendAll(List list) {
  for (size_t chunk = 0; chunk < works[list].size(); ++chunk)
    appendWork(list, static_cast<int64_t>(chunk), -1);
}

void PassUnroller::appendMessage(const Entry &entry, List list) {
  const Origin origin = messages.at(entry.order());
  const std::vector<Instruction> &own = works[origin.list][origin.chunk].instructions;
  const Instruction &message = own[origin.number];
  // What is received over what lies there before is received when that has been packed.
  const bool isPacked =
      llvm::any_of(llvm::ArrayRef(own).take_front(origin.number), [&](const Instruction &i) {
        return !isMeeting(i) && llvm::any_of(message.accesses, [&](const Access &access) {
          return access.writes && llvm::any_of(i.accesses, [&](const Access &other) {
                   return other.storage == access.storage && other.writes &&
                          other.offset < access.offset + access.bytes &&
                          access.offset < other.offset + other.bytes;
                 });
        });
      });
  if (isPacked)
    appendWork(origin.list, origin.chunk, entry.turn, origin.number);
  listOf(list).push_back(place(message, entry.turn));
}

void PassUnroller::run() {
  for (auto &[storage, use] : findUses())
    if (use.chunks.size() > 1 || use.isMessage)
      copyStorage(storage, use);
  take(program.body, Turns);
  // Without messages among the passes, what stands around them stays as it is.
  const bool isAll = llvm::any_of(entries, [](const Entry &entry) { return !entry.isOfTurn(); });
  if (isAll) {
    take(program.instructions, Before);
    take(program.after, Behind);
  }
  List list = Before;
  for (const Entry &entry : entries) {
    if (entry.isOfTurn() && list == Before) {
      if (isAll)
        appendAll(Before); // what all turns share
      list = Turns;
    } else if (!entry.isOfTurn() && list == Turns) {
      list = Behind;
    }
    if (entry.isPass())
      appendWork(list, entry.what, entry.turn);
    else
      appendMessage(entry, list);
  }
  if (isAll) {
    appendAll(Before);
    appendAll(Behind);
  }
}

void colossal::schedule::unrollPasses(Program &program, llvm::ArrayRef<int64_t> order) {
  PassUnroller(program, order).run();
}
