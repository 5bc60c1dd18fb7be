//===- Chunks.cpp - the chunks of a stage's function ------------------------===//
//
// A chunk is what its results, those that are sent and the program's own, are made of. What another chunk of
// the stage makes comes to it as any other value does: it is received.
//
//===----------------------------------------------------------------------===//
#include "Chunks.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/Precision.h"
#include "dialects/Dist/Stages.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

/// The ops that those results need which `isAsked` names by their attributes.
static llvm::DenseSet<Operation *> findNeeded(func::FuncOp function,
                                              llvm::function_ref<bool(DictionaryAttr)> isAsked) {
  llvm::DenseSet<Operation *> needed;
  SmallVector<Operation *> open;
  auto need = [&](Value value) {
    if (Operation *op = value.getDefiningOp(); op && needed.insert(op).second)
      open.push_back(op);
  };
  for (auto [i, value] : llvm::enumerate(function.front().getTerminator()->getOperands()))
    if (isAsked(function.getResultAttrDict(i)))
      need(value);
  while (!open.empty())
    llvm::for_each(open.pop_back_val()->getOperands(), need);
  return needed;
}

/// The ops that the results of a chunk need.
static llvm::DenseSet<Operation *> findNeeded(func::FuncOp function, int64_t chunk) {
  return findNeeded(function, [&](DictionaryAttr result) { return dist::getChunk(result) == chunk; });
}

ChunkOfOp schedule::findChunks(func::FuncOp function, int64_t chunks) {
  ChunkOfOp chunkOf;
  for (int64_t chunk = 1; chunk < chunks; ++chunk)
    for (Operation *op : findNeeded(function, chunk))
      chunkOf.try_emplace(op, chunk);
  if (chunks > 1)
    for (Operation *op : findNeeded(function, 0))
      chunkOf[op] = 0;
  return chunkOf;
}

void schedule::separateChunks(func::FuncOp function, int64_t chunks, const llvm::DenseSet<Operation *> &ops) {
  llvm::DenseSet<Operation *> taken;
  Operation *terminator = function.front().getTerminator();
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    llvm::DenseSet<Operation *> needed = findNeeded(function, chunk);
    IRMapping mapping;
    SmallVector<Operation *> own;
    for (Operation &op : llvm::make_early_inc_range(function.front().without_terminator())) {
      if (!needed.contains(&op))
        continue;
      if (!ops.contains(&op) || taken.insert(&op).second) {
        own.push_back(&op);
        continue;
      }
      OpBuilder b(&op);
      b.setInsertionPointAfter(&op);
      b.clone(op, mapping);
    }
    for (Operation *op : own)
      if (ops.contains(op))
        for (OpOperand &operand : op->getOpOperands())
          operand.set(mapping.lookupOrDefault(operand.get()));
    for (OpOperand &operand : terminator->getOpOperands())
      if (dist::getChunk(function.getResultAttrDict(operand.getOperandNumber())) == chunk)
        operand.set(mapping.lookupOrDefault(operand.get()));
  }
}

/// Of the ops of turns that only sums over the microbatches need, those that belong to the gradients of
/// weights: no product of another op is made of them.
static llvm::DenseSet<Operation *> findWeightGradients(func::FuncOp function,
                                                       const llvm::DenseSet<Operation *> &turnOps,
                                                       const ChunkOfOp &chunkOf) {
  auto isHeavy = [](Operation *op) {
    auto ruled = dyn_cast<dist::ShardingRuleOpInterface>(op);
    return ruled && ruled.isHeavy();
  };
  llvm::DenseSet<Operation *> found;
  for (Operation &op : llvm::reverse(function.front()))
    if (turnOps.contains(&op) && !chunkOf.contains(&op) && llvm::all_of(op.getUsers(), [&](Operation *user) {
          return !turnOps.contains(user) || (found.contains(user) && !isHeavy(user));
        }))
      found.insert(&op);
  return found;
}

/// Of a pass with the gradients of weights, the backward pass that it belongs to; others may run between the
/// two. All other passes are their own.
static int64_t getPass(const dist::Pipeline &pipeline, int64_t chunk) {
  const bool isOfWeights =
      pipeline.splits && 2 * pipeline.chunks <= chunk && chunk < pipeline.countTurnChunks();
  return isOfWeights ? chunk - pipeline.chunks : chunk;
}

