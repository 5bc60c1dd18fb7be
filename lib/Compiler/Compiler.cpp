//===- Compiler.cpp - the road from an ONNX file to a plan ------------------===//
//
// Calls the phases in order and carries what lies beside the IR: reports, the code image, the data section.
//
//===----------------------------------------------------------------------===//
#include "MemoryRemedies.h"
#include "MeshSearch.h"
#include "PlanMemory.h"
#include "PlanPrice.h"
#include "colossal/Compiler/Passes.h"

#include "colossal/Cost/Evidence.h"
#include "colossal/Cost/PipelineSchedule.h"
#include "colossal/Outline/Outline.h"
#include "colossal/Output/OutputFile.h"
#include "colossal/Partition/Partition.h"
#include "colossal/Plan/Container.h"
#include "colossal/Plan/Emit.h"
#include "colossal/Plan/Stages.h"
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/NarrowTypes.h"
#include "dialects/Dist/Stages.h"
#include "dialects/Plan/PlanDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Threading.h"

#include <chrono>
#include <set>

using namespace mlir;

namespace colossal {

/// Of images in the code section: whoever loads one may read it in words.
static constexpr uint64_t kImageAlignment = 64;

static constexpr StringRef kPhaseNames[] = {"import",    "outline",  "step", "search",
                                            "partition", "schedule", "plan"};

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

/// Imports `binding`, one of several programs of a model. What it says of it names the program; warnings are
/// held back in `warnings`, each with the programs that it is about, as most are about all of them.
static FailureOr<OwningOpRef<ModuleOp>>
importProgram(MLIRContext *context, const ImportOptions &binding,
              std::vector<std::pair<Diagnostic, std::vector<std::string>>> &warnings) {
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Warning) {
      diagnostic << " (program '" << binding.functionName << "')";
      return failure(); // whoever else handles it
    }
    auto same = llvm::find_if(
        warnings, [text = diagnostic.str()](auto &warning) { return warning.first.str() == text; });
    if (same == warnings.end())
      warnings.emplace_back(std::move(diagnostic), std::vector<std::string>{binding.functionName});
    else if (same->second.back() != binding.functionName)
      same->second.push_back(binding.functionName);
    return success();
  });
  return importOnnx(context, binding);
}

/// Adds the texts of the strings of `from` to those of `to`.
static void addTexts(ModuleOp from, ModuleOp to) {
  std::set<StringRef> texts;
  for (ModuleOp module : {from, to})
    if (auto known = module->getAttrOfType<ArrayAttr>(kTextsAttr))
      for (StringAttr text : known.getAsRange<StringAttr>())
        texts.insert(text.getValue());
  if (!texts.empty())
    to->setAttr(kTextsAttr,
                Builder(to.getContext()).getStrArrayAttr(SmallVector<StringRef>(texts.begin(), texts.end())));
}

/// Imports one function per combination of the dimensions with several values, into one module.
static FailureOr<OwningOpRef<ModuleOp>> importAll(MLIRContext *context, const CompileOptions &options) {
  std::vector<ImportOptions> bindings{options.import};
  bindings.front().checkIndices = true;
  for (const auto &[names, values] : options.manyDims) {
    std::vector<ImportOptions> next;
    for (const ImportOptions &binding : bindings)
      for (int64_t value : values) {
        next.push_back(binding);
        for (const std::string &name : names)
          next.back().dims[name] = value;
        if (values.size() > 1)
          next.back().functionName += "_" + names.front() + std::to_string(value);
      }
    bindings = std::move(next);
  }
  if (bindings.size() == 1)
    return importOnnx(context, bindings.front());
  std::vector<std::pair<Diagnostic, std::vector<std::string>>> warnings;
  bool isWhole = true;
  OwningOpRef<ModuleOp> all;
  for (const ImportOptions &binding : bindings) {
    FailureOr<OwningOpRef<ModuleOp>> one = importProgram(context, binding, warnings);
    if (failed(one)) {
      isWhole = false;
      break;
    }
    if (!all) {
      all = std::move(*one);
      continue;
    }
    addTexts(**one, *all);
    for (auto function : llvm::make_early_inc_range((*one)->getOps<func::FuncOp>())) {
      function->remove();
      all->push_back(function);
    }
  }
  for (auto &[warning, programs] : warnings) {
    if (programs.size() < bindings.size())
      warning << " (program '" << llvm::join(programs, "', '") << "')";
    context->getDiagEngine().emit(std::move(warning));
  }
  if (!isWhole)
    return failure();
  return all;
}

