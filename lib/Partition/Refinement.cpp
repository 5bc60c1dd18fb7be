//===- Refinement.cpp - dimensions as products of factors -------------------===//
//
// The fixpoint of Refinement.h: cuts spread from dimension to factor to dimension until nothing is new.
//
//===----------------------------------------------------------------------===//
#include "colossal/Partition/Refinement.h"

#include "dialects/Colossal/AlikeOps.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/Loop.h"
#include "dialects/Dist/Stages.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;
using namespace colossal::dist;

/// May a cut inside this factor let something through?
static bool takesCuts(const Factor &factor) {
  return factor.kind != FactorKind::Whole && factor.refinable && factor.operandSize < 0;
}

bool RefinementAnalysis::addCut(Cuts &chain, int64_t size, int64_t cut) {
  if (cut <= 1 || cut >= size || size % cut != 0 || chain.size() >= kMaxCuts)
    return false;
  auto place = llvm::lower_bound(chain, cut);
  if (place != chain.end() && (*place == cut || *place % cut != 0))
    return false;
  if (place != chain.begin() && cut % *(place - 1) != 0)
    return false;
  chain.insert(place, cut);
  return true;
}

/// The extent of a factor in an operand (windowed factors have one of their own) or a result.
static int64_t getExtent(const Factor &factor, bool isResult) {
  return !isResult && factor.operandSize >= 0 ? factor.operandSize : factor.size;
}

MutableArrayRef<RefinementAnalysis::Cuts> RefinementAnalysis::findCuts(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return {};
  auto [place, isNew] = places.try_emplace(value, static_cast<unsigned>(cuts.size()));
  if (isNew)
    cuts.resize(cuts.size() + type.getRank());
  return MutableArrayRef(cuts).slice(place->second, type.getRank());
}

ArrayRef<RefinementAnalysis::Cuts> RefinementAnalysis::getCuts(Value value) const {
  auto place = places.find(value);
  if (place == places.end())
    return {};
  return ArrayRef(cuts).slice(place->second, cast<RankedTensorType>(value.getType()).getRank());
}

ArrayAttr RefinementAnalysis::getCutsAttribute(Value value) const {
  ArrayRef<Cuts> known = getCuts(value);
  if (llvm::all_of(known, [](const Cuts &chain) { return chain.empty(); }))
    return {};
  Builder b(value.getContext());
  return b.getArrayAttr(llvm::map_to_vector(
      known, [&](const Cuts &chain) -> Attribute { return b.getDenseI64ArrayAttr(chain); }));
}

void RefinementAnalysis::takeCuts(Value value, Attribute attribute) {
  auto given = dyn_cast_or_null<ArrayAttr>(attribute);
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!given || !type || static_cast<int64_t>(given.size()) != type.getRank())
    return;
  for (auto [chain, size, asked] : llvm::zip_equal(findCuts(value), type.getShape(), given))
    if (auto list = dyn_cast<DenseI64ArrayAttr>(asked))
      for (int64_t cut : list.asArrayRef())
        addCut(chain, size, cut);
}

void RefinementAnalysis::gatherFactorCuts(Operation *op, const FactorRule &rule,
                                          SmallVectorImpl<Cuts> &factorCuts) const {
  factorCuts.resize(rule.factors.size());
  for (Cuts &chain : factorCuts)
    chain.clear();
  auto gather = [&](auto values, ArrayRef<TensorFactors> tensors, bool isResult) {
    for (auto [value, dims] : llvm::zip_equal(values, tensors)) {
      ArrayRef<Cuts> known = getCuts(value);
      if (known.empty())
        continue;
      for (auto [d, factors] : llvm::enumerate(dims)) {
        if (known[d].empty())
          continue;
        int64_t inner = 1;
        for (unsigned f : llvm::reverse(factors)) {
          int64_t size = getExtent(rule.factors[f], isResult);
          if (takesCuts(rule.factors[f]))
            for (int64_t cut : known[d])
              if (cut % inner == 0)
                addCut(factorCuts[f], size, cut / inner);
          inner *= size;
        }
      }
    }
  };
  gather(op->getOperands(), rule.operands, false);
  gather(op->getResults(), rule.results, true);
}

void RefinementAnalysis::visit(Operation *op, const FactorRule &rule, SmallVectorImpl<Cuts> &factorCuts,
                               SmallVectorImpl<Value> &changed) {
  gatherFactorCuts(op, rule, factorCuts);
  // Give every dimension the bounds of its factors and the cuts inside them.
  auto spread = [&](auto values, ArrayRef<TensorFactors> tensors, bool isResult) {
    for (auto [value, dims] : llvm::zip_equal(values, tensors)) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (!type)
        continue;
      MutableArrayRef<Cuts> own = findCuts(value);
      ArrayRef<int64_t> shape = type.getShape();
      bool isNew = false;
      for (auto [d, factors] : llvm::enumerate(dims)) {
        int64_t inner = 1;
        for (unsigned f : llvm::reverse(factors)) {
          for (int64_t cut : factorCuts[f])
            isNew |= addCut(own[d], shape[d], cut * inner);
          inner *= getExtent(rule.factors[f], isResult);
          isNew |= addCut(own[d], shape[d], inner);
        }
      }
      if (isNew)
        changed.push_back(value);
    }
  };
  spread(op->getOperands(), rule.operands, false);
  spread(op->getResults(), rule.results, true);
}

