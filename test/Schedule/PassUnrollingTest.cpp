// Passes of a stage in an order of their own: what a forward pass keeps for its backward pass lies at as many
// places as there are microbatches between the two, all else at one.
#include "PassUnrolling.h"
#include "Shared.h"

#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <map>
#include <set>

using namespace colossal::schedule;

namespace {

constexpr unsigned kKept = 0, kForward = 1, kBackward = 2, kSum = 3, kSent = 4, kInput = 5;
constexpr int64_t kForwardChunk = 0, kBackwardChunk = 1;

class Stage {
public:
  Stage(int64_t turns, const std::vector<int64_t> &order) {
    program.turns = turns;
    program.chunkWaits.assign(2, false);
    program.storages.resize(6);
    for (Storage &storage : program.storages)
      storage.bytes = 64;
    program.storages[kInput].life = Life::IO;
    add(program.instructions, 0, 0, {{kSum, 0, 64, true}});
    add(program.body, kForwardChunk, 0, {{kInput, 0, 16, false, 16}, {kForward, 0, 64, true}});
    add(program.body, kForwardChunk, 0, {{kForward, 0, 64, false}, {kKept, 0, 64, true}});
    add(program.body, kForwardChunk, 0, {{kKept, 0, 64, false}, {kSent, 0, 64, true}});
    add(program.body, kForwardChunk, 2, {{kSent, 0, 64, false}});
    add(program.body, kBackwardChunk, 0, {{kKept, 0, 64, false}, {kBackward, 0, 64, true}});
    add(program.body, kBackwardChunk, 0, {{kBackward, 0, 64, false}, {kSum, 0, 64, true}});
    add(program.after, 0, 0, {{kSum, 0, 64, false}});
    unrollPasses(program, order);
    placeStorages(program, 64);
  }

  /// At how many places the copies of `storage` lie.
  size_t countPlaces(unsigned storage) const {
    std::set<int64_t> places;
    for (unsigned copy : copiesOf(storage))
      places.insert(program.storages[copy].offset);
    return places.size();
  }

  /// Of the storage `storage`, the copies that passes use.
  std::set<unsigned> copiesOf(unsigned storage) const {
    std::set<unsigned> copies;
    for (const Instruction &instruction : program.rest)
      for (const Access &access : instruction.accesses)
        if (origin(access.storage, instruction) == storage)
          copies.insert(access.storage);
    return copies;
  }

  Program program;

private:
  /// What is written or read beside the others tells what a copy is of.
  unsigned origin(unsigned storage, const Instruction &instruction) const {
    if (storage < 6)
      return storage;
    return instruction.queue == 2 ||
                   (instruction.chunk == kForwardChunk && instruction.accesses.size() == 2 &&
                    instruction.accesses[1].storage == storage && instruction.accesses[0].storage != kForward)
               ? kSent
               : kKept;
  }
  void add(std::vector<Instruction> &list, int64_t chunk, unsigned queue, std::vector<Access> accesses) {
    list.push_back(
        {{accesses.begin(), accesses.end()}, queue != 0, mlir::UnknownLoc::get(&context), nullptr, {}});
    list.back().chunk = chunk;
    list.back().queue = queue;
  }

  mlir::MLIRContext context;
};

TEST(PassUnrolling, KeepsAsManyAsAreUnderWay) {
  const Stage gpipe(3, {0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2});
  EXPECT_EQ(gpipe.countPlaces(kKept), 3u);
  const Stage alternating(3, {0, 0, 1, 0, 0, 1, 1, 1, 0, 2, 1, 2});
  EXPECT_EQ(alternating.countPlaces(kKept), 1u);
  const Stage warm(3, {0, 0, 0, 1, 1, 0, 0, 2, 1, 1, 1, 2});
  EXPECT_EQ(warm.countPlaces(kKept), 2u);
}

TEST(PassUnrolling, HasOneOfAllElse) {
  const Stage stage(3, {0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2});
  EXPECT_EQ(stage.copiesOf(kForward), std::set<unsigned>{kForward});
  EXPECT_EQ(stage.copiesOf(kBackward), std::set<unsigned>{kBackward});
  EXPECT_EQ(stage.copiesOf(kSum), std::set<unsigned>{kSum});
  EXPECT_EQ(stage.copiesOf(kSent).size(), 2u) << "one is on its way while the next is made";
  EXPECT_TRUE(stage.program.body.empty());
}

TEST(PassUnrolling, TellsWhatIsHandedOn) {
  const Stage stage(3, {0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2});
  for (unsigned kept : stage.copiesOf(kKept))
    EXPECT_TRUE(stage.program.storages[kept].isHandedOn);
  for (unsigned storage : {kForward, kBackward, kSum, kInput})
    EXPECT_FALSE(stage.program.storages[storage].isHandedOn);
  for (unsigned sent : stage.copiesOf(kSent))
    EXPECT_FALSE(stage.program.storages[sent].isHandedOn) << "is on its way beside passes";
}

TEST(PassUnrolling, ReadsWhatWasKeptOfTheSameMicrobatch) {
  const Stage stage(4, {0, 0, 0, 1, 1, 0, 0, 2, 1, 1, 0, 3, 1, 2, 1, 3});
  std::map<unsigned, int64_t> holds; // by copy, the microbatch
  for (const Instruction &instruction : stage.program.rest) {
    const Access &first = instruction.accesses.front();
    if (instruction.chunk == kForwardChunk && first.storage == kForward)
      holds[instruction.accesses[1].storage] = instruction.turn;
    if (instruction.chunk == kBackwardChunk && first.storage != kBackward) {
      EXPECT_EQ(holds[first.storage], instruction.turn);
    }
    if (first.storage == kInput) {
      EXPECT_EQ(first.offset, 16 * instruction.turn);
      EXPECT_EQ(first.turn, 0);
    }
  }
}

} // namespace
