//===- OpChoices.cpp - the layouts that ops may have ------------------------===//
#include "OpChoices.h"

#include "DeferredSums.h"
#include "ForwardFactors.h"
#include "Names.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/LayoutMarks.h"
#include "dialects/Dist/State.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

double layout::getLocalBytes(ShardingAttr sharding, Type element, MeshAttr mesh) {
  double bytes = getElementBytes(element);
  for (int64_t size : sharding.getLocalShape(mesh))
    bytes *= size;
  return bytes;
}

/// A layout as numbers, by which layouts of one tensor are put in an order that is the same for all ops.
static SmallVector<int64_t, 16> spell(ShardingAttr layout) {
  SmallVector<int64_t, 16> words;
  for (DimShardingAttr dim : layout.getDims()) {
    for (FactorShardAttr factor : dim.getFactors()) {
      words.push_back(factor.getSize());
      llvm::append_range(words, factor.getAxes());
      words.push_back(-1);
    }
    words.push_back(-2);
  }
  llvm::append_range(words, layout.getPartialAxes());
  words.push_back(static_cast<int64_t>(layout.getPartialKind()));
  return words;
}

CandidateLayouts layout::makeCandidateLayouts(MLIRContext *context, ArrayRef<ShardingAttr> layouts) {
  llvm::DenseMap<Attribute, int32_t> numbers;
  std::vector<std::pair<SmallVector<int64_t, 16>, Attribute>> order;
  for (ShardingAttr layout : layouts)
    if (numbers.try_emplace(layout, 0).second)
      order.push_back({spell(layout), layout});
  // In one order, whatever that of the candidates: so ops that take and give the same layouts share tables.
  llvm::sort(order, [](const auto &a, const auto &b) { return a.first < b.first; });
  SmallVector<Attribute> distinct;
  for (auto &[words, layout] : order) {
    numbers[layout] = static_cast<int32_t>(distinct.size());
    distinct.push_back(layout);
  }
  auto classes = std::make_shared<search::Classes>();
  for (ShardingAttr layout : layouts)
    classes->of.push_back(numbers[layout]);
  classes->count = static_cast<int32_t>(distinct.size());
  return {ArrayAttr::get(context, distinct), std::move(classes)};
}

LogicalResult OpChoicesBuilder::readLoop() {
  if (mesh.getLoopAxis() < 0)
    return success();
  for (auto &[function, refinement] : refinements)
    for (Operation &op : function.front().without_terminator()) {
      FailureOr<Assignment> given = getAssignment(&op, refinement->get(&op).rule, mesh);
      if (failed(given))
        return failure();
      for (auto [f, axes] : llvm::enumerate(*given))
        if (llvm::is_contained(axes, static_cast<unsigned>(mesh.getLoopAxis())))
          batchOf[&op] = f;
      const bool isOfEachTurn =
          op.hasAttr(kEachTurnAttrName) || llvm::any_of(op.getOperands(), [&](Value operand) {
            return operand.getDefiningOp() && eachTurn.contains(operand.getDefiningOp());
          });
      if (isOfEachTurn && !batchOf.contains(&op))
        eachTurn.insert(&op);
    }
  return success();
}

void OpChoicesBuilder::readPrograms() {
  std::map<std::string, int> parameters;
  for (auto &[function, refinement] : refinements)
    programs[function] = factors::readProgram(
        function, *refinement, [this](Operation *op) { return isInLoop(op) || isOfEachTurn(op); },
        parameters);
  for (auto &[function, program] : programs)
    for (auto [operation, id] : llvm::zip_equal(program.graph.kinds[0].operations, program.graph.ids[0]))
      described[program.operations[id]] = &operation;
}

void OpChoicesBuilder::add(func::FuncOp function, const RefinementAnalysis &refinement) {
  refinements.insert({function, &refinement});
  deferring.insert_range(findDeferringOps(function, refinement));
  if (recipe)
    recipe->read(function, refinement);
}

