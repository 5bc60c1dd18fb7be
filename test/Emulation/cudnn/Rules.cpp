// Attributes by descriptor, convolutions against their tensors, and which operations are a graph.
#include "Rules.h"

#include <algorithm>

namespace colossal::cudnn {

namespace {

struct AttributeRule {
  DescriptorType descriptor;
  Attribute attribute;
  std::vector<AttributeType> types;
  std::int64_t least, most;
  bool isRequired;
  DescriptorType part = TensorDescriptor; ///< of attributes that are descriptors
};

constexpr std::int64_t maxDims = 8;

const std::vector<AttributeRule> &rules() {
  static const std::vector<AttributeRule> all = {
      {TensorDescriptor, TensorUniqueId, {TypeInt64}, 1, 1, true},
      {TensorDescriptor, TensorDataType, {TypeDataType}, 1, 1, true},
      {TensorDescriptor, TensorByteAlignment, {TypeInt64}, 1, 1, true},
      {TensorDescriptor, TensorDimensions, {TypeInt64}, 1, maxDims, true},
      {TensorDescriptor, TensorStrides, {TypeInt64}, 1, maxDims, true},
      {TensorDescriptor, TensorIsVirtual, {TypeBoolean}, 1, 1, false},
      {TensorDescriptor, TensorIsByValue, {TypeBoolean}, 1, 1, false},
      {ConvolutionDescriptor, ConvolutionPrecision, {TypeDataType}, 1, 1, true},
      {ConvolutionDescriptor, ConvolutionModeAttribute, {TypeConvolutionMode}, 1, 1, true},
      {ConvolutionDescriptor, ConvolutionSpatialDims, {TypeInt64}, 1, 1, true},
      {ConvolutionDescriptor, ConvolutionDilations, {TypeInt64}, 1, maxDims, true},
      {ConvolutionDescriptor, ConvolutionStrides, {TypeInt64}, 1, maxDims, true},
      {ConvolutionDescriptor, ConvolutionPrePaddings, {TypeInt64}, 1, maxDims, true},
      {ConvolutionDescriptor, ConvolutionPostPaddings, {TypeInt64}, 1, maxDims, true},
      {ConvolutionForwardDescriptor, ForwardAlpha, {TypeFloat, TypeDouble}, 1, 1, true},
      {ConvolutionForwardDescriptor, ForwardBeta, {TypeFloat, TypeDouble}, 1, 1, true},
      {ConvolutionForwardDescriptor, ForwardConvolution, {TypeDescriptor}, 1, 1, true, ConvolutionDescriptor},
      {ConvolutionForwardDescriptor, ForwardX, {TypeDescriptor}, 1, 1, true},
      {ConvolutionForwardDescriptor, ForwardW, {TypeDescriptor}, 1, 1, true},
      {ConvolutionForwardDescriptor, ForwardY, {TypeDescriptor}, 1, 1, true},
      {PointwiseDescriptor, PointwiseModeAttribute, {TypePointwiseMode}, 1, 1, true},
      {PointwiseDescriptor, PointwisePrecision, {TypeDataType}, 1, 1, true},
      {PointwiseDescriptor, PointwiseNanPropagation, {TypeNanPropagation}, 1, 1, false},
      {PointwiseDescriptor, PointwiseAxis, {TypeInt64}, 1, 1, false},
      {PointwiseOperationDescriptor, PointwiseOperator, {TypeDescriptor}, 1, 1, true, PointwiseDescriptor},
      {PointwiseOperationDescriptor, PointwiseX, {TypeDescriptor}, 1, 1, true},
      {PointwiseOperationDescriptor, PointwiseB, {TypeDescriptor}, 1, 1, false},
      {PointwiseOperationDescriptor, PointwiseT, {TypeDescriptor}, 1, 1, false},
      {PointwiseOperationDescriptor, PointwiseY, {TypeDescriptor}, 1, 1, true},
      {AttentionForwardDescriptor, AttentionQ, {TypeDescriptor}, 1, 1, true},
      {AttentionForwardDescriptor, AttentionK, {TypeDescriptor}, 1, 1, true},
      {AttentionForwardDescriptor, AttentionV, {TypeDescriptor}, 1, 1, true},
      {AttentionForwardDescriptor, AttentionO, {TypeDescriptor}, 1, 1, true},
      // Attention without operations on its scores is not modelled.
      {AttentionForwardDescriptor, AttentionSubgraph, {TypeDescriptor}, 1, 1, true, OperationGraphDescriptor},
      {AttentionForwardDescriptor, AttentionSubgraphInput, {TypeInt64}, 1, 1, true},
      {AttentionForwardDescriptor, AttentionSubgraphOutput, {TypeInt64}, 1, 1, true},
      {OperationGraphDescriptor, GraphOperations, {TypeDescriptor}, 1, 64, true},
      {EngineHeuristicDescriptor, HeuristicGraph, {TypeDescriptor}, 1, 1, true, OperationGraphDescriptor},
      {EngineHeuristicDescriptor, HeuristicModeAttribute, {TypeHeuristicMode}, 1, 1, true},
      // A graph without a handle needs it; what graphs with one do is not modelled.
      {EngineHeuristicDescriptor,
       HeuristicDeviceProperties,
       {TypeDescriptor},
       1,
       1,
       true,
       DevicePropertiesDescriptor},
      {ExecutionPlanDescriptor, PlanEngineConfig, {TypeDescriptor}, 1, 1, true, EngineConfigDescriptor},
      {ExecutionPlanDescriptor,
       PlanDeviceProperties,
       {TypeDescriptor},
       1,
       1,
       true,
       DevicePropertiesDescriptor},
      {VariantPackDescriptor, PackUniqueIds, {TypeInt64}, 0, 64, true},
      {VariantPackDescriptor, PackDataPointers, {TypeVoidPointer}, 0, 64, true},
      {VariantPackDescriptor, PackWorkspace, {TypeVoidPointer}, 1, 1, true},
      {DevicePropertiesDescriptor, DevicePropertiesHandle, {TypeHandle}, 1, 1, true},
  };
  return all;
}

/// Words for a failure, and its code.
struct Refusal {
  Result result = Success;
  std::string why = {};
};

bool isFloat(DataType type) {
  return type == Float || type == Double || type == Half || type == BFloat16;
}

Tensor tensorOf(const Descriptor &d) {
  return {d.one<std::int64_t>(TensorUniqueId),
          d.one<std::int64_t>(TensorByteAlignment),
          d.one<DataType>(TensorDataType),
          d.all<std::int64_t>(TensorDimensions),
          d.all<std::int64_t>(TensorStrides),
          d.has(TensorIsVirtual) && d.one<std::uint8_t>(TensorIsVirtual) != 0,
          d.has(TensorIsByValue) && d.one<std::uint8_t>(TensorIsByValue) != 0};
}

Refusal checkTensor(const Descriptor &d) {
  const auto type = d.one<DataType>(TensorDataType);
  const Tensor tensor = tensorOf(d);
  if (!isFloat(type) && !((type == Int32 || type == Boolean) && (tensor.isVirtual || tensor.isByValue)))
    return {NotSupported, "a tensor of a type that is not modelled"};
  if (tensor.isVirtual && tensor.isByValue)
    return {BadParam, "a virtual tensor that is told by value"};
  if (tensor.isByValue && tensor.elements() != 1)
    return {NotSupported, "more than one element by value is not modelled"};
  if (tensor.sizes.size() != tensor.strides.size())
    return {BadParam, "a tensor has another number of strides than of dimensions"};
  for (const auto *numbers : {&tensor.sizes, &tensor.strides})
    for (std::int64_t number : *numbers)
      if (number <= 0)
        return {BadParam, "a dimension or stride of a tensor is not positive"};
  if (tensor.alignment <= 0 || tensor.alignment % static_cast<std::int64_t>(elementBytes(type)) != 0)
    return {BadParam, "a tensor's alignment is no multiple of its elements'"};
  return {};
}

Refusal checkWindow(const Descriptor &d) {
  const auto dims = static_cast<size_t>(d.one<std::int64_t>(ConvolutionSpatialDims));
  for (auto [attribute, least] : {std::pair(ConvolutionDilations, 1),
                                  {ConvolutionStrides, 1},
                                  {ConvolutionPrePaddings, 0},
                                  {ConvolutionPostPaddings, 0}}) {
    const auto numbers = d.all<std::int64_t>(attribute);
    if (numbers.size() != dims)
      return {BadParam, "a convolution has other than its spatial dimensions' numbers"};
    if (std::any_of(numbers.begin(), numbers.end(), [&, least = least](auto n) { return n < least; }))
      return {BadParam, "a convolution's stride, dilation or padding is out of range"};
  }
  if (!isFloat(d.one<DataType>(ConvolutionPrecision)))
    return {NotSupported, "a convolution in a type that is not modelled"};
  if (d.one<ConvolutionMode>(ConvolutionModeAttribute) != CrossCorrelation)
    return {NotSupported, "a convolution of a kind that is not modelled"};
  return {};
}

double factorOf(const Descriptor &d, Attribute attribute) {
  return d.values.at(attribute).type == TypeDouble ? d.one<double>(attribute)
                                                   : static_cast<double>(d.one<float>(attribute));
}

Refusal checkForward(const Descriptor &d) {
  const Descriptor &window = *d.part(ForwardConvolution);
  const Tensor x = tensorOf(*d.part(ForwardX)), w = tensorOf(*d.part(ForwardW)),
               y = tensorOf(*d.part(ForwardY));
  const auto dims = static_cast<size_t>(window.one<std::int64_t>(ConvolutionSpatialDims));
  for (const Tensor *tensor : {&x, &w, &y})
    if (tensor->sizes.size() != dims + 2)
      return {BadParam, "a convolution's tensor has not two dimensions more than the window"};
  if (x.sizes[0] != y.sizes[0] || w.sizes[0] != y.sizes[1] || x.sizes[1] % w.sizes[1] != 0 ||
      y.sizes[1] % (x.sizes[1] / w.sizes[1]) != 0)
    return {BadParam, "images, channels and groups of a convolution do not agree"};
  const auto strides = window.all<std::int64_t>(ConvolutionStrides),
             dilations = window.all<std::int64_t>(ConvolutionDilations),
             pre = window.all<std::int64_t>(ConvolutionPrePaddings),
             post = window.all<std::int64_t>(ConvolutionPostPaddings);
  for (size_t i = 0; i < dims; ++i) {
    const std::int64_t wide = x.sizes[i + 2] + pre[i] + post[i],
                       covered = dilations[i] * (w.sizes[i + 2] - 1) + 1;
    if (wide < covered || (wide - covered) / strides[i] + 1 != y.sizes[i + 2])
      return {BadParam, "a spatial extent of a convolution's result does not follow from the input"};
  }
  if (factorOf(d, ForwardAlpha) != 1 || factorOf(d, ForwardBeta) != 0)
    return {NotSupported, "factors of a convolution's result are not modelled"};
  return {};
}

PointwiseMode modeOf(const Descriptor &operation) {
  return operation.part(PointwiseOperator)->one<PointwiseMode>(PointwiseModeAttribute);
}

/// Whether each extent of `b` is that of `sizes`, or 1.
bool broadcasts(const Tensor &b, const std::vector<std::int64_t> &sizes) {
  if (b.sizes.size() != sizes.size())
    return false;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (b.sizes[i] != 1 && b.sizes[i] != sizes[i])
      return false;
  return true;
}

Refusal checkPointwise(const Descriptor &d) {
  const PointwiseMode mode = modeOf(d);
  const Tensor x = tensorOf(*d.part(PointwiseX)), y = tensorOf(*d.part(PointwiseY));
  size_t operands = 0;
  switch (mode) {
  case PointwiseReluForward:
  case PointwiseIndex: operands = 1; break;
  case PointwiseAdd:
  case PointwiseMultiply:
  case PointwiseGreaterEqual: operands = 2; break;
  case PointwiseBinarySelect: operands = 3; break;
  default: return {NotSupported, "an operation on elements that is not modelled"};
  }
  if ((operands > 1) != d.has(PointwiseB) || (operands > 2) != d.has(PointwiseT))
    return {BadParam, "an operation on elements has not as many operands as its kind takes"};
  if (mode == PointwiseIndex && !d.part(PointwiseOperator)->has(PointwiseAxis))
    return {BadParam, "an index along no axis"};
  if (x.sizes != y.sizes)
    return {BadParam, "an operation on elements changes a shape"};
  for (Attribute other : {PointwiseB, PointwiseT})
    if (d.has(other) && !broadcasts(tensorOf(*d.part(other)), y.sizes))
      return {BadParam, "an operand does not broadcast to the result"};
  return {};
}

/// Operations on the scores of attention, in the order in which they follow each other.
class Scores {
public:
  Scores(const Descriptor &graph, std::int64_t input, Attention &attention)
      : operations(graph.values.at(GraphOperations).parts), attention(attention), current(input) {}

