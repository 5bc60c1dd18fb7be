// Attention on GPUs in one pass over the keys, without their scores in memory.
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_ATTENTION_H
#define COLOSSAL_LIB_CODEGEN_CUDA_ATTENTION_H

#include "BlockTeam.h"

#include "colossal/Schedule/LoweringContext.h"

#include <array>

namespace colossal::nvidia {

/// What a colossal.attention computes, and where its tensors lie: strides in elements, 0 where they
/// broadcast.
struct AttentionSpec {
  mlir::Type type; ///< f32, f16 or bf16; computed in f32
  int64_t batch = 1, queryHeads = 1, keyHeads = 1, queries = 1, keys = 1, width = 1, valueWidth = 1;
  std::array<int64_t, 4> q = {}, k = {}, v = {}, out = {}, mask = {}, statistics = {};
  std::array<int64_t, 4> alignment = {1, 1, 1,
                                      1}; ///< bytes to which query, key, value and result are aligned
  mlir::Type maskType;                    ///< null: no mask
  double scale = 1, softcap = 0;          ///< softcap 0: none
  bool causal = false, guard = false;
  bool isRounded = false; ///< f32 may be multiplied as tf32
  bool hasStatistics = false;
  int64_t causalOffset = 0;
  bool hasOffset = false, hasCount = false; ///< runtime parameters: the query offset, then the number of keys
};

/// All of it but where the tensors lie.
AttentionSpec describeAttention(AttentionOp op);
/// Whether there is a kernel for it: the types, and rows that fit shared memory.
bool hasKernel(const AttentionSpec &spec);
/// Whether there is one on tensor cores: f16, bf16 or tf32, and matrices that fit the registers.
bool hasTensorKernel(const AttentionSpec &spec);

/// Buffers: query, key, value, [mask], result, [statistics]. A block takes sixteen queries and walks the keys
/// in tiles (Dao et al., FlashAttention, 2022); keys that none of its queries sees are left out. `team` has
/// 128 threads.
kernel::GeneratedKernel generateAttention(mlir::MLIRContext &context, const BlockTeam &team,
                                          const AttentionSpec &spec);
/// The same on tensor cores, a block taking 64 queries.
kernel::GeneratedKernel generateTensorAttention(mlir::MLIRContext &context, const BlockTeam &team,
                                                const AttentionSpec &spec);

/// A group of a colossal.attention; what has no kernel is handed back to be computed by element code. With
/// `byLibrary` cuDNN computes what it takes (LibraryAttention.h).
mlir::LogicalResult lowerAttention(const BlockTeam &team, schedule::LoweringContext &context,
                                   schedule::FusionGroup &group, bool byLibrary);

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_ATTENTION_H
