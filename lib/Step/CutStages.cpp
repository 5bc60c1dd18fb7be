//===- CutStages.cpp - the stages of a pipeline -----------------------------===//
//
// Reads each function as a chain of units, has it cut, and builds the stages.
//
//===----------------------------------------------------------------------===//
#include "colossal/Step/CutStages.h"

#include "colossal/Layout/OpPrices.h"
#include "colossal/Outline/OpNames.h"
#include "colossal/Partition/Partition.h"
#include "colossal/Step/PropagateBatch.h"
#include "colossal/Step/StageCut.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/Loop.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <numeric>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::step;

static constexpr StringLiteral kPinPrefix = "stage:";

bool step::isStagePin(StringRef pin) {
  StringRef layout = pin.rsplit('=').second;
  int64_t stage;
  return layout.consume_front(kPinPrefix) && !layout.getAsInteger(10, stage);
}

MeshAttr step::getStageMesh(MeshAttr mesh) {
  const int64_t axis = mesh.findAxis(kStageAxis);
  if (axis < 0 || mesh.getAxisSize(axis) < 2)
    return {};
  MLIRContext *context = mesh.getContext();
  SmallVector<MeshAxisAttr> axes(mesh.getAxes());
  axes.erase(axes.begin() + axis);
  if (axes.empty() || axes.front().getLoop())
    axes.insert(axes.begin(), MeshAxisAttr::get(context, StringAttr::get(context, "x"), 1));
  return MeshAttr::get(context, axes);
}

/// The number of stages, 1 where the mesh has none.
static int countStages(MeshAttr mesh) {
  const int64_t axis = mesh ? mesh.findAxis(kStageAxis) : -1;
  return axis < 0 ? 1 : static_cast<int>(mesh.getAxisSize(axis));
}

std::string step::checkStagePins(ArrayRef<std::string> pins, MeshAttr mesh) {
  const int stages = countStages(mesh);
  for (const std::string &pin : pins) {
    if (!isStagePin(pin))
      continue;
    if (stages < 2)
      return "pin '" + pin +
             "' puts operators into a stage, and the mesh has none: give it an axis 'stage' of two or more, "
             "as in --mesh stage=2";
    int64_t stage = 0;
    (void)StringRef(pin).rsplit('=').second.drop_front(kPinPrefix.size()).getAsInteger(10, stage);
    if (stage < 0 || stage >= stages)
      return "pin '" + pin + "': the mesh has " + std::to_string(stages) +
             " stages, which are numbered from 0 to " + std::to_string(stages - 1);
  }
  return "";
}

static double getBytes(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return static_cast<double>(tensor.getNumElements()) * getElementBytes(tensor.getElementType());
}

namespace {

struct StagePin {
  std::string text;
  outline::NamePattern name;
  int stage = 0;
  bool isUsed = false;
};

/// Where an op may stand, and the pins that say so.
struct Bounds {
  int least = 0, greatest = 0;
  const StagePin *leastPin = nullptr, *greatestPin = nullptr;
  Operation *leastOp = nullptr, *greatestOp = nullptr; ///< that these pin
};

/// How an op comes into stages.
enum class Role {
  Free,  ///< depends on parameters and constants only: computed wherever it is used
  Cheap, ///< of inputs, and sooner computed again than sent: likewise
  Chain  ///< in one stage
};

/// What all programs share: the names of weights.
struct Weights {
  llvm::StringMap<unsigned> indices; ///< by name, and by whether contractions read it, which keep it packed
  std::vector<double> bytes;

  unsigned get(ParameterOp parameter, bool isPacked) {
    std::string key = (isPacked ? "p" : "r") + parameter.getName().str();
    auto [entry, isNew] = indices.try_emplace(key, bytes.size());
    if (isNew)
      bytes.push_back(getBytes(parameter.getType()));
    return entry->second;
  }
};

/// A function as a chain of units.
class Chain {
public:
  Chain(func::FuncOp function, int stages)
      : function(function), stages(stages), names(outline::getUniqueNames(function)) {}

