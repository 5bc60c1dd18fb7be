//===- RecipeReading.cpp - what ops are to the layouts of the papers ----------===//
//
// Samples, places and features along factors; which contractions take weights, and which of two they are;
// tables that are the head, too; and of a training step whose gradient an op computes.
//
//===----------------------------------------------------------------------===//
#include "Recipe.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/Pipeline.h"
#include "dialects/Dist/State.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

static bool isSum(const Factor &factor) {
  return factor.kind == FactorKind::Reduction && factor.reduction == ReductionKind::Sum;
}

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

/// Is `op` heavy, and multiplies what depends on inputs with matrices that depend on parameters alone? Also
/// without a sum of which a recipe speaks. Normalizations have vectors.
static bool takesWeights(Operation *op, const llvm::DenseMap<Value, outline::Origin> &origins) {
  if (op->getNumOperands() < 2 || !cast<ShardingRuleOpInterface>(op).isHeavy())
    return false;
  outline::Origin first = origins.lookup(op->getOperand(0)), second = origins.lookup(op->getOperand(1));
  const unsigned weight = first.argument ? 1 : 0;
  return first.argument != second.argument && (weight ? second : first).parameter &&
         cast<RankedTensorType>(op->getOperand(weight).getType()).getRank() >= 2;
}

/// The parameter or state that `value` is, or with `isPart` a part of, but for the order and grouping of its
/// dimensions; where it is more, or none, an empty name. Adds what lies between to `path`.
static StringRef findParameter(Value value, SmallVectorImpl<Value> &path, bool isPart = false) {
  while (true) {
    path.push_back(value);
    Operation *op = value.getDefiningOp();
    if (auto parameter = dyn_cast_or_null<ParameterOp>(op))
      return parameter.getName();
    if (!op) {
      auto function = cast<func::FuncOp>(value.getParentBlock()->getParentOp());
      auto state =
          function.getArgAttrOfType<StringAttr>(cast<BlockArgument>(value).getArgNumber(), kStateAttrName);
      return state ? state.getValue() : "";
    }
    if (!isa<TransposeOp, ReshapeOp>(op) && !(isPart && isa<SliceOp>(op)))
      return "";
    value = op->getOperand(0);
  }
}

void Recipe::takeMarks(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    llvm::DenseMap<int64_t, Operation *> ofNumber;
    function.walk([&](Operation *op) {
      auto unit = op->getAttrOfType<IntegerAttr>(kUnitAttrName),
           gradientOf = op->getAttrOfType<IntegerAttr>(kGradientOfAttrName);
      if (unit) {
        marked.insert(function);
        auto [first, isFirst] = ofNumber.try_emplace(unit.getInt(), op);
        if (isFirst)
          forward.insert(op);
        else
          repeated[op] = first->second;
      } else if (gradientOf) {
        gradients[op] = ofNumber.lookup(gradientOf.getInt());
      }
      for (StringRef name : {kUnitAttrName, kGradientOfAttrName, kUpdateAttrName})
        op->removeAttr(name);
    });
  }
}

std::vector<Recipe::Dim> Recipe::getDims(const FactorRule &rule, int weight) {
  std::vector<Dim> found;
  for (unsigned f = 0; f < rule.factors.size(); ++f) {
    const bool isOut = holds(rule.results[0], f), isWeight = holds(rule.operands[weight], f),
               isActivation = holds(rule.operands[1 - weight], f);
    found.push_back(!isOut && isWeight && isActivation ? Dim::K
                    : isOut && isWeight                ? Dim::N
                    : isOut && isActivation            ? Dim::M
                                                       : Dim::None);
  }
  return found;
}

bool Recipe::isKept(Operation *op) const {
  return gradients.contains(op) && isa<ReshapeOp>(op) &&
         op->getOperand(0).getType() == op->getResult(0).getType();
}

