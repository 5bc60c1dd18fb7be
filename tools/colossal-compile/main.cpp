//===- main.cpp - colossal-compile ------------------------------------------===//
//
// ONNX file in, plan out. The work is lib/Compiler's.
//
//===----------------------------------------------------------------------===//
#include "HugePages.h"
#include "Options.h"
#include "Report.h"

#include "colossal/Output/OutputFile.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_os_ostream.h"
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <set>

using namespace mlir;
using namespace colossal;

/// Standard output by way of C++'s stream, whose errors finishOutput sees.
static llvm::raw_ostream &out() {
  static llvm::raw_os_ostream stream(std::cout);
  return stream;
}

static int report(const OutputError &error) {
  llvm::errs() << "colossal-compile: error: " << error.message << "\n";
  return error.exitCode();
}

static void printDiagnostic(Diagnostic &diagnostic) {
  // A remark is said of the first node that it holds for.
  static std::set<std::string> told;
  if (diagnostic.getSeverity() == DiagnosticSeverity::Remark && !told.insert(diagnostic.str()).second)
    return;
  llvm::StringRef severity = diagnostic.getSeverity() == DiagnosticSeverity::Error     ? "error"
                             : diagnostic.getSeverity() == DiagnosticSeverity::Warning ? "warning"
                                                                                       : "note";
  OnnxNames names = getOnnxNames(diagnostic.getLocation());
  llvm::errs() << "colossal-compile: " << severity << ": ";
  std::string text = diagnostic.str();
  if (!names.nodes.empty() && !llvm::StringRef(text).starts_with("node '"))
    llvm::errs() << "node '" << names.nodes.front() << "': ";
  llvm::errs() << text << "\n";
  for (Diagnostic &note : diagnostic.getNotes())
    printDiagnostic(note);
}

static int printInputs(MLIRContext &context, const Options &options) {
  FailureOr<std::vector<ModelInput>> inputs = listInputs(&context, options.compile.import.modelPath);
  if (failed(inputs))
    return failureExitCode(1);
  if (options.json) {
    out() << printInputsJson(*inputs);
    return 0;
  }
  for (const ModelInput &input : *inputs) {
    out() << input.name << ": " << input.type << " [";
    for (auto [i, dim] : llvm::enumerate(input.shape)) {
      out() << (i ? ", " : "");
      if (dim.size >= 0)
        out() << dim.size;
      else
        out() << (dim.isNamed ? dim.name : "?");
    }
    out() << "]" << (input.hasShape ? "" : " (no shape: bind it with --shape)");
    auto open = llvm::find_if(input.shape, [](const InputDim &dim) { return dim.size < 0 && !dim.isNamed; });
    if (open != input.shape.end())
      out() << " (?: no name; bind the shape with --shape " << input.name
            << "=..., or one of them with --dim " << open->name << "=VALUE)";
    out() << "\n";
  }
  return 0;
}

static int printParameters(MLIRContext &context, const Options &options) {
  FailureOr<std::vector<training::ParameterInfo>> parameters = listParameters(&context, options.compile);
  if (failed(parameters))
    return failureExitCode(1);
  if (options.json) {
    out() << printParametersJson(*parameters);
    return 0;
  }
  int64_t trained = 0, elements = 0;
  for (const training::ParameterInfo &parameter : *parameters) {
    auto type = cast<RankedTensorType>(parameter.type);
    out() << (parameter.isTrained ? "trained  " : "frozen   ") << parameter.name << " [";
    llvm::interleaveComma(type.getShape(), out());
    out() << "] " << type.getElementType();
    if (parameter.isTrained && !parameter.decays)
      out() << ", does not decay";
    if (!parameter.tied.empty())
      out() << ", tied to " << llvm::join(parameter.tied, ", ");
    if (!parameter.why.empty())
      out() << ": " << parameter.why;
    out() << "\n";
    trained += parameter.isTrained;
    elements += parameter.isTrained ? type.getNumElements() : 0;
  }
  out() << trained << " of " << parameters->size() << " parameters are trained, " << elements
        << " elements\n";
  return 0;
}

static void printOperators(const Options &options) {
  if (options.json) {
    out() << printOperatorsJson(listOperators());
    return;
  }
  for (const SupportedOperator &op : listOperators()) {
    out() << (op.domain.empty() ? "ai.onnx" : op.domain) << " " << op.name << " " << op.first << "-";
    if (op.last)
      out() << op.last;
    out() << "\n";
  }
}

static int planTraining(MLIRContext &context, Options &options) {
  auto begin = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  if (!options.quiet)
    options.training.progress = [&](const std::string &text) {
      llvm::errs() << llvm::format("[%6.2f s] ", seconds()) << text << "\n";
    };
  PlanTrainingResult result;
  if (failed(colossal::planTraining(&context, options.training, result)))
    return failureExitCode(result.contradicts ? 2 : 1);
  // A plan that was priced is written where that is asked for; what is no plan, nowhere.
  const bool isPriced = !options.training.pricePath.empty();
  const bool isWritten = isPriced ? options.isOutputGiven : result.found;
  // Where JSON goes to standard output, it goes alone.
  llvm::raw_ostream &text =
      options.json || (isWritten && isStandardOutput(options.output)) ? llvm::errs() : out();
  if (!result.found || !(options.quiet || options.json))
    text << result.report;
  if (isWritten) {
    if (OutputError error = writeOutput(options.output, result.json))
      return report(error);
    if (!options.quiet)
      text << llvm::format("%s: %s in %.2f s\n", options.output.c_str(), isPriced ? "priced" : "planned",
                           seconds());
  }
  if (options.json && !(isWritten && isStandardOutput(options.output)))
    out() << result.json;
  return result.found ? 0 : 1;
}

