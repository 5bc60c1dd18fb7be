//===- Interpretation.cpp - what options mean, and which go together --------===//
#include "RawOptions.h"

#include "colossal/Codegen/Targets.h"
#include "colossal/Compiler/Passes.h"
#include "colossal/Cost/MachineChoice.h"
#include "colossal/Output/OutputFile.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <set>

namespace {

[[noreturn]] void fail(const std::string &text) {
  throw CLI::ValidationError(text);
}

/// That a file which is named can be read is seen before the work of minutes.
void requireFile(const std::string &path, const std::string &option) {
  std::ifstream file(path, std::ios::binary);
  if (file && (file.peek(), !file.bad()))
    return;
  colossal::noteUnusableInput();
  fail(option + ": '" + path + "' cannot be read: " + std::strerror(errno));
}

int64_t parseInteger(const std::string &text, const std::string &what) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(what + ": '" + text + "' is not an integer");
  return value;
}

/// "NAME=REST"; the name may hold anything but '='.
std::pair<std::string, std::string> splitPair(const std::string &text, const std::string &option) {
  size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0)
    fail(option + ": '" + text + "' is not of the form NAME=VALUE");
  return {text.substr(0, at), text.substr(at + 1)};
}

std::vector<int64_t> parseList(const std::string &text, char separator, const std::string &what) {
  std::vector<int64_t> values;
  std::stringstream stream(text);
  for (std::string item; std::getline(stream, item, separator);)
    values.push_back(parseInteger(item, what));
  return values;
}

bool hasManyLengths(const colossal::CompileOptions &compile) {
  return std::any_of(compile.manyDims.begin(), compile.manyDims.end(),
                     [](const auto &dim) { return dim.values.size() > 1; });
}

/// Whether the joint search can be asked for the plan of a training step on a mesh: it knows neither pins nor
/// the layouts of the papers, and plans for one length. A ZeRO stage without axes that it goes over is
/// refused later.
bool canPlanStep(const RawOptions &raw, const Options &options) {
  const colossal::CompileOptions &compile = options.compile;
  const bool isNamed = compile.mesh.find('=') != std::string::npos;
  const bool hasAxes = !isNamed || compile.mesh.find("data=") != std::string::npos ||
                       compile.mesh.find("context=") != std::string::npos;
  return !raw.training.empty() && !raw.loss.empty() && compile.layout.recipe.empty() &&
         compile.layout.pins.empty() && !hasManyLengths(compile) &&
         (hasAxes || options.training.fixed.zero <= 0);
}

/// What a program's mesh is searched for, and among how many ranks.
void interpretDevices(const RawOptions &raw, bool isMeshGiven, Options &options) {
  colossal::CompileOptions &compile = options.compile;
  if (raw.objective == "throughput")
    compile.objective = colossal::Objective::Throughput;
  if (options.planOnly || options.printsOnly() || !raw.plan.empty())
    return;
  // Sizes without names get roles by the search, where something is asked for that has to do with roles.
  const colossal::planner::FixedParts &fixed = options.training.fixed;
  const bool needsRoles = isMeshGiven && compile.mesh.find('=') == std::string::npos && compile.mesh != "1" &&
                          (fixed.zero > 0 || !fixed.schedule.empty());
  // What has to do with roles is refused where there are none.
  const bool canBeOne = fixed.zero <= 0 && fixed.schedule.empty() && compile.chunks == 0;
  if (options.training.task.devices == 0 && !needsRoles && canPlanStep(raw, options))
    if (int ranks = isMeshGiven ? colossal::planner::countRanks(compile.mesh) : 1;
        ranks > 1 || (ranks == 1 && canBeOne)) {
      options.training.task.devices = ranks;
      options.isPlanSearched = options.isPlanOptional = true;
      return;
    }
  if (options.training.task.devices == 0 && !needsRoles)
    return;
  // The joint search plans a training step, but for the layouts of the papers, which it does not know.
  options.isPlanSearched = !raw.training.empty() && compile.layout.recipe.empty();
  if (options.isPlanSearched || options.training.task.devices == 0)
    return;
  if (std::string wrong = colossal::searchMesh(compile, options.training.task.devices, isMeshGiven);
      !wrong.empty())
    fail(wrong);
}