/// The chunk that makes `operand`, or to which it is given; the first one for what is no part of a turn.
static int64_t getMaker(func::FuncOp function, Value operand, const ChunkOfOp &chunkOf) {
  auto argument = dyn_cast<BlockArgument>(operand);
  if (!argument)
    return chunkOf.lookup(operand.getDefiningOp());
  // Others are what turns add up.
  const bool isGiven = argument.getArgNumber() < function.getNumArguments();
  return isGiven ? dist::getChunk(function.getArgAttrDict(argument.getArgNumber())) : 0;
}

LogicalResult schedule::checkPassChunks(func::FuncOp function, const dist::Pipeline &pipeline,
                                        const llvm::DenseSet<Operation *> &turnOps,
                                        const ChunkOfOp &chunkOf) {
  for (Operation &op : function.front().without_terminator()) {
    if (!turnOps.contains(&op))
      continue;
    const int64_t reader = chunkOf.lookup(&op);
    for (Value operand : op.getOperands()) {
      auto argument = dyn_cast<BlockArgument>(operand);
      const bool isReceived = argument && argument.getArgNumber() < function.getNumArguments() &&
                              function.getArgAttr(argument.getArgNumber(), dist::kMessagesAttrName);
      if (argument ? !isReceived : !turnOps.contains(operand.getDefiningOp()))
        continue;
      const int64_t maker = getMaker(function, operand, chunkOf);
      if (maker > reader || (getPass(pipeline, maker) == maker && maker > getPass(pipeline, reader)))
        return op.emitOpError("stands in pass ")
               << reader << " of its stage and reads what pass " << maker << " makes";
    }
  }
  return success();
}

ChunkOfOp schedule::findPassChunks(func::FuncOp function, const dist::Pipeline &pipeline,
                                   const llvm::DenseSet<Operation *> &turnOps,
                                   const llvm::DenseSet<Operation *> &opsBehind) {
  ChunkOfOp chunkOf;
  const int64_t passes = pipeline.countTurnChunks();
  for (int64_t chunk = 0; chunk < passes; ++chunk) {
    llvm::DenseSet<Operation *> needed = findNeeded(function, [&](DictionaryAttr result) {
      auto ofTurn = result ? result.getAs<IntegerAttr>(dist::kTurnChunkAttrName) : IntegerAttr();
      return (ofTurn ? ofTurn.getInt() : dist::getChunk(result)) == chunk;
    });
    for (Operation *op : needed)
      if (!opsBehind.contains(op))
        chunkOf.try_emplace(op, chunk);
  }
  llvm::DenseSet<Operation *> ofWeights;
  if (pipeline.splits)
    ofWeights = findWeightGradients(function, turnOps, chunkOf);
  SmallVector<Operation *> free; // what no chunk's results need
  for (Operation &op : function.front().without_terminator()) {
    if (!turnOps.contains(&op) || chunkOf.contains(&op))
      continue;
    int64_t chunk = 0;
    for (Value operand : op.getOperands())
      chunk = std::max(chunk, getPass(pipeline, getMaker(function, operand, chunkOf)));
    const bool isBackward = pipeline.chunks <= chunk && chunk < 2 * pipeline.chunks;
    chunkOf[&op] = chunk + (isBackward && ofWeights.contains(&op) ? pipeline.chunks : 0);
    free.push_back(&op);
  }
  // What is made of the forward pass alone, such as scores made again, is made where it is read; for the
  // gradients of weights the backward pass makes it, which frees more than they keep. What is kept for them
  // is kept narrow, and widened there. What only those of a later pass read is made with them.
  for (Operation *op : llvm::reverse(free)) {
    std::optional<int64_t> first;
    for (Operation *user : op->getUsers())
      if (auto chunk = chunkOf.find(user); chunk != chunkOf.end() && turnOps.contains(user))
        first = std::min(first.value_or(chunk->second), chunk->second);
    int64_t &own = chunkOf[op];
    if (first && (*first < 2 * pipeline.chunks || (own >= pipeline.chunks && isWidening(op)) ||
                  (own >= 2 * pipeline.chunks && *first > own)))
      own = *first;
    else if (first && own < pipeline.chunks)
      own = *first - pipeline.chunks;
  }
  for (int64_t chunk = passes; chunk < pipeline.countChunks(); ++chunk)
    for (Operation *op : findNeeded(function, chunk))
      chunkOf.try_emplace(op, chunk);
  return chunkOf;
}
