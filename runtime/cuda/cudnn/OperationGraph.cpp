// A convolution is one operation, and so is attention; what is done to their elements are others, joined by
// tensors that lie nowhere.
#include "runtime/cuda/cudnn/OperationGraph.h"

#include "colossal/Plan/DataType.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

namespace colossal::runtime {

namespace {

enum Number : int64_t {
  Input = 1,
  Weight,
  Bias,
  Output,
  Sums,
  Biased,
  Query,
  Key,
  Value,
  Mask,
  Scores,
  Scale,
  Scaled,
  Masked,
  Row,
  Offset,
  MovedRow,
  Column,
  Sees,
  Hidden,
  Seen
};

cudnn::DataType typeOf(plan::DataType type) {
  switch (type) {
  case plan::F64: return cudnn::Double;
  case plan::F16: return cudnn::Half;
  case plan::BF16: return cudnn::BFloat16;
  default: return cudnn::Float;
  }
}

template <class Numbers>
std::vector<int64_t> listOf(const Numbers &numbers) {
  return {numbers.begin(), numbers.end()};
}

/// Strides of a dense tensor in the order of its dimensions.
std::vector<int64_t> denseStrides(const std::vector<int64_t> &sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;)
    strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

/// Makes descriptors one after another.
class Builder {
protected:
  /// Its place among the graph's.
  using Part = size_t;

  Builder(const CudnnLibrary &library, uint64_t alignment, cudnn::DataType sumType, CudnnGraph &made)
      : library(library), alignment(alignment), sumType(sumType), made(made) {}

  Status addPart(cudnn::DescriptorType kind, Part &part) {
    part = made.parts.size();
    return made.parts.emplace_back().create(library, kind);
  }

  enum class Place {
    Memory,
    Anywhere, ///< in memory, aligned as its elements are
    Nowhere,  ///< between two operations
    Host      ///< one element, told by value
  };

  Status addTensor(int64_t number, cudnn::DataType elements, const std::vector<int64_t> &sizes,
                   const std::vector<int64_t> &strides, Place place, Part &part) {
    COLOSSAL_RETURN_IF_ERROR(addPart(cudnn::TensorDescriptor, part));
    CudnnDescriptor &tensor = made.parts[part];
    COLOSSAL_RETURN_IF_ERROR(tensor.set(cudnn::TensorUniqueId, {number}));
    COLOSSAL_RETURN_IF_ERROR(tensor.set(cudnn::TensorDataType, cudnn::TypeDataType, elements));
    COLOSSAL_RETURN_IF_ERROR(tensor.set(cudnn::TensorDimensions, sizes));
    COLOSSAL_RETURN_IF_ERROR(tensor.set(cudnn::TensorStrides, strides));
    // What is said of it has to suit its elements, wherever it lies.
    const uint64_t least = elements == cudnn::Double ? 8 : 4;
    const bool isWide = elements != cudnn::Half && elements != cudnn::BFloat16 && elements != cudnn::Boolean;
    const uint64_t bytes = place == Place::Host       ? least
                           : place == Place::Anywhere ? (isWide ? least : 2)
                           : isWide                   ? std::max(alignment, least)
                                                      : alignment;
    COLOSSAL_RETURN_IF_ERROR(tensor.set(cudnn::TensorByteAlignment, {static_cast<int64_t>(bytes)}));
    if (place == Place::Nowhere)
      COLOSSAL_RETURN_IF_ERROR(tensor.set(cudnn::TensorIsVirtual, cudnn::TypeBoolean, true));
    if (place == Place::Host)
      COLOSSAL_RETURN_IF_ERROR(tensor.set(cudnn::TensorIsByValue, cudnn::TypeBoolean, true));
    return tensor.finalize();
  }

  /// What an operation on elements reads.
  struct Operands {
    Part x = 0;
    std::optional<Part> b, t;
    std::optional<int64_t> axis;
  };

