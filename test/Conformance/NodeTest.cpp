// Compile, run, compare. Diagnostics of the compiler become the reason of a result.
#include "NodeTest.h"

#include "colossal/Codegen/Targets.h"
#include "colossal/Compiler/Compiler.h"
#include "onnx-ml.pb.h"
#include "runtime/execute/Session.h"
#include "runtime/io/TensorProto.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>
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
  /// Why an input or output cannot be given or compared (no tensor, a type that no plan has), or "". The
  /// compiler is asked all the same: what it says about the model comes first.
  std::string unreadable;
};

/// One line that is the same on every machine: without the folders of the test and of the plan.
std::string oneLine(std::string text, const fs::path &folder, const std::string &scratch) {
  for (const std::string &path :
       {(folder / "test_data_set_0").string() + "/", folder.string() + "/", scratch + "/"})
    for (size_t at; (at = text.find(path)) != std::string::npos;)
      text.erase(at, path.size());
  text = std::regex_replace(text, std::regex("\\s+"), " ");
  return text.substr(0, 240);
}

/// ONNX leaves the generator of random values open. Of outputs that depend on one, only type and shape can be
/// compared, and the range of those that it gives directly.
struct RandomValues {
  bool any = false;
  std::map<std::string, std::pair<double, double>> ranges; ///< by output

  explicit RandomValues(const NodeTest &test) {
    for (const onnx::NodeProto &node : test.model.graph().node()) {
      auto attribute = [&](const char *name, double otherwise) {
        for (const onnx::AttributeProto &found : node.attribute())
          if (found.name() == name)
            return double(found.f());
        return otherwise;
      };
      const std::string &op = node.op_type();
      constexpr double huge = std::numeric_limits<double>::max();
      if (op == "RandomUniform" || op == "RandomUniformLike")
        ranges[node.output(0)] = {attribute("low", 0), attribute("high", 1)};
      else if (op == "Bernoulli")
        ranges[node.output(0)] = {0, 1};
      else if (op == "RandomNormal" || op == "RandomNormalLike")
        ranges[node.output(0)] = {-huge, huge};
      else if (op == "Dropout" && node.input_size() > 2) {
        // Training: an element is dropped or scaled by 1 / (1 - ratio); with a ratio of 0 nothing is random.
        auto number = [&](int i) {
          auto given = test.inputs.find(node.input(i));
          return given == test.inputs.end() || given->second.bytes.empty()
                     ? 0.5
                     : runtime::toDoubles(given->second).front();
        };
        double ratio = node.input(1).empty() ? 0.5 : number(1);
        auto data = test.inputs.find(node.input(0));
        if (ratio == 0 || ratio >= 1 || number(2) == 0 || data == test.inputs.end())
          continue;
        double most = 0;
        for (double value : runtime::toDoubles(data->second))
          most = std::max(most, std::abs(value));
        most *= (1 + 1e-6) / (1 - ratio);
        ranges[node.output(0)] = {-most, most};
        if (node.output_size() > 1)
          ranges[node.output(1)] = {0, 1};
      }
    }
    any = !ranges.empty();
  }
};

using Values = google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>;

void readTensors(const fs::path &data, const char *kind, const Values &values, std::string &unreadable,
                 const std::function<void(const std::string &, const fs::path &, runtime::Tensor)> &add) {
  for (int i = 0; i < values.size(); ++i) {
    const onnx::ValueInfoProto &value = values[i];
    fs::path file = data / (kind + std::string("_") + std::to_string(i) + ".pb");
    if (!fs::exists(file) || value.name().empty())
      continue; // an optional input or output that this test leaves out
    runtime::Tensor tensor;
    std::string problem;
    if (!value.type().has_tensor_type())
      problem = "is a sequence, map or optional";
    else if (plan::Status status = runtime::readTensorProto(file.string(), tensor); !status.ok())
      problem = "cannot be read: " + status.message();
    if (problem.empty())
      add(value.name(), file, std::move(tensor));
    else if (unreadable.empty())
      unreadable = std::string(kind) + " " + value.name() + " " + problem;
  }
}

/// Empty on success, otherwise why the test cannot be read.
std::string load(const fs::path &folder, NodeTest &test) {
  std::ifstream file(folder / "model.onnx", std::ios::binary);
  if (!test.model.ParseFromIstream(&file))
    return "model.onnx cannot be parsed";
  const onnx::GraphProto &graph = test.model.graph();
  fs::path data = folder / "test_data_set_0";
  readTensors(data, "input", graph.input(), test.unreadable,
              [&](const std::string &name, const fs::path &path, runtime::Tensor tensor) {
                test.inputs[name] = std::move(tensor);
                test.inputFiles[name] = path.string();
              });
  readTensors(data, "output", graph.output(), test.unreadable,
              [&](const std::string &name, const fs::path &, runtime::Tensor tensor) {
                test.outputs.emplace_back(name, std::move(tensor));
              });
  return "";
}

