// Generator of blocked attention with online softmax: softmax(scale Q K^T + mask) V without the score matrix.
//
// Running maximum and sum as in "Online normalizer calculation for softmax" (Milakov, Gimelshein 2018) and
// FlashAttention-2 (Dao 2023), algorithm 1: one block of queries per tile, key blocks in order, so that
// results do not depend on threads.
//
// Buffers: Q, K, V, [mask], output, [statistics], then the scratch. Params: [query offset], [valid keys], in
// this order where asked.
#ifndef COLOSSAL_CODEGEN_CPU_ATTENTIONKERNEL_H
#define COLOSSAL_CODEGEN_CPU_ATTENTIONKERNEL_H

#include "colossal/Codegen/CPU/KernelFunction.h"
#include "colossal/Codegen/CPU/Processor.h"
#include <array>
#include <optional>

namespace colossal::cpu {

struct AttentionSpec {
  mlir::Type type; // of Q, K, V and the output: f32, f16, bf16 (computed in f32), f64
  int64_t batch = 1, queryHeads = 1, keyHeads = 1; // queryHeads a multiple of keyHeads
  int64_t queries = 1, keys = 1, width = 1, valueWidth = 1;
  // Strides in elements over [batch, head, sequence, width].
  std::array<int64_t, 4> qStrides{}, kStrides{}, vStrides{}, outStrides{};
  double scale = 1.0;            // multiplies Q K^T
  std::optional<double> softcap; // c tanh(s / c), before the mask

  /// Query i sees keys j <= i + offset. The offset is a parameter if `causalOffsetParam`, else `causalOffset`
  /// (0, or keys - queries when the last query sees every key).
  bool causal = false;
  bool causalOffsetParam = false;
  int64_t causalOffset = 0;

  enum class Mask { None, Additive, Boolean }; // Boolean: one byte, 0 hides the key
  Mask mask = Mask::None;
  mlir::Type maskType;                  // of an additive mask: f32, f16, bf16, f64
  std::array<int64_t, 4> maskStrides{}; // over [batch, query head, query, key]; 0 broadcasts

  /// The number of real keys is a parameter; the keys after it are padding and hidden.
  bool validKeysParam = false;

  /// What a row gives that sees no key: zeros, or what softmax gives for a row of equal -inf (NaN).
  /// An additive mask of finite values (-1e38 in every place) hides nothing: softmax of what it leaves, as in
  /// ONNX.
  enum class EmptyRow { Zero, NaN };
  EmptyRow emptyRow = EmptyRow::NaN;

  /// Whether it also gives the logarithm of each row's sum of exponentials, f64 where `type` is, else f32.
  bool statistics = false;
  std::array<int64_t, 3> statisticStrides{}; // over [batch, query head, query]
};

/// A spec that it cannot serve is an error that says why.
llvm::Expected<GeneratedKernel> generateAttention(mlir::MLIRContext &context, const Processor &processor,
                                                  const AttentionSpec &spec);

} // namespace colossal::cpu

#endif // COLOSSAL_CODEGEN_CPU_ATTENTIONKERNEL_H
