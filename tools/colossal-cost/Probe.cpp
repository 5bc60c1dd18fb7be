// Compiles and runs probes in this process.
#include "Probe.h"

#include "colossal/Codegen/Targets.h"
#include "colossal/Compiler/Compiler.h"
#include "runtime/execute/Session.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace colossal::tool {

namespace {

constexpr int kLeastRuns = 6, kMostRuns = 4000;
/// What else the machine does only adds time, and only the luckiest run meets none of it: neither the mean
/// nor the least.
constexpr double kQuantile = 0.1;
/// Times have settled once a further fifth of the runs changes their sum by less.
constexpr double kSettled = 0.01;

double quantile(std::vector<double> values) {
  if (values.empty())
    return 0;
  auto at = values.begin() + static_cast<std::ptrdiff_t>(kQuantile * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// Seconds of each op in one run: the mean over its copies.
std::map<std::string, double> readTrace(const std::string &trace) {
  std::map<std::string, double> longest;
  nlohmann::json file = nlohmann::json::parse(trace, nullptr, false);
  if (file.is_discarded())
    return {};
  for (const auto &event : file["traceEvents"]) {
    if (event.value("ph", "") != "X")
      continue;
    // Kernels that bring an operand into another order carry the op's name too; the op itself is the longest.
    std::string from = event["args"].value("from", "");
    double &seconds = longest[from.substr(0, from.find(','))];
    seconds = std::max(seconds, event.value("dur", 0.0) * 1e-6);
  }
  std::map<std::string, std::pair<double, int>> sums;
  for (const auto &[name, seconds] : longest) {
    auto &[sum, count] = sums[name.substr(0, name.find('#'))];
    sum += seconds;
    ++count;
  }
  std::map<std::string, double> means;
  for (const auto &[name, sum] : sums)
    means[name] = sum.first / sum.second;
  return means;
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

struct Probe::Series {
  std::unique_ptr<runtime::Session> session;
  int program = -1;
  runtime::Tensors inputs;
  std::map<std::string, std::vector<double>> seconds;
  std::vector<double> runs;

  runtime::Status run(bool counts) {
    double own = 0;
    session->record(true); // this run alone
    runtime::Status status = session->run(program, inputs, &own);
    runtime::Timeline timeline;
    if (status.ok())
      status = session->timeline(timeline);
    if (!status.ok() || !counts)
      return status;
    for (const auto &[name, value] : readTrace(timeline.events()))
      seconds[name].push_back(value);
    runs.push_back(own);
    return status;
  }
};

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

std::string Probe::prepare(const ProbeGraph &graph, std::vector<unsigned> threads) {
  if (folder.empty())
    return "cannot make a folder for temporary files; set TMPDIR";
  // A file of zeros that takes no room; the values are random ones instead.
  CompileOptions options;
  options.import.modelPath = folder + "/weights";
  options.planPath = folder + "/probe.cplan";
  auto target = codegen::createTarget("cpu");
  if (!target)
    return llvm::toString(target.takeError());
  options.schedule.target = *target;
  options.schedule.winograd = false; // one kernel for each op
  std::ofstream(options.import.modelPath).close();
  std::error_code failure;
  std::filesystem::resize_file(options.import.modelPath,
                               static_cast<std::uintmax_t>(graph.weightBytes() + 64), failure);

  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::string error;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    if (error.empty())
      error = "a probe does not compile: " + diagnostic.str();
    return mlir::success();
  });
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(graph.text(), &context);
  CompileResult result;
  if (!module || mlir::failed(runPhases(*module, options, Phase::Import, Phase::Plan, result)))
    return error.empty() ? "a probe does not compile" : error;
  if (OutputError unwritten = writePlanFile(result, options.planPath))
    return unwritten.message;

  series.clear();
  for (unsigned count : threads) {
    runtime::SessionOptions wanted;
    wanted.threads = count;
    wanted.randomWeights = 1;
    wanted.trace = true;
    auto one = std::make_unique<Series>();
    if (runtime::Status status = runtime::Session::open(options.planPath, wanted, one->session); !status.ok())
      return "a probe does not run: " + status.message();
    for (int p = 0; p < one->session->plan().programs_size(); ++p)
      if (one->session->plan().programs(p).role() != plan::Program::LOAD)
        one->program = p;
    one->inputs = makeInputs(one->session->plan().programs(one->program));
    series.push_back(std::move(one));
  }
  return {};
}

std::string Probe::measure(double least, double most) {
  auto begin = std::chrono::steady_clock::now();
  double before = 0;
  int looked = 0;
  for (int run = 0; run < kMostRuns; ++run) {
    for (auto &one : series)
      if (runtime::Status status = one->run(run > 0); !status.ok()) // the first one touches everything
        return "a probe does not run: " + status.message();
    double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (run < kLeastRuns || spent < least)
      continue;
    if (spent > most)
      break;
    if (run * 5 < looked * 6)
      continue;
    double now = sum();
    if (looked > 0 && std::abs(now - before) < kSettled * now)
      break;
    before = now;
    looked = run;
  }
  return {};
}

double Probe::sum() const {
  double all = 0;
  for (std::size_t s = 0; s < series.size(); ++s)
    for (const auto &[name, seconds] : times(s).seconds)
      all += seconds;
  return all;
}

ProbeTimes Probe::times(std::size_t which) const {
  ProbeTimes result;
  for (const auto &[name, values] : series[which]->seconds)
    result.seconds[name] = quantile(values);
  result.run = quantile(series[which]->runs);
  return result;
}

} // namespace colossal::tool
