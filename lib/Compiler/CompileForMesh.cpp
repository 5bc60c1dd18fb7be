//===- CompileForMesh.cpp - a plan for one mesh, or why there is none -------===//
#include "CompileForMesh.h"

#include "MemoryRemedies.h"
#include "MeshTrials.h"
#include "PlanPhase.h"
#include "Trials.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace colossal {

/// Compilations that the remedies of a refusal may take, by the operations that each has to do with: of a
/// small model as many as can be of use, of the largest still those that give an answer. So the time is
/// bounded by a multiple of the first compilation's, and the answer is the same on any machine.
static int countTrials(const Imported &imported) {
  constexpr uint64_t kOperations = 200'000, kFewest = 12, kMost = 100;
  return static_cast<int>(
      std::clamp(kOperations / std::max<uint64_t>(1, imported.time.operations), kFewest, kMost));
}

/// Place in `manyDims` of the batch, the first dimension of an input; their number where there is none.
static size_t findBatch(MLIRContext *context, const CompileOptions &options) {
  FailureOr<std::vector<ModelInput>> inputs = listInputs(context, options.import.modelPath);
  if (failed(inputs))
    return options.manyDims.size();
  for (auto [i, dim] : llvm::enumerate(options.manyDims))
    for (const ModelInput &input : *inputs)
      if (dim.values.size() == 1 && !input.shape.empty() &&
          (llvm::is_contained(dim.names, "batch") || llvm::is_contained(dim.names, input.shape[0].name)))
        return i;
  return options.manyDims.size();
}

/// What the best mesh of so many devices needs that --devices finds. Each that is tried is a trial of the
/// search.
static std::optional<uint64_t> tryDevices(const Imported &imported, CompileOptions asked, int64_t devices,
                                          RemedySearch &search) {
  asked.devices = devices;
  std::string obstacle;
  ScopedDiagnosticHandler quiet(imported.module.get().getContext(), [](Diagnostic &) { return success(); });
  FailureOr<std::vector<TriedMesh>> tried = tryMeshes(imported, asked, obstacle);
  if (failed(tried))
    return std::nullopt;
  for (size_t i = 1; i < tried->size(); ++i) // one is spent for the question
    search.spend();
  return tried->front().neededBytes;
}

/// Says what makes a model fit that does not, each by itself, and each tried. `needed`: bytes of a device
/// that are known to be too few, or just enough.
static void suggestRemedies(const Imported &imported, const CompileOptions &asked,
                            const CompileOptions &options, Phase last, uint64_t limit, uint64_t needed) {
  MLIRContext *context = imported.module.get().getContext();
  RemedySearch search;
  search.trials = countTrials(imported);
  search.progress = [&](const std::string &what) {
    if (options.progress)
      options.progress("would it fit with " + what + "?");
  };
  auto spend = [&search] { return search.spend(); };
  search.limit = limit;
  search.needed = needed;
  FailureOr<dist::MeshAttr> mesh = parseMesh(context, options.mesh);
  search.ranks = succeeded(mesh) ? mesh->getNumRanks() : 1;
  search.countsDevices = options.devices > 0;
  const cost::Machine &machine = options.layout.machine;
  search.devices = machine.devices();
  // Pins name the axes of the mesh that they were written for; and more ranks of one host share its memory.
  bool isShared = machine.host && !options.layout.memoryBytes &&
                  machine.ranksOnHost(2 * search.ranks) > machine.ranksOnHost(search.ranks);
  search.triesMeshes = options.layout.pins.empty() && !isShared;
  search.tryMemory = [&](uint64_t memory) {
    return tryWithin(imported, options, last, memory, spend).needed;
  };
  search.tryMesh = [&](const std::string &text, bool whole) {
    if (search.countsDevices && whole)
      return tryDevices(imported, asked, parseMesh(context, text)->getNumRanks(), search);
    CompileOptions other = options;
    other.mesh = text;
    return tryWithin(imported, other, whole ? last : std::min(last, Phase::Search), limit, spend).needed;
  };
  size_t batch = findBatch(context, options);
  if (batch < options.manyDims.size()) {
    search.batchName = llvm::join(options.manyDims[batch].names, ",");
    search.batch = options.manyDims[batch].values.front();
  }
  search.tryBatch = [&](int64_t size, bool whole) -> std::optional<uint64_t> {
    CompileOptions other = options;
    other.manyDims[batch].values = {size};
    other.progress = nullptr;
    ScopedDiagnosticHandler quiet(context, [](Diagnostic &) { return success(); });
    FailureOr<Imported> smaller = importModel(context, other, Phase::Import);
    if (failed(smaller))
      return std::nullopt;
    return tryWithin(*smaller, other, whole ? last : std::min(last, Phase::Search), limit, spend).needed;
  };
  for (const std::string &remedy : findRemedies(search))
    context->getDiagEngine().emit(UnknownLoc::get(context), DiagnosticSeverity::Note) << remedy;
}

LogicalResult compileForMesh(const Imported &imported, const CompileOptions &asked,
                             const CompileOptions &options, Phase last, CompileResult &result) {
  const uint64_t limit = options.layout.memoryBytes;
  if (failed(compileWithin(imported, options, last, [] { return true; }, result))) {
    if (result.layout.neededBytes)
      suggestRemedies(imported, asked, options, last, limit ? limit : result.layout.givenBytes,
                      result.layout.neededBytes);
    return failure();
  }
  if (limit == 0 || last != Phase::Plan)
    return success();
  PlanMemory memory = measureMemory(result.plan, options);
  if (memory.total() <= limit)
    return success();
  emitError(imported.module.get().getLoc())
      << "the plan does not fit: a device has " << limit << " bytes, and a rank needs " << memory.total()
      << ", " << memory.total() - limit << " more: " << memory.describe();
  suggestRemedies(imported, asked, options, last, limit, memory.total());
  return failure();
}

} // namespace colossal