/// What a training plan promises, to stand beside what its program is predicted to take; and which better
/// ones were not taken, and why.
static std::string describeSteps(const Options &options) {
  std::string text = "plan: " + describe(options.steps.back()) + "\n";
  for (const PlannedStep &step : llvm::ArrayRef(options.steps).drop_back())
    text += "  not taken: " + describe(step) + ": " +
            (step.neededBytes ? "its program needs " + std::to_string(step.neededBytes) + " bytes of a device"
                              : step.refusal) +
            "\n";
  return text;
}

/// Makes ready the joint search for a step. None where it cannot take the model: then meshes are tried, or
/// the one that was given is taken.
static std::optional<StepPlanner> makePlanner(MLIRContext &context, Options &options) {
  std::string why;
  ScopedDiagnosticHandler hold(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return failure(); // is told as it comes
    if (why.empty())
      why = diagnostic.str();
    return success();
  });
  if (FailureOr<StepPlanner> planner = StepPlanner::create(&context, options.training); succeeded(planner))
    return std::move(planner);
  if (options.isPlanOptional) {
    options.unplanned = "the joint search cannot plan this model: " + why;
    return std::nullopt;
  }
  llvm::errs() << "colossal-compile: warning: the joint search cannot plan this model: " << why
               << "; meshes without stages are tried instead\n";
  return std::nullopt;
}

/// Compiles what the joint search finds for a mesh, if it has a plan for it; else says why not.
static LogicalResult tryPlans(MLIRContext &context, const Options &options, StepPlanner &planner, Phase last,
                              CompileResult &result, std::vector<PlannedStep> &tried, std::string &why) {
  std::vector<Diagnostic> said;
  LogicalResult done = failure();
  {
    ScopedDiagnosticHandler hold(&context, [&](Diagnostic &diagnostic) {
      if (why.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
        why = llvm::StringRef(diagnostic.str()).split('\n').first.rtrim(':').str();
      said.push_back(std::move(diagnostic));
      return success();
    });
    done = compilePlanned(&context, options.compile, planner, last, result, tried);
  }
  if (succeeded(done))
    for (Diagnostic &diagnostic : said)
      context.getDiagEngine().emit(std::move(diagnostic));
  return done;
}

/// A model all the way to its plan, or to the phase that is asked for. `planner`: finds what is compiled.
/// Returns the exit code; none where `planner` finds nothing that can be compiled and that is no matter.
static std::optional<int> compileModel(MLIRContext &context, Options &options,
                                       StepPlanner *planner = nullptr) {
  auto begin = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  if (!options.quiet)
    options.compile.progress = [&](llvm::StringRef phase) {
      llvm::errs() << llvm::format("[%6.2f s] ", seconds()) << phase << "\n";
    };
  // Pins need no plan, unless one was asked for too; or --memory, as whether a plan keeps within it, and so
  // its layout, is known at its end.
  bool needsPlan = !options.asPins || options.isOutputGiven || options.compile.layout.memoryBytes;
  Phase last = options.asPins ? (needsPlan ? Phase::Plan : Phase::Search) : options.last;
  if (std::string foreign = layout::describeForeignTimes(options.compile.layout.machine);
      !foreign.empty() && last == Phase::Plan && options.compile.schedule.target->name() == "cpu")
    llvm::errs() << "colossal-compile: warning: " << foreign << "\n";
  CompileResult result;
  LogicalResult done =
      !planner ? compile(&context, options.compile, last, result)
      : options.isPlanOptional
          ? tryPlans(context, options, *planner, last, result, options.steps, options.unplanned)
          : compilePlanned(&context, options.compile, *planner, last, result, options.steps);
  if (planner && succeeded(done))
    options.planned = describeSteps(options);
  if (planner && failed(done) && options.isPlanOptional) {
    options.steps.clear();
    return std::nullopt;
  }
  if (succeeded(done) && !options.unplanned.empty() && options.training.task.devices > 1)
    llvm::errs() << "colossal-compile: warning: there is no plan of this step on mesh "
                 << options.compile.mesh << ": " << options.unplanned
                 << "; the layout search alone has laid it out, and nothing was foreseen of it\n";
  if (failed(done))
    return failureExitCode(std::max(result.contradicts ? 2 : 1,
                                    options.writesPlan() ? checkOutput(options.output).exitCode() : 0));
  if (options.asPins) {
    out() << (options.json ? printPinsJson(result) : result.layout.pins);
    if (options.isOutputGiven)
      if (OutputError error = writePlanFile(result, options.output))
        return report(error);
    return 0;
  }
  if (last != Phase::Plan) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    result.module->print(stream, OpPrintingFlags().enableDebugInfo(false).elideLargeElementsAttrs(64));
    stream << "\n";
    OutputError error = writeOutput(options.isOutputGiven ? options.output : "-", text);
    return error ? report(error) : 0;
  }
  if (OutputError error = writePlanFile(result, options.output))
    return report(error);
  if (options.verbose)
    llvm::errs() << describePhases(options, result);
  if (options.json)
    out() << printResultJson(options, result, seconds());
  else if (options.explain)
    out() << result.layout.explanation;
  if (!options.quiet && !options.json) {
    out() << options.planned << "machine: " << options.machineOrigin << "\n"
          << describeMeshes(options.compile, result) << result.layout.summary;
    out() << llvm::format("%s: %zu kernels, %zu bytes of code, compiled in %.2f s\n", options.output.c_str(),
                          result.code.kernels, result.images.size(), seconds());
  }
  // The system frees memory faster than a hundred thousand destructors do.
  out().flush();
  int code = finishOutput("colossal-compile", 0);
  llvm::errs().flush();
  std::_Exit(code);
}

