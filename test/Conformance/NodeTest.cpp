// Compile, run, compare. Diagnostics of the compiler become the reason of a result.
#include "NodeTest.h"

#include "colossal/Compiler/Compiler.h"
#include "onnx-ml.pb.h"
#include "runtime/execute/Session.h"
#include "runtime/io/TensorProto.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace colossal::conformance {

namespace fs = std::filesystem;

const char *outcomeName(Outcome outcome) {
  static const char *const names[] = {"passed", "wrong", "unsupported", "failed", "crashed", "timed-out"};
  return names[static_cast<int>(outcome)];
}

namespace {

struct NodeTest {
  onnx::ModelProto model;
  std::map<std::string, runtime::Tensor> inputs;
  std::map<std::string, std::string> inputFiles;
  std::vector<std::pair<std::string, runtime::Tensor>> outputs;
};

/// One line that is the same on every machine: without the folders of the test and of the plan.
std::string oneLine(std::string text, const fs::path &folder, const std::string &scratch) {
  for (const std::string &path : {(folder / "test_data_set_0").string() + "/", folder.string() + "/", scratch + "/"})
    for (size_t at; (at = text.find(path)) != std::string::npos;)
      text.erase(at, path.size());
  text = std::regex_replace(text, std::regex("\\s+"), " ");
  return text.substr(0, 240);
}

/// Whether the values of the outputs are drawn from a generator that ONNX leaves open, so that only their type and
/// shape can be compared.
bool isRandom(const onnx::ModelProto &model) {
  static const std::set<std::string> random = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike",
                                               "RandomUniform", "RandomUniformLike"};
  for (const onnx::NodeProto &node : model.graph().node())
    if (random.count(node.op_type()))
      return true;
  return false;
}

std::string readTensors(const fs::path &data, const char *kind, size_t count,
                        const std::function<std::string(size_t)> &nameOf,
                        const std::function<void(const std::string &, const fs::path &, runtime::Tensor)> &add) {
  for (size_t i = 0; i < count; ++i) {
    fs::path file = data / (kind + std::string("_") + std::to_string(i) + ".pb");
    if (!fs::exists(file) || nameOf(i).empty())
      continue; // an optional input or output that this test leaves out
    runtime::Tensor tensor;
    if (plan::Status status = runtime::readTensorProto(file.string(), tensor); !status.ok())
      return std::string(kind) + " " + nameOf(i) + " is no plain tensor: " + status.message();
    add(nameOf(i), file, std::move(tensor));
  }
  return "";
}

/// Empty on success, otherwise why the test cannot be read.
std::string load(const fs::path &folder, NodeTest &test) {
  std::ifstream file(folder / "model.onnx", std::ios::binary);
  if (!test.model.ParseFromIstream(&file))
    return "model.onnx cannot be parsed";
  const onnx::GraphProto &graph = test.model.graph();
  for (const onnx::ValueInfoProto &value : graph.input())
    if (!value.type().has_tensor_type())
      return "input is a sequence, map or optional";
  for (const onnx::ValueInfoProto &value : graph.output())
    if (!value.type().has_tensor_type())
      return "output is a sequence, map or optional";
  fs::path data = folder / "test_data_set_0";
  std::string error = readTensors(
      data, "input", graph.input_size(), [&](size_t i) { return graph.input(i).name(); },
      [&](const std::string &name, const fs::path &path, runtime::Tensor tensor) {
        test.inputs[name] = std::move(tensor);
        test.inputFiles[name] = path.string();
      });
  if (!error.empty())
    return error;
  return readTensors(
      data, "output", graph.output_size(), [&](size_t i) { return graph.output(i).name(); },
      [&](const std::string &name, const fs::path &, runtime::Tensor tensor) {
        test.outputs.emplace_back(name, std::move(tensor));
      });
}

/// Inputs that can be parameters of an operator rather than data: small integers, and scales.
std::vector<std::string> shapingInputs(const NodeTest &test) {
  std::vector<std::string> names;
  for (const auto &[name, tensor] : test.inputs) {
    bool integer = tensor.type != plan::F32 && tensor.type != plan::F64 && tensor.type != plan::F16 &&
                   tensor.type != plan::BF16;
    bool scales = name == "scales" || name == "roi";
    size_t bytes = tensor.bytes.size();
    if (tensor.shape.size() <= 1 && bytes <= 512 && (integer || scales))
      names.push_back(name);
  }
  return names;
}