  LogicalResult read(std::vector<StagePin> &pins, MeshAttr mesh, int64_t ranks, const cost::Machine &machine,
                     bool isOneOfMany, Weights &weights);
  CutProblem makeProblem(const Weights &weights) const;
  double getSeconds() const {
    double seconds = 0;
    for (const CutUnit &unit : units)
      seconds += unit.seconds;
    return seconds;
  }

  func::FuncOp function;
  const int stages;
  llvm::DenseMap<Operation *, std::string> names;
  SmallVector<Operation *> order; ///< all ops but the last, as they will stand
  SmallVector<Operation *> chain; ///< those that stand in one stage
  llvm::DenseMap<Operation *, Role> roles;
  llvm::DenseMap<Operation *, int> stageOf; ///< of the chain's ops, once it is cut

private:
  void findRoles(const layout::OpPrices &prices, MeshAttr mesh);
  LogicalResult bound(std::vector<StagePin> &pins, bool isOneOfMany);
  void sort();
  void collectWeights(Operation *op, bool isPacked, Weights &weights, llvm::SetVector<unsigned> &found,
                      llvm::DenseSet<Operation *> &seen) const;

  std::vector<CutUnit> units; ///< of `chain`
  std::vector<double> crossingBytes, crossingSeconds;
  llvm::DenseMap<Operation *, Bounds> bounds;
  bool isPinned = false;
};

} // namespace

//===----------------------------------------------------------------------===//
// Chains
//===----------------------------------------------------------------------===//