/// Threads of a rank of the machine that is compiled for: its ranks share the host's cores, or this one's, as
/// the runtime shares them.
static unsigned getRankThreads(const plan::Plan &plan, const CompileOptions &options) {
  uint64_t ranks = 0;
  for (const plan::StageView &stage : plan::stagesOf(plan))
    ranks += stage.ranks;
  unsigned cores = llvm::hardware_concurrency().compute_thread_count();
  const cost::Machine &machine = options.layout.machine;
  if (machine.host) {
    cores = static_cast<unsigned>(machine.host->cores);
    ranks = static_cast<uint64_t>(machine.ranksOnHost(static_cast<int64_t>(ranks)));
  }
  return static_cast<unsigned>(std::max<uint64_t>(1, cores / std::max<uint64_t>(1, ranks)));
}

/// What a rank takes of the machine that is compiled for; of all ranks the one that takes most.
static PlanMemory measureMemory(const plan::Plan &plan, const CompileOptions &options) {
  return measurePlan(plan, getRankThreads(plan, options));
}

/// Seconds of one run through stages that take so long each, from the first input to the last output.
static double simulateStages(ArrayRef<PlanPrice> stages) {
  cost::PipelineProblem problem;
  problem.schedule = cost::Schedule::GPipe;
  problem.stages = static_cast<int>(stages.size());
  for (const PlanPrice &price : stages) {
    problem.work.emplace_back().forward = price.total() - price.sending;
    problem.hopSeconds.push_back(price.sending);
  }
  double end = 0;
  for (const cost::PipelineEvent &event : cost::simulate(problem, /*withTimeline=*/true).timeline)
    if (event.pass == cost::PipelineEvent::Forward)
      end = std::max(end, event.end);
  return end;
}

/// Prices a program, or its parts in all stages.
static void predictProgram(ArrayRef<plan::ProgramOp> parts, int64_t ranks, const cost::Machine &machine,
                           CompileResult &result) {
  SmallVector<PlanPrice> prices;
  for (plan::ProgramOp part : parts)
    prices.push_back(pricePlan(part, dist::getMesh(part->getParentOfType<ModuleOp>()), ranks, machine));
  plan::ProgramOp first = parts.front();
  const std::string name = first.getSymName().str();
  PlanPrice all;
  for (const PlanPrice &price : prices) {
    all.computing += price.computing;
    all.moving += price.moving;
    all.communicating += price.communicating;
    all.instructions += price.instructions;
  }
  // Where nothing was measured on the host, the program's time is the search's.
  if (!machine.host)
    return;
  for (size_t s = 0; s < prices.size() && result.stages.size() == prices.size(); ++s)
    result.stages[s].seconds = std::max(result.stages[s].seconds, prices[s].total());
  const double seconds = prices.size() == 1 ? prices.front().total() : simulateStages(prices);
  for (plan::ProgramOp part : parts)
    part.setPredictedSecondsAttr(Builder(part.getContext()).getF64FloatAttr(seconds));
  result.layout.predictedByFunction.erase(name);
  result.predictions.push_back({name, all.computing, all.moving, all.communicating, all.instructions});
  result.layout.summary += "predicted time of program '" + name + "': " + all.describe() + "\n";
}

/// Prices the scheduled programs of `module`, where ranks are threads of a host; says how far to trust what
/// is predicted.
static LogicalResult predictPrograms(ModuleOp module, const CompileOptions &options, CompileResult &result) {
  const cost::Machine &machine = options.layout.machine;
  const int64_t ranks = dist::getNumRanks(module);
  // Of another machine no time goes into the programs, which are for this CPU.
  const bool foreign = !layout::describeForeignTimes(machine).empty();
  if (foreign)
    result.layout.predictedByFunction.clear();
  SmallVector<ModuleOp> stages = dist::getStages(module);
  if (stages.front() != module)
    result.stages.resize(stages.size());
  for (auto program : ModuleOp(stages.front()).getOps<plan::ProgramOp>()) {
    if (program.getRole() == plan::Role::Load || foreign)
      continue;
    SmallVector<plan::ProgramOp> parts;
    for (ModuleOp stage : stages)
      if (auto part = stage.lookupSymbol<plan::ProgramOp>(program.getSymName()))
        parts.push_back(part);
    predictProgram(parts, ranks, machine, result);
  }
  result.layout.summary += "error of predictions: " + cost::describePlanEvidence(machine, ranks) + "\n";
  return success();
}

