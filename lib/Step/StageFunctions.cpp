//===- StageFunctions.cpp - a program's functions in its stages -------------===//
//
// Each stage has one function of a program, with all of its chunks. What is received is an argument for the
// chunk that reads it, so that two chunks of a stage that read one value have one each.
//
//===----------------------------------------------------------------------===//
#include "StageFunctions.h"

#include "colossal/Partition/Partition.h"
#include "dialects/Dist/Loop.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

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
  struct Part {
    llvm::SetVector<Value> received; ///< what comes from other parts
    llvm::SetVector<Value> sent;
    SmallVector<unsigned> outputs; ///< places among the program's results
  };
  /// What stands in a stage's function.
  struct Stage {
    llvm::SetVector<Operation *> ops;
    llvm::SetVector<Value> inputs;
  };
  /// An argument or result of a stage's function.
  struct Ends {
    SmallVector<Value> values;
    SmallVector<DictionaryAttr> attributes;
  };
  int chunkOf(int part) const { return part / chain.stages; }
  bool hasChunks() const { return chain.parts > chain.stages; }
  /// Adds what `value` needs to be there for `part`.
  void need(Value value, int part);
  void build(int stage);
  /// The function's arguments, those that are received behind the others, and its results.
  Ends listInputs(int stage) const;
  Ends listReceived(int part) const;
  Ends listResults(int stage) const;
  /// `given` and the number `key` of a value between stages, or of an input or output, of `part` (-1: of
  /// all).
  DictionaryAttr describe(DictionaryAttr given, StringRef key, int64_t number, int part,
                          const std::string &name, std::optional<LoopPlace> batch) const;
  int getPartOfOutput(Value value) const;
  /// Where the batch stands in an argument of the program, or in what one of its ops makes.
  std::optional<LoopPlace> findBatch(Value value) const;

  const Chain &chain;
  ArrayRef<ModuleOp> stages;
  MeshAttr mesh;
  std::optional<RefinementAnalysis> refinement; ///< of the function, where there is a loop
  llvm::MapVector<Value, int64_t> ids;          ///< of values between parts
  std::vector<Part> parts;
  std::vector<Stage> ofStage;
};
} // namespace

void ProgramCutter::need(Value value, int part) {
  Stage &stage = ofStage[part % chain.stages];
  Operation *op = value.getDefiningOp();
  if (!op) {
    stage.inputs.insert(value);
    return;
  }
  if (chain.roles.lookup(op) == Role::Chain) {
    if (chain.partOf.lookup(op) != part)
      parts[part].received.insert(value);
    return;
  }
  if (stage.ops.insert(op))
    for (Value operand : op->getOperands())
      need(operand, part);
}

int ProgramCutter::getPartOfOutput(Value value) const {
  Operation *op = value.getDefiningOp();
  return op && chain.roles.lookup(op) == Role::Chain ? chain.partOf.lookup(op) : 0;
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
  parts.resize(chain.parts);
  ofStage.resize(stages.size());
  for (Operation *op : chain.chain) {
    const int part = chain.partOf.lookup(op);
    ofStage[part % chain.stages].ops.insert(op);
    for (Value operand : op->getOperands())
      need(operand, part);
  }
  func::FuncOp function = chain.function;
  for (auto [i, value] : llvm::enumerate(function.front().getTerminator()->getOperands())) {
    const int part = getPartOfOutput(value);
    parts[part].outputs.push_back(i);
    need(value, part);
  }
  // What nobody reads is an input nevertheless.
  for (BlockArgument argument : function.getArguments())
    if (llvm::none_of(ofStage, [&](const Stage &stage) { return stage.inputs.contains(argument); }))
      ofStage.front().inputs.insert(argument);
  // Values between parts are numbered as they are made.
  for (Operation *op : chain.chain)
    for (Value result : op->getResults())
      for (auto [to, part] : llvm::enumerate(parts))
        if (part.received.contains(result)) {
          const int from = chain.partOf.lookup(op);
          parts[from].sent.insert(result);
          ids.insert({result, static_cast<int64_t>(ids.size())});
          messages.push_back(
              {getTensorName(result, chain), from % chain.stages, static_cast<int64_t>(to) % chain.stages,
               static_cast<uint64_t>(getBytes(result.getType())), from, static_cast<int64_t>(to)});
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
  if (refinement) // axes have other numbers in a stage
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
  }
  return ends;
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
  for (int part = stage; part < chain.parts; part += chain.stages)
    for (unsigned place : parts[part].outputs) {
      ends.values.push_back(function.front().getTerminator()->getOperand(place));
      ends.attributes.push_back(
          describe(function.getResultAttrDict(place), kPlaceAttrName, place, part, "", {}));
    }
  for (int part = stage; part < chain.parts; part += chain.stages)
    for (auto &[value, id] : ids)
      if (parts[part].sent.contains(value)) {
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
  for (int part = stage; part < chain.parts; part += chain.stages) {
    Ends received = listReceived(part);
    llvm::append_range(arguments.values, received.values);
    llvm::append_range(arguments.attributes, received.attributes);
    chunks.append(received.values.size(), chunkOf(part));
  }
  auto own = func::FuncOp::create(
      b, function.getLoc(), function.getName(),
      b.getFunctionType(ValueRange(arguments.values).getTypes(), ValueRange(results.values).getTypes()));
  own->setDiscardableAttrs(function->getDiscardableAttrDictionary());
  own.setAllArgAttrs(arguments.attributes);
  own.setAllResultAttrs(results.attributes);
  Block *body = own.addEntryBlock();
  IRMapping mapping;
  std::vector<llvm::DenseMap<Value, Value>> received(chunkOf(chain.parts));
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
    if (refinement)
      clone->removeAttr(kAssignmentAttrName);
  }
  SmallVector<Value> returned;
  for (Value value : results.values)
    returned.push_back(mapping.lookup(value));
  func::ReturnOp::create(b, function.front().getTerminator()->getLoc(), returned);
}

std::vector<StageMessage> step::buildStages(const Chain &chain, ArrayRef<ModuleOp> stages, MeshAttr mesh) {
  ProgramCutter cutter(chain, stages, mesh);
  cutter.run();
  return std::move(cutter.messages);
}