  Refusal read(std::int64_t output) {
    if (!take(PointwiseMultiply, current) || !by(PointwiseB, Float, attention.scale))
      return {NotSupported, "scores that are not scaled first"};
    follow();
    if (take(PointwiseAdd, current)) {
      attention.mask = tensorOf(*operations[at]->part(PointwiseB));
      if (attention.mask->isVirtual || attention.mask->isByValue || !isFloat(attention.mask->type))
        return {NotSupported, "scores to which something else than a mask in memory is added"};
      follow();
    }
    if (at < operations.size()) {
      if (Refusal refusal = readHidden(); refusal.result != Success)
        return refusal;
    }
    if (at != operations.size() || current != output)
      return {NotSupported, "operations on scores that are not modelled"};
    return {};
  }

private:
  /// Whether the next operation is of that kind, and reads the tensor of that number.
  bool take(PointwiseMode mode, std::int64_t x) const {
    return at < operations.size() && operations[at]->type == PointwiseOperationDescriptor &&
           modeOf(*operations[at]) == mode && tensorOf(*operations[at]->part(PointwiseX)).number == x;
  }
  bool by(Attribute operand, DataType type, Tensor &scalar) const {
    scalar = tensorOf(*operations[at]->part(operand));
    return scalar.isByValue && scalar.type == type;
  }
  std::int64_t result() const { return tensorOf(*operations[at]->part(PointwiseY)).number; }
  void follow() { current = result(), ++at; }
  bool index(std::int64_t axis, std::int64_t &number) {
    if (!take(PointwiseIndex, current) ||
        operations[at]->part(PointwiseOperator)->one<std::int64_t>(PointwiseAxis) != axis)
      return false;
    number = result(), ++at;
    return true;
  }
  Refusal readHidden() {
    const Refusal other{NotSupported, "scores that are hidden by something else than rows and columns"};
    std::int64_t row = 0, column = 0;
    if (!index(2, row))
      return other;
    if (take(PointwiseAdd, row)) {
      if (!by(PointwiseB, Int32, attention.offset.emplace()))
        return other;
      row = result(), ++at;
    }
    if (!index(3, column) || !take(PointwiseGreaterEqual, row) ||
        tensorOf(*operations[at]->part(PointwiseB)).number != column)
      return other;
    const std::int64_t sees = result();
    ++at;
    if (!take(PointwiseBinarySelect, current) || !by(PointwiseB, Float, attention.hidden.emplace()) ||
        tensorOf(*operations[at]->part(PointwiseT)).number != sees)
      return other;
    follow();
    return {};
  }

