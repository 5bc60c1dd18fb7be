//===- main.cpp - colossal-compile ------------------------------------------===//
//
// ONNX file in, plan out. The work is lib/Compiler's.
//
//===----------------------------------------------------------------------===//
#include "Options.h"

#include "colossal/Output/OutputFile.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <cstdlib>

using namespace mlir;
using namespace colossal;

static void printDiagnostic(Diagnostic &diagnostic) {
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

static int printInputs(MLIRContext &context, const std::string &path) {
  FailureOr<std::vector<ModelInput>> inputs = listInputs(&context, path);
  if (failed(inputs))
    return 1;
  for (const ModelInput &input : *inputs) {
    llvm::outs() << input.name << ": " << input.type << " [";
    for (auto [i, dim] : llvm::enumerate(input.shape)) {
      llvm::outs() << (i ? ", " : "");
      if (dim.size >= 0)
        llvm::outs() << dim.size;
      else
        llvm::outs() << (dim.isNamed ? dim.name : "?");
    }
    llvm::outs() << "]" << (input.hasShape ? "" : " (no shape: bind it with --shape)");
    auto open = llvm::find_if(input.shape, [](const InputDim &dim) { return dim.size < 0 && !dim.isNamed; });
    if (open != input.shape.end())
      llvm::outs() << " (?: no name; bind the shape with --shape " << input.name
                   << "=..., or one of them with --dim " << open->name << "=VALUE)";
    llvm::outs() << "\n";
  }
  return 0;
}

static void printOperators() {
  for (const SupportedOperator &op : listOperators()) {
    llvm::outs() << (op.domain.empty() ? "ai.onnx" : op.domain) << " " << op.name << " " << op.first << "-";
    if (op.last)
      llvm::outs() << op.last;
    llvm::outs() << "\n";
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
    return result.contradicts ? 2 : 1;
  if (!options.quiet || !result.found)
    llvm::outs() << result.report;
  if (!result.json.empty()) {
    if (!writeOutput(options.output, result.json)) {
      llvm::errs() << "colossal-compile: error: cannot write '" << options.output << "'\n";
      return 1;
    }
    if (!options.quiet)
      llvm::outs() << llvm::format("%s: planned in %.2f s\n", options.output.c_str(), seconds());
  }
  return result.found ? 0 : 1;
}

int main(int argc, char **argv) {
  Options options;
  if (int code = parseOptions(argc, argv, options); code >= 0)
    return code;
  if (options.listOperators)
    return printOperators(), 0;
  DialectRegistry registry;
  registerDialects(registry);
  // One thread works on the module; kernels are compiled by others, each with a context of its own.
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false); // messages name nodes; a dump of the module helps nobody
  context.loadAllAvailableDialects();
  ScopedDiagnosticHandler handler(&context, [](Diagnostic &diagnostic) {
    printDiagnostic(diagnostic);
    return success();
  });
  if (options.printInputs)
    return printInputs(context, options.compile.import.modelPath);
  if (options.planOnly)
    return planTraining(context, options);

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
      !foreign.empty() && last == Phase::Plan)
    llvm::errs() << "colossal-compile: warning: " << foreign << "\n";
  CompileResult result;
  if (failed(compile(&context, options.compile, last, result)))
    return 1;
  if (options.asPins) {
    llvm::outs() << result.layout.pins;
    if (!options.isOutputGiven)
      return 0;
    if (std::string error = writePlanFile(result, options.output); !error.empty()) {
      llvm::errs() << "colossal-compile: error: " << error << "\n";
      return 1;
    }
    return 0;
  }
  if (last != Phase::Plan) {
    result.module->print(llvm::outs(), OpPrintingFlags().enableDebugInfo(false).elideLargeElementsAttrs(64));
    llvm::outs() << "\n";
    return 0;
  }
  if (std::string error = writePlanFile(result, options.output); !error.empty()) {
    llvm::errs() << "colossal-compile: error: " << error << "\n";
    return 1;
  }
  if (options.explain)
    llvm::outs() << result.layout.explanation;
  if (!options.quiet) {
    llvm::outs() << "machine: " << options.machineOrigin << "\n" << result.layout.summary;
    llvm::outs() << llvm::format("%s: %zu kernels, %zu bytes of code, compiled in %.2f s\n",
                                 options.output.c_str(), result.code.kernels, result.code.image.size(),
                                 seconds());
  }
  // The plan is written. The system frees memory faster than a hundred thousand destructors do.
  llvm::outs().flush();
  llvm::errs().flush();
  std::_Exit(0);
}