// dX = dY W^T sums over N, and dW = X^T dY over M.
std::vector<Recipe::Dim>
Recipe::getGradientDims(Operation *op, const FactorRule &rule,
                        const llvm::DenseMap<Value, outline::Origin> &origins) const {
  if (!cast<ShardingRuleOpInterface>(op).isHeavy() || op->getNumOperands() != 2)
    return {};
  auto isGradient = [&](Value value) {
    Operation *maker = value.getDefiningOp();
    return maker && gradients.contains(maker) && !isKept(maker);
  };
  for (int i : {0, 1}) {
    const outline::Origin other = origins.lookup(op->getOperand(1 - i));
    if (!isGradient(op->getOperand(i)) || isGradient(op->getOperand(1 - i)))
      continue;
    const bool isWeight = other.parameter && !other.argument;
    std::vector<Dim> dims = getDims(rule, 1 - i);
    for (Dim &dim : dims)
      dim = isWeight ? (dim == Dim::K   ? Dim::N
                        : dim == Dim::N ? Dim::K
                                        : dim)
                     : (dim == Dim::K   ? Dim::M
                        : dim == Dim::N ? Dim::K
                        : dim == Dim::M ? Dim::N
                                        : dim);
    return dims;
  }
  return {};
}

void Recipe::readMarked(Operation *op, const FactorRule &rule,
                        const llvm::DenseMap<Value, outline::Origin> &origins, OpInfo &info) const {
  info.isBackward = gradients.contains(op);
  Operation *original = info.isBackward ? gradients.lookup(op) : repeated.lookup(op);
  auto known = infos.find(original);
  if (known == infos.end()) {
    info.isStream = false; // of the update, or of a constant
    info.isOfWeights = true;
    return;
  }
  // The gradient of what is made of weights alone lies as is best.
  info.isOfWeights = info.isBackward && !known->second.isStream;
  info.isStream &= !info.isOfWeights;
  info.isInner = known->second.isInner;
  info.isEntry = known->second.isEntry;
  if (!info.isBackward)
    info.dims = known->second.dims;
  else if (!known->second.dims.empty())
    info.dims = getGradientDims(op, rule, origins);
  info.isKeptWeight = isKept(op) && !info.isStream && weightValues.contains(op->getOperand(0));
}

/// Does `op` look rows up in what depends on parameters alone?
static bool looksUp(Operation *op, const FactorRule &rule,
                    const llvm::DenseMap<Value, outline::Origin> &origins) {
  for (auto [operand, dims] : llvm::zip_equal(op->getOperands(), rule.operands))
    for (auto [f, factor] : llvm::enumerate(rule.factors))
      if (isSum(factor) && factor.indexed && holds(dims, f) && !origins.lookup(operand).argument)
        return true;
  return false;
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
    if (origins.lookup(argument).parameter) {
      rolesOf[argument] = makeRoles(argument, [](size_t) { return Role::Width; });
      continue;
    }
    size_t rank = type.getRank();
    if (isa<FloatType>(type.getElementType()))
      activations.insert(argument);
    // Images have their channels second, rows of features theirs last; tokens have none.
    size_t width = !isa<FloatType>(type.getElementType()) || rank < 2 ? rank : rank >= 4 ? 1 : rank - 1;
    rolesOf[argument] = makeRoles(argument, [&](size_t d) {
      return d == 0 ? Role::Batch : d == width ? Role::Width : Role::Sequence;
    });
  }
  // A step that was cut into stages has lost its marks, and says nothing.
  const bool isStep = marked.contains(function) || function->hasAttr(kRoleAttrName);
  for (Operation &op : function.front().without_terminator())
    if (!isa<ParameterOp>(op) && (!isStep || forward.contains(&op) || repeated.contains(&op)))
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
    info.isStream |= isKept(&op) && activations.contains(op.getOperand(0));
    // Masks and biases of positions lie as they are read.
    info.isStream &= weights.contains(&op) || looksUp(&op, rule, origins) ||
                     llvm::any_of(op.getOperands(), [&](Value value) { return activations.contains(value); });
    if (info.isStream)
      activations.insert(op.result_begin(), op.result_end());
    else if (!isStep &&
             llvm::any_of(op.getResults(), [&](Value value) { return origins.lookup(value).argument; }))
      aside.insert(op.result_begin(), op.result_end());
    info.isProduct =
        cast<ShardingRuleOpInterface>(&op).isHeavy() &&
        llvm::count_if(op.getOperands(), [&](Value value) { return activations.contains(value); }) > 1;
    info.hasWeights = takesWeights(&op, origins) && (!isStep || forward.contains(&op));
    if (auto weight = weights.find(&op); weight != weights.end())
      info.dims = getDims(rule, weight->second);
    for (auto [result, dims] : llvm::zip_equal(op.getResults(), rule.results)) {
      Roles roles = makeRoles(result, [](size_t) { return Role::Unknown; });
      for (auto [dim, parts] : llvm::zip(dims, roles))
        for (size_t i = 0; i < parts.size() && !dim.empty(); ++i)
          parts[i] = info.roles[dim[std::min(i, dim.size() - 1)]];
      rolesOf[result] = std::move(roles);
    }
    if (marked.contains(function) && !forward.contains(&op))
      readMarked(&op, rule, origins, info);
    else
      markInner(&op, info);
    if (!info.dims.empty() && weights.contains(&op)) {
      SmallVector<Value> path;
      if (!findParameter(op.getOperand(weights.lookup(&op)), path, /*isPart=*/true).empty())
        weightValues.insert(path.begin(), path.end());
    }
    infos[&op] = std::move(info);
  }
  findTables(function, refinement);
  if (!isStep && (kind == Kind::OneD || kind == Kind::Sequence))
    markSharedKeys(function, refinement);
}