/// Puts the images of all kernels into the plan's code section, as its one module.
static void addImages(CompileResult &result) {
  const std::vector<codegen::CodeImage> &images = result.code.images;
  if (images.empty())
    return;
  plan::Module &module = *result.plan.add_modules();
  // The one image of a host's code is said as the first version of the schema says it, so that older runtimes
  // read the plan.
  const bool isHosts = images.size() == 1 && images.front().format == codegen::CodeImage::Format::Elf;
  if (!isHosts)
    result.plan.set_version(std::max(result.plan.version(), 2u)); // the first that has images
  for (const codegen::CodeImage &image : images) {
    result.images.resize(llvm::alignTo(result.images.size(), kImageAlignment), '\0');
    auto place = [&](auto &message) {
      message.set_offset(result.images.size());
      message.set_bytes(image.bytes.size());
    };
    if (isHosts) {
      place(module);
    } else {
      plan::Image &added = *module.add_images();
      added.set_format(static_cast<plan::Image::Format>(image.format));
      added.set_architecture(image.architecture);
      place(added);
    }
    result.images += image.bytes;
  }
}

/// The scheduled module as a plan.
static LogicalResult emitPlan(ModuleOp module, const CompileOptions &options, CompileResult &result) {
  plan::EmitOptions emit;
  emit.modelPath = options.import.modelPath;
  emit.planPath = options.planPath;
  emit.device = options.schedule.target->name();
  emit.triple = result.code.triple;
  emit.cpu = result.code.cpu;
  emit.features = result.code.features;
  emit.report.set_compiler_version(COLOSSAL_VERSION);
  emit.report.set_model_path(options.import.modelPath);
  emit.report.set_command_line(options.commandLine);
  emit.report.set_machine(cost::printMachine(options.layout.machine));
  emit.report.set_layouts(result.layout.pins);
  if (failed(predictPrograms(module, options, result)) ||
      failed(plan::emitPlan(module, emit, result.plan, result.data)))
    return failure();
  for (plan::Program &program : *result.plan.mutable_programs())
    if (auto seconds = result.layout.predictedByFunction.find(program.name());
        seconds != result.layout.predictedByFunction.end())
      program.set_predicted_seconds(seconds->second);
  PlanMemory memory = measureMemory(result.plan, options);
  result.memory = memory.list();
  for (auto [stage, ofStage] :
       llvm::zip(result.stages, measureStages(result.plan, getRankThreads(result.plan, options))))
    stage.memory = ofStage.list();
  result.layout.summary += (result.stages.empty() ? "memory of the plan, per rank: "
                                                  : "memory of the plan, on a rank of the largest stage: ") +
                           memory.describe() + "\n";
  result.plan.mutable_report()->set_summary(result.layout.summary);
  addImages(result);
  plan::repairText(result.plan);
  return success();
}

namespace {
/// Tells `begin` when the first pass of a phase begins.
struct PhaseBegins : PassInstrumentation {
  explicit PhaseBegins(const std::function<void(Phase)> &begin) : begin(begin) {}

