//===- RecomputeTest.cpp - what a backward pass makes again -----------------===//
#include "GradientCases.h"

#include "colossal/Autodiff/Differentiate.h"
#include "colossal/Autodiff/Recompute.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::test;

namespace {

struct RecomputeTest : Harness {
  /// `layers` times a contraction with a weight, and two functions of each element.
  static std::string layers(int count) {
    std::string text = "func.func @main(%x0: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<f32> {\n";
    for (int i = 0; i < count; ++i)
      text += llvm::formatv(R"(
  %c{0} = colossal.contract %x{0} [0, 1], %w [1, 2] -> [0, 2] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %t{0} = colossal.elementwise tanh(%c{0}) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %x{1} = colossal.elementwise sigmoid(%t{0}) : (tensor<8x16xf32>) -> tensor<8x16xf32>)",
                            i, i + 1)
                  .str();
    return text +
           llvm::formatv("\n  %y = colossal.reduce sum %x{0} over [0, 1] : tensor<8x16xf32> -> tensor<f32>\n"
                         "  return %y : tensor<f32>\n",
                         count)
               .str() +
           "}";
  }

  /// Differentiates by the weight and recomputes.
  OwningOpRef<ModuleOp> build(const std::string &text, Recompute what,
                              const std::optional<std::vector<std::string>> &segments = {}) {
    OwningOpRef<ModuleOp> module = parse(text);
    func::FuncOp function = getFunction(*module);
    if (segments)
      markSegments(function, *segments);
    Operation *terminator = function.front().getTerminator();
    last = terminator->getPrevNode();
    SmallVector<Value> gradients;
    EXPECT_TRUE(
        succeeded(differentiate(function, terminator->getOperand(0), {function.getArgument(1)}, gradients)));
    recomputeForBackward(last, what);
    EXPECT_TRUE(succeeded(verify(*module)));
    return module;
  }
  /// The values of forward ops that are read behind them.
  llvm::SetVector<Value> findKept(ModuleOp module) const {
    llvm::SetVector<Value> kept;
    for (Operation &op : getFunction(module).front())
      if (&op == last || op.isBeforeInBlock(last))
        for (Value result : op.getResults())
          for (Operation *user : result.getUsers())
            if (last->isBeforeInBlock(user) && !user->hasTrait<OpTrait::IsTerminator>())
              kept.insert(result);
    return kept;
  }
  Operation *last = nullptr;
};

} // namespace

TEST_F(RecomputeTest, NoneKeepsAll) {
  OwningOpRef<ModuleOp> module = build(layers(16), Recompute::None);
  EXPECT_EQ(findKept(*module).size(),
            16u * 2); // tanh's and sigmoid's results; contractions' are read by none
}

TEST_F(RecomputeTest, FullKeepsAboutTwiceTheRoot) {
  OwningOpRef<ModuleOp> module = build(layers(16), Recompute::Full);
  const size_t kept = findKept(*module).size();
  EXPECT_LE(kept, 14u);
  EXPECT_GE(kept, 6u);
  // Between segments, too: nothing is made again from the beginning.
  Operation *middle = &getFunction(*module).front().front();
  for (int i = 0; i < 8 * 3; ++i)
    middle = middle->getNextNode();
  EXPECT_GE(llvm::count_if(findKept(*module),
                           [&](Value value) { return value.getDefiningOp()->isBeforeInBlock(middle); }),
            2);
  // Each op that is copied is copied once.
  size_t contractions = 0;
  for (auto op : getFunction(*module).getOps<ContractOp>())
    contractions += last->isBeforeInBlock(op) && op.getLhs().getType() == op.getType() &&
                    op.getRhs() == getFunction(*module).getArgument(1);
  EXPECT_LE(contractions, 2u * 16); // of the gradients by x 15, and copies
}

TEST_F(RecomputeTest, SegmentsAreThoseThatAreMarked) {
  OwningOpRef<ModuleOp> named = parse(layers(16));
  std::string fourth;
  for (auto &[op, name] : nameOps(getFunction(*named)))
    if (isa<ContractOp>(op) && StringRef(name).ends_with("|4"))
      fourth = name;
  ASSERT_FALSE(fourth.empty());
  // What the fifth layer takes is kept, and all of it and of those behind, which are the last segment.
  EXPECT_EQ(findKept(*build(layers(16), Recompute::Full, std::vector<std::string>{fourth})).size(),
            1u + 12 * 2);
  // The last segment is what was put behind the model, or there is one alone.
  EXPECT_EQ(findKept(*build(layers(16), Recompute::Full, std::vector<std::string>{fourth, ""})).size(),
            1u + 12 * 2);
  EXPECT_EQ(findKept(*build(layers(16), Recompute::Full, std::vector<std::string>())).size(), 16u * 2);
}

TEST_F(RecomputeTest, SelectiveCopiesNoContraction) {
  auto count = [&](Recompute what) {
    OwningOpRef<ModuleOp> module = build(layers(16), what);
    return llvm::range_size(getFunction(*module).getOps<ContractOp>());
  };
  EXPECT_EQ(count(Recompute::Selective), count(Recompute::None));
  EXPECT_GT(count(Recompute::Full), count(Recompute::None));
}

// A copy stands where it is needed, and not before: what it makes is alive for a short time.
TEST_F(RecomputeTest, CopiesStandBeforeTheirFirstUse) {
  OwningOpRef<ModuleOp> module = build(layers(9), Recompute::Selective);
  for (Operation &op : getFunction(*module).front())
    if (last->isBeforeInBlock(&op) && isa<ElementwiseOp>(op) &&
        cast<ElementwiseOp>(op).getKind() == ElementwiseKind::Tanh) {
      bool isUsedSoon = false;
      Operation *next = &op;
      for (int i = 0; i < 4 && (next = next->getNextNode()); ++i)
        isUsedSoon |= llvm::is_contained(next->getOperands(), op.getResult(0));
      EXPECT_TRUE(isUsedSoon);
    }
}

TEST_F(RecomputeTest, TextsAreParsed) {
  for (Recompute what : {Recompute::None, Recompute::Selective, Recompute::Full})
    EXPECT_EQ(parseRecompute(describe(what)), what);
  EXPECT_FALSE(parseRecompute("some"));
}
