//===- Reader.cpp - a module as a factor graph ------------------------------===//
#include "colossal/FactorGraph/Reader.h"

#include "Description.h"
#include "Tables.h"
#include "UnitCut.h"
#include "colossal/Outline/OpNames.h"
#include "colossal/Outline/Origins.h"
#include "colossal/Partition/Refinement.h"
#include "colossal/Partition/Resharding.h"
#include "dialects/Colossal/Colossal.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <set>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using outline::getNames;
using outline::Origin;

//===----------------------------------------------------------------------===//
// Units of a model, for any batch
//===----------------------------------------------------------------------===//

namespace {

/// Both imports of one model, walked in lockstep.
class Reader {
public:
  Reader(func::FuncOp few, int64_t fewBatch, func::FuncOp many, int64_t manyBatch,
         const std::set<std::string> &frozen, const std::optional<factors::LossOutput> &loss)
      : few(few), many(many), fewBatch(fewBatch), manyBatch(manyBatch), frozen(frozen), loss(loss),
        fewRules(few), manyRules(many), cut(factors::cutUnits(few)), manyStream(factors::findStream(many)),
        origins(outline::findOrigins(few)) {}

  std::optional<factors::Reading> run();

private:
  /// A size at both batches, for one sequence.
  struct Size {
    double size = 0;
    bool perSequence = false;
  };
  std::optional<Size> compare(double a, double b) const {
    if (a == b)
      return Size{a, false};
    if (a * manyBatch == b * fewBatch)
      return Size{a / fewBatch, true};
    return std::nullopt;
  }

  LogicalResult buildKind(const factors::Unit &unit, factors::UnitKind &kind);
  LogicalResult buildOp(int at, factors::UnitKind &kind);
  FailureOr<int> getTensor(Value value, Value other, factors::UnitKind &kind);
  LogicalResult addUses(Operation *op, Operation *other, factors::UnitKind &kind, factors::Operation &built);
  void fuse(factors::UnitKind &kind) const;
  void addLoss(factors::UnitKind &kind, int logits) const;
  void nameKinds(factors::FactorGraph &graph) const;
  std::set<StringRef> findRoots(Value value) const;
  std::vector<int> findReaders(Value input) const;
  void countRoots();
  void findLeading();
  void findChanging();
  void cutByFrozen();
  bool isTrained(Value value) const;
  bool isReadForFrozenOnly(Operation *op, unsigned operand) const;

  func::FuncOp few, many;
  int64_t fewBatch, manyBatch;
  std::set<std::string> frozen; ///< names of parameters
  std::optional<factors::LossOutput> loss;
  llvm::DenseSet<Value> leading;  ///< of `few`: the loss is computed from them
  llvm::DenseSet<Value> changing; ///< of `few`: some parameter that is not frozen is in them
  RefinementAnalysis fewRules, manyRules;
  factors::UnitCut cut;
  std::vector<mlir::Operation *> manyStream; ///< in the order of cut.stream, once run() has sorted it
  llvm::DenseMap<Value, Origin> origins;
  std::map<StringRef, std::set<int>> rootUnits; ///< per parameter: units that use it
  std::map<StringRef, double> rootElements;
  std::set<StringRef> trained; ///< names of parameters, or frozen
  std::map<StringRef, int> sharedNumbers;
  llvm::DenseMap<Value, int> tensors; ///< of the kind that is being built
};

/// A parameter that the loss does not depend on stays as it is.
void Reader::findLeading() {
  SmallVector<Value> open(few.front().getTerminator()->getOperands());
  if (loss)
    open = {open[loss->number]};
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (leading.insert(value).second && value.getDefiningOp())
      llvm::append_range(open, value.getDefiningOp()->getOperands());
  }
  llvm::StringSet<> read;
  for (auto parameter : few.getOps<ParameterOp>())
    if (leading.contains(parameter.getResult()))
      read.insert(parameter.getName());
  for (auto parameter : few.getOps<ParameterOp>())
    if (!read.contains(parameter.getName()))
      frozen.insert(parameter.getName().str());
}

/// Parameters that a value is computed from.
std::set<StringRef> Reader::findRoots(Value value) const {
  std::set<StringRef> roots;
  SmallVector<Value> work{value};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!seen.insert(next).second || !op)
      continue;
    if (auto parameter = dyn_cast<ParameterOp>(op))
      roots.insert(parameter.getName());
    llvm::append_range(work, op->getOperands());
  }
  return roots;
}