/// The graph of the same test before its function was expanded; the test's own where it is not an expanded
/// one.
onnx::GraphProto loadOriginal(const fs::path &folder, const NodeTest &test) {
  std::string name = folder.filename().string();
  onnx::ModelProto original;
  if (size_t at = name.find("_expanded"); at != std::string::npos) {
    std::ifstream file(folder.parent_path() / name.substr(0, at) / "model.onnx", std::ios::binary);
    if (file && original.ParseFromIstream(&file))
      return original.graph();
  }
  return test.model.graph();
}

/// Compiles to `path`; returns the error, empty on success.
std::string compileTest(const fs::path &folder, const NodeTest &test, const std::vector<BoundInput> &bound,
                        const RunOptions &run, const std::string &path) {
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
  for (const BoundInput &input : bound)
    if (auto file = test.inputFiles.find(input.input); file != test.inputFiles.end())
      options.import.values[input.input].file = file->second;
  options.mesh = run.mesh;
  auto target = codegen::createTarget(run.target);
  if (!target)
    return llvm::toString(target.takeError());
  options.schedule.target = *target;
  options.schedule.threads = 1;
  options.planPath = path;
  CompileResult result;
  if (mlir::failed(compile(&context, options, Phase::Plan, result)))
    return error.empty() ? "the compiler failed without a message" : error;
  return writePlanFile(result, path).message;
}

/// The tolerance of the ONNX backend tests, widened to what the type resolves.
double relativeTolerance(plan::DataType type) {
  return type == plan::BF16 ? 1.6e-2 : type == plan::F16 ? 2e-3 : 1e-3;
}

/// Empty if `got` is `want` within tolerance; if its values are random, if it has the same type and shape and
/// lies within the range of the generator.
std::string compare(const std::string &name, const runtime::Tensor &got, const runtime::Tensor &want,
                    const RandomValues &random) {
  if (got.shape != want.shape)
    return name + ": shape " + runtime::describeType(got) + ", expected " + runtime::describeType(want);
  // What no file format for arrays has comes as f32.
  bool comesAsFloat = want.type == plan::BF16 || (plan::isNarrow(want.type) && plan::isFloat(want.type));
  bool sameType = got.type == want.type || (got.type == plan::F32 && comesAsFloat);
  if (!sameType)
    return name + ": type " + runtime::describeType(got) + ", expected " + runtime::describeType(want);
  if (want.type == plan::STRING)
    return got.texts == want.texts ? "" : name + ": its strings are others";
  std::vector<double> a = runtime::toDoubles(got), b = runtime::toDoubles(want);
  if (random.any) {
    auto range = random.ranges.find(name);
    for (double value : a)
      if (range != random.ranges.end() && !(value >= range->second.first && value <= range->second.second))
        return name + ": a random value is out of range";
    return "";
  }
  // What cancels leaves noise in proportion to the largest element, in the recorded values as well.
  double largest = 1;
  for (double value : b)
    if (std::isfinite(value))
      largest = std::max(largest, std::abs(value));
  double rtol = relativeTolerance(want.type), atol = 1e-7 * largest, worst = 0;
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
  RandomValues random(test);
  for (const auto &[name, want] : test.outputs) {
    auto got = outputs.find(name);
    std::string difference =
        got == outputs.end() ? "output " + name + " is missing" : compare(name, got->second, want, random);
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
  if (test.outputs.empty() && test.unreadable.empty()) {
    result.reason = "no output is recorded";
    return result;
  }
  std::string path = options.scratch + "/" + fs::path(folder).filename().string() + ".cplan";
  auto [binding, bound] = findShapingInputs(test.model.graph(), loadOriginal(folder, test));
  if (std::string error = compileTest(folder, test, bound, options, path); !error.empty()) {
    result.reason = error;
    return result;
  }
  if (!test.unreadable.empty()) {
    result.reason = test.unreadable;
    fs::remove(path);
    return result;
  }
  result = runPlan(test, path);
  result.valuesOpen = RandomValues(test).any;
  result.binding = binding;
  for (const BoundInput &input : bound)
    result.bound.push_back(input.reason);
  fs::remove(path);
  return result;
}

Result runNodeTest(const std::string &folder, const RunOptions &options) {
  Result result = runWithFullReason(folder, options);
  result.reason = oneLine(result.reason, folder, options.scratch);
  return result;
}

} // namespace colossal::conformance