/// What a plan's file needs that is looked at beside the model: the model's dimensions, but for the batch.
void bindForPlanning(const Options &options, colossal::PlanTrainingOptions &training) {
  training.import = options.compile.import;
  if (options.compile.training)
    colossal::training::adaptImport(*options.compile.training, training.import);
  for (const auto &[names, values] : options.compile.manyDims)
    for (const std::string &name : names) {
      if (values.size() != 1)
        fail("--dim " + name + ": a training plan takes one value");
      training.import.dims[name] = values.front();
    }
}

/// A step that is compiled as a training plan says.
void interpretPlan(const RawOptions &raw, bool isMeshGiven, Options &options) {
  colossal::PlanTrainingOptions &training = options.training;
  if (std::string fixed = training.fixed.text();
      isMeshGiven || options.compile.microbatches > 0 || !fixed.empty())
    fail("--plan says what mesh, microbatches, ZeRO stage, recomputation and schedule are: leave out " +
         (isMeshGiven                        ? "--mesh"
          : options.compile.microbatches > 0 ? "--microbatches"
                                             : fixed));
  if (!options.compile.layout.recipe.empty())
    fail("--layout and --plan both say how operations are laid out: leave one out");
  requireFile(raw.plan, "--plan");
  bindForPlanning(options, training);
  training.pricePath = raw.plan;
  training.target = options.compile.schedule.target;
  training.machine = options.compile.layout.machine;
  training.machineName = raw.machine;
  training.task.memoryBytes = options.compile.layout.memoryBytes;
  training.asked = {training.task.devices, training.task.globalBatch, "", raw.training, raw.precision,
                    raw.attention};
  options.isPlanGiven = true;
}

/// What the joint search needs of a step that is compiled.
void bindStep(const RawOptions &raw, Options &options) {
  colossal::PlanTrainingOptions &training = options.training;
  const colossal::CompileOptions &compile = options.compile;
  bindForPlanning(options, training);
  // That is what --global-batch says, too; the search leaves it open.
  if (auto batch = training.import.dims.find("batch");
      batch != training.import.dims.end() && static_cast<double>(batch->second) == training.task.globalBatch)
    training.import.dims.erase(batch);
  training.target = compile.schedule.target;
  training.machine = compile.layout.machine;
  training.machineName = raw.machine;
  training.task.memoryBytes = static_cast<double>(compile.layout.memoryBytes);
  training.task.optimizer = raw.training;
  training.task.precision = raw.precision.empty() ? "f32" : raw.precision;
  training.space.unevenMicrobatches = false;
  training.space.keptChoices = colossal::planner::kCompiledKeptChoices;
}

/// A step that is compiled as the joint search plans it: what options fix narrows the search.
void interpretSearchedStep(const RawOptions &raw, bool isMeshGiven, Options &options) {
  colossal::PlanTrainingOptions &training = options.training;
  const colossal::CompileOptions &compile = options.compile;
  if (isMeshGiven)
    training.fixed.mesh = compile.mesh;
  training.fixed.microbatches = static_cast<int>(compile.microbatches);
  training.fixed.chunks = static_cast<int>(compile.chunks);
  bindStep(raw, options);
  if (std::string wrong = colossal::planner::fixParts(training.fixed, training.task, training.space);
      !wrong.empty()) {
    if (!options.isPlanOptional)
      fail(wrong);
    options.isPlanSearched =
        false; // the layout search may take it all the same, or says what is wrong with it
    options.unplanned = wrong;
    return;
  }
  training.keepsStatistics = options.isPlanOptional;
  options.isMeshGiven = isMeshGiven;
  options.compile.devices = training.task.devices;
}