/// The units that read an input, or what operations outside of the stream compute of it, in order.
std::vector<int> Reader::findReaders(Value input) const {
  llvm::DenseMap<Operation *, int> unitOf;
  for (auto [u, unit] : llvm::enumerate(cut.units))
    for (int i = unit.begin; i < unit.end; ++i)
      unitOf[cut.stream[i]] = static_cast<int>(u);
  std::set<int> units;
  SmallVector<Value> work{input};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    for (Operation *user : next.getUsers())
      if (auto known = unitOf.find(user); known != unitOf.end())
        units.insert(known->second);
      else
        llvm::append_range(work, user->getResults());
  }
  return {units.begin(), units.end()};
}

/// Does some operation of the stream have a gradient with respect to it?
bool Reader::isTrained(Value value) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !isa<FloatType>(type.getElementType()))
    return false;
  return llvm::any_of(value.getUses(), [](OpOperand &use) {
    auto op = dyn_cast<GradientOpInterface>(use.getOwner());
    return op && op.getGradientFlops(use.getOperandNumber()) > 0;
  });
}

void Reader::countRoots() {
  for (auto parameter : few.getOps<ParameterOp>())
    rootElements[parameter.getName()] = cast<RankedTensorType>(parameter.getType()).getNumElements();
  for (auto [u, unit] : llvm::enumerate(cut.units))
    for (int i = unit.begin; i < unit.end; ++i)
      for (Value operand : cut.stream[i]->getOperands())
        if (Origin origin = origins.lookup(operand); origin.parameter && !origin.argument)
          for (StringRef root : findRoots(operand)) {
            rootUnits[root].insert(u);
            if (isTrained(operand))
              trained.insert(root);
          }
  for (const auto &[root, units] : rootUnits)
    if (units.size() > 1)
      sharedNumbers.try_emplace(root, sharedNumbers.size());
}

void Reader::findChanging() {
  for (Operation &op : few.front()) {
    auto parameter = dyn_cast<ParameterOp>(op);
    if (parameter ? frozen.count(parameter.getName().str()) == 0
                  : llvm::any_of(op.getOperands(), [&](Value operand) { return changing.contains(operand); }))
      changing.insert(op.result_begin(), op.result_end());
  }
}

/// Makes units kinds of their own that differ from others of their kind in what is frozen, or in whether
/// something that is trained comes before them.
void Reader::cutByFrozen() {
  std::map<std::pair<int, std::vector<bool>>, int> numbers;
  for (factors::Unit &unit : cut.units) {
    std::vector<bool> isChanging;
    for (int i = unit.begin; i < unit.end; ++i)
      for (Value operand : cut.stream[i]->getOperands())
        isChanging.push_back(changing.contains(operand));
    unit.kind = numbers.try_emplace({unit.kind, std::move(isChanging)}, static_cast<int>(numbers.size()))
                    .first->second;
  }
  cut.kinds = static_cast<int>(numbers.size());
}

/// Whether `value` is a parameter, or what only moves its elements, as kernels read them.
static bool isRead(Value value) {
  while (Operation *maker = value.getDefiningOp()) {
    auto kernel = dyn_cast<KernelOpInterface>(maker);
    if (isa<ParameterOp>(maker) || !kernel || kernel.getKernelKind() != KernelKind::Movement ||
        maker->getNumOperands() != 1)
      return isa<ParameterOp>(maker);
    value = maker->getOperand(0);
  }
  return false;
}