bool Recipe::findMakers(Value value, llvm::SetVector<Operation *> &ops) const {
  SmallVector<Value> open{value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (!activations.contains(next))
      continue;
    Operation *op = next.getDefiningOp();
    if (!op || !infos.contains(op) || splitsHeads(op))
      return false;
    if (!ops.insert(op) || weights.contains(op))
      continue;
    llvm::append_range(open, op->getOperands());
  }
  return true;
}

void Recipe::markSharedKeys(func::FuncOp function, const RefinementAnalysis &refinement) {
  for (Operation &op : function.front().without_terminator()) {
    if (!splitsHeads(&op))
      continue;
    const FactorRule &rule = refinement.get(&op).rule;
    const OpInfo &info = infos.find(&op)->second;
    SmallVector<unsigned> heads; // of queries: heads of keys, and how many queries read one
    for (auto [f, factor] : llvm::enumerate(rule.factors))
      if (info.roles[f] == Role::Width && factor.kind == FactorKind::Parallel && factor.size > 1 &&
          holds(rule.results[0], f))
        heads.push_back(f);
    llvm::SetVector<Operation *> ofQueries, ofKeys;
    SmallVector<int64_t> left(rule.factors.size(), 0), others(rule.factors.size(), 0);
    bool isKnown = true;
    for (auto [operand, dims] : llvm::zip_equal(op.getOperands(), rule.operands)) {
      if (!activations.contains(operand))
        continue;
      const bool isOfAll = llvm::all_of(heads, [&, &dims = dims](unsigned f) { return holds(dims, f); });
      isKnown &= findMakers(operand, isOfAll ? ofQueries : ofKeys);
      for (unsigned f : heads)
        (isOfAll || holds(dims, f) ? left : others)[f] = rule.factors[f].size;
    }
    for (unsigned f : heads)
      if (others[f] > 0)
        left[f] = 0; // some operand lacks it: it is of the group
    uint32_t idle = 0;
    // Larger axes have fewer places.
    SmallVector<unsigned> order(axes.begin(), axes.end());
    llvm::stable_sort(order,
                      [&](unsigned a, unsigned b) { return mesh.getAxisSize(a) > mesh.getAxisSize(b); });
    for (unsigned axis : order) {
      const int64_t ranks = mesh.getAxisSize(axis);
      auto take = [&](SmallVectorImpl<int64_t> &sizes) {
        int64_t *size = llvm::find_if(sizes, [&](int64_t size) { return size > 0 && size % ranks == 0; });
        if (size == sizes.end())
          return false;
        *size /= ranks;
        return true;
      };
      if (take(left))
        continue;
      isKnown &= take(others);
      idle |= 1u << axis;
    }
    if (!isKnown || !idle || ofKeys.empty() ||
        llvm::any_of(ofKeys, [&](Operation *maker) { return ofQueries.contains(maker); }))
      continue;
    for (Operation *maker : ofKeys) {
      infos.find(maker)->second.idleAxes = idle;
      if (!weights.contains(maker))
        continue;
      SmallVector<Value> path;
      if (!findParameter(maker->getOperand(weights.lookup(maker)), path).empty())
        for (Value value : path)
          idleOfWeights[value] = idle;
    }
  }
}

