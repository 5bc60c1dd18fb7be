//===- CommonFactors.cpp - two layouts as axes on the same factors ----------===//
#include "CommonFactors.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <functional>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

Dim dist::toDigits(DimShardingAttr attr, MeshAttr mesh) {
  Dim dim;
  for (FactorShardAttr factor : attr.getFactors()) {
    int64_t ranks = 1;
    for (unsigned axis : factor.getAxes())
      ranks *= mesh.getAxisSize(axis);
    if (factor.getAxes().empty() || factor.getSize() % ranks != 0 || factor.getSize() == 0) {
      dim.push_back({factor.getSize(), SmallVector<unsigned, 2>(factor.getAxes())});
      continue;
    }
    for (unsigned axis : factor.getAxes())
      dim.push_back({mesh.getAxisSize(axis), {axis}});
    if (factor.getSize() != ranks)
      dim.push_back({factor.getSize() / ranks, {}});
  }
  return dim;
}

/// Cuts factors of `dim` without axes so that its cuts are `cuts` (descending inner products, ending with 1).
/// False where a cut falls into a factor with axes or does not divide.
static bool refineTo(Dim &dim, ArrayRef<int64_t> cuts) {
  Dim refined;
  int64_t inner = 1;
  for (const ShardedFactor &place : dim)
    inner *= place.size;
  size_t next = 0;
  for (const ShardedFactor &place : dim) {
    int64_t outer = inner;
    inner /= place.size;
    SmallVector<int64_t, 4> inside;
    for (; next < cuts.size() && cuts[next] >= inner; ++next)
      inside.push_back(cuts[next]);
    if (place.axes.empty()) {
      for (int64_t cut : inside) {
        if (outer % cut != 0)
          return false;
        refined.push_back({outer / cut, {}});
        outer = cut;
      }
    } else {
      if (inside.size() != 1 || inside.front() != inner)
        return false;
      refined.push_back(place);
    }
  }
  dim = refined;
  return true;
}

namespace {
/// A factor of size 1 that carries axes (all but one rank hold padding only), at the cut where it stands.
struct Unit {
  int64_t cut;
  SmallVector<unsigned, 2> axes;
};
} // namespace

static SmallVector<Unit, 2> takeUnits(Dim &dim) {
  SmallVector<Unit, 2> units;
  if (llvm::none_of(dim, [](const ShardedFactor &place) { return place.size == 1; }))
    return units; // as nearly always
  Dim rest;
  int64_t inner = 1;
  for (const ShardedFactor &place : llvm::reverse(dim)) {
    if (place.size == 1)
      units.push_back({inner, place.axes});
    else
      rest.insert(rest.begin(), place);
    inner *= place.size;
  }
  dim = rest;
  return units;
}

/// Puts units back into both dimensions at their cuts; units of one dimension face empty ones of the other.
static bool putUnits(Dim &a, Dim &b, ArrayRef<Unit> ofA, ArrayRef<Unit> ofB) {
  if (ofA.empty() && ofB.empty())
    return true;
  Dim newA, newB;
  size_t placed = 0;
  int64_t inner = 1;
  auto putAt = [&](int64_t cut) {
    SmallVector<ShardedFactor, 2> onA, onB;
    for (const Unit &unit : ofA)
      if (unit.cut == cut)
        onA.push_back({1, unit.axes});
    for (const Unit &unit : ofB)
      if (unit.cut == cut)
        onB.push_back({1, unit.axes});
    placed += onA.size() + onB.size();
    size_t count = std::max(onA.size(), onB.size());
    onA.resize(count, {1, {}});
    onB.resize(count, {1, {}});
    newA.insert(newA.begin(), onA.rbegin(), onA.rend());
    newB.insert(newB.begin(), onB.rbegin(), onB.rend());
  };
  putAt(1);
  for (size_t i = a.size(); i-- > 0;) {
    newA.insert(newA.begin(), a[i]);
    newB.insert(newB.begin(), b[i]);
    inner *= a[i].size;
    putAt(inner);
  }
  a = newA;
  b = newB;
  return placed == ofA.size() + ofB.size();
}

bool dist::unify(Dim &a, Dim &b) {
  SmallVector<int64_t, 8> cuts;
  Dim refinedA = a, refinedB = b;
  SmallVector<Unit, 2> ofA = takeUnits(refinedA), ofB = takeUnits(refinedB);
  for (const Dim *dim : {&refinedA, &refinedB}) {
    int64_t inner = 1;
    for (const ShardedFactor &place : llvm::reverse(*dim)) {
      if (place.size == 0)
        return false;
      cuts.push_back(inner);
      inner *= place.size;
    }
  }
  llvm::sort(cuts, std::greater<>());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  if (!refineTo(refinedA, cuts) || !refineTo(refinedB, cuts) || !putUnits(refinedA, refinedB, ofA, ofB))
    return false;
  a = refinedA;
  b = refinedB;
  return true;
}

State dist::makeState(ShardingAttr sharding, MeshAttr mesh) {
  State state;
  for (DimShardingAttr dim : sharding.getDims())
    state.dims.push_back(toDigits(dim, mesh));
  state.partial.assign(sharding.getPartialAxes().begin(), sharding.getPartialAxes().end());
  llvm::sort(state.partial);
  return state;
}
