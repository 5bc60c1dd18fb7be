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

/// How far an assignment strays from all of the first `axes` axes on one factor, in the mesh's order: axes on
/// none, factors beyond the first, and pairs of axes that stand the other way round.
static int getStrays(const Assignment &assignment, int axes) {
  int strays = axes, split = 0;
  for (const auto &placed : assignment) {
    split += !placed.empty();
    strays -= static_cast<int>(placed.size());
    for (size_t i = 0; i < placed.size(); ++i)
      for (size_t j = i + 1; j < placed.size(); ++j)
        strays += placed[i] > placed[j];
  }
  return strays + std::max(split - 1, 0);
}

void layout::keepPlainest(Candidates &candidates, const FactorRule &rule, MeshAttr mesh, size_t most) {
  std::vector<Assignment> &all = candidates.assignments;
  if (all.size() <= most)
    return;
  candidates.isWhole = false;
  struct Rank {
    int strays;
    double room;
    size_t place;
  };
  std::vector<Rank> ranks;
  for (size_t i = 1; i < all.size(); ++i) {
    double room = 0;
    for (auto [factor, axes] : llvm::zip_equal(rule.factors, all[i]))
      room += axes.size() * std::log2(static_cast<double>(std::max<int64_t>(1, factor.size)));
    ranks.push_back({getStrays(all[i], mesh.getNumAxes()), room, i});
  }
  std::stable_sort(ranks.begin(), ranks.end(), [](const Rank &a, const Rank &b) {
    return a.strays != b.strays ? a.strays < b.strays : a.room > b.room;
  });
  ranks.resize(most - 1);
  // In the order in which they were found: among equals the solver takes the first.
  std::sort(ranks.begin(), ranks.end(), [](const Rank &a, const Rank &b) { return a.place < b.place; });
  std::vector<Assignment> kept{std::move(all.front())};
  for (const Rank &rank : ranks)
    kept.push_back(std::move(all[rank.place]));
  all = std::move(kept);
}

layout::Candidates layout::enumerateAssignments(const FactorRule &rule, MeshAttr mesh,
                                                const CandidateLimits &limits) {
  Candidates candidates;
  std::vector<Assignment> &found = candidates.assignments;
  found.emplace_back(rule.factors.size());
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
    if (mesh.getRankSizes()[axis] == 1)
      continue;
    size_t before = found.size();
    for (size_t i = 0; i < before; ++i)
      for (auto [f, factor] : llvm::enumerate(rule.factors)) {
        if (factor.kind == FactorKind::Whole)
          continue;
        // Behind the others first: the mesh's own order goes before the others.
        for (size_t place = found[i][f].size() + 1; place-- > 0;) {
          // What no tensor holds has no order.
          if (factor.kind == FactorKind::Carried && place < found[i][f].size())
            break;
          Assignment next = found[i];
          next[f].insert(next[f].begin() + place, axis);
          if (isWorthSplitting(factor, next[f], mesh, limits) && !mixesReductions(next))
            found.push_back(std::move(next));
        }
      }
    keepPlainest(candidates, rule, mesh, limits.most);
  }
  return candidates;
}
