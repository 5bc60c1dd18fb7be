// Collectives beside independent work: which are put on their queue, when they are issued, how long their
// operands stay, and that whatever touches the same bytes keeps its order.
#include "CollectiveQueue.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

#include <cstdlib>
#include <random>

using namespace colossal::schedule;

namespace {

constexpr int64_t kBytes = 1 << 20;

class Builder {
public:
  unsigned makeStorage(int64_t bytes = kBytes, Life life = Life::Activations) {
    program.storages.push_back({life, bytes, -1});
    return static_cast<unsigned>(program.storages.size() - 1);
  }
  Access read(unsigned storage) const { return {storage, 0, getBytes(storage), false}; }
  Access write(unsigned storage) const { return {storage, 0, getBytes(storage), true}; }
  /// Returns the instruction's number, by which it is known later: its place of origin.
  int64_t add(llvm::SmallVector<Access> accesses, bool communicates = false) {
    program.instructions.push_back(
        {std::move(accesses), communicates, mlir::UnknownLoc::get(&context), nullptr, {}});
    program.instructions.back().order = static_cast<int64_t>(program.instructions.size()) - 1;
    return program.instructions.back().order;
  }
  int64_t collective(unsigned from, unsigned to) { return add({read(from), write(to)}, true); }
  bool overlap(int64_t ahead = 2) { return overlapCollectives(program, ahead); }

  std::vector<int64_t> getOrder() const {
    std::vector<int64_t> order;
    for (const Instruction &instruction : program.instructions)
      order.push_back(instruction.order);
    return order;
  }
  const Instruction &find(int64_t number) const {
    for (const Instruction &instruction : program.instructions)
      if (instruction.order == number)
        return instruction;
    std::abort();
  }
  unsigned queueOf(int64_t number) const { return find(number).queue; }

