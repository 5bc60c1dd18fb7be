//===- Model.cpp - a module as a layout problem -----------------------------===//
#include "Model.h"

#include "DeferredSums.h"
#include "Names.h"
#include "dialects/Colossal/Colossal.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SetVector.h"

#include <limits>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

static RankedTensorType getTensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

double Model::getLocalBytes(ShardingAttr sharding, Type element) const {
  double bytes = getElementBytes(element);
  for (int64_t size : sharding.getLocalShape(mesh))
    bytes *= size;
  return bytes;
}

static ArrayAttr toArray(MLIRContext *context, ArrayRef<ShardingAttr> layouts) {
  return ArrayAttr::get(context, SmallVector<Attribute>(layouts.begin(), layouts.end()));
}

/// Work-free ops of one operand are views: their result lies in the operand's memory.
static bool isView(Operation *op) {
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  return ruled && op->getNumOperands() == 1 && op->getNumResults() == 1 && ruled.getFlops() == 0;
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

void Model::numberSteps() {
  for (auto function : module.getOps<func::FuncOp>()) {
    for (Operation &op : function.front())
      steps[&op] = end++;
    for (Operation &op : llvm::reverse(function.front())) {
      for (Value operand : op.getOperands()) {
        int64_t &last = lastUse[operand];
        last = std::max(last, steps[&op] + 1);
        if (isView(&op)) // users of a view use what it shows; they were seen before, as this goes backwards
          last = std::max(last, lastUse[op.getResult(0)]);
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

int Model::addNode(NodeInfo info, std::vector<search::Candidate> candidates) {
  problem.nodes.push_back({info.name, std::move(candidates)});
  nodes.push_back(std::move(info));
  return nodes.size() - 1;
}

std::string Model::getProgramName(StringRef name, func::FuncOp function) const {
  if (!function || refinements.size() < 2)
    return name.str();
  return (name + "@" + function.getName()).str();
}

/// Reduces `layouts` to what the last pin asks for that matches one of `names` and fits the tensor.
static void applyTensorPins(std::vector<ShardingAttr> &layouts, ArrayRef<std::string> names,
                            RankedTensorType type, std::vector<Pin> &pins) {
  for (Pin &pin : pins) {
    if (!pin.matches(names))
      continue;
    ShardingAttr pinned = pin.getSharding(type.getContext(), type.getShape());
    if (!pinned)
      continue;
    pin.isUsed = true;
    layouts = {pinned};
  }
}

/// What bringing the windows of an operand takes: the elements that its neighbours' shards hold.
double Model::getExchangeSeconds(const FactorRule &rule, const Assignment &assignment, unsigned operand,
                                 ShardingAttr sharding, RankedTensorType type) const {
  double seconds = 0;
  for (auto [d, dim] : llvm::enumerate(rule.operands[operand])) {
    if (dim.size() != 1 || rule.factors[dim.front()].operandSize < 0 || assignment[dim.front()].empty())
      continue;
    const Factor &factor = rule.factors[dim.front()];
    double chunk = getLocalSize(factor.operandSize, assignment[dim.front()], mesh);
    double window =
        (getLocalSize(factor.size, assignment[dim.front()], mesh) - 1.0) * factor.stride + factor.window;
    double slab = getLocalBytes(sharding, type.getElementType()) / chunk;
    seconds += costs.getExchangeSeconds(std::max(window - chunk, 1.0) * slab, assignment[dim.front()]);
  }
  return seconds;
}

SmallVector<Model::Exchange, 2> Model::getStatistics(const FactorRule &rule,
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

OpChoices Model::makeChoices(Operation *op, std::vector<Assignment> assignments) const {
  const FactorRule &rule = getRule(op).rule;
  OpChoices choices;
  choices.resultBytes.resize(op->getNumResults());
  SmallVector<SmallVector<ShardingAttr>> haves(op->getNumResults()), wants(op->getNumOperands());
  for (const Assignment &assignment : assignments) {
    double operandBytes = 0, resultBytes = 0, exchange = 0;
    for (const Exchange &statistics : getStatistics(rule, assignment))
      exchange += costs.getMoveSeconds(statistics.kind, statistics.bytes, statistics.axes);
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      auto type = dyn_cast<RankedTensorType>(operand.getType());
      if (!type)
        continue;
      wants[i].push_back(getOperandSharding(op, i, rule, assignment));
      operandBytes += getLocalBytes(wants[i].back(), type.getElementType());
      exchange += getExchangeSeconds(rule, assignment, i, wants[i].back(), type);
    }
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      haves[i].push_back(getResultSharding(op, i, rule, assignment));
      double local = getLocalBytes(haves[i].back(), getTensor(result).getElementType());
      resultBytes += local;
      choices.resultBytes[i].push_back(static_cast<int64_t>(local));
    }
    choices.seconds.push_back(exchange + costs.getOpSeconds(op, rule, assignment, operandBytes, resultBytes));
  }
  for (auto &list : haves)
    choices.haves.push_back(toArray(op->getContext(), list));
  for (auto &list : wants)
    choices.wants.push_back(toArray(op->getContext(), list));
  choices.assignments = std::move(assignments);
  return choices;
}

std::shared_ptr<const OpChoices> Model::getChoices(Operation *op, StringRef name, std::vector<Pin> &pins) {
  const RefinedRule &refined = getRule(op);
  CandidateLimits limits;
  limits.carriesSums = deferring.contains(op);
  std::vector<int> seen = recipe ? recipe->getKey(op) : std::vector<int>();
  std::shared_ptr<const OpChoices> &free = choicesOfRule[{&refined, limits.carriesSums, seen}];
  if (!free) {
    if (recipe) // which asks for few of them, not for the plainest
      limits.count = limits.most = std::numeric_limits<size_t>::max();
    std::vector<Assignment> assignments = enumerateAssignments(refined.rule, mesh, limits);
    if (recipe && !recipe->narrow(op, refined.rule, assignments) && recipe->isAnchor(op))
      emitWarning(op->getLoc()) << "'" << name << "' cannot be laid out as '" << recipe->getName()
                                << "' asks: some axis does not fit its sizes, and the search decides";
    free = std::make_shared<OpChoices>(makeChoices(op, std::move(assignments)));
  }
  if (pins.empty())
    return free;
  std::vector<std::string> names = getNames(op->getLoc());
  names.push_back(name.str());
  names.push_back(getProgramName(name, op->getParentOfType<func::FuncOp>()));
  std::optional<Assignment> pinned;
  ShardingAttr pinnedResult;
  const Pin *resultPin = nullptr;
  for (Pin &pin : pins) {
    if (!pin.matches(names))
      continue;
    if (std::optional<Assignment> asked = pin.getAssignment(refined)) {
      pin.isUsed = true;
      pinned = asked;
      pinnedResult = {};
    } else if (op->getNumResults() > 0) {
      if (ShardingAttr asked = pin.getSharding(op->getContext(), getTensor(op->getResult(0)).getShape())) {
        pinnedResult = asked;
        resultPin = &pin;
      }
    }
  }
  if (!pinned && !pinnedResult)
    return free;
  std::vector<Assignment> fitting = pinned ? std::vector<Assignment>{*pinned} : free->assignments;
  if (pinnedResult) {
    llvm::erase_if(fitting, [&](const Assignment &assignment) {
      return getResultSharding(op, 0, refined.rule, assignment) != pinnedResult;
    });
    if (fitting.empty()) {
      emitError(op->getLoc()) << "'" << name << "': pin '" << resultPin->text
                              << "' cannot be met: no layout of this op "
                              << "gives " << printSharding(pinnedResult, mesh);
      return nullptr;
    }
    resultPin->isUsed = true;
  }
  return std::make_shared<OpChoices>(makeChoices(op, std::move(fitting)));
}

LogicalResult Model::addOp(Operation *op, StringRef name, std::vector<Pin> &pins) {
  NodeInfo info;
  info.choices = getChoices(op, name, pins);
  if (!info.choices)
    return failure();
  const OpChoices &choices = *info.choices;
  info.name = name.str();
  info.function = op->getParentOfType<func::FuncOp>();
  info.ops = {op};
  std::vector<search::Candidate> candidates(choices.assignments.size());
  for (auto [candidate, seconds] : llvm::zip_equal(candidates, choices.seconds))
    candidate.cost = search::costFromSeconds(seconds);
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    // A returned value is written where outputs lie, which its Result node counts.
    bool isReturned =
        llvm::any_of(result.getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); });
    if (isView(op) || isReturned)
      continue;
    int64_t begin = steps[op], end = std::max(lastUse[result], begin + 1);
    for (auto [candidate, bytes] : llvm::zip_equal(candidates, choices.resultBytes[i]))
      candidate.memory.push_back({begin, end, bytes});
  }
  choicesOf[op] = &choices;
  int node = addNode(std::move(info), std::move(candidates));
  opNodes[op] = node;
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    sources[result] = {node, choices.haves[i]};
  return success();
}

static uint32_t getUsedAxes(ShardingAttr layout) {
  uint32_t used = 0;
  for (DimShardingAttr dim : layout.getDims())
    for (FactorShardAttr factor : dim.getFactors())
      for (unsigned axis : factor.getAxes())
        used |= 1u << axis;
  return used;
}

/// `layout` with each of `axes` that it does not use on the outermost free place of the largest dimension
/// that it divides; with `prefersWholeDims`, of the largest that is whole, where there is one.
static ShardingAttr spreadUnusedAxes(ShardingAttr layout, MeshAttr mesh, ArrayRef<unsigned> axes,
                                     bool prefersWholeDims = false) {
  uint32_t used = getUsedAxes(layout);
  SmallVector<SmallVector<std::pair<int64_t, SmallVector<unsigned>>>> dims;
  for (DimShardingAttr dim : layout.getDims()) {
    dims.emplace_back();
    for (FactorShardAttr factor : dim.getFactors())
      dims.back().push_back({factor.getSize(), SmallVector<unsigned>(factor.getAxes())});
  }
  for (unsigned axis : axes) {
    int64_t ranks = mesh.getAxisSize(axis);
    std::pair<bool, int64_t> best{false, 0};
    std::pair<int64_t, SmallVector<unsigned>> *place = nullptr;
    for (auto &dim : dims) {
      bool isWhole = llvm::all_of(dim, [](const auto &factor) { return factor.second.empty(); });
      for (auto &factor : dim) {
        int64_t split = 1;
        for (unsigned other : factor.second)
          split *= mesh.getAxisSize(other);
        std::pair<bool, int64_t> key{prefersWholeDims && isWhole, factor.first / split};
        if (factor.first % (split * ranks) == 0 && key > best) {
          best = key;
          place = &factor;
        }
      }
    }
    if (!(used >> axis & 1) && place && ranks > 1)
      place->second.push_back(axis);
  }
  SmallVector<DimShardingAttr> attrs;
  for (auto &dim : dims) {
    SmallVector<std::pair<int64_t, ArrayRef<unsigned>>> parts;
    for (auto &[size, axes] : dim)
      parts.push_back({size, axes});
    attrs.push_back(makeDimSharding(mesh.getContext(), parts));
  }
  return ShardingAttr::get(mesh.getContext(), attrs, {}, ReductionKind::Sum);
}

std::vector<ShardingAttr> Model::getDemands(ArrayRef<Value> values, ArrayRef<unsigned> spread) const {
  llvm::SetVector<ShardingAttr> layouts;
  layouts.insert(ShardingAttr::getReplicated(mesh.getContext(), getTensor(values.front()).getShape()));
  for (Value value : values)
    for (OpOperand &use : value.getUses())
      if (auto found = choicesOf.find(use.getOwner()); found != choicesOf.end())
        for (Attribute want : found->second->wants[use.getOperandNumber()])
          if (auto layout = cast<ShardingAttr>(want); !layout.isPartial())
            layouts.insert(layout);
  if (!spread.empty())
    for (ShardingAttr layout : std::vector<ShardingAttr>(layouts.begin(), layouts.end()))
      layouts.insert(spreadUnusedAxes(layout, mesh, spread, recipe.has_value()));
  return std::vector<ShardingAttr>(layouts.begin(), layouts.end());
}

void Model::narrowStored(ArrayRef<Value> values, std::vector<ShardingAttr> &layouts) const {
  auto isWeight = [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) { return recipe->isAnchor(user); });
  };
  if (!recipe || !llvm::any_of(values, isWeight))
    return;
  uint32_t wanted = 0;
  for (unsigned axis : recipe->getStoredAxes())
    wanted |= 1u << axis;
  auto getStrays = [&](ShardingAttr layout) { return llvm::popcount(getUsedAxes(layout) ^ wanted); };
  int least = std::numeric_limits<int>::max();
  for (ShardingAttr layout : layouts)
    least = std::min(least, getStrays(layout));
  llvm::erase_if(layouts, [&](ShardingAttr layout) { return getStrays(layout) != least; });
}

