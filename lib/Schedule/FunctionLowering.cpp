//===- FunctionLowering.cpp - a function of local tensors to instructions ---===//
//
// Walks fusion groups in order and hands each to the lowering of its kind.
//
//===----------------------------------------------------------------------===//
#include "Chunks.h"
#include "Collectives.h"
#include "FunctionState.h"
#include "Groups.h"
#include "Messages.h"
#include "Prepare.h"
#include "TurnSums.h"

#include "dialects/Dist/LayoutMarks.h"
#include "dialects/Dist/Loop.h"
#include "dialects/Dist/Stages.h"
#include "dialects/Dist/State.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

LogicalResult LoweringContext::lowerOps(ArrayRef<Operation *> ops, bool fuse) {
  if (ops.size() == 1 && isMovement(ops[0]) && !isa<dist::LoopSliceOp>(ops[0])) {
    FusionGroup group;
    group.ops.push_back(ops[0]);
    group.outputs.push_back(ops[0]->getResult(0));
    return lowerLoops(group);
  }
  // A sum over turns with which another goes on lies where that one adds to it.
  Grouping grouping(ops, target(), fuse, [&](Operation *op) {
    return state.accumulations.contains(op) &&
           llvm::any_of(op->getUsers(), [&](Operation *user) { return state.accumulations.contains(user); });
  });
  for (FusionGroup *group : grouping.order()) {
    if (failed(lowerGroup(*group)))
      return failure();
    state.done.insert(group->ops.begin(), group->ops.end());
    if (failed(storeMade(*group)))
      return failure();
  }
  return success();
}

LogicalResult LoweringContext::lowerGroup(FusionGroup &group) {
  if (group.outputs.empty())
    return success();
  const size_t before = instructions().size();
  // Every op has element code: what has no lowering of its own is computed by loops.
  const Lowering *lowering = state.shared.lowerings.find(kindOf(group));
  if (failed(lowering ? (*lowering)(*this, group) : lowerSeparately(group)) ||
      failed(settleAccumulations(group)))
    return failure();
  // What was fused keeps its names: messages and traces speak of all of it.
  for (Instruction &instruction : llvm::MutableArrayRef(instructions()).drop_front(before)) {
    if (instruction.located)
      continue;
    SmallVector<Location> parts{instruction.loc};
    for (Operation *op : group.ops)
      if (!llvm::is_contained(parts, op->getLoc()))
        parts.push_back(op->getLoc());
    instruction.loc = FusedLoc::get(mlirContext(), parts);
    instruction.located = true;
  }
  return success();
}

LogicalResult LoweringContext::lowerSeparately(FusionGroup &group) {
  if (group.ops.size() == 1)
    return lowerLoops(group);
  FusionGroup first, rest;
  first.routine = group.routine;
  first.ops.push_back(group.routine);
  llvm::append_range(first.outputs, group.routine->getResults());
  llvm::copy_if(group.ops, std::back_inserter(rest.ops), [&](Operation *op) { return op != group.routine; });
  rest.outputs = group.outputs;
  return success(succeeded(lowerGroup(first)) && succeeded(lowerLoops(rest)));
}

/// The parts of a tensor [outer, count, inner] one behind the other, as a view of it.
static View behindEachOther(unsigned storage, const Parts &parts) {
  return {storage, 0, {parts.inner, parts.outer * parts.inner, 1}};
}

