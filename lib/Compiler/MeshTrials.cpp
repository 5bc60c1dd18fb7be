//===- MeshTrials.cpp - which mesh a model is compiled for ------------------===//
#include "MeshTrials.h"

#include "MeshSearch.h"
#include "Trials.h"
#include "colossal/Step/PropagateBatch.h"

using namespace mlir;

namespace colossal {

/// The rows of the batch that microbatches may share in all programs; 1 where they would change what one
/// computes, or one has a single row: `why` says so.
static int64_t countRows(const Imported &imported, std::string &why) {
  OwningOpRef<ModuleOp> module = imported.module.get().clone();
  MLIRContext *context = module->getContext();
  ScopedDiagnosticHandler quiet(context, [&](Diagnostic &diagnostic) {
    if (!why.empty() || diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return success();
    OnnxNames names = getOnnxNames(diagnostic.getLocation());
    if (!names.nodes.empty())
      why = ("node '" + names.nodes.front() + "': ").str();
    why += diagnostic.str();
    return success();
  });
  int64_t rows = std::numeric_limits<int64_t>::max();
  for (auto function : module->getOps<func::FuncOp>()) {
    FailureOr<int64_t> own = step::countRows(function);
    if (failed(own))
      return 1;
    rows = std::min(rows, *own);
  }
  if (rows < 2) {
    why = "the batch has one row";
    return 1;
  }
  // A row in each is what any number of them is made of.
  FailureOr<dist::MeshAttr> mesh = parseMesh(context, "1");
  (*module)->setAttr(dist::kMeshAttrName, step::addMicrobatches(*mesh, rows));
  return succeeded(step::propagateBatch(*module)) ? rows : 1;
}

/// The meshes of `options.devices` ranks with the axes that the options fix, and how many may be tried.
static FailureOr<MeshSpace> getMeshSpace(const Imported &imported, const CompileOptions &options,
                                         std::string &microbatchObstacle) {
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
  // A training step has so many times the operations of its model, about.
  constexpr uint64_t kOfStep = 8;
  const uint64_t operations = imported.time.operations * (options.training ? kOfStep : 1);
  space.trials =
      static_cast<unsigned>(std::clamp(kOperations / std::max<uint64_t>(1, operations), kFewest, kMost));
  constexpr int64_t kMostStages = 16;
  space.mostStages = options.training ? 1 : kMostStages; // steps have no stages yet
  space.microbatches = options.microbatches;
  space.chunks = options.chunks;
  if (options.microbatches == 0 && options.training)
    space.rows = options.training->globalBatch; // what cannot be cut is refused when it is tried
  else if (options.microbatches == 0)
    space.rows = countRows(imported, microbatchObstacle);
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

FailureOr<std::vector<TriedMesh>> tryMeshes(const Imported &imported, const CompileOptions &options,
                                            std::string &microbatchObstacle) {
  FailureOr<MeshSpace> space = getMeshSpace(imported, options, microbatchObstacle);
  if (failed(space))
    return failure();
  const cost::Machine &machine = options.layout.machine;
  const uint64_t limit = options.layout.memoryBytes;
  // Of a plan for a host more is known than the search sees: what is copied, and how kernels are cut.
  const bool isHost = machine.host && layout::describeForeignTimes(machine).empty();
  std::optional<Diagnostic> complaint;
  auto attempt = [&](const std::string &mesh, int64_t microbatches, int64_t chunks, bool keepsTrying) {
    if (options.progress)
      options.progress("mesh " + mesh +
                       (microbatches > 1 ? " in " + std::to_string(microbatches) + " microbatches" : "") +
                       (chunks > 1 ? " and " + std::to_string(chunks) + " chunks of a stage" : ""));
    CompileOptions other = options;
    other.mesh = mesh;
    other.microbatches = microbatches;
    other.chunks = chunks;
    Trial trial = tryWithin(imported, other, isHost || limit ? Phase::Plan : Phase::Search, limit,
                            [&] { return keepsTrying; });
    if (!trial.needed && trial.complaint && !complaint)
      complaint = std::move(trial.complaint);
    return TriedMesh{mesh,
                     trial.needed.has_value(),
                     trial.seconds,
                     trial.interval > 0 ? 1 / trial.interval : 0,
                     trial.needed.value_or(0),
                     microbatches,
                     chunks};
  };
  std::vector<TriedMesh> tried = searchMeshes(
      *space, options.objective, [&](const std::string &mesh, int64_t microbatches, int64_t chunks) {
        return attempt(mesh, microbatches, chunks, false);
      });
  llvm::erase_if(tried, [](const TriedMesh &mesh) { return !mesh.isPossible; });
  if (tried.empty())
    return refuseMeshes(imported, options, *space, std::move(complaint));
  // A plan that takes more than the search had foreseen may still be brought to fit, which does not make it
  // faster. Of those that are no slower than the best that fits this is tried, fastest first.
  auto takes = [&](const TriedMesh &mesh) {
    return options.objective == Objective::Latency ? mesh.seconds : 1 / std::max(mesh.runsPerSecond, 1e-300);
  };
  std::vector<size_t> order;
  double enough = std::numeric_limits<double>::infinity();
  for (auto [i, mesh] : llvm::enumerate(tried))
    if (mesh.neededBytes == 0)
      enough = std::min(enough, takes(mesh));
    else if (mesh.seconds > 0)
      order.push_back(i);
  llvm::stable_sort(order, [&](size_t a, size_t b) { return takes(tried[a]) < takes(tried[b]); });
  for (size_t i : order)
    if (takes(tried[i]) < enough) {
      tried[i] = attempt(tried[i].mesh, tried[i].microbatches, tried[i].chunks, true);
      if (tried[i].neededBytes == 0)
        enough = std::min(enough, takes(tried[i]));
    }
  rankMeshes(tried, options.objective);
  return tried;
}

} // namespace colossal
