//===- GradientModelTest.cpp - gradients of whole models against PyTorch ----===//
//
// Each model of test/Models that record.py knows: imported, differentiated by all its parameters, compiled
// for one rank and for several, and run. Of each gradient, what record.py kept of PyTorch's is compared.
//
//===----------------------------------------------------------------------===//
#include "GradientCases.h"

#include "colossal/Autodiff/Differentiate.h"
#include "colossal/Codegen/Targets.h"
#include "colossal/Compiler/Compiler.h"
#include "dialects/Colossal/OpComposer.h"
#include "runtime/execute/Session.h"
#include "runtime/io/Npy.h"
#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace mlir;
using namespace colossal;
using namespace colossal::test;

namespace {

const std::filesystem::path kTests = COLOSSAL_TESTS;

/// record.py's `spread`.
uint32_t spread(uint32_t index, uint32_t salt) {
  uint32_t x = index * 2654435761u + salt;
  x ^= x >> 15;
  x *= 2246822519u;
  return x ^ x >> 13;
}

double makeSign(size_t index, uint32_t salt) {
  return spread(static_cast<uint32_t>(index), salt) & 1 ? 1 : -1;
}

/// A model, its inputs, and the loss and gradients that PyTorch has.
struct Recorded {
  std::string name;
  nlohmann::json json;
  runtime::Tensors inputs;

  std::string load();
  /// What is wrong with a gradient; "" where nothing is.
  std::string compare(const std::string &parameter, const std::vector<double> &gradient) const;
};

std::string Recorded::load() {
  std::ifstream file(kTests / "Autodiff" / "Recorded" / (name + ".json"));
  json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return "no record of its gradients";
  std::filesystem::path path = kTests / "Models" / name / json["case"].get<std::string>() / "inputs.npz";
  runtime::Status status = runtime::readNpz(path.string(), inputs);
  return status.ok() ? "" : status.describe();
}

std::string Recorded::compare(const std::string &parameter, const std::vector<double> &gradient) const {
  const nlohmann::json &want = json["gradients"][parameter];
  double have[3] = {0, 0, 0};
  for (size_t i = 0; i < gradient.size(); ++i) {
    have[0] += gradient[i] * gradient[i];
    have[1] += gradient[i] * makeSign(i, 1);
    have[2] += gradient[i] * makeSign(i, 2);
  }
  have[0] = std::sqrt(have[0]);
  // Of errors e the products are off by about |e|. Gradients that cancel out (of what is added to all keys
  // alike) hold rounding errors only, of 1e-7 of what is added up.
  double all = 0;
  for (const nlohmann::json &other : json["gradients"])
    all = std::max(all, other[0].get<double>());
  const double norm = std::max(want[0].get<double>(), 1e-3 * all);
  for (unsigned i = 0; i < 3; ++i)
    if (!(std::fabs(have[i] - want[i].get<double>()) <= 1e-4 * norm))
      return "the gradient of '" + parameter + "' has " + (i == 0 ? "norm " : "product ") +
             std::to_string(have[i]) + ", PyTorch's " + std::to_string(want[i].get<double>());
  return "";
}

/// Adds a loss and its gradients to the imported function: results "loss" and "gradient.NAME", arguments
/// "weights.N".
std::string addGradients(func::FuncOp function) {
  SmallVector<ParameterOp> parameters;
  SmallVector<Value> values, gradients;
  for (auto parameter : function.getOps<ParameterOp>())
    if (isa<FloatType>(elementTypeOf(parameter.getResult()))) {
      parameters.push_back(parameter);
      values.push_back(parameter.getResult());
    }
  OpBuilder builder(function.getContext());
  const unsigned inputs = function.getNumArguments();
  addLoss(function);
  for (unsigned i = inputs; i < function.getNumArguments(); ++i)
    function.setArgAttr(i, kOnnxNameAttr, builder.getStringAttr("weights." + std::to_string(i - inputs)));
  Operation *end = function.front().getTerminator();
  SmallVector<Value> results{end->getOperand(0)};
  if (failed(differentiate(function, results[0], values, gradients)))
    return "cannot be differentiated";
  llvm::append_range(results, gradients);
  end->setOperands(results);
  SmallVector<Type> types(ValueRange(results).getTypes());
  function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), types));
  SmallVector<DictionaryAttr> attributes;
  for (size_t i = 0; i < results.size(); ++i) {
    std::string name = i == 0 ? "loss" : "gradient." + parameters[i - 1].getName().str();
    attributes.push_back(
        builder.getDictionaryAttr(builder.getNamedAttr(kOnnxNameAttr, builder.getStringAttr(name))));
  }
  function.setAllResultAttrs(attributes);
  return "";
}