  mlir::MLIRContext context;
  Program program;

private:
  int64_t getBytes(unsigned storage) const {
    return storage < kWeightBase ? program.storages[storage].bytes : kBytes;
  }
};

TEST(CollectiveQueue, IssuesReductionsAsSoonAsTheirInputIsThere) {
  Builder b;
  unsigned first = b.makeStorage(), second = b.makeStorage(), other = b.makeStorage();
  const int64_t makeFirst = b.add({b.write(first)}), makeSecond = b.add({b.write(second)});
  const int64_t work = b.add({b.write(other)});
  const int64_t reduceFirst = b.collective(first, first), reduceSecond = b.collective(second, second);
  const int64_t use = b.add({b.read(first), b.read(second), b.read(other)});
  EXPECT_TRUE(b.overlap());
  EXPECT_EQ(b.getOrder(),
            (std::vector<int64_t>{makeFirst, reduceFirst, makeSecond, reduceSecond, work, use}));
  EXPECT_EQ(b.queueOf(reduceFirst), kCollectiveQueue);
  EXPECT_EQ(b.queueOf(reduceSecond), kCollectiveQueue);
  EXPECT_EQ(b.queueOf(use), 0u);
}

TEST(CollectiveQueue, LeavesWhatNothingHides) {
  Builder b;
  unsigned sum = b.makeStorage(), small = b.makeStorage(64);
  b.add({b.write(sum)});
  const int64_t reduce = b.collective(sum, sum);
  b.add({b.write(small)}); // less work than handing over takes
  b.add({b.read(sum), b.read(small)});
  EXPECT_FALSE(b.overlap());
  EXPECT_EQ(b.queueOf(reduce), 0u);
  EXPECT_EQ(b.getOrder(), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(CollectiveQueue, GathersParametersTwoUsesAhead) {
  Builder b;
  std::vector<int64_t> gathers, uses;
  unsigned previous = b.makeStorage();
  b.add({b.write(previous)});
  for (unsigned layer = 0; layer < 5; ++layer) {
    unsigned parameter = b.makeStorage(), result = b.makeStorage();
    gathers.push_back(b.collective(kWeightBase + layer, parameter));
    uses.push_back(b.add({b.read(previous), b.read(parameter), b.write(result)}));
    previous = result;
  }
  EXPECT_TRUE(b.overlap());
  // The first two have nothing, or little, before their uses that could hide them.
  EXPECT_EQ(b.getOrder(), (std::vector<int64_t>{gathers[0], gathers[1], 0, gathers[2], uses[0], gathers[3],
                                                uses[1], gathers[4], uses[2], uses[3], uses[4]}));
  EXPECT_EQ(b.queueOf(gathers[4]), kCollectiveQueue);
}

TEST(CollectiveQueue, KeepsGathersWhereMemoryIsShort) {
  Builder b;
  unsigned gathered = b.makeStorage(), other = b.makeStorage();
  b.add({b.write(other)});
  b.collective(kWeightBase, gathered);
  b.add({b.read(gathered), b.read(other)});
  EXPECT_FALSE(b.overlap(/*ahead=*/0));
  EXPECT_EQ(b.getOrder(), (std::vector<int64_t>{0, 1, 2}));
}

TEST(CollectiveQueue, TakesPackingAlongAndUnpacksAtTheUse) {
  Builder b;
  unsigned made = b.makeStorage(), packed = b.makeStorage(), received = b.makeStorage(),
           unpacked = b.makeStorage(), other = b.makeStorage();
  const int64_t make = b.add({b.write(made)});
  const int64_t work = b.add({b.write(other)});
  const int64_t pack = b.add({b.read(made), b.write(packed)});
  const int64_t scatter = b.collective(packed, received);
  const int64_t unpack = b.add({b.read(received), b.write(unpacked)});
  const int64_t more = b.add({b.read(other), b.write(other)});
  const int64_t use = b.add({b.read(unpacked), b.read(other)});
  EXPECT_TRUE(b.overlap());
  EXPECT_EQ(b.getOrder(), (std::vector<int64_t>{make, pack, scatter, work, more, unpack, use}));
}

TEST(CollectiveQueue, HoldsOperandsUntilFourMoreAreIssued) {
  Builder b;
  std::vector<unsigned> operands, results;
  std::vector<int64_t> scatters;
  for (int layer = 0; layer < 6; ++layer) {
    operands.push_back(b.makeStorage());
    results.push_back(b.makeStorage(kBytes / 2));
    b.add({b.write(operands.back())});
    scatters.push_back(b.collective(operands.back(), results.back()));
  }
  llvm::SmallVector<Access> all;
  for (unsigned result : results)
    all.push_back(b.read(result));
  unsigned other = b.makeStorage();
  b.add({b.write(other)});
  const int64_t use = b.add(all);
  EXPECT_TRUE(b.overlap());
  EXPECT_TRUE(llvm::is_contained(b.find(scatters[4]).holds, operands[0]));
  EXPECT_TRUE(llvm::is_contained(b.find(scatters[5]).holds, operands[1]));
  EXPECT_TRUE(llvm::is_contained(b.find(use).holds, operands[2]));
}

/// Any program: instructions that touch the same bytes keep their order.
TEST(CollectiveQueue, KeepsWhatMustBeOrdered) {
  std::mt19937 random(7);
  auto pick = [&](unsigned end) { return static_cast<unsigned>(random() % end); };
  unsigned changed = 0;
  for (int round = 0; round < 400; ++round) {
    Builder b;
    const unsigned storages = 3 + pick(12);
    for (unsigned s = 0; s < storages; ++s)
      b.makeStorage(pick(4) ? kBytes : kBytes / 2, pick(8) ? Life::Activations : Life::IO);
    const unsigned count = 4 + pick(30);
    for (unsigned i = 0; i < count; ++i) {
      if (pick(3) == 0) {
        unsigned from = pick(5) ? pick(storages) : kWeightBase + pick(3), to = pick(storages);
        b.collective(from, to);
        continue;
      }
      llvm::SmallVector<Access> accesses;
      for (unsigned a = 1 + pick(3); a > 0; --a) {
        unsigned storage = pick(10) ? pick(storages) : kWeightBase + pick(3);
        accesses.push_back(pick(2) ? b.read(storage) : b.write(storage));
      }
      b.add(accesses);
    }
    const std::vector<Instruction> before = b.program.instructions;
    changed += b.overlap(pick(4));
    ASSERT_EQ(b.program.instructions.size(), before.size());
    std::vector<size_t> placeOf(before.size());
    for (auto [place, number] : llvm::enumerate(b.getOrder()))
      placeOf[number] = place;
    for (size_t i = 0; i < before.size(); ++i)
      for (size_t j = i + 1; j < before.size(); ++j)
        for (const Access &x : before[i].accesses)
          for (const Access &y : before[j].accesses)
            if (x.storage == y.storage && (x.writes || y.writes)) {
              ASSERT_LT(placeOf[i], placeOf[j])
                  << "round " << round << ", instructions " << i << " and " << j;
            }
  }
  EXPECT_GT(changed, 100u);
}

} // namespace
