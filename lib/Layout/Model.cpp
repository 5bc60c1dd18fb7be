//===- Model.cpp - a module as a layout problem -----------------------------===//
#include "Model.h"

#include "Names.h"
#include "colossal/Partition/Partition.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/BoundaryAttrs.h"
#include "dialects/Dist/Stages.h"
#include "dialects/Dist/State.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

SmallVector<unsigned, 4> layout::getTensorOperands(Operation *op) {
  SmallVector<unsigned, 4> numbers;
  for (auto [i, type] : llvm::enumerate(op->getOperandTypes()))
    if (isa<RankedTensorType>(type))
      numbers.push_back(i);
  return numbers;
}

void Model::addPrograms() {
  for (func::FuncOp function : functions) {
    Program program;
    program.function = function;
    program.reading = &builder.getProgram(function);
    program.begin = end;
    const factors::UnitKind &kind = program.kind();
    program.sources.resize(kind.tensors.size());
    program.readers.resize(kind.tensors.size());
    program.isOutput.resize(kind.tensors.size());
    for (int output : kind.outputs)
      program.isOutput[output] = true;
    for (auto [i, op] : llvm::enumerate(kind.operations))
      for (auto [u, use] : llvm::enumerate(op.operands))
        program.readers[use.tensor].push_back({static_cast<int>(i), static_cast<int>(u)});
    if (memoryLimit && foreseeStorage)
      program.storage = foreseeStorage(
          function, [&](Operation *op) { return builder.isInLoop(op) || builder.isOfEachTurn(op); });
    if (program.storage)
      program.lossValues = partition::findLossValues(function);
    end = program.lastStep() + 1;
    programs.push_back(std::move(program));
  }
}

//===----------------------------------------------------------------------===//
// The loop axis
//===----------------------------------------------------------------------===//

void Model::keepLoop(std::vector<ShardingAttr> &layouts, std::optional<LoopPlace> place, bool isWhole) const {
  llvm::SetVector<ShardingAttr> kept;
  for (ShardingAttr layout : layouts) {
    const bool isIn = findLoop(layout, mesh).has_value();
    if (place && !isIn)
      layout = addLoop(layout, *place, mesh);
    if (layout && (place || !isIn) && (!isWhole || isBox(layout, mesh)))
      kept.insert(layout);
  }
  layouts.assign(kept.begin(), kept.end());
}

void Model::keepLoop(std::vector<ShardingAttr> &layouts, DictionaryAttr attributes) const {
  auto given = attributes ? attributes.getAs<ShardingAttr>(kShardingAttrName) : ShardingAttr();
  keepLoop(layouts, given ? findLoop(given, mesh) : std::nullopt, !isBetweenStages(attributes));
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
  std::string text = name.str();
  if (function && functions.size() >= 2)
    text += ("@" + function.getName()).str();
  if (std::optional<int64_t> stage = getStage(module))
    text += "@stage" + std::to_string(*stage);
  return text;
}

LogicalResult Model::addOp(int number, int operation, StringRef name, const Pins &pins) {
  Program &program = programs[number];
  const factors::UnitKind &kind = program.kind();
  const factors::Operation &described = kind.operations[operation];
  Operation *op = program.getOp(operation);
  NodeInfo info;
  info.choices = builder.getChoices(
      op, name, pins.empty() ? std::string() : getProgramName(name, program.function), pins);
  if (!info.choices)
    return failure();
  const OpChoices &choices = *info.choices;
  info.name = name.str();
  info.function = program.function;
  info.ops = {op};
  info.program = number;
  info.operation = operation;
  std::vector<search::Candidate> candidates(choices.assignments.size());
  for (auto [candidate, seconds] : llvm::zip_equal(candidates, choices.seconds))
    candidate.cost = search::costFromSeconds(seconds);
  auto results = llvm::to_vector(llvm::make_filter_range(
      op->getResults(), [](Value result) { return isa<RankedTensorType>(result.getType()); }));
  for (auto [i, result] : llvm::enumerate(described.results)) {
    // A returned value is written where outputs lie, which its Result node counts.
    if (described.kind == factors::Operation::View || program.isOutput[result.tensor] ||
        (program.storage && !program.storage->lives.lookup(results[i]).isStored))
      continue;
    auto [begin, finish] = program.lifeOf(result.tensor, results[i]);
    auto cut = program.lossValues.find(results[i]);
    for (auto [c, bytes] : llvm::enumerate(choices.resultBytes[i])) {
      const ShardingAttr layout = choices.haves[i][static_cast<int32_t>(c)];
      candidates[c].memory.push_back(
          {begin, finish,
           cut == program.lossValues.end() ? bytes : getPartBytes(bytes, layout, cut->second, mesh)});
    }
  }
  int node = addNode(std::move(info), std::move(candidates));
  program.nodes.push_back(node);
  for (auto [i, result] : llvm::enumerate(described.results))
    program.sources[result.tensor] = {node, choices.haves[i]};
  return success();
}

