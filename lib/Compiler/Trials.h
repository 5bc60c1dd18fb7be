//===- Trials.h - compilations within a limit of memory ---------------------===//
//
// What a layout takes is known only of the plan that it gives. So a limit is kept by compiling again, and
// what would keep it is found by trying.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_COMPILER_TRIALS_H
#define COLOSSAL_LIB_COMPILER_TRIALS_H

#include "ImportPhase.h"

#include <functional>

namespace colossal {

/// Compiles within `options.layout.memoryBytes`, where that is given: what the search cannot know (packing,
/// workspaces, scratch) is known of the plan, and then the search is given that much less. Where that is too
/// little for any layout, it is given more again, by bisection. Success: the plan is the smallest found,
/// which may still be too large. `spend`: asked before each compilation but the first, may forbid it.
/// A training step that is not told what to recompute gets the least with which it fits: nothing, what the
/// selective kind makes again, all but as many single values as fit (`options.findKept`), or all; where none
/// does, the last word is that of full recomputation.
mlir::LogicalResult compileWithin(const Imported &imported, const CompileOptions &options, Phase last,
                                  const std::function<bool()> &spend, CompileResult &result);

/// What is left of a compilation that was tried.
struct Trial {
  /// 0 bytes where it keeps within its limit, else what it needs; none where it fails for another reason.
  std::optional<uint64_t> needed;
  double seconds = 0, interval = 0;          ///< predicted, where something was compiled: of one run of each
                                             ///< program, and from one to the next where runs overlap
  std::optional<mlir::Diagnostic> complaint; ///< the first error
};

/// Compiles without making code. Without a `limit` the machine's own counts, of which only the search knows.
Trial tryWithin(const Imported &imported, const CompileOptions &options, Phase last, uint64_t limit,
                const std::function<bool()> &spend);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_TRIALS_H
