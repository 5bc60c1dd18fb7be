//===- Chunks.h - the chunks of a stage's function --------------------------===//
#ifndef COLOSSAL_LIB_SCHEDULE_CHUNKS_H
#define COLOSSAL_LIB_SCHEDULE_CHUNKS_H

#include "dialects/Dist/Pipeline.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace colossal::schedule {

using ChunkOfOp = llvm::DenseMap<mlir::Operation *, int64_t>;

/// Which chunk of `function`, one of `chunks`, computes each op: that whose results need it, and of several
/// the first. Those that no result needs are the first one's.
ChunkOfOp findChunks(mlir::func::FuncOp function, int64_t chunks);

/// Makes those of `ops`, which stand in `function`, that several chunks need anew for each but the first of
/// them, so that the chunks have no such ops in common: what is computed in one chunk's turn is gone when
/// another's comes.
void separateChunks(mlir::func::FuncOp function, int64_t chunks,
                    const llvm::DenseSet<mlir::Operation *> &ops);

/// The same of a function that goes through passes (Pipeline.h), whose chunks keep what others need.
/// `turnOps`: what each microbatch makes. Of these, those that no chunk's results need, but only what
/// microbatches add up, are the chunk's in which all that they need is there; or, where the gradients of
/// weights are apart, of the chunk for these, if no product of the chunk itself is made of them; and what
/// only such ops read is the first reader's, or, of what the gradients of weights read, the backward pass's.
/// `opsBehind`: what stands behind the microbatches.
ChunkOfOp findPassChunks(mlir::func::FuncOp function, const dist::Pipeline &pipeline,
                         const llvm::DenseSet<mlir::Operation *> &turnOps,
                         const llvm::DenseSet<mlir::Operation *> &opsBehind);

/// Fails where one of `turnOps` stands in a pass that may run before what it reads is there: the gradients of
/// a chunk's weights wait for its own backward pass only.
mlir::LogicalResult checkPassChunks(mlir::func::FuncOp function, const dist::Pipeline &pipeline,
                                    const llvm::DenseSet<mlir::Operation *> &turnOps,
                                    const ChunkOfOp &chunkOf);

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_CHUNKS_H