/// What a training step that is compiled needs.
void interpretStep(const RawOptions &raw, Options &options) {
  const colossal::planner::FixedParts &fixed = options.training.fixed;
  colossal::training::TrainingOptions step;
  step.optimizer = raw.training;
  step.parameters = options.training.parameters = raw.parameters;
  step.zero = fixed.zero;
  if (!raw.batchNorm.empty())
    step.batchNorm = raw.batchNorm == "train";
  step.syncBatchNorm = raw.syncBatchNorm;
  step.globalBatch = static_cast<int64_t>(options.training.task.globalBatch);
  std::string error;
  if (!raw.loss.empty()) {
    std::optional<colossal::training::Loss> loss = colossal::training::parseLoss(raw.loss, error);
    if (!loss)
      fail("--loss: " + error);
    step.loss = *loss;
    options.training.loss = *loss;
  }
  if (!options.printParameters) {
    if (!colossal::training::isOptimizer(step.optimizer))
      fail(raw.training.empty()
               ? "--loss belongs to a training step: say with --training what updates the parameters (" +
                     colossal::training::listOptimizers() + ")"
               : "--training: '" + raw.training + "' is none of " + colossal::training::listOptimizers());
    if (raw.loss.empty())
      fail("--training compiles a training step: say with --loss what is minimized, as in "
           "cross-entropy,logits=OUTPUT, or give --plan-only to plan one only");
    if (step.globalBatch < 1 && raw.plan.empty())
      fail("--training: --global-batch is missing (samples in a step)");
    if (options.compile.objective == colossal::Objective::Throughput)
      fail("--objective throughput does not go with --training: steps do not overlap");
    if (!fixed.recompute.empty() && !(step.recompute = colossal::parseRecompute(fixed.recompute)))
      fail("--recompute: '" + fixed.recompute + "' is not none, selective or full");
    if (colossal::cost::Schedule schedule; !fixed.schedule.empty()) {
      if (!colossal::cost::parseSchedule(fixed.schedule, schedule))
        fail("--pipeline-schedule: '" + fixed.schedule + "' is not one of " +
             colossal::cost::scheduleNames());
      options.compile.pipelineSchedule = schedule;
    }
  }
  options.compile.training = std::move(step);
}