  Status addPointwise(cudnn::PointwiseMode mode, const Operands &operands, Part result) {
    Part kind, operation;
    COLOSSAL_RETURN_IF_ERROR(addPart(cudnn::PointwiseDescriptor, kind));
    {
      CudnnDescriptor &k = made.parts[kind];
      COLOSSAL_RETURN_IF_ERROR(k.set(cudnn::PointwiseModeAttribute, cudnn::TypePointwiseMode, mode));
      COLOSSAL_RETURN_IF_ERROR(k.set(cudnn::PointwisePrecision, cudnn::TypeDataType, sumType));
      // A NaN stays one, as in ONNX; without a word of it the library may make it a zero.
      if (mode == cudnn::PointwiseReluForward)
        COLOSSAL_RETURN_IF_ERROR(
            k.set(cudnn::PointwiseNanPropagation, cudnn::TypeNanPropagation, cudnn::PropagateNan));
      if (operands.axis)
        COLOSSAL_RETURN_IF_ERROR(k.set(cudnn::PointwiseAxis, {*operands.axis}));
      COLOSSAL_RETURN_IF_ERROR(k.finalize());
    }
    COLOSSAL_RETURN_IF_ERROR(addPart(cudnn::PointwiseOperationDescriptor, operation));
    CudnnDescriptor &o = made.parts[operation];
    COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::PointwiseOperator, made.parts[kind]));
    COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::PointwiseX, made.parts[operands.x]));
    if (operands.b)
      COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::PointwiseB, made.parts[*operands.b]));
    if (operands.t)
      COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::PointwiseT, made.parts[*operands.t]));
    COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::PointwiseY, made.parts[result]));
    operations.push_back(o.get());
    return o.finalize();
  }

  /// The operations so far as a graph.
  Status finish(CudnnDescriptor &graph) {
    COLOSSAL_RETURN_IF_ERROR(graph.create(library, cudnn::OperationGraphDescriptor));
    COLOSSAL_RETURN_IF_ERROR(graph.set(cudnn::GraphOperations, cudnn::TypeDescriptor,
                                       static_cast<int64_t>(operations.size()), operations.data()));
    operations.clear();
    return graph.finalize();
  }

  const CudnnLibrary &library;
  const uint64_t alignment;
  const cudnn::DataType sumType; ///< what is added up in
  CudnnGraph &made;
  std::vector<cudnn::RawDescriptor> operations;
};

class ConvolutionGraph : Builder {
public:
  ConvolutionGraph(const CudnnLibrary &library, const plan::Convolution &c, uint64_t alignment,
                   CudnnGraph &made)
      : Builder(library, alignment, c.type() == plan::F64 ? cudnn::Double : cudnn::Float, made), c(c),
        type(typeOf(c.type())) {}

  Status build() {
    const std::vector<int64_t> outputSizes = listOf(c.output()), outputStrides = listOf(c.output_strides());
    auto addSums = [&](Number number, Part &part) {
      return addTensor(number, sumType, outputSizes, outputStrides, Place::Nowhere, part);
    };
    Part input, weight, bias, sums, biased, output;
    COLOSSAL_RETURN_IF_ERROR(
        addTensor(Input, type, listOf(c.input()), listOf(c.input_strides()), Place::Memory, input));
    const std::vector<int64_t> weightSizes = listOf(c.weight());
    COLOSSAL_RETURN_IF_ERROR(
        addTensor(Weight, type, weightSizes, denseStrides(weightSizes), Place::Memory, weight));
    COLOSSAL_RETURN_IF_ERROR(addTensor(Output, type, outputSizes, outputStrides, Place::Memory, output));
    if (!c.bias()) {
      made.numbers = {Input, Weight, Output};
      COLOSSAL_RETURN_IF_ERROR(addConvolution(input, weight, output));
      return finish(made.graph);
    }
    made.numbers = {Input, Weight, Bias, Output};
    std::vector<int64_t> biasSizes(outputSizes.size(), 1);
    biasSizes[1] = outputSizes[1];
    COLOSSAL_RETURN_IF_ERROR(addTensor(Bias, type, biasSizes, denseStrides(biasSizes), Place::Memory, bias));
    COLOSSAL_RETURN_IF_ERROR(addSums(Sums, sums));
    COLOSSAL_RETURN_IF_ERROR(addConvolution(input, weight, sums));
    if (c.activation() != "relu") {
      COLOSSAL_RETURN_IF_ERROR(addPointwise(cudnn::PointwiseAdd, {sums, bias, {}, {}}, output));
      return finish(made.graph);
    }
    COLOSSAL_RETURN_IF_ERROR(addSums(Biased, biased));
    COLOSSAL_RETURN_IF_ERROR(addPointwise(cudnn::PointwiseAdd, {sums, bias, {}, {}}, biased));
    COLOSSAL_RETURN_IF_ERROR(addPointwise(cudnn::PointwiseReluForward, {biased, {}, {}, {}}, output));
    return finish(made.graph);
  }

private:
  Status addConvolution(Part input, Part weight, Part result) {
    Part window, operation;
    COLOSSAL_RETURN_IF_ERROR(addPart(cudnn::ConvolutionDescriptor, window));
    {
      CudnnDescriptor &w = made.parts[window];
      COLOSSAL_RETURN_IF_ERROR(w.set(cudnn::ConvolutionPrecision, cudnn::TypeDataType, sumType));
      COLOSSAL_RETURN_IF_ERROR(
          w.set(cudnn::ConvolutionModeAttribute, cudnn::TypeConvolutionMode, cudnn::CrossCorrelation));
      COLOSSAL_RETURN_IF_ERROR(w.set(cudnn::ConvolutionSpatialDims, {int64_t(c.strides_size())}));
      COLOSSAL_RETURN_IF_ERROR(w.set(cudnn::ConvolutionDilations, listOf(c.dilations())));
      COLOSSAL_RETURN_IF_ERROR(w.set(cudnn::ConvolutionStrides, listOf(c.strides())));
      COLOSSAL_RETURN_IF_ERROR(w.set(cudnn::ConvolutionPrePaddings, listOf(c.pads_begin())));
      COLOSSAL_RETURN_IF_ERROR(w.set(cudnn::ConvolutionPostPaddings, listOf(c.pads_end())));
      COLOSSAL_RETURN_IF_ERROR(w.finalize());
    }
    COLOSSAL_RETURN_IF_ERROR(addPart(cudnn::ConvolutionForwardDescriptor, operation));
    CudnnDescriptor &o = made.parts[operation];
    COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::ForwardConvolution, made.parts[window]));
    COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::ForwardX, made.parts[input]));
    COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::ForwardW, made.parts[weight]));
    COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::ForwardY, made.parts[result]));
    if (sumType == cudnn::Double) {
      COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::ForwardAlpha, cudnn::TypeDouble, 1.0));
      COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::ForwardBeta, cudnn::TypeDouble, 0.0));
    } else {
      COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::ForwardAlpha, cudnn::TypeFloat, 1.0f));
      COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::ForwardBeta, cudnn::TypeFloat, 0.0f));
    }
    operations.push_back(o.get());
    return o.finalize();
  }

  const plan::Convolution &c;
  const cudnn::DataType type;
};