  void runBeforePass(Pass *pass, Operation *) override {
    auto phase = llvm::StringSwitch<std::optional<Phase>>(pass->getArgument())
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

/// Puts what was cut how before what was laid out how.
static void describeStages(CompileResult &result) {
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
            " operators, from '" + stage.first + "' to '" + stage.last + "'; " +
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

LogicalResult runPhases(ModuleOp module, const CompileOptions &options, Phase from, Phase last,
                        CompileResult &result) {
  if (!module->hasAttr(dist::kMeshAttrName)) {
    FailureOr<dist::MeshAttr> mesh = parseMesh(module.getContext(), options.mesh);
    if (failed(mesh))
      return failure();
    module->setAttr(dist::kMeshAttrName, *mesh);
  }
  PhaseClock clock(module, result);
  std::function<void(Phase)> begin = [&](Phase phase) {
    clock.begin(phase);
    if (options.progress)
      options.progress(getPhaseName(phase));
  };
  PassManager manager(module.getContext());
  manager.addInstrumentation(std::make_unique<PhaseBegins>(begin));
  if (options.configurePasses && failed(options.configurePasses(manager)))
    return failure();
  buildPhases(manager, options, from, std::min(last, Phase::Schedule), &result);
  if (failed(manager.run(module)))
    return failure();
  describeStages(result);
  if (last != Phase::Plan)
    return success();
  begin(Phase::Plan);
  return emitPlan(module, options, result);
}

namespace {
/// A model after import, from which it is compiled as often as it takes.
struct Imported {
  OwningOpRef<ModuleOp> module;
  PhaseTime time;
};
} // namespace

static FailureOr<Imported> importModel(MLIRContext *context, const CompileOptions &options, Phase last) {
  if (options.progress)
    options.progress(getPhaseName(Phase::Import));
  auto begin = std::chrono::steady_clock::now();
  FailureOr<OwningOpRef<ModuleOp>> module = importAll(context, options);
  if (failed(module))
    return failure();
  uint64_t operations = 0;
  (**module).walk([&](Operation *) { ++operations; });
  std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  // All files of the model are known now, and the work of minutes begins.
  if (last == Phase::Plan && !options.planPath.empty())
    if (OutputError error = checkOutput(options.planPath))
      return emitError(UnknownLoc::get(context)) << error.message;
  return Imported{std::move(*module), {getPhaseName(Phase::Import).str(), taken.count(), operations}};
}

/// Compiles within `options.layout.memoryBytes`, where that is given: what the search cannot know (packing,
/// workspaces, scratch) is known of the plan, and then the search is given that much less. Where that is too
/// little for any layout, it is given more again, by bisection. Success: the plan is the smallest found,
/// which may still be too large. `spend`: asked before each compilation but the first, may forbid it.
static LogicalResult compileWithin(const Imported &imported, const CompileOptions &options, Phase last,
                                   const std::function<bool()> &spend, CompileResult &result) {
  auto compileOnce = [&](const CompileOptions &once, CompileResult &of) {
    of.module = imported.module.get().clone();
    return runPhases(*of.module, once, Phase::Import, last, of);
  };
  if (failed(compileOnce(options, result)))
    return failure();
  const uint64_t limit = options.layout.memoryBytes;
  if (limit == 0 || last != Phase::Plan)
    return success();
  CompileOptions tighter = options;
  std::vector<PhaseTime> phases = result.phases;
  PlanMemory memory = measureMemory(result.plan, options);
  uint64_t tooLittle = 0, enough = limit;
  for (int attempt = 0; attempt < 7 && memory.total() > limit; ++attempt) {
    uint64_t beyond = memory.total() - limit + limit / 128;
    // First without what was only for speed.
    if (!tighter.schedule.winograd)
      tighter.layout.memoryBytes =
          enough > tooLittle + beyond ? enough - beyond : tooLittle + (enough - tooLittle) / 2;
    if (enough - tooLittle < limit / 128 || !spend())
      break;
    tighter.schedule.winograd = false;
    if (options.progress)
      options.progress("again, since the plan takes more than --memory");
    CompileResult next;
    ScopedDiagnosticHandler quiet(imported.module.get().getContext(), [](Diagnostic &) { return success(); });
    LogicalResult done = compileOnce(tighter, next);
    llvm::append_range(phases, next.phases);
    if (failed(done)) {
      tooLittle = tighter.layout.memoryBytes;
      continue;
    }
    enough = tighter.layout.memoryBytes;
    PlanMemory found = measureMemory(next.plan, options);
    if (found.total() < memory.total()) {
      result = std::move(next);
      memory = found;
    }
  }
  result.phases = std::move(phases);
  return success();
}

/// Seconds of one run of each program, as far as they are predicted.
static double sumPredictions(const CompileResult &result) {
  if (result.predictions.empty())
    return result.layout.predictedSeconds;
  double seconds = 0;
  for (const ProgramPrediction &program : result.predictions)
    seconds += program.computing + program.moving + program.communicating;
  return seconds;
}

namespace {
/// What is left of a compilation that was tried.
struct Trial {
  /// 0 bytes where it keeps within its limit, else what it needs; none where it fails for another reason.
  std::optional<uint64_t> needed;
  double seconds = 0;                  ///< predicted, where something was compiled
  std::optional<Diagnostic> complaint; ///< the first error
};
} // namespace

/// Compiles without making code. Without a `limit` the machine's own counts, of which only the search knows.
static Trial tryWithin(const Imported &imported, const CompileOptions &options, Phase last, uint64_t limit,
                       const std::function<bool()> &spend) {
  CompileOptions trial = options;
  trial.layout.memoryBytes = limit;
  trial.schedule.compileKernels = false;
  trial.progress = nullptr;
  trial.configurePasses = nullptr;
  Trial left;
  ScopedDiagnosticHandler quiet(imported.module.get().getContext(), [&](Diagnostic &diagnostic) {
    if (!left.complaint && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      left.complaint = std::move(diagnostic);
    return success();
  });
  CompileResult result;
  if (failed(compileWithin(imported, trial, last, spend, result))) {
    if (result.layout.neededBytes)
      left.needed = result.layout.neededBytes;
    return left;
  }
  uint64_t needed = last == Phase::Plan && limit ? measureMemory(result.plan, options).total() : 0;
  left.needed = needed <= limit ? 0 : needed;
  left.seconds = sumPredictions(result);
  return left;
}

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

/// Says what makes a model fit that does not, each by itself, and each tried. `needed`: bytes of a device
/// that are known to be too few, or just enough.
static void suggestRemedies(const Imported &imported, const CompileOptions &options, Phase last,
                            uint64_t limit, uint64_t needed) {
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

/// Compiles for the mesh that the options name; where it does not fit, says what would make it.
static LogicalResult compileForMesh(const Imported &imported, const CompileOptions &options, Phase last,
                                    CompileResult &result) {
  const uint64_t limit = options.layout.memoryBytes;
  if (failed(compileWithin(imported, options, last, [] { return true; }, result))) {
    if (result.layout.neededBytes)
      suggestRemedies(imported, options, last, limit ? limit : result.layout.givenBytes,
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
  suggestRemedies(imported, options, last, limit, memory.total());
  return failure();
}

/// The meshes of `options.devices` ranks that were tried, the best one first. Fails, with a diagnostic, where
/// nothing can be compiled on any of them; that nothing fits is no failure.
static FailureOr<std::vector<TriedMesh>> tryMeshes(const Imported &imported, const CompileOptions &options) {
  MLIRContext *context = imported.module.get().getContext();
  MeshSpace space;
  space.devices = options.devices;
  if (!options.mesh.empty()) {
    FailureOr<dist::MeshAttr> fixed = parseMesh(context, options.mesh);
    if (failed(fixed))
      return failure();
    for (dist::MeshAxisAttr axis : fixed->getAxes())
      space.fixed.push_back({axis.getName().str(), axis.getSize()});
  }
  const cost::Machine &machine = options.layout.machine;
  space.isOrdered = !machine.areRanksAlike(options.devices);
  if (!options.layout.recipe.empty())
    space.recipeAxes = layout::getRecipeAxes(options.layout.recipe);
  constexpr uint64_t kOperations = 20'000, kFewest = 8, kMost = 32;
  space.trials = static_cast<unsigned>(
      std::clamp(kOperations / std::max<uint64_t>(1, imported.time.operations), kFewest, kMost));
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
      searchMeshes(space, options.objective, [&](const std::string &mesh) { return attempt(mesh, false); });
  llvm::erase_if(tried, [](const TriedMesh &mesh) { return !mesh.isPossible; });
  if (tried.empty()) {
    if (complaint)
      context->getDiagEngine().emit(std::move(*complaint));
    InFlightDiagnostic diagnostic = emitError(imported.module.get().getLoc());
    diagnostic << "nothing can be compiled on any mesh of " << options.devices << " devices";
    if (space.recipeAxes > 1u)
      diagnostic << ": --layout " << options.layout.recipe << " takes one of " << *space.recipeAxes
                 << " axes, so that the devices must be a product of as many numbers above 1";
    if (!options.layout.pins.empty())
      diagnostic << " with these pins: axes that they name must be given by --mesh, as in --mesh data=2";
    return diagnostic;
  }
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

LogicalResult compile(MLIRContext *context, const CompileOptions &options, Phase last,
                      CompileResult &result) {
  if (options.devices == 0 && failed(parseMesh(context, options.mesh)))
    return failure();
  FailureOr<Imported> imported = importModel(context, options, last);
  if (failed(imported))
    return failure();
  CompileOptions chosen = options;
  std::vector<TriedMesh> meshes;
  std::vector<PhaseTime> phases{imported->time};
  if (options.devices > 0) {
    auto begin = std::chrono::steady_clock::now();
    FailureOr<std::vector<TriedMesh>> tried = tryMeshes(*imported, options);
    if (failed(tried))
      return failure();
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    phases.push_back({"mesh", taken.count(), imported->time.operations});
    meshes = std::move(*tried);
    chosen.mesh = meshes.front().mesh;
  }
  LogicalResult done = compileForMesh(*imported, chosen, last, result);
  if (failed(done) && meshes.size() > 1) {
    std::string others;
    for (const TriedMesh &mesh : llvm::drop_begin(meshes))
      others += (others.empty() ? "" : ", ") + mesh.mesh;
    context->getDiagEngine().emit(UnknownLoc::get(context), DiagnosticSeverity::Note)
        << "this is on mesh " << meshes.front().mesh << ", which needs the least of those of "
        << options.devices << " devices that were tried; the others are " << others;
  }
  result.meshes = std::move(meshes);
  result.phases.insert(result.phases.begin(), phases.begin(), phases.end());
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
