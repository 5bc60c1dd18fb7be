// oneDNN primitives for convolution and deconvolution. Built into the plug-in and, for sizes, into the
// compiler.
#include "runtime/cpu/Convolution.h"

#include <dnnl.hpp>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <map>

namespace colossal::runtime {

namespace {

using dnnl::memory;

Status unsupported(const std::string &what) {
  return {Code::Unsupported, "convolution: " + what};
}

dnnl::engine &engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// The library reads the number of threads from OpenMP's setting of the calling thread.
void useThreads(unsigned threads) {
  thread_local unsigned set = 0;
  if (set != threads)
    omp_set_num_threads(static_cast<int>(set = threads));
}

memory::data_type typeOf(int type) {
  switch (type) { // plan::DataType
  case 1: return memory::data_type::f32;
  case 3: return memory::data_type::f16;
  case 4: return memory::data_type::bf16;
  default: return memory::data_type::undef;
  }
}

/// Row-major strides of the weight as stored, seen as [group, O/group, C/group, spatial...] (without group if
/// there is one only).
void weightView(const ConvolutionDescriptor &d, memory::dims &sizes, memory::dims &strides) {
  const int64_t outputs = d.output[1] / d.group, inputs = d.input[1] / d.group;
  int64_t spatial = 1;
  for (size_t i = 2; i < d.weight.size(); ++i)
    spatial *= d.weight[i];
  sizes = {d.group, outputs, inputs};
  strides = {outputs * inputs * spatial, d.transposed ? spatial : inputs * spatial,
             d.transposed ? outputs * spatial : spatial};
  for (size_t i = 2; i < d.weight.size(); ++i) {
    spatial /= d.weight[i];
    sizes.push_back(d.weight[i]);
    strides.push_back(spatial);
  }
  if (d.group == 1) {
    sizes.erase(sizes.begin());
    strides.erase(strides.begin());
  }
}

Status makeAttributes(const ConvolutionDescriptor &d, dnnl::primitive_attr &attributes) {
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops ops;
  if (d.residual)
    ops.append_sum(1.0f);
  const float a = !d.activationArgs.empty() ? d.activationArgs[0] : 0;
  const float b = d.activationArgs.size() > 1 ? d.activationArgs[1] : 0;
  struct Row {
    dnnl::algorithm algorithm;
    float alpha, beta;
  };
  const std::map<std::string, Row> rows = {{"relu", {dnnl::algorithm::eltwise_relu, 0, 0}},
                                           {"leaky_relu", {dnnl::algorithm::eltwise_relu, a, 0}},
                                           {"clip", {dnnl::algorithm::eltwise_clip, a, b}},
                                           {"elu", {dnnl::algorithm::eltwise_elu, a, 0}},
                                           {"sigmoid", {dnnl::algorithm::eltwise_logistic, 0, 0}},
                                           {"tanh", {dnnl::algorithm::eltwise_tanh, 0, 0}},
                                           {"silu", {dnnl::algorithm::eltwise_swish, 1, 0}},
                                           {"gelu_erf", {dnnl::algorithm::eltwise_gelu_erf, 0, 0}},
                                           {"gelu_tanh", {dnnl::algorithm::eltwise_gelu_tanh, 0, 0}},
                                           {"hard_swish", {dnnl::algorithm::eltwise_hardswish, 0, 0}},
                                           {"abs", {dnnl::algorithm::eltwise_abs, 0, 0}},
                                           {"square", {dnnl::algorithm::eltwise_square, 0, 0}},
                                           {"mish", {dnnl::algorithm::eltwise_mish, 0, 0}}};
  if (!d.activation.empty()) {
    auto row = rows.find(d.activation);
    if (row == rows.end())
      return unsupported("no activation '" + d.activation + "'");
    ops.append_eltwise(1.0f, row->second.algorithm, row->second.alpha, row->second.beta);
  }
  attributes.set_post_ops(ops);
  return {};
}

class Primitive : public ConvolutionRoutine {
public:
  Status create(const ConvolutionDescriptor &d, unsigned withThreads) {
    threads = withThreads;
    useThreads(threads);
    const memory::data_type type = typeOf(d.type);
    if (type == memory::data_type::undef)
      return unsupported("oneDNN has none of this type");
    dnnl::primitive_attr attributes;
    COLOSSAL_RETURN_IF_ERROR(makeAttributes(d, attributes));
    memory::dims sizes, strides;
    weightView(d, sizes, strides);
    const memory::desc input(d.input, type, d.inputStrides), output(d.output, type, d.outputStrides);
    const memory::desc weight(sizes, type, memory::format_tag::any);
    plainWeight = memory::desc(sizes, type, strides);
    const memory::desc bias =
        d.bias ? memory::desc({d.output[1]}, type, memory::format_tag::x) : memory::desc();
    memory::dims dilations = d.dilations; // oneDNN counts the gaps
    for (int64_t &dilation : dilations)
      --dilation;
    if (d.transposed) {
      dnnl::deconvolution_forward::desc description(
          dnnl::prop_kind::forward_inference, dnnl::algorithm::deconvolution_direct, input, weight, bias,
          output, d.strides, dilations, d.padsBegin, d.padsEnd);
      dnnl::deconvolution_forward::primitive_desc made(description, attributes, engine());
      primitive = dnnl::deconvolution_forward(made);
      adopt(made, d.bias, bias);
    } else {
      dnnl::algorithm algorithm = d.algorithm == "winograd" ? dnnl::algorithm::convolution_winograd
                                  : d.algorithm == "auto"   ? dnnl::algorithm::convolution_auto
                                                            : dnnl::algorithm::convolution_direct;
      dnnl::convolution_forward::desc description(dnnl::prop_kind::forward_inference, algorithm, input,
                                                  weight, bias, output, d.strides, dilations, d.padsBegin,
                                                  d.padsEnd);
      dnnl::convolution_forward::primitive_desc made(description, attributes, engine());
      primitive = dnnl::convolution_forward(made);
      adopt(made, d.bias, bias);
    }
    return {};
  }