/// What bringing the windows of an operand takes: the elements that its neighbours' shards hold.
double OpChoicesBuilder::getExchangeSeconds(const FactorRule &rule, const Assignment &assignment,
                                            unsigned operand, ShardingAttr sharding,
                                            RankedTensorType type) const {
  double seconds = 0;
  for (auto [d, dim] : llvm::enumerate(rule.operands[operand])) {
    if (dim.size() != 1 || rule.factors[dim.front()].operandSize < 0 || assignment[dim.front()].empty())
      continue;
    const Factor &factor = rule.factors[dim.front()];
    double chunk = getLocalSize(factor.operandSize, assignment[dim.front()], mesh);
    double window =
        (getLocalSize(factor.size, assignment[dim.front()], mesh) - 1.0) * factor.stride + factor.window;
    double slab = getLocalBytes(sharding, type.getElementType(), mesh) / chunk;
    seconds += costs.getExchangeSeconds(std::max(window - chunk, 1.0) * slab, assignment[dim.front()]);
  }
  return seconds;
}

SmallVector<Exchange, 2> OpChoicesBuilder::getStatistics(const FactorRule &rule,
                                                         const Assignment &assignment) const {
  Exchange exchange;
  for (auto [factor, split] : llvm::zip_equal(rule.factors, assignment))
    if (factor.staged)
      llvm::append_range(exchange.axes, split);
  if (exchange.axes.empty())
    return {};
  for (unsigned axis : exchange.axes)
    exchange.ranks *= mesh.getAxisSize(axis);
  double rows = 1;
  for (const DimFactors &dim : rule.operands.front())
    for (unsigned f : dim)
      if (!rule.factors[f].staged)
        rows *= static_cast<double>(getLocalSize(rule.factors[f].size, assignment[f], mesh));
  SmallVector<Exchange, 2> exchanges;
  for (const Statistic &statistic : rule.statistics) {
    exchange.kind = statistic.isGathered ? MoveKind::AllGather : MoveKind::AllReduce;
    exchange.bytes =
        rows * statistic.bytes * (statistic.isGathered ? static_cast<double>(exchange.ranks) : 1);
    exchanges.push_back(exchange);
  }
  return exchanges;
}

OpChoices OpChoicesBuilder::makeChoices(Operation *op, Candidates candidates) const {
  const FactorRule &rule = getRule(op).rule;
  const Type element = getTensor(op->getResult(0)).getElementType();
  OpChoices choices;
  choices.isWhole = candidates.isWhole;
  choices.isAsAsked = candidates.isAsAsked;
  choices.resultBytes.resize(op->getNumResults());
  SmallVector<SmallVector<ShardingAttr>> haves(op->getNumResults()), wants(op->getNumOperands());
  for (const Assignment &assignment : candidates.assignments) {
    double operandBytes = 0, resultBytes = 0, exchange = 0;
    for (const Exchange &statistics : getStatistics(rule, assignment))
      exchange += costs.getMoveSeconds(statistics.kind, statistics.bytes, statistics.axes);
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      auto type = dyn_cast<RankedTensorType>(operand.getType());
      if (!type)
        continue;
      wants[i].push_back(getOperandSharding(op, i, rule, assignment));
      operandBytes += getLocalBytes(wants[i].back(), type.getElementType(), mesh);
      exchange += getExchangeSeconds(rule, assignment, i, wants[i].back(), type);
    }
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      haves[i].push_back(getResultSharding(op, i, rule, assignment));
      double local = getLocalBytes(haves[i].back(), getTensor(result).getElementType(), mesh);
      resultBytes += local;
      choices.resultBytes[i].push_back(static_cast<int64_t>(local));
    }
    choices.seconds.push_back(static_cast<double>(getTimes(op)) *
                              (exchange + costs.getOpSeconds(*described.lookup(op), element, assignment,
                                                             operandBytes, resultBytes)));
  }
  for (auto &list : haves)
    choices.haves.push_back(makeCandidateLayouts(op->getContext(), list));
  for (auto &list : wants)
    choices.wants.push_back(makeCandidateLayouts(op->getContext(), list));
  choices.assignments = std::move(candidates.assignments);
  return choices;
}