FailureOr<int> Reader::getTensor(Value value, Value other, factors::UnitKind &kind) {
  if (auto known = tensors.find(value); known != tensors.end())
    return known->second;
  auto type = cast<RankedTensorType>(value.getType());
  std::optional<Size> elements =
      compare(type.getNumElements(), cast<RankedTensorType>(other.getType()).getNumElements());
  std::vector<std::string> names = getNames(value.getLoc());
  if (!elements)
    return emitError(value.getLoc()) << "a tensor grows from " << type << " to " << other.getType()
                                     << " between batches of " << fewBatch << " and " << manyBatch
                                     << ", not in proportion: the model mixes sequences";
  factors::Tensor tensor = factors::describe(value);
  tensor.name = names.empty() ? "" : names.back();
  tensor.elements = std::max(1.0, elements->size);
  tensor.perSequence = elements->perSequence;
  Origin origin = origins.lookup(value);
  tensor.kind = origin.isStream()                      ? factors::Tensor::Activation
                : origin.parameter && isTrained(value) ? factors::Tensor::Parameter
                                                       : factors::Tensor::Given;
  tensor.isFixed = !origin.argument && tensor.kind == factors::Tensor::Given;
  tensor.isConstant = tensor.kind != factors::Tensor::Given && !changing.contains(value);
  if (tensor.kind == factors::Tensor::Parameter && !tensor.isConstant && !isRead(value))
    tensor.computed = tensor.elements;
  if (tensor.kind == factors::Tensor::Parameter) {
    for (StringRef root : findRoots(value)) {
      const bool isFrozen = frozen.count(root.str()) > 0;
      (isFrozen ? tensor.frozen : tensor.stored) += rootElements[root];
      tensor.name = root.str();
      if (auto shared = sharedNumbers.find(root); shared != sharedNumbers.end())
        (isFrozen ? tensor.sharedFrozen : tensor.shared) = shared->second;
    }
    if (tensor.stored == 0)
      tensor.shared = tensor.sharedFrozen;
  }
  tensors[value] = kind.tensors.size();
  kind.tensors.push_back(std::move(tensor));
  return static_cast<int>(kind.tensors.size() - 1);
}

/// Whether `op` is a product, whose gradients read `operand` for its other operand's alone, and that has
/// none.
bool Reader::isReadForFrozenOnly(Operation *op, unsigned operand) const {
  auto elementwise = dyn_cast<ElementwiseOp>(op);
  const bool isProduct = factors::getOperationKind(op) == factors::Operation::Contraction ||
                         (elementwise && elementwise.getKind() == ElementwiseKind::Mul);
  if (!isProduct || operand > 1)
    return false;
  return !changing.contains(op->getOperand(1 - operand));
}

LogicalResult Reader::addUses(Operation *op, Operation *other, factors::UnitKind &kind,
                              factors::Operation &built) {
  const RefinedRule &refined = fewRules.get(op), &refinedOther = manyRules.get(other);
  bool isRefined = refined.rule.factors.size() == refinedOther.rule.factors.size();
  const FactorRule &rule = isRefined ? refined.rule : refined.own;
  const FactorRule &ruleOther = isRefined ? refinedOther.rule : refinedOther.own;
  if (rule.factors.size() != ruleOther.factors.size())
    return emitError(op->getLoc()) << "'" << op->getName() << "' has other factors at another batch";
  for (auto [a, b] : llvm::zip_equal(rule.factors, ruleOther.factors)) {
    std::optional<Size> size = compare(a.size, b.size);
    if (!size)
      return emitError(op->getLoc()) << "a dimension of '" << op->getName() << "' grows from " << a.size
                                     << " to " << b.size << " between batches of " << fewBatch << " and "
                                     << manyBatch << ", not in proportion";
    factors::Factor factor = factors::describe(a);
    factor.size = std::max(1.0, size->size);
    factor.perSequence = size->perSequence;
    built.factors.push_back(std::move(factor));
  }
  auto gradient = cast<GradientOpInterface>(op);
  const bool leads = llvm::any_of(op->getResults(), [&](Value v) { return leading.contains(v); });
  const bool isReached =
      leads && llvm::any_of(op->getOperands(), [&](Value v) { return changing.contains(v); });
  bool readsSome = false; // an indexed factor of an operand: only the rows that indices name are read
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!isa<RankedTensorType>(operand.getType()))
      continue;
    FailureOr<int> tensor = getTensor(operand, other->getOperand(i), kind);
    if (failed(tensor))
      return failure();
    factors::Use use;
    use.tensor = *tensor;
    if (kind.tensors[*tensor].kind != factors::Tensor::Given) {
      use.gradientFlops = leads && changing.contains(operand) ? gradient.getGradientFlops(i) / fewBatch : 0;
      use.saved = isReached && gradient.isOperandSaved(i) && !isReadForFrozenOnly(op, i);
    }
    factors::addPlaces(rule.operands[i], built.factors, use);
    for (const factors::FactorPosition &place : use.places)
      readsSome |=
          rule.factors[place.factor].indexed && rule.factors[place.factor].kind == FactorKind::Reduction;
    if (readsSome && kind.tensors[*tensor].kind == factors::Tensor::Parameter)
      use.moved = false;
    built.operands.push_back(std::move(use));
  }
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    FailureOr<int> tensor = getTensor(result, other->getResult(i), kind);
    if (failed(tensor))
      return failure();
    factors::Use use;
    use.tensor = *tensor;
    use.saved = isReached && gradient.isResultSaved(i);
    factors::addPlaces(rule.results[i], built.factors, use);
    built.results.push_back(std::move(use));
  }
  return success();
}

