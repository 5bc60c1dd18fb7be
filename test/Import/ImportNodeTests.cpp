// Imports the operator tests of the onnx package (a folder of cases, each model.onnx and
// test_data_set_0/input_*.pb) and says which fail and why. Inputs that decide shapes are bound to their
// recorded contents: those that the importer names.
//
//   import-node-tests FOLDER [--list] [--check]
//
// prints one line per failing case, then counts; --list prints passing ones too, with the inputs that were
// bound; --check binds all inputs, evaluates the imported ops by their element code, and compares with the
// recorded outputs: what the importer says, apart from any generated code.
#include "colossal/Codegen/ElementFolder.h"
#include "colossal/Import/ONNX.h"
#include "dialects/Colossal/Colossal.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "onnx-ml.pb.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

using namespace mlir;

/// The serialized contents of the inputs, by name; nothing for those that are not tensors.
static std::map<std::string, std::string> readInputs(const std::string &folder,
                                                     ArrayRef<colossal::ModelInput> inputs) {
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
  return at == StringRef::npos
             ? ""
             : message.substr(at + mark.size()).take_until([](char c) { return c == '\''; }).str();
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

/// Evaluates all ops of the only function; the values of its results, or what could not be evaluated.
static std::string evaluateModule(ModuleOp module, SmallVectorImpl<DenseElementsAttr> &results) {
  llvm::DenseMap<Value, Attribute> values;
  auto function = *module.getOps<func::FuncOp>().begin();
  for (Operation &op : function.getBody().front()) {
    if (auto done = dyn_cast<func::ReturnOp>(op)) {
      for (Value operand : done.getOperands()) {
        auto value = dyn_cast_or_null<DenseElementsAttr>(values.lookup(operand));
        if (!value)
          return "an output depends on an input that has no recorded contents";
        results.push_back(value);
      }
      continue;
    }
    SmallVector<Attribute> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values.lookup(operand));
    for (OpResult result : op.getResults()) {
      colossal::FoldLimits limits;
      limits.instructions = int64_t(1) << 32;
      auto value = colossal::foldElements(&op, operands, result.getResultNumber(), limits);
      if (failed(value))
        return "cannot evaluate " + op.getName().getStringRef().str();
      values[result] = *value;
    }
  }
  return "";
}

/// Elements of an attribute or a TensorProto as numbers; false for types that this test does not compare.
static bool readNumbers(DenseElementsAttr attr, std::vector<double> &numbers) {
  if (isa<FloatType>(attr.getElementType())) {
    for (APFloat value : attr.getValues<APFloat>()) {
      bool loses;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
      numbers.push_back(value.convertToDouble());
    }
    return true;
  }
  auto integer = dyn_cast<IntegerType>(attr.getElementType());
  if (!integer)
    return false;
  for (const APInt &value : attr.getValues<APInt>())
    numbers.push_back(integer.isUnsigned() || integer.getWidth() == 1 ? double(value.getZExtValue())
                                                                      : double(value.getSExtValue()));
  return true;
}

template <typename T>
static void append(const std::string &raw, std::vector<double> &numbers) {
  for (size_t at = 0; at + sizeof(T) <= raw.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, raw.data() + at, sizeof(T));
    numbers.push_back(double(value));
  }
}

static double fromBits(uint16_t bits, const llvm::fltSemantics &semantics) {
  APFloat value(semantics, APInt(16, bits));
  bool loses;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
  return value.convertToDouble();
}

static bool readNumbers(const onnx::TensorProto &tensor, std::vector<double> &numbers) {
  const std::string &raw = tensor.raw_data();
  using onnx::TensorProto;
  switch (tensor.data_type()) {
  case TensorProto::FLOAT: return append<float>(raw, numbers), true;
  case TensorProto::DOUBLE: return append<double>(raw, numbers), true;
  case TensorProto::INT64: return append<int64_t>(raw, numbers), true;
  case TensorProto::INT32: return append<int32_t>(raw, numbers), true;
  case TensorProto::INT16: return append<int16_t>(raw, numbers), true;
  case TensorProto::INT8: return append<int8_t>(raw, numbers), true;
  case TensorProto::UINT64: return append<uint64_t>(raw, numbers), true;
  case TensorProto::UINT32: return append<uint32_t>(raw, numbers), true;
  case TensorProto::UINT16: return append<uint16_t>(raw, numbers), true;
  case TensorProto::UINT8:
  case TensorProto::BOOL: return append<uint8_t>(raw, numbers), true;
  case TensorProto::FLOAT16:
  case TensorProto::BFLOAT16:
    for (size_t at = 0; at + 2 <= raw.size(); at += 2) {
      uint16_t bits;
      std::memcpy(&bits, raw.data() + at, 2);
      numbers.push_back(fromBits(bits, tensor.data_type() == TensorProto::FLOAT16 ? APFloat::IEEEhalf()
                                                                                  : APFloat::BFloat()));
    }
    return true;
  default: return false;
  }
}

