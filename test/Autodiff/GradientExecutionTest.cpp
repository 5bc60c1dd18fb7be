//===- GradientExecutionTest.cpp - generated code of gradients --------------===//
//
// Each case and its gradient as one program, in layouts drawn at random, through code generation, the plan
// and the runtime.
//
//===----------------------------------------------------------------------===//
#include "../Partition/Executor.h"
#include "GradientCases.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::test;

namespace {

/// As compare; but what cancels out, of terms around 1, holds rounding errors only.
std::string compareSums(Tensor want, Tensor have) {
  want.data.push_back(1);
  have.data.push_back(1);
  return compare(want, have);
}

void runInLayouts(Harness &harness, ArrayRef<std::vector<int64_t>> someMeshes) {
  std::mt19937 random(13);
  Executor executor;
  for (const GradientCase &each : getGradientCases()) {
    if (isRefused(each.name))
      continue;
    OwningOpRef<ModuleOp> whole = harness.parse(each.text);
    ASSERT_TRUE(whole) << each.name;
    func::FuncOp function = getFunction(*whole);
    std::vector<BlockArgument> variables = addLoss(function);
    if (variables.empty())
      continue;
    ASSERT_TRUE(succeeded(returnGradients(function, variables))) << each.name;
    std::vector<Tensor> arguments = drawArguments(function, each, random), found;
    std::vector<Tensor> expected = Harness::runWhole(*whole, {}, arguments);
    RefinementAnalysis refinement(function);
    for (const auto &sizes : someMeshes) {
      MeshAttr mesh = makeMesh(harness.context, sizes);
      std::string text, problem;
      do {
        OwningOpRef<ModuleOp> module = cast<ModuleOp>(whole->getOperation()->clone());
        (*module)->setAttr(kMeshAttrName, mesh);
        for (auto [op, twin] : llvm::zip_equal(function.front().without_terminator(),
                                               getFunction(*module).front().without_terminator())) {
          std::vector<Assignment> choices = getAllAssignments(refinement.get(&op).rule, mesh);
          setAssignment(&twin, choices[random() % choices.size()]);
        }
        text.clear();
        llvm::raw_string_ostream(text) << *module;
        problem = executor.run(*module, arguments, found);
        // A partial maximum is no partial sum: the search puts no such layouts together.
      } while (StringRef(problem).contains("which cannot be made of"));
      EXPECT_EQ(problem, "") << each.name << "\n" << text;
      // The loss, the first result, may cancel out to rounding errors.
      for (size_t i = 1; problem.empty() && i < expected.size(); ++i)
        EXPECT_EQ(compareSums(expected[i], found[i]), "") << each.name << ", result " << i << "\n" << text;
    }
  }
}

TEST_F(Harness, GradientsOnOneRank) {
  runInLayouts(*this, {{1}});
}

TEST_F(Harness, GradientsInRandomLayouts) {
  runInLayouts(*this, {{2}, {3}});
}

} // namespace
