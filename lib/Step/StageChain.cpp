//===- StageChain.cpp - a function as a chain of units ----------------------===//
#include "StageChain.h"

#include "dialects/Colossal/Precision.h"
#include "dialects/Dist/State.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::step;

double step::getBytes(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return static_cast<double>(tensor.getNumElements()) * getElementBytes(tensor.getElementType());
}

/// The number of the op that an op of a backward pass belongs to, or -1.
static int64_t getUnit(Operation *op) {
  for (StringRef name : {StringRef(kGradientOfAttrName), StringRef(kUnitAttrName)})
    if (auto unit = op->getAttrOfType<IntegerAttr>(name))
      return unit.getInt();
  return -1;
}

void Chain::findRoles(const layout::OpPrices &prices, MeshAttr mesh) {
  const auto ranks = static_cast<double>(mesh.getNumRanks());
  llvm::DenseMap<Operation *, double> again;            // seconds to compute it with all that it needs
  llvm::DenseSet<Operation *> readsParameter, ofStates; // the latter of nothing that changes within a run
  size_t inChain = 0;
  for (bool allowsCheap : {true, false}) {
    roles.clear();
    ofStates.clear();
    inChain = 0;
    for (Operation &op : function.front().without_terminator()) {
      bool isFree = true, isCheap = allowsCheap, isOfStates = true, reads = isa<ParameterOp>(op);
      double seconds = prices.seconds.lookup(&op);
      for (Value operand : op.getOperands()) {
        Operation *def = operand.getDefiningOp();
        isFree &= def && roles.lookup(def) == Role::Free;
        const bool isState = getState(operand) != nullptr;
        isOfStates &= isState || (def && (roles.lookup(def) == Role::Free || ofStates.contains(def)));
        reads |= isState;
        isCheap &= !def || roles.lookup(def) != Role::Chain;
        reads |= def && readsParameter.contains(def);
        seconds += def ? again.lookup(def) : 0;
      }
      if (reads)
        readsParameter.insert(&op);
      again[&op] = seconds;
      double bytes = 0;
      for (Value result : op.getResults())
        bytes += getBytes(result.getType());
      auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
      isCheap &= !reads && ruled && !ruled.isHeavy() && seconds <= prices.messageSeconds(bytes / ranks);
      // (What is heavy, too: stages tell each other of turns, and this is the same in all of them.)
      if (isOfStates)
        ofStates.insert(&op);
      Role role = isFree ? Role::Free : isCheap || isOfStates ? Role::Cheap : Role::Chain;
      roles[&op] = role;
      inChain += role == Role::Chain && kinds.lookup(&op) == Kind::Forward;
    }
    if (inChain >= static_cast<size_t>(parts))
      return;
  }
}

LogicalResult Chain::bound(std::vector<StagePin> &pins, bool isOneOfMany) {
  for (Operation &op : function.front().without_terminator()) {
    Bounds &own = bounds[&op];
    own.greatest = parts - 1;
    std::vector<std::string> all = outline::getNames(op.getLoc());
    all.push_back(names[&op]);
    if (isOneOfMany)
      all.push_back((names[&op] + "@" + function.getName()).str());
    for (StagePin &pin : pins)
      if (pin.name.matches(all)) { // the last one counts
        pin.isUsed = true;
        if (roles[&op] != Role::Chain || kinds.lookup(&op) != Kind::Forward)
          continue;
        isPinned = true;
        own = {pin.part, pin.part, &pin, &pin, &op, &op};
      }
  }
  auto isForward = [&](Operation &op) { return kinds.lookup(&op) == Kind::Forward; };
  for (Operation &op : llvm::make_filter_range(function.front().without_terminator(), isForward))
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp(); def && roles[def] == Role::Chain) {
        const Bounds &before = bounds[def];
        Bounds &own = bounds[&op];
        if (before.least > own.least) {
          if (before.least > own.greatest)
            return emitError(own.greatestOp->getLoc())
                   << "pin '" << before.leastPin->text << "' puts '" << names[before.leastOp]
                   << "' into stage " << before.least << ", but '" << names[own.greatestOp]
                   << "', which needs what it computes, is put into stage " << own.greatest << " by pin '"
                   << own.greatestPin->text << "': data flows from stage to stage in their order";
          own.least = before.least;
          own.leastPin = before.leastPin;
          own.leastOp = before.leastOp;
        }
      }
  for (Operation &op : llvm::reverse(function.front().without_terminator()))
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp(); isForward(op) && def && roles[def] == Role::Chain)
        bounds[def].greatest = std::min(bounds[def].greatest, bounds[&op].greatest);
  return success();
}

