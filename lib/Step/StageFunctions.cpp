//===- StageFunctions.cpp - a program's functions in its stages -------------===//
//
// Each stage has one function of a program, with all of its chunks. What is received is an argument for the
// chunk that reads it, so that two chunks of a stage that read one value have one each. In programs of a
// module that trains it is one for all chunks of the stage, which keeps it (Pipeline.h).
//
//===----------------------------------------------------------------------===//
#include "StageFunctions.h"

#include "colossal/Partition/Partition.h"
#include "dialects/Dist/Loop.h"
#include "dialects/Dist/State.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallSet.h"

#include <deque>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::step;

/// The ONNX name of the tensor that a value is, or of what makes it.
static std::string getTensorName(Value value, const Chain &chain) {
  std::vector<std::string> names = outline::getNames(value.getLoc());
  return names.empty() ? chain.names.lookup(value.getDefiningOp()) : names.back();
}

namespace {
/// The stages that a state is in, by its name; the one that makes its new value, or the first of them, is the
/// owner.
struct StatePlaces {
  llvm::SmallSetVector<int64_t, 2> stages;
  int64_t owner = -1;
};
using AllStates = llvm::MapVector<StringAttr, StatePlaces>;

class ProgramCutter {
public:
  ProgramCutter(Chain &chain, ArrayRef<ModuleOp> stages, MeshAttr mesh)
      : chain(chain), stages(stages), mesh(mesh), hasLoop(mesh.getLoopAxis() >= 0),
        refinement(chain.function) {}
  /// Finds what stands in which stage.
  void collect();
  /// Adds to `states` where the program's are.
  void listStates(AllStates &states);
  /// Makes room for states that this or other programs have in a stage; all of them bring new values there.
  void addStates(const AllStates &states);
  void build();
  std::vector<StageMessage> messages;

private:
  struct Part {
    llvm::SetVector<Value> received; ///< what comes from other parts
    llvm::SetVector<Value> sent;
    SmallVector<unsigned> outputs; ///< places among the program's results
  };
  /// What stands in a stage's function.
  struct Stage {
    llvm::SetVector<Operation *> ops;
    llvm::SetVector<Value> inputs;
    llvm::MapVector<Value, int> receivedAt;       ///< where it trains: the part that first needs a value
    SmallVector<std::pair<unsigned, int>> copies; ///< results that are states of others, and when they come
  };
  /// An argument or result of a stage's function.
  struct Ends {
    SmallVector<Value> values;
    SmallVector<DictionaryAttr> attributes;
  };
  int chunkOf(int part) const { return static_cast<int>(chain.pipeline.getChunk(part)); }
  int stageOf(int part) const { return static_cast<int>(chain.pipeline.getStage(part)); }
  int partOf(int stage, int64_t chunk) const {
    return static_cast<int>(chain.pipeline.getPart(stage, chunk));
  }
  bool hasChunks() const { return chain.pipeline.countChunks() > 1; }
  bool isInChain(Value value) const {
    return value.getDefiningOp() && chain.roles.lookup(value.getDefiningOp()) == Role::Chain;
  }
  StringAttr getState(Value value) const;
  /// Adds what `value` needs to be there for `part`.
  void need(Value value, int part);
  /// The part at whose end a value is sent.
  int getSender(Value value) const;
  void build(int stage);
  /// The function's arguments, those that are received behind the others, and its results.
  Ends listInputs(int stage) const;
  Ends listReceived(int part) const;
  /// The attributes of an argument that is a state, which say where it stands among those of all stages.
  DictionaryAttr placeState(DictionaryAttr argument, StringAttr name, int stage) const;
  Ends listResults(int stage) const;
  /// `given` and the number `key` of a value between stages, or of an input or output, of `part` (-1: of
  /// all).
  DictionaryAttr describe(DictionaryAttr given, StringRef key, int64_t number, int part,
                          const std::string &name, std::optional<LoopPlace> batch) const;
  int getPartOfOutput(Value value) const;
  /// The chunk that makes what is added up for a value that is made of such sums of the forward pass alone.
  /// The model's last part is computed with its own gradients, which come at once.
  std::optional<int64_t> findForwardChunk(Value value) const;
  /// Where the batch stands in an argument of the program, or in what one of its ops makes.
  std::optional<LoopPlace> findBatch(Value value) const;