/// Appends what the op is marked with (dialects/Dist/LayoutMarks.h) to `key`.
static void addMarks(Operation *op, std::vector<int> &key) {
  if (op->getDiscardableAttrDictionary().empty()) {
    key.insert(key.end(), 3, 0);
    return;
  }
  for (StringRef name : {kBatchOverAttrName, kReplicatedOverAttrName, kStoredOverAttrName}) {
    auto mark = llvm::dyn_cast_or_null<DenseI64ArrayAttr>(op->getDiscardableAttr(name));
    key.push_back(mark ? static_cast<int>(mark.size()) : 0);
    if (mark)
      llvm::append_range(key, mark.asArrayRef());
  }
}

/// How many of `axes` an assignment has on factors, but for those on which sums are carried.
static int64_t countStored(const FactorRule &rule, const Assignment &assignment, ArrayRef<int64_t> axes) {
  int64_t count = 0;
  for (auto [factor, own] : llvm::zip_equal(rule.factors, assignment))
    if (factor.kind != FactorKind::Carried)
      count += llvm::count_if(own, [&](unsigned axis) { return llvm::is_contained(axes, axis); });
  return count;
}

/// Leaves those of `assignments` that have as many axes as any on the factors of an op that is marked so.
static void narrowToStored(Operation *op, const FactorRule &rule, std::vector<Assignment> &assignments) {
  auto stored = op->getAttrOfType<DenseI64ArrayAttr>(kStoredOverAttrName);
  if (!stored)
    return;
  int64_t most = 0;
  for (const Assignment &assignment : assignments)
    most = std::max(most, countStored(rule, assignment, stored));
  llvm::erase_if(assignments,
                 [&](const Assignment &assignment) { return countStored(rule, assignment, stored) < most; });
}

/// Leaves those of `assignments` that are as the op is marked, where there are any.
static void narrowToMarks(Operation *op, std::vector<Assignment> &assignments) {
  auto batch = op->getAttrOfType<DenseI64ArrayAttr>(kBatchOverAttrName),
       unused = op->getAttrOfType<DenseI64ArrayAttr>(kReplicatedOverAttrName);
  if (!batch && !unused)
    return;
  auto isAsMarked = [&](const Assignment &assignment) {
    if (batch)
      return llvm::is_contained(assignment[batch[0]], static_cast<unsigned>(batch[1]));
    return llvm::none_of(assignment, [&](const auto &axes) {
      return llvm::any_of(axes, [&](unsigned axis) { return llvm::is_contained(unused.asArrayRef(), axis); });
    });
  };
  if (llvm::any_of(assignments, isAsMarked))
    llvm::erase_if(assignments, [&](const Assignment &assignment) { return !isAsMarked(assignment); });
}

OpChoicesBuilder::RuleKey OpChoicesBuilder::getRuleKey(Operation *op) const {
  auto batch = batchOf.find(op);
  std::vector<int> asked = recipe ? recipe->getKey(op) : std::vector<int>();
  addMarks(op, asked);
  return {&getRule(op), batch == batchOf.end() ? -1 : static_cast<int>(batch->second), deferring.contains(op),
          std::move(asked)};
}

FactorRule OpChoicesBuilder::getTurnRule(const RuleKey &key) const {
  FactorRule rule = std::get<0>(key)->rule;
  if (int batch = std::get<1>(key); batch >= 0) {
    int64_t &rows = rule.factors[batch].size;
    rows = static_cast<int64_t>(llvm::divideCeil(rows, mesh.getNumTurns()));
  }
  return rule;
}

