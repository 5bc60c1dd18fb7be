//===- main.cpp - colossal-opt ----------------------------------------------===//
//
// Every pass and phase by name, on ONNX or MLIR, for tests and for people who look inside:
//
//   colossal-opt gpt2.onnx --dim batch=1 --dim seq=128 --mesh 2x2 --colossal-pipeline=to=partition
//   colossal-opt block.mlir --colossal-partition
//
//===----------------------------------------------------------------------===//
#include "colossal/Codegen/Targets.h"
#include "colossal/Compiler/Passes.h"
#include "colossal/Compiler/PlannedSteps.h"
#include "colossal/Cost/MachineChoice.h"
#include "colossal/Output/OutputFile.h"
#include "tools/manual/Manual.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include <map>

using namespace mlir;
using namespace colossal;
namespace cl = llvm::cl;

// LLVM's options register themselves, before main begins.
// NOLINTBEGIN(bugprone-throwing-static-initialization)

// Stands before all others in --help, which sorts by name.
static cl::OptionCategory category("A model, and what it is compiled for",
                                   "Of an .onnx file; what phases and passes need beside the IR");
static cl::list<std::string> dims("dim",
                                  cl::desc("NAME=VALUE binds a symbolic dimension of an ONNX model (else 8)"),
                                  cl::cat(category));
static cl::list<std::string> shapes("shape", cl::desc("INPUT=2x3x4 binds an input's shape"),
                                    cl::cat(category));
static cl::list<std::string>
    values("value", cl::desc("INPUT=LITERAL or INPUT=FILE binds an input's contents"), cl::cat(category));
static cl::opt<std::string> mesh("mesh", cl::desc("mesh of ranks: 4, 2x2, data=2,model=2, stage=2,model=2"),
                                 cl::init("1"), cl::cat(category));
static cl::opt<int64_t> devices(
    "devices",
    cl::desc(
        "how many ranks, for an .onnx file: the search chooses their mesh, stages and microbatches, but "
        "for axes that --mesh names and what --microbatches gives; with --training the joint search plans "
        "the step"),
    cl::init(0), cl::cat(category));
static cl::opt<Objective> objective(
    "objective", cl::desc("what --devices chooses for"),
    cl::values(clEnumValN(Objective::Latency, "latency", "the time of one run (default)"),
               clEnumValN(Objective::Throughput, "throughput", "runs that follow one another in a second")),
    cl::init(Objective::Latency), cl::cat(category));
static cl::opt<int64_t> microbatches("microbatches",
                                     cl::desc("cut the batch into so many parts, which run in a loop"),
                                     cl::init(1), cl::cat(category));
static cl::opt<int64_t> chunks("chunks", cl::desc("parts of the model that each pipeline stage holds"),
                               cl::init(1), cl::cat(category));
static cl::opt<std::string> batchDimension("batch-dim",
                                           cl::desc("name of the dimension that --microbatches cuts"),
                                           cl::cat(category));
static cl::opt<std::string> memory("memory",
                                   cl::desc("memory limit of a device: bytes, or 512MiB, 2GB (default: the "
                                            "machine's)"),
                                   cl::cat(category));
static cl::opt<std::string> precisionName("precision",
                                          cl::desc("store and compute floats in f32, tf32, bf16 or f16"),
                                          cl::cat(category));
static cl::opt<std::string> machine("machine", cl::desc("machine file or name"), cl::cat(category));
static cl::opt<std::string> recipe("layout",
                                   cl::desc("a layout of the papers: 1d, 2d, 2.5d, 3d, sequence, ulysses"),
                                   cl::cat(category));
static cl::list<std::string> pins("pin", cl::desc("REGEX=LAYOUT, see docs/Layouts.md; REGEX=stage:K"),
                                  cl::cat(category));
static cl::opt<std::string>
    trainingOptimizer("training", cl::desc("make a training step, with this optimizer: sgd, adamw, ..."),
                      cl::cat(category));
static cl::opt<std::string>
    lossText("loss", cl::desc("of --training: what is minimized, as colossal-compile takes it"),
             cl::cat(category));
static cl::opt<int64_t> globalBatch("global-batch", cl::desc("of --training: samples in a step"), cl::init(8),
                                    cl::cat(category));
static cl::opt<int> zero("zero", cl::desc("of --training: the ZeRO stage, 0 to 3"), cl::init(-1),
                         cl::cat(category));