LogicalResult Reader::buildOp(int at, factors::UnitKind &kind) {
  Operation *op = cut.stream[at], *other = manyStream[at];
  if (!isa<GradientOpInterface>(op))
    return op->emitOpError()
           << "does not tell the work of its gradients, so that no training can be planned with it";
  if (op->getName() != other->getName())
    return emitError(op->getLoc()) << "'" << op->getName() << "' becomes '" << other->getName()
                                   << "' at another batch";
  factors::Operation built;
  std::vector<std::string> names = getNames(op->getLoc());
  built.name = names.empty() ? op->getName().getStringRef().str() : names.front();
  // Names of one unit must tell its operations apart.
  int same = 0;
  for (const factors::Operation &known : kind.operations)
    same += known.name == built.name || StringRef(known.name).starts_with(built.name + "#");
  if (same)
    built.name += "#" + std::to_string(same + 1);
  built.kind = factors::getOperationKind(op);
  built.flops = cast<ShardingRuleOpInterface>(op).getFlops() / fewBatch;
  built.heavy = cast<ShardingRuleOpInterface>(op).isHeavy();
  if (auto elementwise = dyn_cast<ElementwiseOp>(op))
    built.adds = elementwise.getKind() == ElementwiseKind::Add;
  // Attention that must know where its queries stand: what lies behind them is masked.
  built.causal = built.kind == factors::Operation::Attention &&
                 llvm::any_of(fewRules.get(op).own.factors, [](const Factor &f) { return f.indexed; });
  built.idle = llvm::none_of(op->getResults(), [&](Value value) { return leading.contains(value); });
  if (failed(addUses(op, other, kind, built)))
    return failure();
  kind.operations.push_back(std::move(built));
  return success();
}

/// Marks what one kernel computes: chains of memory-bound operations in which each has one user, and those
/// that follow a contraction as its epilogue.
void Reader::fuse(factors::UnitKind &kind) const {
  std::vector<int> users(kind.tensors.size(), 0);
  std::vector<factors::Use *> makers(kind.tensors.size(), nullptr);
  std::vector<factors::Operation *> producers(kind.tensors.size(), nullptr);
  for (factors::Operation &op : kind.operations)
    for (factors::Use &use : op.operands)
      ++users[use.tensor];
  for (int output : kind.outputs)
    ++users[output];
  for (factors::Operation &op : kind.operations) {
    for (factors::Use &result : op.results) {
      makers[result.tensor] = &result;
      producers[result.tensor] = &op;
    }
    if (op.kind == factors::Operation::View && users[op.operands.front().tensor] == 1) {
      makers[op.results.front().tensor] = makers[op.operands.front().tensor];
      producers[op.results.front().tensor] = producers[op.operands.front().tensor];
    }
    if (op.kind != factors::Operation::Streaming)
      continue;
    for (factors::Use &use : op.operands) {
      factors::Operation *from = producers[use.tensor];
      if (!from || users[use.tensor] != 1 || kind.tensors[use.tensor].kind != factors::Tensor::Activation ||
          (from->kind != factors::Operation::Streaming && from->kind != factors::Operation::Contraction))
        continue;
      use.moved = false;
      op.light = true;
      if (makers[use.tensor] && from->kind == factors::Operation::Streaming)
        makers[use.tensor]->moved = false;
      break; // one chain is followed
    }
  }
}

