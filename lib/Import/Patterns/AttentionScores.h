//===- AttentionScores.h - what a softmax of attention is taken of ----------===//
//
// Between the product of queries and keys and the softmax: scales, a soft cap, masks, and reshapes that view
// batch and heads otherwise.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_PATTERNS_ATTENTIONSCORES_H
#define COLOSSAL_LIB_IMPORT_PATTERNS_ATTENTIONSCORES_H

#include "Matching.h"

#include <limits>

namespace colossal {

/// Sizes of the dimensions before the last two: batch and heads, seen as one, two or more dimensions.
using Leads = llvm::SmallVector<int64_t>;

/// One thing added to, or hiding places of, the scores.
struct MaskTerm {
  Leads leads;           ///< of the scores where the term is met; the term broadcasts to them
  mlir::Value added;     ///< the term as a number, if it is one
  mlir::Value condition; ///< true: visible; null where the term is not of that form
  bool inverted = false;
  double hidden = 0; ///< what hidden places hold
  double scale = 1;  ///< of `added`: what the scores were multiplied by after it was added
};

/// scale * product of `factors` * contract + terms, at least `lowest`; soft-capped before the terms if
/// `softcap` is not 0.
struct Scores {
  ContractOp contract;
  double scale = 1, softcap = 0;
  double lowest = -std::numeric_limits<double>::infinity();
  llvm::SmallVector<std::pair<mlir::Value, Leads>>
      factors; ///< tensors that do not vary over keys, and where they stand
  llvm::SmallVector<MaskTerm> terms;
  llvm::SmallVector<mlir::Value> passed;
  mlir::Type
      wide;    ///< what the scores were cast to before something was added to them; null where they were not
  Leads leads; ///< batch and heads, where the scores are seen so anywhere; else as the softmax has them
};

/// Takes apart what gives `value`, a tensor [..., queries, keys]. False where it does not come from a
/// contraction.
bool matchScores(mlir::Value value, Scores &scores);

Leads leadsOf(mlir::Value value);
/// `value`, which broadcasts to [from..., r, c], as a tensor that broadcasts to [to..., r, c], where both
/// leads count the same elements in the same order. Example: [1, 16, 1, r, c] from (3, 16, 2) to (48, 2) is
/// [48, 1, r, c].
mlir::Value regroup(mlir::Value value, llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to,
                    GraphBuilder &b);

} // namespace colossal

#endif // COLOSSAL_LIB_IMPORT_PATTERNS_ATTENTIONSCORES_H