int Model::addTensorNode(NodeInfo info, RankedTensorType type, int64_t begin, int64_t finish) {
  std::vector<search::Candidate> candidates;
  for (ShardingAttr layout : info.layouts) {
    int64_t bytes = getLocalBytes(layout, type.getElementType());
    candidates.push_back({0, {{begin, finish, bytes}}});
  }
  return addNode(std::move(info), std::move(candidates));
}

LogicalResult Model::addParameters(std::vector<Pin> &pins) {
  llvm::MapVector<StringRef, SmallVector<ParameterOp, 1>> byName;
  for (auto function : module.getOps<func::FuncOp>())
    for (auto parameter : function.getOps<ParameterOp>())
      byName[parameter.getName()].push_back(parameter);
  for (auto &[name, ops] : byName) {
    NodeInfo info;
    info.kind = NodeInfo::Kind::Parameter;
    info.name = name.str();
    SmallVector<Value> values;
    for (ParameterOp op : ops) {
      if (op.getType() != ops.front().getType())
        return emitError(op.getLoc()) << "parameter '" << name << "' has type " << op.getType()
                                      << " here and " << ops.front().getType() << " elsewhere";
      info.ops.push_back(op);
      values.push_back(op.getResult());
    }
    auto type = cast<RankedTensorType>(ops.front().getType());
    SmallVector<unsigned> spread;
    if (recipe)
      spread = recipe->getStoredAxes();
    else if (memoryLimit)
      llvm::append_range(spread, llvm::seq<unsigned>(0, mesh.getNumAxes()));
    info.layouts = getDemands(values, spread);
    narrowStored(values, info.layouts);
    std::vector<std::string> names{info.name};
    if (auto aliases = ops.front().getAliasesAttr())
      for (Attribute alias : aliases)
        names.push_back(cast<StringAttr>(alias).str());
    applyTensorPins(info.layouts, names, type, pins);
    ArrayAttr layouts = toArray(mesh.getContext(), info.layouts);
    int node = addTensorNode(std::move(info), type, 0, end);
    for (Value value : values)
      sources[value] = {node, layouts};
  }
  return success();
}

