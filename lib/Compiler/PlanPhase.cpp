//===- PlanPhase.cpp - a scheduled module as a plan -------------------------===//
#include "PlanPhase.h"

#include "PlanPrice.h"
#include "StageTimes.h"
#include "colossal/Cost/Evidence.h"
#include "colossal/Layout/CostTypes.h"
#include "colossal/Layout/Device.h"
#include "colossal/Outline/OpNames.h"
#include "colossal/Partition/Partition.h"
#include "colossal/Plan/Emit.h"
#include "colossal/Plan/Stages.h"
#include "dialects/Dist/Stages.h"
#include "dialects/Dist/State.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Threading.h"

using namespace mlir;

namespace colossal {

/// Of images in the code section: whoever loads one may read it in words.
static constexpr uint64_t kImageAlignment = 64;

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

PlanMemory measureMemory(const plan::Plan &plan, const CompileOptions &options) {
  return measurePlan(plan, getRankThreads(plan, options));
}

/// Prices the parts of a program in all stages, with all of them at work.
static SmallVector<PlanPrice> priceParts(ArrayRef<plan::ProgramOp> parts, int64_t ranks, int64_t working,
                                         const cost::Machine &machine) {
  SmallVector<PlanPrice> prices;
  for (plan::ProgramOp part : parts) {
    dist::MeshAttr mesh = dist::getMesh(part->getParentOfType<ModuleOp>());
    prices.push_back(pricePlan(part, mesh, ranks, std::min(working * mesh.getNumRanks(), ranks), machine));
  }
  return prices;
}

static double sumTotals(ArrayRef<PlanPrice> prices) {
  double seconds = 0;
  for (const PlanPrice &price : prices)
    seconds += price.total();
  return seconds;
}

/// What a run of a program takes whose parts, one a stage, share the host with `ranks` ranks; `prices`: while
/// as many stages work as do most of the time, all in microbatches, else one.
static StageTimes timeStages(ArrayRef<plan::ProgramOp> parts, int64_t ranks, int64_t microbatches,
                             cost::Schedule schedule, const cost::Machine &machine,
                             SmallVector<PlanPrice> &prices) {
  const auto stages = static_cast<int64_t>(parts.size());
  SmallVector<PlanPrice> alone = priceParts(parts, ranks, 1, machine);
  std::vector<double> slowdown{1};
  for (int64_t working = 2; working <= stages; ++working)
    slowdown.push_back(sumTotals(priceParts(parts, ranks, working, machine)) / sumTotals(alone));
  // Instructions keep what they were priced at last.
  prices = priceParts(parts, ranks, microbatches > 1 ? stages : 1, machine);
  std::vector<StageWork> work;
  size_t chunks = 1;
  for (const PlanPrice &price : alone)
    chunks = std::max(chunks, price.chunks.size());
  for (PlanPrice &price : alone) {
    StageWork &stage = work.emplace_back();
    price.chunks.resize(chunks);
    if (chunks == 1 && microbatches == 1)
      price.chunks.front() = {price.total(), price.sending};
    stage.once = price.total();
    for (const PlanPrice::Chunk &chunk : price.chunks) {
      stage.once -= chunk.seconds;
      stage.chunks.push_back({chunk.seconds - chunk.sending, chunk.sending});
    }
  }
  if (std::optional<dist::Pipeline> pipeline = dist::getPipeline(parts.front()); pipeline && microbatches > 1)
    return simulatePasses(work, *pipeline, schedule, microbatches, slowdown);
  return simulateStages(work, microbatches, slowdown);
}

/// Prices a program, or its parts in all stages.
static void predictProgram(ArrayRef<plan::ProgramOp> parts, int64_t ranks, cost::Schedule schedule,
                           const cost::Machine &machine, CompileResult &result) {
  plan::ProgramOp first = parts.front();
  const std::string name = first.getSymName().str();
  const int64_t microbatches = dist::getMesh(first->getParentOfType<ModuleOp>()).getNumTurns();
  SmallVector<PlanPrice> prices;
  StageTimes times;
  if (parts.size() == 1 || !machine.host) {
    prices = priceParts(parts, ranks, static_cast<int64_t>(parts.size()), machine);
    times.seconds = times.interval = sumTotals(prices);
  } else {
    times = timeStages(parts, ranks, microbatches, schedule, machine, prices);
  }
  // Where nothing was measured on the host, the program's time is the search's.
  if (!machine.host)
    return;
  PlanPrice all;
  for (const PlanPrice &price : prices) {
    all.computing += price.computing;
    all.moving += price.moving;
    all.communicating += price.communicating;
    all.instructions += price.instructions;
  }
  const bool isLongest = llvm::all_of(
      result.predictions, [&](const ProgramPrediction &other) { return other.seconds < times.seconds; });
  for (size_t s = 0; s < times.passes.size(); ++s) {
    result.stages[s].seconds = std::max(result.stages[s].seconds, prices[s].total());
    if (isLongest)
      result.stages[s].passes = times.passes[s];
  }
  for (plan::ProgramOp part : parts)
    part.setPredictedSecondsAttr(Builder(part.getContext()).getF64FloatAttr(times.seconds));
  result.layout.predictedByFunction.erase(name);
  result.predictions.push_back(
      {name, all.computing, all.moving, all.communicating, all.instructions, times.seconds, times.interval});
  result.layout.summary +=
      "predicted time of program '" + name + "': " + all.describe(times.seconds) +
      (parts.size() > 1
           ? llvm::formatv("; where runs overlap, one every {0:F2} ms", times.interval * 1e3).str()
           : "") +
      "\n";
}

/// Prices the scheduled programs of `module`, where ranks are threads of a host; says how far to trust what
/// is predicted.
static LogicalResult predictPrograms(ModuleOp module, const CompileOptions &options, CompileResult &result) {
  const cost::Machine &machine = options.layout.machine;
  const int64_t ranks = dist::getNumRanks(module);
  // Of another kind of machine than the programs are for no time goes into them.
  const bool foreign = !layout::describeForeignTimes(machine, options.schedule.target->name()).empty();
  if (foreign)
    result.layout.predictedByFunction.clear();
  SmallVector<ModuleOp> stages = dist::getStages(module);
  if (stages.front() != module)
    result.stages.resize(stages.size());
  for (auto program : ModuleOp(stages.front()).getOps<plan::ProgramOp>()) {
    // What has no instructions takes no time.
    const bool runs = program.getRole() == plan::Role::Infer || program.getRole() == plan::Role::Step;
    if (!runs || foreign)
      continue;
    SmallVector<plan::ProgramOp> parts;
    for (ModuleOp stage : stages)
      if (auto part = stage.lookupSymbol<plan::ProgramOp>(program.getSymName()))
        parts.push_back(part);
    predictProgram(parts, ranks, getPipelineSchedule(options), machine, result);
  }
  result.layout.summary += "error of predictions: " + cost::describePlanEvidence(machine, ranks) + "\n";
  return success();
}

/// "kernels: for sm_80 (cubin, PTX), sm_90 (cubin, PTX)", and what to know of them.
static std::string describeImages(const codegen::GeneratedCode &code) {
  std::string text;
  StringRef last;
  for (const codegen::CodeImage &image : code.images) {
    const char *format = image.format == codegen::CodeImage::Format::Cubin ? "cubin"
                         : image.format == codegen::CodeImage::Format::Ptx ? "PTX"
                                                                           : "ELF";
    text += image.architecture == last ? ", " : last.empty() ? "" : "), ";
    text += image.architecture == last ? format : image.architecture + " (" + format;
    last = image.architecture;
  }
  return "kernels: for " + text + ")" + (code.note.empty() ? "" : "; " + code.note) + "\n";
}

/// Puts the images of all kernels into the plan's code section, as its one module.
static void addImages(CompileResult &result) {
  plan::Target &target = *result.plan.mutable_target();
  target.set_triple(result.code.triple);
  target.set_cpu(result.code.cpu);
  target.mutable_features()->Add(result.code.features.begin(), result.code.features.end());
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
  if (!isHosts)
    result.layout.summary += describeImages(result.code);
}

LogicalResult finishKernels(ModuleOp module, CompileResult &result) {
  std::unique_ptr<codegen::ImageBuilder> kernels = std::move(result.kernels);
  return kernels ? schedule::finishKernels(module, *kernels, result.code) : success();
}

/// Puts down what a step computes, and what the ranks' devices could compute in a second of the same mixture
/// of types: on a host those cores that the ranks' threads have.
static void stateFlops(ModuleOp module, const CompileOptions &options, plan::Plan &plan) {
  DictionaryAttr training = dist::getTraining(module);
  auto flops = training ? training.getAs<DictionaryAttr>(training::kStepFlopsAttr) : DictionaryAttr();
  if (!flops || !plan.has_training())
    return;
  const cost::Machine &machine = options.layout.machine;
  double devices = 0;
  for (const plan::StageView &stage : plan::stagesOf(plan))
    devices += static_cast<double>(stage.ranks);
  if (machine.host) {
    devices = std::min<double>(devices * getRankThreads(plan, options), machine.host->cores);
    devices *= devices > 1 ? machine.host->parallelEfficiency : 1;
  }
  double all = 0, seconds = 0;
  for (NamedAttribute one : flops) {
    auto ofType = cast<DictionaryAttr>(one.getValue());
    const double count = ofType.getAs<FloatAttr>("flops").getValueAsDouble();
    all += count;
    seconds +=
        count /
        (devices * machine.device.flops(layout::getCostType(ofType.getAs<TypeAttr>("element").getValue())));
  }
  if (seconds <= 0)
    return;
  plan.mutable_training()->set_flops(all);
  plan.mutable_training()->set_peak_flops(all / seconds);
}

LogicalResult emitPlan(ModuleOp module, const CompileOptions &options, CompileResult &result) {
  plan::EmitOptions emit;
  emit.modelPath = options.import.modelPath;
  emit.planPath = options.planPath;
  emit.device = options.schedule.target->name();
  emit.report.set_compiler_version(COLOSSAL_VERSION);
  emit.report.set_model_path(options.import.modelPath);
  emit.report.set_command_line(options.commandLine);
  emit.report.set_machine(cost::printMachine(options.layout.machine));
  emit.report.set_layouts(outline::joinPins(result.layout.pins));
  if (failed(predictPrograms(module, options, result)) ||
      failed(plan::emitPlan(module, emit, result.plan, result.data)))
    return failure();
  stateFlops(module, options, result.plan);
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
  if (options.objective == Objective::Throughput && !result.stages.empty())
    result.plan.set_runs_overlap(true);
  plan::repairText(result.plan);
  // All else was made while threads compiled them.
  if (failed(finishKernels(module, result)))
    return failure();
  addImages(result);
  return success();
}

} // namespace colossal
