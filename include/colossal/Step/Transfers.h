//===- Transfers.h - a tensor from one stage's ranks to another's -----------===//
//
// Which rank sends what to which, for any two layouts on any two meshes.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_STEP_TRANSFERS_H
#define COLOSSAL_STEP_TRANSFERS_H

#include "dialects/Dist/Stages.h"

#include <memory>

namespace mlir {
class Pass;
} // namespace mlir

namespace colossal::step {

/// A tensor as the ranks of a stage hold it.
struct StageLayout {
  dist::ShardingAttr sharding; ///< not partial
  dist::MeshAttr mesh;
  int64_t firstRank = 0; ///< of the stage, among those of the plan
};

/// Messages of both sides; number k of the one belongs to number k of the other, with as many pieces of the
/// same sizes in the same order.
struct StageTransfer {
  llvm::SmallVector<dist::Message> sends, receives;
};

/// Every rank of `to` receives each element that it holds once, from one rank. Where several ranks hold an
/// element, those that ask for it are spread over them: with equal layouts on equal meshes each rank sends to
/// the one in its own place. All that a rank has for another is one message, and messages that take the same
/// places of both shards are one of the list, with the ranks concerned in its `peers`: as many as it takes
/// for no rank to stand in one twice (one for each of a rank's messages, where these are the most).
///
/// Example: 8 elements on 2 ranks, 4 each, go to 4 ranks with 2 each. Places 0 to 1 of the senders go from
/// rank 0 to 2 and from 1 to 4, and places 2 to 3 from 0 to 3 and from 1 to 5: two messages.
StageTransfer planTransfer(const StageLayout &from, const StageLayout &to, int64_t tag);

/// colossal-plan-transfers; `sendsWait`: its option of that name.
std::unique_ptr<mlir::Pass> createPlanTransfersPass(bool sendsWait);

} // namespace colossal::step

#endif // COLOSSAL_STEP_TRANSFERS_H
