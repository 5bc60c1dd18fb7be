//===- Passes.h - phases as passes ------------------------------------------===//
#ifndef COLOSSAL_COMPILER_PASSES_H
#define COLOSSAL_COMPILER_PASSES_H

#include "colossal/Compiler/Compiler.h"

namespace colossal {

/// Registers `--colossal-outline-blocks`, `--colossal-inline-blocks`, `--colossal-search-layouts`,
/// `--colossal-partition` and `--colossal-schedule`, and the pipeline
/// `--colossal-pipeline=to=PHASE`, which runs the phases after import up to PHASE. `options` gives what the
/// passes need beyond the IR; it must outlive every pass.
void registerPhases(const CompileOptions &options);

} // namespace colossal

#endif // COLOSSAL_COMPILER_PASSES_H