/// Attention is one operation. What becomes of its scores before the softmax is a graph of its own, between
/// two tensors that lie nowhere: they are scaled, a mask is added, and what a query does not see is minus
/// infinity.
class AttentionGraph : Builder {
public:
  AttentionGraph(const CudnnLibrary &library, const plan::Attention &a, uint64_t alignment, CudnnGraph &made)
      : Builder(library, alignment, cudnn::Float, made), a(a), type(typeOf(a.type())),
        scores{int64_t(a.batch()), int64_t(a.query_heads()), int64_t(a.queries()), int64_t(a.keys())} {}

  Status build() {
    const auto batch = static_cast<int64_t>(a.batch()), heads = static_cast<int64_t>(a.query_heads()),
               keyHeads = static_cast<int64_t>(a.key_heads()), queries = static_cast<int64_t>(a.queries()),
               keys = static_cast<int64_t>(a.keys()), width = static_cast<int64_t>(a.width()),
               valueWidth = static_cast<int64_t>(a.value_width());
    auto add = [&](Number number, const std::vector<int64_t> &sizes, const auto &strides, Part &part) {
      return addTensor(number, type, sizes, listOf(strides), Place::Memory, part);
    };
    Part query, key, value, output;
    COLOSSAL_RETURN_IF_ERROR(add(Query, {batch, heads, queries, width}, a.query_strides(), query));
    COLOSSAL_RETURN_IF_ERROR(add(Key, {batch, keyHeads, keys, width}, a.key_strides(), key));
    COLOSSAL_RETURN_IF_ERROR(add(Value, {batch, keyHeads, keys, valueWidth}, a.value_strides(), value));
    COLOSSAL_RETURN_IF_ERROR(add(Output, {batch, heads, queries, valueWidth}, a.output_strides(), output));
    made.numbers = {Query, Key, Value};
    int64_t last = 0;
    COLOSSAL_RETURN_IF_ERROR(addScores(last));
    made.numbers.push_back(Output);
    made.parts.emplace_back();
    COLOSSAL_RETURN_IF_ERROR(finish(made.parts.back()));
    const Part subgraph = made.parts.size() - 1;
    Part operation;
    COLOSSAL_RETURN_IF_ERROR(addPart(cudnn::AttentionForwardDescriptor, operation));
    CudnnDescriptor &o = made.parts[operation];
    for (auto [attribute, part] : {std::pair(cudnn::AttentionQ, query),
                                   {cudnn::AttentionK, key},
                                   {cudnn::AttentionV, value},
                                   {cudnn::AttentionO, output},
                                   {cudnn::AttentionSubgraph, subgraph}})
      COLOSSAL_RETURN_IF_ERROR(o.set(attribute, made.parts[part]));
    COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::AttentionSubgraphInput, {int64_t(Scores)}));
    COLOSSAL_RETURN_IF_ERROR(o.set(cudnn::AttentionSubgraphOutput, {last}));
    operations.push_back(o.get());
    COLOSSAL_RETURN_IF_ERROR(o.finalize());
    return finish(made.graph);
  }

