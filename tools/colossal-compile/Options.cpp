//===- Options.cpp - the command line of colossal-compile -------------------===//
#include "RawOptions.h"

#include "colossal/Codegen/Targets.h"
#include "colossal/Outline/OpNames.h"
#include "colossal/Output/OutputFile.h"

#include "tools/manual/CommandLine.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <set>

static const char *const kHelp = R"(Compiles an ONNX model for a mesh of devices, ahead of time.

Examples:
  colossal-compile gpt2.onnx --print-inputs
  colossal-compile gpt2.onnx --mesh 2x2 --dim batch=4 --dim seq=128 -o gpt2.cplan
  colossal-compile gpt2.onnx --mesh data=2,model=2 --dim batch=1,4,8 --dim seq=128 --memory 512MiB
  colossal-compile gpt2.onnx --devices 8 --dim batch=4 --dim seq=128 -o gpt2.cplan
  colossal-compile gpt2.onnx --devices 8 --mesh model=2 --objective throughput --dim batch=4 --dim seq=128
  colossal-compile gpt2.onnx --mesh 4 --dim batch=1 --dim seq=128 --explain --as-pins
  colossal-compile gpt2.onnx --mesh 2 --dim batch=8 --dim seq=128 --microbatches 4 -o gpt2.cplan
  colossal-compile gpt2.onnx --print-parameters
  colossal-compile gpt2.onnx --training adamw --loss cross-entropy,logits=logits,shift=1 --global-batch 16 --dim seq=128 -o train.cplan
  colossal-compile llama.onnx --devices 64 --machine h100 --training adamw --global-batch 512 --dim seq=8192 --plan-only -o plan.json
  colossal-compile llama.onnx --devices 64 --mesh model=8,stage=2 --zero 1 --global-batch 512 --dim seq=8192 --plan-only
  colossal-compile llama.onnx --dim seq=8192 --plan-only --price plan.json
  colossal-compile llama.onnx --dim seq=8192 --plan-only --price plan.json other.json

The plan is run by colossal-run. Weights stay in the model's files; the plan says which part each rank reads.

With --plan-only, a training step is planned over many devices: mesh, layouts, pipeline stages and schedule, microbatch, ZeRO
stage and recompute, from the model's file alone (its weights need not be there). The batch, the first dimension of the inputs,
is left open; all other dimensions are bound. The plan is written as JSON (docs/Search.md), a report to standard output.)";

static const char *const kFooter = R"(
Exit codes: 0 compiled, or planned; 1 the model cannot be compiled as asked (the message says why), or no training plan fits; 2 the command line is wrong
(an option, the mesh, an unknown machine, an output that would replace a file that is read); 3 a file cannot be read (the model, its
weights, a machine, pins, ...) or written; 130 interrupted; 143 terminated.)";

namespace {

/// What MLIR's pass manager is asked to do beside running the phases' passes.
void configurePasses(mlir::PassManager &manager, const PassOptions &options) {
  if (!options.printAfter.empty())
    manager.enableIRPrinting(
        nullptr,
        [after = options.printAfter](mlir::Pass *pass, mlir::Operation *) {
          return after == "all" || after == pass->getArgument();
        },
        /*printModuleScope=*/true, /*printAfterOnlyOnChange=*/false, /*printAfterOnlyOnFailure=*/false,
        llvm::errs(), mlir::OpPrintingFlags().elideLargeElementsAttrs(64));
  if (!options.reproducer.empty())
    manager.enableCrashReproducerGeneration(options.reproducer);
  if (options.timing)
    manager.enableTiming();
}

/// Of the files that the command line names: those that are read are noted, and it is seen that the output is
/// none of them and can be written. -1, or the exit code.
int checkFiles(const Options &options) {
  const colossal::CompileOptions &compile = options.compile;
  auto refuse = [](int code, const std::string &text) {
    std::cerr << "colossal-compile: error: " << text << "\n";
    return code;
  };
  if (options.listOperators)
    return -1;
  colossal::noteInput(compile.import.modelPath);
  for (const auto &[name, contents] : compile.import.values)
    if (!contents.file.empty())
      colossal::noteInput(contents.file);
  for (const std::string &path : {options.training.pricePath, options.training.otherPricePath})
    if (!path.empty())
      colossal::noteInput(path);
  if (options.printsOnly())
    return -1;
  if (options.writesPlan() && colossal::isStandardOutput(options.output))
    return refuse(2,
                  "-o -: a plan for colossal-run is a file, whose weights are found from where it lies; give "
                  "it a name (./- is a file of that name)");
  bool isWritten = options.isOutputGiven || options.writesPlan() ||
                   (options.planOnly && options.training.pricePath.empty());
  if (colossal::OutputError error =
          isWritten ? colossal::checkOutput(options.output) : colossal::OutputError())
    return refuse(error.exitCode(), error.message);
  return -1;
}

/// The command line as the plan records it: without where the plan goes, what is printed and the pins, whose
/// layout the plan shows. So equal inputs give equal bytes, also those that --as-pins printed.
std::string recordCommandLine(int argc, char **argv) {
  const std::set<std::string> ofTwo = {"-o",      "--output",         "--pin",
                                       "--pins",  "--print-ir-after", "--crash-reproducer",
                                       "--layout"},
                              ofOne = {"-q",     "--quiet",   "-v",        "--verbose",
                                       "--json", "--explain", "--as-pins", "--timing"};
  std::string text = "colossal-compile";
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i], name = word.substr(0, word.find('='));
    if (ofTwo.count(word))
      ++i;
    else if (!ofTwo.count(name) && !ofOne.count(word) && (word.size() < 2 || word.compare(0, 2, "-o") != 0))
      text += " " + word;
  }
  return text;
}