RefinedRule RefinementAnalysis::refine(const FactorRule &own, ArrayRef<Cuts> factorCuts) {
  RefinedRule refined;
  refined.own = own;
  for (auto [f, factor] : llvm::enumerate(own.factors)) {
    refined.parts.emplace_back();
    int64_t outer = factor.size;
    for (int64_t cut : llvm::reverse(factorCuts[f])) {
      refined.parts.back().push_back(refined.rule.factors.size());
      refined.rule.factors.push_back(factor);
      refined.rule.factors.back().size = outer / cut;
      outer = cut;
    }
    refined.parts.back().push_back(refined.rule.factors.size());
    refined.rule.factors.push_back(factor);
    refined.rule.factors.back().size = outer;
    // An offset speaks of the outermost part only.
    if (factor.indexed)
      for (unsigned part : ArrayRef(refined.parts.back()).drop_front())
        refined.rule.factors[part].kind = FactorKind::Whole;
  }
  auto rewrite = [&](ArrayRef<TensorFactors> from, SmallVectorImpl<TensorFactors> &to) {
    for (const TensorFactors &dims : from) {
      to.emplace_back();
      for (const DimFactors &dim : dims) {
        to.back().emplace_back();
        for (unsigned f : dim)
          to.back().back().append(refined.parts[f].begin(), refined.parts[f].end());
      }
    }
  };
  rewrite(own.operands, refined.rule.operands);
  rewrite(own.results, refined.rule.results);
  refined.rule.statistics = own.statistics;
  return refined;
}

namespace {
/// Ops by all that a rule may depend on: name, attributes, types. Of a parameter neither its name nor its
/// place in a file, which no two share, has a say.
struct KindInfo : colossal::AlikeInfo {
  static bool hasRuleOfAttributes(Operation *op) { return !isa<colossal::ParameterOp>(op); }
  static unsigned getHashValue(Operation *op) { return hash(op, hasRuleOfAttributes(op)); }
  static bool isEqual(Operation *a, Operation *b) {
    return areAlike(a, b, a != getEmptyKey() && a != getTombstoneKey() && hasRuleOfAttributes(a));
  }
};
} // namespace

RefinementAnalysis::RefinementAnalysis(func::FuncOp function) {
  std::deque<FactorRule> ownRules;
  llvm::DenseMap<Operation *, const FactorRule *, KindInfo> ruleOfKind;
  llvm::DenseMap<Operation *, const FactorRule *> ruleOf;
  llvm::SetVector<Operation *> work;
  const size_t count = function.front().getOperations().size();
  places.reserve(static_cast<unsigned>(count + function.getNumArguments()));
  cuts.reserve(3 * count);
  rules.reserve(static_cast<unsigned>(count));
  ruleOf.reserve(static_cast<unsigned>(count));
  for (Operation &op : function.getOps())
    if (auto ruled = dyn_cast<ShardingRuleOpInterface>(op)) {
      const FactorRule *&rule = ruleOfKind[&op];
      if (!rule)
        rule = &ownRules.emplace_back(ruled.getFactorRule());
      ruleOf[&op] = rule;
      work.insert(&op);
    }
  for (BlockArgument argument : function.getArguments()) {
    takeCuts(argument, function.getArgAttr(argument.getArgNumber(), kCutsAttrName));
    if (std::optional<LoopPlace> place = getLoopPlace(function.getArgAttrDict(argument.getArgNumber()))) {
      ArrayRef<int64_t> shape = cast<RankedTensorType>(argument.getType()).getShape();
      MutableArrayRef<Cuts> ofArgument = findCuts(argument);
      const int64_t size = shape[place->dim];
      for (int64_t cut : {size / place->outer / place->size, size / place->outer})
        addCut(ofArgument[place->dim], size, cut);
    }
  }
  for (auto [i, returned] : llvm::enumerate(function.front().getTerminator()->getOperands()))
    takeCuts(returned, function.getResultAttr(i, kCutsAttrName));
  SmallVector<Operation *> ruled(work.begin(), work.end());
  SmallVector<Value> changed;
  SmallVector<Cuts> factorCuts;
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    changed.clear();
    visit(op, *ruleOf.find(op)->second, factorCuts, changed);
    for (Value value : changed) {
      auto push = [&](Operation *neighbour) {
        if (neighbour && ruleOf.contains(neighbour))
          work.insert(neighbour);
      };
      push(value.getDefiningOp());
      for (Operation *user : value.getUsers())
        push(user);
    }
  }
  // By rule, then by the cuts of its factors, each list behind its length.
  llvm::DenseMap<const FactorRule *, std::map<std::vector<int64_t>, const RefinedRule *>> refinedOf;
  std::vector<int64_t> key;
  for (Operation *op : ruled) {
    const FactorRule *own = ruleOf.find(op)->second;
    gatherFactorCuts(op, *own, factorCuts);
    key.clear();
    for (const Cuts &chain : factorCuts) {
      key.push_back(static_cast<int64_t>(chain.size()));
      key.insert(key.end(), chain.begin(), chain.end());
    }
    const RefinedRule *&refined = refinedOf[own][key];
    if (!refined)
      refined = &distinct.emplace_back(refine(*own, factorCuts));
    rules[op] = refined;
  }
}

SmallVector<SmallVector<int64_t>> RefinementAnalysis::getParts(Value value) const {
  SmallVector<SmallVector<int64_t>> parts;
  auto type = cast<RankedTensorType>(value.getType());
  ArrayRef<Cuts> known = getCuts(value);
  for (int64_t d = 0; d < type.getRank(); ++d) {
    parts.emplace_back();
    int64_t outer = type.getDimSize(d);
    if (!known.empty())
      for (int64_t cut : llvm::reverse(known[d])) {
        parts.back().push_back(outer / cut);
        outer = cut;
      }
    parts.back().push_back(outer);
  }
  return parts;
}