/// Mean cross-entropy over the last dimension, in one kernel that reads the logits.
void Reader::addLoss(factors::UnitKind &kind, int logits) const {
  const factors::Use *made = nullptr;
  const factors::Operation *maker = nullptr;
  for (const factors::Operation &op : kind.operations)
    for (const factors::Use &result : op.results)
      if (result.tensor == logits) {
        made = &result;
        maker = &op;
      }
  // A bias is added to what the contraction gives, and all may be shown in another shape.
  const factors::Operation *product = maker;
  while (product && product->kind != factors::Operation::Contraction) {
    const factors::Operation *before = nullptr;
    for (const factors::Use &use : product->operands)
      for (const factors::Operation &op : kind.operations)
        if (!use.saved && op.results.front().tensor == use.tensor &&
            kind.tensors[use.tensor].elements == kind.tensors[logits].elements)
          before = &op;
    product = before;
  }
  if (!product)
    return;
  int last = 0;
  for (const factors::FactorPosition &place : made->places)
    last = std::max(last, place.dim);
  factors::Operation loss;
  loss.name = "loss";
  factors::Use use, result;
  use.tensor = logits;
  use.saved = true;
  use.gradientFlops = kind.tensors[logits].elements;
  double vocabulary = 1;
  for (const factors::FactorPosition &place : made->places) {
    factors::Factor factor = maker->factors[place.factor];
    factor.kind = place.dim == last ? factors::Factor::Reduction : factors::Factor::Parallel;
    factor.role = place.dim == last ? "vocabulary" : "";
    vocabulary *= place.dim == last ? factor.size : 1;
    int number = loss.factors.size();
    loss.factors.push_back(factor);
    use.places.push_back({number, place.dim, place.inner});
    if (place.dim != last)
      result.places.push_back({number, place.dim, place.inner});
  }
  factors::Tensor rows;
  rows.name = "loss";
  rows.elements = kind.tensors[logits].elements / vocabulary;
  rows.perSequence = kind.tensors[logits].perSequence;
  result.tensor = kind.tensors.size();
  kind.tensors.push_back(rows);
  loss.flops = kind.tensors[logits].elements;
  loss.operands.push_back(use);
  loss.results.push_back(result);
  kind.operations.push_back(std::move(loss));
}

/// Of what lives where units meet, that which goes on from one to the next comes first: of what grows with
/// the batch the last that was made, and behind it what several units read, as masks and what a decoder reads
/// of an encoder. Pairs of a value and the same one of another batch, in the model's order.
static void putStreamFirst(std::vector<std::pair<Value, Value>> &live) {
  std::reverse(live.begin(), live.end());
  llvm::stable_sort(live, [](const auto &a, const auto &b) {
    auto grows = [](const std::pair<Value, Value> &pair) {
      return pair.first.getType() != pair.second.getType();
    };
    return grows(a) && !grows(b);
  });
}

LogicalResult Reader::buildKind(const factors::Unit &unit, factors::UnitKind &kind) {
  tensors.clear();
  auto boundary = [&](int at, std::vector<int> &to) -> LogicalResult {
    std::vector<Value> live = factors::findLiveStream(cut.stream, at),
                       liveOther = factors::findLiveStream(manyStream, at);
    if (live.size() != liveOther.size())
      return emitError(few.getLoc()) << "the model has other blocks at another batch";
    std::vector<std::pair<Value, Value>> ordered;
    for (auto pair : llvm::zip_equal(live, liveOther))
      ordered.emplace_back(std::get<0>(pair), std::get<1>(pair));
    putStreamFirst(ordered);
    for (auto [value, other] : ordered) {
      FailureOr<int> tensor = getTensor(value, other, kind);
      if (failed(tensor))
        return failure();
      to.push_back(*tensor);
    }
    return success();
  };
  if (failed(boundary(unit.begin, kind.inputs)))
    return failure();
  for (int i = unit.begin; i < unit.end; ++i)
    if (failed(buildOp(i, kind)))
      return failure();
  if (failed(boundary(unit.end, kind.outputs)))
    return failure();
  fuse(kind);
  if (unit.end == static_cast<int>(cut.stream.size())) {
    SmallVector<Value> results(few.front().getTerminator()->getOperands());
    if (loss) // that which it is of comes first
      std::rotate(results.begin(), results.begin() + loss->number, results.begin() + loss->number + 1);
    if (auto known = tensors.find(results.front()); known != tensors.end() && (!loss || loss->hasClasses))
      addLoss(kind, known->second);
    for (Value result : results)
      if (auto known = tensors.find(result); known != tensors.end())
        kind.results.push_back(known->second);
  }
  factors::findLives(kind);
  return success();
}

void Reader::nameKinds(factors::FactorGraph &graph) const {
  std::vector<int> uses(graph.kinds.size(), 0);
  for (int unit : graph.units)
    ++uses[unit];
  int repeated = 0, others = 0;
  for (int count : uses)
    repeated += count > 1;
  for (auto [k, kind] : llvm::enumerate(graph.kinds)) {
    bool isFirst = graph.units.front() == static_cast<int>(k),
         isLast = graph.units.back() == static_cast<int>(k);
    if (uses[k] > 1)
      kind.name = repeated > 1 ? "block" + std::to_string(++others) : "block";
    else
      kind.name = isFirst && isLast ? "model"
                  : isFirst         ? "embedding"
                  : isLast          ? "head"
                                    : "part" + std::to_string(++others);
  }
}

