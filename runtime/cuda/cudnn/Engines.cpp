// Heuristics, notes on engines, and their plans.
#include "runtime/cuda/cudnn/Engines.h"

#include <algorithm>

namespace colossal::runtime {

namespace {

/// More than the library advises of any.
constexpr size_t maxConfigs = 64, maxNotes = 16, maxKnobs = 64;

/// What the library says of an engine.
struct Notes {
  std::vector<cudnn::NumericalNote> numbers;
  std::vector<cudnn::BehaviorNote> behavior;

  bool isTaken(const CudnnRules &rules) const {
    for (cudnn::BehaviorNote note : behavior)
      if (note == cudnn::NoteRuntimeCompilation && !rules.compiles)
        return false;
    return std::all_of(numbers.begin(), numbers.end(), [&](cudnn::NumericalNote note) {
      return note == cudnn::NoteStrictNan || (note == cudnn::NoteTensorCore && rules.rounds);
    });
  }
};

Status read(const CudnnDescriptor &config, Algorithms::Words &words, Notes &notes) {
  std::vector<CudnnDescriptor> engine, knobs;
  COLOSSAL_RETURN_IF_ERROR(config.get(cudnn::EngineConfigEngine, cudnn::EngineDescriptor, 1, engine));
  if (engine.empty())
    return {Code::Internal, "cuDNN advises no engine in a configuration"};
  std::vector<int64_t> number;
  COLOSSAL_RETURN_IF_ERROR(engine[0].get(cudnn::EngineGlobalIndex, cudnn::TypeInt64, 1, number));
  COLOSSAL_RETURN_IF_ERROR(
      engine[0].get(cudnn::EngineNumericalNotes, cudnn::TypeNumericalNote, maxNotes, notes.numbers));
  COLOSSAL_RETURN_IF_ERROR(
      engine[0].get(cudnn::EngineBehaviorNotes, cudnn::TypeBehaviorNote, maxNotes, notes.behavior));
  words.assign(number.begin(), number.end());
  COLOSSAL_RETURN_IF_ERROR(
      config.get(cudnn::EngineConfigKnobChoices, cudnn::KnobChoiceDescriptor, maxKnobs, knobs));
  for (const CudnnDescriptor &knob : knobs) {
    std::vector<uint32_t> type;
    std::vector<int64_t> value;
    COLOSSAL_RETURN_IF_ERROR(knob.get(cudnn::KnobChoiceType, cudnn::TypeKnobType, 1, type));
    COLOSSAL_RETURN_IF_ERROR(knob.get(cudnn::KnobChoiceValue, cudnn::TypeInt64, 1, value));
    words.insert(words.end(), type.begin(), type.end());
    words.insert(words.end(), value.begin(), value.end());
  }
  return {};
}

} // namespace

Status describeDevice(const CudnnLibrary &library, cudnn::Handle handle, CudnnDescriptor &device) {
  COLOSSAL_RETURN_IF_ERROR(device.create(library, cudnn::DevicePropertiesDescriptor));
  COLOSSAL_RETURN_IF_ERROR(device.set(cudnn::DevicePropertiesHandle, cudnn::TypeHandle, handle));
  return device.finalize();
}

Status describeDevice(const CudnnLibrary &library, const std::string &json, CudnnDescriptor &device) {
  COLOSSAL_RETURN_IF_ERROR(device.create(library, cudnn::DevicePropertiesDescriptor));
  COLOSSAL_RETURN_IF_ERROR(device.set(cudnn::DevicePropertiesJson, cudnn::TypeChar,
                                      static_cast<int64_t>(json.size()) + 1, json.c_str()));
  return device.finalize();
}

Status listEngines(const CudnnLibrary &library, const CudnnGraph &graph, const CudnnDescriptor &device,
                   const CudnnRules &rules, std::vector<CudnnEngine> &engines) {
  for (cudnn::HeuristicMode mode : {cudnn::HeuristicA, cudnn::HeuristicFallback}) {
    CudnnDescriptor heuristic;
    COLOSSAL_RETURN_IF_ERROR(heuristic.create(library, cudnn::EngineHeuristicDescriptor));
    COLOSSAL_RETURN_IF_ERROR(heuristic.set(cudnn::HeuristicGraph, graph.graph));
    COLOSSAL_RETURN_IF_ERROR(heuristic.set(cudnn::HeuristicModeAttribute, cudnn::TypeHeuristicMode, mode));
    COLOSSAL_RETURN_IF_ERROR(heuristic.set(cudnn::HeuristicDeviceProperties, device));
    COLOSSAL_RETURN_IF_ERROR(heuristic.finalize());
    std::vector<CudnnDescriptor> configs;
    COLOSSAL_RETURN_IF_ERROR(
        heuristic.get(cudnn::HeuristicResults, cudnn::EngineConfigDescriptor, maxConfigs, configs));
    for (CudnnDescriptor &config : configs) {
      CudnnEngine engine;
      Notes notes;
      COLOSSAL_RETURN_IF_ERROR(read(config, engine.words, notes));
      const bool isKnown = std::any_of(engines.begin(), engines.end(),
                                       [&](const CudnnEngine &known) { return known.words == engine.words; });
      if (isKnown || !notes.isTaken(rules))
        continue;
      engine.config = std::move(config);
      engines.push_back(std::move(engine));
    }
  }
  return {};
}

Status finalizePlan(const CudnnLibrary &library, const CudnnDescriptor &device, uint64_t workspaceBytes,
                    CudnnEngine &engine) {
  CudnnDescriptor plan;
  COLOSSAL_RETURN_IF_ERROR(plan.create(library, cudnn::ExecutionPlanDescriptor));
  COLOSSAL_RETURN_IF_ERROR(plan.set(cudnn::PlanEngineConfig, engine.config));
  COLOSSAL_RETURN_IF_ERROR(plan.set(cudnn::PlanDeviceProperties, device));
  if (Status status = plan.finalize(); !status.ok())
    return status.code() == Code::OutOfMemory ? status : Status(Code::Unsupported, status.message());
  std::vector<int64_t> bytes;
  COLOSSAL_RETURN_IF_ERROR(plan.get(cudnn::PlanWorkspaceSize, cudnn::TypeInt64, 1, bytes));
  if (bytes.empty() || bytes[0] < 0 || static_cast<uint64_t>(bytes[0]) > workspaceBytes)
    return {Code::Unsupported, "an engine of cuDNN needs a workspace of " +
                                   (bytes.empty() ? "unknown size" : std::to_string(bytes[0]) + " bytes") +
                                   ", and the plan has " + std::to_string(workspaceBytes)};
  engine.workspaceBytes = static_cast<uint64_t>(bytes[0]);
  engine.plan = std::move(plan);
  return {};
}

} // namespace colossal::runtime