/// The model, its inputs' sizes, and the ranks that it is for.
void addModelOptions(CLI::App &app, RawOptions &raw, Options &options) {
  colossal::CompileOptions &compile = options.compile;
  app.add_option("MODEL", compile.import.modelPath, "the ONNX file");
  app.add_option("-o,--output", options.output,
                 "the plan file; default: the model's name with .cplan, in this folder")
      ->check([](const std::string &text) { return text.empty() ? "it is empty" : ""; });
  app.add_option(
      "--mesh", compile.mesh,
      "mesh of ranks: 4, 2x2, or with names data=2,model=2 (default 1); an axis named stage cuts "
      "the model into pipeline stages: stage=2,model=2 (docs/Stages.md); with "
      "--training: axes data, model, context and stage, or sizes whose roles are searched, on which "
      "the joint search plans what no option says (docs/Training.md); with --plan-only: of these, "
      "those that are fixed");
  app.add_option(
         "--devices", options.training.task.devices,
         "how many ranks; the search chooses their mesh, pipeline stages and microbatches, but for the axes "
         "that --mesh names (model=2, stage=1) and the number that --microbatches gives. "
         "They are ranks of this host, or of --machine; with --plan-only: how many devices of --machine "
         "(default there: h100) to use")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--objective", raw.objective,
                 "what the mesh is chosen for: latency (default), the time of one run from its inputs to its "
                 "outputs, or throughput, the runs that are done in a second where they follow one another; "
                 "that is 1 / latency, but for pipeline stages, which then work on several runs at once")
      ->check(CLI::IsMember({"latency", "throughput"}));
  app.add_option(
         "--dim", raw.dims,
         "NAME=VALUE binds a symbolic dimension; NAME=1,4,8 makes a program for each value; "
         "NAME,NAME=VALUE binds several names alike. Where a model has numbered names only (s33), batch and "
         "seq mean the inputs' first and second dimension")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter('\0');
  app.add_option("--shape", raw.shapes, "INPUT=2x3x4 binds an input's shape")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--value", raw.values,
                 "INPUT=LITERAL (3, [1,2]) or INPUT=FILE (.npy, .pb) binds an input's contents")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

