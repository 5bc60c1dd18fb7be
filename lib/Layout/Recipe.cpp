//===- Recipe.cpp - the layouts of the papers ---------------------------------===//
#include "Recipe.h"

#include "Candidates.h"
#include "Costs.h"

#include "colossal/Layout/Layout.h"
#include "colossal/Outline/Origins.h"
#include "dialects/Colossal/Colossal.h"

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

//===----------------------------------------------------------------------===//
// What dimensions are
//===----------------------------------------------------------------------===//

namespace {
bool holds(const TensorFactors &tensor, unsigned factor) {
  return llvm::any_of(tensor, [&](const DimFactors &dim) { return llvm::is_contained(dim, factor); });
}

bool isSum(const Factor &factor) {
  return factor.kind == FactorKind::Reduction && factor.reduction == ReductionKind::Sum;
}
} // namespace

// A heavy op that sums products of activations and of what depends on parameters alone.
static int findWeight(Operation *op, const FactorRule &rule,
                      const llvm::DenseMap<Value, outline::Origin> &origins) {
  const bool isStream =
      llvm::any_of(op->getResults(), [&](Value result) { return origins.lookup(result).isStream(); });
  if (!isStream || op->getNumOperands() < 2 || !cast<ShardingRuleOpInterface>(op).isHeavy())
    return -1;
  bool isSummed = false;
  for (unsigned f = 0; f < rule.factors.size(); ++f)
    isSummed |= isSum(rule.factors[f]) && holds(rule.operands[0], f) && holds(rule.operands[1], f);
  for (int i : {0, 1}) {
    outline::Origin weight = origins.lookup(op->getOperand(i)), other = origins.lookup(op->getOperand(1 - i));
    if (isSummed && weight.parameter && !weight.argument && other.argument)
      return i;
  }
  return -1;
}

// Roles flow from inputs along factors: samples first, then places, and features, which also come from
// weights. Activations say more than what is added to them.
void Recipe::read(func::FuncOp function, const RefinementAnalysis &refinement) {
  llvm::DenseMap<Value, outline::Origin> origins = outline::findOrigins(function);
  auto makeRoles = [&](Value value, llvm::function_ref<Role(size_t dim)> role) {
    Roles roles;
    for (auto [d, parts] : llvm::enumerate(refinement.getParts(value)))
      roles.emplace_back(parts.size(), role(d));
    return roles;
  };
  for (BlockArgument argument : function.getArguments()) {
    auto type = cast<RankedTensorType>(argument.getType());
    size_t rank = type.getRank();
    // Images have their channels second, rows of features theirs last; tokens have none.
    size_t width = !isa<FloatType>(type.getElementType()) || rank < 2 ? rank : rank >= 4 ? 1 : rank - 1;
    rolesOf[argument] = makeRoles(argument, [&](size_t d) {
      return d == 0 ? Role::Batch : d == width ? Role::Width : Role::Sequence;
    });
  }
  for (Operation &op : function.front().without_terminator())
    if (!isa<ParameterOp>(op))
      if (int weight = findWeight(&op, refinement.get(&op).rule, origins); weight >= 0)
        weights[&op] = weight;
  for (Operation &op : function.front().without_terminator()) {
    if (isa<ParameterOp>(op)) {
      rolesOf[op.getResult(0)] = makeRoles(op.getResult(0), [](size_t) { return Role::Width; });
      continue;
    }
    const FactorRule &rule = refinement.get(&op).rule;
    OpInfo info;
    info.roles.assign(rule.factors.size(), Role::Unknown);
    auto read = [&](bool fromArguments) {
      for (auto [operand, dims] : llvm::zip_equal(op.getOperands(), rule.operands)) {
        auto known = rolesOf.find(operand);
        if (known == rolesOf.end() || origins.lookup(operand).argument != fromArguments)
          continue;
        for (auto [dim, roles] : llvm::zip(dims, known->second))
          for (auto [i, f] : llvm::enumerate(dim))
            if (info.roles[f] == Role::Unknown)
              info.roles[f] = roles[std::min(i, roles.size() - 1)];
      }
    };
    read(true);
    // Dimensions that an op makes anew (of joined or cut ones) are what its activations have in their place.
    for (auto [operand, known] : llvm::zip_equal(op.getOperands(), rule.operands)) {
      auto roles = rolesOf.find(operand);
      if (roles == rolesOf.end() || !origins.lookup(operand).argument)
        continue;
      for (const TensorFactors &dims : rule.results)
        for (size_t d = 0; d < dims.size() && dims.size() == known.size(); ++d)
          for (unsigned f : dims[d])
            if (info.roles[f] == Role::Unknown && !roles->second[d].empty() &&
                llvm::none_of(rule.operands, [&](const TensorFactors &other) { return holds(other, f); }))
              info.roles[f] = roles->second[d].front();
    }
    read(false);
    for (Value result : op.getResults())
      info.isStream |= origins.lookup(result).isStream();
    if (auto weight = weights.find(&op); weight != weights.end())
      info.weight = weight->second;
    for (auto [result, dims] : llvm::zip_equal(op.getResults(), rule.results)) {
      Roles roles = makeRoles(result, [](size_t) { return Role::Unknown; });
      for (auto [dim, parts] : llvm::zip(dims, roles))
        for (size_t i = 0; i < parts.size() && !dim.empty(); ++i)
          parts[i] = info.roles[dim[std::min(i, dim.size() - 1)]];
      rolesOf[result] = std::move(roles);
    }
    markInner(&op, info);
    infos[&op] = std::move(info);
  }
}