static cl::opt<std::string>
    recompute("recompute",
              cl::desc("of --training: what the backward pass makes again: none, selective, full"),
              cl::cat(category));
static cl::opt<std::string>
    pipelineSchedule("pipeline-schedule",
                     cl::desc("of --training: in which order stages do their passes: gpipe, 1f1b, ..."),
                     cl::cat(category));
static cl::opt<std::string>
    batchNorm("batch-norm", cl::desc("of --training: train or frozen, as colossal-compile takes it"),
              cl::cat(category));
static cl::opt<bool> syncBatchNorm("sync-batch-norm",
                                   cl::desc("of --training: statistics of batches over all ranks"),
                                   cl::cat(category));
static cl::list<std::string>
    train("train", cl::desc("of --training: REGEX of parameters to train, whatever they look like"),
          cl::cat(category));
static cl::list<std::string>
    noDecay("no-decay", cl::desc("of --training: REGEX of parameters that do not decay"), cl::cat(category));
static cl::list<std::string> tie("tie", cl::desc("of --training: REGEX of equal parameters that are one"),
                                 cl::cat(category));
static cl::list<std::string>
    untie("untie", cl::desc("of --training: REGEX of names: what shares one of these has its own"),
          cl::cat(category));
static cl::list<std::string>
    freeze("freeze", cl::desc("of --training: REGEX of parameters to leave as they are"), cl::cat(category));
static cl::opt<bool>
    explain("explain",
            cl::desc("of --colossal-pipeline and --devices: print which mesh was chosen, what stands in "
                     "which stage and was split how, and why, to standard error"),
            cl::cat(category));
static cl::opt<bool> noPatterns("no-patterns", cl::desc("leave decomposed ops as the model has them"),
                                cl::cat(category));
static cl::opt<bool> missingWeights("allow-missing-weights",
                                    cl::desc("import a model whose external data is not there"),
                                    cl::cat(category));
static cl::opt<std::string> target("target",
                                   cl::desc("what to make code for: cpu, this host's processor (default), or "
                                            "cpu:NAME, the processor that LLVM calls so"),
                                   cl::init("cpu"), cl::cat(category));
static cl::opt<std::string> processor("target-cpu", cl::desc("NAME: the same as --target cpu:NAME"),
                                      cl::cat(category));

// NOLINTEND(bugprone-throwing-static-initialization)

static constexpr const char *kOverview = R"(Colossal's passes and phases, one by one

  colossal-opt MODEL.onnx --dim batch=1 --dim seq=128 --mesh 2x2 --colossal-pipeline=to=partition
  colossal-opt BLOCK.mlir --colossal-partition
  colossal-opt MODEL.onnx --pass-pipeline='builtin.module(colossal-pipeline{to=search},canonicalize)'

reads an ONNX model or MLIR (a file, or standard input), runs the phases and passes that are named, in that order, and prints
the module to standard output or to -o. Phases: import, precision, differentiate, outline, step, search, partition, schedule. Dimensions that nothing binds
are taken as 8. Options of MLIR and LLVM that are seldom needed here are under --help-hidden.

Exit codes: 0 done; 1 a pass failed, or the input makes no sense; 2 wrong options, or an output that is read; 3 a file cannot
be read, or the output cannot be written; 130 interrupted, 143 terminated.)";

/// Keeps --help to what is ours and what one wants of MLIR's; the rest, LLVM's hundreds of options, stays
/// under
/// --help-hidden. To be called when all options are registered.
static void hideOthers() {
  static const llvm::StringSet<> wanted = {"allow-unregistered-dialect",
                                           "dump-pass-pipeline",
                                           "mlir-print-debuginfo",
                                           "mlir-print-ir-after-all",
                                           "mlir-print-ir-after-change",
                                           "mlir-print-ir-before-all",
                                           "mlir-timing",
                                           "o",
                                           "pass-pipeline",
                                           "show-dialects",
                                           "split-input-file",
                                           "verify-diagnostics",
                                           "verify-each"};
  // All passes are values of one option, which is registered under each one's name.
  llvm::SmallPtrSet<const cl::Option *, 32> shown;
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (wanted.contains(name) || name.starts_with("colossal-") ||
        llvm::any_of(option->Categories, [](const cl::OptionCategory *of) {
          return of == &category || of->getName() == "Generic Options";
        }))
      shown.insert(option);
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (!shown.contains(option) && option->getOptionHiddenFlag() == cl::NotHidden)
      option->setHiddenFlag(cl::Hidden);
}