/// What depends on inputs only and on no parameter, such as labels that are compared with classes, stands
/// with the first that reads it: inputs are in every stage, and what is made of them earlier would be sent
/// on.
void Chain::raiseSources() {
  auto isOfChain = [&](Operation *op) {
    return op && roles.lookup(op) == Role::Chain && kinds.lookup(op) == Kind::Forward;
  };
  llvm::DenseSet<Operation *> sources, readsParameter;
  for (Operation &op : function.front().without_terminator()) {
    if (isa<ParameterOp>(op) || llvm::any_of(op.getOperands(), [&](Value operand) {
          return getState(operand) || readsParameter.contains(operand.getDefiningOp());
        }))
      readsParameter.insert(&op);
    else if (isOfChain(&op) && llvm::all_of(op.getOperands(), [&](Value operand) {
               Operation *def = operand.getDefiningOp();
               return !isOfChain(def) || sources.contains(def);
             }))
      sources.insert(&op);
  }
  for (Operation &op : llvm::reverse(function.front().without_terminator())) {
    if (!sources.contains(&op))
      continue;
    int first = parts;
    for (Operation *user : op.getUsers())
      if (isOfChain(user))
        first = std::min(first, bounds[user].least);
    Bounds &own = bounds[&op];
    if (first < parts)
      own.least = std::min(std::max(own.least, first), own.greatest);
  }
}

/// Units that pins keep in later stages come later; data flow keeps its order, as bounds never fall along it.
void Chain::sort() {
  for (Operation &op : function.front().without_terminator())
    order.push_back(&op);
  if (isPinned)
    llvm::stable_sort(order, [&](Operation *a, Operation *b) {
      auto key = [&](Operation *op) {
        return roles[op] != Role::Chain            ? std::pair(0, 0)
               : kinds.lookup(op) != Kind::Forward ? std::pair(parts, parts)
                                                   : std::pair(bounds[op].least, bounds[op].greatest);
      };
      return key(a) < key(b);
    });
  llvm::copy_if(order, std::back_inserter(chain),
                [&](Operation *op) { return roles[op] == Role::Chain && kinds.lookup(op) == Kind::Forward; });
}

void Chain::collectWeights(Operation *op, bool isPacked, Weights &weights, llvm::SetVector<unsigned> &found,
                           llvm::DenseSet<Operation *> &seen) const {
  for (Value operand : op->getOperands()) {
    if (StringAttr state = getState(operand))
      found.insert(weights.getState(state.getValue(), getBytes(operand.getType())));
    if (Operation *def = operand.getDefiningOp();
        def && roles.lookup(def) != Role::Chain && seen.insert(def).second) {
      if (auto parameter = dyn_cast<ParameterOp>(def))
        found.insert(weights.get(parameter, isPacked));
      else
        collectWeights(def, isPacked, weights, found, seen);
    }
  }
}

