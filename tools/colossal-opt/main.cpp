// colossal-opt: every pass and phase by name, on an ONNX model or MLIR text, for tests and for people who look inside.
#include "colossal/Import/ONNX.h"
#include "colossal/Layout/Layout.h"
#include "colossal/Partition/Partition.h"
#include "dialects/Colossal/Colossal.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

static llvm::cl::OptionCategory onnxCategory("ONNX input");
static llvm::cl::list<std::string> dims("dim", llvm::cl::cat(onnxCategory), llvm::cl::value_desc("NAME=VALUE"),
                                        llvm::cl::desc("binds a symbolic dimension"));
static llvm::cl::list<std::string> shapes("shape", llvm::cl::cat(onnxCategory), llvm::cl::value_desc("INPUT=AxBxC"),
                                          llvm::cl::desc("gives an input's shape"));
static llvm::cl::list<std::string> values("value", llvm::cl::cat(onnxCategory),
                                          llvm::cl::value_desc("INPUT=LITERAL or INPUT=FILE"),
                                          llvm::cl::desc("fixes an input's contents: a nested list, a .npy or a .pb file"));
static llvm::cl::opt<bool> noPatterns("no-patterns", llvm::cl::cat(onnxCategory),
                                      llvm::cl::desc("leave decomposed ops as the model has them"));

/// The options as the import phase takes them; an error message where one cannot be read.
static llvm::Error readOptions(colossal::ImportOptions &options) {
  auto bad = [](const std::string &text) {
    return llvm::createStringError(std::errc::invalid_argument, "'%s' is not NAME=VALUE", text.c_str());
  };
  for (const std::string &text : dims) {
    auto [name, value] = StringRef(text).rsplit('=');
    int64_t size;
    if (name.empty() || value.getAsInteger(10, size))
      return bad(text);
    options.dims[name.str()] = size;
  }
  for (const std::string &text : shapes) {
    auto [name, value] = StringRef(text).rsplit('=');
    std::vector<int64_t> &shape = options.shapes[name.str()];
    SmallVector<StringRef> parts;
    value.split(parts, 'x', -1, /*KeepEmpty=*/false);
    for (StringRef part : parts)
      if (shape.emplace_back(); name.empty() || part.getAsInteger(10, shape.back()))
        return bad(text);
  }
  for (const std::string &text : values) {
    auto [name, value] = StringRef(text).split('=');
    if (name.empty() || value.empty())
      return bad(text);
    bool isFile = value.ends_with(".npy") || value.ends_with(".pb");
    (isFile ? options.values[name.str()].file : options.values[name.str()].literal) = value.str();
  }
  options.recognisePatterns = !noPatterns;
  return llvm::Error::success();
}

/// Imports `path` and gives the module as text.
static FailureOr<std::string> importModel(const std::string &path) {
  colossal::ImportOptions options;
  options.modelPath = path;
  if (llvm::Error error = readOptions(options)) {
    llvm::errs() << "colossal-opt: " << toString(std::move(error)) << "\n";
    return failure();
  }
  MLIRContext context;
  auto module = colossal::importOnnx(&context, options);
  if (failed(module))
    return failure();
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  (*module)->print(stream, flags.enableDebugInfo());
  return text;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  DialectRegistry registry;
  registry.insert<colossal::ColossalDialect, colossal::dist::DistDialect, arith::ArithDialect, func::FuncDialect,
                  shard::ShardDialect>();
  registerCanonicalizerPass();
  registerCSEPass();
  registerSymbolDCEPass();
  colossal::layout::registerPasses();
  colossal::partition::registerPasses();
  auto [input, output] = registerAndParseCLIOptions(argc, argv, "Colossal's passes, one by one\n", registry);
  if (!StringRef(input).ends_with(".onnx"))
    return asMainReturnCode(MlirOptMain(argc, argv, input, output, registry));
  auto text = importModel(input);
  std::string message;
  auto file = openOutputFile(output, &message);
  if (failed(text) || !file) {
    llvm::errs() << message;
    return 1;
  }
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  auto result = MlirOptMain(file->os(), llvm::MemoryBuffer::getMemBuffer(*text, input), registry, config);
  if (succeeded(result))
    file->keep();
  return asMainReturnCode(result);
}