/// The model's name of an argument or result, or its place.
static std::string getBoundaryName(Attribute name, StringRef what, unsigned index) {
  if (auto text = dyn_cast_or_null<StringAttr>(name))
    return text.str();
  return (what + std::to_string(index)).str();
}

void Model::addArguments(func::FuncOp function, std::vector<Pin> &pins) {
  for (BlockArgument argument : function.getArguments()) {
    NodeInfo info;
    info.kind = NodeInfo::Kind::Argument;
    info.function = function;
    info.index = argument.getArgNumber();
    info.name = getBoundaryName(function.getArgAttr(info.index, "colossal.name"), "argument", info.index);
    info.layouts = getDemands(argument, {});
    if (recipe)
      if (auto asked = recipe->getLayouts(argument, *refinements.find(function)->second))
        info.layouts = std::move(*asked);
    RankedTensorType type = getTensor(argument);
    applyTensorPins(info.layouts, {info.name, getProgramName(info.name, function)}, type, pins);
    ArrayAttr layouts = toArray(mesh.getContext(), info.layouts);
    Block &body = function.front();
    sources[argument] = {
        addTensorNode(std::move(info), type, steps[&body.front()], steps[body.getTerminator()] + 1), layouts};
  }
}

void Model::addResults(func::FuncOp function, std::vector<Pin> &pins) {
  Operation *terminator = function.front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    NodeInfo info;
    info.kind = NodeInfo::Kind::Result;
    info.function = function;
    info.index = i;
    info.name = getBoundaryName(function.getResultAttr(i, "colossal.name"), "result", i);
    RankedTensorType type = getTensor(value);
    // Whatever the producer offers, without its partial sums: the runtime takes outputs as they lie.
    llvm::SetVector<ShardingAttr> layouts;
    layouts.insert(ShardingAttr::getReplicated(mesh.getContext(), type.getShape()));
    for (Attribute have : sources[value].layouts) {
      auto sharding = cast<ShardingAttr>(have);
      layouts.insert(sharding.withoutPartial());
      if (sharding.isPartial()) // or reduced and split at once
        layouts.insert(spreadUnusedAxes(sharding.withoutPartial(), mesh, sharding.getPartialAxes()));
    }
    info.layouts.assign(layouts.begin(), layouts.end());
    applyTensorPins(info.layouts, {info.name, getProgramName(info.name, function)}, type, pins);
    ArrayAttr want = toArray(mesh.getContext(), info.layouts);
    int node = addTensorNode(std::move(info), type, steps[&function.front().front()], steps[terminator] + 1);
    transfers.push_back({value, sources[value].node, node, sources[value].layouts, want, false});
  }
}