/// Layouts that are enumerated of one op, and sums of two costs that all kinds of ops together may take, each
/// its number of layouts cubed: what it takes to leave an op out between two others.
static constexpr size_t kMostEnumerated = 1024;
static constexpr double kMostSums = 8e8;

LogicalResult OpChoicesBuilder::enumerate() {
  if (failed(readLoop()))
    return failure();
  readPrograms();
  for (auto &[function, refinement] : refinements)
    for (Operation &op : function.front().without_terminator()) {
      if (isa<ParameterOp>(op))
        continue;
      auto [at, isNew] = candidatesOfRule.try_emplace(getRuleKey(&op));
      if (!isNew)
        continue;
      FactorRule rule = getTurnRule(at->first); // ranks divide what a turn does
      CandidateLimits limits;
      limits.carriesSums = deferring.contains(&op);
      // A recipe may ask for those that are not the plainest.
      limits.most = recipe ? Recipe::kMostCandidates : kMostEnumerated;
      Candidates &candidates = at->second = enumerateAssignments(rule, mesh, limits);
      // Sums that meet are brought together once, behind the op in which they do.
      if (!limits.carriesSums || op.hasAttr(kBatchOverAttrName))
        narrowToMarks(&op, candidates.assignments);
      narrowToStored(&op, rule, candidates.assignments);
      if (recipe)
        candidates.isAsAsked = recipe->narrow(&op, rule, candidates.assignments);
    }
  auto countSums = [&](size_t most) {
    double sums = 0;
    for (const auto &[key, candidates] : candidatesOfRule)
      sums += std::pow(static_cast<double>(std::min(candidates.assignments.size(), most)), 3);
    return sums;
  };
  size_t most = kMostEnumerated;
  while (most > 64 && countSums(most) > kMostSums)
    most -= most / 16;
  // Also with a recipe: ops of which it asks nothing have all of theirs.
  if (most < kMostEnumerated || recipe)
    for (auto &[key, candidates] : candidatesOfRule)
      keepPlainest(candidates, getTurnRule(key), mesh, most);
  return success();
}

void OpChoicesBuilder::addLoopAxis(Operation *op, Assignment &assignment) const {
  if (auto batch = batchOf.find(op); batch != batchOf.end())
    assignment[batch->second].insert(assignment[batch->second].begin(),
                                     static_cast<unsigned>(mesh.getLoopAxis()));
}

std::string OpChoicesBuilder::listWidths(Operation *op) const {
  const RefinedRule &refined = getRule(op);
  std::string text;
  for (auto [f, name] : llvm::enumerate(getFactorNames(refined)))
    if (const Factor &factor = refined.rule.factors[f];
        factor.size > 1 && factor.kind != FactorKind::Whole && recipe->isWidth(op, f))
      text += (text.empty() ? "'" : ", '") + name + "' (" + std::to_string(factor.size) + ")";
  return text;
}

OpChoicesBuilder::Named &OpChoicesBuilder::getNamed(func::FuncOp function) {
  auto [at, isNew] = named.try_emplace(function);
  if (isNew) {
    at->second.unique = getUniqueNames(function);
    for (Operation &other : function.front()) {
      const bool isNormalization = isa<NormalizeOp>(other);
      if (isNormalization || hasMatchedGradient(&other) || isa<AttentionOp, GatherOp>(other)) {
        auto &ops = isNormalization ? at->second.normalizations : at->second.heavy;
        if (auto [known, isFirst] = ops.try_emplace(outline::getFirstName(other.getLoc()), &other); !isFirst)
          known->second = nullptr;
      }
    }
  }
  return at->second;
}

