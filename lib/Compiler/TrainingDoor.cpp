//===- TrainingDoor.cpp - options of a training step, made whole --------------===//
#include "colossal/Compiler/Compiler.h"

#include "ImportPhase.h"
#include "dialects/Dist/Stages.h"

using namespace mlir;

namespace colossal {

/// The size that an option gives the dimension called `name`; none: no option does.
static std::optional<int64_t> findBound(const CompileOptions &options, const std::string &name) {
  if (auto known = options.import.dims.find(name); known != options.import.dims.end())
    return known->second;
  for (const DimValues &dim : options.manyDims)
    if (llvm::is_contained(dim.names, name) && dim.values.size() == 1)
      return dim.values.front();
  return std::nullopt;
}

static LogicalResult bindBatch(MLIRContext *context, CompileOptions &options) {
  const int64_t batch = options.training->globalBatch;
  Location loc = UnknownLoc::get(context);
  FailureOr<std::vector<ModelInput>> inputs = listInputs(context, options.import.modelPath);
  if (failed(inputs))
    return failure();
  // 'batch' stands for the first dimension where names are lost.
  if (std::optional<int64_t> given = findBound(options, "batch"); given && *given != batch)
    return emitError(loc) << "--dim batch=" << *given << " and --global-batch " << batch
                          << " say two things of one batch; leave out --dim batch";
  for (const ModelInput &input : *inputs) {
    if (options.import.values.count(input.name))
      continue;
    if (auto shape = options.import.shapes.find(input.name); shape != options.import.shapes.end()) {
      if (!shape->second.empty() && shape->second.front() != batch && shape->second.front() != 1)
        return emitError(loc) << "--shape " << input.name << " has " << shape->second.front()
                              << " samples, and --global-batch says " << batch;
      continue;
    }
    for (auto [d, dim] : llvm::enumerate(input.shape)) {
      const bool isBatch = options.batchDimension.empty() ? d == 0 : dim.name == options.batchDimension;
      if (!isBatch || dim.size >= 0)
        continue;
      if (std::optional<int64_t> given = findBound(options, dim.name)) {
        if (*given != batch && dim.name != "batch")
          return emitError(loc) << "--dim " << dim.name << "=" << *given << ": that is the batch of input '"
                                << input.name << "', and --global-batch says " << batch;
        continue;
      }
      options.import.dims[dim.name] = batch;
    }
  }
  return success();
}

/// Settles the schedule of stages and their chunks; returns what does not go together, and what to do, or "".
static std::string completeSchedule(CompileOptions &options, int64_t stages) {
  if (!options.pipelineSchedule)
    return "";
  const cost::Schedule schedule = *options.pipelineSchedule;
  const std::string option = std::string("--pipeline-schedule ") + cost::toString(schedule);
  const bool isV = schedule == cost::Schedule::ZeroBubbleV, isMany = schedule == cost::Schedule::Interleaved;
  if (stages < 2)
    return option + ": the mesh has no stages that could follow it: give it an axis 'stage' of two or more, "
                    "as in --mesh stage=2";
  if (isMany && options.chunks == 1)
    return option + " has at least 2 chunks a stage, and --chunks says 1";
  if (isV && options.chunks > 0 && options.chunks != 2)
    return option + " has 2 chunks a stage, and --chunks says " + std::to_string(options.chunks);
  if (!isV && !isMany && options.chunks > 1)
    return option + " has one chunk a stage, and --chunks says " + std::to_string(options.chunks) +
           "; interleaved takes 2 or more, zb-v takes 2";
  if ((isV || isMany) && options.chunks == 0)
    options.chunks = 2;
  return "";
}

/// What of the microbatches does not go with the batch and the order of passes, and what to do; or "".
/// `dataRanks` have samples of their own of each microbatch.
static std::string checkTurns(const CompileOptions &options, int64_t stages, int64_t dataRanks) {
  const int64_t batch = options.training->globalBatch, turns = std::max<int64_t>(1, options.microbatches);
  const cost::Schedule schedule = getPipelineSchedule(options);
  const bool inRounds = stages > 1 && options.chunks > 1 && schedule == cost::Schedule::Interleaved;
  const int64_t round = inRounds ? stages : 1;
  if (batch % turns == 0 && turns % round == 0)
    return "";
  std::string wrong = options.microbatches > 0 ? "--microbatches " + std::to_string(turns) : "";
  if (batch % turns != 0)
    wrong += " do not divide the " + std::to_string(batch) + " samples of --global-batch";
  else
    wrong += (wrong.empty() ? "" : ": ") +
             ("the interleaved schedule goes in rounds over its " + std::to_string(stages) + " stages");
  // The nearest number on either side that would do.
  int64_t below = turns, above = turns;
  auto fits = [&](int64_t count) { return batch % count == 0 && count % round == 0; };
  while (below > 0 && !fits(below))
    --below;
  while (above <= batch && !fits(above))
    ++above;
  const int64_t whole = round * dataRanks; // a round with a sample for each rank
  if (below == 0 && above > batch)
    return wrong + ": a --global-batch of " + std::to_string((batch / whole + 1) * whole) +
           " with --microbatches " + std::to_string(round) + " would do";
  return wrong + ": --microbatches " + (below > 0 ? std::to_string(below) : "") +
         (below > 0 && above <= batch ? " or " : "") + (above <= batch ? std::to_string(above) : "") +
         " would do";
}

/// Says what to do where ranks have no axes that a ZeRO stage goes over; or "".
static std::string checkZero(const CompileOptions &options, dist::MeshAttr mesh) {
  const int zero = options.training->zero;
  if (zero <= 0 || mesh.getNumRanks() == 1 || mesh.findAxis("data") >= 0 || mesh.findAxis("context") >= 0)
    return "";
  return "--zero " + std::to_string(zero) +
         " goes over the axes 'data' and 'context', and the mesh has neither; name them, as in --mesh "
         "data=2,model=2";
}

FailureOr<CompileOptions> completeTraining(MLIRContext *context, const CompileOptions &options) {
  CompileOptions complete = options;
  complete.training->modelPath = options.import.modelPath;
  complete.training->hasRecipe = !options.layout.recipe.empty();
  training::adaptImport(*options.training, complete.import);
  Location loc = UnknownLoc::get(context);
  int64_t stages = 1, dataRanks = 1;
  std::string wrong;
  if (!options.mesh.empty()) {
    FailureOr<dist::MeshAttr> mesh = parseMesh(context, options.mesh);
    if (failed(mesh))
      return failure();
    if (int64_t axis = mesh->findAxis(dist::kStageAxis); axis >= 0)
      stages = mesh->getAxisSize(axis);
    if (int64_t axis = mesh->findAxis("data"); axis >= 0)
      dataRanks = mesh->getAxisSize(axis);
    if (options.devices == 0)
      wrong = checkZero(options, *mesh);
  }
  if (wrong.empty())
    wrong = completeSchedule(complete, stages);
  if (wrong.empty())
    wrong = checkTurns(complete, stages, dataRanks);
  if (!wrong.empty()) {
    emitError(loc) << wrong;
    return failure();
  }
  if (failed(bindBatch(context, complete)))
    return failure();
  return complete;
}

FailureOr<std::vector<training::ParameterInfo>> listParameters(MLIRContext *context,
                                                               const CompileOptions &options) {
  CompileOptions complete = options;
  // Any size will do: what is trained does not depend on it.
  constexpr int64_t kAssumedSize = 8;
  complete.import.assumedSize = kAssumedSize;
  if (!complete.training)
    complete.training.emplace();
  complete.training->modelPath = options.import.modelPath;
  training::adaptImport(*complete.training, complete.import);
  ScopedDiagnosticHandler handler(context, [](Diagnostic &diagnostic) {
    return success(diagnostic.getSeverity() == DiagnosticSeverity::Warning);
  });
  FailureOr<Imported> imported = importModel(context, complete, Phase::Import);
  if (failed(imported))
    return failure();
  return training::listParameters(*imported->module, *complete.training);
}

} // namespace colossal
