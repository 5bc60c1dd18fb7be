//===- CandidatesTest.cpp - the layouts that the search looks at --------------===//
//
// Of the search's candidates nothing is missing but what the header says: all assignments that the harnesses
// run, axes that share a factor in every order and axes on none among them.
//
//===----------------------------------------------------------------------===//
#include "lib/Layout/Candidates.h"
#include "Layouts.h"

#include <algorithm>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::test;

namespace {

/// A contraction of sizes that all axes of the tests divide: m, n and k.
FactorRule makeContraction(int64_t size) {
  FactorRule rule;
  unsigned m = rule.add(size), n = rule.add(size), k = rule.add(size, FactorKind::Reduction);
  rule.operands = {{{m}, {k}}, {{k}, {n}}};
  rule.results = {{{m}, {n}}};
  return rule;
}

/// C(k, j) f (f + 1) ... (f + j - 1), summed over j.
size_t countPlacements(size_t axes, size_t factors) {
  size_t sum = 0, chosen = 1, placed = 1;
  for (size_t j = 0; j <= axes; ++j) {
    sum += chosen * placed;
    chosen = chosen * (axes - j) / (j + 1);
    placed *= factors + j;
  }
  return sum;
}

TEST_F(Harness, CandidatesAreAllOrdersAndIdleAxes) {
  FactorRule rule = makeContraction(1024);
  for (const std::vector<int64_t> &sizes :
       std::vector<std::vector<int64_t>>{{2}, {2, 4}, {2, 2, 2}, {2, 1, 4}, {2, 2, 2, 2}}) {
    MeshAttr mesh = makeMesh(context, sizes);
    layout::Candidates found = layout::enumerateAssignments(rule, mesh);
    EXPECT_TRUE(found.isWhole);
    size_t axes = llvm::count_if(sizes, [](int64_t size) { return size > 1; });
    EXPECT_EQ(found.assignments.size(), countPlacements(axes, 3));
    // The harnesses' own list, without axes of one rank, which split nothing.
    for (const Assignment &wanted : getAllAssignments(rule, mesh)) {
      bool usesOne = llvm::any_of(wanted, [&](const auto &axes) {
        return llvm::any_of(axes, [&](unsigned axis) { return mesh.getAxisSize(axis) == 1; });
      });
      EXPECT_EQ(llvm::is_contained(found.assignments, wanted), !usesOne);
    }
  }
}

TEST_F(Harness, CandidatesOfManyAxesAreCutAndSaySo) {
  FactorRule rule = makeContraction(1 << 20);
  MeshAttr mesh = makeMesh(context, std::vector<int64_t>(16, 2));
  layout::CandidateLimits limits;
  limits.most = 200;
  layout::Candidates found = layout::enumerateAssignments(rule, mesh, limits);
  EXPECT_FALSE(found.isWhole);
  ASSERT_EQ(found.assignments.size(), 200u);
  // The replicated one, and every factor over all axes in the mesh's order.
  EXPECT_EQ(found.assignments.front(), Assignment(3));
  for (unsigned f = 0; f < 3; ++f) {
    Assignment wanted(3);
    for (unsigned axis = 0; axis < 16; ++axis)
      wanted[f].push_back(axis);
    EXPECT_TRUE(llvm::is_contained(found.assignments, wanted)) << "factor " << f;
  }
}

TEST_F(Harness, FewerCandidatesAreAmongMore) {
  FactorRule rule = makeContraction(1024);
  MeshAttr mesh = makeMesh(context, {2, 2, 2, 2});
  layout::Candidates all = layout::enumerateAssignments(rule, mesh), some = all, fewer = all;
  layout::keepPlainest(some, rule, mesh, 300);
  layout::keepPlainest(fewer, rule, mesh, 100);
  EXPECT_EQ(some.assignments.size(), 300u);
  EXPECT_EQ(fewer.assignments.size(), 100u);
  for (const Assignment &each : fewer.assignments)
    EXPECT_TRUE(llvm::is_contained(some.assignments, each));
}

} // namespace
