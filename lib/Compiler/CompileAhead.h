//===- CompileAhead.h - kernels before the search for layouts ends ----------===//
//
// What a model of many equal layers computes shows in four of them: the kernels of a model that has no more
// are nearly always those of the whole, and to compile them takes longest of all. So they are compiled while
// the whole model is imported, searched, partitioned and scheduled.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_COMPILER_COMPILEAHEAD_H
#define COLOSSAL_LIB_COMPILER_COMPILEAHEAD_H

#include "colossal/Compiler/Compiler.h"

namespace colossal {

/// Whether kernels of a shorter model are likely to be those of the whole: not where a mesh is searched, or a
/// batch or a model is cut.
bool canCompileAhead(const CompileOptions &options);

/// Takes `shorter`, as imported, through all phases, and gives `kernels` what they need
/// (codegen::ImageBuilder::addAhead). Returns these kernels, for ScheduleOptions::ahead of the whole. What
/// comes of it makes no difference to what is compiled, only to when: whoever calls this has diagnostics
/// dropped.
std::shared_ptr<const schedule::KernelCache>
compileAhead(mlir::ModuleOp shorter, const CompileOptions &options, codegen::ImageBuilder &kernels);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_COMPILEAHEAD_H