private:
  Status addVirtual(int64_t number, cudnn::DataType elements, Part &part) {
    return addTensor(number, elements, scores, denseStrides(scores), Place::Nowhere, part);
  }
  template <class T>
  Status addScalar(int64_t number, cudnn::DataType elements, T value, Part &part) {
    static_assert(sizeof value == sizeof(uint32_t));
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    made.scalars.numbers.push_back(number);
    made.scalars.words.push_back(word);
    return addTensor(number, elements, {1, 1, 1, 1}, {1, 1, 1, 1}, Place::Host, part);
  }

  /// `last` is the number of what goes into the softmax.
  Status addScores(int64_t &last) {
    Part raw, scale, current;
    COLOSSAL_RETURN_IF_ERROR(addVirtual(Scores, cudnn::Float, raw));
    COLOSSAL_RETURN_IF_ERROR(addScalar(Scale, cudnn::Float, static_cast<float>(a.scale()), scale));
    COLOSSAL_RETURN_IF_ERROR(addVirtual(last = Scaled, cudnn::Float, current));
    COLOSSAL_RETURN_IF_ERROR(addPointwise(cudnn::PointwiseMultiply, {raw, scale, {}, {}}, current));
    if (a.mask()) {
      std::vector<int64_t> sizes = scores, strides = listOf(a.mask_strides());
      for (size_t d = 0; d < 4; ++d)
        if (strides[d] == 0 || sizes[d] == 1)
          sizes[d] = 1, strides[d] = 1;
      Part mask, masked;
      COLOSSAL_RETURN_IF_ERROR(addTensor(Mask, typeOf(a.mask_type()), sizes, strides, Place::Anywhere, mask));
      made.numbers.push_back(Mask);
      COLOSSAL_RETURN_IF_ERROR(addVirtual(last = Masked, cudnn::Float, masked));
      COLOSSAL_RETURN_IF_ERROR(addPointwise(cudnn::PointwiseAdd, {current, mask, {}, {}}, masked));
      current = masked;
    }
    if (!a.causal())
      return {};
    Part row, column, sees, hidden, seen;
    COLOSSAL_RETURN_IF_ERROR(addVirtual(Row, cudnn::Int32, row));
    COLOSSAL_RETURN_IF_ERROR(addPointwise(cudnn::PointwiseIndex, {current, {}, {}, 2}, row));
    if (a.causal_offset()) {
      Part offset, moved;
      COLOSSAL_RETURN_IF_ERROR(
          addScalar(Offset, cudnn::Int32, static_cast<int32_t>(a.causal_offset()), offset));
      COLOSSAL_RETURN_IF_ERROR(addVirtual(MovedRow, cudnn::Int32, moved));
      COLOSSAL_RETURN_IF_ERROR(addPointwise(cudnn::PointwiseAdd, {row, offset, {}, {}}, moved));
      row = moved;
    }
    COLOSSAL_RETURN_IF_ERROR(addVirtual(Column, cudnn::Int32, column));
    COLOSSAL_RETURN_IF_ERROR(addPointwise(cudnn::PointwiseIndex, {current, {}, {}, 3}, column));
    COLOSSAL_RETURN_IF_ERROR(addVirtual(Sees, cudnn::Boolean, sees));
    COLOSSAL_RETURN_IF_ERROR(addPointwise(cudnn::PointwiseGreaterEqual, {row, column, {}, {}}, sees));
    COLOSSAL_RETURN_IF_ERROR(
        addScalar(Hidden, cudnn::Float, -std::numeric_limits<float>::infinity(), hidden));
    COLOSSAL_RETURN_IF_ERROR(addVirtual(last = Seen, cudnn::Float, seen));
    return addPointwise(cudnn::PointwiseBinarySelect, {current, hidden, sees, {}}, seen);
  }

  const plan::Attention &a;
  const cudnn::DataType type;
  const std::vector<int64_t> scores;
};

} // namespace

Status buildConvolution(const CudnnLibrary &library, const plan::Convolution &convolution, uint64_t alignment,
                        CudnnGraph &made) {
  made = {};
  return ConvolutionGraph(library, convolution, alignment, made).build();
}

Status buildAttention(const CudnnLibrary &library, const plan::Attention &attention, uint64_t alignment,
                      CudnnGraph &made) {
  made = {};
  if (library.versionNumber() < cudnn::leastVersionOfAttention)
    return {Code::Unsupported,
            "cuDNN " + library.version() +
                " is too old for the plan's attention: 9.21 or newer is needed; install it, or "
                "compile the plan without --cudnn attention"};
  return AttentionGraph(library, attention, alignment, made).build();
}

} // namespace colossal::runtime