  Chain &chain;
  ArrayRef<ModuleOp> stages;
  MeshAttr mesh;
  const bool hasLoop;
  const RefinementAnalysis refinement; ///< of the function
  llvm::MapVector<Value, int64_t> ids; ///< of values between parts
  std::vector<Part> parts;
  std::vector<Stage> ofStage;
};
} // namespace

StringAttr ProgramCutter::getState(Value value) const {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? chain.function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kStateAttrName)
                  : StringAttr();
}

void ProgramCutter::need(Value value, int part) {
  Stage &stage = ofStage[stageOf(part)];
  Operation *op = value.getDefiningOp();
  if (!op) {
    stage.inputs.insert(value);
    return;
  }
  if (chain.roles.lookup(op) == Role::Chain) {
    const int from = chain.partOf.lookup(op);
    if (!chain.trains) {
      if (from != part)
        parts[part].received.insert(value);
    } else if (stageOf(from) != stageOf(part)) {
      int &first = stage.receivedAt.try_emplace(value, part).first->second;
      first = std::min(first, part);
    }
    return;
  }
  if (stage.ops.insert(op))
    for (Value operand : op->getOperands())
      need(operand, part);
}

int ProgramCutter::getSender(Value value) const {
  const int from = chain.partOf.lookup(value.getDefiningOp());
  if (!chain.trains || chain.isClosing(from))
    return from;
  const bool isLate = llvm::all_of(ofStage, [&](const Stage &stage) {
    auto received = stage.receivedAt.find(value);
    return received == stage.receivedAt.end() || chain.isClosing(received->second);
  });
  return isLate ? partOf(stageOf(from), chain.pipeline.countTurnChunks()) : from;
}

int ProgramCutter::getPartOfOutput(Value value) const {
  Operation *op = value.getDefiningOp();
  const int part = isInChain(value) ? chain.partOf.lookup(op) : 0; // any stage can make what is cheap
  if (!op || !chain.trains || chain.isClosing(part) || !chain.isTotal(op))
    return part;
  return partOf(stageOf(part), chain.pipeline.countTurnChunks());
}

std::optional<int64_t> ProgramCutter::findForwardChunk(Value value) const {
  if (!chain.trains || !chain.isClosing(getPartOfOutput(value)))
    return std::nullopt;
  if (!isInChain(value))
    return 0; // made of inputs alone
  std::optional<int64_t> chunk;
  auto turnsBack = [&](int part) { return chain.pipeline.hasBackward && part == chain.parts - 1; };
  llvm::DenseSet<Operation *> seen;
  SmallVector<Value> open{value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (!isInChain(next) || !seen.insert(next.getDefiningOp()).second)
      continue;
    const int part = chain.partOf.lookup(next.getDefiningOp());
    if (chain.isClosing(part))
      llvm::append_range(open, next.getDefiningOp()->getOperands());
    else if (part >= chain.parts || stageOf(part) != stageOf(getPartOfOutput(value)))
      return std::nullopt;
    else
      chunk = std::max<int64_t>(chunk.value_or(0),
                                chunkOf(turnsBack(part) ? chain.pipeline.getBackward(part) : part));
  }
  return chunk;
}

std::optional<LoopPlace> ProgramCutter::findBatch(Value value) const {
  if (!hasLoop)
    return std::nullopt;
  func::FuncOp function = chain.function;
  ShardingAttr layout;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    layout = function.getArgAttrOfType<ShardingAttr>(argument.getArgNumber(), kShardingAttrName);
  } else {
    Operation *op = value.getDefiningOp();
    const FactorRule &rule = refinement.get(op).rule;
    FailureOr<Assignment> assignment = getAssignment(op, rule, mesh);
    if (succeeded(assignment))
      layout = getResultSharding(op, cast<OpResult>(value).getResultNumber(), rule, *assignment);
  }
  return layout ? findLoop(layout, mesh) : std::nullopt;
}