/// What --help shows, as a manual: ours first, then passes, then MLIR's.
static tool::Manual describeOptions() {
  tool::Manual manual;
  manual.name = "colossal-opt";
  manual.version = COLOSSAL_VERSION;
  manual.summary = StringRef(kOverview).split('\n').first.str();
  manual.description = kOverview;
  manual.arguments = {{{"FILE"}, "", "an .onnx file, MLIR, or - for standard input", {}}};
  manual.groups = {{"Options", {}}, {"Passes and phases", {}}, {"Of MLIR", {}}};
  std::map<StringRef, cl::Option *> sorted;
  for (auto &[name, option] : cl::getRegisteredOptions())
    sorted[name] = option;
  for (auto &[name, option] : sorted) {
    if (option->getOptionHiddenFlag() != cl::NotHidden)
      continue;
    tool::ManualOption described;
    described.names = {(name.size() > 1 ? "--" : "-") + name.str()};
    if (option->ArgStr != name) { // a pass is a value of the option that takes passes
      const PassInfo *pass = PassInfo::lookup(name);
      const PassPipelineInfo *pipeline = PassPipelineInfo::lookup(name);
      if (pass || pipeline)
        described.text = (pass ? pass->getPassDescription() : pipeline->getPassDescription()).str();
      manual.groups[1].options.push_back(described);
      continue;
    }
    described.text = option->HelpStr.str();
    if (option->getValueExpectedFlag() == cl::ValueRequired)
      described.value = option->ValueStr.empty() ? "VALUE" : option->ValueStr.str();
    manual.groups[llvm::is_contained(option->Categories, &category) ? 0 : 2].options.push_back(described);
  }
  return manual;
}

/// Of dimensions that are not bound: one can look at a model before one knows its sizes.
constexpr int64_t kAssumedSize = 8;

