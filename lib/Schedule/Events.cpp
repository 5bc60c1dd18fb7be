//===- Events.cpp - order between queues ------------------------------------===//
//
// Every instruction has a clock: how many instructions of each queue have ended for certain when it begins.
//
//===----------------------------------------------------------------------===//
#include "Events.h"

#include <algorithm>
#include <array>

using namespace colossal::schedule;

static constexpr unsigned kQueues = 3;
using Clock = std::array<size_t, kQueues>;

/// Whether both touch bytes that one of them writes.
static bool conflict(const Program &program, const Instruction &a, const Instruction &b) {
  for (const Access &x : a.accesses)
    for (const Access &y : b.accesses) {
      // Weights are only read, but for the load program, which has one queue.
      if ((!x.writes && !y.writes) || x.storage >= kWeightBase || y.storage >= kWeightBase)
        continue;
      const Storage &s = program.storages[x.storage], &t = program.storages[y.storage];
      int64_t begin = s.offset + x.offset, other = t.offset + y.offset;
      if (s.life == t.life && begin < other + y.bytes && other < begin + x.bytes)
        return true;
    }
  return false;
}

void colossal::schedule::orderQueues(Program &program) {
  std::array<std::vector<size_t>, kQueues> queues; // the instructions so far
  std::vector<Clock> clocks(program.instructions.size());
  std::array<Clock, kQueues> reached = {};
  int64_t events = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    Instruction &instruction = program.instructions[i];
    Clock &clock = clocks[i];
    clock = reached[instruction.queue];
    for (unsigned queue = 0; queue < kQueues; ++queue) {
      if (queue == instruction.queue)
        continue;
      // Of those that it conflicts with the last, as those before it have ended by then.
      for (size_t n = queues[queue].size(); n > clock[queue]; --n) {
        Instruction &earlier = program.instructions[queues[queue][n - 1]];
        if (!conflict(program, instruction, earlier))
          continue;
        if (!earlier.signals)
          earlier.signals = ++events;
        instruction.waits.push_back(earlier.signals);
        const Clock &known = clocks[queues[queue][n - 1]];
        for (unsigned q = 0; q < kQueues; ++q)
          clock[q] = std::max(clock[q], known[q]);
        clock[queue] = std::max(clock[queue], n);
        break;
      }
    }
    llvm::sort(instruction.waits);
    queues[instruction.queue].push_back(i);
    reached[instruction.queue] = clock;
    reached[instruction.queue][instruction.queue] = queues[instruction.queue].size();
  }
}
