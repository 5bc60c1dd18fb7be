//===- Pipeline.h - passes of a training step through stages ----------------===//
//
// A module that trains and is cut into stages goes through these several times for each microbatch. Its
// programs are cut into parts, numbered in an order in which one microbatch can go through all of them, so
// that values go from a part to a later one only:
//
//   forward    part f of the model, from 0 on
//   backward   part 2F - 1 - f, where the model has F: the gradients of part f, on the same stage
//   closing    behind all microbatches, in levels: what is summed up over them, and what is made of that. All
//              stages do level 0, then all do level 1, and so on; what a stage needs of another one's level
//              it takes in a later one
//
// A stage does these in *chunks*: its forward parts, from chunk 0 on, its backward parts in the order in
// which a microbatch comes to them, then, where the gradients of weights are apart, these for each backward
// chunk, and last its levels. The parts between: with S stages of C forward chunks each, forward part f is
// chunk f / S of stage f mod S; in a V, where C is 2, the second chunk of stage s is part 2S - 1 - s, so that
// the model ends where it begins.
//
// A function of a stage uses what an earlier chunk of its own stage makes as it is: such values are kept.
// What another stage makes is received once for each stage, in the chunk that first needs it.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_DIALECTS_DIST_PIPELINE_H
#define COLOSSAL_DIALECTS_DIST_PIPELINE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

#include <cstdint>
#include <optional>

namespace colossal::dist {

/// Of ops of a training step that will be cut into stages: number of an op of the forward pass, which copies
/// of it in the backward pass have, too; the number of the op whose gradient an op belongs to; what is done
/// when the gradients are complete.
inline constexpr llvm::StringLiteral kUnitAttrName = "dist.unit", kGradientOfAttrName = "dist.gradient_of",
                                     kUpdateAttrName = "dist.update";

/// Of a function of a stage: a Pipeline, as toAttribute writes it.
inline constexpr llvm::StringLiteral kPipelineAttrName = "dist.pipeline";
/// Of a function of a stage: its passes in order, each as a chunk and the microbatch that it works on.
inline constexpr llvm::StringLiteral kPassesAttrName = "dist.passes";
/// Of a result of a level: the chunk that computes what microbatches add up for it.
inline constexpr llvm::StringLiteral kTurnChunkAttrName = "dist.turn_chunk";

/// How a program is cut into parts, and which chunk of which stage each is.
struct Pipeline {
  int64_t stages = 1;
  int64_t chunks = 1;       ///< of a stage in the forward pass
  bool isV = false;         ///< with 2 chunks
  bool hasBackward = false; ///< else the program has forward parts and levels only
  bool splits = false;      ///< gradients of weights have chunks of their own
  int64_t levels = 0;

  int64_t countForwardParts() const { return stages * chunks; }
  /// Of a stage, for each microbatch.
  int64_t countTurnChunks() const { return chunks * (!hasBackward ? 1 : splits ? 3 : 2); }
  int64_t countChunks() const { return countTurnChunks() + levels; }
  int64_t countParts() const { return stages * countChunks(); }
  bool isClosing(int64_t chunk) const { return chunk >= countTurnChunks(); }

  int64_t getPart(int64_t stage, int64_t chunk) const;
  int64_t getStage(int64_t part) const;
  int64_t getChunk(int64_t part) const;
  /// The part with the gradients of a forward part.
  int64_t getBackward(int64_t forwardPart) const { return 2 * countForwardParts() - 1 - forwardPart; }
};

mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context, const Pipeline &pipeline);
/// That of a function; none where it is no part of a step that goes through stages.
std::optional<Pipeline> getPipeline(mlir::Operation *function);

} // namespace colossal::dist

#endif // COLOSSAL_DIALECTS_DIST_PIPELINE_H
