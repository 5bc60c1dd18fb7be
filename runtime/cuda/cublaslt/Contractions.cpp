// Descriptors of a call, and which algorithm computes it.
#include "runtime/cuda/cublaslt/Contractions.h"

#include "colossal/Plan/DataType.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

namespace colossal::runtime {

namespace {

constexpr int maxCandidates = 8;
/// The greatest alignment that an algorithm asks for.
constexpr uint64_t maxAlignment = 256;

uint64_t numberOf(const void *pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

cublaslt::DataType typeOf(plan::DataType type) {
  switch (type) {
  case plan::F64: return cublaslt::R64F;
  case plan::F16: return cublaslt::R16F;
  case plan::BF16: return cublaslt::R16BF;
  default: return cublaslt::R32F;
  }
}

/// Rows and columns as the library counts them, and where the next column begins.
struct Layout {
  uint64_t rows = 0, columns = 0, leading = 0, batchStride = 0;
};
/// A matrix of `rows` x `columns` with the plan's strides. `transposed` is set where its rows lie without
/// gaps, so that for the library it is its own transpose.
template <class Strides>
Layout layoutOf(uint64_t rows, uint64_t columns, const Strides &strides, bool &transposed) {
  transposed = !(strides[1] == 1 && strides[2] >= rows);
  if (transposed)
    return {columns, rows, strides[1], strides[0]};
  return {rows, columns, strides[2], strides[0]};
}

class ContractionRoutine final : public CudaRoutine {
public:
  ContractionRoutine(const Contractions &shared, const plan::LibraryCall &call)
      : shared(shared), library(shared.library), descriptor(call.contraction()),
        workspaceBytes(call.buffers(call.buffers_size() - 2).bytes()) {}
  ~ContractionRoutine() override {
    for (cublaslt::MatrixLayout layout : {first, second, result})
      if (layout)
        (void)library->cublasLtMatrixLayoutDestroy(layout);
    if (operation)
      (void)library->cublasLtMatmulDescDestroy(operation);
    if (preference)
      (void)library->cublasLtMatmulPreferenceDestroy(preference);
  }

  Status create();
  Status enqueue(cuda::Stream stream, void *const *buffers, uint32_t count, bool recorded) override;

private:
  struct Choice {
    cublaslt::Algorithm algorithm = {};
    bool timed = false;
  };
  /// Where a call's buffers lie, as the library names them.
  struct Call {
    const void *first = nullptr, *second = nullptr, *bias = nullptr;
    void *workspace = nullptr, *result = nullptr;
    uint64_t alignment = maxAlignment;
  };

  Status createLayout(plan::DataType type, const Layout &layout, cublaslt::MatrixLayout &made) const;
  Status createOperation(bool firstTransposed, bool secondTransposed);
  Status setBias(const void *bias) const;
  std::string describe(uint64_t alignment) const;
  Status findCandidates(uint64_t alignment, std::vector<Choice> &candidates);
  Status choose(uint64_t alignment, Choice *&choice);
  Status multiply(const Call &call, const Choice &choice, cuda::Stream stream) const;
  Status time(const Call &call, Choice &choice, cuda::Stream stream);

  const Contractions &shared;
  const CublasLtLibrary &library;
  const plan::Contraction descriptor;
  const uint64_t workspaceBytes;
  bool swapped = false; // the library's first operand is B
  cublaslt::MatmulDesc operation = nullptr;
  cublaslt::MatrixLayout first = nullptr, second = nullptr, result = nullptr;
  cublaslt::Preference preference = nullptr;
  std::map<uint64_t, Choice> choices; // by what all operands are aligned to
};

Status ContractionRoutine::createLayout(plan::DataType type, const Layout &layout,
                                        cublaslt::MatrixLayout &made) const {
  COLOSSAL_CUBLASLT_CALL(library, cublasLtMatrixLayoutCreate, &made, typeOf(type), layout.rows,
                         layout.columns, static_cast<int64_t>(layout.leading));
  const auto batch = static_cast<int32_t>(descriptor.batch());
  const auto stride = static_cast<int64_t>(layout.batchStride);
  COLOSSAL_CUBLASLT_CALL(library, cublasLtMatrixLayoutSetAttribute, made, cublaslt::LayoutBatchCount, &batch,
                         sizeof batch);
  COLOSSAL_CUBLASLT_CALL(library, cublasLtMatrixLayoutSetAttribute, made, cublaslt::LayoutStridedBatchOffset,
                         &stride, sizeof stride);
  return {};
}

Status ContractionRoutine::setBias(const void *bias) const {
  COLOSSAL_CUBLASLT_CALL(library, cublasLtMatmulDescSetAttribute, operation, cublaslt::DescBiasPointer, &bias,
                         sizeof bias);
  return {};
}

Status ContractionRoutine::createOperation(bool firstTransposed, bool secondTransposed) {
  const bool doubles = descriptor.compute() == "f64";
  COLOSSAL_CUBLASLT_CALL(library, cublasLtMatmulDescCreate, &operation,
                         doubles                          ? cublaslt::Compute64F
                         : descriptor.compute() == "tf32" ? cublaslt::Compute32FFastTF32
                                                          : cublaslt::Compute32F,
                         doubles ? cublaslt::R64F : cublaslt::R32F);
  for (auto [attribute, transposed] : {std::pair(cublaslt::DescTransA, firstTransposed),
                                       std::pair(cublaslt::DescTransB, secondTransposed)}) {
    const int32_t value = transposed ? cublaslt::OperationT : cublaslt::OperationN;
    COLOSSAL_CUBLASLT_CALL(library, cublasLtMatmulDescSetAttribute, operation, attribute, &value,
                           sizeof value);
  }
  const bool relu = descriptor.activation() == "relu", gelu = descriptor.activation() == "gelu_tanh";
  const uint32_t epilogue = descriptor.bias() ? (relu   ? cublaslt::EpilogueReluBias
                                                 : gelu ? cublaslt::EpilogueGeluBias
                                                        : cublaslt::EpilogueBias)
                                              : (relu   ? cublaslt::EpilogueRelu
                                                 : gelu ? cublaslt::EpilogueGelu
                                                        : cublaslt::EpilogueDefault);
  COLOSSAL_CUBLASLT_CALL(library, cublasLtMatmulDescSetAttribute, operation, cublaslt::DescEpilogue,
                         &epilogue, sizeof epilogue);
  if (!descriptor.bias())
    return {};
  const auto type = static_cast<int32_t>(typeOf(descriptor.result_type()));
  COLOSSAL_CUBLASLT_CALL(library, cublasLtMatmulDescSetAttribute, operation, cublaslt::DescBiasDataType,
                         &type, sizeof type);
  return {};
}

Status ContractionRoutine::create() {
  const plan::Contraction &c = descriptor;
  bool aTransposed = false, bTransposed = false;
  Layout a = layoutOf(c.m(), c.k(), c.a_strides(), aTransposed),
         b = layoutOf(c.k(), c.n(), c.b_strides(), bTransposed),
         out = layoutOf(c.m(), c.n(), c.c_strides(), swapped);
  // Both readings of a result of one row or column are right; only that by rows takes a bias.
  if (!swapped && c.c_strides(2) == 1 && c.c_strides(1) >= c.n()) {
    swapped = true;
    out = {c.n(), c.m(), c.c_strides(1), c.c_strides(0)};
  }
  COLOSSAL_RETURN_IF_ERROR(swapped ? createOperation(!bTransposed, !aTransposed)
                                   : createOperation(aTransposed, bTransposed));
  COLOSSAL_RETURN_IF_ERROR(createLayout(c.type(), swapped ? b : a, first));
  COLOSSAL_RETURN_IF_ERROR(createLayout(c.type(), swapped ? a : b, second));
  COLOSSAL_RETURN_IF_ERROR(createLayout(c.result_type(), out, result));
  COLOSSAL_CUBLASLT_CALL(library, cublasLtMatmulPreferenceCreate, &preference);
  COLOSSAL_CUBLASLT_CALL(library, cublasLtMatmulPreferenceSetAttribute, preference,
                         cublaslt::PreferenceMaxWorkspaceBytes, &workspaceBytes, sizeof workspaceBytes);
  // What cannot be computed at all is found when the plan is opened; which algorithm a call takes depends on
  // where its operands lie.
  Choice *choice = nullptr;
  return choose(plan::elementBytes(c.type()), choice);
}

std::string ContractionRoutine::describe(uint64_t alignment) const {
  const plan::Contraction &c = descriptor;
  std::string text = std::to_string(c.type()) + " " + std::to_string(c.result_type()) + " " + c.compute();
  for (uint64_t size : {c.batch(), c.m(), c.n(), c.k()})
    text += " " + std::to_string(size);
  for (const auto *strides : {&c.a_strides(), &c.b_strides(), &c.c_strides()})
    for (uint64_t stride : *strides)
      text += " " + std::to_string(stride);
  return text + (c.bias() ? " bias " : " ") + c.activation() + " workspace " +
         std::to_string(workspaceBytes) + " aligned " + std::to_string(alignment);
}

Status ContractionRoutine::findCandidates(uint64_t alignment, std::vector<Choice> &candidates) {
  const auto bytes = static_cast<uint32_t>(alignment);
  for (cublaslt::PreferenceAttribute attribute :
       {cublaslt::PreferenceMinAlignmentA, cublaslt::PreferenceMinAlignmentB,
        cublaslt::PreferenceMinAlignmentC, cublaslt::PreferenceMinAlignmentD})
    COLOSSAL_CUBLASLT_CALL(library, cublasLtMatmulPreferenceSetAttribute, preference, attribute, &bytes,
                           sizeof bytes);
  cublaslt::HeuristicResult found[maxCandidates] = {};
  int count = 0;
  const cublaslt::Result answer =
      library->cublasLtMatmulAlgoGetHeuristic(shared.handle, operation, first, second, result, result,
                                              preference, shared.tunes ? maxCandidates : 1, found, &count);
  if (answer != cublaslt::NotSupported)
    COLOSSAL_RETURN_IF_ERROR(library.check(answer, "cublasLtMatmulAlgoGetHeuristic"));
  for (int i = 0; i < count; ++i)
    if (found[i].state == cublaslt::Success && found[i].workspaceBytes <= workspaceBytes)
      candidates.push_back({found[i].algorithm, false});
  if (candidates.empty())
    return {Code::Unsupported, "cuBLASLt " + library.version() + " has no algorithm for a contraction (" +
                                   describe(alignment) + ")"};
  return {};
}

/// The algorithm for operands that are aligned so: one that was timed and still does, or the library's
/// advice.
Status ContractionRoutine::choose(uint64_t alignment, Choice *&choice) {
  if (auto known = choices.find(alignment); known != choices.end()) {
    choice = &known->second;
    return {};
  }
  // The bias's alignment is seen from where it lies.
  if (descriptor.bias())
    COLOSSAL_RETURN_IF_ERROR(setBias(pointerOf<void>(alignment)));
  cublaslt::Algorithm algorithm = {};
  if (auto known = shared.algorithms.find(describe(alignment));
      known && known->size() == std::size(algorithm.data)) {
    std::copy(known->begin(), known->end(), algorithm.data);
    cublaslt::HeuristicResult checked = {};
    if (library->cublasLtMatmulAlgoCheck(shared.handle, operation, first, second, result, result, &algorithm,
                                         &checked) == cublaslt::Success &&
        checked.workspaceBytes <= workspaceBytes) {
      choice = &(choices[alignment] = {algorithm, true});
      return {};
    }
  }
  std::vector<Choice> candidates;
  COLOSSAL_RETURN_IF_ERROR(findCandidates(alignment, candidates));
  choice = &(choices[alignment] = candidates.front());
  return {};
}

Status ContractionRoutine::multiply(const Call &call, const Choice &choice, cuda::Stream stream) const {
  const double one = 1, zero = 0;
  const float oneSingle = 1, zeroSingle = 0;
  const bool doubles = descriptor.compute() == "f64";
  COLOSSAL_CUBLASLT_CALL(library, cublasLtMatmul, shared.handle, operation,
                         doubles ? static_cast<const void *>(&one) : &oneSingle, call.first, first,
                         call.second, second, doubles ? static_cast<const void *>(&zero) : &zeroSingle,
                         call.result, result, call.result, result, &choice.algorithm, call.workspace,
                         workspaceBytes, stream);
  return {};
}

/// Runs the candidates on the call's own buffers, whose result the last run leaves as every other would.
Status ContractionRoutine::time(const Call &call, Choice &choice, cuda::Stream stream) {
  std::vector<Choice> candidates;
  COLOSSAL_RETURN_IF_ERROR(findCandidates(call.alignment, candidates));
  double best = std::numeric_limits<double>::infinity();
  for (const Choice &candidate : candidates) {
    double seconds = 0;
    COLOSSAL_RETURN_IF_ERROR(
        timeAlgorithm(shared.driver, stream, [&] { return multiply(call, candidate, stream); }, seconds));
    if (seconds < best)
      best = seconds, choice = candidate;
  }
  choice.timed = true;
  shared.algorithms.add(describe(call.alignment),
                        {std::begin(choice.algorithm.data), std::end(choice.algorithm.data)}, best);
  return {};
}

Status ContractionRoutine::enqueue(cuda::Stream stream, void *const *buffers, uint32_t count, bool recorded) {
  Call call;
  call.first = buffers[swapped ? 1 : 0];
  call.second = buffers[swapped ? 0 : 1];
  call.workspace = buffers[count - 2];
  call.result = buffers[count - 1];
  call.bias = descriptor.bias() ? buffers[2] : nullptr;
  const uint64_t places = numberOf(call.first) | numberOf(call.second) | numberOf(call.bias) |
                          numberOf(call.result) | maxAlignment;
  call.alignment = places & (~places + 1);
  Choice *choice = nullptr;
  COLOSSAL_RETURN_IF_ERROR(choose(call.alignment, choice));
  if (descriptor.bias())
    COLOSSAL_RETURN_IF_ERROR(setBias(call.bias));
  if (!choice->timed && shared.tunes && !recorded)
    COLOSSAL_RETURN_IF_ERROR(time(call, *choice, stream));
  return multiply(call, *choice, stream);
}

} // namespace

Status Contractions::create(const CudaLibrary &driver, const Gpu &gpu, std::unique_ptr<Contractions> &made) {
  const CublasLtLibrary *library = nullptr;
  if (Status status = CublasLtLibrary::open(driver, library); !status.ok())
    return {status.code(), "the plan's contractions are computed by cuBLASLt: " + status.message()};
  Algorithms &algorithms = Algorithms::of(driver, gpu, "cublaslt-" + library->version());
  std::unique_ptr<Contractions> contractions(
      new Contractions(driver, *library, algorithms, timesAlgorithms(gpu)));
  COLOSSAL_CUBLASLT_CALL(*library, cublasLtCreate, &contractions->handle);
  made = std::move(contractions);
  return {};
}

Contractions::~Contractions() {
  if (handle)
    (void)library->cublasLtDestroy(handle);
}

Status Contractions::createRoutine(const plan::LibraryCall &call, std::unique_ptr<Routine> &routine) {
  auto made = std::make_unique<ContractionRoutine>(*this, call);
  COLOSSAL_RETURN_IF_ERROR(made->create());
  routine = std::move(made);
  return {};
}

} // namespace colossal::runtime
