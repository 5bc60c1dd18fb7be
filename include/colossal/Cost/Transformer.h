// A transformer's layer, embedding and head as lists of operations on one rank, and the bytes of its
// activations in closed form.
#ifndef COLOSSAL_COST_TRANSFORMER_H
#define COLOSSAL_COST_TRANSFORMER_H

#include "colossal/Cost/Operations.h"

#include <string>

namespace colossal::cost {

/// What of the forward pass is computed again in the backward pass.
enum class Recompute {
  None,
  /// Scores, softmax and dropout of the attention (Korthikanti et al., 2022, section 5); where attention
  /// keeps no scores, every second contraction and all that is pointwise.
  Selective,
  Full ///< whole layers; their inputs are kept
};

struct ModelDimensions {
  double layers = 24, hidden = 1024, heads = 16, sequence = 1024, vocabulary = 51200;
  /// Heads of keys and values; 0: as many as heads.
  double keyValueHeads = 0;
  /// Width of the feed-forward part; 0: 4 * hidden.
  double feedForward = 0;
  /// Three contractions with a gate (SwiGLU) in place of two; rotary positions, no dropout.
  bool gated = false;
  /// Scores never reach main memory (FlashAttention).
  bool fusedAttention = false;
  bool tiedEmbedding = true;
  /// Experts in every second layer; 0: none. Each token visits `expertsPerToken`.
  double experts = 0, expertsPerToken = 2;

  double keyValueWidth() const; ///< elements of keys of one token
  double feedForwardWidth() const;
  double layerParameters() const;       ///< of one layer (the average, with experts)
  double sharedLayerParameters() const; ///< of them, outside the experts
  double embeddingParameters() const;   ///< tokens and learned positions
  double parameters() const;
  /// FLOPs of a step over `sequences`, forward and backward, without recompute: 72 B s l h^2 (1 + s/(6h) +
  /// V/(12 l h)) for the classic shape (Narayanan et al., 2021, appendix), by its contractions for others.
  double flopsPerStep(double sequences) const;
};

/// How one rank's part of a layer is run.
struct LayerLayout {
  int tensor = 1, context = 1;
  double microBatch = 1; ///< sequences
  bool sequenceParallel = false;
  Recompute recompute = Recompute::None;
  DataType type = DataType::F16;
  /// Contractions' type where it differs (f8); their operands are cast.
  DataType contractionType = DataType::F16;
  /// Pointwise work is fused into few kernels.
  bool compiled = false;
  /// Tensor-parallel collectives run in pieces beside the contractions.
  bool asyncTensor = false;
  /// Context-parallel ranks hold two pieces of the sequence each, one early and one late, so that all have as
  /// many keys under a causal mask, and pass keys on beside the attention. Otherwise pieces lie one after the
  /// other and all wait for the last rank.
  bool balancedContext = false;
  /// Whose kernel computes fused attention.
  AttentionKernel attention = AttentionKernel::Portable;
  /// Ranks that hold different experts.
  int expertParallel = 1;
  Group tensorGroup, contextGroup, expertGroup;
};

/// The passes of a piece of the model for one microbatch.
struct PieceWork {
  OpList forward;
  OpList recompute; ///< what the backward pass runs again
  OpList backward;  ///< gradients of the inputs
  OpList weightGradient;
};

PieceWork layerWork(const ModelDimensions &model, const LayerLayout &layout);
PieceWork embeddingWork(const ModelDimensions &model, const LayerLayout &layout);
/// The projection to the vocabulary and the loss.
PieceWork headWork(const ModelDimensions &model, const LayerLayout &layout);

/// Bytes that one layer keeps for one microbatch, in 16-bit types (Korthikanti et al., 2022, equations 1 to
/// 6):
///   s b h (10 + 24/t + 5 a s / (h t))   tensor parallelism, or all of it over t with sequence parallelism
///   s b h (10 + 24/t), 34 s b h / t     with selective recompute
///   2 s b h                             with full recompute
/// and correspondingly for a gated layer with fused attention, counted tensor by tensor.
double layerActivationBytes(const ModelDimensions &model, const LayerLayout &layout);
/// The same without recompute: what a recomputed layer needs while it runs backward.
double layerTransientBytes(const ModelDimensions &model, const LayerLayout &layout);

} // namespace colossal::cost

#endif // COLOSSAL_COST_TRANSFORMER_H