  const std::vector<std::shared_ptr<Descriptor>> &operations;
  Attention &attention;
  std::int64_t current;
  size_t at = 0;
};

Refusal checkAttention(const Descriptor &d, Attention &made) {
  made = {tensorOf(*d.part(AttentionQ)),
          tensorOf(*d.part(AttentionK)),
          tensorOf(*d.part(AttentionV)),
          tensorOf(*d.part(AttentionO)),
          {},
          {},
          {},
          {}};
  for (const Tensor *tensor : {&made.q, &made.k, &made.v, &made.o})
    if (tensor->sizes.size() != 4 || tensor->isVirtual || tensor->isByValue)
      return {BadParam, "attention's tensors have four dimensions and lie in memory"};
  const auto &q = made.q.sizes, &k = made.k.sizes, &v = made.v.sizes, &o = made.o.sizes;
  if (q[0] != k[0] || q[0] != v[0] || q[0] != o[0] || q[1] != o[1] || k[1] != v[1] || q[1] % k[1] != 0 ||
      q[2] != o[2] || k[2] != v[2] || q[3] != k[3] || v[3] != o[3])
    return {BadParam, "query, key, value and output of attention do not agree"};
  const Descriptor &subgraph = *d.part(AttentionSubgraph);
  if (!subgraph.graph || !subgraph.graph->isOfElements)
    return {BadParam, "attention's operations on scores are not of elements"};
  const std::vector<std::int64_t> scores{q[0], q[1], q[2], k[2]};
  for (const auto &operation : subgraph.values.at(GraphOperations).parts)
    if (const Tensor y = tensorOf(*operation->part(PointwiseY)); !y.isVirtual || y.sizes != scores)
      return {BadParam, "an operation on scores has a result that is not virtual, or of another shape"};
  return Scores(subgraph, d.one<std::int64_t>(AttentionSubgraphInput), made)
      .read(d.one<std::int64_t>(AttentionSubgraphOutput));
}

/// Convolution, then at most a bias and ReLU, joined by virtual tensors.
Refusal makeGraph(const Descriptor &d, std::shared_ptr<const Graph> &made) {
  const auto &operations = d.values.at(GraphOperations).parts;
  Graph graph;
  if (std::all_of(operations.begin(), operations.end(),
                  [](const auto &operation) { return operation->type == PointwiseOperationDescriptor; })) {
    graph.isOfElements = true;
    made = std::make_shared<const Graph>(std::move(graph));
    return {};
  }
  if (operations[0]->type == AttentionForwardDescriptor) {
    if (operations.size() != 1)
      return {NotSupported, "attention with what follows it"};
    graph.attention.emplace();
    const Refusal refusal = checkAttention(*operations[0], *graph.attention);
    made = std::make_shared<const Graph>(std::move(graph));
    return refusal;
  }
  if (operations[0]->type != ConvolutionForwardDescriptor || operations.size() > 3)
    return {NotSupported, "a graph that is not a convolution with what follows it"};
  const Descriptor &first = *operations[0], &window = *first.part(ForwardConvolution);
  graph.x = tensorOf(*first.part(ForwardX));
  graph.w = tensorOf(*first.part(ForwardW));
  graph.y = tensorOf(*first.part(ForwardY));
  graph.compute = window.one<DataType>(ConvolutionPrecision);
  graph.strides = window.all<std::int64_t>(ConvolutionStrides);
  graph.dilations = window.all<std::int64_t>(ConvolutionDilations);
  graph.pre = window.all<std::int64_t>(ConvolutionPrePaddings);
  graph.post = window.all<std::int64_t>(ConvolutionPostPaddings);
  for (size_t i = 1; i < operations.size(); ++i) {
    const Descriptor &operation = *operations[i];
    if (operation.type != PointwiseOperationDescriptor ||
        tensorOf(*operation.part(PointwiseX)).number != graph.y.number || !graph.y.isVirtual ||
        graph.y.type != graph.compute || graph.relu ||
        operation.part(PointwiseOperator)->one<DataType>(PointwisePrecision) != graph.compute)
      return {NotSupported,
              "operations that do not follow each other by virtual tensors of the compute type"};
    if (operation.has(PointwiseB)) {
      if (graph.bias)
        return {NotSupported, "a graph with two sums"};
      graph.bias = tensorOf(*operation.part(PointwiseB));
      for (size_t k = 0; k < graph.bias->sizes.size(); ++k)
        if (graph.bias->sizes[k] != (k == 1 ? graph.w.sizes[0] : 1))
          return {NotSupported, "a sum with what is no bias along the channels"};
    } else {
      graph.relu = true;
      if (!operation.part(PointwiseOperator)->has(PointwiseNanPropagation))
        return {NotSupported, "ReLU that may lose a NaN is not modelled"};
    }
    graph.y = tensorOf(*operation.part(PointwiseY));
  }
  if (graph.x.isVirtual || graph.w.isVirtual || graph.y.isVirtual || (graph.bias && graph.bias->isVirtual))
    return {BadParam, "an operand or the result of a graph is virtual"};
  std::vector<std::int64_t> numbers{graph.x.number, graph.w.number, graph.y.number};
  if (graph.bias)
    numbers.push_back(graph.bias->number);
  std::sort(numbers.begin(), numbers.end());
  if (std::adjacent_find(numbers.begin(), numbers.end()) != numbers.end())
    return {BadParam, "two tensors of a graph have one number"};
  made = std::make_shared<const Graph>(std::move(graph));
  return {};
}

Refusal checkAll(Descriptor &d) {
  switch (d.type) {
  case TensorDescriptor: return checkTensor(d);
  case ConvolutionDescriptor: return checkWindow(d);
  case ConvolutionForwardDescriptor: return checkForward(d);
  case PointwiseDescriptor: return {};
  case PointwiseOperationDescriptor: return checkPointwise(d);
  case AttentionForwardDescriptor: {
    Attention ignored;
    return checkAttention(d, ignored);
  }
  case OperationGraphDescriptor: return makeGraph(d, d.graph);
  case EngineHeuristicDescriptor: d.graph = d.part(HeuristicGraph)->graph; return {};
  case ExecutionPlanDescriptor:
    d.graph = d.part(PlanEngineConfig)->graph;
    d.engine = d.part(PlanEngineConfig)->engine;
    if (d.engine->kind == Engine::Compiled)
      return {NotSupported, "an engine that compiles its kernels is not modelled"};
    return {};
  case VariantPackDescriptor:
    if (d.all<std::int64_t>(PackUniqueIds).size() != d.all<void *>(PackDataPointers).size())
      return {BadParam, "a pack has not one pointer for each number"};
    return {};
  case DevicePropertiesDescriptor:
    if (!d.one<Handle>(DevicePropertiesHandle))
      return {BadParam, "the properties of no handle"};
    return {};
  default: return {NotSupported, "what the library fills is not finalized by the caller"};
  }
}

} // namespace

std::uint64_t elementBytes(DataType type) {
  return type == Double ? 8 : type == Float || type == Int32 ? 4 : type == Boolean ? 1 : 2;
}

std::vector<NumericalNote> Engine::notes() const {
  switch (kind) {
  case Direct: return {NoteStrictNan};
  case TensorCores:
  case Fused: return {NoteTensorCore};
  default: return {};
  }
}

std::vector<BehaviorNote> Engine::behavior() const {
  if (kind == Compiled || kind == Fused)
    return {NoteRuntimeCompilation};
  return {};
}

std::int64_t workspaceBytes(const Graph &graph, const Engine &engine) {
  // The input in another order.
  return engine.kind == Engine::Rearranged
             ? (graph.x.elements() * static_cast<std::int64_t>(elementBytes(graph.x.type)) + 15) / 16 * 16
             : 0;
}

std::vector<Engine> advise(const Graph &graph, HeuristicMode mode) {
  if (graph.isOfElements)
    return {};
  if (graph.attention) {
    const Attention &a = *graph.attention;
    const bool isNarrow = a.q.type == Half || a.q.type == BFloat16,
               isOneType = a.k.type == a.q.type && a.v.type == a.q.type && a.o.type == a.q.type;
    if (mode != HeuristicA || !isNarrow || !isOneType || a.q.sizes[3] % 8 != 0 || a.v.sizes[3] % 8 != 0)
      return {};
    for (const Tensor *tensor : {&a.q, &a.k, &a.v, &a.o})
      if (tensor->strides[3] != 1 || tensor->alignment % 16 != 0)
        return {};
    return {{Engine::Fused, 0}};
  }
  const DataType type = graph.x.type;
  const bool isOneType =
      graph.w.type == type && graph.y.type == type && (!graph.bias || graph.bias->type == type);
  if (!isOneType || graph.compute != (type == Double ? Double : Float) || (graph.relu && !graph.bias))
    return {};
  if (mode != HeuristicA)
    return {{Engine::Direct, 0}};
  if (type == Double)
    return {};
  std::vector<Engine> engines;
  const bool isAligned = graph.x.alignment % 16 == 0 && graph.w.alignment % 16 == 0 &&
                         graph.y.alignment % 16 == 0 && (!graph.bias || graph.bias->alignment % 16 == 0);
  if (isAligned)
    engines = {
        {Engine::TensorCores, 0}, {Engine::Compiled, 0}, {Engine::Rearranged, 1}, {Engine::Rearranged, 0}};
  engines.push_back({Engine::Direct, 0});
  return engines;
}

Result checkAttribute(const Descriptor &d, Attribute attribute, AttributeType type, std::int64_t count,
                      std::string &why) {
  for (const AttributeRule &rule : rules()) {
    if (rule.descriptor != d.type || rule.attribute != attribute)
      continue;
    if (std::find(rule.types.begin(), rule.types.end(), type) == rule.types.end())
      return why =
                 "attribute " + std::to_string(attribute) + " has another type than " + std::to_string(type),
             BadParamAttributeType;
    if (count < rule.least || count > rule.most)
      return why =
                 "attribute " + std::to_string(attribute) + " has not " + std::to_string(count) + " elements",
             BadParam;
    return Success;
  }
  return why = "a descriptor of type " + std::to_string(d.type) + " has no attribute " +
               std::to_string(attribute) + " to set, or it is not modelled",
         NotSupported;
}

Result finalize(Descriptor &d, std::string &why) {
  for (const AttributeRule &rule : rules()) {
    if (rule.descriptor != d.type)
      continue;
    auto found = d.values.find(rule.attribute);
    if (found == d.values.end()) {
      if (rule.isRequired)
        return why = "attribute " + std::to_string(rule.attribute) + " is missing", BadParam;
      continue;
    }
    for (const auto &part : found->second.parts) {
      if (!part->isFinalized)
        return why = "attribute " + std::to_string(rule.attribute) + " is not finalized",
               BadParamNotFinalized;
      const bool isOperation =
          rule.attribute == GraphOperations &&
          (part->type == ConvolutionForwardDescriptor || part->type == AttentionForwardDescriptor ||
           part->type == PointwiseOperationDescriptor);
      if (part->type != rule.part && !isOperation)
        return why = "attribute " + std::to_string(rule.attribute) + " is a descriptor of another type",
               BadParam;
    }
  }
  const Refusal refusal = checkAll(d);
  why = refusal.why;
  d.isFinalized = refusal.result == Success;
  return refusal.result;
}

} // namespace colossal::cudnn
