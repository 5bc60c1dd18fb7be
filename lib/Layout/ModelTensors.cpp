//===- ModelTensors.cpp - parameters, states, arguments and results ---------===//
#include "Model.h"

#include "Names.h"
#include "colossal/Partition/Partition.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/ParameterPart.h"
#include "dialects/Dist/State.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <limits>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

/// Reduces `layouts` to what the last pin asks for that matches one of `names` and fits the tensor.
/// The last that holds; null: none.
static const Pin *applyTensorPins(std::vector<ShardingAttr> &layouts, ArrayRef<std::string> names,
                                  RankedTensorType type, const Pins &pins) {
  const Pin *last = nullptr;
  for (const Pin *pin : pins.find(names)) {
    ShardingAttr pinned = pin->getSharding(type.getContext(), type.getShape());
    if (!pinned)
      continue;
    pin->isUsed = true;
    layouts = {pinned};
    last = pin;
  }
  return last;
}

LogicalResult Model::pinBoundary(NodeInfo &info, RankedTensorType type, DictionaryAttr attributes,
                                 const Pins &pins, Location loc) const {
  std::vector<ShardingAttr> own = info.layouts;
  const Pin *pin =
      applyTensorPins(info.layouts, {info.name, getProgramName(info.name, info.function)}, type, pins);
  keepLoop(info.layouts, attributes);
  if (info.layouts.empty() && pin && pin->isOptional) { // as of samples that lie in another order
    info.layouts = std::move(own);
    keepLoop(info.layouts, attributes);
  }
  if (!info.layouts.empty())
    return success();
  return emitError(loc) << "'" << info.name << "' cannot lie as it is pinned: its microbatches, of which "
                        << mesh.getNumTurns() << " do not divide the batch, cannot be split further";
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

std::vector<ShardingAttr> Model::getDemands(ArrayRef<TensorOf> tensors, RankedTensorType type,
                                            ArrayRef<unsigned> spread) const {
  llvm::SetVector<ShardingAttr> layouts;
  layouts.insert(ShardingAttr::getReplicated(mesh.getContext(), type.getShape()));
  for (auto [program, tensor] : tensors)
    for (const Program::Reader &reader : llvm::reverse(program->readers[tensor])) {
      const NodeInfo &node = nodes[program->nodes[reader.operation]];
      unsigned operand = getTensorOperands(node.ops.front())[reader.use];
      for (Attribute want : node.choices->wants[operand].distinct)
        if (auto layout = cast<ShardingAttr>(want); !layout.isPartial())
          layouts.insert(layout);
    }
  if (!spread.empty())
    for (ShardingAttr layout : std::vector<ShardingAttr>(layouts.begin(), layouts.end()))
      layouts.insert(spreadUnusedAxes(layout, mesh, spread, recipe.has_value()));
  return std::vector<ShardingAttr>(layouts.begin(), layouts.end());
}

void Model::narrowStored(ArrayRef<Value> values, std::vector<ShardingAttr> &layouts) const {
  if (!recipe || llvm::none_of(values, [&](Value value) { return recipe->isWeight(value); }))
    return;
  uint32_t wanted = 0, all = 0;
  for (Value value : values)
    for (unsigned axis : recipe->getStoredAxes(value))
      wanted |= 1u << axis;
  for (unsigned axis : recipe->getAxes())
    all |= 1u << axis;
  auto getStrays = [&](ShardingAttr layout) { return llvm::popcount((getUsedAxes(layout) & all) ^ wanted); };
  int least = std::numeric_limits<int>::max();
  for (ShardingAttr layout : layouts)
    least = std::min(least, getStrays(layout));
  llvm::erase_if(layouts, [&](ShardingAttr layout) { return getStrays(layout) != least; });
}

int Model::addTensorNode(NodeInfo info, RankedTensorType type, int64_t begin, int64_t finish, int64_t parts) {
  std::vector<search::Candidate> candidates(info.layouts.size());
  for (auto [candidate, layout] : llvm::zip_equal(candidates, info.layouts)) {
    // Layers have parameters of the same layouts.
    auto [known, isNew] = bytesOf.try_emplace({layout, type.getElementType()});
    if (isNew)
      known->second = {static_cast<int64_t>(getLocalBytes(layout, type.getElementType(), mesh)),
                       findLoop(layout, mesh).has_value()};
    auto [bytes, isInLoop] = known->second;
    if (begin < finish)
      candidate.memory.push_back({begin, finish, isInLoop ? bytes * parts : bytes});
  }
  return addNode(std::move(info), std::move(candidates));
}

/// What getDemands() depends on beside the axes to spread.
std::vector<const void *> Model::getReaders(ArrayRef<TensorOf> tensors, RankedTensorType type) const {
  std::vector<const void *> key{type.getAsOpaquePointer()};
  for (auto [program, tensor] : tensors)
    for (const Program::Reader &reader : llvm::reverse(program->readers[tensor])) {
      const NodeInfo &node = nodes[program->nodes[reader.operation]];
      unsigned operand = getTensorOperands(node.ops.front())[reader.use];
      key.push_back(node.choices->wants[operand].distinct.getAsOpaquePointer());
    }
  return key;
}

/// Leaves those of `layouts` that use as many of the axes of `stored` as any does, and none of `replicated`.
static void keepStored(std::vector<ShardingAttr> &layouts, ArrayRef<int64_t> stored,
                       ArrayRef<int64_t> replicated) {
  auto getMask = [](ArrayRef<int64_t> axes) {
    uint32_t mask = 0;
    for (int64_t axis : axes)
      mask |= 1u << axis;
    return mask;
  };
  auto getUse = [&](ShardingAttr layout) { return llvm::popcount(getUsedAxes(layout) & getMask(stored)); };
  llvm::erase_if(layouts, [&](ShardingAttr layout) { return getUsedAxes(layout) & getMask(replicated); });
  int most = 0;
  for (ShardingAttr layout : layouts)
    most = std::max(most, getUse(layout));
  llvm::erase_if(layouts, [&](ShardingAttr layout) { return getUse(layout) < most; });
}

LogicalResult Model::addParameters(const Pins &pins) {
  const SmallVector<unsigned> allAxes = getSpatialAxes();
  SmallVector<unsigned> spread;
  if (recipe)
    spread = recipe->getStoredAxes();
  else if (memoryLimit)
    spread = allAxes;
  struct Stored {
    std::vector<ShardingAttr> layouts;
    CandidateLayouts candidates;
  };
  std::map<std::vector<const void *>, Stored> storedOf;
  llvm::MapVector<int, SmallVector<TensorOf, 1>> byNumber;
  for (const Program &program : programs)
    for (auto [t, tensor] : llvm::enumerate(program.kind().tensors))
      if (tensor.kind == factors::Tensor::Parameter)
        byNumber[tensor.shared].push_back({&program, static_cast<int>(t)});
  for (auto &[number, tensors] : byNumber) {
    NodeInfo info;
    info.kind = NodeInfo::Kind::Parameter;
    SmallVector<Value> values;
    for (auto [program, tensor] : tensors) {
      auto op = cast<ParameterOp>(program->reading->operations[program->kind().tensors[tensor].id]);
      if (info.ops.empty())
        info.name = op.getName().str();
      else if (op.getType() != values.front().getType())
        return emitError(op.getLoc()) << "parameter '" << info.name << "' has type " << op.getType()
                                      << " here and " << values.front().getType() << " elsewhere";
      info.ops.push_back(op);
      values.push_back(op.getResult());
    }
    RankedTensorType type = getTensor(values.front());
    auto axesOver = info.ops.front()->getAttrOfType<DenseI64ArrayAttr>(kStoredOverAttrName),
         notOver = info.ops.front()->getAttrOfType<DenseI64ArrayAttr>(kReplicatedOverAttrName);
    // Parameters of layers that are alike lie in the same layouts, which pins may then narrow.
    std::vector<const void *> key = getReaders(tensors, type);
    key.insert(key.end(), {axesOver.getAsOpaquePointer(), notOver.getAsOpaquePointer()});
    auto [known, isNew] = storedOf.try_emplace(std::move(key));
    Stored &stored = known->second;
    const bool isPart = llvm::any_of(info.ops, getParameterPart);
    if (isNew || recipe || isPart) {
      stored = {getDemands(tensors, type, axesOver ? allAxes : spread), {}};
      keepLoop(stored.layouts, std::nullopt); // a parameter is the same in all turns
      for (Operation *op : info.ops)
        if (std::optional<ParameterPart> part = getParameterPart(op))
          llvm::erase_if(stored.layouts, [&](ShardingAttr layout) { return !isBox(layout, *part, mesh); });
      narrowStored(values, stored.layouts);
      if (axesOver || notOver)
        keepStored(stored.layouts, axesOver ? axesOver.asArrayRef() : ArrayRef<int64_t>(),
                   notOver ? notOver.asArrayRef() : ArrayRef<int64_t>());
      stored.candidates = makeCandidateLayouts(mesh.getContext(), stored.layouts);
    }
    info.layouts = stored.layouts;
    CandidateLayouts layouts = stored.candidates;
    if (!pins.empty()) {
      std::vector<std::string> names{info.name, getProgramName(info.name, {})};
      if (auto aliases = cast<ParameterOp>(info.ops.front()).getAliasesAttr())
        for (Attribute alias : aliases)
          names.push_back(cast<StringAttr>(alias).str());
      applyTensorPins(info.layouts, names, type, pins);
      layouts = makeCandidateLayouts(mesh.getContext(), info.layouts);
    }
    int node = addTensorNode(std::move(info), type, 0, end);
    for (auto [program, tensor] : tensors)
      programs[program - programs.data()].sources[tensor] = {node, layouts};
  }
  return success();
}

/// The model's name of an argument or result, or its place.
static std::string getBoundaryName(Attribute name, StringRef what, unsigned index) {
  if (auto text = dyn_cast_or_null<StringAttr>(name))
    return text.str();
  return (what + std::to_string(index)).str();
}

LogicalResult Model::addStates(const Pins &pins) {
  llvm::MapVector<StringAttr, SmallVector<std::pair<Program *, unsigned>, 2>> uses;
  for (Program &program : programs)
    for (unsigned i = 0; i < program.function.getNumArguments(); ++i)
      if (auto name = program.function.getArgAttrOfType<StringAttr>(i, kStateAttrName))
        uses[name].push_back({&program, i});
  llvm::DenseMap<std::pair<Program *, StringAttr>, SmallVector<unsigned, 1>> results;
  for (Program &program : programs)
    for (unsigned i = 0; i < program.function.getNumResults(); ++i)
      if (auto name = program.function.getResultAttrOfType<StringAttr>(i, kStateAttrName))
        results[{&program, name}].push_back(i);
  const SmallVector<unsigned> spread = getSpatialAxes();
  for (auto &[name, users] : uses) {
    NodeInfo info;
    info.kind = NodeInfo::Kind::State;
    info.name = name.str();
    SmallVector<TensorOf, 2> tensors;
    SmallVector<Value, 2> values;
    std::vector<std::string> names{info.name, getProgramName(info.name, {})};
    func::FuncOp first = users.front().first->function;
    const unsigned number = users.front().second;
    RankedTensorType type = getTensor(first.getArgument(number));
    for (auto [program, index] : users) {
      if (program->function.getArgument(index).getType() != type)
        return program->function.emitError() << "state '" << info.name << "' has type " << type << " and "
                                             << program->function.getArgument(index).getType();
      tensors.push_back({program, program->kind().inputs[index]});
      values.push_back(program->function.getArgument(index));
      info.arguments.push_back({program->function, index});
      for (unsigned result : results.lookup({program, name}))
        info.results.push_back({program->function, result});
    }
    info.layouts = getDemands(tensors, type, spread);
    if (recipe) {
      std::vector<ShardingAttr> stored = getDemands(tensors, type, recipe->getStoredAxes());
      info.layouts.insert(info.layouts.end(), stored.begin(), stored.end());
    }
    keepLoop(info.layouts, std::nullopt); // it is the same in all turns
    narrowStored(values, info.layouts);
    auto getAxes = [&](StringRef attribute) {
      auto axes = first.getArgAttrOfType<DenseI64ArrayAttr>(number, attribute);
      return axes ? axes.asArrayRef() : ArrayRef<int64_t>();
    };
    keepStored(info.layouts, getAxes(kStoredOverAttrName), getAxes(kReplicatedOverAttrName));
    if (auto known = first.getArgAttrOfType<DictionaryAttr>(number, kStateInfoAttrName))
      if (auto tied = known.getAs<ArrayAttr>("tied"))
        for (auto other : tied.getAsRange<StringAttr>())
          names.push_back(other.str());
    applyTensorPins(info.layouts, names, type, pins);
    CandidateLayouts layouts = makeCandidateLayouts(mesh.getContext(), info.layouts);
    stateNodes[name] = addTensorNode(std::move(info), type, 0, end);
    for (auto [program, tensor] : tensors)
      programs[program - programs.data()].sources[tensor] = {stateNodes[name], layouts};
  }
  return success();
}

LogicalResult Model::addArguments(Program &program, const Pins &pins) {
  func::FuncOp function = program.function;
  for (BlockArgument argument : function.getArguments()) {
    if (function.getArgAttr(argument.getArgNumber(), kStateAttrName))
      continue;
    const int tensor = program.kind().inputs[argument.getArgNumber()];
    NodeInfo info;
    info.kind = NodeInfo::Kind::Argument;
    info.function = function;
    info.index = argument.getArgNumber();
    info.name = getBoundaryName(function.getArgAttr(info.index, "colossal.name"), "argument", info.index);
    info.layouts = getDemands(TensorOf{&program, tensor}, getTensor(argument), {});
    // What becomes a state as it comes, from the stage that updates it, is best received as that lies.
    for (OpOperand &use : argument.getUses())
      if (auto name = isa<func::ReturnOp>(use.getOwner())
                          ? function.getResultAttrOfType<StringAttr>(use.getOperandNumber(), kStateAttrName)
                          : StringAttr())
        for (ShardingAttr layout : nodes[stateNodes.lookup(name)].layouts)
          if (!llvm::is_contained(info.layouts, layout))
            info.layouts.push_back(layout);
    if (recipe)
      if (auto asked = recipe->getLayouts(argument, builder.getRefinement(function)))
        info.layouts = std::move(*asked);
    RankedTensorType type = getTensor(argument);
    DictionaryAttr attributes = function.getArgAttrDict(info.index);
    if (failed(pinBoundary(info, type, attributes, pins, argument.getLoc())))
      return failure();
    CandidateLayouts layouts = makeCandidateLayouts(mesh.getContext(), info.layouts);
    auto [begin, finish] = getBoundaryLife(program, attributes, argument);
    program.sources[tensor] = {addTensorNode(std::move(info), type, begin, finish, countParts(attributes)),
                               layouts};
  }
  return success();
}

LogicalResult Model::addResults(Program &program, const Pins &pins) {
  func::FuncOp function = program.function;
  for (auto [i, value] : llvm::enumerate(function.front().getTerminator()->getOperands())) {
    const Source &source = program.sources[program.kind().outputs[i]];
    if (auto name = function.getResultAttrOfType<StringAttr>(i, kStateAttrName)) {
      const int node = stateNodes.lookup(name);
      if (source.node != node)
        transfers.push_back(makeTransfer(value, source, node,
                                         makeCandidateLayouts(mesh.getContext(), nodes[node].layouts),
                                         MovedValue::Stream));
      continue;
    }
    NodeInfo info;
    info.kind = NodeInfo::Kind::Result;
    info.function = function;
    info.index = i;
    info.name = getBoundaryName(function.getResultAttr(i, "colossal.name"), "result", i);
    RankedTensorType type = getTensor(value);
    // Whatever the producer offers, without its partial sums: the runtime takes outputs as they lie.
    llvm::SetVector<ShardingAttr> layouts;
    layouts.insert(ShardingAttr::getReplicated(mesh.getContext(), type.getShape()));
    for (Attribute have : source.layouts.distinct) {
      auto sharding = cast<ShardingAttr>(have);
      layouts.insert(sharding.withoutPartial());
      SmallVector<unsigned> partial(sharding.getPartialAxes());
      llvm::erase_if(partial,
                     [&](unsigned axis) { return static_cast<int64_t>(axis) == mesh.getLoopAxis(); });
      if (!partial.empty()) // or reduced and split at once
        layouts.insert(spreadUnusedAxes(sharding.withoutPartial(), mesh, partial));
    }
    info.layouts.assign(layouts.begin(), layouts.end());
    DictionaryAttr attributes = function.getResultAttrDict(i);
    if (failed(pinBoundary(info, type, attributes, pins, value.getLoc())))
      return failure();
    CandidateLayouts want = makeCandidateLayouts(mesh.getContext(), info.layouts);
    auto [begin, finish] = getBoundaryLife(program, attributes, value);
    int node = addTensorNode(std::move(info), type, begin, finish, countParts(attributes));
    transfers.push_back(makeTransfer(value, source, node, want, MovedValue::Stream));
  }
  return success();
}