Operation *OpChoicesBuilder::findForward(Operation *op) {
  const StringRef name = outline::nameOfGradient(outline::getFirstName(op->getLoc()));
  const bool isHeavy = hasMatchedGradient(op) || isa<AttentionGradientOp, SegmentSumOp>(op);
  if (name.empty() || !(isHeavy || isa<ElementwiseOp, ReduceOp>(op)))
    return nullptr;
  const Named &ops = getNamed(op->getParentOfType<func::FuncOp>());
  if (!isHeavy)
    return ops.normalizations.lookup(name);
  Operation *forward = ops.heavy.lookup(name);
  const bool isOfKind = forward && hasMatchedGradient(forward) == hasMatchedGradient(op) &&
                        isa<GatherOp>(forward) == isa<SegmentSumOp>(op);
  return isOfKind ? forward : nullptr;
}

/// What computes the gradient of a normalization, each element or a sum of them by itself, has the dimensions
/// of what is normalized: each lies over the axes that `asked` puts it on there. None where it has others.
static std::optional<Assignment> matchDims(const FactorRule &from, const Assignment &asked,
                                           const FactorRule &to, const TensorFactors &own) {
  const TensorFactors &dims = from.results[0];
  if (own.size() != dims.size())
    return std::nullopt;
  Assignment matched(to.factors.size());
  for (auto [dim, ownDim] : llvm::zip_equal(dims, own))
    for (auto [i, part] : llvm::enumerate(dim)) {
      if (asked[part].empty())
        continue;
      // The outermost parts lie alike, however the rest is cut.
      const bool isAlike =
          i < ownDim.size() &&
          (i == 0 || (dim.size() == ownDim.size() && from.factors[part].size == to.factors[ownDim[i]].size));
      if (!isAlike || to.factors[ownDim[i]].kind == FactorKind::Whole)
        return std::nullopt;
      matched[ownDim[i]] = asked[part];
    }
  return matched;
}

std::optional<Assignment> OpChoicesBuilder::getForwardAssignment(Operation *op, const Pins &pins) {
  Operation *forward = findForward(op);
  if (!forward)
    return std::nullopt;
  auto function = op->getParentOfType<func::FuncOp>();
  const std::string unique = named[function].unique.lookup(forward);
  std::vector<std::string> names = getNames(forward->getLoc());
  names.push_back(unique);
  names.push_back((unique + "@" + function.getName()).str());
  const RefinedRule &from = getRule(forward), &to = getRule(op);
  const Pin *last = nullptr;
  for (const Pin *pin : pins.find(names))
    if (pin->getAssignment(from))
      last = pin;
  if (!last)
    return std::nullopt;
  if (isa<NormalizeOp>(forward)) {
    // Of a parameter's gradient, once it is summed up, the search decides.
    Value read = isa<ReduceOp>(op) ? op->getOperand(0) : op->getResult(0);
    if (getTensor(read).getShape() != getTensor(forward->getResult(0)).getShape())
      return std::nullopt;
    return matchDims(from.rule, *last->getAssignment(from), to.rule,
                     isa<ReduceOp>(op) ? to.rule.operands[0] : to.rule.results[0]);
  }
  if (!hasMatchedGradient(forward)) {
    std::optional<Assignment> asked = last->getAssignment(to);
    // Where ranks look up the same rows, each may add up a part of their width.
    size_t used = 0;
    for (unsigned f = 0; asked && f < asked->size(); ++f)
      used += (*asked)[f].size();
    const bool isWhole = isa<SegmentSumOp>(op) && used < getRankMesh(mesh).getAxes().size();
    return isWhole ? std::nullopt : asked;
  }
  const Assignment asked = *last->getAssignment(from);
  Assignment turned(to.rule.factors.size());
  std::vector<bool> isMatched(from.own.factors.size(), false);
  for (const FactorMatch &match : matchFactors(forward, from.own, op, to.own)) {
    isMatched[match.forward] = true;
    if (to.own.factors[match.gradient].size != from.own.factors[match.forward].size)
      return std::nullopt;
    ArrayRef<unsigned> parts = from.parts[match.forward], ownParts = to.parts[match.gradient];
    for (auto [i, part] : llvm::enumerate(parts)) {
      if (asked[part].empty())
        continue;
      // The outermost parts lie alike, however the rest is cut.
      const bool isAlike = parts.size() == ownParts.size() &&
                           from.rule.factors[part].size == to.rule.factors[ownParts[i]].size;
      if ((i > 0 && !isAlike) || to.rule.factors[ownParts[i]].kind == FactorKind::Whole)
        return std::nullopt;
      turned[ownParts[i]] = asked[part];
    }
  }
  for (auto [factor, parts] : llvm::enumerate(from.parts)) // windows are another matter
    for (unsigned part : parts)
      if (!isMatched[factor] && !asked[part].empty())
        return std::nullopt;
  return turned;
}

