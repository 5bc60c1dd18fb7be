// Imports the operator tests of the onnx package (a folder of cases, each model.onnx and test_data_set_0/input_*.pb) and
// says which fail and why. Inputs that decide shapes are bound to their recorded contents: those that the importer names.
//
//   import-node-tests FOLDER [--list]
//
// prints one line per failing case, then counts; --list prints passing ones too, with the inputs that were bound.
#include "colossal/Import/ONNX.h"
#include "dialects/Colossal/Colossal.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <map>

using namespace mlir;

/// The serialized contents of the inputs, by name; nothing for those that are not tensors.
static std::map<std::string, std::string> readInputs(const std::string &folder, ArrayRef<colossal::ModelInput> inputs) {
  std::map<std::string, std::string> contents;
  for (auto [i, input] : llvm::enumerate(inputs)) {
    auto file = llvm::MemoryBuffer::getFile(folder + "/test_data_set_0/input_" + std::to_string(i) + ".pb");
    if (file)
      contents[input.name] = (*file)->getBuffer().str();
  }
  return contents;
}

/// The input that a message asks to bind, or "".
static std::string findNeeded(StringRef message) {
  StringRef mark = "it depends on '";
  size_t at = message.find(mark);
  return at == StringRef::npos ? "" : message.substr(at + mark.size()).take_until([](char c) { return c == '\''; }).str();
}

static std::string importCase(const std::string &folder, std::vector<std::string> &bound) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::string message;
  context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) { message += diagnostic.str() + " "; });
  colossal::ImportOptions options;
  options.modelPath = folder + "/model.onnx";
  auto inputs = colossal::listInputs(&context, options.modelPath);
  if (failed(inputs))
    return message;
  auto contents = readInputs(folder, *inputs);
  for (const auto &input : *inputs) {
    onnx::TensorProto tensor;
    if (contents.count(input.name) && tensor.ParseFromString(contents[input.name]))
      options.shapes[input.name].assign(tensor.dims().begin(), tensor.dims().end());
  }
  while (true) {
    message.clear();
    if (succeeded(colossal::importOnnx(&context, options)))
      return "";
    std::string needed = findNeeded(message);
    if (needed.empty() || options.values.count(needed) || !contents.count(needed))
      return message;
    options.values[needed].tensorProto = contents[needed];
    options.shapes.erase(needed);
    bound.push_back(needed);
  }
}

int main(int argc, char **argv) {
  if (argc < 2) {
    llvm::errs() << "usage: import-node-tests FOLDER [--list]\n";
    return 2;
  }
  bool list = argc > 2 && StringRef(argv[2]) == "--list";
  std::error_code error;
  std::vector<std::string> cases;
  for (llvm::sys::fs::directory_iterator it(argv[1], error), end; it != end && !error; it.increment(error))
    cases.push_back(it->path());
  std::sort(cases.begin(), cases.end());
  int64_t passed = 0;
  for (const std::string &folder : cases) {
    std::vector<std::string> bound;
    StringRef name = StringRef(folder).substr(StringRef(folder).rfind('/') + 1);
    std::string message = importCase(folder, bound);
    passed += message.empty();
    if (!message.empty())
      llvm::outs() << "FAIL " << name << ": " << message << "\n";
    else if (list)
      llvm::outs() << "PASS " << name << " " << llvm::join(bound, ",") << "\n";
    llvm::outs().flush();
  }
  llvm::outs() << passed << " of " << cases.size() << " cases are imported\n";
  return cases.empty();
}
