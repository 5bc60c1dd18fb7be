//===- Candidates.cpp - the layouts worth trying for one op -----------------===//
#include "Candidates.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

static bool isWorthSplitting(const Factor &factor, ArrayRef<unsigned> axes, MeshAttr mesh,
                             const CandidateLimits &limits) {
  if (factor.kind == FactorKind::Carried)
    return limits.carriesSums;
  int64_t ranks = 1;
  for (unsigned axis : axes)
    ranks *= mesh.getAxisSize(axis);
  if (factor.size < ranks || (factor.operandSize >= 0 && factor.operandSize < ranks))
    return false;
  int64_t padded = getLocalSize(factor.size, axes, mesh) * ranks;
  return factor.even ? padded == factor.size : padded <= factor.size * (1.0 + limits.padding);
}

/// Keeps the first of `found`, the replicated one, and those of the others that split the fewest and largest
/// factors.
static void keepPlainest(std::vector<Assignment> &found, const FactorRule &rule, size_t count) {
  auto rank = [&](const Assignment &assignment) {
    int split = 0;
    double room = 0;
    for (auto [factor, axes] : llvm::zip_equal(rule.factors, assignment))
      if (!axes.empty()) {
        ++split;
        room += axes.size() * std::log2(static_cast<double>(factor.size));
      }
    return std::pair(split, -room);
  };
  std::stable_sort(found.begin() + 1, found.end(),
                   [&](const Assignment &a, const Assignment &b) { return rank(a) < rank(b); });
  found.resize(count);
}

std::vector<Assignment> layout::enumerateAssignments(const FactorRule &rule, MeshAttr mesh,
                                                     const CandidateLimits &limits) {
  std::vector<Assignment> found{Assignment(rule.factors.size())};
  std::vector<unsigned> unused{0};
  auto mixesReductions = [&](const Assignment &assignment) {
    std::optional<ReductionKind> kind;
    for (auto [factor, axes] : llvm::zip_equal(rule.factors, assignment))
      if ((factor.kind == FactorKind::Reduction || factor.kind == FactorKind::Carried) && !axes.empty()) {
        if (kind && *kind != factor.reduction)
          return true;
        kind = factor.reduction;
      }
    return false;
  };
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis) {
    if (mesh.getAxisSize(axis) == 1)
      continue;
    size_t before = found.size();
    for (size_t i = 0; i < before; ++i) {
      for (auto [f, factor] : llvm::enumerate(rule.factors)) {
        if (factor.kind == FactorKind::Whole)
          continue;
        Assignment next = found[i];
        next[f].push_back(axis);
        if (!isWorthSplitting(factor, next[f], mesh, limits) || mixesReductions(next))
          continue;
        found.push_back(next);
        unused.push_back(unused[i]);
      }
      ++unused[i];
    }
  }
  // Too many: keep those that use the most axes, but always the replicated one.
  for (unsigned allowed = mesh.getNumAxes(); found.size() > limits.count && allowed > 0; --allowed) {
    size_t kept = 1;
    for (size_t i = 1; i < found.size(); ++i)
      if (unused[i] < allowed) {
        found[kept] = found[i];
        unused[kept++] = unused[i];
      }
    if (kept == 1)
      break;
    found.resize(kept);
    unused.resize(kept);
  }
  if (found.size() > limits.most)
    keepPlainest(found, rule, limits.most);
  return found;
}

double layout::getLocalShare(const FactorRule &rule, const Assignment &assignment, MeshAttr mesh) {
  double share = 1.0;
  for (auto [factor, axes] : llvm::zip_equal(rule.factors, assignment))
    if (!axes.empty() && factor.size > 0)
      share *= static_cast<double>(getLocalSize(factor.size, axes, mesh)) / factor.size;
  return share;
}
