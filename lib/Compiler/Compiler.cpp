//===- Compiler.cpp - the road from an ONNX file to a plan ------------------===//
//
// Calls the phases in order and carries what lies beside the IR: reports, the code image, the data section.
//
//===----------------------------------------------------------------------===//
#include "CompileAhead.h"
#include "CompileForMesh.h"
#include "MeshTrials.h"
#include "PlanPhase.h"
#include "StageTimes.h"
#include "colossal/Compiler/Passes.h"

#include "colossal/Cost/CostModel.h"
#include "colossal/Layout/Device.h"
#include "colossal/Partition/Partition.h"
#include "colossal/Plan/Container.h"
#include "colossal/Step/PropagateBatch.h"
#include "colossal/Training/Training.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/State.h"
#include "dialects/Plan/PlanDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

#include <chrono>

using namespace mlir;

namespace colossal {

static constexpr StringRef kPhaseNames[] = {"import", "precision", "differentiate", "outline", "step",
                                            "search", "partition", "schedule",      "plan"};

std::optional<Phase> parsePhase(StringRef name) {
  for (auto [i, phase] : llvm::enumerate(kPhaseNames))
    if (phase == name)
      return static_cast<Phase>(i);
  return std::nullopt;
}

StringRef getPhaseName(Phase phase) {
  return kPhaseNames[static_cast<unsigned>(phase)];
}

void registerDialects(DialectRegistry &registry) {
  registry.insert<ColossalDialect, dist::DistDialect, plan::PlanDialect, arith::ArithDialect,
                  func::FuncDialect, math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                  shard::ShardDialect, vector::VectorDialect>();
}

FailureOr<dist::MeshAttr> parseMesh(MLIRContext *context, StringRef text) {
  Location loc = UnknownLoc::get(context);
  auto fail = [&](const Twine &why) {
    emitError(loc) << "--mesh '" << text << "': " << why
                   << "; write sizes as 2x2, or names and sizes as data=2,model=4";
    return failure();
  };
  bool named = text.contains('=');
  SmallVector<StringRef> parts;
  text.split(parts, named ? ',' : 'x');
  static constexpr StringRef defaults[] = {"x",  "y",   "z",   "w",   "a5",  "a6",  "a7",  "a8",
                                           "a9", "a10", "a11", "a12", "a13", "a14", "a15", "a16"};
  if (parts.size() > std::size(defaults))
    return fail("at most " + Twine(std::size(defaults)) + " axes are supported");
  SmallVector<dist::MeshAxisAttr> axes;
  int64_t ranks = 1;
  for (auto [i, part] : llvm::enumerate(parts)) {
    StringRef name = defaults[i], size = part;
    if (named)
      std::tie(name, size) = part.split('=');
    int64_t value;
    if (name.trim().empty() || size.trim().getAsInteger(10, value) || value < 1 || value > 65536)
      return fail("'" + part + "' is not an axis of 1 to 65536 ranks");
    for (dist::MeshAxisAttr other : axes)
      if (other.getName() == name.trim())
        return fail("axis '" + name.trim() + "' is given twice");
    if ((ranks *= value) > (1 << 20))
      return fail("more than 2^20 ranks");
    axes.push_back(dist::MeshAxisAttr::get(context, StringAttr::get(context, name.trim()), value));
  }
  return dist::MeshAttr::get(context, axes);
}

FailureOr<dist::MeshAttr> makeMesh(MLIRContext *context, const CompileOptions &options) {
  FailureOr<dist::MeshAttr> mesh = parseMesh(context, options.mesh);
  if (failed(mesh) || options.microbatches <= 1)
    return mesh;
  if (mesh->findAxis(step::kMicrobatchAxis) >= 0) {
    emitError(UnknownLoc::get(context))
        << "--mesh '" << options.mesh << "': an axis is called '" << step::kMicrobatchAxis
        << "', as the loop over microbatches is; give it another name";
    return failure();
  }
  return step::addMicrobatches(*mesh, options.microbatches);
}

cost::Schedule getPipelineSchedule(const CompileOptions &options) {
  return options.pipelineSchedule.value_or(options.chunks > 1 ? cost::Schedule::Interleaved
                                                              : cost::Schedule::OneFOneB);
}

std::string checkChunks(const CompileOptions &options, dist::MeshAttr mesh) {
  if (options.chunks <= 1)
    return "";
  const std::string given = "--chunks " + std::to_string(options.chunks);
  if (options.devices > 0) { // the mesh is searched, and for latency the microbatches, too
    if (options.objective == Objective::Throughput && options.microbatches <= 1)
      return given + ": for --objective throughput no microbatches are searched, and chunks need some: give "
                     "their number, as in --microbatches 8, or leave --chunks out";
    return "";
  }
  if (!step::getStageMesh(mesh))
    return given +
           ": the mesh has no stages that could have chunks: give it an axis 'stage' of two or more, as "
           "in --mesh stage=2";
  if (options.microbatches <= 1 && !options.training) // a step has two passes of each chunk
    return given +
           ": stages with chunks work at the same time on microbatches only: give their number, as in "
           "--microbatches 8";
  return "";
}

std::optional<uint64_t> parseBytes(StringRef text) {
  size_t digits = std::min(text.find_first_not_of("0123456789.eE+"), text.size());
  double value;
  if (text.take_front(digits).getAsDouble(value) || !(value > 0))
    return std::nullopt;
  double unit = llvm::StringSwitch<double>(text.drop_front(digits))
                    .Cases({"", "B"}, 1)
                    .Cases({"kB", "KB"}, 1e3)
                    .Case("MB", 1e6)
                    .Case("GB", 1e9)
                    .Case("TB", 1e12)
                    .Cases({"K", "KiB"}, 1024)
                    .Cases({"M", "MiB"}, 1048576)
                    .Cases({"G", "GiB"}, 1073741824)
                    .Case("TiB", 1099511627776)
                    .Default(0);
  if (unit == 0 || value * unit > 9e18 || value * unit < 1)
    return std::nullopt;
  return static_cast<uint64_t>(value * unit);
}

namespace {
/// Tells `begin` when the first pass of a phase begins.
struct PhaseBegins : PassInstrumentation {
  explicit PhaseBegins(const std::function<void(Phase)> &begin) : begin(begin) {}