  uint64_t packedBytes() const override { return packedDescription.get_size(); }
  uint64_t scratchBytes() const override { return scratchDescription.get_size(); }

  Status pack(const void *weight, void *packed) override {
    return guarded([&] {
      useThreads(threads);
      memory from(plainWeight, engine(), const_cast<void *>(weight)), to(packedDescription, engine(), packed);
      dnnl::reorder(from, to).execute(stream, from, to);
      stream.wait();
    });
  }

  Status run(const void *input, const void *packed, const void *bias, void *scratch, void *output) override {
    return guarded([&] {
      useThreads(threads);
      place(DNNL_ARG_SRC, input);
      place(DNNL_ARG_WEIGHTS, packed);
      if (arguments.count(DNNL_ARG_BIAS))
        place(DNNL_ARG_BIAS, bias);
      place(DNNL_ARG_SCRATCHPAD, scratch);
      place(DNNL_ARG_DST, output);
      primitive.execute(stream, arguments);
      stream.wait();
    });
  }

private:
  template <class Description>
  void adopt(const Description &made, bool hasBias, const memory::desc &bias) {
    packedDescription = made.weights_desc();
    scratchDescription = made.scratchpad_desc();
    arguments.emplace(DNNL_ARG_SRC, memory(made.src_desc(), engine(), nullptr));
    arguments.emplace(DNNL_ARG_WEIGHTS, memory(packedDescription, engine(), nullptr));
    if (hasBias)
      arguments.emplace(DNNL_ARG_BIAS, memory(bias, engine(), nullptr));
    arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(scratchDescription, engine(), nullptr));
    arguments.emplace(DNNL_ARG_DST, memory(made.dst_desc(), engine(), nullptr));
    stream = dnnl::stream(engine());
  }

  /// Setting a handle makes the library zero the layout's padding, so it is done on change only.
  void place(int argument, const void *address) {
    memory &where = arguments.at(argument);
    if (where.get_data_handle() != address)
      where.set_data_handle(const_cast<void *>(address));
  }

  template <class Work>
  Status guarded(Work work) {
    try {
      work();
      return {};
    } catch (const dnnl::error &error) {
      return {Code::RankFailed, std::string("convolution: oneDNN says: ") + error.what()};
    }
  }

  unsigned threads = 1;
  dnnl::primitive primitive;
  dnnl::stream stream;
  memory::desc plainWeight, packedDescription, scratchDescription;
  std::unordered_map<int, memory> arguments;
};

} // namespace

Status createConvolution(const ConvolutionDescriptor &descriptor, unsigned threads,
                         std::unique_ptr<ConvolutionRoutine> &routine) {
  auto primitive = std::make_unique<Primitive>();
  try {
    COLOSSAL_RETURN_IF_ERROR(primitive->create(descriptor, threads));
  } catch (const dnnl::error &error) {
    return unsupported(std::string("oneDNN cannot do it here (") + error.what() + ")");
  }
  routine = std::move(primitive);
  return {};
}

void runOnLibraryThreads(unsigned threads, int64_t tiles, void (*body)(void *, unsigned, int64_t, int64_t),
                         void *context) {
  if (tiles <= 0)
    return;
  if (threads == 1 || tiles == 1) {
    body(context, 0, 0, tiles);
    return;
  }
  useThreads(threads);
  std::atomic<int64_t> next{0};
  const int64_t chunk = std::max<int64_t>(1, tiles / (int64_t(threads) * 4));
#pragma omp parallel num_threads(threads)
  {
    const auto thread = static_cast<unsigned>(omp_get_thread_num());
    for (int64_t begin; (begin = next.fetch_add(chunk, std::memory_order_relaxed)) < tiles;)
      body(context, thread, begin, std::min(begin + chunk, tiles));
  }
}

} // namespace colossal::runtime