void Recipe::findTables(func::FuncOp function, const RefinementAnalysis &refinement) {
  llvm::StringMap<bool> isInnerOf;
  SmallVector<Value> path;
  for (Operation &op : function.front().without_terminator())
    if (isContraction(&op) && weights.contains(&op))
      isInnerOf[findParameter(op.getOperand(weights.lookup(&op)), path)] = infos.find(&op)->second.isInner;
  for (Operation &op : function.front().without_terminator()) {
    auto info = infos.find(&op);
    if (info == infos.end() || !info->second.isStream || weights.contains(&op))
      continue;
    const FactorRule &rule = refinement.get(&op).rule;
    for (auto [f, factor] : llvm::enumerate(rule.factors))
      if (isSum(factor) && factor.indexed)
        for (auto [operand, dims] : llvm::zip_equal(op.getOperands(), rule.operands)) {
          StringRef name = holds(dims, f) ? findParameter(operand, path) : "";
          if (name.empty())
            continue;
          info->second.vocabulary = static_cast<int>(f);
          info->second.roles[f] = Role::Unknown;
          if (auto head = isInnerOf.find(name); head != isInnerOf.end())
            info->second.isHeadInner = head->second;
        }
  }
  // The gradient of a table is added to that of the head, where it is one, and goes there in any way.
  for (auto [op, original] : gradients)
    if (auto info = infos.find(original); info != infos.end() && info->second.vocabulary >= 0)
      if (auto own = infos.find(op); own != infos.end())
        own->second.isStream = false;
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

void Recipe::markBeforeEntry(Operation *entry) {
  SmallVector<Value> open{entry->getOperand(1 - weights.lookup(entry))};
  while (!open.empty()) {
    Value value = open.pop_back_val();
    Operation *op = value.getDefiningOp();
    auto info = infos.find(op);
    if ((op && (info == infos.end() || !info->second.dims.empty())) || !inner.insert(value).second)
      continue;
    if (op) {
      info->second.isInner = true;
      llvm::append_range(open, op->getOperands());
    }
  }
}

void Recipe::markInner(Operation *op, OpInfo &info) {
  auto weight = weights.find(op);
  if (weight != weights.end()) {
    info.isInner = inner.contains(op->getOperand(1 - weight->second));
    info.isEntry = !info.isInner && givesStream(op);
    // One row of ranks has the stream whole, or by places, and makes it so. Three axes make it as second ones
    // do.
    if (info.isEntry && kind == Kind::ThreeD) {
      info.isInner = true;
      markBeforeEntry(op);
    } else if (info.isEntry && (kind == Kind::OneD || kind == Kind::Sequence)) {
      info.dims.clear();
    } else if (!info.isInner && !info.isEntry) {
      inner.insert(op->result_begin(), op->result_end());
    }
    return;
  }
  info.isInner = llvm::any_of(op->getOperands(), [&](Value operand) { return inner.contains(operand); });
  if (info.isInner)
    inner.insert(op->result_begin(), op->result_end());
}