/// What --plan-only needs.
void interpretTraining(const RawOptions &raw, bool isMeshGiven, Options &options) {
  colossal::PlanTrainingOptions &training = options.training;
  bool isPricing = !training.pricePath.empty();
  if (!options.planOnly) {
    // The batch of a program is cut without any plan.
    options.compile.batchDimension = training.batchDimension;
    training.fixed.microbatches = 0;
    training.fixed.chunks = 0;
    if (!training.batchDimension.empty() && options.compile.microbatches <= 1 && training.task.devices == 0)
      fail("--batch-dim says what --microbatches, --devices and --plan-only cut: give one of them, too");
    if (isPricing)
      fail("--price prices a training plan: give --plan-only, too");
    if (!raw.training.empty() || !raw.loss.empty() || options.printParameters) {
      if (!raw.plan.empty() && !options.printParameters)
        interpretPlan(raw, isMeshGiven, options);
      interpretStep(raw, options);
      if (raw.plan.empty() && !raw.attention.empty() && raw.attention != "fused")
        fail("--attention " + raw.attention +
             ": programs store no scores; leave it out, or give --plan-only, which plans it");
      if (options.isPlanSearched)
        interpretSearchedStep(raw, isMeshGiven, options);
      else if (raw.plan.empty() && !hasManyLengths(options.compile))
        bindStep(raw, options);
      options.knowsUnits = raw.plan.empty() && !hasManyLengths(options.compile);
      return;
    }
    if (!raw.plan.empty())
      fail("--plan says how a training step is compiled: give --training and --loss, too (or --plan-only "
           "--price to price it)");
    if (!training.fixed.text().empty())
      fail(training.fixed.text() +
           " fixes a part of a training step: give --training and --loss, or --plan-only, too");
    if (training.task.globalBatch > 0)
      fail("--global-batch is of a training step: give --training and --loss, or --plan-only, too");
    for (const auto *rules : {&raw.parameters.train, &raw.parameters.freeze, &raw.parameters.noDecay,
                              &raw.parameters.tie, &raw.parameters.untie})
      if (!rules->empty())
        fail("--train, --freeze, --no-decay, --tie and --untie say what is trained: give --training and "
             "--loss, or --print-parameters, too");
    if (!raw.batchNorm.empty() || raw.syncBatchNorm)
      fail("--batch-norm and --sync-batch-norm are of a training step: give --training and --loss, too");
    return;
  }
  if (!raw.plan.empty())
    fail("--plan does not go with --plan-only, which makes a plan; --price prices one");
  if (!raw.batchNorm.empty() || raw.syncBatchNorm)
    fail(
        "--batch-norm and --sync-batch-norm do not go with --plan-only: they are of a step that is compiled");
  if (!raw.loss.empty()) {
    std::string error;
    std::optional<colossal::training::Loss> loss = colossal::training::parseLoss(raw.loss, error);
    if (!loss)
      fail("--loss: " + error);
    if (loss->kind != colossal::training::Loss::CrossEntropy)
      fail("--loss " + raw.loss +
           " does not go with --plan-only: plans are made for cross-entropy over the last dimension; "
           "--training with --loss and --devices plans this loss and compiles it");
  }
  if (!raw.objective.empty())
    fail("--objective does not go with --plan-only: a training step is planned for its time");
  if (!options.compile.layout.recipe.empty())
    fail("--layout does not go with --plan-only yet: the joint search names its axes itself");
  if (!options.compile.layout.pins.empty() || raw.emit != "plan" || options.explain || options.asPins)
    fail("--pin, --emit, --explain and --as-pins do not go with --plan-only: no code is made");
  if (isMeshGiven)
    training.fixed.mesh = options.compile.mesh;
  options.compile.mesh = "1";
  bindForPlanning(options, training);
  training.machineName = raw.machine.empty() ? "h100" : raw.machine;
  colossal::cost::MachineChoice choice = colossal::cost::chooseMachine(training.machineName);
  if (!choice.error.empty())
    fail("--machine: " + choice.error);
  training.machine = std::move(choice.machine);
  training.task.memoryBytes = options.compile.layout.memoryBytes;
  if (isPricing) {
    if (!training.fixed.text().empty())
      fail(training.fixed.text() +
           ": --price prices a plan as it is; change its keys, or leave the option out");
    training.asked = {training.task.devices, training.task.globalBatch,
                      raw.machine,           raw.training,
                      raw.precision,         raw.attention};
    return;
  }
  bool isSized = !training.fixed.mesh.empty() && training.fixed.mesh.find('=') == std::string::npos;
  if (training.task.devices < 1 && !isSized)
    fail("--plan-only: --devices is missing (how many devices of the machine to use)");
  if (training.task.globalBatch < 1)
    fail("--plan-only: --global-batch is missing (sequences in a step)");
  training.task.optimizer = raw.training.empty() ? "adamw" : raw.training;
  if (!colossal::training::isOptimizer(training.task.optimizer))
    fail("--training: '" + raw.training + "' is none of " + colossal::training::listOptimizers());
  if (!raw.precision.empty())
    training.task.precision = raw.precision;
  if (!colossal::planner::trainingTypes(training.task.precision))
    fail("--precision: '" + training.task.precision + "' is not bf16, f16, tf32 or f32");
  if (!raw.attention.empty() && raw.attention != "fused" && raw.attention != "unfused")
    fail("--attention: '" + raw.attention + "' is not fused or unfused");
  training.space.fusedAttention = raw.attention != "unfused";
  if (std::string wrong = colossal::planner::fixParts(training.fixed, training.task, training.space);
      !wrong.empty())
    fail(wrong);
}