//===----------------------------------------------------------------------===//
// Edges
//===----------------------------------------------------------------------===//

search::Cost Model::getMoveCost(ShardingAttr from, ShardingAttr to, unsigned elementBytes, unsigned sharers,
                                bool isParameter) {
  double seconds = resharder.getCost(from, to, elementBytes);
  if (std::isinf(seconds))
    return search::kForbidden;
  constexpr double kDiscouraged = 100; // taken only where nothing else fits
  if (recipe && !isParameter && from != to && !recipe->allows(*resharder.find(from, to, elementBytes)))
    seconds *= kDiscouraged;
  return search::costFromSeconds(seconds / sharers);
}

std::shared_ptr<const search::CostTable> Model::getTable(const Transfer &transfer, unsigned sharers) {
  unsigned elementBytes = getElementBytes(getTensor(transfer.value).getElementType());
  ArrayAttr have = transfer.have, want = transfer.want;
  auto &table = tables[{have.getAsOpaquePointer(), want.getAsOpaquePointer(), elementBytes, sharers,
                        transfer.isParameter}];
  if (table)
    return table;
  auto costsOf = std::make_shared<search::CostTable>();
  // Candidates that differ only in factors which this tensor lacks have the same layout of it.
  llvm::SetVector<Attribute> froms(have.begin(), have.end()), tos(want.begin(), want.end());
  llvm::DenseMap<Attribute, unsigned> rows, columns;
  std::vector<search::Cost> costsOfDistinct;
  for (Attribute from : froms)
    for (Attribute to : tos)
      costsOfDistinct.push_back(getMoveCost(cast<ShardingAttr>(from), cast<ShardingAttr>(to), elementBytes,
                                            sharers, transfer.isParameter));
  for (auto [i, from] : llvm::enumerate(froms))
    rows[from] = i;
  for (auto [i, to] : llvm::enumerate(tos))
    columns[to] = i;
  for (Attribute from : have)
    for (Attribute to : want)
      costsOf->push_back(costsOfDistinct[rows[from] * tos.size() + columns[to]]);
  table = costsOf;
  return table;
}

