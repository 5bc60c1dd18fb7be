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

/// A convolution along one dimension whose result has `places` places; `unread` elements lie behind the last
/// window.
GradientCase makeConvolution(int64_t places, int64_t kernel, int64_t stride, int64_t dilation, int64_t low,
                             int64_t group, int64_t unread) {
  const int64_t size =
      std::max<int64_t>(1, (places - 1) * stride + dilation * (kernel - 1) + 1 - low + unread);
  auto type = [](int64_t a, int64_t b, int64_t c) {
    return "tensor<" + std::to_string(a) + "x" + std::to_string(b) + "x" + std::to_string(c) + "xf32>";
  };
  const std::string x = type(2, 2, size), w = type(4, 2 / group, kernel), y = type(2, 4, places);
  std::string attributes = "strides = array<i64: " + std::to_string(stride) +
                           ">, dilations = array<i64: " + std::to_string(dilation) +
                           ">, pads = array<i64: " + std::to_string(low) + ", " +
                           std::to_string(dilation * kernel) + ">, group = " + std::to_string(group) +
                           " : i64";
  return {"conv {" + attributes + "} of " + std::to_string(size),
          "func.func @main(%x: " + x + ", %w: " + w + ") -> " + y + " {\n  %y = colossal.conv(%x, %w) {" +
              attributes + "} : (" + x + ", " + w + ") -> " + y + "\n  return %y : " + y + "\n}\n"};
}

// Windows that overlap, touch or leave gaps, taps that share a factor with the stride, pads on either side,
// and what no window reads. The last is of a stride beyond what is put together of convolutions.
TEST_F(Gradients, OfConvolutionsWithEveryWindowEqualDifferences) {
  unsigned compared = 0;
  auto compare = [&](const GradientCase &each) {
    EXPECT_EQ(compareWithDifferences(each, compared), "") << each.name;
  };
  for (int64_t stride : {1, 2, 3, 4})
    for (int64_t kernel : {1, 2, 3, 5})
      for (int64_t dilation : {1, 2})
        for (int64_t low : {0, 2})
          for (int64_t group : {1, 2})
            compare(makeConvolution(3, kernel, stride, dilation, low, group, (stride + kernel) % 3));
  compare(makeConvolution(2, 67, 65, 1, 3, 1, 0));
  EXPECT_GT(compared, 2000u);
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