/// Whether `op` converts what another kind of op of its node gives or takes, as a precision has it done: of
/// its own factors no pin of that node speaks, though some may have their names.
static bool convertsForAnother(Operation *op) {
  auto conversion = dyn_cast<ElementwiseOp>(op);
  if (!conversion || conversion.getKind() != ElementwiseKind::Cast)
    return false;
  // What was rounded to be kept is widened again where it is used, by what other nodes want.
  if (auto rounding = op->getOperand(0).getDefiningOp<ElementwiseOp>();
      rounding && rounding.getKind() == ElementwiseKind::Cast)
    return true;
  const StringRef name = outline::getFirstName(op->getLoc());
  auto isOther = [&](Operation *other) {
    return other && !isa<ElementwiseOp, ParameterOp>(other) && outline::getFirstName(other->getLoc()) == name;
  };
  return isOther(op->getOperand(0).getDefiningOp()) || llvm::any_of(op->getUsers(), isOther);
}

/// Whether `op` widens what it takes: fewer bits are moved where it lies as what reads it.
static bool widens(Operation *op) {
  auto conversion = dyn_cast<ElementwiseOp>(op);
  if (!conversion || conversion.getKind() != ElementwiseKind::Cast || op->use_empty())
    return false;
  auto bits = [](Value value) { return getTensor(value).getElementTypeBitWidth(); };
  return bits(op->getResult(0)) > bits(op->getOperand(0));
}

OpChoicesBuilder::Reader OpChoicesBuilder::findReader(Operation *op) {
  if (!widens(op))
    return {};
  Operation *user = *op->user_begin();
  const StringRef name = outline::getFirstName(user->getLoc());
  auto isOfNode = [&](Operation *other) { return outline::getFirstName(other->getLoc()) == name; };
  if (!llvm::all_of(op->getUsers(), isOfNode))
    return {};
  const bool isAlike = op->hasOneUse() && isa<ElementwiseOp>(user) &&
                       getTensor(user->getResult(0)).getShape() == getTensor(op->getResult(0)).getShape();
  if (!isAlike)
    return {{name.str()}, /*isAlike=*/false};
  auto function = op->getParentOfType<func::FuncOp>();
  Reader reader{getNames(user->getLoc()), /*isAlike=*/true};
  reader.names.push_back(getNamed(function).unique.lookup(user));
  reader.names.push_back((reader.names.back() + "@" + function.getName()).str());
  return reader;
}

