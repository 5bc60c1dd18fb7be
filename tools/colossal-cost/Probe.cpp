// Compiles and runs probes in this process. Neighbour: Probe.h.
#include "Probe.h"

#include "colossal/Compiler/Compiler.h"
#include "runtime/execute/Session.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace colossal::tool {

namespace {

constexpr int kLeastRuns = 5, kMostRuns = 400;

/// The least time of each op over the runs.
void collect(const std::string &trace, std::map<std::string, double> &least) {
  std::map<std::string, double> now;
  nlohmann::json file = nlohmann::json::parse(trace, nullptr, false);
  if (file.is_discarded())
    return;
  for (const auto &event : file["traceEvents"]) {
    if (event.value("ph", "") != "X")
      continue;
    // Kernels that bring an operand into another order carry the op's name too; the op itself is the longest.
    double &longest = now[event["args"].value("from", "")];
    longest = std::max(longest, event.value("dur", 0.0) * 1e-6);
  }
  for (const auto &[name, seconds] : now) {
    auto [entry, isNew] = least.try_emplace(name, seconds);
    entry->second = std::min(entry->second, seconds);
  }
}

runtime::Tensors makeInputs(const plan::Program &program) {
  runtime::Tensors inputs;
  for (const plan::Binding &binding : program.inputs()) {
    runtime::Tensor &tensor = inputs[binding.name()];
    tensor.type = binding.type();
    tensor.shape.assign(binding.shape().begin(), binding.shape().end());
    tensor.bytes.assign(binding.buffer().bytes(), std::byte(0));
    // f32 and f64 get values that are neither zero nor special; other types' zeros run as fast.
    if (tensor.type == plan::F32)
      for (std::size_t e = 0; e < tensor.bytes.size() / 4; ++e) {
        float value = 0.01f * static_cast<float>(e % 97) - 0.5f;
        std::memcpy(tensor.bytes.data() + 4 * e, &value, 4);
      }
  }
  return inputs;
}

} // namespace

std::string ProbeGraph::type(const std::vector<long> &shape) const {
  std::string text = "tensor<";
  for (long size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

std::string ProbeGraph::input(const std::vector<long> &shape) {
  std::string name = "%x" + std::to_string(inputCount++);
  inputs += (inputs.empty() ? "" : ", ") + name + ": " + type(shape) + " {colossal.name = \"" +
            name.substr(1) + "\"}";
  return name;
}

std::string ProbeGraph::parameter(const std::vector<long> &shape) {
  long bytes = element == "f64" ? 8 : element == "f32" ? 4 : 2;
  for (long size : shape)
    bytes *= size;
  std::string name = "w" + std::to_string(parameterCount++), place = std::to_string(offset);
  offset += bytes;
  return op(name, "colossal.parameter \"" + name + "\" {file = \"\", offset = " + place +
                      " : i64, bytes = " + std::to_string(bytes) + " : i64} : " + type(shape));
}

std::string ProbeGraph::op(const std::string &name, const std::string &text) {
  std::string value = "%v" + std::to_string(count++);
  body += "  " + value + " = " + text + " loc(\"" + name + "\")\n";
  return value;
}

std::string ProbeGraph::contract(const std::string &name, const std::string &lhs, const std::string &rhs,
                                 long m, long n, long k) {
  return op(name, "colossal.contract " + lhs + " [0, 1], " + rhs + " [1, 2] -> [0, 2] : (" + type({m, k}) +
                      ", " + type({k, n}) + ") -> " + type({m, n}));
}

void ProbeGraph::output(const std::string &value, const std::vector<long> &shape) {
  results += (results.empty() ? "" : ", ") + value;
  resultTypes += (resultTypes.empty() ? "" : ", ") + type(shape);
  ++outputCount;
}

std::string ProbeGraph::text() const {
  std::string named, types = resultTypes;
  for (int i = 0, at = 0; i < outputCount; ++i) {
    std::size_t end = types.find(">", at);
    named += (i ? ", " : "") + types.substr(at, end + 1 - at) + " {colossal.name = \"y" + std::to_string(i) +
             "\"}";
    at = static_cast<int>(end) + 3;
  }
  return "func.func @main(" + inputs + ") -> (" + named + ") {\n" + body + "  return " + results + " : " +
         resultTypes + "\n}\n";
}

Probe::Probe() {
  std::string pattern = (std::filesystem::temp_directory_path() / "colossal-calibrate-XXXXXX").string();
  if (::mkdtemp(pattern.data()))
    folder = pattern;
}

Probe::~Probe() {
  std::error_code ignored;
  if (!folder.empty())
    std::filesystem::remove_all(folder, ignored);
}

ProbeTimes Probe::run(const ProbeGraph &graph, unsigned threads, double seconds, std::string &error) {
  ProbeTimes times;
  if (folder.empty()) {
    error = "cannot make a folder for temporary files; set TMPDIR";
    return times;
  }
  // A file of zeros that takes no room; the values are random ones instead.
  CompileOptions options;
  options.import.modelPath = folder + "/weights";
  options.planPath = folder + "/probe.cplan";
  std::ofstream(options.import.modelPath).close();
  std::error_code failure;
  std::filesystem::resize_file(options.import.modelPath,
                               static_cast<std::uintmax_t>(graph.weightBytes() + 64), failure);

  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    if (error.empty())
      error = "a probe does not compile: " + diagnostic.str();
    return mlir::success();
  });
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(graph.text(), &context);
  CompileResult result;
  if (!module || mlir::failed(runPhases(*module, options, Phase::Import, Phase::Plan, result)))
    return times;
  if (error = writePlanFile(result, options.planPath); !error.empty())
    return times;

  runtime::SessionOptions wanted;
  wanted.threads = threads;
  wanted.randomWeights = 1;
  wanted.trace = true;
  std::unique_ptr<runtime::Session> session;
  runtime::Status status = runtime::Session::open(options.planPath, wanted, session);
  int program = -1;
  for (int p = 0; status.ok() && p < session->plan().programs_size(); ++p)
    if (session->plan().programs(p).role() != plan::Program::LOAD)
      program = p;
  runtime::Tensors inputs;
  if (status.ok())
    inputs = makeInputs(session->plan().programs(program));
  auto begin = std::chrono::steady_clock::now();
  for (int run = 0; status.ok() && run < kMostRuns; ++run) {
    double own = 0;
    status = session->run(program, inputs, &own);
    std::string trace;
    if (status.ok())
      status = session->trace(trace);
    if (run > 0) { // the first one touches everything
      collect(trace, times.seconds);
      times.run = run == 1 ? own : std::min(times.run, own);
    }
    double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (run >= kLeastRuns && spent > seconds)
      break;
  }
  if (!status.ok())
    error = "a probe does not run: " + status.message();
  return times;
}

} // namespace colossal::tool