static LogicalResult readOptions(const std::string &path, CompileOptions &options) {
  auto complain = [](const llvm::Twine &text) {
    llvm::errs() << "colossal-opt: " << text << "\n";
    return failure();
  };
  noteInput(path);
  options.import.modelPath = path;
  options.import.assumedSize = kAssumedSize;
  options.import.recognisePatterns = !noPatterns;
  options.import.allowMissingWeights = missingWeights;
  options.mesh = mesh;
  if (microbatches < 1 || microbatches > (1 << 20))
    return complain("--microbatches " + llvm::Twine(microbatches) + " is not a number from 1 to 1048576");
  options.microbatches = microbatches.getNumOccurrences() > 0 ? microbatches : 0;
  if (chunks < 1 || chunks > 1024)
    return complain("--chunks " + llvm::Twine(chunks) + " is not a number from 1 to 1024");
  options.chunks = chunks.getNumOccurrences() > 0 ? chunks : 0;
  options.objective = objective;
  options.batchDimension = batchDimension;
  if (!memory.empty()) {
    std::optional<uint64_t> bytes = parseBytes(memory);
    if (!bytes)
      return complain("--memory '" + memory + "' is not a size such as 512MiB");
    options.layout.memoryBytes = *bytes;
  }
  cost::MachineChoice choice = cost::chooseMachine(machine);
  if (!choice.error.empty())
    return complain(choice.error);
  options.layout.machine = std::move(choice.machine);
  options.layout.machineText = machine;
  options.layout.pins = pins;
  options.layout.recipe = recipe;
  if (devices.getNumOccurrences() > 0) {
    if (!StringRef(path).ends_with(".onnx"))
      return complain("--devices: '" + path +
                      "' is no .onnx file, for which a mesh could be searched; give --mesh");
    const bool isPlanned = !trainingOptimizer.empty() && recipe.empty();
    if (std::string wrong = isPlanned ? "" : searchMesh(options, devices, mesh.getNumOccurrences() > 0);
        !wrong.empty())
      return complain(wrong);
  }
  if (!precisionName.empty()) {
    options.precision = precision::parsePrecision(precisionName);
    if (!options.precision)
      return complain("--precision: '" + precisionName + "' is not f32, tf32, bf16 or f16");
  }
  if (!trainingOptimizer.empty()) {
    std::string error;
    std::optional<training::Loss> loss = training::parseLoss(lossText, error);
    if (!loss)
      return complain("--loss: " + error);
    if (globalBatch < 1)
      return complain("--global-batch " + llvm::Twine(globalBatch) + " is no number of samples from 1 on");
    options.training.emplace();
    options.training->optimizer = trainingOptimizer;
    options.training->loss = *loss;
    options.training->globalBatch = globalBatch;
    options.training->zero = zero;
    if (!recompute.empty() && !(options.training->recompute = parseRecompute(recompute)))
      return complain("--recompute: '" + recompute + "' is not none, selective or full");
    if (cost::Schedule schedule; !pipelineSchedule.empty()) {
      if (!cost::parseSchedule(pipelineSchedule, schedule))
        return complain("--pipeline-schedule: '" + pipelineSchedule + "' is not one of " +
                        cost::scheduleNames());
      options.pipelineSchedule = schedule;
    }
    options.training->parameters = {train, freeze, noDecay, tie, untie};
    if (!batchNorm.empty() && batchNorm != "train" && batchNorm != "frozen")
      return complain("--batch-norm: '" + batchNorm + "' is not train or frozen");
    if (!batchNorm.empty())
      options.training->batchNorm = batchNorm == "train";
    options.training->syncBatchNorm = syncBatchNorm;
    options.training->modelPath = path;
  }
  auto chosen = codegen::createTarget(target, processor);
  if (!chosen)
    return complain((processor.empty() ? "--target: " : "--target-cpu: ") +
                    llvm::toString(chosen.takeError()));
  options.schedule.target = *chosen;
  for (StringRef text : dims) {
    auto [name, value] = text.rsplit('=');
    int64_t size;
    if (name.empty() || value.getAsInteger(10, size) || size < 0)
      return complain("--dim '" + text + "' is not of the form NAME=VALUE");
    options.import.dims[name.str()] = size;
  }
  for (StringRef text : shapes) {
    auto [name, list] = text.rsplit('=');
    SmallVector<StringRef> parts;
    list.split(parts, list.contains('x') ? 'x' : ',');
    std::vector<int64_t> &shape = options.import.shapes[name.str()];
    for (StringRef part : parts) {
      shape.emplace_back();
      if (part.getAsInteger(10, shape.back()) || shape.back() < 0)
        return complain("--shape '" + text + "' is not of the form INPUT=2x3x4");
    }
  }
  for (StringRef text : values) {
    auto [name, value] = text.split('=');
    InputContents contents;
    (value.ends_with(".npy") || value.ends_with(".pb") ? contents.file : contents.literal) = value.str();
    if (!contents.file.empty())
      noteInput(contents.file);
    options.import.values[name.str()] = contents;
  }
  return success();
}

/// Lets the joint search plan the step on so many devices: its fastest plan is what phases are run for.
/// Empty, or what is wrong. `told`: the plan, in words.
static std::string planStep(MLIRContext &context, CompileOptions &options, std::string &told) {
  PlanTrainingOptions planning;
  planning.import = options.import;
  training::adaptImport(*options.training, planning.import);
  planning.batchDimension = options.batchDimension;
  planning.machine = options.layout.machine;
  planning.machineName = machine;
  planning.task.devices = static_cast<int>(devices);
  planning.task.globalBatch = static_cast<double>(globalBatch);
  planning.task.optimizer = trainingOptimizer;
  planning.task.precision = precisionName.empty() ? "f32" : precisionName.getValue();
  if (!planner::trainingTypes(planning.task.precision, planning.task.optimizer))
    return "--training: '" + trainingOptimizer + "' is none of " + training::listOptimizers();
  planning.space.unevenMicrobatches = false;
  planning.space.keptChoices = colossal::planner::kCompiledKeptChoices;
  planning.fixed.mesh = mesh.getNumOccurrences() > 0 ? mesh.getValue() : "";
  planning.fixed.schedule = pipelineSchedule;
  planning.fixed.recompute = recompute;
  planning.fixed.zero = zero;
  planning.fixed.microbatches = static_cast<int>(options.microbatches);
  planning.fixed.chunks = static_cast<int>(options.chunks);
  planning.target = options.schedule.target;
  if (std::string wrong = planner::fixParts(planning.fixed, planning.task, planning.space); !wrong.empty())
    return wrong;
  FailureOr<StepPlanner> planner = StepPlanner::create(&context, planning);
  if (failed(planner))
    return "--devices: the joint search cannot plan this model; give --mesh";
  FailureOr<PlannedSteps> found = planner->find(static_cast<double>(options.layout.memoryBytes));
  if (failed(found))
    return "--devices: there is no plan as it is asked for";
  if (found->steps.empty())
    return "--devices: no plan fits:\n" + found->report;
  applyPlan(found->steps.front(), options);
  told = "plan: " + describe(found->steps.front()) + "\n";
  return "";
}

