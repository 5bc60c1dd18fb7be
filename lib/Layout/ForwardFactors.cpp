//===- ForwardFactors.cpp - factors of a gradient and of what it is of ------===//
#include "ForwardFactors.h"

#include "dialects/Colossal/Colossal.h"

#include <map>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

bool layout::hasMatchedGradient(Operation *forward) {
  return isa<ContractOp, ConvOp, ConvTransposeOp>(forward);
}

/// Factors of a contraction by the labels of its operands.
static std::map<int64_t, unsigned> findLabels(ContractOp contraction, const FactorRule &rule) {
  std::map<int64_t, unsigned> factors;
  for (auto [labels, tensor] :
       {std::pair{contraction.getLhsDims(), 0u}, std::pair{contraction.getRhsDims(), 1u}})
    for (auto [label, dim] : llvm::zip_equal(labels, rule.operands[tensor]))
      factors[label] = dim.front();
  return factors;
}

static std::optional<unsigned> findRole(const FactorRule &rule, StringRef role) {
  for (auto [f, factor] : llvm::enumerate(rule.factors))
    if (factor.role == role)
      return f;
  return std::nullopt;
}

/// What a weight is a form of: taps in another order or number, channels exchanged, in another type.
static Value findSource(Value weight) {
  while (Operation *op = weight.getDefiningOp()) {
    const bool isForm =
        isa<ReshapeOp, TransposeOp, SliceOp>(op) || (isa<ElementwiseOp>(op) && op->getNumOperands() == 1);
    if (!isForm)
      break;
    weight = op->getOperand(0);
  }
  return weight;
}

namespace {
/// Roles of a convolution's factors, and those of the same indices in its gradient.
using Roles = ArrayRef<std::pair<StringRef, StringRef>>;
} // namespace

/// A contraction that a gradient of a convolution without groups is made by has the batch as label 0, and the
/// channels of what slides and of what it slides over as 1 and 2 (ConvolutionGradient.cpp).
static SmallVector<FactorMatch> matchLabels(const FactorRule &from, bool isTransposed, ContractOp gradient,
                                            const FactorRule &to) {
  const std::map<int64_t, unsigned> own = findLabels(gradient, to);
  const std::pair<StringRef, int64_t> labels[] = {
      {"batch", 0}, {"in_channels", isTransposed ? 1 : 2}, {"channels", isTransposed ? 2 : 1}};
  SmallVector<FactorMatch> matches;
  for (auto [role, label] : labels)
    if (const auto known = own.find(label); known != own.end())
      if (std::optional<unsigned> factor = findRole(from, role))
        matches.push_back({*factor, known->second});
  return matches;
}

static SmallVector<FactorMatch> matchRoles(const FactorRule &from, const FactorRule &to, Roles roles) {
  SmallVector<FactorMatch> matches;
  for (auto [role, ownRole] : roles) {
    std::optional<unsigned> factor = findRole(from, role), own = findRole(to, ownRole);
    if (factor && own)
      matches.push_back({*factor, *own});
  }
  return matches;
}

SmallVector<FactorMatch> layout::matchFactors(Operation *forward, const FactorRule &from, Operation *gradient,
                                              const FactorRule &to) {
  auto contraction = dyn_cast<ContractOp>(gradient);
  if (auto own = dyn_cast<ContractOp>(forward)) {
    SmallVector<FactorMatch> matches;
    if (!contraction)
      return matches;
    const std::map<int64_t, unsigned> known = findLabels(contraction, to);
    for (auto [label, factor] : findLabels(own, from))
      if (const auto at = known.find(label); at != known.end())
        matches.push_back({factor, at->second});
    return matches;
  }
  const bool isTransposed = isa<ConvTransposeOp>(forward);
  if (contraction)
    return matchLabels(from, isTransposed, contraction, to);
  if (!isa<ConvOp, ConvTransposeOp>(gradient))
    return {};
  if (findSource(gradient->getOperand(1)) == findSource(forward->getOperand(1)))
    return matchRoles(
        from, to,
        {{"batch", "batch"}, {"group", "group"}, {"in_channels", "channels"}, {"channels", "in_channels"}});
  // That of the weight: the batch is what is summed up, and what slides has the other channels.
  const StringRef over = isTransposed ? "channels" : "in_channels",
                  slides = isTransposed ? "in_channels" : "channels";
  return matchRoles(from, to,
                    {{"batch", "in_channels"}, {"group", "group"}, {over, "batch"}, {slides, "channels"}});
}