/// What the layout is chosen by, what is printed of it, and what code is made for.
void addLayoutOptions(CLI::App &app, RawOptions &raw, Options &options) {
  app.add_option("--memory", raw.memory,
                 "memory limit of a device: bytes, or 512MiB, 2GB (default: the machine's)")
      ->check([](const std::string &text) { return text.empty() ? "it is empty" : ""; });
  app.add_option("--machine", raw.machine,
                 "machine description: a file, or a name (default: COLOSSAL_MACHINE, else the file that "
                 "colossal-cost calibrate --default made, else this host)");
  app.add_option("--layout", options.compile.layout.recipe,
                 "a layout of the papers on this mesh: 1d, sequence, ulysses; 2d (axes: rows, columns), 2.5d "
                 "(depth, rows, columns), 3d (M, K, N); an axis named data splits the batch beside it; see "
                 "docs/Layouts.md")
      ->check(CLI::IsMember({"1d", "2d", "2.5d", "3d", "sequence", "ulysses"}));
  app.add_option("--pin", raw.pins,
                 "REGEX=LAYOUT fixes the layout of ops or tensors by their ONNX names, see docs/Layouts.md; "
                 "REGEX=stage:K puts ops into stage K, from 0 on")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--pins", raw.pinFiles,
                 "file of pins, one a line, such as --explain --as-pins prints; # begins a comment")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option(
         "--microbatches", options.training.fixed.microbatches,
         "cut the batch into so many equal parts, which run one after the other in a loop (they need not "
         "divide it: the last one is padded); with --plan-only: fix how many microbatches a rank has in "
         "a step")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option(
         "--chunks", options.training.fixed.chunks,
         "parts of the model, which do not follow one another, that each pipeline stage holds: stages "
         "wait less for one another, and send more; with --plan-only: fix them (schedules interleaved, "
         "zb-v)")
      ->check(CLI::Range(1, 1 << 10));
  app.add_option(
      "--batch-dim", options.training.batchDimension,
      "name of the dimension that --microbatches and --plan-only cut (default: the first dimension of "
      "the inputs; without --plan-only: the one named batch, where there is one)");
  app.add_flag("--explain", options.explain, "print what was split how, and what it costs");
  app.add_flag("--as-pins", options.asPins,
               "with --explain: print the layout as pins that give the same plan, one a line, for a file "
               "that --pins takes; a plan is written only with -o");
  app.add_flag("--print-inputs", options.printInputs,
               "list the model's inputs and what must be bound, and stop");
  app.add_flag("--print-parameters", options.printParameters,
               "list the model's parameters, which of them training would change and why not the others, and "
               "stop");
  app.add_flag("--list-operators", options.listOperators, "list the supported ONNX operators, and stop");
  app.add_flag_callback(
      "--list-targets",
      [] {
        for (const std::string &name : colossal::codegen::listTargets())
          std::cout << name << "\n";
        throw CLI::Success();
      },
      "list what --target takes, and stop");
  app.add_option("--emit", raw.emit,
                 "stop after a phase and print its IR: import, precision, differentiate, outline, step, "
                 "search, partition, "
                 "schedule");
  app.add_option("--precision", raw.precision,
                 "f32, tf32, bf16 or f16: what floats are stored and computed in (default: the file's types; "
                 "with --plan-only bf16); inputs and outputs keep their types, and so do trained parameters");
  app.add_option("--target", raw.target,
                 "what to make code for: cpu, this host's processor (default), or cpu:NAME, the processor "
                 "that LLVM calls so, such as cpu:x86-64-v3");
  app.add_option(
      "--cudnn", raw.cudnn,
      "what a plan for NVIDIA's GPUs leaves to cuDNN: off (default), convolution, attention or all; of "
      "inference "
      "only. Never seen on hardware; cuDNN 9.8 or newer (for attention 9.21) has to be there where the plan "
      "runs");
  app.add_option("--target-cpu", raw.processor, "NAME: the same as --target cpu:NAME");
}

void addPassOptions(CLI::App &app, PassOptions &options) {
  CLI::Option_group *group = app.add_option_group("Passes", "for looking inside the compiler");
  group->add_flag("--timing", options.timing, "print how long each pass took");
  group->add_option("--print-ir-after", options.printAfter,
                    "print the IR after a pass (colossal-search-layouts, ...; docs/Passes.md) or after all");
  group->add_option("--crash-reproducer", options.reproducer,
                    "where a pass fails or crashes, write the module and the passes to this file, for "
                    "colossal-opt FILE --run-reproducer");
}

/// The planner counts in doubles, which the parser takes with what stands behind the point.
CLI::Validator isBatch() {
  return CLI::Validator(
      [](const std::string &text) {
        double number = 0;
        const bool isNumber = CLI::detail::lexical_cast(text, number);
        return isNumber && number >= 1 && number <= 1e9 && number == std::floor(number)
                   ? std::string()
                   : "'" + text + "' is not a whole number from 1 to 10^9";
      },
      "");
}