LogicalResult Chain::read(std::vector<StagePin> &pins, MeshAttr mesh, int64_t ranks,
                          const cost::Machine &machine, bool isOneOfMany, Weights &weights) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError() << "expected a function of one block";
  layout::OpPrices prices = layout::priceOps(function, mesh, ranks, machine);
  if (trains)
    findKinds();
  findRoles(prices, mesh);
  if (failed(bound(pins, isOneOfMany)))
    return failure();
  raiseSources();
  sort();
  llvm::DenseMap<Operation *, size_t> places;
  for (Operation *op : chain) {
    places[op] = units.size();
    CutUnit &unit = units.emplace_back();
    unit.seconds = prices.seconds.lookup(op);
    unit.least = bounds[op].least;
    unit.greatest = bounds[op].greatest;
    llvm::SetVector<unsigned> found;
    llvm::DenseSet<Operation *> seen;
    auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
    collectWeights(op, ruled && ruled.isHeavy(), weights, found, seen);
    unit.weights.assign(found.begin(), found.end());
  }
  forwardSeconds.resize(units.size());
  backwardSeconds.resize(units.size());
  for (auto [own, unit] : llvm::zip_equal(forwardSeconds, units))
    own = unit.seconds;
  for (Operation *op : order)
    if (kinds.lookup(op) == Kind::Backward)
      if (auto place = places.find(numbered.lookup(getUnit(op))); place != places.end()) {
        const double seconds = prices.seconds.lookup(op);
        units[place->second].seconds += seconds;
        backwardSeconds[place->second] += seconds;
      }
  // In this order a unit stands before those that follow it.
  for (size_t u = 1; u < units.size(); ++u)
    units[u].least = std::max(units[u].least, units[u - 1].least);
  for (size_t u = units.size(); u-- > 1;)
    units[u - 1].greatest = std::min(units[u - 1].greatest, units[u].greatest);
  crossingBytes.assign(units.size() + 1, 0);
  crossingSeconds.assign(units.size() + 1, 0);
  for (Operation *op : chain)
    for (Value result : op->getResults()) {
      size_t last = places[op];
      for (Operation *user : result.getUsers())
        if (auto place = places.find(user); place != places.end())
          last = std::max(last, place->second);
      double bytes = getBytes(result.getType());
      double seconds = prices.messageSeconds(bytes / static_cast<double>(mesh.getNumRanks()));
      for (size_t i = places[op] + 1; i <= last; ++i) {
        crossingBytes[i] += bytes;
        crossingSeconds[i] += seconds;
      }
    }
  return success();
}

CutProblem Chain::makeProblem(const Weights &weights) const {
  CutProblem problem;
  problem.units = units;
  problem.weightBytes = weights.bytes;
  problem.crossingBytes = crossingBytes;
  problem.crossingSeconds = crossingSeconds;
  problem.stages = parts;
  return problem;
}

void Chain::narrowMessages() {
  auto partOfOp = [&](Operation *op) {
    return op && roles.lookup(op) == Role::Chain ? partOf.lookup(op) : -1;
  };
  for (Operation *op : order) {
    const int own = isNarrowing(op) ? partOfOp(op) : -1,
              from = own < 0 ? -1 : partOfOp(op->getOperand(0).getDefiningOp());
    if (from >= 0 && from != own && llvm::all_of(op->getOperand(0).getUsers(), [&](Operation *user) {
          return partOfOp(user) == from ||
                 (isNarrowing(user) && user->getResultTypes() == op->getResultTypes());
        }))
      partOf[op] = from;
  }
  const SmallVector<Operation *> all(order);
  for (Operation *op : all) {
    const int own = isWidening(op) ? partOfOp(op) : -1;
    if (own < 0 || partOfOp(op->getOperand(0).getDefiningOp()) != own)
      continue;
    llvm::SmallDenseMap<int, Operation *> copies;
    for (OpOperand &use : llvm::make_early_inc_range(op->getResult(0).getUses())) {
      const int part = partOfOp(use.getOwner());
      if (part < 0 || part == own)
        continue;
      Operation *&copy = copies[part];
      if (!copy) {
        OpBuilder b(op);
        b.setInsertionPointAfter(op);
        copy = b.clone(*op);
        roles[copy] = Role::Chain;
        kinds[copy] = kinds.lookup(op);
        names[copy] = names.lookup(op);
        partOf[copy] = part;
        order.insert(std::next(llvm::find(order, op)), copy);
      }
      use.set(copy->getResult(0));
    }
  }
}