bool Recipe::givesStream(Operation *op) const {
  llvm::DenseSet<Value> direct(op->result_begin(), op->result_end()), made;
  auto isIn = [](const llvm::DenseSet<Value> &values) {
    return [&values](Value value) { return values.contains(value); };
  };
  for (Operation *next = op->getNextNode(); next; next = next->getNextNode()) {
    const bool isMade = llvm::any_of(next->getOperands(), isIn(made)),
               isDirect = llvm::any_of(next->getOperands(), isIn(direct));
    auto sum = dyn_cast<ElementwiseOp>(next);
    if (isMade && isDirect && sum && sum.getKind() == ElementwiseKind::Add)
      return true;
    if (isMade || (isDirect && weights.contains(next)))
      made.insert(next->result_begin(), next->result_end());
    else if (isDirect)
      direct.insert(next->result_begin(), next->result_end());
  }
  return false;
}

void Recipe::markInner(Operation *op, OpInfo &info) {
  if (info.weight >= 0) {
    info.isInner = inner.contains(op->getOperand(1 - info.weight));
    info.isEntry = !info.isInner && givesStream(op);
    // One row of ranks has the stream whole, or by places, and makes it so. Three axes make it as second ones
    // do.
    if (info.isEntry && kind == Kind::ThreeD)
      info.isInner = true;
    else if (info.isEntry && (kind == Kind::OneD || kind == Kind::Sequence))
      info.weight = -1;
    else if (!info.isInner && !info.isEntry)
      inner.insert(op->result_begin(), op->result_end());
    return;
  }
  info.isInner = llvm::any_of(op->getOperands(), [&](Value operand) { return inner.contains(operand); });
  if (info.isInner)
    inner.insert(op->result_begin(), op->result_end());
}

//===----------------------------------------------------------------------===//
// Which layouts follow
//===----------------------------------------------------------------------===//

bool Recipe::isAnchor(Operation *op) const {
  auto found = infos.find(op);
  return found != infos.end() && found->second.weight >= 0;
}

std::vector<int> Recipe::getKey(Operation *op) const {
  const OpInfo &info = infos.find(op)->second;
  std::vector<int> key{info.isStream, info.weight, info.isInner};
  for (Role role : info.roles)
    key.push_back(static_cast<int>(role));
  return key;
}

int Recipe::countAnchorViolations(const OpInfo &info, const FactorRule &rule, ArrayRef<int> factorOfAxis,
                                  Role place) const {
  const TensorFactors &weights = rule.operands[info.weight], &activations = rule.operands[1 - info.weight];
  enum class Dim { None, M, N, K };
  auto dimOf = [&](unsigned axis) {
    int f = factorOfAxis[axis];
    if (f < 0)
      return Dim::None;
    bool isOut = holds(rule.results[0], f), isWeight = holds(weights, f),
         isActivation = holds(activations, f);
    return !isOut && isWeight && isActivation ? Dim::K
           : isOut && isWeight                ? Dim::N
           : isOut && isActivation            ? Dim::M
                                              : Dim::None;
  };
  auto wants = [&](unsigned axis, Dim dim) {
    return dimOf(axis) == dim || mesh.getAxisSize(axis) == 1 ? 0 : 1;
  };
  auto roleOf = [&](unsigned axis) {
    return factorOfAxis[axis] < 0 ? Role::Unknown : info.roles[factorOfAxis[axis]];
  };
  int count = 0;
  switch (kind) {
  case Kind::OneD:
  case Kind::Sequence:
    for (unsigned axis : axes)
      count += wants(axis, info.isInner ? Dim::K : Dim::N);
    return count;
  case Kind::Ulysses:
    for (unsigned axis : axes)
      count += wants(axis, Dim::M) + (roleOf(axis) == place ? 0 : 1);
    return count;
  case Kind::TwoD: return wants(axes[0], Dim::M) + wants(axes[1], Dim::N);
  case Kind::TwoHalfD: return wants(axes[0], Dim::M) + wants(axes[1], Dim::M) + wants(axes[2], Dim::N);
  case Kind::ThreeD:
    return wants(axes[0], Dim::M) + wants(axes[info.isInner ? 2 : 1], Dim::K) +
           wants(axes[info.isInner ? 1 : 2], Dim::N);
  }
  return count;
}

