//===- MeshTrials.h - which mesh a model is compiled for --------------------===//
//
// Compiles for the meshes that MeshSearch.h names, and compares what they take.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_COMPILER_MESHTRIALS_H
#define COLOSSAL_LIB_COMPILER_MESHTRIALS_H

#include "ImportPhase.h"

namespace colossal {

/// The meshes of `options.devices` ranks that were tried, and the microbatches, the best first. Fails, with a
/// diagnostic, where nothing can be compiled on any of them; that nothing fits is no failure.
/// `microbatchObstacle`: as in CompileResult.
mlir::FailureOr<std::vector<TriedMesh>> tryMeshes(const Imported &imported, const CompileOptions &options,
                                                  std::string &microbatchObstacle);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_MESHTRIALS_H