/// With a memory limit, the copy of a parameter that a use brings in another layout than the stored one
/// counts while it lives. The copy is a node of its own between parameter and user: in the stored layout at
/// no cost, or copied.
void Model::addParameterUse(const Transfer &transfer, int64_t step) {
  llvm::SetVector<Attribute> asked(transfer.want.begin(), transfer.want.end());
  unsigned elementBytes = getElementBytes(getTensor(transfer.value).getElementType());
  NodeInfo info;
  info.kind = NodeInfo::Kind::Copy;
  info.name = nodes[transfer.from].name;
  std::vector<search::Candidate> candidates;
  auto toCopy = std::make_shared<search::CostTable>(), toUse = std::make_shared<search::CostTable>();
  for (bool isCopied : {false, true})
    for (Attribute layout : asked) {
      auto sharding = cast<ShardingAttr>(layout);
      info.layouts.push_back(sharding);
      int64_t bytes = getLocalBytes(sharding, getTensor(transfer.value).getElementType());
      candidates.push_back({});
      if (isCopied)
        candidates.back().memory.push_back({step, step + 1, bytes});
    }
  for (Attribute have : transfer.have)
    for (size_t i = 0; i < candidates.size(); ++i) {
      bool isCopied = i >= asked.size(), isSame = have == info.layouts[i];
      if (isCopied)
        toCopy->push_back(
            isSame ? search::kForbidden
                   : getMoveCost(cast<ShardingAttr>(have), info.layouts[i], elementBytes, 1, true));
      else
        toCopy->push_back(isSame ? 0 : search::kForbidden);
    }
  for (ShardingAttr layout : info.layouts)
    for (Attribute want : transfer.want)
      toUse->push_back(layout == want ? 0 : search::kForbidden);
  int node = addNode(std::move(info), std::move(candidates));
  problem.addEdge(transfer.from, node, toCopy);
  problem.addEdge(node, transfer.to, toUse);
}