void addTrainingOptions(CLI::App &app, RawOptions &raw, Options &options) {
  colossal::PlanTrainingOptions &training = options.training;
  training.task.devices = 0;
  training.task.globalBatch = 0;
  CLI::Option_group *group = app.add_option_group(
      "Training", "a step that is compiled, or, with --plan-only, planned for many devices");
  group->add_flag("--plan-only", options.planOnly,
                  "plan a training step and write the plan as JSON; make no code");
  group->add_option(
      "--plan", raw.plan,
      "compile the step as this training plan says, which --plan-only has written: mesh, "
      "microbatches, ZeRO stage, recomputation, precision, and the layouts of the forward pass");
  group->add_option("--training", raw.training,
                    "compile a training step, with this optimizer: " + colossal::training::listOptimizers() +
                        " (with --plan-only the default is adamw)");
  group->add_option("--loss", raw.loss,
                    "what is minimized: cross-entropy,logits=OUTPUT[,labels=NAME][,shift=1][,tokens=NAME]"
                    "[,ignore-index=-100][,label-smoothing=S]; mse, l1 or bce-with-logits with output=NAME; "
                    "output=NAME, a loss that the model computes itself");
  group->add_option("--global-batch", training.task.globalBatch, "samples in a step")->check(isBatch());
  const auto findError = [](const std::string &text) {
    std::string error;
    (void)colossal::outline::NamePattern::parse(text, error);
    return error;
  };
  auto addRules = [&](const char *name, std::vector<std::string> &rules, const char *text) {
    group->add_option(name, rules, text)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->check(findError);
  };
  addRules("--train", raw.parameters.train,
           "REGEX of names: train these parameters, whatever they look like");
  addRules("--freeze", raw.parameters.freeze, "REGEX of names: leave these parameters as they are");
  addRules("--no-decay", raw.parameters.noDecay, "REGEX of names: these parameters do not decay");
  addRules("--tie", raw.parameters.tie, "REGEX of names: these equal parameters are one");
  addRules("--untie", raw.parameters.untie, "REGEX of names: what shares one of these has its own");
  group
      ->add_option(
          "--batch-norm", raw.batchNorm,
          "batch normalizations take the statistics of the batch and keep running ones (train), or take the "
          "file's (frozen); default: as each node of the file says (training_mode)")
      ->check(CLI::IsMember({"train", "frozen"}));
  group->add_flag("--sync-batch-norm", raw.syncBatchNorm,
                  "batch normalizations take the statistics of a microbatch on all ranks, not on each of the "
                  "axis 'data'");
  group->add_option("--attention", raw.attention,
                    "fused (default): scores are never stored; unfused: they are");
  group->add_option("--zero", training.fixed.zero, "fix the ZeRO stage, 0 to 3")->check(CLI::Range(0, 3));
  group->add_option(
      "--recompute", training.fixed.recompute,
      "what the backward pass makes again instead of keeping it: none; selective: all but what "
      "contractions, convolutions and attention give; full: all but what goes from one segment of "
      "the model to the next (default: the least with which the step fits)");
  group->add_option("--pipeline-schedule", training.fixed.schedule,
                    "fix the schedule: " + colossal::cost::scheduleNames());
  group
      ->add_option("--price", raw.prices,
                   "price the plan in this JSON file instead of searching; with a second file, compare them")
      ->expected(1, 2)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

/// Where the output goes that --output does not name.
std::string nameOutput(const Options &options) {
  const std::string &model = options.compile.import.modelPath;
  std::string name = model.substr(model.find_last_of('/') + 1);
  size_t dot = name.rfind(".onnx");
  return (dot == std::string::npos ? name : name.substr(0, dot)) +
         (options.planOnly ? ".plan.json" : ".cplan");
}

} // namespace

void Options::take(const colossal::PlannedStep &step) {
  colossal::applyPlan(step, compile);
  compile.precision = colossal::precision::parsePrecision(step.plan.task.precision);
}

int parseOptions(int argc, char **argv, Options &options) {
  CLI::App app(kHelp, "colossal-compile");
  RawOptions raw;
  colossal::CompileOptions &compile = options.compile;
  addModelOptions(app, raw, options);
  addLayoutOptions(app, raw, options);
  addPassOptions(app, raw.passes);
  addTrainingOptions(app, raw, options);
  app.add_flag(
      "--json", options.json,
      "print the plan's layout, memory, bytes, times and phases, or the training plan of --plan-only or "
      "--price, or the --print-inputs, --list-operators or --as-pins, as one JSON object");
  app.add_flag("-v,--verbose", options.verbose, "say what is compiled and how long each phase takes");
  app.add_flag("-q,--quiet", options.quiet, "no progress and no summary");
  app.set_version_flag("--version", "colossal-compile " COLOSSAL_VERSION);
  app.footer(kFooter);
  int manualCode = 0;
  if (colossal::tool::writesManual(argc, argv, app, "colossal-compile", COLOSSAL_VERSION, manualCode))
    return manualCode;
  try {
    app.parse(argc, argv);
    interpretPrices(raw.prices, options);
    if (!options.listOperators && compile.import.modelPath.empty())
      throw CLI::RequiredError("MODEL");
    interpret(raw, app.count("--mesh") > 0, options);
  } catch (const CLI::Success &success) {
    return app.exit(success);
  } catch (const CLI::ParseError &error) {
    const int code = colossal::failureExitCode(2);
    std::cerr << "colossal-compile: " << error.what() << "\n"
              << (code == 2 ? "Run colossal-compile --help for the options.\n" : "");
    return code;
  }
  compile.commandLine = recordCommandLine(argc, argv);
  compile.configurePasses = [passes = raw.passes](mlir::PassManager &manager) {
    configurePasses(manager, passes);
    return mlir::success();
  };
  options.isOutputGiven = !options.output.empty();
  if (options.output.empty())
    options.output = nameOutput(options);
  compile.planPath = options.writesPlan() ? options.output : "";
  if (int code = checkFiles(options); code >= 0)
    return code;
  if (colossal::OutputError error = raw.passes.reproducer.empty()
                                        ? colossal::OutputError()
                                        : colossal::checkOutput(raw.passes.reproducer)) {
    std::cerr << "colossal-compile: error: --crash-reproducer: " << error.message << "\n";
    return error.exitCode();
  }
  return -1;
}
