// Graph and engine of a call, by how its buffers are aligned, and its run.
#include "runtime/cuda/cudnn/Graphs.h"

#include "colossal/Plan/DataType.h"

#include <limits>
#include <map>

namespace colossal::runtime {

namespace {

/// Engines that are timed; the library's advice comes in order.
constexpr size_t maxCandidates = 8;
/// The greatest alignment that an engine asks for.
constexpr uint64_t maxAlignment = 16;

/// The greatest power of two that divides all of what was joined by "or".
uint64_t alignmentOf(uint64_t places) {
  places |= maxAlignment;
  return places & (~places + 1);
}

class GraphRoutine final : public CudaRoutine {
public:
  GraphRoutine(const CudnnGraphs &shared, const plan::LibraryCall &call)
      : shared(shared), library(shared.library), call(call),
        workspaceBytes(call.buffers(call.buffers_size() - 2).bytes()) {}

  Status create();
  Status enqueue(cuda::Stream stream, void *const *buffers, uint32_t count, bool recorded) override;

private:
  struct Choice {
    CudnnGraph graph;
    std::vector<CudnnEngine> candidates; ///< those that were not finalized have no plan yet
    size_t chosen = 0;
    bool timed = false;
  };

  /// Whether what buffer `i` is aligned to matters: neither of the workspace nor of a mask.
  bool isAligned(int i) const { return i != call.buffers_size() - 2 && !(call.attention().mask() && i == 3); }
  std::string describe(uint64_t alignment) const;
  Status choose(uint64_t alignment, Choice *&choice);
  Status execute(const Choice &choice, const CudnnEngine &engine, cuda::Stream stream, void *const *buffers,
                 uint32_t count) const;
  Status time(uint64_t alignment, Choice &choice, cuda::Stream stream, void *const *buffers, uint32_t count);

