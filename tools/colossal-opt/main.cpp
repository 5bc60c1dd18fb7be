//===- main.cpp - colossal-opt ----------------------------------------------===//
//
// Every pass and phase by name, on ONNX or MLIR, for tests and for people who look inside:
//
//   colossal-opt gpt2.onnx --dim batch=1 --dim seq=128 --mesh 2x2 --colossal-pipeline=to=partition
//   colossal-opt block.mlir --colossal-partition
//
//===----------------------------------------------------------------------===//
#include "colossal/Compiler/Passes.h"
#include "colossal/Cost/MachineChoice.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace colossal;
namespace cl = llvm::cl;

static cl::OptionCategory category("Colossal");
static cl::list<std::string> dims("dim",
                                  cl::desc("NAME=VALUE binds a symbolic dimension of an ONNX model (else 8)"),
                                  cl::cat(category));
static cl::list<std::string> shapes("shape", cl::desc("INPUT=2x3x4 binds an input's shape"),
                                    cl::cat(category));
static cl::list<std::string>
    values("value", cl::desc("INPUT=LITERAL or INPUT=FILE binds an input's contents"), cl::cat(category));
static cl::opt<std::string> mesh("mesh", cl::desc("mesh of ranks: 4, 2x2, data=2,model=2"), cl::init("1"),
                                 cl::cat(category));
static cl::opt<uint64_t> memory("memory", cl::desc("memory limit of a device in bytes"), cl::init(0),
                                cl::cat(category));
static cl::opt<std::string> machine("machine", cl::desc("machine file or name"), cl::cat(category));
static cl::list<std::string> pins("pin", cl::desc("REGEX=LAYOUT, see docs/Layouts.md"), cl::cat(category));
static cl::opt<bool> noPatterns("no-patterns", cl::desc("leave decomposed ops as the model has them"),
                                cl::cat(category));
static cl::opt<bool> missingWeights("allow-missing-weights",
                                    cl::desc("import a model whose external data is not there"),
                                    cl::cat(category));
static cl::opt<std::string> targetCpu("target-cpu", cl::desc("LLVM's name of the CPU to compile for"),
                                      cl::cat(category));

/// Of dimensions that are not bound: one can look at a model before one knows its sizes.
constexpr int64_t kAssumedSize = 8;

static LogicalResult readOptions(const std::string &path, CompileOptions &options) {
  auto complain = [](const llvm::Twine &text) {
    llvm::errs() << "colossal-opt: " << text << "\n";
    return failure();
  };
  options.import.modelPath = path;
  options.import.assumedSize = kAssumedSize;
  options.import.recognisePatterns = !noPatterns;
  options.import.allowMissingWeights = missingWeights;
  options.mesh = mesh;
  options.layout.memoryBytes = memory;
  cost::MachineChoice choice = cost::chooseMachine(machine);
  if (!choice.error.empty())
    return complain(choice.error);
  options.layout.machine = std::move(choice.machine);
  options.layout.machineText = machine;
  options.layout.pins = pins;
  options.schedule.targetCpu = targetCpu;
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
    options.import.values[name.str()] = contents;
  }
  return success();
}

/// The model imported and printed, for MlirOptMain to read: names stay in the locations.
static std::unique_ptr<llvm::MemoryBuffer> importAsText(const CompileOptions &options,
                                                        DialectRegistry &registry) {
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  ScopedDiagnosticHandler warnings(&context, [](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Warning)
      return failure(); // whoever else handles it
    llvm::errs() << "colossal-opt: warning: " << diagnostic << "\n";
    return success();
  });
  CompileResult result;
  if (failed(compile(&context, options, Phase::Import, result)))
    return nullptr;
  FailureOr<dist::MeshAttr> meshAttr = parseMesh(&context, options.mesh);
  if (failed(meshAttr))
    return nullptr;
  (*result.module)->setAttr(dist::kMeshAttrName, *meshAttr);
  std::string text;
  llvm::raw_string_ostream stream(text);
  result.module->print(stream, OpPrintingFlags().enableDebugInfo(true));
  return llvm::MemoryBuffer::getMemBufferCopy(text, options.import.modelPath);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::SetVersionPrinter([](llvm::raw_ostream &out) { out << "colossal-opt " COLOSSAL_VERSION "\n"; });
  static CompileOptions options;
  DialectRegistry registry;
  registerDialects(registry);
  registerCanonicalizerPass();
  registerCSEPass();
  registerSymbolDCEPass();
  registerPhases(options);
  auto [input, output] =
      registerAndParseCLIOptions(argc, argv, "Colossal's passes and phases, one by one", registry);
  if (failed(readOptions(input, options)))
    return 2;
  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  if (StringRef(input).ends_with(".onnx"))
    buffer = importAsText(options, registry);
  else if (!(buffer = openInputFile(input, &error)))
    llvm::errs() << "colossal-opt: " << error << "\n";
  if (!buffer)
    return 1;
  auto file = openOutputFile(output, &error);
  if (!file) {
    llvm::errs() << "colossal-opt: " << error << "\n";
    return 1;
  }
  if (failed(MlirOptMain(file->os(), std::move(buffer), registry, MlirOptMainConfig::createFromCLOptions())))
    return 1;
  file->keep();
  return 0;
}