static LogicalResult lowerCollectiveGroup(LoweringContext &context, FusionGroup &group) {
  Operation *op = group.routine;
  auto source = context.viewOf(op->getOperand(0));
  if (failed(source))
    return failure();
  RankedTensorType from = tensorOf(op->getOperand(0)), to = tensorOf(op->getResult(0));
  const std::optional<View> place = context.findStatePlace(op->getResult(0));
  // What is read in that order anyway stays in it.
  const bool isFree =
      !place && keepsOrder(op) &&
      llvm::none_of(op->getResult(0).getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); });
  std::optional<SmallVector<unsigned>> order = isFree ? denseOrder(*source, from.getShape()) : std::nullopt;
  if (!order) {
    source = context.denseViewOf(op->getOperand(0));
    if (failed(source))
      return failure();
    order = llvm::to_vector(llvm::seq<unsigned>(0, from.getRank()));
  }
  // A sum may be written over what this rank has given to it, where nobody reads that any more.
  const bool takes = isa<shard::AllReduceOp>(op) && source->turn == 0 &&
                     context.mayTake(op->getOperand(0), *source, op->getResult(0), group.ops);
  View result = place ? *place : takes ? *source : context.allocate(op->getResult(0));
  result.strides = stridesInOrder(to.getShape(), *order);
  context.setView(op->getResult(0), result);
  auto [sent, received] = partsOf(op, *order);
  // Where only runs can be moved, parts are put one behind the other before, and into their places after.
  const bool byPart = context.target().collectiveBlocks() == codegen::CollectiveBlocks::Contiguous &&
                      !(sent.areRuns() && received.areRuns());
  Access reads = context.accessOf(*source, from, false), writes = context.accessOf(result, to, true);
  auto asParts = [](const View &dense, const Parts &parts) {
    return View{dense.storage, dense.offset, {parts.count * parts.inner, parts.inner, 1}, dense.turn};
  };
  auto partsType = [](RankedTensorType type, const Parts &parts) {
    return type.clone({parts.outer, parts.count, parts.inner});
  };
  if (byPart && !sent.areRuns()) {
    reads.storage = context.newStorage(byteSize(from));
    reads.offset = reads.turn = 0;
    if (failed(context.copy(asParts(*source, sent), partsType(from, sent),
                            behindEachOther(reads.storage, sent), op->getLoc())))
      return failure();
  }
  if (byPart && !received.areRuns()) {
    writes.storage = context.newStorage(byteSize(to));
    writes.offset = writes.turn = 0;
  }
  context.append({{reads, writes},
                  true,
                  op->getLoc(),
                  [op, byPart, order = *order](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers,
                                               IRMapping &mapping) -> Operation * {
                    if (failed(lowerCollective(b, op, buffers[0], buffers[1], order, byPart,
                                               [&](Value v) { return mapping.lookupOrNull(v); })))
                      return nullptr;
                    return &*std::prev(b.getInsertionPoint());
                  },
                  SmallVector<Value>(op->getOperands().drop_front())});
  if (byPart && !received.areRuns())
    return context.copy(behindEachOther(writes.storage, received), partsType(to, received),
                        asParts(result, received), op->getLoc());
  return success();
}