/// The model imported and printed, for MlirOptMain to read: names stay in the locations. Null: `code` is the
/// exit code.
static std::unique_ptr<llvm::MemoryBuffer> importAsText(CompileOptions &options, CompileResult &reported,
                                                        DialectRegistry &registry, std::string &told,
                                                        int &code) {
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  ScopedDiagnosticHandler warnings(&context, [](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Warning)
      return failure(); // whoever else handles it
    llvm::errs() << "colossal-opt: warning: " << diagnostic << "\n";
    return success();
  });
  std::string wrong;
  if (devices.getNumOccurrences() > 0 && options.training && options.devices == 0 && recipe.empty())
    wrong = planStep(context, options, told);
  FailureOr<dist::MeshAttr> mesh = dist::MeshAttr();
  if (wrong.empty() && options.devices == 0 && failed(mesh = parseMesh(&context, options.mesh)))
    return nullptr;
  if (wrong.empty())
    wrong = checkChunks(options, *mesh);
  if (wrong.empty())
    wrong = checkMicrobatches(&context, options);
  if (!wrong.empty()) {
    llvm::errs() << "colossal-opt: " << wrong << "\n";
    code = 2;
    return nullptr;
  }
  // The phases behind import are run with these.
  if (options.training) {
    FailureOr<CompileOptions> complete = completeTraining(&context, options);
    if (failed(complete)) {
      code = 2;
      return nullptr;
    }
    options = std::move(*complete);
  }
  CompileResult result;
  if (failed(compile(&context, options, Phase::Import, result))) {
    code = result.contradicts ? 2 : 1;
    return nullptr;
  }
  reported.meshes = result.meshes;
  reported.microbatchObstacle = result.microbatchObstacle;
  std::string text;
  llvm::raw_string_ostream stream(text);
  result.module->print(stream, OpPrintingFlags().enableDebugInfo(true));
  return llvm::MemoryBuffer::getMemBufferCopy(text, options.import.modelPath);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::SetVersionPrinter([](llvm::raw_ostream &out) { out << "colossal-opt " COLOSSAL_VERSION "\n"; });
  static CompileOptions options;
  static CompileResult result; // what phases report
  DialectRegistry registry;
  registerDialects(registry);
  registerCanonicalizerPass();
  registerCSEPass();
  registerSymbolDCEPass();
  registerPhases(options, &result);
  registerCLIOptions("", registry);
  hideOthers();
  if (argc == 3 && StringRef(argv[1]) == "--write-manual") {
    std::string wrong = tool::writeManual(describeOptions(), argv[2]);
    if (!wrong.empty())
      llvm::errs() << "colossal-opt: " << wrong << "\n";
    return wrong.empty() ? 0 : 3;
  }
  auto [input, output] = parseCLIOptions(argc, argv, kOverview);
  if (failed(readOptions(input, options)))
    return failureExitCode(2);
  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  std::string told; // of the plan of a training step
  int code = 1;
  if (StringRef(input).ends_with(".onnx"))
    buffer = importAsText(options, result, registry, told, code);
  else if (!(buffer = openInputFile(input, &error))) {
    llvm::errs() << "colossal-opt: " << error << "\n";
    noteUnusableInput();
  }
  if (!buffer)
    return failureExitCode(code);
  auto refuse = [](const OutputError &error) {
    llvm::errs() << "colossal-opt: " << error.message << "\n";
    return error.exitCode();
  };
  if (OutputError wrong = checkOutput(output))
    return refuse(wrong);
  std::string text;
  llvm::raw_string_ostream stream(text);
  LogicalResult done =
      MlirOptMain(stream, std::move(buffer), registry, MlirOptMainConfig::createFromCLOptions());
  // Of a file that is split, the parts that went well are shown; a file holds all of them.
  if (succeeded(done) || isStandardOutput(output))
    if (OutputError unwritten = writeOutput(output, text))
      return refuse(unwritten);
  if (explain && succeeded(done)) {
    describeStages(result);
    llvm::errs() << told << describeMeshes(options, result) << result.layout.explanation
                 << result.layout.summary;
  }
  return failed(done);
}