void Model::addTransfers(func::FuncOp function) {
  for (Operation &op : function.front().without_terminator()) {
    auto found = opNodes.find(&op);
    if (found == opNodes.end())
      continue;
    for (auto [i, operand] : llvm::enumerate(op.getOperands()))
      if (auto source = sources.find(operand); source != sources.end())
        transfers.push_back({operand, source->second.node, found->second, source->second.layouts,
                             choicesOf.lookup(&op)->wants[i],
                             static_cast<bool>(operand.getDefiningOp<ParameterOp>())});
  }
}

LogicalResult Model::build(std::vector<Pin> &pins) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || !function.getBody().hasOneBlock())
      return function.emitError() << "expected a function of one block";
    for (Operation &op : function.front().without_terminator())
      if (!isa<ShardingRuleOpInterface>(op))
        return op.emitOpError() << "has no sharding rule, so that no layout can be searched for it";
    refinements.insert({function, std::make_unique<RefinementAnalysis>(function)});
    deferring.insert_range(findDeferringOps(function, *refinements.back().second));
    if (recipe)
      recipe->read(function, *refinements.back().second);
  }
  numberSteps();
  problem.memoryLimit = memoryLimit;
  for (auto &[function, refinement] : refinements) {
    llvm::DenseMap<Operation *, std::string> names = getUniqueNames(function);
    for (Operation &op : function.front().without_terminator())
      if (!isa<ParameterOp>(op) && failed(addOp(&op, names[&op], pins)))
        return failure();
  }
  if (failed(addParameters(pins)))
    return failure();
  for (auto &[function, refinement] : refinements) {
    addArguments(function, pins);
    addResults(function, pins);
  }
  bool isMet = true;
  for (const Pin &pin : pins)
    if (!pin.isUsed) {
      emitError(module.getLoc()) << "pin '" << pin.text
                                 << "' matches no op or tensor that can be laid out so";
      isMet = false;
    }
  if (!isMet)
    return failure();
  for (auto &[function, refinement] : refinements)
    addTransfers(function);
  // Uses of one value that ask for the same layouts mostly choose the same, and then share one transfer.
  std::map<std::pair<void *, const void *>, unsigned> sharers;
  for (const Transfer &transfer : transfers)
    ++sharers[{transfer.value.getAsOpaquePointer(), transfer.want.getAsOpaquePointer()}];
  for (const Transfer &transfer : transfers) {
    if (transfer.isParameter && memoryLimit) {
      addParameterUse(transfer, steps[nodes[transfer.to].ops.front()]);
      continue;
    }
    auto table = getTable(transfer,
                          sharers[{transfer.value.getAsOpaquePointer(), transfer.want.getAsOpaquePointer()}]);
    if (llvm::any_of(*table, [](search::Cost cost) { return cost != 0; }))
      problem.addEdge(transfer.from, transfer.to, table);
  }
  return success();
}

void Model::apply(const search::Assignment &chosen) {
  std::map<std::pair<const OpChoices *, int32_t>, Attribute> written;
  for (auto [i, node] : llvm::enumerate(nodes)) {
    int32_t candidate = chosen[i];
    switch (node.kind) {
    case NodeInfo::Kind::Op:
      if (Attribute &known = written[{node.choices.get(), candidate}]) {
        node.ops.front()->setAttr(kAssignmentAttrName, known);
      } else {
        setAssignment(node.ops.front(), node.choices->assignments[candidate]);
        known = node.ops.front()->getAttr(kAssignmentAttrName);
      }
      break;
    case NodeInfo::Kind::Parameter:
      for (Operation *op : node.ops)
        op->setAttr(kShardingAttrName, node.layouts[candidate]);
      break;
    case NodeInfo::Kind::Argument:
      node.function.setArgAttr(node.index, kShardingAttrName, node.layouts[candidate]);
      break;
    case NodeInfo::Kind::Result:
      node.function.setResultAttr(node.index, kShardingAttrName, node.layouts[candidate]);
      break;
    case NodeInfo::Kind::Copy: break;
    }
  }
}
