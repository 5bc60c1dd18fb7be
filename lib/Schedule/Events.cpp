//===- Events.cpp - order between queues ------------------------------------===//
//
// Every instruction has a clock: how many instructions of each queue have ended for certain when it begins.
//
//===----------------------------------------------------------------------===//
#include "Events.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <array>

using namespace colossal::schedule;

static constexpr unsigned kQueues = 3;
using Clock = std::array<size_t, kQueues>;

namespace {
/// An instruction in one of the rounds that are looked at.
struct Instance {
  Instruction *instruction;
  int64_t round;
};

class Ordering {
public:
  explicit Ordering(Program &program) : program(program) {}
  void run();

private:
  void visit(Instance instance);
  bool conflict(const Instance &a, const Instance &b) const;
  /// Adds to a clock that an instance has ended.
  void join(Clock &clock, size_t instance) const {
    for (unsigned q = 0; q < kQueues; ++q)
      clock[q] = std::max(clock[q], ends[instance][q]);
  }

  Program &program;
  std::vector<Instance> instances;
  std::vector<Clock> ends;                         // how far the queues are for certain when each has ended
  std::array<std::vector<size_t>, kQueues> queues; // the instances so far
  std::array<Clock, kQueues> reached = {};
  std::vector<size_t> signallers{0}; // by event, the last instance that signalled it
};
} // namespace

/// Rounds that are looked at: what a round waits for of the one before, and what that one knew already
/// because it waited itself, are the same in all that follow.
static constexpr int64_t kRounds = 3;

/// Whether both touch bytes that one of them writes.
bool Ordering::conflict(const Instance &a, const Instance &b) const {
  // States are told apart by their storages alone; weights are only read, but for the load program, which has
  // one queue.
  auto getBegin = [&](const Instance &instance, const Access &access) {
    return (access.storage < kWeightBase ? program.storages[access.storage].offset : 0) + access.offset +
           access.turn * instance.round;
  };
  auto mayMeet = [&](unsigned x, unsigned y) {
    return x < kWeightBase && y < kWeightBase ? program.storages[x].life == program.storages[y].life : x == y;
  };
  for (const Access &x : a.instruction->accesses)
    for (const Access &y : b.instruction->accesses) {
      if ((!x.writes && !y.writes) || !mayMeet(x.storage, y.storage))
        continue;
      const int64_t begin = getBegin(a, x), other = getBegin(b, y);
      if (begin < other + y.bytes && other < begin + x.bytes)
        return true;
    }
  return false;
}

void Ordering::visit(Instance instance) {
  Instruction &instruction = *instance.instruction;
  const size_t own = instances.size();
  instances.push_back(instance);
  Clock clock = reached[instruction.queue];
  for (int64_t event : instruction.waits) // found in a round before
    join(clock, signallers[event]);
  struct Earlier {
    unsigned queue;
    size_t number, instance; // of the instruction among its queue's, from 1, and among all
  };
  llvm::SmallVector<Earlier, kQueues> conflicts;
  for (unsigned queue = 0; queue < kQueues; ++queue) {
    if (queue == instruction.queue)
      continue;
    // Of those that it conflicts with the last, as those before it have ended by then.
    for (size_t n = queues[queue].size(); n > clock[queue]; --n)
      if (const size_t found = queues[queue][n - 1]; conflict(instance, instances[found])) {
        conflicts.push_back({queue, n, found});
        break;
      }
  }
  for (const Earlier &found : conflicts) {
    // One queue may have waited for the other.
    if (llvm::any_of(conflicts, [&](const Earlier &other) {
          return ends[other.instance][found.queue] >= found.number && other.queue != found.queue;
        }))
      continue;
    Instruction &earlier = *instances[found.instance].instruction;
    if (!earlier.signals) {
      earlier.signals = static_cast<int64_t>(signallers.size());
      signallers.push_back(found.instance);
      // It may have come again since: that is what is waited for.
      for (size_t later : queues[found.queue])
        if (instances[later].instruction == &earlier)
          signallers.back() = later;
    }
    instruction.waits.push_back(earlier.signals);
    join(clock, signallers[earlier.signals]);
  }
  std::sort(instruction.waits.begin(), instruction.waits.end());
  queues[instruction.queue].push_back(own);
  clock[instruction.queue] = queues[instruction.queue].size();
  reached[instruction.queue] = clock;
  ends.push_back(clock);
  if (instruction.signals)
    signallers[instruction.signals] = own;
}

void Ordering::run() {
  for (Instruction &instruction : program.instructions)
    visit({&instruction, 0});
  for (int64_t round = 0; round < std::min(program.getRounds(), kRounds); ++round)
    for (Instruction &instruction : program.body)
      visit({&instruction, round});
  for (auto *instructions : {&program.rest, &program.after})
    for (Instruction &instruction : *instructions)
      visit({&instruction, 0});
}

void colossal::schedule::orderQueues(Program &program) {
  Ordering(program).run();
}
