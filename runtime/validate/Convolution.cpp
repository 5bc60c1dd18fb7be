// A convolution's sizes against one another, so that the library is only asked for what can be.
#include "runtime/validate/Checker.h"

#include "colossal/Plan/DataType.h"

#include <set>

namespace colossal::runtime {

namespace {

/// Bytes spanned by a strided tensor; false if out of range.
bool spanBytes(const google::protobuf::RepeatedField<uint64_t> &sizes,
               const google::protobuf::RepeatedField<uint64_t> &strides, uint64_t elementBytes,
               uint64_t &bytes) {
  unsigned __int128 last = 0;
  for (int d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0 || sizes[d] > maxExtent || strides[d] > maxExtent)
      return false;
    last += static_cast<unsigned __int128>(sizes[d] - 1) * strides[d];
  }
  if (last > maxExtent)
    return false;
  bytes = (static_cast<uint64_t>(last) + 1) * elementBytes;
  return true;
}

} // namespace

Status checkConvolution(const plan::Convolution &c, ConvolutionBytes &bytes) {
  static const std::set<std::string> activations = {"",           "relu", "clip",   "leaky_relu", "elu",
                                                    "sigmoid",    "tanh", "silu",   "gelu_erf",   "gelu_tanh",
                                                    "hard_swish", "abs",  "square", "mish"};
  const uint64_t size = plan::elementBytes(c.type());
  const int rank = c.input_size(), spatial = rank - 2;
  if (size == 0 || spatial < 1 || spatial > 3)
    return invalid("convolution: its type is not valid or its spatial rank is not 1, 2 or 3");
  if (c.weight_size() != rank || c.output_size() != rank || c.input_strides_size() != rank ||
      c.output_strides_size() != rank || c.strides_size() != spatial || c.dilations_size() != spatial ||
      c.pads_begin_size() != spatial || c.pads_end_size() != spatial)
    return invalid("convolution: its shapes, strides, dilations and pads differ in rank");
  uint64_t weights;
  if (!spanBytes(c.input(), c.input_strides(), size, bytes.input) ||
      !spanBytes(c.output(), c.output_strides(), size, bytes.output) || !productWithin(c.weight(), weights) ||
      weights == 0)
    return invalid("convolution: a shape is empty or out of range");
  bytes.weight = weights * size;
  bytes.bias = c.output(1) * size;
  const uint64_t group = c.group();
  // The weight is [O, C/group, ...], or [C, O/group, ...] if transposed, as in ONNX.
  const uint64_t outer = c.transposed() ? c.input(1) : c.output(1),
                 inner = c.transposed() ? c.output(1) : c.input(1);
  if (group == 0 || outer % group != 0 || inner % group != 0 || c.weight(0) != outer ||
      c.weight(1) != inner / group || c.input(0) != c.output(0))
    return invalid("convolution: batch, channels, groups and weight do not agree");
  for (int d = 0; d < spatial; ++d) {
    const uint64_t limit = uint64_t(1) << 31;
    const auto inRange = [](int64_t pad) { return pad >= -(int64_t(1) << 31) && pad <= int64_t(1) << 31; };
    if (c.strides(d) == 0 || c.dilations(d) == 0 || c.strides(d) > limit || c.dilations(d) > limit ||
        !inRange(c.pads_begin(d)) || !inRange(c.pads_end(d)) || c.input(d + 2) > limit ||
        c.output(d + 2) > limit || c.weight(d + 2) > limit)
      return invalid("convolution: a stride, dilation, pad or extent is out of range");
    const auto window = static_cast<__int128>(c.weight(d + 2) - 1) * c.dilations(d) + 1;
    const auto wide = static_cast<__int128>(c.transposed() ? c.output(d + 2) : c.input(d + 2)) +
                      c.pads_begin(d) + c.pads_end(d);
    const uint64_t narrow = c.transposed() ? c.input(d + 2) : c.output(d + 2);
    // A transposed convolution may leave up to stride - 1 places over (ONNX's output padding).
    const __int128 exact = wide < window ? 0 : (wide - window) / c.strides(d) + 1;
    if (exact != static_cast<__int128>(narrow))
      return invalid("convolution: spatial extent " + std::to_string(d) +
                     " of the output does not follow from the input");
  }
  if (activations.count(c.activation()) == 0)
    return {Code::Unsupported, "convolution: unknown activation '" + c.activation() + "'"};
  if (c.algorithm() != "" && c.algorithm() != "direct" && c.algorithm() != "winograd" &&
      c.algorithm() != "auto")
    return {Code::Unsupported, "convolution: unknown algorithm '" + c.algorithm() + "'"};
  if (c.activation_args_size() > 2)
    return invalid("convolution: too many activation arguments");
  return {};
}

Status checkUnpackedConvolution(const plan::Convolution &c, ConvolutionBytes &bytes) {
  COLOSSAL_RETURN_IF_ERROR(checkConvolution(c, bytes));
  const bool narrow = c.type() == plan::F16 || c.type() == plan::BF16;
  const bool known = c.compute() == "f64"    ? c.type() == plan::F64
                     : c.compute() == "tf32" ? c.type() == plan::F32
                     : c.compute() == "f32"  ? c.type() == plan::F32 || narrow
                                             : false;
  if (!known)
    return {Code::Unsupported, "convolution: this runtime does not know its type together with the way '" +
                                   c.compute() + "' to compute"};
  if (c.transposed() || c.residual() || !c.algorithm().empty() || c.activation_args_size() > 0)
    return {Code::Unsupported,
            "convolution: with a weight that is not packed, it is transposed, adds a residual, "
            "names an algorithm or has an activation's arguments"};
  if (c.activation() != "" && !(c.activation() == "relu" && c.bias()))
    return {Code::Unsupported, "convolution: with a weight that is not packed, its activation '" +
                                   c.activation() + "' is not relu on a bias"};
  for (int d = 0; d < c.pads_begin_size(); ++d)
    if (c.pads_begin(d) < 0 || c.pads_end(d) < 0)
      return {Code::Unsupported, "convolution: with a weight that is not packed, it crops its input"};
  if (!isInjective({c.output().begin(), c.output().end()}, c.output_strides()))
    return invalid("convolution: elements of the output share their place");
  return {};
}

} // namespace colossal::runtime
