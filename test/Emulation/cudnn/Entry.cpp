// The entry points: descriptors, advice on engines, and which calls are refused.
#include "Work.h"

#include "test/Emulation/PlannedFailures.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define COLOSSAL_CUDNN_EXPORT(type, symbol, arguments)                                                       \
  extern "C" __attribute__((visibility("default"))) type symbol arguments;

namespace colossal::cudnn {

COLOSSAL_CUDNN(COLOSSAL_CUDNN_EXPORT)

namespace {

/// What COLOSSAL_EMULATED_CUDNN_FAIL wants of this call.
Result plannedFailure(const char *symbol) {
  static emulation::PlannedFailures planned("COLOSSAL_EMULATED_CUDNN_FAIL");
  return static_cast<Result>(planned.count(symbol));
}

thread_local std::string lastError;

Result refuse(Result result, const std::string &why) {
  lastError = why;
  std::fprintf(stderr, "emulated cuDNN: %s\n", why.c_str());
  return result;
}

/// What a RawDescriptor points to: graphs keep what they are made of, whoever destroys it.
using Shared = std::shared_ptr<Descriptor>;
Shared &of(RawDescriptor raw) {
  return *static_cast<Shared *>(raw);
}

bool isAligned(const void *pointer, std::int64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(alignment) == 0;
}

size_t sizeOf(AttributeType type) {
  switch (type) {
  case TypeBoolean:
  case TypeChar: return 1;
  case TypeInt64:
  case TypeDouble:
  case TypeHandle:
  case TypeVoidPointer:
  case TypeDescriptor: return 8;
  default: return 4;
  }
}

/// Values that the caller reads; at most `wanted` of them.
template <class T>
Result give(const std::vector<T> &values, std::int64_t wanted, std::int64_t *count, void *to) {
  const auto given = std::min(wanted, static_cast<std::int64_t>(values.size()));
  if (given > 0)
    std::memcpy(to, values.data(), static_cast<size_t>(given) * sizeof(T));
  *count = wanted == 0 ? static_cast<std::int64_t>(values.size()) : given;
  return Success;
}

/// Fills descriptors that the caller has made.
template <class T, class Fill>
Result fill(DescriptorType type, const std::vector<T> &values, std::int64_t wanted, std::int64_t *count,
            void *to, Fill make) {
  auto *raws = static_cast<RawDescriptor *>(to);
  const auto given = std::min(wanted, static_cast<std::int64_t>(values.size()));
  for (std::int64_t i = 0; i < given; ++i) {
    if (!raws[i] || of(raws[i])->type != type || of(raws[i])->isFinalized)
      return refuse(BadParam, "what is to be filled is no new descriptor of the type that is asked for");
    make(*of(raws[i]), values[static_cast<size_t>(i)]);
    of(raws[i])->isFinalized = true;
  }
  *count = given;
  return Success;
}

template <class T>
void put(Descriptor &d, Attribute attribute, AttributeType type, T value) {
  Descriptor::Value &made = d.values[attribute];
  made.type = type;
  made.bytes.resize(sizeof value);
  std::memcpy(made.bytes.data(), &value, sizeof value);
}

Result readPart(const Descriptor &d, Attribute attribute, std::int64_t wanted, std::int64_t *count,
                void *to) {
  if (d.type == EngineHeuristicDescriptor && attribute == HeuristicResults) {
    if (wanted == 0) {
      *count = 40; // how many there may be, not how many there are
      return Success;
    }
    return fill(EngineConfigDescriptor, advise(*d.graph, d.one<HeuristicMode>(HeuristicModeAttribute)),
                wanted, count, to, [&](Descriptor &config, const Engine &engine) {
                  config.graph = d.graph;
                  config.engine = engine;
                });
  }
  if (d.type == EngineConfigDescriptor && attribute == EngineConfigEngine)
    return fill(EngineDescriptor, std::vector<Engine>{*d.engine}, wanted, count, to,
                [&](Descriptor &engine, const Engine &value) {
                  engine.graph = d.graph;
                  engine.engine = value;
                });
  if (d.type == EngineConfigDescriptor && attribute == EngineConfigKnobChoices) {
    std::vector<std::int64_t> tiles;
    if (d.engine->kind == Engine::Rearranged)
      tiles.push_back(d.engine->tile);
    return fill(KnobChoiceDescriptor, tiles, wanted, count, to, [](Descriptor &knob, std::int64_t tile) {
      put(knob, KnobChoiceType, TypeKnobType, static_cast<std::uint32_t>(tileKnob));
      put(knob, KnobChoiceValue, TypeInt64, tile);
    });
  }
  return refuse(NotSupported, "an attribute to read that is not modelled");
}

Result readValue(const Descriptor &d, Attribute attribute, AttributeType type, std::int64_t wanted,
                 std::int64_t *count, void *to) {
  if (d.type == EngineDescriptor && attribute == EngineGlobalIndex && type == TypeInt64)
    return give<std::int64_t>({d.engine->kind}, wanted, count, to);
  if (d.type == EngineDescriptor && attribute == EngineNumericalNotes && type == TypeNumericalNote)
    return give(d.engine->notes(), wanted, count, to);
  if (d.type == EngineDescriptor && attribute == EngineBehaviorNotes && type == TypeBehaviorNote)
    return give(d.engine->behavior(), wanted, count, to);
  if (d.type == KnobChoiceDescriptor && attribute == KnobChoiceType && type == TypeKnobType)
    return give(d.all<std::uint32_t>(attribute), wanted, count, to);
  if (d.type == KnobChoiceDescriptor && attribute == KnobChoiceValue && type == TypeInt64)
    return give(d.all<std::int64_t>(attribute), wanted, count, to);
  if (d.type == ExecutionPlanDescriptor && attribute == PlanWorkspaceSize && type == TypeInt64)
    return give<std::int64_t>({workspaceBytes(*d.graph, *d.engine)}, wanted, count, to);
  return refuse(NotSupported, "an attribute to read that is not modelled");
}

/// The place of a graph's tensor in a pack.
Result findPlace(const Tensor &tensor, const Descriptor &pack, cuda::DevicePointer &place) {
  const auto numbers = pack.all<std::int64_t>(PackUniqueIds);
  const auto pointers = pack.all<void *>(PackDataPointers);
  const auto found = std::find(numbers.begin(), numbers.end(), tensor.number);
  if (found == numbers.end() || !pointers[static_cast<size_t>(found - numbers.begin())])
    return refuse(BadParamNullPointer,
                  "tensor " + std::to_string(tensor.number) + " of the graph has no pointer");
  const void *pointer = pointers[static_cast<size_t>(found - numbers.begin())];
  if (!isAligned(pointer, tensor.alignment))
    return refuse(BadParamMisalignedPointer,
                  "tensor " + std::to_string(tensor.number) + " is not aligned to the " +
                      std::to_string(tensor.alignment) + " bytes that its descriptor says");
  place = reinterpret_cast<std::uintptr_t>(pointer);
  return Success;
}

/// A tensor of a graph, and where its place goes, or its value if it is told by value.
struct Operand {
  const Tensor *tensor;
  cuda::DevicePointer *place;
  void *value;
};

std::vector<Operand> listOperands(const Graph &graph, Call &call, std::int32_t &offset) {
  std::vector<Operand> operands;
  auto add = [&](const Tensor &tensor, cuda::DevicePointer *place, void *value = nullptr) {
    operands.push_back({&tensor, place, value});
  };
  if (const auto &a = graph.attention) {
    add(a->q, &call.q), add(a->k, &call.k), add(a->v, &call.v), add(a->o, &call.o);
    add(a->scale, nullptr, &call.scale);
    if (a->mask)
      add(*a->mask, &call.mask);
    if (a->offset)
      add(*a->offset, nullptr, &offset);
    if (a->hidden)
      add(*a->hidden, nullptr, &call.hidden);
    return operands;
  }
  add(graph.x, &call.x), add(graph.w, &call.w), add(graph.y, &call.y);
  if (graph.bias)
    add(*graph.bias, &call.bias);
  return operands;
}

} // namespace

size_t cudnnGetVersion() {
  const char *wanted = std::getenv("COLOSSAL_EMULATED_CUDNN_VERSION");
  return wanted && *wanted ? std::strtoul(wanted, nullptr, 10) : 92100;
}

const char *cudnnGetErrorString(Result result) {
  switch (result) {
  case Success: return "CUDNN_STATUS_SUCCESS";
  case NotInitialized: return "CUDNN_STATUS_NOT_INITIALIZED";
  case BadParam: return "CUDNN_STATUS_BAD_PARAM";
  case BadParamNullPointer: return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
  case BadParamMisalignedPointer: return "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER";
  case BadParamNotFinalized: return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
  case BadParamAttributeType: return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
  case NotSupported: return "CUDNN_STATUS_NOT_SUPPORTED";
  case InternalError: return "CUDNN_STATUS_INTERNAL_ERROR";
  case ExecutionFailed: return "CUDNN_STATUS_EXECUTION_FAILED";
  default: return "CUDNN_STATUS";
  }
}

void cudnnGetLastErrorString(char *message, size_t size) {
  if (message && size)
    std::snprintf(message, size, "%s", lastError.c_str());
  lastError.clear();
}

Result cudnnCreate(Handle *handle) {
  if (const Result planned = plannedFailure("cudnnCreate"))
    return planned;
  if (!handle)
    return BadParam;
  *handle = new CudnnHandle;
  return Success;
}

Result cudnnDestroy(Handle handle) {
  if (const Result planned = plannedFailure("cudnnDestroy"))
    return planned;
  delete handle;
  return Success;
}

Result cudnnSetStream(Handle handle, Stream stream) {
  if (const Result planned = plannedFailure("cudnnSetStream"))
    return planned;
  if (!handle)
    return BadParam;
  handle->stream = stream;
  return Success;
}

Result cudnnBackendCreateDescriptor(DescriptorType type, RawDescriptor *made) {
  if (const Result planned = plannedFailure("cudnnBackendCreateDescriptor"))
    return planned;
  if (!made)
    return BadParamNullPointer;
  *made = new Shared(std::make_shared<Descriptor>(type));
  return Success;
}

Result cudnnBackendDestroyDescriptor(RawDescriptor descriptor) {
  if (const Result planned = plannedFailure("cudnnBackendDestroyDescriptor"))
    return planned;
  delete static_cast<Shared *>(descriptor);
  return Success;
}

Result cudnnBackendSetAttribute(RawDescriptor raw, Attribute attribute, AttributeType type, int64_t count,
                                const void *values) {
  if (const Result planned = plannedFailure("cudnnBackendSetAttribute"))
    return planned;
  if (!raw || (count > 0 && !values))
    return refuse(BadParamNullPointer, "an attribute of nothing, or without values");
  Descriptor &d = *of(raw);
  if (d.isFinalized)
    return refuse(NotInitialized, "an attribute of a descriptor that is finalized");
  std::string why;
  if (Result bad = checkAttribute(d, attribute, type, count, why); bad != Success)
    return refuse(bad, why);
  Descriptor::Value value{type, {}, {}};
  value.bytes.resize(static_cast<size_t>(count) * sizeOf(type));
  if (count > 0)
    std::memcpy(value.bytes.data(), values, value.bytes.size());
  if (type == TypeDescriptor)
    for (std::int64_t i = 0; i < count; ++i) {
      const RawDescriptor part = static_cast<const RawDescriptor *>(values)[i];
      if (!part)
        return refuse(BadParamNullPointer, "an attribute is no descriptor");
      if (!of(part)->isFinalized)
        return refuse(BadParamNotFinalized, "attribute " + std::to_string(attribute) + " is not finalized");
      value.parts.push_back(of(part));
    }
  d.values[attribute] = std::move(value);
  return Success;
}

Result cudnnBackendGetAttribute(RawDescriptor raw, Attribute attribute, AttributeType type, int64_t wanted,
                                int64_t *count, void *values) {
  if (const Result planned = plannedFailure("cudnnBackendGetAttribute"))
    return planned;
  if (!raw || !count || (wanted > 0 && !values))
    return refuse(BadParamNullPointer, "an attribute of nothing, or to nowhere");
  const Descriptor &d = *of(raw);
  if (!d.isFinalized)
    return refuse(BadParamNotFinalized, "an attribute is read of a descriptor that is not finalized");
  return type == TypeDescriptor ? readPart(d, attribute, wanted, count, values)
                                : readValue(d, attribute, type, wanted, count, values);
}

Result cudnnBackendFinalize(RawDescriptor raw) {
  if (const Result planned = plannedFailure("cudnnBackendFinalize"))
    return planned;
  if (!raw)
    return BadParamNullPointer;
  if (of(raw)->isFinalized)
    return refuse(BadParam, "a descriptor is finalized twice");
  std::string why;
  Result result = finalize(*of(raw), why);
  return result == Success ? Success : refuse(result, why);
}

Result cudnnBackendExecute(Handle handle, RawDescriptor planned, RawDescriptor packed) {
  if (const Result failure = plannedFailure("cudnnBackendExecute"))
    return failure;
  if (!handle || !planned || !packed)
    return refuse(BadParamNullPointer, "a run without a handle, a plan or a pack");
  const Descriptor &plan = *of(planned), &pack = *of(packed);
  if (plan.type != ExecutionPlanDescriptor || pack.type != VariantPackDescriptor)
    return refuse(BadParam, "a run of what is no plan, or with what is no pack");
  if (!plan.isFinalized || !pack.isFinalized)
    return refuse(BadParamNotFinalized, "a run of a plan, or with a pack, that is not finalized");
  if (!handle->stream)
    return refuse(NotSupported, "runs on the default stream are not modelled");
  const Graph &graph = *plan.graph;
  Call call;
  call.graph = plan.graph;
  call.engine = *plan.engine;
  std::int32_t offset = 0;
  const std::vector<Operand> operands = listOperands(graph, call, offset);
  for (const Operand &operand : operands) {
    cuda::DevicePointer place = 0;
    if (Result bad = findPlace(*operand.tensor, pack, place); bad != Success)
      return bad;
    if (operand.place)
      *operand.place = place;
    else
      std::memcpy(operand.value, reinterpret_cast<const void *>(place), 4);
  }
  call.offset = offset;
  if (pack.all<std::int64_t>(PackUniqueIds).size() != operands.size())
    return refuse(BadParam, "a pack has other tensors than the graph");
  void *workspace = pack.one<void *>(PackWorkspace);
  if (workspaceBytes(graph, call.engine) > 0 && (!workspace || !isAligned(workspace, 16)))
    return refuse(BadParam, "the plan needs a workspace that is aligned to 16 bytes");
  call.workspace = reinterpret_cast<std::uintptr_t>(workspace);
  const Result enqueued =
      graph.attention ? enqueueAttention(call, handle->stream) : enqueueConvolution(call, handle->stream);
  return enqueued == Success ? Success : refuse(enqueued, "an operand lies in no memory of the GPU");
}

} // namespace colossal::cudnn
