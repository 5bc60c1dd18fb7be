//===- GradientCases.h - programs whose gradients are tested ----------------===//
//
// Every op of the layout harness, and what it has no case for: all kinds of elementwise ops and reductions,
// all modes of pads, pools and resampling.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_TEST_AUTODIFF_GRADIENTCASES_H
#define COLOSSAL_TEST_AUTODIFF_GRADIENTCASES_H

#include "../Partition/Layouts.h"

#include <optional>

namespace colossal::test {

struct GradientCase {
  std::string name;
  std::string text; ///< of the function
  /// Real arguments are drawn from [low, high).
  double low = -2, high = 2;
};

std::vector<GradientCase> getGradientCases();

/// What has no gradient, and says so.
bool isRefused(const std::string &name);

/// The same text with f32 as f64.
std::string inDoublePrecision(std::string text);

/// Random values for all arguments of the function.
std::vector<Tensor> drawArguments(mlir::func::FuncOp function, const GradientCase &each,
                                  std::mt19937 &random);

/// Makes `function` return the sum of the real elements of its results, each times one of new last arguments:
/// a loss that depends on all of them. Returns the real arguments that it had; none where no result is real.
std::vector<mlir::BlockArgument> addLoss(mlir::func::FuncOp function);

/// Makes a function that returns a loss return it and its gradients by `variables`.
mlir::LogicalResult returnGradients(mlir::func::FuncOp function,
                                    llvm::ArrayRef<mlir::BlockArgument> variables);

} // namespace colossal::test

#endif // COLOSSAL_TEST_AUTODIFF_GRADIENTCASES_H
