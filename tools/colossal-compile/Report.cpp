//===- Report.cpp - what colossal-compile prints, as JSON -------------------===//
#include "Report.h"

#include "colossal/Partition/Partition.h"
#include "colossal/Plan/DataType.h"
#include "colossal/Plan/Traffic.h"
#include "dialects/Dist/Stages.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"

#include <filesystem>
#include <nlohmann/json.hpp>

using nlohmann::json;
using namespace colossal;

/// Names of a model may hold any bytes; JSON is text.
static std::string print(const json &value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string printInputsJson(const std::vector<ModelInput> &inputs) {
  json list = json::array();
  for (const ModelInput &input : inputs) {
    json shape;
    if (input.hasShape) {
      shape = json::array();
      for (const InputDim &dim : input.shape)
        shape.push_back(dim.size >= 0 ? json(dim.size) : dim.isNamed ? json(dim.name) : json());
    }
    list.push_back({{"name", input.name}, {"type", input.type}, {"shape", shape}});
  }
  return print({{"inputs", list}});
}

std::string printParametersJson(const std::vector<training::ParameterInfo> &parameters) {
  json list = json::array();
  for (const training::ParameterInfo &parameter : parameters) {
    auto type = llvm::cast<mlir::RankedTensorType>(parameter.type);
    std::string element;
    llvm::raw_string_ostream(element) << type.getElementType();
    list.push_back({{"name", parameter.name},
                    {"type", element},
                    {"shape", std::vector<int64_t>(type.getShape().begin(), type.getShape().end())},
                    {"trained", parameter.isTrained},
                    {"decays", parameter.isTrained && parameter.decays},
                    {"tied", parameter.tied},
                    {"why", parameter.why}});
  }
  return print({{"parameters", list}});
}

std::string printOperatorsJson(const std::vector<SupportedOperator> &operators) {
  json list = json::array();
  for (const SupportedOperator &op : operators)
    list.push_back({{"domain", op.domain.empty() ? "ai.onnx" : op.domain},
                    {"name", op.name},
                    {"first", op.first},
                    {"last", op.last ? json(op.last) : json()}});
  return print({{"operators", list}});
}

static json describePhaseTimes(const CompileResult &result) {
  json phases = json::array();
  for (const PhaseTime &phase : result.phases)
    phases.push_back({{"name", phase.name}, {"seconds", phase.seconds}, {"operations", phase.operations}});
  return phases;
}

std::string printPinsJson(const CompileResult &result) {
  json list = json::array();
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(result.layout.pins).split(lines, '\n', -1, false);
  for (llvm::StringRef line : lines)
    list.push_back(line.str());
  return print({{"pins", list},
                {"predicted_s", result.layout.predictedSeconds},
                {"gap", result.layout.gap ? json(*result.layout.gap) : json()},
                {"phases", describePhaseTimes(result)}});
}

template <class Bindings>
static json describeBindings(const Bindings &bindings) {
  json list = json::array();
  for (const auto &binding : bindings)
    list.push_back({{"name", binding.name()},
                    {"type", plan::dataTypeName(binding.type())},
                    {"shape", std::vector<uint64_t>(binding.shape().begin(), binding.shape().end())}});
  return list;
}

/// What a rank of each stage, the first one, sends in a run, by axes and kind.
static json describeTraffic(const CompileResult &result, const plan::Program &program) {
  json list = json::array();
  for (const plan::StageView &stage : plan::stagesOf(result.plan)) {
    plan::Traffic traffic;
    if (!plan::programTraffic(result.plan, program, stage.firstRank, traffic).ok())
      continue;
    for (const auto &[key, bytes] : traffic)
      if (bytes > 0)
        list.push_back(
            {{"rank", stage.firstRank}, {"axes", key.first}, {"kind", key.second}, {"bytes", bytes}});
  }
  return list;
}

/// The training plan that the step was compiled as, and those before it that were not taken.
static json describePlan(const PlannedStep &step) {
  const planner::TrainingPlan &plan = step.plan;
  json bytes = json::object();
  for (const auto &[name, sent] : step.bytesByCollective)
    bytes[name] = sent;
  json memory = json::array();
  for (const cost::StageMemory &stage : step.memory)
    memory.push_back({{"parameters", stage.parameters},
                      {"gradients", stage.gradients},
                      {"optimizer", stage.optimizer},
                      {"activations", stage.activations},
                      {"transient", stage.transient},
                      {"io", stage.io},
                      {"total", stage.total()}});
  return {{"mesh", step.mesh},
          {"idle", plan.idle},
          {"microbatches", plan.microbatches()},
          {"schedule", plan.pipeline > 1 ? json(cost::toString(plan.schedule)) : json()},
          {"chunks", plan.chunks},
          {"zero", plan.zero},
          {"recompute", planner::toString(plan.recompute)},
          {"machine", step.machine},
          {"predicted_s", step.seconds},
          {"predicted_bytes", step.bytes},
          {"predicted_memory", memory},
          {"collective_bytes", bytes},
          {"needed_bytes", step.neededBytes ? json(step.neededBytes) : json()},
          {"refused", step.refusal.empty() ? json() : json(step.refusal)}};
}

static json describePlans(const Options &options) {
  if (options.steps.empty())
    return json();
  json plan = describePlan(options.steps.back()), others = json::array();
  for (const PlannedStep &step : llvm::ArrayRef(options.steps).drop_back())
    others.push_back(describePlan(step));
  plan["not_taken"] = others;
  return plan;
}

static json describePrograms(const CompileResult &result) {
  json list = json::array();
  for (const plan::Program &program : result.plan.programs()) {
    if (program.role() != plan::Program::INFER && program.role() != plan::Program::STEP)
      continue;
    json entry = {{"name", program.name()},
                  {"inputs", describeBindings(program.inputs())},
                  {"fixed_inputs", describeBindings(program.fixed_inputs())},
                  {"outputs", describeBindings(program.outputs())},
                  {"collective_bytes", program.collective_bytes()},
                  {"traffic", describeTraffic(result, program)},
                  {"predicted_s", program.predicted_seconds()}};
    for (const ProgramPrediction &prediction : result.predictions)
      if (prediction.name == program.name())
        entry["predicted"] = {
            {"computing_s", prediction.computing},
            {"copying_s", prediction.moving},
            {"communicating_s", prediction.communicating},
            {"instructions", prediction.instructions},
            {"runs_per_s", prediction.interval > 0 ? json(1 / prediction.interval) : json()}};
    list.push_back(std::move(entry));
  }
  return list;
}

static json describeStages(const CompileResult &result) {
  json list = json::array();
  for (size_t s = 0; s < result.step.stages.size(); ++s) {
    const step::StageInfo &stage = result.step.stages[s];
    json sends = json::array(), memory = json::object(), chunks = json::array();
    for (const step::ChunkInfo &chunk : stage.chunks)
      chunks.push_back({{"operators", chunk.ops},
                        {"first", chunk.first},
                        {"last", chunk.last},
                        {"searched_seconds", chunk.seconds}});
    for (const step::StageMessage &message : result.step.messages)
      if (message.from == static_cast<int64_t>(s))
        sends.push_back({{"name", message.name}, {"to", message.to}, {"bytes", message.bytes}});
    json entry = {{"first_rank", stage.firstRank},
                  {"ranks", stage.ranks},
                  {"operators", stage.ops},
                  {"first", stage.chunks.front().first},
                  {"last", stage.chunks.back().last},
                  {"chunks", chunks},
                  {"parameter_bytes", stage.weightBytes},
                  {"searched_seconds", stage.seconds},
                  {"sends", sends}};
    if (s < result.stages.size()) {
      for (const auto &[kind, bytes] : result.stages[s].memory)
        memory[kind] = bytes;
      entry["predicted_s"] = result.stages[s].seconds > 0 ? json(result.stages[s].seconds) : json();
      entry["memory"] = memory;
      entry["passes"] = json::array();
      for (const StagePass &pass : result.stages[s].passes)
        entry["passes"].push_back({{"microbatch", pass.microbatch},
                                   {"chunk", pass.chunk},
                                   {"begin_s", pass.begin},
                                   {"end_s", pass.end}});
    }
    list.push_back(std::move(entry));
  }
  return list;
}

std::string printResultJson(const Options &options, const CompileResult &result, double seconds) {
  json axes = json::array();
  for (dist::MeshAxisAttr axis : dist::getMesh(*result.module).getAxes())
    axes.push_back({{"name", axis.getName().str()}, {"size", axis.getSize()}});
  const int64_t ranks = dist::getNumRanks(*result.module);
  json memory = {
      {"limit", options.compile.layout.memoryBytes ? json(options.compile.layout.memoryBytes) : json()}};
  for (const auto &[kind, bytes] : result.memory)
    memory[kind] = bytes;
  json collectives = json::object(), layout = json::array();
  for (const auto &[kind, use] : result.layout.collectives)
    collectives[kind] = {{"count", use.count}, {"bytes", use.bytes}};
  for (const layout::ChosenLayout &chosen : result.layout.chosen)
    layout.push_back({{"kind", chosen.kind},
                      {"name", chosen.name},
                      {"layout", chosen.layout},
                      {"seconds", chosen.seconds},
                      {"collectives", chosen.collectives}});
  json meshes = json::array();
  for (const TriedMesh &mesh : result.meshes) {
    bool fits = mesh.neededBytes == 0;
    meshes.push_back({{"mesh", mesh.mesh},
                      {"microbatches", mesh.microbatches},
                      {"chunks", mesh.chunks},
                      {"fits", fits},
                      {"predicted_s", fits ? json(mesh.seconds) : json()},
                      {"predicted_runs_per_s", fits ? json(mesh.runsPerSecond) : json()},
                      {"needed_bytes", fits ? json() : json(mesh.neededBytes)}});
  }
  std::error_code unknown;
  const bool trains = options.compile.training.has_value();
  return print({{"plan", options.output},
                {"objective", options.compile.objective == Objective::Latency ? "latency" : "throughput"},
                {"meshes", meshes},
                {"bytes", std::filesystem::file_size(options.output, unknown)},
                {"model", options.compile.import.modelPath},
                {"mesh", {{"axes", axes}, {"ranks", ranks}}},
                {"microbatches", result.microbatches},
                {"recompute", trains ? json(describe(result.recompute).str()) : json()},
                {"chunks", result.step.stages.empty() ? 1 : result.step.stages.front().chunks.size()},
                {"target",
                 {{"name", options.compile.schedule.target->spelling()},
                  {"cpu", result.code.cpu},
                  {"triple", result.code.triple},
                  {"features", result.code.features}}},
                {"training_plan", describePlans(options)},
                {"programs", describePrograms(result)},
                {"memory", memory},
                {"stages", describeStages(result)},
                {"collectives", collectives},
                {"layout", layout},
                {"gap", result.layout.gap ? json(*result.layout.gap) : json()},
                {"kernels", result.code.kernels},
                {"code_bytes", result.images.size()},
                {"phases", describePhaseTimes(result)},
                {"seconds", seconds}});
}

std::string describePhases(const Options &options, const CompileResult &result) {
  std::string text = "machine: " + options.machineOrigin + "\ntarget: " + result.code.cpu + " (" +
                     result.code.triple + ")\n";
  uint64_t bytes = 0;
  for (const plan::WeightFile &file : result.plan.files())
    bytes += file.bytes();
  text += llvm::formatv("{0} parameters, from {1} files of {2} bytes\n", result.plan.parameters_size(),
                        result.plan.files_size(), bytes)
              .str();
  for (const PhaseTime &phase : result.phases)
    text += llvm::formatv("phase {0,-10} {1,9:F3} s, {2} operations after it\n", phase.name, phase.seconds,
                          phase.operations)
                .str();
  return text;
}