/// Compiles to `path`; returns the error, empty on success.
std::string compileTest(const fs::path &folder, const NodeTest &test, const std::vector<std::string> &bound,
                        const std::string &mesh, const std::string &path) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::string error;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && error.empty())
      error = diagnostic.str();
    return mlir::success();
  });
  CompileOptions options;
  options.import.modelPath = (folder / "model.onnx").string();
  for (const auto &[name, tensor] : test.inputs)
    options.import.shapes[name].assign(tensor.shape.begin(), tensor.shape.end());
  for (const std::string &name : bound)
    options.import.values[name].file = test.inputFiles.at(name);
  options.mesh = mesh;
  options.schedule.threads = 1;
  options.planPath = path;
  CompileResult result;
  if (mlir::failed(compile(&context, options, Phase::Plan, result)))
    return error.empty() ? "the compiler failed without a message" : error;
  return writePlanFile(result, path);
}

/// The tolerance of the ONNX backend tests, widened to what the type resolves.
double relativeTolerance(plan::DataType type) {
  return type == plan::BF16 ? 1.6e-2 : type == plan::F16 ? 2e-3 : 1e-3;
}

/// Empty if `got` is `want` within tolerance, or of the same type and shape if its values are open.
std::string compare(const std::string &name, const runtime::Tensor &got, const runtime::Tensor &want, bool valuesOpen) {
  if (got.shape != want.shape)
    return name + ": shape " + runtime::describeType(got) + ", expected " + runtime::describeType(want);
  bool sameType = got.type == want.type || (got.type == plan::F32 && want.type == plan::BF16);
  if (!sameType)
    return name + ": type " + runtime::describeType(got) + ", expected " + runtime::describeType(want);
  if (valuesOpen)
    return "";
  std::vector<double> a = runtime::toDoubles(got), b = runtime::toDoubles(want);
  double rtol = relativeTolerance(want.type), atol = 1e-7, worst = 0;
  size_t beyond = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
      continue;
    double difference = std::abs(a[i] - b[i]);
    if (!(difference <= atol + rtol * std::abs(b[i]))) {
      ++beyond;
      worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
    }
  }
  if (!beyond)
    return "";
  std::ostringstream text;
  text << name << ": " << beyond << " of " << b.size() << " elements differ";
  return text.str();
}

Result runPlan(const NodeTest &test, const std::string &path) {
  Result result;
  runtime::SessionOptions options;
  options.threads = 1;
  std::unique_ptr<runtime::Session> session;
  runtime::Tensors inputs(test.inputs.begin(), test.inputs.end()), outputs;
  int program = 0;
  auto failed = [&](const plan::Status &status) {
    result.outcome = Outcome::Failed;
    result.reason = status.describe();
    return result;
  };
  if (plan::Status status = runtime::Session::open(path, options, session); !status.ok())
    return failed(status);
  if (plan::Status status = session->select(inputs, program); !status.ok())
    return failed(status);
  if (plan::Status status = session->run(program, inputs); !status.ok())
    return failed(status);
  if (plan::Status status = session->outputs(program, outputs); !status.ok())
    return failed(status);
  result.outcome = Outcome::Passed;
  for (const auto &[name, want] : test.outputs) {
    auto got = outputs.find(name);
    std::string difference = got == outputs.end() ? "output " + name + " is missing" : compare(name, got->second, want, isRandom(test.model));
    if (!difference.empty()) {
      result.outcome = Outcome::Wrong;
      result.reason = difference;
    }
  }
  return result;
}

} // namespace

static Result runWithFullReason(const std::string &folder, const RunOptions &options) {
  Result result;
  NodeTest test;
  result.outcome = Outcome::Unsupported;
  if (result.reason = load(folder, test); !result.reason.empty())
    return result;
  if (test.outputs.empty()) {
    result.reason = "no output is recorded";
    return result;
  }
  std::string path = options.scratch + "/" + fs::path(folder).filename().string() + ".cplan";
  std::string error = compileTest(folder, test, {}, options.mesh, path);
  if (!error.empty()) {
    std::vector<std::string> bound = shapingInputs(test);
    if (!bound.empty()) {
      result.valuesBound = true;
      error = compileTest(folder, test, bound, options.mesh, path);
    }
  }
  if (!error.empty()) {
    result.reason = error;
    return result;
  }
  bool valuesBound = result.valuesBound;
  result = runPlan(test, path);
  result.valuesBound = valuesBound;
  fs::remove(path);
  return result;
}

Result runNodeTest(const std::string &folder, const RunOptions &options) {
  Result result = runWithFullReason(folder, options);
  result.reason = oneLine(result.reason, folder, options.scratch);
  return result;
}

} // namespace colossal::conformance