std::shared_ptr<const OpChoices> OpChoicesBuilder::getChoices(Operation *op, StringRef name,
                                                              StringRef programName, const Pins &pins) {
  const RefinedRule &refined = getRule(op);
  const RuleKey key = getRuleKey(op);
  if (!op->getDiscardableAttrDictionary().empty())
    for (StringRef name : {kBatchOverAttrName, kReplicatedOverAttrName, kStoredOverAttrName})
      op->removeAttr(name);
  std::shared_ptr<const OpChoices> &free = choicesOfRule[key];
  if (!free) {
    Candidates candidates = std::move(candidatesOfRule[key]);
    if (recipe && !candidates.isAsAsked && recipe->isContraction(op))
      emitWarning(op->getLoc()) << "'" << name << "' cannot be laid out as '" << recipe->getName()
                                << "' asks: some axis does not fit its sizes, and the search decides";
    else if (recipe && !candidates.isAsAsked && recipe->splitsHeads(op) && !listWidths(op).empty())
      emitWarning(op->getLoc()) << "'" << name << "' cannot be laid out as '" << recipe->getName()
                                << "' asks: an axis stands on one of " << listWidths(op)
                                << ", and some axis fits none of them; a mesh whose axes do would, and here "
                                   "the search decides";
    for (Assignment &assignment : candidates.assignments)
      addLoopAxis(op, assignment);
    free = std::make_shared<OpChoices>(makeChoices(op, std::move(candidates)));
  }
  if (pins.empty())
    return free;
  std::vector<std::string> names = getNames(op->getLoc());
  names.push_back(name.str());
  names.push_back(programName.str());
  std::optional<Assignment> pinned;
  ShardingAttr pinnedResult;
  const Pin *resultPin = nullptr;
  const bool isConversion = convertsForAnother(op);
  const Reader reader = findReader(op);
  auto ask = [&](bool isCopy) {
    std::vector<std::string> all = names;
    llvm::append_range(all, reader.names);
    for (const Pin *found : pins.find(all)) {
      const Pin &pin = *found;
      // Which of several operations of one name is made again its number does not tell.
      const bool isOfReader = (pin.shape || (reader.isAlike && pin.form == Pin::Form::Factors)) &&
                              !reader.names.empty() && pin.matches(reader.names);
      if (!isOfReader &&
          !pin.matches(isCopy && pin.isOptional ? ArrayRef(names).drop_back(2) : ArrayRef(names)))
        continue;
      if (pin.isOptional && pin.keepsSums() && !deferring.contains(op))
        continue;
      if (isConversion && pin.form == Pin::Form::Factors && !isOfReader)
        continue;
      if (pin.shape && (op->getNumResults() == 0 || !pin.isOfShape(getTensor(op->getResult(0)).getShape())))
        continue;
      const bool isForward = pin.form == Pin::Form::Forward;
      pin.isUsed |= isForward; // also where the search decides
      if (std::optional<Assignment> asked =
              isForward ? getForwardAssignment(op, pins) : pin.getAssignment(refined)) {
        pin.isUsed = true;
        pinned = asked;
        addLoopAxis(op, *pinned);
        pinnedResult = {};
      } else if (op->getNumResults() > 0) {
        if (ShardingAttr asked = pin.getSharding(op->getContext(), getTensor(op->getResult(0)).getShape())) {
          pinnedResult = asked;
          resultPin = &pin;
        }
      }
    }
  };
  ask(/*isCopy=*/false);
  // What is made again lies as what was pinned the first time, where no pin speaks of it.
  if (!pinned && !pinnedResult && outline::nameFirstTime(names))
    ask(/*isCopy=*/true);
  if (!pinned && !pinnedResult)
    return free;
  std::vector<Assignment> fitting = pinned ? std::vector<Assignment>{*pinned} : free->assignments;
  if (pinnedResult) {
    llvm::erase_if(fitting, [&](const Assignment &assignment) {
      return dropLoop(getResultSharding(op, 0, refined.rule, assignment), mesh) != pinnedResult;
    });
    resultPin->isUsed |= !fitting.empty();
    const std::string conflict = "'" + name.str() + "': pin '" + resultPin->text +
                                 "' cannot be met: no layout of this op gives " +
                                 printSharding(pinnedResult, mesh);
    if (fitting.empty() && !pinned) {
      emitError(op->getLoc()) << conflict;
      return nullptr;
    }
    // Ops that were made of one node have its names and those of its tensors: what is said of this op goes
    // before what may be said of a tensor that another of them makes.
    if (fitting.empty()) {
      resultPin->conflict = conflict;
      fitting.push_back(*pinned);
    }
  }
  return std::make_shared<OpChoices>(makeChoices(op, {std::move(fitting)}));
}
