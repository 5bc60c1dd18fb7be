//===- Costs.cpp - seconds of ops and collectives on a mesh -----------------===//
#include "Costs.h"

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

static double getLocalSize(const factors::Factor &factor, ArrayRef<unsigned> axes, MeshAttr mesh) {
  return static_cast<double>(dist::getLocalSize(static_cast<int64_t>(factor.size), axes, mesh));
}

/// The share of an op's work that one rank does: the product of local over global sizes of its split factors.
static double getLocalShare(const factors::Operation &op, const Assignment &assignment, MeshAttr mesh) {
  double share = 1;
  for (auto [factor, axes] : llvm::zip_equal(op.factors, assignment))
    if (!axes.empty())
      share *= getLocalSize(factor, axes, mesh) / factor.size;
  return share;
}

static bool holds(const factors::Use &use, size_t factor) {
  return llvm::any_of(use.places, [&](const factors::FactorPosition &place) {
    return place.factor == static_cast<int>(factor);
  });
}

/// A heavy op in the cost model's terms, which follow from where its factors stand: m in the first operand
/// and the result, n in the second and the result, batch in all, k in no result. An op is a contraction if
/// each point of its factors' product is one multiply and add, and a convolution if it has windows as well.
static cost::OpWork describeWork(const factors::Operation &op, Type element, const Assignment &assignment,
                                 MeshAttr mesh, double flops, double operandBytes, double resultBytes) {
  double all = 2;
  for (const factors::Factor &factor : op.factors)
    all *= factor.size;
  cost::OpWork work;
  work.type = getCostType(element);
  bool isProduct =
      op.operands.size() >= 2 && !op.operands[1].places.empty() && std::abs(flops - all) < 1e-3 * all;
  double share = getLocalShare(op, assignment, mesh),
         elements = (operandBytes + resultBytes) / getElementBytes(element);
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
  for (auto [f, factor] : llvm::enumerate(op.factors)) {
    bool first = holds(op.operands[0], f), second = holds(op.operands[1], f), out = holds(op.results[0], f);
    (!out              ? work.k
     : first && second ? work.batch
     : first           ? work.m
                       : work.n) *= getLocalSize(factor, assignment[f], mesh);
    if (factor.window)
      work.kind = cost::OpKind::Convolution;
  }
  return work;
}

/// Work of the busiest rank over the average one's. A mask that hides what lies behind an element (causal
/// attention) leaves rank i of n contiguous parts of those that look (2 i + 1) / n of the average, and of
/// those that are looked at as much to rank n - 1 - i; all wait for the busiest. No rank does more than
/// without a mask.
static double getBusiestShare(const factors::Operation &op, const Assignment &assignment, MeshAttr mesh) {
  if (op.operands.empty() || op.results.empty())
    return 1;
  double share = 1;
  for (auto [f, factor] : llvm::enumerate(op.factors)) {
    if (!factor.indexed)
      continue;
    const bool looks = holds(op.operands[0], f) && holds(op.results[0], f);
    // As many elements are looked at as look: with more, all ranks see most of them.
    bool isSquare = false;
    for (auto [k, other] : llvm::enumerate(op.factors))
      isSquare |=
          k != f && other.size == factor.size &&
          (looks ? !holds(op.results[0], k)
                 : factor.staged && other.indexed && holds(op.operands[0], k) && holds(op.results[0], k));
    double parts = 1;
    for (unsigned axis : assignment[f])
      parts *= static_cast<double>(mesh.getAxisSize(axis));
    if (isSquare)
      share *= 2 - 1 / parts;
  }
  return std::min(share, 2.0);
}

double Costs::getOpSeconds(const factors::Operation &op, Type element, const Assignment &assignment,
                           double operandBytes, double resultBytes) const {
  if (op.flops <= 0)
    return 0;
  if (!op.heavy)
    return pricing->fusedSeconds(op.flops * getLocalShare(op, assignment, mesh), resultBytes);
  const double flops = op.flops * getBusiestShare(op, assignment, mesh);
  return pricing->kernelSeconds(
      describeWork(op, element, assignment, mesh, flops, operandBytes, resultBytes));
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
