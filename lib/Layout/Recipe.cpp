//===- Recipe.cpp - the layouts of the papers ---------------------------------===//
#include "Recipe.h"

#include "Candidates.h"
#include "Costs.h"

#include "colossal/Layout/Layout.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

static constexpr StringRef kNames[] = {"1d", "sequence", "ulysses", "2d", "2.5d", "3d"};

ArrayRef<StringRef> Recipe::getNames() {
  return kNames;
}

StringRef Recipe::getName() const {
  return kNames[static_cast<size_t>(kind)];
}

unsigned layout::getRecipeAxes(StringRef name) {
  return name == "2d" ? 2 : name == "2.5d" || name == "3d" ? 3 : 1;
}

std::optional<Recipe> Recipe::make(const std::string &name, MeshAttr mesh, std::string &error) {
  const StringRef *found = llvm::find(kNames, name);
  if (found == std::end(kNames)) {
    error = "unknown layout '" + name + "'; there are " + llvm::join(getNames(), ", ");
    return std::nullopt;
  }
  Recipe recipe(static_cast<Kind>(found - kNames), mesh);
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis) {
    if (mesh.getAxes()[axis].getLoop())
      continue;
    if (mesh.getAxes()[axis].getName() == "data")
      recipe.dataAxes.push_back(axis);
    else if (mesh.getAxisSize(axis) > 1 || recipe.kind >= Kind::TwoD)
      recipe.axes.push_back(axis);
  }
  struct Shape {
    const char *text, *example;
  };
  std::optional<Shape> shape;
  if (recipe.kind == Kind::TwoD)
    shape = {"rows and columns", "--mesh 2x2"};
  else if (recipe.kind == Kind::TwoHalfD)
    shape = {"depth, rows and columns", "--mesh 2x2x2"};
  else if (recipe.kind == Kind::ThreeD)
    shape = {"M, K and N", "--mesh 2x2x2"};
  if (unsigned axes = getRecipeAxes(name); shape && recipe.axes.size() != axes) {
    error = "layout '" + name + "' takes a mesh of " + std::to_string(axes) + " axes (" + shape->text +
            ", such as " + shape->example + "), beside which there may be one named 'data'; this mesh has " +
            std::to_string(recipe.axes.size());
    return std::nullopt;
  }
  return recipe;
}

std::string layout::checkRecipe(const std::string &recipe, MeshAttr mesh) {
  std::string error;
  if (!recipe.empty())
    (void)Recipe::make(recipe, mesh, error);
  return error;
}

bool Recipe::isContraction(Operation *op) const {
  auto found = infos.find(op);
  return found != infos.end() && !found->second.dims.empty();
}

bool Recipe::hasWeights(Operation *op) const {
  auto found = infos.find(op);
  return found != infos.end() && found->second.hasWeights;
}

bool Recipe::isPlaced(Operation *op) const {
  return isContraction(op) || infos.find(op)->second.isEntry;
}

bool Recipe::splitsHeads(Operation *op) const {
  auto found = infos.find(op);
  return found != infos.end() && found->second.isStream && found->second.isInner &&
         found->second.dims.empty() && !found->second.isBackward && found->second.isProduct;
}

bool Recipe::movesWeights(Operation *op, Value value) const {
  auto found = infos.find(op);
  return isWeight(value) || (found != infos.end() && found->second.isOfWeights);
}

bool Recipe::isWidth(Operation *op, size_t factor) const {
  return infos.find(op)->second.roles[factor] == Role::Width;
}

std::vector<int> Recipe::getKey(Operation *op) const {
  const OpInfo &info = infos.find(op)->second;
  std::vector<int> key{info.isStream,
                       info.isBackward,
                       info.isKeptWeight,
                       info.isInner,
                       info.isEntry,
                       info.isProduct,
                       info.vocabulary,
                       static_cast<int>(info.idleAxes),
                       info.isHeadInner ? int(*info.isHeadInner) : -1};
  for (Dim dim : info.dims)
    key.push_back(static_cast<int>(dim));
  for (Role role : info.roles)
    key.push_back(static_cast<int>(role));
  return key;
}

Recipe::Dim Recipe::getDim(size_t i, bool isInner) const {
  switch (kind) {
  case Kind::OneD:
  case Kind::Sequence: return isInner ? Dim::K : Dim::N;
  case Kind::Ulysses: return Dim::M;
  case Kind::TwoD:
  case Kind::TwoHalfD: return i + 1 == axes.size() ? Dim::N : Dim::M;
  case Kind::ThreeD: return i == 0 ? Dim::M : (i == 1) != isInner ? Dim::K : Dim::N;
  }
  llvm_unreachable("all recipes are listed");
}