/// Both imports are walked in lockstep.
static std::vector<Operation *> sorted(const std::vector<Operation *> &stream,
                                       const std::vector<int> &places) {
  std::vector<Operation *> order;
  for (int place : places)
    order.push_back(stream[place]);
  return order;
}

std::optional<factors::Reading> Reader::run() {
  if (cut.stream.empty()) {
    emitError(few.getLoc()) << "no operation depends on inputs and on parameters: there is nothing to train";
    return std::nullopt;
  }
  if (cut.stream.size() != manyStream.size()) {
    emitError(few.getLoc()) << "the model has " << cut.stream.size() << " operations at a batch of "
                            << fewBatch << " and " << manyStream.size() << " at " << manyBatch
                            << ": no batch can be planned for it";
    return std::nullopt;
  }
  manyStream = sorted(manyStream, cut.places);
  findLeading();
  findChanging();
  cutByFrozen();
  countRoots();
  factors::Reading reading;
  factors::FactorGraph &graph = reading.graph;
  graph.kinds.resize(cut.kinds);
  reading.operations.resize(cut.stream.size());
  std::vector<bool> isBuilt(cut.kinds, false);
  for (const factors::Unit &unit : cut.units) {
    graph.units.push_back(unit.kind);
    if (!isBuilt[unit.kind] && failed(buildKind(unit, graph.kinds[unit.kind])))
      return std::nullopt;
    isBuilt[unit.kind] = true;
    // A loss that was added stands for no operation.
    std::vector<int> &ids = graph.ids.emplace_back(graph.kinds[unit.kind].operations.size(), -1);
    for (int i = unit.begin; i < unit.end; ++i) {
      ids[i - unit.begin] = cut.places[i];
      reading.operations[cut.places[i]] = cut.stream[i];
    }
  }
  nameKinds(graph);
  factors::addTables(
      {few, fewBatch}, {many, manyBatch}, cut,
      [&](StringRef parameter) { return trained.count(parameter) > 0; }, graph);
  for (auto [input, other] : llvm::zip_equal(few.getArguments(), many.getArguments())) {
    const factors::Tensor tensor = factors::describe(input), atMany = factors::describe(other);
    if (tensor.elements >= atMany.elements)
      continue;
    factors::GivenInput &given = graph.inputs.emplace_back();
    given.number = input.getArgNumber();
    given.bytes = tensor.bytes * tensor.elements / static_cast<double>(fewBatch);
    given.isInteger = !tensor.isFloat;
    given.units = findReaders(input);
  }
  for (const factors::UnitKind &kind : graph.kinds)
    for (const auto *boundary : {&kind.outputs, &kind.inputs})
      if (graph.sequence == 0 && !boundary->empty()) {
        const factors::Tensor &stream = kind.tensors[boundary->front()];
        double width = 1;
        int rank = 0;
        for (const factors::Operation &op : kind.operations)
          for (const auto *uses : {&op.operands, &op.results})
            for (const factors::Use &use : *uses)
              if (use.tensor == boundary->front()) {
                int last = 0;
                for (const factors::FactorPosition &place : use.places)
                  last = std::max(last, place.dim);
                double size = 1;
                for (const factors::FactorPosition &place : use.places)
                  size *= place.dim == last ? op.factors[place.factor].size : 1;
                width = std::max(width, size);
                rank = std::max(rank, last + 1);
              }
        if (rank == 3) // batch, tokens, width; images have no tokens
          graph.sequence = stream.elements / width;
      }
  if (std::string error = factors::validate(graph); !error.empty()) {
    emitError(few.getLoc()) << "the model cannot be planned: " << error;
    return std::nullopt;
  }
  return reading;
}

} // namespace

std::optional<factors::Reading> factors::readFactorGraph(func::FuncOp few, int64_t fewBatch,
                                                         func::FuncOp many, int64_t manyBatch,
                                                         const std::set<std::string> &frozen,
                                                         const std::optional<LossOutput> &loss) {
  return Reader(few, fewBatch, many, manyBatch, frozen, loss).run();
}
