// Loops whose turns send and receive, unrolled, placed and ordered: each turn works on what belongs to it,
// what touches the same bytes on different queues is ordered by events, and messages come one turn after the
// other.
#include "DoubleBuffers.h"
#include "Events.h"
#include "Shared.h"

#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <map>

using namespace colossal::schedule;

namespace {

constexpr unsigned kMessages = 2; // their queue
constexpr int64_t kBytes = 64, kOutputBytes = 16;

/// What one turn of each chunk does: receives, three kernels (one for itself), sends.
class Loop {
public:
  Loop(int64_t turns, bool receives, bool sends, int64_t stages = 1, int64_t chunks = 1) {
    program.turns = turns;
    program.stages = stages;
    program.chunkWaits.assign(chunks, false);
    for (int64_t chunk = 1; chunk < chunks; ++chunk)
      program.chunkWaits[chunk] = chunk % 2 == 1;
    program.storages.resize(1 + 3 * chunks);
    for (Storage &storage : program.storages)
      storage.bytes = kBytes;
    add(program.instructions, 0, 0, {{kShared, 0, kBytes, true}});
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const auto of = [&](unsigned storage) { return storage + 3 * static_cast<unsigned>(chunk); };
      program.storages[of(kOutput)] = {Life::IO, turns * kOutputBytes};
      if (receives)
        add(program.body, chunk, kMessages, {{of(kReceived), 0, kBytes, true}});
      add(program.body, chunk, 0, {{kShared, 0, kBytes, false}, {of(kReceived), 0, kBytes, !receives}});
      add(program.body, chunk, 0, {{of(kReceived), 0, kBytes, false}, {of(kSent), 0, kBytes, true}});
      add(program.body, chunk, 0,
          {{of(kSent), 0, kBytes, false}, {of(kOutput), 0, kOutputBytes, true, kOutputBytes}});
      if (sends)
        add(program.body, chunk, kMessages, {{of(kSent), 0, kBytes, false}});
    }
    doubleBuffer(program);
    placeStorages(program, 64);
    orderQueues(program);
  }

  static constexpr unsigned kShared = 0, kReceived = 1, kSent = 2, kOutput = 3;

  /// One execution of an instruction.
  struct Step {
    const Instruction *instruction;
    int64_t round, turn;
  };
  std::vector<Step> run() const {
    std::vector<Step> steps;
    for (const Instruction &instruction : program.instructions)
      steps.push_back({&instruction, 0, instruction.accesses.front().storage == kShared ? -1 : 0});
    for (int64_t round = 0; round < program.getRounds(); ++round)
      for (const Instruction &instruction : program.body)
        if (!instruction.exceptLast || round + 1 < program.getRounds())
          steps.push_back({&instruction, round, round * program.turnsOfRound + instruction.turn});
    for (const Instruction &instruction : program.rest)
      steps.push_back({&instruction, 0, instruction.turn});
    return steps;
  }

  /// Bytes that a step touches, in arenas one behind the other.
  std::pair<int64_t, int64_t> bytesOf(const Step &step, const Access &access) const {
    const Storage &storage = program.storages[access.storage];
    int64_t begin =
        storage.offset + access.offset + access.turn * step.round + (storage.life == Life::IO ? 1 << 20 : 0);
    return {begin, begin + access.bytes};
  }

  Program program;

private:
  void add(std::vector<Instruction> &list, int64_t chunk, unsigned queue,
           llvm::SmallVector<Access> accesses) {
    Instruction instruction{std::move(accesses), false, mlir::UnknownLoc::get(&context), {}, {}};
    instruction.queue = queue;
    instruction.chunk = chunk;
    list.push_back(std::move(instruction));
  }
  mlir::MLIRContext context;
};

class DoubleBuffers : public testing::TestWithParam<std::tuple<int64_t, bool, bool>> {
protected:
  Loop loop{std::get<0>(GetParam()), std::get<1>(GetParam()), std::get<2>(GetParam())};
};

static void expectOwnWork(const Loop &loop) {
  std::map<int64_t, int64_t> contents;            // by first byte, the turn that wrote them
  std::map<size_t, std::vector<int64_t>> turnsOf; // by number of accesses and queue, what came when
  for (const Loop::Step &step : loop.run()) {
    for (const Access &access : step.instruction->accesses) {
      auto [begin, end] = loop.bytesOf(step, access);
      if (access.writes)
        contents[begin] = step.turn;
      else // what all turns share was written before the first
        EXPECT_EQ(contents.at(begin), access.storage == Loop::kShared ? -1 : step.turn);
      if (access.storage == Loop::kOutput) {
        EXPECT_EQ(begin, (1 << 20) + step.turn * kOutputBytes);
      }
    }
    if (step.turn >= 0)
      turnsOf[step.instruction->queue * 100 + step.instruction->moment].push_back(step.turn);
  }
  for (const auto &[what, turns] : turnsOf) {
    ASSERT_EQ(turns.size(), static_cast<size_t>(loop.program.turns)) << what;
    for (size_t turn = 0; turn < turns.size(); ++turn)
      EXPECT_EQ(turns[turn], static_cast<int64_t>(turn)) << what;
  }
}

TEST_P(DoubleBuffers, TurnsWorkOnTheirOwn) {
  expectOwnWork(loop);
}