void ProgramCutter::collect() {
  parts.resize(chain.pipeline.countParts());
  ofStage.resize(stages.size());
  for (Operation *op : chain.order) {
    if (chain.roles.lookup(op) != Role::Chain)
      continue;
    const int part = chain.partOf.lookup(op);
    ofStage[stageOf(part)].ops.insert(op);
    for (Value operand : op->getOperands())
      need(operand, part);
  }
  func::FuncOp function = chain.function;
  for (auto [i, value] : llvm::enumerate(function.front().getTerminator()->getOperands())) {
    const int part = getPartOfOutput(value);
    parts[part].outputs.push_back(i);
    need(value, part);
  }
}

void ProgramCutter::listStates(AllStates &states) {
  func::FuncOp function = chain.function;
  for (auto [i, value] : llvm::enumerate(function.front().getTerminator()->getOperands()))
    if (auto name = function.getResultAttrOfType<StringAttr>(i, kStateAttrName))
      states[name].owner = stageOf(getPartOfOutput(value));
  for (auto [s, stage] : llvm::enumerate(ofStage))
    for (Value input : stage.inputs)
      if (StringAttr name = getState(input))
        states[name].stages.insert(static_cast<int64_t>(s));
}

void ProgramCutter::addStates(const AllStates &states) {
  func::FuncOp function = chain.function;
  llvm::DenseMap<StringAttr, BlockArgument> arguments;
  for (BlockArgument argument : function.getArguments())
    if (StringAttr name = getState(argument))
      arguments[name] = argument;
  for (auto [i, value] : llvm::enumerate(function.front().getTerminator()->getOperands())) {
    auto name = function.getResultAttrOfType<StringAttr>(i, kStateAttrName);
    if (!name)
      continue;
    const StatePlaces &places = states.find(name)->second;
    ofStage[places.owner].inputs.insert(arguments.lookup(name));
    for (int64_t s : places.stages) {
      if (s == places.owner)
        continue;
      Stage &stage = ofStage[s];
      stage.inputs.insert(arguments.lookup(name));
      const int from = getPartOfOutput(value);
      const int64_t level = chain.isClosing(from) ? chunkOf(from) - chain.pipeline.countTurnChunks() : 0;
      chain.pipeline.levels = std::max(chain.pipeline.levels, level + 2);
      const int part = partOf(static_cast<int>(s), chain.pipeline.countTurnChunks() + level + 1);
      stage.copies.push_back({static_cast<unsigned>(i), part});
      need(value, part);
    }
  }
  for (auto &[name, places] : states)
    if (BlockArgument argument = arguments.lookup(name);
        argument &&
        llvm::none_of(ofStage, [&](const Stage &stage) { return stage.inputs.contains(argument); }))
      ofStage[places.owner].inputs.insert(argument);
  parts.resize(chain.pipeline.countParts());
}

void ProgramCutter::build() {
  func::FuncOp function = chain.function;
  // What nobody reads is an input nevertheless.
  for (BlockArgument argument : function.getArguments())
    if (llvm::none_of(ofStage, [&](const Stage &stage) { return stage.inputs.contains(argument); }))
      ofStage.front().inputs.insert(argument);
  for (Stage &stage : ofStage)
    for (auto &[value, part] : stage.receivedAt)
      parts[part].received.insert(value);
  // Values between parts are numbered as they are made.
  for (Operation *op : chain.order)
    for (Value result : op->getResults())
      for (auto [to, part] : llvm::enumerate(parts))
        if (part.received.contains(result)) {
          const int from = getSender(result), toPart = static_cast<int>(to);
          parts[from].sent.insert(result);
          ids.insert({result, static_cast<int64_t>(ids.size())});
          messages.push_back({getTensorName(result, chain), stageOf(from), stageOf(toPart),
                              static_cast<uint64_t>(getBytes(result.getType())), from, toPart});
        }
  for (int stage = 0; stage < chain.stages; ++stage)
    build(stage);
}