  const CudnnGraphs &shared;
  const CudnnLibrary &library;
  const plan::LibraryCall call;
  const uint64_t workspaceBytes;
  std::map<uint64_t, Choice> choices; // by what all operands are aligned to
};

/// What cannot be computed at all is found when the plan is opened, and the library's plan made then: arenas
/// begin at multiples of what an engine may ask for.
Status GraphRoutine::create() {
  uint64_t places = 0;
  for (int i = 0; i < call.buffers_size(); ++i) {
    if (!isAligned(i))
      continue;
    places |= call.buffers(i).offset();
    for (int64_t stride : call.buffers(i).strides())
      places |= static_cast<uint64_t>(stride);
  }
  Choice *choice = nullptr;
  return choose(alignmentOf(places), choice);
}

std::string GraphRoutine::describe(uint64_t alignment) const {
  std::string text;
  auto add = [&](const char *name, const auto &numbers) {
    text += std::string(" ") + name;
    for (auto number : numbers)
      text += " " + std::to_string(number);
  };
  if (call.has_attention()) {
    const plan::Attention &a = call.attention();
    text = "attention " + std::to_string(a.type());
    add("sizes", std::initializer_list<uint64_t>{a.batch(), a.query_heads(), a.key_heads(), a.queries(),
                                                 a.keys(), a.width(), a.value_width()});
    for (const auto *strides :
         {&a.query_strides(), &a.key_strides(), &a.value_strides(), &a.output_strides()})
      add("strides", *strides);
    text += a.causal() ? " causal " + std::to_string(a.causal_offset()) : "";
    if (a.mask())
      add(("mask " + std::to_string(a.mask_type())).c_str(), a.mask_strides());
  } else {
    const plan::Convolution &c = call.convolution();
    text = "convolution " + std::to_string(c.type()) + " " + c.compute();
    add("input", c.input());
    add("strides", c.input_strides());
    add("weight", c.weight());
    add("output", c.output());
    add("strides", c.output_strides());
    add("window strides", c.strides());
    add("dilations", c.dilations());
    add("pads", c.pads_begin());
    add("and", c.pads_end());
    text += (c.bias() ? " bias " : " ") + c.activation();
  }
  return text + " workspace " + std::to_string(workspaceBytes) + " aligned " + std::to_string(alignment);
}

/// The engine for operands that are aligned so: one that was timed and is still advised, or the library's
/// advice.
Status GraphRoutine::choose(uint64_t alignment, Choice *&found) {
  if (auto known = choices.find(alignment); known != choices.end()) {
    found = &known->second;
    return {};
  }
  Choice choice;
  CudnnRules rules;
  if (call.has_attention()) {
    COLOSSAL_RETURN_IF_ERROR(buildAttention(library, call.attention(), alignment, choice.graph));
    rules = {true, true}; // of 16 bits; the library has no others
  } else {
    const plan::Convolution &c = call.convolution();
    COLOSSAL_RETURN_IF_ERROR(buildConvolution(library, c, alignment, choice.graph));
    rules.rounds = c.compute() == "tf32" || c.type() == plan::F16 || c.type() == plan::BF16;
  }
  COLOSSAL_RETURN_IF_ERROR(listEngines(library, choice.graph, shared.device, rules, choice.candidates));
  std::vector<CudnnEngine> &engines = choice.candidates;
  if (auto known = shared.algorithms.find(describe(alignment)))
    for (size_t i = 0; i < engines.size() && !choice.timed; ++i)
      if (engines[i].words == *known && finalizePlan(library, shared.device, workspaceBytes, engines[i]).ok())
        choice.chosen = i, choice.timed = true;
  Status last = {Code::Unsupported, "it advises none that keeps to the plan's arithmetic"};
  for (size_t i = 0; i < engines.size() && !choice.timed && !engines[choice.chosen].plan.get(); ++i) {
    last = finalizePlan(library, shared.device, workspaceBytes, engines[i]);
    if (last.code() == Code::OutOfMemory)
      return last;
    if (last.ok())
      choice.chosen = i;
  }
  if (engines.empty() || !engines[choice.chosen].plan.get())
    return {Code::Unsupported, "cuDNN " + library.version() + " has no engine for " + describe(alignment) +
                                   ": " + last.message() + "; compile the plan without --cudnn"};
  found = &(choices[alignment] = std::move(choice));
  return {};
}

Status GraphRoutine::execute(const Choice &choice, const CudnnEngine &engine, cuda::Stream stream,
                             void *const *buffers, uint32_t count) const {
  // The operands, the workspace, the output; then what is told by value.
  std::vector<void *> places(buffers, buffers + count - 2);
  places.push_back(buffers[count - 1]);
  std::vector<int64_t> numbers = choice.graph.numbers;
  const CudnnScalars &scalars = choice.graph.scalars;
  std::vector<uint32_t> words = scalars.words; // the library reads them here and now
  for (size_t i = 0; i < words.size(); ++i) {
    numbers.push_back(scalars.numbers[i]);
    places.push_back(&words[i]);
  }
  CudnnDescriptor pack;
  COLOSSAL_RETURN_IF_ERROR(pack.create(library, cudnn::VariantPackDescriptor));
  COLOSSAL_RETURN_IF_ERROR(pack.set(cudnn::PackUniqueIds, numbers));
  COLOSSAL_RETURN_IF_ERROR(pack.set(cudnn::PackDataPointers, cudnn::TypeVoidPointer,
                                    static_cast<int64_t>(places.size()), places.data()));
  COLOSSAL_RETURN_IF_ERROR(pack.set(cudnn::PackWorkspace, cudnn::TypeVoidPointer, buffers[count - 2]));
  COLOSSAL_RETURN_IF_ERROR(pack.finalize());
  COLOSSAL_CUDNN_CALL(library, cudnnSetStream, shared.handle, stream);
  COLOSSAL_CUDNN_CALL(library, cudnnBackendExecute, shared.handle, engine.plan.get(), pack.get());
  return {};
}

/// Runs the candidates on the call's own buffers, whose result the last run leaves as every other would.
Status GraphRoutine::time(uint64_t alignment, Choice &choice, cuda::Stream stream, void *const *buffers,
                          uint32_t count) {
  double best = std::numeric_limits<double>::infinity();
  size_t tried = 0;
  for (size_t i = 0; i < choice.candidates.size() && tried < maxCandidates; ++i) {
    CudnnEngine &engine = choice.candidates[i];
    if (!engine.plan.get() && !finalizePlan(library, shared.device, workspaceBytes, engine).ok())
      continue;
    ++tried;
    double seconds = 0;
    COLOSSAL_RETURN_IF_ERROR(timeAlgorithm(
        shared.driver, stream, [&] { return execute(choice, engine, stream, buffers, count); }, seconds));
    if (seconds < best)
      best = seconds, choice.chosen = i;
  }
  choice.timed = true;
  shared.algorithms.add(describe(alignment), choice.candidates[choice.chosen].words, best);
  // What lost is not needed again.
  for (size_t i = 0; i < choice.candidates.size(); ++i)
    if (i != choice.chosen)
      choice.candidates[i] = {};
  return {};
}

Status GraphRoutine::enqueue(cuda::Stream stream, void *const *buffers, uint32_t count, bool recorded) {
  uint64_t places = 0;
  for (uint32_t i = 0; i < count; ++i)
    if (isAligned(static_cast<int>(i)))
      places |= reinterpret_cast<uintptr_t>(buffers[i]);
  const uint64_t alignment = alignmentOf(places);
  Choice *choice = nullptr;
  COLOSSAL_RETURN_IF_ERROR(choose(alignment, choice));
  if (!choice->timed && shared.tunes && !recorded)
    COLOSSAL_RETURN_IF_ERROR(time(alignment, *choice, stream, buffers, count));
  return execute(*choice, choice->candidates[choice->chosen], stream, buffers, count);
}

} // namespace

Status CudnnGraphs::create(const CudaLibrary &driver, const Gpu &gpu, std::unique_ptr<CudnnGraphs> &made) {
  const CudnnLibrary *library = nullptr;
  if (Status status = CudnnLibrary::open(library); !status.ok())
    return {status.code(), "the plan calls cuDNN: " + status.message()};
  std::unique_ptr<CudnnGraphs> graphs(new CudnnGraphs(
      driver, *library, Algorithms::of(driver, gpu, "cudnn-" + library->version()), timesAlgorithms(gpu)));
  COLOSSAL_CUDNN_CALL(*library, cudnnCreate, &graphs->handle);
  COLOSSAL_RETURN_IF_ERROR(describeDevice(*library, graphs->handle, graphs->device));
  made = std::move(graphs);
  return {};
}

CudnnGraphs::~CudnnGraphs() {
  if (handle)
    (void)library->cudnnDestroy(handle);
}

Status CudnnGraphs::createRoutine(const plan::LibraryCall &call, std::unique_ptr<Routine> &routine) {
  auto made = std::make_unique<GraphRoutine>(*this, call);
  COLOSSAL_RETURN_IF_ERROR(made->create());
  routine = std::move(made);
  return {};
}

} // namespace colossal::runtime