  void runBeforePass(Pass *pass, Operation *) override {
    auto phase = llvm::StringSwitch<std::optional<Phase>>(pass->getArgument())
                     .Case("colossal-set-precision", Phase::Precision)
                     .Case("colossal-differentiate", Phase::Differentiate)
                     .Case("colossal-outline-blocks", Phase::Outline)
                     .Case("colossal-inline-blocks", Phase::Step)
                     .Case("colossal-search-layouts", Phase::Search)
                     .Case("colossal-partition", Phase::Partition)
                     .Case("colossal-schedule", Phase::Schedule)
                     .Default(std::nullopt);
    if (phase)
      begin(*phase);
  }

  const std::function<void(Phase)> &begin;
};

/// Notes how long each phase of `module` takes, from where it begins to where the next one does.
class PhaseClock {
public:
  PhaseClock(ModuleOp module, CompileResult &result) : module(module), result(result) {}
  ~PhaseClock() { end(); }

  void begin(Phase next) {
    end();
    phase = next;
    since = std::chrono::steady_clock::now();
  }
  void end() {
    if (!phase)
      return;
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - since;
    uint64_t operations = 0;
    module.walk([&](Operation *) { ++operations; });
    result.phases.push_back({getPhaseName(*phase).str(), taken.count(), operations});
    phase.reset();
  }

private:
  ModuleOp module;
  CompileResult &result;
  std::optional<Phase> phase;
  std::chrono::steady_clock::time_point since;
};
} // namespace

void describeStages(CompileResult &result) {
  const step::StepReport &step = result.step;
  if (step.stages.empty())
    return;
  auto printed = [](uint64_t bytes) {
    return bytes < 1048576 ? llvm::formatv("{0:F1} KiB", double(bytes) / 1024).str()
                           : llvm::formatv("{0:F1} MiB", double(bytes) / 1048576).str();
  };
  double all = 0;
  for (const step::StageInfo &stage : step.stages)
    all += stage.seconds;
  std::string text = "stages: " + step.why + "\n";
  for (auto [s, stage] : llvm::enumerate(step.stages)) {
    text += "stage " + std::to_string(s) + " (rank" +
            (stage.ranks > 1 ? "s " + std::to_string(stage.firstRank) + " to " : " ") +
            std::to_string(stage.firstRank + stage.ranks - 1) + "): " + std::to_string(stage.ops) +
            " operators, ";
    for (auto [c, chunk] : llvm::enumerate(stage.chunks))
      text += (c ? " and " : "") + std::string("from '") + chunk.first + "' to '" + chunk.last + "'";
    text += "; " +
            llvm::formatv("{0:F0} % of the time, parameters of {1}, {2:F0} % of all",
                          100 * stage.seconds / all, printed(stage.weightBytes),
                          100 * double(stage.weightBytes) / double(std::max<uint64_t>(1, step.weightBytes)))
                .str();
    for (const step::StageMessage &message : step.messages)
      if (message.from == static_cast<int64_t>(s))
        text += "; sends '" + message.name + "', " + printed(message.bytes) + ", to stage " +
                std::to_string(message.to);
    text += "\n";
  }
  result.layout.summary = text + result.layout.summary;
  result.layout.explanation = text + result.layout.explanation;
  result.layout.pins = step.pins + result.layout.pins;
}

static std::string getName(const TriedMesh &mesh) {
  return mesh.mesh +
         (mesh.microbatches > 1 ? " in " + std::to_string(mesh.microbatches) + " microbatches" : "") +
         (mesh.chunks > 1 ? " and " + std::to_string(mesh.chunks) + " chunks of a stage" : "");
}

std::string describeMeshes(const CompileOptions &options, const CompileResult &result) {
  if (result.meshes.empty())
    return "";
  constexpr size_t kShown = 5;
  const bool isLatency = options.objective == Objective::Latency;
  std::string text = llvm::formatv("mesh: {0}, of {1} tried for {2} devices; predicted {3}:\n",
                                   getName(result.meshes.front()), result.meshes.size(), options.devices,
                                   isLatency ? "latency" : "throughput")
                         .str();
  size_t width = 16;
  for (const TriedMesh &mesh : ArrayRef(result.meshes).take_front(kShown))
    width = std::max(width, getName(mesh).size());
  for (const TriedMesh &mesh : ArrayRef(result.meshes).take_front(kShown)) {
    text += "  " + getName(mesh) + std::string(width + 1 - getName(mesh).size(), ' ');
    if (mesh.neededBytes > 0)
      text += llvm::formatv("does not fit, needs {0} bytes a device\n", mesh.neededBytes).str();
    else if (isLatency)
      text += llvm::formatv("{0:F2} ms\n", mesh.seconds * 1e3).str();
    else
      text += llvm::formatv("{0:F2} runs/s\n", mesh.runsPerSecond).str();
  }
  if (result.meshes.size() > kShown)
    text += "  and " + std::to_string(result.meshes.size() - kShown) + " others\n";
  if (!result.microbatchObstacle.empty())
    text += "no microbatches were tried: " + result.microbatchObstacle + "\n";
  return text;
}

/// Makes of what the search predicts for each stage what it takes to go through all of them.
static void predictSearchedStages(const CompileOptions &options, CompileResult &result) {
  layout::LayoutReport &layout = result.layout;
  const size_t stages = layout.predictedByStage.size();
  if (stages == 0)
    return;
  const cost::CostModel network(options.layout.machine);
  const auto ranks = static_cast<int>(result.step.stages.front().ranks);
  const int all = ranks * static_cast<int>(stages);
  std::vector<double> sending(stages, 0);
  for (const step::StageMessage &message : result.step.messages)
    sending[message.from] +=
        network.seconds(cost::Collective::Permute, static_cast<double>(message.bytes) / ranks,
                        {static_cast<int>(stages), ranks, all});
  // The search knows a stage as a whole: its chunks share that as they did when they were cut.
  auto getWork = [&](size_t s, double computing) {
    const step::StageInfo &stage = result.step.stages[s];
    StageWork work;
    for (const step::ChunkInfo &chunk : stage.chunks)
      work.chunks.push_back({stage.seconds > 0 ? computing * (chunk.seconds / stage.seconds)
                                               : computing / static_cast<double>(stage.chunks.size()),
                             sending[s] / static_cast<double>(stage.chunks.size())});
    return work;
  };
  layout.predictedSeconds = 0;
  for (auto &[name, seconds] : layout.predictedByFunction) {
    std::vector<StageWork> work;
    for (size_t s = 0; s < stages; ++s)
      work.push_back(getWork(s, layout.predictedByStage[s][name]));
    const StageTimes times = simulateStages(work, result.microbatches, {});
    seconds = times.seconds;
    layout.predictedSeconds += times.seconds;
    result.searchedInterval += times.interval;
  }
}

LogicalResult runPhases(ModuleOp module, const CompileOptions &options, Phase from, Phase last,
                        CompileResult &result) {
  if (!module->hasAttr(dist::kMeshAttrName)) {
    FailureOr<dist::MeshAttr> mesh = makeMesh(module.getContext(), options);
    if (failed(mesh))
      return failure();
    module->setAttr(dist::kMeshAttrName, *mesh);
  }
  if (options.schedule.target && options.schedule.target->name() != "cpu")
    module->setAttr(layout::kDeviceAttrName,
                    StringAttr::get(module.getContext(), options.schedule.target->name()));
  PhaseClock clock(module, result);
  std::function<void(Phase)> begin = [&](Phase phase) {
    clock.begin(phase);
    if (options.progress)
      options.progress(getPhaseName(phase));
  };
  PassManager manager(module.getContext());
  manager.enableVerifier(false); // the pass that closes a phase verifies what all of its passes have left
  manager.addInstrumentation(std::make_unique<PhaseBegins>(begin));
  if (options.configurePasses && failed(options.configurePasses(manager)))
    return failure();
  buildPhases(manager, options, from, std::min(last, Phase::Schedule), &result, &result.kernels);
  if (failed(manager.run(module)))
    return failure();
  result.microbatches = dist::getMesh(module).getNumTurns();
  predictSearchedStages(options, result);
  if (result.microbatches > 1)
    result.layout.summary += "microbatches: " + std::to_string(result.microbatches) + "\n";
  if (DictionaryAttr training = dist::getTraining(module))
    if (auto samples = training.getAs<IntegerAttr>(training::kStatisticsOverAttrName))
      result.layout.summary += "batch statistics: of " + std::to_string(samples.getInt()) +
                               " samples each, a rank's part of a microbatch; --sync-batch-norm takes those "
                               "of all ranks\n";
  if (result.recompute != Recompute::None)
    result.layout.summary += "recompute: " + describe(result.recompute).str() + "\n";
  describeStages(result);
  if (last != Phase::Plan)
    return finishKernels(module, result);
  begin(Phase::Plan);
  return emitPlan(module, options, result);
}

LogicalResult compile(MLIRContext *context, const CompileOptions &given, Phase last, CompileResult &result) {
  CompileOptions options = given;
  if (options.training) {
    FailureOr<CompileOptions> complete = completeTraining(context, given);
    if (failed(complete)) {
      result.contradicts = true;
      return failure();
    }
    options = std::move(*complete);
  }
  if (options.devices == 0 && failed(makeMesh(context, options)))
    return failure();
  if (last == Phase::Plan && options.schedule.compileKernels && options.schedule.target)
    result.kernels = schedule::prepareKernels(*context, options.schedule);
  std::function<void(OwningOpRef<ModuleOp>)> shorter;
  if (result.kernels && result.kernels->compilesAhead() && canCompileAhead(options))
    shorter = [&](OwningOpRef<ModuleOp> module) {
      options.schedule.ahead = compileAhead(*module, options, *result.kernels);
    };
  FailureOr<Imported> imported = importModel(context, options, last, shorter);
  if (failed(imported))
    return failure();
  CompileOptions chosen = options;
  std::vector<TriedMesh> meshes;
  std::vector<PhaseTime> phases{imported->time};
  if (options.devices > 0) {
    auto begin = std::chrono::steady_clock::now();
    FailureOr<std::vector<TriedMesh>> tried = tryMeshes(*imported, options, result.microbatchObstacle);
    if (failed(tried))
      return failure();
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    phases.push_back({"mesh", taken.count(), imported->time.operations});
    meshes = std::move(*tried);
    chosen.mesh = meshes.front().mesh;
    chosen.microbatches = meshes.front().microbatches;
    chosen.chunks = meshes.front().chunks;
  }
  LogicalResult done = compileForMesh(*imported, options, chosen, last, result);
  if (failed(done) && meshes.size() > 1) {
    std::string others;
    for (const TriedMesh &mesh : llvm::drop_begin(meshes))
      others += (others.empty() ? "" : ", ") + getName(mesh);
    context->getDiagEngine().emit(UnknownLoc::get(context), DiagnosticSeverity::Note)
        << "this is on mesh " << getName(meshes.front()) << ", which needs the least of those of "
        << options.devices << " devices that were tried; the others are " << others;
  }
  result.meshes = std::move(meshes);
  result.phases.insert(result.phases.begin(), phases.begin(), phases.end());
  result.remains.push_back(std::make_shared<Imported>(std::move(*imported)));
  return done;
}

OutputError writePlanFile(const CompileResult &result, const std::string &path) {
  if (OutputError error = checkOutput(path))
    return error;
  auto view = [](const std::string &bytes) {
    return plan::ByteView{reinterpret_cast<const std::byte *>(bytes.data()), bytes.size()};
  };
  plan::Status status = plan::writePlan(path, result.plan, view(result.images), view(result.data));
  return status.ok() ? OutputError() : OutputError{OutputError::System, status.message()};
}

} // namespace colossal
