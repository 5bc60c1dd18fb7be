//===- Costs.cpp - seconds of ops and collectives on a mesh -----------------===//
#include "Costs.h"

#include "Candidates.h"
#include "colossal/Cost/MeshGroups.h"
#include "colossal/Layout/CostTypes.h"

#include <algorithm>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

cost::DataType layout::getCostType(Type element) {
  if (element.isF64())
    return cost::DataType::F64;
  if (element.isF16())
    return cost::DataType::F16;
  if (element.isBF16())
    return cost::DataType::BF16;
  if (element.isInteger())
    return element.getIntOrFloatBitWidth() < 32 ? cost::DataType::I8 : cost::DataType::I32;
  return cost::DataType::F32;
}

Costs::Costs(cost::Machine machine, MeshAttr mesh, int64_t ranks)
    : pricing(cost::makePricing(machine, ranks)), mesh(mesh), ranks(ranks) {}

int64_t Costs::getMemoryBytes() const {
  return getMachine().memoryOfRank(ranks);
}

/// Operations per element read or written from which on an op is bound by computing: attention has some
/// hundreds, pooling and normalization a few.
static constexpr double kComputeBound = 16;

/// A heavy op in the cost model's terms, which follow from where its factors stand: m in the first operand
/// and the result, n in the second and the result, batch in all, k in no result. An op is a contraction if
/// each point of its factors' product is one multiply and add, and a convolution if it has windows as well.
static cost::OpWork describeWork(Operation *op, const FactorRule &rule, const Assignment &assignment,
                                 MeshAttr mesh, double flops, double operandBytes, double resultBytes) {
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  double all = 2, elementBytes = getElementBytes(result.getElementType());
  for (const Factor &factor : rule.factors)
    all *= factor.size;
  cost::OpWork work;
  work.type = getCostType(result.getElementType());
  bool isProduct =
      rule.operands.size() >= 2 && !rule.operands[1].empty() && std::abs(flops - all) < 1e-3 * all;
  auto holds = [](const TensorFactors &tensor, unsigned factor) {
    return llvm::any_of(tensor, [&](const DimFactors &dim) { return llvm::is_contained(dim, factor); });
  };
  double share = getLocalShare(rule, assignment, mesh),
         elements = (operandBytes + resultBytes) / elementBytes;
  if (!isProduct) {
    work.kind =
        flops * share > kComputeBound * elements ? cost::OpKind::FusedAttention : cost::OpKind::Streaming;
    work.bytes = operandBytes + resultBytes;
    // As one product of that many operations; attention's own shape does not change its rate.
    work.batch = flops * share / 4;
    work.m = work.n = work.k = 1;
    return work;
  }
  work.kind = cost::OpKind::Contraction;
  work.bytes = operandBytes + resultBytes;
  work.m = work.n = work.k = 1;
  for (auto [f, factor] : llvm::enumerate(rule.factors)) {
    double size = factor.size > 0 && !assignment[f].empty() ? getLocalSize(factor.size, assignment[f], mesh)
                                                            : static_cast<double>(factor.size);
    bool first = holds(rule.operands[0], f), second = holds(rule.operands[1], f),
         out = holds(rule.results[0], f);
    (!out ? work.k : first && second ? work.batch : first ? work.m : work.n) *= size;
    if (factor.operandSize >= 0)
      work.kind = cost::OpKind::Convolution;
  }
  return work;
}

/// Work of the last rank over the average one's. A mask that hides what lies behind an element (causal
/// attention) leaves rank i of n contiguous parts (2 i + 1) / n of the average, and all wait for the last.
static double getLastShare(const FactorRule &rule, const Assignment &assignment, MeshAttr mesh) {
  if (rule.operands.empty() || rule.results.empty())
    return 1;
  auto holds = [](const TensorFactors &tensor, unsigned factor) {
    return llvm::any_of(tensor, [&](const DimFactors &dim) { return llvm::is_contained(dim, factor); });
  };
  double share = 1;
  for (auto [f, factor] : llvm::enumerate(rule.factors)) {
    if (!factor.indexed || !holds(rule.operands[0], f) || !holds(rule.results[0], f))
      continue;
    // As many elements are looked at as look: with more, all ranks see most of them.
    bool isSquare = false;
    for (auto [k, other] : llvm::enumerate(rule.factors))
      isSquare |= k != f && other.size == factor.size && !holds(rule.results[0], k);
    double parts = 1;
    for (unsigned axis : assignment[f])
      parts *= static_cast<double>(mesh.getAxisSize(axis));
    if (isSquare)
      share *= 2 - 1 / parts;
  }
  return share;
}

double Costs::getOpSeconds(Operation *op, const FactorRule &rule, const Assignment &assignment,
                           double operandBytes, double resultBytes) const {
  auto ruled = cast<ShardingRuleOpInterface>(op);
  double flops = ruled.getFlops();
  if (flops <= 0)
    return 0;
  if (!ruled.isHeavy())
    return pricing->fusedSeconds(flops * getLocalShare(rule, assignment, mesh), resultBytes);
  flops *= getLastShare(rule, assignment, mesh);
  return pricing->kernelSeconds(describeWork(op, rule, assignment, mesh, flops, operandBytes, resultBytes));
}

double Costs::getCollectiveSeconds(cost::Collective kind, double bytes, ArrayRef<unsigned> axes) const {
  SmallVector<int64_t> sizes = mesh.getRankSizes();
  return cost::secondsOver(pricing->network(), kind, bytes,
                           cost::groupsOf({sizes.begin(), sizes.end()}, axes.vec()));
}

double Costs::getMoveSeconds(MoveKind kind, double bytes, ArrayRef<unsigned> axes) const {
  switch (kind) {
  case MoveKind::AllGather: return getCollectiveSeconds(cost::Collective::AllGather, bytes, axes);
  case MoveKind::AllReduce: return getCollectiveSeconds(cost::Collective::AllReduce, bytes, axes);
  case MoveKind::ReduceScatter: return getCollectiveSeconds(cost::Collective::ReduceScatter, bytes, axes);
  case MoveKind::AllToAll: return getCollectiveSeconds(cost::Collective::AllToAll, bytes, axes);
  case MoveKind::Slice:
  case MoveKind::KeepFirst: // read and written once, mostly by the kernel that uses it
    return pricing->kernelSeconds(cost::streaming(bytes, 0));
  case MoveKind::LoopSlice: return 0;
  }
  return 0;
}

bool Costs::areAxesAlike() const {
  return getMachine().areRanksAlike(mesh.getNumRanks());
}

double Costs::getExchangeSeconds(double bytes, ArrayRef<unsigned> axes) const {
  return 2 * getCollectiveSeconds(cost::Collective::Permute, bytes / 2, axes);
}
