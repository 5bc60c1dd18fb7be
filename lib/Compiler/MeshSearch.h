//===- MeshSearch.h - which mesh for a number of devices --------------------===//
//
// Enumerates meshes and asks what each would take; knows neither IR nor prices. Whoever asks searches layouts
// on each mesh. An axis that means more than a place for layouts (stages of a pipeline) is one more name here
// once there is code for it.
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
  /// Of a layout of the papers: axes that it takes beside one named `data`, which splits the batch. Their
  /// order matters.
  std::optional<unsigned> recipeAxes;
  unsigned trials = 32; ///< meshes that may be tried
};

/// Tries meshes of all devices, those of few axes first: what an axis is split into has all layouts that it
/// has, and more, but takes longer to search. Of two axes all are tried, of three those that split one of the
/// best few, and more axes as long as the last ones made a difference; with a layout of the papers, all
/// meshes that it can be on, those of the most even sizes first. Returns them as they were tried; each
/// differs from the others.
std::vector<TriedMesh> searchMeshes(const MeshSpace &space, Objective objective,
                                    const std::function<TriedMesh(const std::string &mesh)> &attempt);

/// Sorts meshes best first: those that fit by the objective, then those that do not by the bytes they need,
/// last those that cannot be compiled. Equals stay in order.
void rankMeshes(std::vector<TriedMesh> &meshes, Objective objective);

} // namespace colossal

#endif // COLOSSAL_LIB_COMPILER_MESHSEARCH_H
