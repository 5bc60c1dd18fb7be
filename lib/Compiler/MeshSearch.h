//===- MeshSearch.h - which mesh for a number of devices --------------------===//
//
// Enumerates meshes, those with stages of a pipeline too, and asks what each would take; knows neither IR nor
// prices. Whoever asks searches layouts on each mesh.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_COMPILER_MESHSEARCH_H
#define COLOSSAL_LIB_COMPILER_MESHSEARCH_H

#include "colossal/Compiler/Compiler.h"

#include <functional>
#include <string>
#include <vector>

namespace colossal {

struct MeshAxis {
  std::string name; ///< empty: by its place, as --mesh 2x4 names axes
  int64_t size = 1;
};
using MeshAxes = std::vector<MeshAxis>;

/// As --mesh takes them: "data=2,model=4", or "2x4" where no axis has a name; "1" of none.
std::string printMesh(const MeshAxes &axes);

struct MeshSpace {
  int64_t devices = 1;
  MeshAxes fixed;         ///< named, of all meshes; their sizes' product divides the devices
  bool isOrdered = false; ///< the same sizes in another order are another mesh: links between ranks differ
  /// Of a layout of the papers: axes that it takes beside one named `data`, which splits the batch, and
  /// `stage`. Their order matters.
  std::optional<unsigned> recipeAxes;
  unsigned trials = 32; ///< meshes without stages that may be tried, and as many with stages
  size_t sureAxes = 3;  ///< so many axes are tried, and more as long as the last one made a difference
  /// Stages that are tried, unless an axis `stage` is fixed: at most so many.
  int64_t mostStages = 1;
  /// Rows of the batch that microbatches may share; 1: it is not cut.
  int64_t rows = 1;
  int64_t microbatches = 0; ///< of all meshes, where they are given; else 0
  int64_t chunks = 0;       ///< of all stages, where they are given; else 0
};

using TryMesh = std::function<TriedMesh(const std::string &mesh, int64_t microbatches, int64_t chunks)>;

/// Tries meshes of all devices, first those without stages:
///
/// - Those of few axes come first: what an axis is split into has all layouts that it has, and more, but
/// takes
///   longer to search. Of two axes all are tried, of three those that split one of the best few, and more
///   axes as long as the last ones made a difference; with a layout of the papers, all meshes that it can be
///   on, those of the most even sizes first.
/// - Then stages: every number of them that divides the devices that are left, with meshes for each stage in
///   the same way, of two axes, and more where the second made a difference.
/// - Where one run is to be short, stages work on microbatches, first four for each stage, or a row in each:
///   of the best mesh of each number of stages more and fewer are tried, as long as that helps, and then
///   stages of two, four, ... chunks, in the same way. Where runs overlap, they need neither.
/// - Where nothing fits, the two meshes without stages that need the least are tried with microbatches, whose
///   activations are smaller.
///
/// Returns them as they were tried; each differs from the others.
std::vector<TriedMesh> searchMeshes(const MeshSpace &space, Objective objective, const TryMesh &attempt);

/// Sorts meshes best first: those that fit by the objective, then those that do not by the bytes they need,
/// last those that cannot be compiled. Equals stay in order.
void rankMeshes(std::vector<TriedMesh> &meshes, Objective objective);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_MESHSEARCH_H