/// A name that no pass has would print nothing and look like IR that is not there.
void checkPasses(const PassOptions &passes, const Options &options) {
  if (options.planOnly && (passes.timing || !passes.printAfter.empty() || !passes.reproducer.empty()))
    fail("--timing, --print-ir-after and --crash-reproducer do not go with --plan-only: no passes are run");
  if (passes.printAfter.empty() || passes.printAfter == "all")
    return;
  std::string names;
  for (const std::string &name : colossal::listPasses(options.compile, options.last)) {
    if (name == passes.printAfter)
      return;
    names += (names.empty() ? "" : ", ") + name;
  }
  fail("--print-ir-after: '" + passes.printAfter + "' is no pass that is run here; " +
       (names.empty() ? "there are none" : "those are " + names + ", or all of them by 'all'"));
}

/// The pins of a file, one a line, as --explain --as-pins prints them; lines that begin with # are comments.
void readPins(const std::string &path, std::vector<std::string> &pins) {
  colossal::noteInput(path);
  requireFile(path, "--pins");
  std::ifstream file(path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r')
      line.pop_back();
    size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos || line[begin] == '#')
      continue;
    if (line.find('=') == std::string::npos)
      fail("--pins: " + path + ", line " + std::to_string(number) + ": '" + line +
           "' is not of the form REGEX=LAYOUT");
    pins.push_back(line);
  }
  if (file.bad()) {
    colossal::noteUnusableInput();
    fail("--pins: '" + path + "' cannot be read");
  }
}

/// The target with what --cudnn adds to it.
std::string targetOf(const RawOptions &raw) {
  std::string target = raw.target;
  if (!raw.cudnn.empty() && raw.cudnn != "off") {
    if (raw.cudnn != "convolution" && raw.cudnn != "attention" && raw.cudnn != "all")
      fail("--cudnn: '" + raw.cudnn + "' is not off, convolution, attention or all");
    if (target.rfind("cuda", 0) != 0)
      fail("--cudnn " + raw.cudnn +
           " is of NVIDIA's GPUs: give --target cuda or cuda:NAME, such as cuda:sm_90");
    target += "+cudnn-" + raw.cudnn;
  }
  if (!raw.training.empty() && target.find('+') != std::string::npos)
    fail("--training does not go with --cudnn: cuDNN is called for inference only");
  return target;
}

} // namespace

void interpretPrices(std::vector<std::string> prices, Options &options) {
  if (prices.size() >= 2 && options.compile.import.modelPath.empty()) {
    options.compile.import.modelPath = prices.back();
    prices.pop_back();
  }
  for (const std::string &path : prices)
    requireFile(path, "--price");
  if (prices.size() > 2)
    fail("--price: one plan, or two to compare, not " + std::to_string(prices.size()));
  if (!prices.empty())
    options.training.pricePath = prices.front();
  if (prices.size() == 2)
    options.training.otherPricePath = prices.back();
}