/// What of the options does not fit their mesh, and what to do; or "".
static std::string checkMesh(const CompileOptions &options, dist::MeshAttr mesh) {
  if (std::string error =
          step::checkStagePins(options.layout.pins, mesh, std::max<int64_t>(1, options.chunks));
      !error.empty())
    return error;
  const std::string &recipe = options.layout.recipe;
  if (dist::MeshAttr ofStage = step::getStageMesh(mesh)) {
    if (!recipe.empty() && ofStage.getNumRanks() == 1)
      return "--layout '" + recipe +
             "' splits over axes inside of a stage, and the mesh has none beside 'stage': " +
             "give it one, as in --mesh " + options.mesh + ",model=2";
    mesh = ofStage;
  }
  std::string error = layout::checkRecipe(recipe, mesh);
  return error.empty() ? "" : "--layout: " + error;
}

static int run(Options &options) {
  if (options.listOperators)
    return printOperators(options), 0;
  DialectRegistry registry;
  registerDialects(registry);
  // One thread works on the module; kernels are compiled by others, each with a context of its own.
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.disableMultithreading(); // what keeps attributes and types apart takes locks until it hears so, too
  context.printOpOnDiagnostic(false); // messages name nodes; a dump of the module helps nobody
  context.loadAllAvailableDialects();
  ScopedDiagnosticHandler handler(&context, [](Diagnostic &diagnostic) {
    printDiagnostic(diagnostic);
    return success();
  });
  if (options.printInputs)
    return printInputs(context, options);
  if (options.printParameters)
    return printParameters(context, options);
  if (options.planOnly)
    return planTraining(context, options);
  if (options.isPlanGiven) {
    FailureOr<PlannedStep> step = readPlannedStep(&context, options.training);
    if (failed(step))
      return failureExitCode(1);
    options.steps = {std::move(*step)};
    options.planned = describeSteps(options);
    options.take(options.steps.back());
  }
  if (options.isPlanSearched) {
    if (!options.quiet)
      options.training.progress = [](const std::string &) {};
    if (std::optional<StepPlanner> planner = makePlanner(context, options))
      if (std::optional<int> code = compileModel(context, options, &*planner))
        return *code;
    options.compile.devices = 0;
    if (std::string wrong =
            options.isPlanOptional
                ? ""
                : searchMesh(options.compile, options.training.task.devices, options.isMeshGiven);
        !wrong.empty()) {
      emitError(UnknownLoc::get(&context)) << wrong;
      return 2;
    }
  }
  dist::MeshAttr mesh;
  if (!options.compile.mesh.empty()) {
    FailureOr<dist::MeshAttr> parsed = parseMesh(&context, options.compile.mesh);
    if (failed(parsed) || failed(makeMesh(&context, options.compile)))
      return 2;
    mesh = *parsed;
    // Axes of a mesh that is searched for a number of devices come beside those that are given.
    if (std::string error = options.compile.devices ? "" : checkMesh(options.compile, mesh); !error.empty()) {
      emitError(UnknownLoc::get(&context)) << error;
      return 2;
    }
  }
  if (std::string error = checkChunks(options.compile, mesh); !error.empty()) {
    emitError(UnknownLoc::get(&context)) << error;
    return 2;
  }
  if (std::string error = checkMicrobatches(&context, options.compile); !error.empty()) {
    emitError(UnknownLoc::get(&context)) << error;
    return 2;
  }
  if (options.knowsUnits)
    options.compile.findKept = [&]() -> std::vector<std::vector<std::string>> {
      FailureOr<std::vector<std::vector<std::string>>> found = findKept(&context, options.training);
      return succeeded(found) ? std::move(*found) : std::vector<std::vector<std::string>>();
    };
  return *compileModel(context, options);
}

int main(int argc, char **argv) {
  useHugePages();
  Options options;
  int code = parseOptions(argc, argv, options);
  if (code < 0)
    code = run(options);
  out().flush();
  return finishOutput("colossal-compile", code);
}
