//===- FiniteDifferenceTest.cpp - gradients against differences of values ---===//
//
// Each case in f64: the gradient of a loss that depends on all results, element by element, against central
// differences of the loss. Values come from the interpreter of the layout harness.
//
//===----------------------------------------------------------------------===//
#include "GradientCases.h"

#include "mlir/IR/Verifier.h"

#include <cmath>

using namespace mlir;
using namespace colossal;
using namespace colossal::test;

namespace {

/// What has no gradient, and says so.
bool isRefused(const std::string &name) {
  return name == "roi_max_pool" || name == "pool_gradient.max";
}

struct Gradients : Harness {
  /// "" where the gradients of `each` are what differences say, otherwise what is wrong. Counts the elements
  /// that were compared.
  std::string compareWithDifferences(const GradientCase &each, unsigned &compared);
};

std::string Gradients::compareWithDifferences(const GradientCase &each, unsigned &compared) {
  OwningOpRef<ModuleOp> module = parse(inDoublePrecision(each.text));
  if (!module)
    return "does not parse\n" + each.text;
  std::vector<BlockArgument> variables = addLoss(getFunction(*module));
  if (variables.empty())
    return "";
  OwningOpRef<ModuleOp> twin = cast<ModuleOp>(module->getOperation()->clone());
  if (failed(returnGradients(getFunction(*module), variables)) || failed(verify(*module)))
    return "cannot be differentiated";
  std::mt19937 random(5);
  std::vector<Tensor> arguments = drawArguments(getFunction(*module), each, random);
  std::vector<Tensor> results = runWhole(*module, {}, arguments);
  constexpr double kStep = 1e-5;
  for (auto [v, variable] : llvm::enumerate(variables)) {
    const Tensor &gradient = results[1 + v];
    double largest = 1;
    for (double value : gradient.data)
      largest = std::max(largest, std::fabs(value));
    for (size_t e = 0; e < gradient.data.size(); ++e) {
      auto lossAt = [&](double moved) {
        std::vector<Tensor> there = arguments;
        there[variable.getArgNumber()].data[e] += moved;
        return runWhole(*twin, {}, there)[0].data[0];
      };
      double difference = (lossAt(kStep) - lossAt(-kStep)) / (2 * kStep);
      ++compared;
      if (!(std::fabs(difference - gradient.data[e]) <= 1e-6 * largest))
        return "argument " + std::to_string(v) + ", element " + std::to_string(e) + ": gradient " +
               std::to_string(gradient.data[e]) + ", difference " + std::to_string(difference);
    }
  }
  return "";
}

TEST_F(Gradients, EqualFiniteDifferences) {
  unsigned compared = 0;
  for (const GradientCase &each : getGradientCases()) {
    if (isRefused(each.name))
      continue;
    EXPECT_EQ(compareWithDifferences(each, compared), "") << each.name;
  }
  EXPECT_GT(compared, 3000u);
}

// At its kink the gradient of relu is 0, and the difference a half: the comparison sees what is not equal.
TEST_F(Gradients, ComparisonSeesAnotherGradient) {
  GradientCase kink{"kink",
                    "func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {\n"
                    "  %one = colossal.constant dense<1.0> : tensor<1xf32> : tensor<1xf32>\n"
                    "  %s = colossal.elementwise sub(%a, %one) : (tensor<3xf32>, tensor<1xf32>) -> "
                    "tensor<3xf32>\n"
                    "  %y = colossal.elementwise relu(%s) : (tensor<3xf32>) -> tensor<3xf32>\n"
                    "  return %y : tensor<3xf32>\n}\n",
                    1, 1};
  unsigned compared = 0;
  EXPECT_NE(compareWithDifferences(kink, compared), "");
  EXPECT_EQ(compared, 1u);
}

} // namespace