int Recipe::countAnchorViolations(const OpInfo &info, ArrayRef<int> factorOfAxis, Role place) const {
  int count = 0;
  for (auto [i, axis] : llvm::enumerate(axes)) {
    const int f = factorOfAxis[axis];
    if (info.idleAxes >> axis & 1) {
      count += f >= 0;
      continue;
    }
    count += (f >= 0 && info.dims[f] == getDim(i, info.isInner)) || mesh.getAxisSize(axis) == 1 ? 0 : 1;
    if (kind == Kind::Ulysses)
      count += f >= 0 && info.roles[f] == place ? 0 : 1;
  }
  return count;
}

int Recipe::countViolations(const OpInfo &info, const FactorRule &rule, const Assignment &assignment) const {
  SmallVector<int> factorOfAxis(mesh.getNumAxes(), -1);
  for (auto [f, split] : llvm::enumerate(assignment))
    for (unsigned axis : split)
      factorOfAxis[axis] = static_cast<int>(f);
  auto roleOf = [&](unsigned axis) {
    return factorOfAxis[axis] < 0 ? Role::Unknown : info.roles[factorOfAxis[axis]];
  };
  auto isUnused = [&](unsigned axis) { return factorOfAxis[axis] < 0 && mesh.getAxisSize(axis) > 1; };
  auto isRow = [&](unsigned axis) { return roleOf(axis) == Role::Batch || roleOf(axis) == Role::Sequence; };
  auto isCarried = [&](unsigned axis) {
    return factorOfAxis[axis] >= 0 && rule.factors[factorOfAxis[axis]].kind == FactorKind::Carried;
  };
  // A table that is looked up may be split by its rows.
  auto isSummed = [&](unsigned axis) {
    return info.vocabulary >= 0 && factorOfAxis[axis] == info.vocabulary;
  };
  // Where there are samples alone, they are the rows.
  bool hasPlaces = false;
  for (auto [factor, role] : llvm::zip_equal(rule.factors, info.roles))
    hasPlaces |= role == Role::Sequence && factor.size > 1;
  Role place = hasPlaces ? Role::Sequence : Role::Batch;
  int count = 0;
  if (info.isKeptWeight) {
    SmallVector<unsigned> stored = getStoredAxes();
    for (unsigned axis : axes)
      count += isUnused(axis) == llvm::is_contained(stored, axis) ? 1 : 0;
    return count;
  }
  // An axis of one rank fits everywhere.
  auto miss = [&](unsigned axis, bool fits) { return fits || mesh.getAxisSize(axis) == 1 ? 0 : 1; };
  for (unsigned axis : dataAxes)
    count += miss(axis, roleOf(axis) == Role::Batch);
  if (!info.dims.empty())
    return count + countAnchorViolations(info, factorOfAxis, place);
  if (info.isHeadInner && kind != Kind::Ulysses) {
    // A table lies as the head takes it: what it gives is brought to the stream, and not the table to both.
    for (auto [i, axis] : llvm::enumerate(axes)) {
      const Dim dim = getDim(i, *info.isHeadInner);
      const bool isAsHead = dim == Dim::N   ? factorOfAxis[axis] == info.vocabulary
                            : dim == Dim::K ? roleOf(axis) == Role::Width
                                            : isRow(axis);
      count += miss(axis, isAsHead);
    }
    return count;
  }
  // What several ops read has gradients of which the sum is reduced, and not each.
  auto isGradientSum = [&](unsigned axis) { return info.isBackward && isCarried(axis); };
  auto isWidthOrIdle = [&](unsigned axis) {
    return info.idleAxes >> axis & 1 ? isUnused(axis) : roleOf(axis) == Role::Width;
  };
  switch (kind) {
  case Kind::OneD:
    for (unsigned axis : axes)
      count += miss(axis, isGradientSum(axis) || isSummed(axis) ||
                              (info.isInner ? isWidthOrIdle(axis) : isUnused(axis)));
    return count;
  case Kind::Sequence:
    for (unsigned axis : axes)
      count += miss(axis, isGradientSum(axis) || isSummed(axis) ||
                              (info.isInner ? isWidthOrIdle(axis) : roleOf(axis) == place));
    return count;
  case Kind::Ulysses:
    for (unsigned axis : axes) {
      bool isTurned = info.isInner && roleOf(axis) == Role::Width; // around attention, and in it
      count += miss(axis, isGradientSum(axis) || isTurned || (roleOf(axis) == place && !info.isProduct));
    }
    return count;
  case Kind::TwoD:
  case Kind::TwoHalfD:
    for (unsigned axis : ArrayRef(axes).drop_back())
      count += miss(axis, isGradientSum(axis) || isRow(axis));
    return count + miss(axes.back(), isGradientSum(axes.back()) || roleOf(axes.back()) == Role::Width);
  case Kind::ThreeD: {
    const unsigned width = axes[info.isInner ? 2 : 1], other = axes[info.isInner ? 1 : 2];
    count += miss(axes[0], isGradientSum(axes[0]) || isRow(axes[0]));
    count += miss(width, isGradientSum(width) || roleOf(width) == Role::Width);
    // A contraction of the forward pass reduces its own sums: none go on to meet others.
    return count + miss(other, !isUnused(other) && (!isCarried(other) || info.isBackward));
  }
  }
  return count;
}

