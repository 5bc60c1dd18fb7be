//===- OpPrices.cpp - what ops take, before any layout is chosen ------------===//
#include "colossal/Layout/OpPrices.h"

#include "OpChoices.h"
#include "colossal/Cost/CostModel.h"
#include "colossal/FactorGraph/Reader.h"
#include "colossal/Partition/Refinement.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

/// Of an op; the plainest, which are as fast as any.
static constexpr size_t kMostPriced = 256;

static double priceFastest(Operation *op, const FactorRule &rule, MeshAttr mesh, const Costs &costs) {
  const factors::Operation described = factors::readOperation(op, rule);
  const Type element = getElementTypeOrSelf(op->getResult(0).getType());
  double least = std::numeric_limits<double>::infinity();
  CandidateLimits limits;
  limits.most = kMostPriced;
  Candidates candidates = enumerateAssignments(rule, mesh, limits);
  for (const Assignment &assignment : candidates.assignments) {
    double operands = 0, results = 0;
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (isa<RankedTensorType>(operand.getType()))
        operands += getLocalBytes(getOperandSharding(op, i, rule, assignment),
                                  getElementTypeOrSelf(operand.getType()), mesh);
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      results += getLocalBytes(getResultSharding(op, i, rule, assignment),
                               getElementTypeOrSelf(result.getType()), mesh);
    least = std::min(least, costs.getOpSeconds(described, element, assignment, operands, results));
  }
  return least;
}

OpPrices layout::priceOps(func::FuncOp function, MeshAttr mesh, int64_t ranks, const cost::Machine &machine) {
  OpPrices prices;
  Costs costs(machine, mesh, ranks);
  RefinementAnalysis refinement(function);
  // Equal ops share one rule.
  llvm::DenseMap<const RefinedRule *, double> known;
  for (Operation &op : function.front()) {
    auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
    if (!ruled)
      continue;
    const RefinedRule &refined = refinement.get(&op);
    auto [entry, isNew] = known.try_emplace(&refined, 0);
    if (isNew && ruled.getFlops() > 0)
      entry->second = priceFastest(&op, refined.rule, mesh, costs);
    prices.seconds[&op] = known[&refined];
  }
  cost::CostModel network(machine);
  auto all = static_cast<int>(ranks), stride = static_cast<int>(mesh.getNumRanks());
  prices.messageSeconds = [=](double bytes) {
    return network.seconds(cost::Collective::Permute, bytes, {std::max(2, all / stride), stride, all});
  };
  return prices;
}
