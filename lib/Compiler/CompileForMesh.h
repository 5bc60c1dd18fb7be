//===- CompileForMesh.h - a plan for one mesh, or why there is none ---------===//
#ifndef COLOSSAL_LIB_COMPILER_COMPILEFORMESH_H
#define COLOSSAL_LIB_COMPILER_COMPILEFORMESH_H

#include "ImportPhase.h"

namespace colossal {

/// Compiles for the mesh that the options name; where that does not fit, says what would make it. `asked`:
/// the options before a mesh was searched, if it was.
mlir::LogicalResult compileForMesh(const Imported &imported, const CompileOptions &asked,
                                   const CompileOptions &options, Phase last, CompileResult &result);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_COMPILEFORMESH_H