unsigned Model::countCutOps() const {
  return llvm::count_if(nodes, [](const NodeInfo &node) { return node.choices && !node.choices->isWhole; });
}

void Model::reportRecipe() {
  unsigned count = 0, placed = 0;
  const NodeInfo *first = nullptr;
  for (const NodeInfo &node : nodes)
    if (node.kind == NodeInfo::Kind::Op && recipe->hasWeights(node.ops.front())) {
      const bool isPlaced = node.choices->isAsAsked && recipe->isPlaced(node.ops.front());
      ++count;
      placed += isPlaced;
      if (!isPlaced && !first)
        first = &node;
    }
  // A stage may have none, and one of a training step does not know its own.
  if (count == 0 && !getStage(module))
    emitWarning(module.getLoc())
        << "layout '" << recipe->getName()
        << "' says nothing of this model, which has no contraction or convolution of "
           "activations with weights: the search decides";
  else if (first)
    emitWarning(first->ops.front()->getLoc())
        << "layout '" << recipe->getName() << "' says how " << placed << " of " << count
        << " contractions and convolutions with weights lie; the first that is left to the search is '"
        << first->name << "'";
}

LogicalResult Model::build(RefinementOf refinementOf, const Pins &pins) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || !function.getBody().hasOneBlock())
      return function.emitError() << "expected a function of one block";
    for (Operation &op : function.front().without_terminator())
      if (!isa<ShardingRuleOpInterface>(op))
        return op.emitOpError() << "has no sharding rule, so that no layout can be searched for it";
    builder.add(function, refinementOf(function));
    functions.push_back(function);
  }
  if (failed(builder.enumerate()))
    return failure();
  addPrograms();
  problem.memoryLimit = memoryLimit;
  // Nearly all that there will be: of layers there are many, and to move what is known of them as it grows
  // takes as long as to find it.
  size_t tensors = 0, uses = 0;
  for (const Program &program : programs) {
    tensors += program.kind().tensors.size();
    uses += program.kind().outputs.size();
    for (const factors::Operation &op : program.kind().operations)
      uses += op.operands.size();
  }
  nodes.reserve(tensors);
  problem.nodes.reserve(tensors);
  transfers.reserve(uses);
  problem.edges.reserve(uses);
  for (int p = 0; p < static_cast<int>(programs.size()); ++p) {
    llvm::DenseMap<Operation *, std::string> names = getUniqueNames(programs[p].function);
    for (int i = 0; i < static_cast<int>(programs[p].kind().operations.size()); ++i)
      if (failed(addOp(p, i, names[programs[p].getOp(i)], pins)))
        return failure();
  }
  if (recipe)
    reportRecipe();
  if (failed(addParameters(pins)) || failed(addStates(pins)))
    return failure();
  for (Program &program : programs)
    if (failed(addArguments(program, pins)) || failed(addResults(program, pins)))
      return failure();
  for (const Program &program : programs)
    addTransfers(program);
  addUses();
  discountReaders();
  return success();
}