static void expectOrder(const Loop &loop) {
  std::vector<Loop::Step> steps = loop.run();
  std::vector<std::vector<bool>> before(steps.size(),
                                        std::vector<bool>(steps.size())); // closed over what came
  std::map<int64_t, size_t> signalled;
  std::map<unsigned, size_t> last;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Instruction &instruction = *steps[i].instruction;
    auto follow = [&](size_t earlier) {
      before[i][earlier] = true;
      for (size_t j = 0; j < earlier; ++j)
        before[i][j] = before[i][j] || before[earlier][j];
    };
    if (auto at = last.find(instruction.queue); at != last.end())
      follow(at->second);
    for (int64_t event : instruction.waits)
      if (auto at = signalled.find(event); at != signalled.end())
        follow(at->second);
    last[instruction.queue] = i;
    if (instruction.signals)
      signalled[instruction.signals] = i;
    for (size_t j = 0; j < i; ++j)
      for (const Access &x : instruction.accesses)
        for (const Access &y : steps[j].instruction->accesses) {
          auto [begin, end] = loop.bytesOf(steps[i], x);
          auto [otherBegin, otherEnd] = loop.bytesOf(steps[j], y);
          if ((x.writes || y.writes) && begin < otherEnd && otherBegin < end) {
            EXPECT_TRUE(before[i][j]) << "step " << j << " and " << i;
          }
        }
  }
}

TEST_P(DoubleBuffers, EventsOrderWhatConflicts) {
  expectOrder(loop);
}

class Chunks : public testing::TestWithParam<std::tuple<int64_t, bool, int64_t, int64_t>> {
protected:
  Loop loop{std::get<0>(GetParam()), std::get<1>(GetParam()), true, std::get<2>(GetParam()),
            std::get<3>(GetParam())};
};

TEST_P(Chunks, TurnsWorkOnTheirOwn) {
  expectOwnWork(loop);
}

TEST_P(Chunks, EventsOrderWhatConflicts) {
  expectOrder(loop);
}

// As cost::simulate has it: groups of as many turns as there are stages go through the chunks in turn.
TEST_P(Chunks, GroupsOfTurnsGoThroughTheChunks) {
  const auto [turns, receives, stages, chunks] = GetParam();
  std::vector<std::pair<int64_t, int64_t>> expected, found;
  for (int64_t first = 0; first < turns; first += stages)
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      for (int64_t turn = first; turn < std::min(turns, first + stages); ++turn)
        expected.push_back({chunk, turn});
  int64_t asked = 0, worked = 0; // messages and turns so far
  for (const Loop::Step &step : loop.run()) {
    if (step.turn < 0)
      continue;
    const Instruction &instruction = *step.instruction;
    if (instruction.queue == kMessages) {
      asked += instruction.accesses.front().writes;
    } else if (instruction.accesses.front().storage == Loop::kShared) {
      found.push_back({instruction.chunk, step.turn});
      ++worked;
      // One ahead, unless the next turn is of a chunk that waits, or of those that are left.
      const bool isLast = worked == turns * chunks, isLeft = worked > turns / stages * stages * chunks;
      const bool nextWaits = !isLast && loop.program.chunkWaits[expected[worked].first];
      if (receives) {
        EXPECT_EQ(asked, worked + !(isLast || isLeft || nextWaits)) << worked;
      }
    }
  }
  EXPECT_EQ(found, expected);
}

INSTANTIATE_TEST_SUITE_P(Loops, Chunks,
                         testing::Combine(testing::Values<int64_t>(2, 3, 4, 7, 8, 12), testing::Bool(),
                                          testing::Values<int64_t>(2, 3, 4), testing::Values<int64_t>(2, 3)));

// A message of one turn and the work of the next do not wait for each other.
TEST_P(DoubleBuffers, MessagesGoBesideWork) {
  for (const Loop::Step &step : loop.run())
    if (step.instruction->queue == kMessages && step.turn > 0) {
      EXPECT_LE(step.instruction->waits.size(), 1u);
    }
  const bool hasMessages = std::get<1>(GetParam()) || std::get<2>(GetParam());
  EXPECT_EQ(loop.program.turnsOfRound, hasMessages ? 2 : 1);
}

TEST_P(DoubleBuffers, TheNextIsAskedForBeforeTheWork) {
  int64_t asked = -1;
  for (const Loop::Step &step : loop.run()) {
    const Access &access = step.instruction->accesses.front();
    if (step.instruction->queue == kMessages && access.writes) {
      asked = step.turn;
    } else if (std::get<1>(GetParam()) && step.turn >= 0) {
      EXPECT_EQ(asked, std::min(step.turn + 1, loop.program.turns - 1));
    }
  }
}

// A message that is unpacked from memory that a kernel fills before cannot be asked for early; then none is,
// as others that were sent before it would have to wait.
TEST(DoubleBuffersOrder, ReceivesKeepTheOrderOfTheSends) {
  mlir::MLIRContext context;
  Program program;
  program.turns = 5;
  program.storages.resize(2);
  for (Storage &storage : program.storages)
    storage.bytes = kBytes;
  auto add = [&](unsigned queue, llvm::SmallVector<Access> accesses) {
    Instruction instruction{std::move(accesses), false, mlir::UnknownLoc::get(&context), {}, {}};
    instruction.queue = queue;
    program.body.push_back(std::move(instruction));
  };
  add(kMessages, {{0, 0, kBytes, true}});
  add(0, {{1, 0, kBytes, true}});
  add(kMessages, {{1, 0, kBytes, true}});
  add(0, {{0, 0, kBytes, false}, {1, 0, kBytes, false}});
  doubleBuffer(program);
  EXPECT_TRUE(program.instructions.empty());
  std::vector<int64_t> moments;
  for (const Instruction &instruction : program.body)
    if (instruction.queue == kMessages)
      moments.push_back(instruction.moment);
  EXPECT_EQ(moments, (std::vector<int64_t>{0, 2, 0, 2}));
}

INSTANTIATE_TEST_SUITE_P(Loops, DoubleBuffers,
                         testing::Combine(testing::Values<int64_t>(2, 3, 4, 5, 8, 9), testing::Bool(),
                                          testing::Bool()));

} // namespace