int Recipe::countViolations(bool isHeavy, const OpInfo &info, const FactorRule &rule,
                            const Assignment &assignment) const {
  SmallVector<int> factorOfAxis(mesh.getNumAxes(), -1);
  for (auto [f, split] : llvm::enumerate(assignment))
    for (unsigned axis : split)
      factorOfAxis[axis] = static_cast<int>(f);
  auto roleOf = [&](unsigned axis) {
    return factorOfAxis[axis] < 0 ? Role::Unknown : info.roles[factorOfAxis[axis]];
  };
  auto isUnused = [&](unsigned axis) { return factorOfAxis[axis] < 0 && mesh.getAxisSize(axis) > 1; };
  auto isRow = [&](unsigned axis) { return roleOf(axis) == Role::Batch || roleOf(axis) == Role::Sequence; };
  // A table that is looked up may be split by its rows.
  auto isSummed = [&](unsigned axis) {
    return !info.isEntry && factorOfAxis[axis] >= 0 && isSum(rule.factors[factorOfAxis[axis]]);
  };
  // Where there are samples alone, they are the rows.
  bool hasPlaces = false;
  for (auto [factor, role] : llvm::zip_equal(rule.factors, info.roles))
    hasPlaces |= role == Role::Sequence && factor.size > 1;
  Role place = hasPlaces ? Role::Sequence : Role::Batch;
  int count = 0;
  for (unsigned axis : dataAxes)
    count += roleOf(axis) == Role::Batch ? 0 : 1;
  if (info.weight >= 0)
    return count + countAnchorViolations(info, rule, factorOfAxis, place);
  switch (kind) {
  case Kind::OneD:
    for (unsigned axis : axes)
      count += isSummed(axis) || (info.isInner ? roleOf(axis) == Role::Width : isUnused(axis)) ? 0 : 1;
    return count;
  case Kind::Sequence:
    for (unsigned axis : axes)
      count += isSummed(axis) || roleOf(axis) == (info.isInner ? Role::Width : place) ? 0 : 1;
    return count;
  case Kind::Ulysses:
    for (unsigned axis : axes) {
      bool isTurned = info.isInner && roleOf(axis) == Role::Width; // around attention, and in it
      count += isTurned || (roleOf(axis) == place && !isHeavy) ? 0 : 1;
    }
    return count;
  case Kind::TwoD:
  case Kind::TwoHalfD:
    for (unsigned axis : ArrayRef(axes).drop_back())
      count += isRow(axis) ? 0 : 1;
    return count + (roleOf(axes.back()) == Role::Width ? 0 : 1);
  case Kind::ThreeD:
    count += isRow(axes[0]) ? 0 : 1;
    count += roleOf(axes[info.isInner ? 2 : 1]) == Role::Width ? 0 : 1;
    return count + (isUnused(axes[info.isInner ? 1 : 2]) ? 1 : 0);
  }
  return count;
}

int Recipe::keepBest(bool isHeavy, const OpInfo &info, const FactorRule &rule,
                     std::vector<Assignment> &assignments) const {
  std::vector<int> violations;
  for (const Assignment &assignment : assignments)
    violations.push_back(countViolations(isHeavy, info, rule, assignment));
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
  return !info.isStream ||
         keepBest(cast<ShardingRuleOpInterface>(op).isHeavy(), info, rule, assignments) == 0;
}

std::optional<std::vector<ShardingAttr>> Recipe::getLayouts(BlockArgument argument,
                                                            const RefinementAnalysis &refinement) const {
  if (!isa<FloatType>(cast<RankedTensorType>(argument.getType()).getElementType()))
    return std::nullopt;
  FactorRule rule;
  OpInfo info;
  info.isStream = true;
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
  keepBest(false, info, rule, assignments);
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

bool Recipe::allows(const ReshardPath &path) const {
  // One row of ranks holds the same activations everywhere but between the two contractions.
  return kind != Kind::OneD || llvm::all_of(path.moves, [](const Move &move) {
           return move.kind != MoveKind::ReduceScatter && move.kind != MoveKind::AllToAll;
         });
}

double Recipe::weigh(MoveKind kind) const {
  // From places to heads and back by all-to-all: gathering all of them moves p times the bytes, and is as
  // fast where these are few.
  constexpr double kDiscouraged = 100; // taken only where nothing else fits
  return this->kind == Kind::Ulysses && kind == MoveKind::AllGather ? kDiscouraged : 1;
}