DictionaryAttr ProgramCutter::describe(DictionaryAttr given, StringRef key, int64_t number, int part,
                                       const std::string &name, std::optional<LoopPlace> batch) const {
  MLIRContext *context = mesh.getContext();
  Builder b(context);
  NamedAttrList attrs(given);
  attrs.set(key, b.getI64IntegerAttr(number));
  if (part >= 0 && hasChunks())
    attrs.set(kChunkAttrName, b.getI64IntegerAttr(chunkOf(part)));
  if (hasLoop) // axes have other numbers in a stage
    attrs.erase(kShardingAttrName);
  if (batch)
    attrs.set(kLoopPlaceAttrName, toAttribute(context, *batch));
  if (!name.empty())
    attrs.set("colossal.name", b.getStringAttr(name));
  return attrs.getDictionary(context);
}

ProgramCutter::Ends ProgramCutter::listInputs(int stage) const {
  func::FuncOp function = chain.function;
  Ends ends;
  ends.values.assign(ofStage[stage].inputs.begin(), ofStage[stage].inputs.end());
  llvm::sort(ends.values, [](Value x, Value y) {
    return cast<BlockArgument>(x).getArgNumber() < cast<BlockArgument>(y).getArgNumber();
  });
  for (Value argument : ends.values) {
    unsigned place = cast<BlockArgument>(argument).getArgNumber();
    ends.attributes.push_back(
        describe(function.getArgAttrDict(place), kPlaceAttrName, place, -1, "", findBatch(argument)));
    if (StringAttr name = getState(argument))
      ends.attributes.back() = placeState(ends.attributes.back(), name, stage);
  }
  return ends;
}

DictionaryAttr ProgramCutter::placeState(DictionaryAttr argument, StringAttr name, int stage) const {
  func::FuncOp function = chain.function;
  MLIRContext *context = mesh.getContext();
  NamedAttrList attributes(argument), info(argument.getAs<DictionaryAttr>(kStateInfoAttrName));
  info.set("place", argument.get(kPlaceAttrName));
  if (llvm::any_of(ofStage[stage].copies, [&](const auto &copy) {
        return function.getResultAttr(copy.first, kStateAttrName) == name;
      }))
    info.set("copy", UnitAttr::get(context));
  attributes.set(kStateInfoAttrName, info.getDictionary(context));
  return attributes.getDictionary(context);
}

ProgramCutter::Ends ProgramCutter::listReceived(int part) const {
  Ends ends;
  for (auto &[value, id] : ids)
    if (parts[part].received.contains(value)) {
      ends.values.push_back(value);
      ends.attributes.push_back(
          describe({}, kReceivesAttrName, id, part, "recv." + getTensorName(value, chain), findBatch(value)));
    }
  return ends;
}

ProgramCutter::Ends ProgramCutter::listResults(int stage) const {
  func::FuncOp function = chain.function;
  Ends ends;
  auto addOutput = [&](unsigned place, int part) {
    Value value = function.front().getTerminator()->getOperand(place);
    ends.values.push_back(value);
    NamedAttrList attributes(
        describe(function.getResultAttrDict(place), kPlaceAttrName, place, part, "", {}));
    if (std::optional<int64_t> chunk = findForwardChunk(value))
      attributes.set(kTurnChunkAttrName, Builder(mesh.getContext()).getI64IntegerAttr(*chunk));
    ends.attributes.push_back(attributes.getDictionary(mesh.getContext()));
  };
  for (int64_t chunk = 0; chunk < chain.pipeline.countChunks(); ++chunk)
    for (unsigned place : parts[partOf(stage, chunk)].outputs)
      addOutput(place, partOf(stage, chunk));
  for (auto [place, part] : ofStage[stage].copies)
    addOutput(place, part);
  for (int64_t chunk = 0; chunk < chain.pipeline.countChunks(); ++chunk)
    for (auto &[value, id] : ids)
      if (const int part = partOf(stage, chunk); parts[part].sent.contains(value)) {
        ends.values.push_back(value);
        ends.attributes.push_back(
            describe({}, kSendsAttrName, id, part, "send." + getTensorName(value, chain), {}));
      }
  return ends;
}