void schedule::registerCommonLowerings(LoweringTable &table) {
  table.set(GroupKind::Loops,
            [](LoweringContext &context, FusionGroup &group) { return context.lowerLoops(group); });
  table.set(GroupKind::Tiles, lowerTiles);
  table.set(GroupKind::Padding,
            [](LoweringContext &context, FusionGroup &group) { return context.lowerPadding(group.routine); });
  table.set(GroupKind::Collective, lowerCollectiveGroup);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

namespace colossal::schedule {
class FunctionLowering {
public:
  FunctionLowering(func::FuncOp function, Shared &shared) : state(function, shared) {}
  FailureOr<Program> run();

private:
  /// When an op runs: once before the loop over microbatches, in each of its turns, or once behind it.
  enum class Phase { Before, Turn, Behind };

  void prepareOps();
  /// Whether an argument comes from another stage when all turns have ended.
  bool isReceivedBehind(BlockArgument argument) const;
  LogicalResult findTurnOps();
  void delayForSums();
  void mergeBeforeTurns();
  void findSliceStarts();
  /// Which ops make the new values of states.
  void findStateResults();
  /// Makes additions of what turns add up, each to an argument of its own, of zeros before the loop.
  LogicalResult bindAccumulations();
  Binding bind(DictionaryAttr attributes, Value value, unsigned storage, int64_t bytes, StringRef otherwise);
  /// Inputs lie whole. Of those whose parts are runs, turns read their own where it is.
  LogicalResult bindInputs();
  /// What a chunk receives: that of which each turn receives a part, or what all share.
  LogicalResult receive(int64_t chunk, bool ofTurns);
  /// The other inputs' parts of a turn, made dense for a chunk that reads them.
  LogicalResult gatherTurnInputs(int64_t chunk);
  Phase phaseOf(Operation *op) const {
    return state.turnOps.contains(op)     ? Phase::Turn
           : state.opsBehind.contains(op) ? Phase::Behind
                                          : Phase::Before;
  }
  /// What `chunk` computes in a phase, with what it receives before and sends after.
  LogicalResult lowerChunk(int64_t chunk, Phase phase);
  /// Those of a chunk of which each turn makes a part, or the others; what other stages need is sent.
  LogicalResult bindOutputs(int64_t chunk, bool ofTurns);
  /// `storage`, which holds all turns' parts, as a turn sees its own: runs of elements.
  static View viewRuns(unsigned storage, const TurnParts &parts, int64_t turns) {
    return View{storage, 0, {parts.length * turns, 1}, parts.length};
  }

  /// Whether anything is done when all turns have ended.
  bool hasBehind() const { return !state.accumulations.empty() || (pipeline && state.program.turns > 1); }

  FunctionState state;
  int64_t chunks = 1;                     ///< of the stage, if it is one
  std::optional<dist::Pipeline> pipeline; ///< that the function goes through
  ChunkOfOp chunkOf;
  llvm::DenseMap<Value, unsigned> scattered;   ///< storages of inputs whose turns' parts are no runs
  llvm::DenseSet<unsigned> bound;              ///< storages of outputs
  std::vector<std::optional<Binding>> outputs; ///< by result; none where it is sent, or a state
  SmallVector<std::pair<Value, StringAttr>> newStates;
};
} // namespace colossal::schedule

void FunctionLowering::prepareOps() {
  state.shared.target.prepare(state.function);
  prepare(state.function);
  Block &body = state.function.getBody().front();
  // Ops that nobody reads would only cost time.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (op.use_empty() && isPure(&op) && op.getNumResults())
      op.erase();
}

void FunctionLowering::findSliceStarts() {
  for (Operation &op : llvm::make_early_inc_range(state.function.getBody().front())) {
    OpBuilder b(&op);
    if (Value start = buildSliceStart(b, &op))
      state.sliceStarts[&op] = start;
  }
}

void FunctionLowering::findStateResults() {
  for (OpOperand &result : state.function.front().getTerminator()->getOpOperands()) {
    auto name =
        state.function.getResultAttrOfType<StringAttr>(result.getOperandNumber(), dist::kStateAttrName);
    Operation *maker = name ? result.get().getDefiningOp() : nullptr;
    while (maker && isMovement(maker))
      maker = maker->getOperand(0).getDefiningOp();
    if (maker)
      state.statesOf[maker].push_back({result.get(), name});
  }
}

/// What turns make, added up: an all-reduce over the loop's axis.
static bool isAccumulation(Operation *op, int64_t loopAxis) {
  auto reduce = dyn_cast<shard::AllReduceOp>(op);
  return reduce && reduce.getGridAxes().size() == 1 && reduce.getGridAxes().front() == loopAxis;
}

bool FunctionLowering::isReceivedBehind(BlockArgument argument) const {
  func::FuncOp function = state.function;
  return pipeline && argument.getArgNumber() < function.getNumArguments() &&
         function.getArgAttr(argument.getArgNumber(), dist::kMessagesAttrName) &&
         pipeline->isClosing(dist::getChunk(function.getArgAttrDict(argument.getArgNumber())));
}

/// Index values that are made of the loop's counter make what they enter differ from turn to turn, too.
LogicalResult FunctionLowering::findTurnOps() {
  if (!state.mesh || state.mesh.getLoopAxis() < 0)
    return success();
  state.program.turns = state.mesh.getNumTurns();
  state.program.loopAxis = state.mesh.getLoopAxis();
  for (BlockArgument argument : state.function.getArguments()) {
    auto sharding =
        state.function.getArgAttrOfType<dist::ShardingAttr>(argument.getArgNumber(), dist::kShardingAttrName);
    if (findTurnParts(tensorOf(argument), sharding, state.mesh))
      state.turnArguments.insert(argument);
  }
  for (Operation &op : state.function.getBody().front()) {
    auto coordinate = dyn_cast<dist::CoordinateOp>(op);
    if (isa<dist::LoopSliceOp>(op) || op.hasAttr(dist::kEachTurnAttrName) ||
        (coordinate && static_cast<int64_t>(coordinate.getAxis()) == state.program.loopAxis) ||
        llvm::any_of(op.getOperands(), [&](Value operand) { return state.isOfTurn(operand); }))
      state.turnOps.insert(&op);
    if (isAccumulation(&op, state.program.loopAxis))
      state.accumulations[&op] = {};
    const bool isBehind = llvm::any_of(op.getOperands(), [&](Value operand) {
      Operation *def = operand.getDefiningOp();
      return def ? state.opsBehind.contains(def) || state.accumulations.contains(def)
                 : isReceivedBehind(cast<BlockArgument>(operand));
    });
    if (isBehind)
      state.opsBehind.insert(&op);
    if (isBehind && state.turnOps.contains(&op) && !op.hasTrait<OpTrait::IsTerminator>())
      return op.emitOpError("is a part of each turn of the loop, and needs what all of them add up");
  }
  delayForSums();
  return success();
}

/// What is the same in all turns is there through all of them: twice, where a backward pass makes it again.
void FunctionLowering::mergeBeforeTurns() {
  llvm::DenseMap<size_t, SmallVector<Operation *, 1>> known; // by hash
  for (Operation &op : llvm::make_early_inc_range(state.function.getBody().front().without_terminator())) {
    if (phaseOf(&op) != Phase::Before || !isPure(&op) || op.getNumRegions() > 0 ||
        !llvm::all_of(op.getResultTypes(), llvm::IsaPred<RankedTensorType>))
      continue;
    SmallVector<Operation *, 1> &alike = known[OperationEquivalence::computeHash(
        &op, OperationEquivalence::directHashValue, OperationEquivalence::ignoreHashValue,
        OperationEquivalence::IgnoreLocations)];
    auto same = llvm::find_if(alike, [&](Operation *other) {
      return OperationEquivalence::isEquivalentTo(&op, other, OperationEquivalence::exactValueMatch, nullptr,
                                                  OperationEquivalence::IgnoreLocations);
    });
    if (same == alike.end()) {
      alike.push_back(&op);
      continue;
    }
    op.replaceAllUsesWith(*same);
    op.erase();
  }
}

/// What only ops behind the loop read is made there: before it, it would lie in memory through all turns.
void FunctionLowering::delayForSums() {
  for (Operation &op : llvm::reverse(state.function.getBody().front().without_terminator()))
    if (!op.use_empty() && isPure(&op) &&
        llvm::all_of(op.getResultTypes(), llvm::IsaPred<RankedTensorType>) && !state.turnOps.contains(&op) &&
        !state.accumulations.contains(&op) &&
        llvm::all_of(op.getUsers(), [&](Operation *user) { return state.opsBehind.contains(user); }))
      state.opsBehind.insert(&op);
}

LogicalResult FunctionLowering::bindAccumulations() {
  Block &body = state.function.front();
  SmallVector<Operation *> sums;
  for (Operation &op : body)
    if (state.accumulations.contains(&op))
      sums.push_back(&op);
  llvm::DenseMap<Operation *, Operation *> goesOn, behind, made; // `made`: by what it is made of
  if (chunks == 1 && !pipeline) {
    goesOn = chainSums(state, sums);
    behind = delaySums(sums);
  }
  for (Operation *op : sums) {
    RankedTensorType type = tensorOf(op->getResult(0));
    Operation *first = made.lookup(goesOn.lookup(op)); // whose sum this one goes on with
    BlockArgument old = first ? state.accumulations.lookup(first) : body.addArgument(type, op->getLoc());
    // Where the part of a turn is made: the groups' order follows the ops', and until it is added up, all
    // that it is made of is kept.
    OpBuilder b(op);
    Operation *before = behind.lookup(op);
    if (!before)
      before = op->getOperand(0).getDefiningOp();
    if (first && before && before->isBeforeInBlock(first))
      before = first;
    if (before && before != op)
      b.setInsertionPointAfter(before);
    Operation *sum = ElementwiseOp::create(
        b, op->getLoc(), type, ElementwiseKind::Add,
        ValueRange{op->getOperand(0), first ? first->getResult(0) : Value(old)}, DenseF64ArrayAttr());
    op->getResult(0).replaceAllUsesWith(sum->getResult(0));
    state.accumulations.erase(op);
    state.turnOps.erase(op);
    op->erase();
    state.accumulations[sum] = old;
    state.turnOps.insert(sum);
    made[op] = sum;
    if (chunks == 1 && !pipeline)
      addApart(state, sum);
    // Several passes are in different turns at a time: a sum goes on within one of them.
    addProductsApart(state, sum, /*ofOneNode=*/chunks > 1 || pipeline);
    if (first)
      continue;
    View place{state.run.newStorage(byteSize(type)), 0, denseStrides(type.getShape())};
    state.run.setView(old, place);
    auto flat = RankedTensorType::get({type.getNumElements()}, type.getElementType());
    if (failed(state.run.fillZero(View{place.storage, 0, {1}}, flat, sum->getLoc())))
      return failure();
  }
  return success();
}

Binding FunctionLowering::bind(DictionaryAttr attributes, Value value, unsigned storage, int64_t bytes,
                               StringRef otherwise) {
  auto attribute = [&](auto kind, StringRef name) {
    using Kind = decltype(kind);
    return attributes ? attributes.getAs<Kind>(name) : Kind();
  };
  RankedTensorType type = tensorOf(value);
  auto where = attribute(dist::ShardingAttr(), "dist.sharding");
  if (!where)
    where = dist::ShardingAttr::getReplicated(type.getContext(), type.getShape());
  auto name = attribute(StringAttr(), "colossal.name");
  return Binding{name ? name.str() : otherwise.str(),
                 RankedTensorType::get(where.getGlobalShape(), type.getElementType()),
                 where,
                 storage,
                 bytes,
                 attribute(DenseI64ArrayAttr(), "colossal.range"),
                 attribute(StringAttr(), "colossal.range_user"),
                 attribute(IntegerAttr(), dist::kPlaceAttrName)};
}

LogicalResult FunctionLowering::bindInputs() {
  for (BlockArgument argument : state.function.getArguments()) {
    unsigned number = argument.getArgNumber();
    if (state.function.getArgAttr(number, dist::kStateAttrName)) {
      if (failed(state.run.bindState(argument)))
        return failure();
      continue;
    }
    if (state.function.getArgAttr(number, dist::kMessagesAttrName))
      continue;
    RankedTensorType type = tensorOf(argument);
    auto parts = findTurnParts(
        type, state.function.getArgAttrOfType<dist::ShardingAttr>(number, dist::kShardingAttrName),
        state.mesh);
    const int64_t bytes = byteSize(type) * (parts ? state.program.turns : 1);
    View view{state.run.newStorage(Life::IO, bytes), 0, denseStrides(type.getShape())};
    view.turn = parts ? parts->length : 0;
    if (!parts || parts->runs == 1)
      state.run.setView(argument, view);
    else
      scattered[argument] = view.storage;
    state.program.inputs.push_back(bind(state.function.getArgAttrDict(number), argument, view.storage, bytes,
                                        "input" + std::to_string(number)));
  }
  return success();
}

/// Of the first message of a value, where that is given.
static int64_t getMessageOrder(DictionaryAttr attributes) {
  auto messages = attributes ? attributes.getAs<ArrayAttr>(dist::kMessagesAttrName) : ArrayAttr();
  return messages && !messages.empty() ? dist::toMessages(messages).front().order : -1;
}

LogicalResult FunctionLowering::receive(int64_t chunk, bool ofTurns) {
  const int64_t firstRank = dist::getFirstRank(state.shared.module);
  // The block has more arguments than the function where turns add up.
  SmallVector<BlockArgument> arguments(
      state.function.getArguments().take_front(state.function.getNumArguments()));
  llvm::stable_sort(arguments, [&](BlockArgument a, BlockArgument b) {
    return getMessageOrder(state.function.getArgAttrDict(a.getArgNumber())) <
           getMessageOrder(state.function.getArgAttrDict(b.getArgNumber()));
  });
  for (BlockArgument argument : arguments) {
    const unsigned number = argument.getArgNumber();
    auto messages = state.function.getArgAttrOfType<ArrayAttr>(number, dist::kMessagesAttrName);
    if (!messages || dist::getChunk(state.function.getArgAttrDict(number)) != chunk ||
        state.turnArguments.contains(argument) != ofTurns)
      continue;
    if (failed(lowerReceives(state.run, argument, messages, dist::getRankMesh(state.mesh))))
      return failure();
    for (const dist::Message &message : dist::toMessages(messages))
      if (llvm::any_of(message.peers, [&](int64_t peer) { return peer >= firstRank; }))
        state.program.chunkWaits[chunk] = true;
  }
  return success();
}

LogicalResult FunctionLowering::gatherTurnInputs(int64_t chunk) {
  for (BlockArgument argument : state.function.getArguments()) {
    if (!scattered.contains(argument) || argument.use_empty())
      continue;
    // What another chunk made of it is gone by now.
    if (llvm::none_of(argument.getUsers(), [&](Operation *user) { return chunkOf.lookup(user) == chunk; }))
      continue;
    RankedTensorType type = tensorOf(argument);
    unsigned number = argument.getArgNumber();
    TurnParts parts = *findTurnParts(
        type, state.function.getArgAttrOfType<dist::ShardingAttr>(number, dist::kShardingAttrName),
        state.mesh);
    View dense{state.run.newStorage(byteSize(type)), 0, denseStrides(type.getShape())};
    if (failed(state.run.copy(viewRuns(scattered[argument], parts, state.program.turns),
                              type.clone({parts.runs, parts.length}),
                              View{dense.storage, 0, {parts.length, 1}}, argument.getLoc())))
      return failure();
    state.run.setView(argument, dense);
  }
  return success();
}

LogicalResult FunctionLowering::bindOutputs(int64_t chunk, bool ofTurns) {
  Program &program = state.program;
  auto results = state.function.getBody().front().getTerminator()->getOperands();
  outputs.resize(results.size());
  for (auto [i, value] : llvm::enumerate(results)) {
    RankedTensorType type = tensorOf(value);
    auto parts = findTurnParts(
        type, state.function.getResultAttrOfType<dist::ShardingAttr>(i, dist::kShardingAttrName), state.mesh);
    if (parts.has_value() != ofTurns || dist::getChunk(state.function.getResultAttrDict(i)) != chunk)
      continue;
    if (auto name = state.function.getResultAttrOfType<StringAttr>(i, dist::kStateAttrName)) {
      newStates.push_back({value, name});
      continue;
    }
    if (auto messages = state.function.getResultAttrOfType<ArrayAttr>(i, dist::kMessagesAttrName)) {
      if (failed(lowerSends(state.run, value, messages, dist::getRankMesh(state.mesh))))
        return failure();
      continue;
    }
    auto view = type.getNumElements() == 0 && !isa<BlockArgument>(value)
                    ? FailureOr<View>(state.run.allocate(value))
                    : state.run.viewOf(value);
    if (failed(view))
      return failure();
    const int64_t bytes = byteSize(type) * (parts ? program.turns : 1);
    bool own = view->storage < kWeightBase && program.storages[view->storage].life == Life::IO &&
               view->offset == 0 && isDense(*view, type.getShape()) &&
               view->turn == (parts && parts->runs == 1 ? parts->length : 0) &&
               program.storages[view->storage].bytes == bytes &&
               llvm::none_of(program.inputs, [&](Binding &input) { return input.storage == view->storage; });
    unsigned storage = view->storage;
    if (!own || !bound.insert(storage).second) {
      View to{state.run.newStorage(Life::IO, bytes), 0, denseStrides(type.getShape())};
      storage = to.storage;
      to.turn = parts ? parts->length : 0;
      if (parts && parts->runs > 1) {
        // Seen as runs, which a dense tensor is.
        view = state.run.denseViewOf(value);
        if (failed(view))
          return failure();
        type = type.clone({parts->runs, parts->length});
        view->strides = {parts->length, 1};
        to = viewRuns(storage, *parts, program.turns);
      }
      if (type.getNumElements() && failed(state.run.copy(*view, type, to, value.getLoc())))
        return failure();
    }
    outputs[i] =
        bind(state.function.getResultAttrDict(i), value, storage, bytes, "output" + std::to_string(i));
  }
  return success();
}

LogicalResult FunctionLowering::lowerChunk(int64_t chunk, Phase phase) {
  const bool ofTurns = phase == Phase::Turn;
  SmallVector<Operation *> ops;
  for (Operation &op : state.function.getBody().front())
    if (op.getNumResults() && isa<RankedTensorType>(op.getResult(0).getType()) && phaseOf(&op) == phase &&
        chunkOf.lookup(&op) == chunk && !state.run.isLoadable(op.getResult(0)))
      ops.push_back(&op);
  std::vector<Instruction> &made = state.run.instructions();
  const size_t before = made.size();
  const bool isLate = pipeline && pipeline->isClosing(chunk) && hasBehind();
  const bool receives = ofTurns || (phase == Phase::Behind) == isLate;
  if ((ofTurns && failed(gatherTurnInputs(chunk))) || (receives && failed(receive(chunk, ofTurns))) ||
      failed(state.run.lowerOps(ops, true)))
    return failure();
  // What is made once may need what turns add up: it is handed on behind the loop, then.
  const bool last = ofTurns || (phase == Phase::Behind) == (pipeline ? isLate : hasBehind());
  if (last && failed(bindOutputs(chunk, ofTurns)))
    return failure();
  for (Instruction &instruction : llvm::MutableArrayRef(made).drop_front(before))
    instruction.chunk = chunk;
  return success();
}

FailureOr<Program> FunctionLowering::run() {
  prepareOps();
  if (dist::getStage(state.shared.module)) {
    SmallVector<ModuleOp> stages = dist::getStages(state.shared.module->getParentOfType<ModuleOp>());
    pipeline = dist::getPipeline(state.function);
    chunks = pipeline ? pipeline->countChunks() : dist::countChunks(stages);
    state.program.stages = static_cast<int64_t>(stages.size());
    state.program.chunkWaits.assign(chunks, false);
  }
  if (failed(findTurnOps()))
    return failure();
  if (state.program.turns > 1)
    mergeBeforeTurns();
  if (chunks > 1 && !pipeline) {
    separateChunks(state.function, chunks, state.turnOps);
    chunkOf = findChunks(state.function, chunks);
  }
  findSliceStarts();
  if (failed(findTurnOps()) || failed(bindInputs()) || failed(bindAccumulations()))
    return failure();
  findStateResults();
  if (pipeline) {
    chunkOf = findPassChunks(state.function, *pipeline, state.turnOps, state.opsBehind);
    if (failed(checkPassChunks(state.function, *pipeline, state.turnOps, chunkOf)))
      return failure();
  }
  auto lowerChunks = [&](Phase phase) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      if (failed(lowerChunk(chunk, phase)))
        return failure();
    return success();
  };
  if (failed(lowerChunks(Phase::Before)))
    return failure();
  state.isInLoop = state.program.turns > 1;
  const size_t before = state.program.instructions.size();
  if (state.isInLoop && failed(lowerChunks(Phase::Turn)))
    return failure();
  // What turns share may be made of anything before.
  for (Instruction &hoisted : llvm::MutableArrayRef(state.program.instructions).drop_front(before))
    hoisted.chunk = chunks - 1;
  state.isInLoop = false;
  state.isBehind = hasBehind();
  if (state.isBehind && failed(lowerChunks(Phase::Behind)))
    return failure();
  // Those whose old values were still read when they were made.
  const size_t beforeStores = state.run.instructions().size();
  for (auto [value, name] : newStates)
    if (failed(state.run.storeState(value, name)))
      return failure();
  for (Instruction &store : llvm::MutableArrayRef(state.run.instructions()).drop_front(beforeStores))
    store.chunk = chunks - 1;
  for (std::optional<Binding> &output : outputs)
    if (output)
      state.program.outputs.push_back(std::move(*output));
  if (auto passes = state.function->getAttrOfType<DenseI64ArrayAttr>(dist::kPassesAttrName))
    state.program.passes.assign(passes.asArrayRef().begin(), passes.asArrayRef().end());
  return std::move(state.program);
}

FailureOr<Program> schedule::lowerFunction(func::FuncOp function, Shared &shared) {
  return FunctionLowering(function, shared).run();
}