int Recipe::keepBest(const OpInfo &info, const FactorRule &rule, std::vector<Assignment> &assignments) const {
  std::vector<int> violations;
  for (const Assignment &assignment : assignments)
    violations.push_back(countViolations(info, rule, assignment));
  int least = *std::min_element(violations.begin(), violations.end());
  size_t kept = 0;
  for (size_t i = 0; i < assignments.size(); ++i)
    if (violations[i] == least)
      assignments[kept++] = assignments[i];
  assignments.resize(kept);
  return least;
}

bool Recipe::narrow(Operation *op, const FactorRule &rule, std::vector<Assignment> &assignments) const {
  const OpInfo &info = infos.find(op)->second;
  return (!info.isStream && !info.isKeptWeight) || keepBest(info, rule, assignments) == 0;
}

std::optional<std::vector<ShardingAttr>> Recipe::getLayouts(BlockArgument argument,
                                                            const RefinementAnalysis &refinement) const {
  if (!isa<FloatType>(cast<RankedTensorType>(argument.getType()).getElementType()))
    return std::nullopt;
  FactorRule rule;
  OpInfo info;
  info.isStream = true;
  info.isInner = inner.contains(argument);
  rule.results.emplace_back();
  for (auto [parts, roles] : llvm::zip_equal(refinement.getParts(argument), rolesOf.find(argument)->second)) {
    rule.results[0].emplace_back();
    for (auto [size, role] : llvm::zip_equal(parts, roles)) {
      rule.results[0].back().push_back(rule.add(size));
      info.roles.push_back(role);
    }
  }
  CandidateLimits limits;
  limits.most = Recipe::kMostCandidates;
  std::vector<Assignment> assignments = enumerateAssignments(rule, mesh, limits).assignments;
  keepBest(info, rule, assignments);
  std::vector<ShardingAttr> layouts;
  for (const Assignment &assignment : assignments)
    layouts.push_back(getSharding(argument.getContext(), rule, rule.results[0], assignment));
  return layouts;
}

SmallVector<unsigned> Recipe::getStoredAxes() const {
  switch (kind) {
  case Kind::Ulysses: return {};
  case Kind::TwoHalfD: return {axes[1], axes[2]};
  default: return axes;
  }
}

SmallVector<unsigned> Recipe::getStoredAxes(Value value) const {
  SmallVector<unsigned> stored = getStoredAxes();
  llvm::erase_if(stored, [&](unsigned axis) { return idleOfWeights.lookup(value) >> axis & 1; });
  return stored;
}

bool Recipe::allows(const ReshardPath &path) const {
  // One row of ranks holds the same activations everywhere but between the two contractions.
  return kind != Kind::OneD || llvm::all_of(path.moves, [&](const Move &move) {
           return llvm::all_of(move.axes,
                               [&](unsigned axis) { return llvm::is_contained(dataAxes, axis); }) ||
                  (move.kind != MoveKind::ReduceScatter && move.kind != MoveKind::AllToAll);
         });
}

double Recipe::weigh(MoveKind kind) const {
  // From places to heads and back, and from a table's features to places, by all-to-all: gathering all of
  // them moves p times the bytes, and is as fast where these are few.
  constexpr double kDiscouraged = 100; // taken only where nothing else fits
  return (this->kind == Kind::Ulysses || this->kind == Kind::Sequence) && kind == MoveKind::AllGather
             ? kDiscouraged
             : 1;
}
