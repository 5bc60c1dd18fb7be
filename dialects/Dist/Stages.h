//===- Stages.h - a module cut into stages ----------------------------------===//
//
// A model that runs in pipeline stages is a module of modules: the outer one has the mesh of all ranks, with
// its axis `stage`, and one module for each stage, in order, with a mesh of its own:
//
//   module attributes {dist.mesh = #dist.mesh<["stage" = 2, "model" = 2]>} {
//     module @stage0 attributes {dist.mesh = #dist.mesh<["model" = 2]>, dist.stage = 0 : i64} {
//       func.func @main(%ids {dist.place = 0}) -> (tensor<4x64xf32> {dist.sends = 0 : i64})
//     }
//     module @stage1 attributes {dist.mesh = #dist.mesh<["model" = 2]>, dist.stage = 1 : i64} {
//       func.func @main(%x: tensor<4x64xf32> {dist.receives = 0 : i64}) -> (tensor<4x8xf32> {dist.place = 0})
//     }
//   }
//
// Rules for such modules, which verifyStages checks:
//  C1  the stages have the numbers 0, 1, ... in order, and as many ranks together as the outer mesh;
//  C2  all have functions of the same names: the parts of one program;
//  C3  a value that is received is sent by an earlier stage's function of that name, once, and has the same
//  type.
//
// A stage begins to compute when it has received what it needs, and sends what others need when it ends.
//
// A stage may hold several parts of the model that do not follow one another, its chunks: of S stages with C
// chunks each, part p is chunk p / S of stage p % S, and values go from part to part. Its function has all of
// its chunks, whose arguments and results say to which they belong; "earlier" in C3 is then an earlier part.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_DIST_STAGES_H
#define COLOSSAL_DIALECTS_DIST_STAGES_H

#include "dialects/Dist/Dist.h"
#include "mlir/IR/BuiltinOps.h"

namespace colossal::dist {

/// The mesh axis that asks for stages.
inline constexpr llvm::StringLiteral kStageAxis = "stage";
/// Of a module: the stage that it is.
inline constexpr llvm::StringLiteral kStageAttrName = "dist.stage";
/// Of a function's argument and of a result: the number that a value between stages has in its program.
inline constexpr llvm::StringLiteral kReceivesAttrName = "dist.receives", kSendsAttrName = "dist.sends";
/// Of an argument between stages and of a result, where stages have chunks: its chunk, from 0 on.
inline constexpr llvm::StringLiteral kChunkAttrName = "dist.chunk";
/// Of an argument or result of a stage's function: its place among those of the model.
inline constexpr llvm::StringLiteral kPlaceAttrName = "dist.place";
/// Of an argument or result of a stage's function, before layouts are known: by dimension, where the whole
/// program's ops cut it into parts that can be split apart (RefinementAnalysis), counted in elements behind
/// it.
inline constexpr llvm::StringLiteral kCutsAttrName = "dist.cuts";
/// Of an argument or result between stages, once layouts are known: its messages, in their order
/// (toMessages).
inline constexpr llvm::StringLiteral kMessagesAttrName = "dist.messages";
/// Of a module with stages, once messages are known: how many of a queue may wait for their receivers, so
/// that a rank goes on. One, and with a loop over microbatches as many as stages lie between sender and
/// receiver, which come to a message so many turns later.
inline constexpr llvm::StringLiteral kMessageSlotsAttrName = "dist.message_slots";
/// Beside it, where longer messages wait to be received: bytes of the longest that may wait in a slot.
inline constexpr llvm::StringLiteral kMessageSlotBytesAttrName = "dist.message_slot_bytes";

/// The stages of a module, or the module itself where it has none.
llvm::SmallVector<mlir::ModuleOp> getStages(mlir::ModuleOp module);
/// None where the module is no stage.
std::optional<int64_t> getStage(mlir::ModuleOp module);
/// Ranks of all stages, where `module` is one or has some; else those of its mesh.
int64_t getNumRanks(mlir::ModuleOp module);
/// The first of a stage's ranks among those of the plan.
int64_t getFirstRank(mlir::ModuleOp stage);

/// The chunk that the attributes of an argument or result name; 0 where they name none.
int64_t getChunk(mlir::DictionaryAttr attributes);
/// How many chunks each of `stages` has: one more than the last that an argument or result names.
int64_t countChunks(llvm::ArrayRef<mlir::ModuleOp> stages);

/// Checks C1 to C3; fails with a diagnostic.
mlir::LogicalResult verifyStages(mlir::ModuleOp module);

/// A box of a rank's shard, seen as elements of memory: a row-major walk over `sizes`.
struct Piece {
  int64_t offset = 0; ///< elements
  llvm::SmallVector<int64_t, 4> sizes, strides;
  bool operator==(const Piece &other) const {
    return offset == other.offset && sizes == other.sizes && strides == other.strides;
  }
  int64_t getNumElements() const;
  /// Whether the walk is over neighbours in memory.
  bool isRun() const;
};

/// What ranks of a stage send or receive at once: the elements of the pieces, one behind the other.
struct Message {
  int64_t tag = 0;
  llvm::SmallVector<int64_t> peers; ///< by rank of the stage: a rank of the plan, or -1
  llvm::SmallVector<Piece, 1> pieces;
  // Where sends wait for their receivers, its place among all messages of the stage
  // (colossal/Step/MessageOrder.h):
  int64_t passes = 0; ///< a send follows the pass so many after its own, a receive that so many before it
  int64_t order = -1; ///< among those that follow one pass; -1: the schedule is free to choose both
};

mlir::ArrayAttr toAttribute(mlir::MLIRContext *context, llvm::ArrayRef<Message> messages);
llvm::SmallVector<Message> toMessages(mlir::ArrayAttr attribute);

} // namespace colossal::dist

#endif // COLOSSAL_DIALECTS_DIST_STAGES_H