struct Models : testing::TestWithParam<std::string> {
  Models() : context(MLIRContext::Threading::DISABLED) {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    std::string name = (std::filesystem::temp_directory_path() / "colossal-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~Models() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }

  MLIRContext context;
  std::string folder;

  /// Compiles the model with its gradients for `mesh`. "" or what went wrong.
  std::string compileFor(const std::string &mesh, const Recorded &recorded);
  /// Runs the plan and compares.
  std::string runAndCompare(Recorded &recorded, unsigned &compared);
};

std::string Models::compileFor(const std::string &mesh, const Recorded &recorded) {
  std::string said;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      said += diagnostic.str() + "\n";
    return success();
  });
  CompileOptions options;
  options.import.modelPath = (kTests / "Models" / recorded.name / "model.onnx").string();
  for (const auto &[name, tensor] : recorded.inputs)
    options.import.shapes[name].assign(tensor.shape.begin(), tensor.shape.end());
  options.planPath = folder + "/plan";
  options.mesh = mesh;
  options.schedule.threads = 1;
  options.schedule.rankThreads = 1;
  options.schedule.target = llvm::cantFail(codegen::createTarget("cpu"));
  FailureOr<OwningOpRef<ModuleOp>> module = importOnnx(&context, options.import);
  if (failed(module))
    return "cannot be imported: " + said;
  func::FuncOp function = *(*module)->getOps<func::FuncOp>().begin();
  if (std::string wrong = addGradients(function); !wrong.empty())
    return wrong + ": " + said;
  CompileResult compiled;
  if (failed(runPhases(**module, options, Phase::Import, Phase::Plan, compiled)))
    return "cannot be compiled: " + said;
  OutputError error = writePlanFile(compiled, options.planPath);
  return error ? error.message : "";
}

/// What record.py multiplies an output of that shape by.
runtime::Tensor makeWeights(const plan::Binding &binding, uint32_t salt) {
  runtime::Tensor weights;
  weights.type = plan::F32;
  size_t count = 1;
  for (uint64_t size : binding.shape()) {
    weights.shape.push_back(size);
    count *= size;
  }
  weights.bytes.resize(count * sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    auto weight = static_cast<float>(spread(static_cast<uint32_t>(i), salt) / 4294967296.0 - 0.5);
    std::memcpy(weights.bytes.data() + i * sizeof(float), &weight, sizeof(float));
  }
  return weights;
}

std::string Models::runAndCompare(Recorded &recorded, unsigned &compared) {
  runtime::SessionOptions how;
  how.threads = 1;
  std::unique_ptr<runtime::Session> session;
  runtime::Status status = runtime::Session::open(folder + "/plan", how, session);
  if (!status.ok())
    return status.describe();
  runtime::Tensors inputs = recorded.inputs, outputs;
  for (const plan::Program &program : session->plan().programs())
    for (const plan::Binding &binding : program.inputs())
      if (StringRef name = binding.name(); name.consume_front("weights."))
        inputs[binding.name()] = makeWeights(binding, static_cast<uint32_t>(std::stoul(name.str())));
  int program = 0;
  status = session->select(inputs, program);
  if (status.ok())
    status = session->run(program, inputs);
  if (status.ok())
    status = session->outputs(program, outputs);
  if (!status.ok())
    return status.describe();
  const double loss = runtime::toDoubles(outputs.at("loss"))[0], want = recorded.json["loss"].get<double>();
  if (!(std::fabs(loss - want) <= 1e-4 * std::max(1.0, std::fabs(want))))
    return "the loss is " + std::to_string(loss) + ", PyTorch's " + std::to_string(want);
  for (const auto &[name, ignored] : recorded.json["gradients"].items()) {
    auto found = outputs.find("gradient." + name);
    if (found == outputs.end())
      return "parameter '" + name + "' has no gradient";
    ++compared;
    if (std::string wrong = recorded.compare(name, runtime::toDoubles(found->second)); !wrong.empty())
      return wrong;
  }
  return "";
}

TEST_P(Models, GradientsArePyTorchs) {
  Recorded recorded{GetParam(), {}, {}};
  ASSERT_EQ(recorded.load(), "");
  for (const char *mesh : {"1", "2", "2x2"}) {
    ASSERT_EQ(compileFor(mesh, recorded), "") << "mesh " << mesh;
    unsigned compared = 0;
    EXPECT_EQ(runAndCompare(recorded, compared), "") << "mesh " << mesh;
    EXPECT_GE(compared, 1u);
  }
}

std::vector<std::string> listRecorded() {
  std::vector<std::string> names;
  for (const auto &file : std::filesystem::directory_iterator(kTests / "Autodiff" / "Recorded"))
    if (file.path().extension() == ".json")
      names.push_back(file.path().stem().string());
  llvm::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Recorded, Models, testing::ValuesIn(listRecorded()), [](const auto &info) {
  std::string name = info.param;
  for (char &c : name)
    c = isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

} // namespace
