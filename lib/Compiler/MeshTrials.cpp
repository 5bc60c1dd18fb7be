//===- MeshTrials.cpp - which mesh a model is compiled for ------------------===//
#include "MeshTrials.h"

#include "MeshSearch.h"
#include "Trials.h"

using namespace mlir;

namespace colossal {

/// The meshes of `options.devices` ranks with the axes that the options fix, and how many may be tried.
static FailureOr<MeshSpace> getMeshSpace(const Imported &imported, const CompileOptions &options) {
  MeshSpace space;
  space.devices = options.devices;
  if (!options.mesh.empty()) {
    FailureOr<dist::MeshAttr> fixed = parseMesh(imported.module.get().getContext(), options.mesh);
    if (failed(fixed))
      return failure();
    for (dist::MeshAxisAttr axis : fixed->getAxes())
      space.fixed.push_back({axis.getName().str(), axis.getSize()});
  }
  space.isOrdered = !options.layout.machine.areRanksAlike(options.devices);
  if (!options.layout.recipe.empty())
    space.recipeAxes = layout::getRecipeAxes(options.layout.recipe);
  constexpr uint64_t kOperations = 20'000, kFewest = 8, kMost = 32;
  space.trials = static_cast<unsigned>(
      std::clamp(kOperations / std::max<uint64_t>(1, imported.time.operations), kFewest, kMost));
  return space;
}

/// Says why nothing can be compiled on any mesh of `space`.
static LogicalResult refuseMeshes(const Imported &imported, const CompileOptions &options,
                                  const MeshSpace &space, std::optional<Diagnostic> complaint) {
  if (complaint)
    imported.module.get().getContext()->getDiagEngine().emit(std::move(*complaint));
  InFlightDiagnostic diagnostic = emitError(imported.module.get().getLoc());
  diagnostic << "nothing can be compiled on any mesh of " << options.devices << " devices";
  if (space.recipeAxes > 1u)
    diagnostic << ": --layout " << options.layout.recipe << " takes one of " << *space.recipeAxes
               << " axes, so that the devices must be a product of as many numbers above 1";
  if (!options.layout.pins.empty())
    diagnostic << " with these pins: axes that they name must be given by --mesh, as in --mesh data=2";
  return diagnostic;
}

FailureOr<std::vector<TriedMesh>> tryMeshes(const Imported &imported, const CompileOptions &options) {
  FailureOr<MeshSpace> space = getMeshSpace(imported, options);
  if (failed(space))
    return failure();
  const cost::Machine &machine = options.layout.machine;
  const uint64_t limit = options.layout.memoryBytes;
  // Of a plan for a host more is known than the search sees: what is copied, and how kernels are cut.
  const bool isHost = machine.host && layout::describeForeignTimes(machine).empty();
  std::optional<Diagnostic> complaint;
  auto attempt = [&](const std::string &mesh, bool keepsTrying) {
    if (options.progress)
      options.progress("mesh " + mesh);
    CompileOptions other = options;
    other.mesh = mesh;
    Trial trial = tryWithin(imported, other, isHost || limit ? Phase::Plan : Phase::Search, limit,
                            [&] { return keepsTrying; });
    if (!trial.needed && trial.complaint && !complaint)
      complaint = std::move(trial.complaint);
    return TriedMesh{mesh, trial.needed.has_value(), trial.seconds, trial.seconds > 0 ? 1 / trial.seconds : 0,
                     trial.needed.value_or(0)};
  };
  std::vector<TriedMesh> tried =
      searchMeshes(*space, options.objective, [&](const std::string &mesh) { return attempt(mesh, false); });
  llvm::erase_if(tried, [](const TriedMesh &mesh) { return !mesh.isPossible; });
  if (tried.empty())
    return refuseMeshes(imported, options, *space, std::move(complaint));
  // A plan that takes more than the search had foreseen may still be brought to fit, which does not make it
  // faster. Of those that are no slower than the best that fits this is tried, fastest first.
  std::vector<size_t> order;
  double enough = std::numeric_limits<double>::infinity();
  for (auto [i, mesh] : llvm::enumerate(tried))
    if (mesh.neededBytes == 0)
      enough = std::min(enough, mesh.seconds);
    else if (mesh.seconds > 0)
      order.push_back(i);
  llvm::stable_sort(order, [&](size_t a, size_t b) { return tried[a].seconds < tried[b].seconds; });
  for (size_t i : order)
    if (tried[i].seconds < enough) {
      tried[i] = attempt(tried[i].mesh, true);
      if (tried[i].neededBytes == 0)
        enough = std::min(enough, tried[i].seconds);
    }
  rankMeshes(tried, options.objective);
  return tried;
}

} // namespace colossal
