//===- Chunks.cpp - the chunks of a stage's function ------------------------===//
//
// A chunk is what its results, those that are sent and the program's own, are made of. What another chunk of
// the stage makes comes to it as any other value does: it is received.
//
//===----------------------------------------------------------------------===//
#include "Chunks.h"

#include "dialects/Dist/Stages.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

/// The ops that the results of a chunk need.
static llvm::DenseSet<Operation *> findNeeded(func::FuncOp function, int64_t chunk) {
  llvm::DenseSet<Operation *> needed;
  SmallVector<Operation *> open;
  auto need = [&](Value value) {
    if (Operation *op = value.getDefiningOp(); op && needed.insert(op).second)
      open.push_back(op);
  };
  for (auto [i, value] : llvm::enumerate(function.front().getTerminator()->getOperands()))
    if (dist::getChunk(function.getResultAttrDict(i)) == chunk)
      need(value);
  while (!open.empty())
    llvm::for_each(open.pop_back_val()->getOperands(), need);
  return needed;
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