void Model::discountReaders() {
  constexpr search::Cost kSeldom = 16;
  auto renews = [](func::FuncOp function) {
    return llvm::any_of(llvm::seq(function.getNumResults()),
                        [&](unsigned i) { return bool(function.getResultAttr(i, kStateAttrName)); });
  };
  llvm::SmallPtrSet<Operation *, 2> readers;
  for (func::FuncOp function : functions)
    if (!renews(function))
      readers.insert(function);
  if (readers.empty() || readers.size() == functions.size())
    return;
  auto discount = [&](search::Cost &cost) {
    if (cost != search::kForbidden)
      cost /= kSeldom;
  };
  std::vector<char> isRead(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    func::FuncOp function = nodes[n].function;
    if (!function && nodes[n].value)
      function = nodes[n].value.getParentRegion()->getParentOfType<func::FuncOp>();
    isRead[n] = function && readers.contains(function);
    if (isRead[n])
      for (search::Candidate &candidate : problem.nodes[n].candidates)
        discount(candidate.cost);
  }
  std::map<const search::CostTable *, std::shared_ptr<const search::CostTable>> discounted;
  for (search::Edge &edge : problem.edges) {
    if (llvm::none_of(edge.nodes, [&](int32_t node) { return isRead[node]; }))
      continue;
    std::shared_ptr<const search::CostTable> &less = discounted[edge.table.get()];
    if (!less) {
      auto table = std::make_shared<search::CostTable>(*edge.table);
      llvm::for_each(*table, discount);
      less = std::move(table);
    }
    edge.table = less;
  }
}

void Model::apply(const search::Assignment &chosen) {
  llvm::MapVector<Operation *, BoundaryAttrs> boundaries;
  auto boundaryOf = [&](Operation *function) -> BoundaryAttrs & { return boundaries.find(function)->second; };
  for (func::FuncOp function : functions) { // what an earlier search may have left
    for (Operation &op : function.front())
      if (op.hasAttr(kSharedAttrName))
        op.removeAttr(kSharedAttrName);
    BoundaryAttrs &boundary = boundaries.insert({function, BoundaryAttrs(function)}).first->second;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      boundary.removeArgument(i, kSharedAttrName);
  }
  std::map<std::pair<const OpChoices *, int32_t>, Attribute> written;
  const auto assignmentName = StringAttr::get(mesh.getContext(), kAssignmentAttrName),
             shardingName = StringAttr::get(mesh.getContext(), kShardingAttrName);
  for (auto [i, node] : llvm::enumerate(nodes)) {
    int32_t candidate = chosen[i];
    switch (node.kind) {
    case NodeInfo::Kind::Op:
      if (Attribute &known = written[{node.choices.get(), candidate}]) {
        node.ops.front()->setAttr(assignmentName, known);
      } else {
        setAssignment(node.ops.front(), node.choices->assignments[candidate]);
        known = node.ops.front()->getAttr(kAssignmentAttrName);
      }
      break;
    case NodeInfo::Kind::Parameter:
      for (Operation *op : node.ops)
        op->setAttr(shardingName, node.layouts[candidate]);
      break;
    case NodeInfo::Kind::State:
      for (auto [function, index] : node.arguments)
        boundaryOf(function).setArgument(index, kShardingAttrName, node.layouts[candidate]);
      for (auto [function, index] : node.results)
        boundaryOf(function).setResult(index, kShardingAttrName, node.layouts[candidate]);
      break;
    case NodeInfo::Kind::Argument:
      boundaryOf(node.function).setArgument(node.index, kShardingAttrName, node.layouts[candidate]);
      break;
    case NodeInfo::Kind::Result:
      boundaryOf(node.function).setResult(node.index, kShardingAttrName, node.layouts[candidate]);
      break;
    case NodeInfo::Kind::Copy:
    case NodeInfo::Kind::Shared: break;
    }
  }
  for (const Transfer &transfer : transfers)
    if (nodes[transfer.to].kind == NodeInfo::Kind::Shared) {
      ShardingAttr layout = transfer.want[chosen[transfer.to]];
      if (layout == transfer.made[chosen[transfer.maker]])
        continue;
      if (auto argument = dyn_cast<BlockArgument>(transfer.value))
        boundaryOf(argument.getOwner()->getParentOp())
            .setArgument(argument.getArgNumber(), kSharedAttrName, layout);
      else
        setSharedLayout(transfer.value, layout);
    }
  for (auto &[function, boundary] : boundaries)
    boundary.apply();
}