void ProgramCutter::build(int stage) {
  func::FuncOp function = chain.function;
  OpBuilder b = OpBuilder::atBlockEnd(const_cast<ModuleOp &>(stages[stage]).getBody());
  Ends arguments = listInputs(stage), results = listResults(stage);
  SmallVector<int> chunks(arguments.values.size(), -1); // by argument, the one that receives it
  for (int64_t chunk = 0; chunk < chain.pipeline.countChunks(); ++chunk) {
    Ends received = listReceived(partOf(stage, chunk));
    llvm::append_range(arguments.values, received.values);
    llvm::append_range(arguments.attributes, received.attributes);
    chunks.append(received.values.size(), chain.trains ? -1 : static_cast<int>(chunk));
  }
  // A stage has the parts of dimensions that others' ops cut, so that all can split them alike.
  for (Ends *ends : {&arguments, &results})
    for (auto [value, attributes] : llvm::zip_equal(ends->values, ends->attributes))
      if (ArrayAttr cuts = refinement.getCutsAttribute(value)) {
        NamedAttrList all(attributes);
        all.set(kCutsAttrName, cuts);
        attributes = all.getDictionary(b.getContext());
      }
  auto own = func::FuncOp::create(
      b, function.getLoc(), function.getName(),
      b.getFunctionType(ValueRange(arguments.values).getTypes(), ValueRange(results.values).getTypes()));
  own->setDiscardableAttrs(function->getDiscardableAttrDictionary());
  if (chain.trains)
    own->setAttr(kPipelineAttrName, dist::toAttribute(b.getContext(), chain.pipeline));
  own.setAllArgAttrs(arguments.attributes);
  own.setAllResultAttrs(results.attributes);
  Block *body = own.addEntryBlock();
  IRMapping mapping;
  std::vector<llvm::DenseMap<Value, Value>> received(chain.pipeline.countChunks());
  for (auto [value, argument, chunk] : llvm::zip_equal(arguments.values, body->getArguments(), chunks)) {
    if (chunk < 0)
      mapping.map(value, argument);
    else
      received[chunk][value] = argument;
    argument.setLoc(value.getLoc());
  }
  b.setInsertionPointToEnd(body);
  auto find = [&](Value value, int part) {
    const llvm::DenseMap<Value, Value> &here = received[chunkOf(part)];
    auto found = here.find(value);
    return found == here.end() ? mapping.lookup(value) : found->second;
  };
  for (Operation *op : chain.order) {
    if (!ofStage[stage].ops.contains(op))
      continue;
    Operation *clone = b.clone(*op, mapping);
    if (chain.roles.lookup(op) == Role::Chain)
      for (auto [operand, original] : llvm::zip_equal(clone->getOpOperands(), op->getOperands()))
        operand.set(find(original, chain.partOf.lookup(op)));
    if (hasLoop)
      clone->removeAttr(kAssignmentAttrName);
    for (StringRef name : {kUnitAttrName, kGradientOfAttrName, kUpdateAttrName})
      clone->removeAttr(name);
  }
  SmallVector<Value> returned;
  for (Value value : results.values)
    returned.push_back(mapping.lookup(value));
  func::ReturnOp::create(b, function.front().getTerminator()->getLoc(), returned);
}

std::vector<std::vector<StageMessage>> step::buildStages(MutableArrayRef<Chain> chains,
                                                         ArrayRef<ModuleOp> stages, MeshAttr mesh) {
  std::deque<ProgramCutter> cutters;
  AllStates states;
  for (Chain &chain : chains) {
    cutters.emplace_back(chain, stages, mesh);
    cutters.back().collect();
    cutters.back().listStates(states);
  }
  for (auto &[name, places] : states)
    if (places.owner < 0) // no program changes it
      places.owner = places.stages.front();
  std::vector<std::vector<StageMessage>> messages;
  for (ProgramCutter &cutter : cutters) {
    cutter.addStates(states);
    cutter.build();
    messages.push_back(std::move(cutter.messages));
  }
  return messages;
}