void Chain::findRoles(const layout::OpPrices &prices, MeshAttr mesh) {
  const auto ranks = static_cast<double>(mesh.getNumRanks());
  llvm::DenseMap<Operation *, double> again; // seconds to compute it with all that it needs
  llvm::DenseSet<Operation *> readsParameter;
  size_t inChain = 0;
  for (bool allowsCheap : {true, false}) {
    roles.clear();
    inChain = 0;
    for (Operation &op : function.front().without_terminator()) {
      bool isFree = true, isCheap = allowsCheap, reads = isa<ParameterOp>(op);
      double seconds = prices.seconds.lookup(&op);
      for (Value operand : op.getOperands()) {
        Operation *def = operand.getDefiningOp();
        isFree &= def && roles.lookup(def) == Role::Free;
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
      Role role = isFree ? Role::Free : isCheap ? Role::Cheap : Role::Chain;
      roles[&op] = role;
      inChain += role == Role::Chain;
    }
    if (inChain >= static_cast<size_t>(stages))
      return;
  }
}

LogicalResult Chain::bound(std::vector<StagePin> &pins, bool isOneOfMany) {
  for (Operation &op : function.front().without_terminator()) {
    Bounds &own = bounds[&op];
    own.greatest = stages - 1;
    std::vector<std::string> all = outline::getNames(op.getLoc());
    all.push_back(names[&op]);
    if (isOneOfMany)
      all.push_back((names[&op] + "@" + function.getName()).str());
    for (StagePin &pin : pins)
      if (pin.name.matches(all)) { // the last one counts
        pin.isUsed = true;
        if (roles[&op] != Role::Chain)
          continue;
        isPinned = true;
        own = {pin.stage, pin.stage, &pin, &pin, &op, &op};
      }
  }
  for (Operation &op : function.front().without_terminator())
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
      if (Operation *def = operand.getDefiningOp(); def && roles[def] == Role::Chain)
        bounds[def].greatest = std::min(bounds[def].greatest, bounds[&op].greatest);
  return success();
}

/// Units that pins keep in later stages come later; data flow keeps its order, as bounds never fall along it.
void Chain::sort() {
  for (Operation &op : function.front().without_terminator())
    order.push_back(&op);
  if (isPinned)
    llvm::stable_sort(order, [&](Operation *a, Operation *b) {
      auto key = [&](Operation *op) {
        return roles[op] == Role::Chain ? std::pair(bounds[op].least, bounds[op].greatest) : std::pair(0, 0);
      };
      return key(a) < key(b);
    });
  llvm::copy_if(order, std::back_inserter(chain), [&](Operation *op) { return roles[op] == Role::Chain; });
}

void Chain::collectWeights(Operation *op, bool isPacked, Weights &weights, llvm::SetVector<unsigned> &found,
                           llvm::DenseSet<Operation *> &seen) const {
  for (Value operand : op->getOperands())
    if (Operation *def = operand.getDefiningOp();
        def && roles.lookup(def) == Role::Free && seen.insert(def).second) {
      if (auto parameter = dyn_cast<ParameterOp>(def))
        found.insert(weights.get(parameter, isPacked));
      else
        collectWeights(def, isPacked, weights, found, seen);
    }
}

LogicalResult Chain::read(std::vector<StagePin> &pins, MeshAttr mesh, int64_t ranks,
                          const cost::Machine &machine, bool isOneOfMany, Weights &weights) {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError() << "expected a function of one block";
  layout::OpPrices prices = layout::priceOps(function, mesh, ranks, machine);
  findRoles(prices, mesh);
  if (failed(bound(pins, isOneOfMany)))
    return failure();
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
  problem.stages = stages;
  return problem;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// The ONNX name of the tensor that a value is, or of what makes it.
static std::string getTensorName(Value value, const Chain &chain) {
  std::vector<std::string> names = outline::getNames(value.getLoc());
  return names.empty() ? chain.names.lookup(value.getDefiningOp()) : names.back();
}

namespace {
/// Builds the functions of one program. Where `mesh` loops over microbatches, arguments say where the batch
/// stands in them, and nothing else does.
class ProgramCutter {
public:
  ProgramCutter(const Chain &chain, ArrayRef<ModuleOp> stages, MeshAttr mesh)
      : chain(chain), stages(stages), mesh(mesh) {
    if (mesh.getLoopAxis() >= 0)
      refinement.emplace(chain.function);
  }
  void run();
  std::vector<StageMessage> messages;

private:
  /// What stands in a stage's function.
  struct Part {
    llvm::SetVector<Operation *> ops;
    llvm::SetVector<Value> inputs, received; ///< the function's arguments; what comes from other stages
    SmallVector<unsigned> outputs;           ///< places among the function's results
    llvm::SetVector<Value> sent;
  };
  /// Adds what `value` needs to be there.
  void need(Value value, Part &part, int stage);
  void build(int stage, const Part &part);
  int getStageOfOutput(Value value) const;
  /// Where the batch stands in an argument of the program, or in what one of its ops makes.
  std::optional<LoopPlace> findBatch(Value value) const;

  const Chain &chain;
  ArrayRef<ModuleOp> stages;
  MeshAttr mesh;
  std::optional<RefinementAnalysis> refinement; ///< of the function, where there is a loop
  llvm::MapVector<Value, int64_t> ids;          ///< of values between stages
};
} // namespace

void ProgramCutter::need(Value value, Part &part, int stage) {
  Operation *op = value.getDefiningOp();
  if (!op) {
    part.inputs.insert(value);
    return;
  }
  if (chain.roles.lookup(op) == Role::Chain) {
    if (chain.stageOf.lookup(op) != stage)
      part.received.insert(value);
    return;
  }
  if (part.ops.insert(op))
    for (Value operand : op->getOperands())
      need(operand, part, stage);
}

int ProgramCutter::getStageOfOutput(Value value) const {
  Operation *op = value.getDefiningOp();
  return op && chain.roles.lookup(op) == Role::Chain ? chain.stageOf.lookup(op) : 0;
}

std::optional<LoopPlace> ProgramCutter::findBatch(Value value) const {
  if (!refinement)
    return std::nullopt;
  func::FuncOp function = chain.function;
  ShardingAttr layout;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    layout = function.getArgAttrOfType<ShardingAttr>(argument.getArgNumber(), kShardingAttrName);
  } else {
    Operation *op = value.getDefiningOp();
    const FactorRule &rule = refinement->get(op).rule;
    FailureOr<Assignment> assignment = getAssignment(op, rule, mesh);
    if (succeeded(assignment))
      layout = getResultSharding(op, cast<OpResult>(value).getResultNumber(), rule, *assignment);
  }
  return layout ? findLoop(layout, mesh) : std::nullopt;
}

void ProgramCutter::run() {
  std::vector<Part> parts(stages.size());
  for (Operation *op : chain.chain) {
    int stage = chain.stageOf.lookup(op);
    parts[stage].ops.insert(op);
    for (Value operand : op->getOperands())
      need(operand, parts[stage], stage);
  }
  func::FuncOp function = chain.function;
  for (auto [i, value] : llvm::enumerate(function.front().getTerminator()->getOperands())) {
    int stage = getStageOfOutput(value);
    parts[stage].outputs.push_back(i);
    need(value, parts[stage], stage);
  }
  // What nobody reads is an input nevertheless.
  for (BlockArgument argument : function.getArguments())
    if (llvm::none_of(parts, [&](const Part &part) { return part.inputs.contains(argument); }))
      parts.front().inputs.insert(argument);
  // Values between stages are numbered as they are made.
  for (Operation *op : chain.chain)
    for (Value result : op->getResults())
      for (auto [to, part] : llvm::enumerate(parts))
        if (part.received.contains(result)) {
          int from = chain.stageOf.lookup(op);
          parts[from].sent.insert(result);
          ids.insert({result, static_cast<int64_t>(ids.size())});
          messages.push_back({getTensorName(result, chain), from, static_cast<int64_t>(to),
                              static_cast<uint64_t>(getBytes(result.getType()))});
        }
  for (auto [stage, part] : llvm::enumerate(parts))
    build(static_cast<int>(stage), part);
}

void ProgramCutter::build(int stage, const Part &part) {
  func::FuncOp function = chain.function;
  MLIRContext *context = function.getContext();
  OpBuilder b = OpBuilder::atBlockEnd(const_cast<ModuleOp &>(stages[stage]).getBody());
  SmallVector<Value> arguments(part.inputs.begin(), part.inputs.end()), received, results;
  llvm::sort(arguments, [](Value x, Value y) {
    return cast<BlockArgument>(x).getArgNumber() < cast<BlockArgument>(y).getArgNumber();
  });
  for (auto &[value, id] : ids)
    if (part.received.contains(value))
      received.push_back(value);
  SmallVector<DictionaryAttr> argumentAttrs, resultAttrs;
  SmallVector<Location> locations;
  auto addAttrs = [&](SmallVectorImpl<DictionaryAttr> &list, DictionaryAttr given, StringRef key,
                      int64_t number, const std::string &name, std::optional<LoopPlace> batch) {
    NamedAttrList attrs(given);
    attrs.set(key, b.getI64IntegerAttr(number));
    if (refinement) // axes have other numbers in a stage
      attrs.erase(kShardingAttrName);
    if (batch)
      attrs.set(kLoopPlaceAttrName, toAttribute(context, *batch));
    if (!name.empty())
      attrs.set("colossal.name", b.getStringAttr(name));
    list.push_back(attrs.getDictionary(context));
  };
  for (Value argument : arguments) {
    unsigned place = cast<BlockArgument>(argument).getArgNumber();
    addAttrs(argumentAttrs, function.getArgAttrDict(place), kPlaceAttrName, place, "", findBatch(argument));
  }
  for (Value value : received)
    addAttrs(argumentAttrs, {}, kReceivesAttrName, ids.lookup(value), "recv." + getTensorName(value, chain),
             findBatch(value));
  llvm::append_range(arguments, received);
  Operation *terminator = function.front().getTerminator();
  for (unsigned place : part.outputs) {
    results.push_back(terminator->getOperand(place));
    addAttrs(resultAttrs, function.getResultAttrDict(place), kPlaceAttrName, place, "", {});
  }
  for (auto &[value, id] : ids)
    if (part.sent.contains(value)) {
      results.push_back(value);
      addAttrs(resultAttrs, {}, kSendsAttrName, id, "send." + getTensorName(value, chain), {});
    }
  auto own = func::FuncOp::create(
      b, function.getLoc(), function.getName(),
      b.getFunctionType(ValueRange(arguments).getTypes(), ValueRange(results).getTypes()));
  own->setDiscardableAttrs(function->getDiscardableAttrDictionary());
  own.setAllArgAttrs(argumentAttrs);
  own.setAllResultAttrs(resultAttrs);
  Block *body = own.addEntryBlock();
  IRMapping mapping;
  for (auto [value, argument] : llvm::zip_equal(arguments, body->getArguments())) {
    mapping.map(value, argument);
    argument.setLoc(value.getLoc());
  }
  b.setInsertionPointToEnd(body);
  for (Operation *op : chain.order)
    if (part.ops.contains(op)) {
      Operation *clone = b.clone(*op, mapping);
      if (refinement)
        clone->removeAttr(kAssignmentAttrName);
    }
  SmallVector<Value> returned;
  for (Value value : results)
    returned.push_back(mapping.lookup(value));
  func::ReturnOp::create(b, terminator->getLoc(), returned);
}

//===----------------------------------------------------------------------===//
// The phase
//===----------------------------------------------------------------------===//

static FailureOr<std::vector<StagePin>> parsePins(ModuleOp module, ArrayRef<std::string> texts) {
  std::vector<StagePin> pins;
  for (const std::string &text : texts) {
    auto [expression, layout] = StringRef(text).rsplit('=');
    int stage = 0;
    if (!layout.consume_front(kPinPrefix) || layout.getAsInteger(10, stage))
      return emitError(module.getLoc()) << "pin '" << text << "' is not of the form REGEX=stage:K", failure();
    std::string error;
    std::optional<outline::NamePattern> name = outline::NamePattern::parse(expression.str(), error);
    if (!name)
      return emitError(module.getLoc()) << "pin '" << text << "': " << error, failure();
    pins.push_back({text, std::move(*name), stage});
  }
  return pins;
}

/// Decides the stage of every unit of all programs; `first`: that takes longest.
static LogicalResult chooseStages(ModuleOp module, std::vector<Chain> &chains, size_t first,
                                  const Weights &weights, double memoryBytes, StageCut &cut) {
  Chain &longest = chains[first];
  CutProblem problem = longest.makeProblem(weights);
  problem.memoryBytes = memoryBytes;
  if (longest.chain.size() < static_cast<size_t>(problem.stages))
    return emitError(module.getLoc())
           << "--mesh asks for " << problem.stages << " stages, but the model has only "
           << longest.chain.size() << " operators that can stand in one of their own";
  cut = cutStages(problem);
  if (cut.firsts.empty())
    return emitError(module.getLoc())
           << "the pins leave one of the " << problem.stages << " stages without any operator";
  llvm::StringMap<int> stageOfName;
  int stage = -1;
  for (auto [u, op] : llvm::enumerate(longest.chain)) {
    while (stage + 1 < problem.stages && cut.firsts[stage + 1] == u)
      ++stage;
    longest.stageOf[op] = stage;
    stageOfName[longest.names[op]] = stage;
  }
  for (auto [c, chain] : llvm::enumerate(chains)) {
    if (c == first)
      continue;
    std::vector<int> wanted;
    for (Operation *op : chain.chain) {
      auto known = stageOfName.find(chain.names[op]);
      wanted.push_back(known == stageOfName.end() ? -1 : known->second);
    }
    std::vector<int> followed = followCut(chain.makeProblem(weights), wanted);
    if (followed.size() != chain.chain.size())
      return chain.function.emitError()
             << "the pins leave no stages for program '" << chain.function.getName() << "'";
    for (auto [op, stage] : llvm::zip_equal(chain.chain, followed))
      chain.stageOf[op] = stage;
  }
  return success();
}

/// By how much something must be faster to be worth telling.
static constexpr double kTold = 1.005;

static void describe(const Chain &chain, const StageCut &cut, ArrayRef<ModuleOp> stages, bool isPinned,
                     StepReport &report) {
  llvm::StringMap<uint64_t> all;
  for (auto [s, stage] : llvm::enumerate(stages)) {
    StageInfo &info = report.stages.emplace_back();
    info.firstRank = getFirstRank(stage);
    info.ranks = stage->getAttrOfType<MeshAttr>(kMeshAttrName).getNumRanks();
    info.seconds = cut.seconds[s];
    for (Operation *op : chain.chain)
      if (chain.stageOf.lookup(op) == static_cast<int>(s)) {
        if (info.ops++ == 0)
          info.first = chain.names.lookup(op);
        info.last = chain.names.lookup(op);
      }
    llvm::StringMap<uint64_t> own;
    ModuleOp(stage).walk(
        [&](ParameterOp op) { own[op.getName()] = static_cast<uint64_t>(getBytes(op.getType())); });
    for (auto &entry : own) {
      info.weightBytes += entry.second;
      all[entry.getKey()] = entry.second;
    }
  }
  for (auto &entry : all)
    report.weightBytes += entry.second;
  report.why =
      std::string(isPinned ? "as pinned, and elsewhere " : "") +
      "cut where the slowest stage takes least while none holds more than 1.2 times its even part of the "
      "weights, or little more than one must";
  const double total = std::accumulate(cut.seconds.begin(), cut.seconds.end(), 0.0);
  const double slowest = *llvm::max_element(cut.seconds);
  if (total <= 0)
    return;
  auto percent = [&](double seconds) { return llvm::formatv("{0:F1} %", 100 * seconds / total).str(); };
  report.why += ": " + percent(slowest) + " of the time";
  if (slowest > cut.slowestAnywhere * kTold)
    report.why += ", between blocks (inside of one: " + percent(cut.slowestAnywhere) + ")";
  if (cut.slowestAnywhere > cut.slowestUnlimited * kTold)
    report.why += "; whatever stages hold, it could be " + percent(cut.slowestUnlimited);
}

LogicalResult step::cutStages(ModuleOp module, const StepOptions &options, StepReport &report) {
  MeshAttr mesh = module->getAttrOfType<MeshAttr>(kMeshAttrName);
  const int stages = countStages(mesh);
  if (getStages(module).front() != module)
    return success();
  if (std::string error = checkStagePins(options.pins, mesh); !error.empty())
    return emitError(module.getLoc()) << error;
  if (stages < 2)
    return success();
  if (mesh.getNumRanks() > options.machine.devices())
    return emitError(module.getLoc())
           << "the mesh has " << mesh.getNumRanks() << " ranks, machine '" << options.machine.name << "' "
           << options.machine.devices() << " devices";
  FailureOr<std::vector<StagePin>> pins = parsePins(module, options.pins);
  if (failed(pins))
    return failure();
  MeshAttr ofStage = getStageMesh(mesh);
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  Weights weights;
  std::vector<Chain> chains;
  for (func::FuncOp function : functions) {
    chains.emplace_back(function, stages);
    if (failed(chains.back().read(*pins, ofStage, mesh.getNumRanks(), options.machine, functions.size() > 1,
                                  weights)))
      return failure();
  }
  for (const StagePin &pin : *pins)
    if (!pin.isUsed)
      return emitError(module.getLoc()) << "pin '" << pin.text << "' matches no operator";
  if (chains.empty())
    return success();
  size_t longest = 0;
  for (size_t c = 1; c < chains.size(); ++c)
    if (chains[c].getSeconds() > chains[longest].getSeconds())
      longest = c;
  double memory =
      static_cast<double>(options.memoryBytes ? options.memoryBytes
                                              : options.machine.memoryOfRank(mesh.getNumRanks())) *
      static_cast<double>(ofStage.getNumRanks());
  StageCut cut;
  if (failed(chooseStages(module, chains, longest, weights, memory, cut)))
    return failure();

  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  SmallVector<ModuleOp> modules;
  for (int s = 0; s < stages; ++s) {
    auto stage = ModuleOp::create(b, module.getLoc(), "stage" + std::to_string(s));
    stage->setAttr(kMeshAttrName, ofStage);
    stage->setAttr(kStageAttrName, b.getI64IntegerAttr(s));
    modules.push_back(stage);
  }
  for (auto [c, chain] : llvm::enumerate(chains)) {
    ProgramCutter cutter(chain, modules, mesh);
    cutter.run();
    if (c == longest)
      report.messages = std::move(cutter.messages);
    for (Operation *op : chain.chain) {
      std::string name = chain.names[op];
      if (chains.size() > 1)
        name += ("@" + chain.function.getName()).str();
      report.pins +=
          outline::escapeName(name) + "=" + kPinPrefix.str() + std::to_string(chain.stageOf[op]) + "\n";
    }
  }
  if (mesh.getLoopAxis() >= 0)
    for (ModuleOp stage : modules)
      if (failed(propagateBatchInStage(stage)))
        return failure();
  describe(chains[longest], cut, modules, !pins->empty(), report);
  for (func::FuncOp function : functions)
    function.erase();
  return success();
}