static std::string compare(const std::string &folder, ArrayRef<DenseElementsAttr> results) {
  for (auto [i, result] : llvm::enumerate(results)) {
    auto file = llvm::MemoryBuffer::getFile(folder + "/test_data_set_0/output_" + std::to_string(i) + ".pb");
    onnx::TensorProto tensor;
    if (!file || !tensor.ParseFromArray((*file)->getBufferStart(), (*file)->getBufferSize()))
      return "no recorded output " + std::to_string(i);
    auto shape = cast<RankedTensorType>(result.getType()).getShape();
    if (shape != ArrayRef<int64_t>(tensor.dims().data(), tensor.dims_size()))
      return "output " + std::to_string(i) + " has another shape";
    std::vector<double> got, wanted;
    if (!readNumbers(result, got) || !readNumbers(tensor, wanted) || got.size() != wanted.size())
      return "output " + std::to_string(i) + " has another type";
    bool narrow =
        tensor.data_type() == onnx::TensorProto::FLOAT16 || tensor.data_type() == onnx::TensorProto::BFLOAT16;
    double relative = narrow ? 1e-2 : 1e-3, absolute = narrow ? 1e-2 : 1e-6;
    for (size_t k = 0; k < got.size(); ++k) {
      bool same = got[k] == wanted[k] || (std::isnan(got[k]) && std::isnan(wanted[k])) ||
                  std::fabs(got[k] - wanted[k]) <= absolute + relative * std::fabs(wanted[k]);
      if (!same)
        return "output " + std::to_string(i) + " element " + std::to_string(k) + " is " +
               std::to_string(got[k]) + ", recorded is " + std::to_string(wanted[k]);
    }
  }
  return "";
}

static std::string importCase(const std::string &folder, std::vector<std::string> &bound, bool check) {
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
    if (!contents.count(input.name) || !tensor.ParseFromString(contents[input.name]))
      continue;
    if (check)
      options.values[input.name].tensorProto = contents[input.name];
    else
      options.shapes[input.name].assign(tensor.dims().begin(), tensor.dims().end());
  }
  while (true) {
    message.clear();
    auto module = colossal::importOnnx(&context, options);
    if (succeeded(module)) {
      SmallVector<DenseElementsAttr> results;
      std::string problem = check ? evaluateModule(**module, results) : "";
      return check && problem.empty() ? compare(folder, results) : problem;
    }
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
    llvm::errs() << "usage: import-node-tests FOLDER [--list] [--check]\n";
    return 2;
  }
  bool list = false, check = false;
  for (int i = 2; i < argc; ++i) {
    list |= StringRef(argv[i]) == "--list";
    check |= StringRef(argv[i]) == "--check";
  }
  std::error_code error;
  std::vector<std::string> cases;
  for (llvm::sys::fs::directory_iterator it(argv[1], error), end; it != end && !error; it.increment(error))
    cases.push_back(it->path());
  std::sort(cases.begin(), cases.end());
  int64_t passed = 0;
  for (const std::string &folder : cases) {
    std::vector<std::string> bound;
    StringRef name = StringRef(folder).substr(StringRef(folder).rfind('/') + 1);
    std::string message = importCase(folder, bound, check);
    passed += message.empty();
    if (!message.empty())
      llvm::outs() << "FAIL " << name << ": " << message << "\n";
    else if (list)
      llvm::outs() << "PASS " << name << " " << llvm::join(bound, ",") << "\n";
    llvm::outs().flush();
  }
  llvm::outs() << passed << " of " << cases.size()
               << (check ? " cases give what is recorded\n" : " cases are imported\n");
  return cases.empty();
}