void interpret(const RawOptions &raw, bool isMeshGiven, Options &options) {
  colossal::CompileOptions &compile = options.compile;
  std::set<std::string> seen;
  for (const std::string &text : raw.dims) {
    auto [name, list] = splitPair(text, "--dim");
    std::vector<int64_t> values = parseList(list, ',', "--dim " + name);
    if (values.empty())
      fail("--dim " + name + " has no value");
    for (int64_t value : values)
      if (value < 0)
        fail("--dim " + name + ": " + std::to_string(value) + " is negative");
    for (size_t i = 1; i < values.size(); ++i)
      if (std::find(values.begin(), values.begin() + i, values[i]) != values.begin() + i)
        fail("--dim " + name + ": " + std::to_string(values[i]) + " is given twice");
    colossal::DimValues dim;
    dim.values = values;
    std::stringstream stream(name);
    for (std::string one; std::getline(stream, one, ',');) {
      if (!seen.insert(one).second)
        fail("--dim " + one + " is given twice; several values are written " + one + "=1,4,8");
      dim.names.push_back(one);
    }
    compile.manyDims.push_back(dim);
  }
  for (const std::string &text : raw.shapes) {
    auto [name, list] = splitPair(text, "--shape");
    compile.import.shapes[name] =
        parseList(list, list.find('x') != std::string::npos ? 'x' : ',', "--shape " + name);
  }
  for (const std::string &text : raw.values) {
    size_t at = text.find('=');
    if (at == std::string::npos || at == 0)
      fail("--value: '" + text + "' is not of the form INPUT=LITERAL or INPUT=FILE");
    colossal::InputContents contents;
    std::string value = text.substr(at + 1);
    auto endsWith = [&](const std::string &end) {
      return value.size() > end.size() && value.compare(value.size() - end.size(), end.size(), end) == 0;
    };
    (endsWith(".npy") || endsWith(".pb") ? contents.file : contents.literal) = value;
    compile.import.values[text.substr(0, at)] = contents;
  }
  if (!raw.memory.empty()) {
    std::optional<uint64_t> bytes = colossal::parseBytes(raw.memory);
    if (!bytes)
      fail("--memory: '" + raw.memory + "' is not a size such as 512MiB");
    compile.layout.memoryBytes = *bytes;
  }
  for (const std::string &path : raw.pinFiles)
    readPins(path, compile.layout.pins);
  compile.layout.pins.insert(compile.layout.pins.end(), raw.pins.begin(), raw.pins.end());
  if (!options.planOnly && !options.printsOnly()) {
    const std::string ofTarget = raw.machine.empty() ? colossal::codegen::machineOf(raw.target) : raw.machine;
    colossal::cost::MachineChoice choice = colossal::cost::chooseMachine(ofTarget);
    if (!choice.error.empty())
      fail((raw.machine.empty() ? "" : "--machine: ") + choice.error);
    compile.layout.machine = std::move(choice.machine);
    compile.layout.machineText = raw.machine;
    options.machineOrigin = std::move(choice.origin);
  }
  if (!options.printsOnly()) {
    auto target = colossal::codegen::createTarget(targetOf(raw), raw.processor);
    if (!target)
      fail((raw.processor.empty() ? "--target: " : "--target-cpu: ") + llvm::toString(target.takeError()));
    compile.schedule.target = *target;
  }
  if (!raw.precision.empty() && !options.planOnly) {
    compile.precision = colossal::precision::parsePrecision(raw.precision);
    if (!compile.precision)
      fail("--precision: '" + raw.precision + "' is not f32, tf32, bf16 or f16");
    if (*compile.precision == colossal::precision::Precision::TF32 && !options.quiet &&
        compile.schedule.target && compile.schedule.target->name() == "cpu")
      std::cerr
          << "colossal-compile: note: --precision tf32: CPUs have no such products; the plan computes in "
             "f32\n";
  }
  auto phase = colossal::parsePhase(raw.emit);
  if (!phase)
    fail("--emit: '" + raw.emit +
         "' is not a phase; phases are import, precision, differentiate, outline, step, search, partition, "
         "schedule, "
         "plan");
  options.last = *phase;
  checkPasses(raw.passes, options);
  compile.layout.explains = options.explain || options.json;
  if (options.json && *phase != colossal::Phase::Plan)
    fail("--json does not go with --emit, which prints IR");
  if (!options.planOnly) {
    compile.microbatches = options.training.fixed.microbatches;
    compile.chunks = options.training.fixed.chunks;
  }
  interpretDevices(raw, isMeshGiven, options);
  interpretTraining(raw, isMeshGiven, options);
}
